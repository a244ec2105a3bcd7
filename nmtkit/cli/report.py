"""``nmtkit report``: one page about trained systems."""

from nmtkit.workflow.report import ReportOptions, write_report


def report(options: ReportOptions) -> None:
    """Write a report about models as one self-contained HTML page.

    The page has training curves, metrics, significance, results by sentence length, attention weights, and translations
    side by side. Every model translates the test set of the data folder, and is compared with the first model. The page
    needs no network; it can be sent, printed, and read on a phone. For --checkpoints, training.keep_last sets how many
    of the newest checkpoints a run keeps.

      nmtkit report
      nmtkit report run-rnnsearch run-deep-att run-dtmt -o report.html --lines 3,14
      nmtkit report run --checkpoints --contrast lingeval97.json --type subj_verb_agreement
    """
    print(write_report(options))
