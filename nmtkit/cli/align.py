"""``nmtkit align``: word alignment of a data folder, and a lexicon from it."""

from pathlib import Path

from nmtkit.align.pharaoh import Quality
from nmtkit.cli.options import AsJson, log, print_json, say_next
from nmtkit.errors import counted
from nmtkit.workflow.align import AlignOptions, align_words

FEW = 1000  # entries of a lexicon


def align(options: AlignOptions, as_json: AsJson = False) -> None:
    """Align the words of the training text with eflomal, and make a lexicon from the links.

      nmtkit align
      nmtkit align --threshold 3
      nmtkit align --pharaoh links.txt
      nmtkit align --pharaoh links.txt --gold gold.txt

    This writes train.align and dev.align (links between whole words, BPE undone; with --pharaoh only train.align) and
    lexicon.tsv to the data folder. nmtkit translate --replace-unk takes the translations of unknown words from the
    lexicon, which nmtkit train copies into the model folder, so run nmtkit align before nmtkit train; with a model
    trained earlier, use --lexicon data/lexicon.tsv. nmtkit vocab --unkpos needs train.align. The default threshold
    suits millions of sentence pairs (Luong et al. 2015); a small corpus needs a lower one. eflomal samples at random,
    so two runs differ a little.

    With --gold, nothing is written: the links of --pharaoh, or of train.align in the data folder, are scored.
    """
    report, data = align_words(options), Path(options.data)
    if not isinstance(report, Quality):
        log.info(report)
        if options.threshold is None and report.entries < FEW:
            few = f"the lexicon has only {counted(report.entries, 'word pair')}"
            log.warning(f"{few}; a small corpus needs a lower --threshold, such as 3")
    if as_json:
        print_json(report)
    elif isinstance(report, Quality):
        precision, recall, aer = (f"{figure:.2%}" for figure in report)
        print(f"precision {precision}  recall {recall}  AER {aer}  ({options.links})")
    elif not (data / "ids.json").exists():  # else the text is encoded, and was aligned for the lexicon only
        say_next("vocab", ("-d", data, "data"))
