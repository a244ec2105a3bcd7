"""``nmtkit score``: metrics of translations, each with its signature."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from nmtkit.cli.options import AS_JSON, print_json
from nmtkit.cli.tables import print_table
from nmtkit.errors import counted
from nmtkit.workflow.score import ScoreOptions, score_systems

if TYPE_CHECKING:
    from nmtkit.evaluation.comparison import Comparison


def score(options: ScoreOptions, as_json: Annotated[bool, replace(AS_JSON, before="data")] = False) -> None:
    """Score translations with tokenised BLEU (as in the papers), sacreBLEU, chrF and TER.

    Without files, the model translates the test set of the data folder, and the translations are scored and kept in the
    model folder, as run/test.hyp. The cross-entropy of the reference is also shown; it can be compared between models
    with the same target vocabulary and segmentation. Files are plain text in the target language, one sentence per
    line. For tokenised BLEU, they are tokenised with the data folder's tokenizer or, if there is none, with the Moses
    tokenizer.

    If the source is known, the command also counts names and how many of them are in the translation. Names are
    capitalised words of the source that also occur in a reference, except words that begin a sentence and occur in
    lower case elsewhere. Names that are not in the target vocabulary are also counted separately, if the vocabulary is
    known.

      nmtkit score
      nmtkit score --replace-unk
      nmtkit score --split dev --max-length 50
      nmtkit score output.txt reference.txt
      nmtkit score one.txt two.txt reference.txt --language de --source source.txt --paired bs
      nmtkit score seed1.txt seed2.txt seed3.txt reference.txt --seeds
      nmtkit score output.txt -r ref0 -r ref1 -r ref2 -r ref3
      nmtkit translate < test.en | nmtkit score - test.de

    Where a paper scores several test sets as one, concatenate them:

      nmtkit score <(cat a.hyp b.hyp) <(cat a.ref b.ref) --source <(cat a.src b.src) --subset-metric mteval-lc
    """
    scores = score_systems(options)
    if as_json:
        print_json(_json(scores.comparison, scores.references))
    else:
        _print(scores.comparison, scores.references, options)


def _print(comparison: "Comparison", refs: list[str], options: ScoreOptions) -> None:
    """Print the scores of all systems, the signatures of the metrics, and the tables that have data."""
    from nmtkit.evaluation.comparison import difference_rows, part_rows, tested_against, unknown_columns

    names = [system.name for system in comparison.systems]
    # All systems have the same metrics.
    metrics = [m.metric for m in comparison.measured[0]]
    rows = [[name, *(f"{m.score.value:.2f}" for m in ms)] for name, ms in zip(names, comparison.measured, strict=True)]
    if comparison.spread:
        rows += [["mean", *(f"{mean:.2f}" for mean, _ in comparison.spread)]]
        rows += [["deviation", *(f"{deviation:.2f}" for _, deviation in comparison.spread)]]
    sentences = counted(len(comparison.systems[0].words), "sentence")
    print_table(f"{sentences}, reference {', '.join(refs)}", ["system", *metrics], rows)
    # The signature of a significance test also has the number of samples.
    signatures = {d.metric: d.signature for d in comparison.differences}
    rows = [[m.metric, m.on, signatures.get(m.metric, m.score.signature)] for m in comparison.measured[0]]
    _print_more("metrics", ["metric", "computed on", "signature"], rows)
    metric = comparison.subset_metric
    for title, kind, parts in (
        (f"{metric} by length of the source in words", "words", comparison.bins),
        (f"{metric} of sources longer than this many words", "words", comparison.longer),
        (f"{metric} of the sentences whose references have no unknown word", "", comparison.unknown_free),
    ):
        _print_more(title, [kind, "sentences", *names], part_rows(parts, len(names)))
    columns = unknown_columns(comparison)
    rows = [[name, *cells] for name, *cells in zip(names, *columns.values(), strict=True)] if columns else []
    _print_more("unknown words, and names that also occur in a reference", ["system", *columns], rows)
    if options.paired:
        test = {"bs": "paired bootstrap", "ar": "approximate randomisation"}[options.paired]
        header = ["metric", "system", "score", "mean", "± 95 %", "p"]
        _print_more(f"{test} {tested_against(*names)}", header, difference_rows(comparison))
    for system in comparison.systems:
        if system.forced is not None:
            rows = [[unit, f"{value:.4f}"] for unit, value in system.forced.units().items()]
            # Comparable only if it is computed on the same pairs.
            limit = f" of at most {options.max_length} tokens per side" if options.max_length else ""
            tokens = f"{counted(system.forced.sentences, 'sentence')}{limit}, {counted(system.forced.tokens, 'token')}"
            tokens += f", {system.forced.unknown:,} of them unknown" if system.forced.unknown else ""
            _print_more(f"cross-entropy of the reference, EOS included: {tokens}", ["unit", "value"], rows)


def _print_more(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a blank line and a table, unless it has no rows."""
    if rows:
        print()
        print_table(title, header, rows)


def _json(comparison: "Comparison", refs: list[str]) -> dict[str, Any]:
    """The comparison for ``print_json``; tables without data are empty."""
    systems = [
        {
            "hypothesis": system.name,
            "scores": {
                metric: {"score": score.value, "computed_on": on, "signature": score.signature}
                for metric, on, score in measured
            },
            "cross_entropy": system.forced and {**vars(system.forced), **system.forced.units()},
            "unknown_words": system.unknown,
            # Names of the source that also occur in a reference; None without a source or a vocabulary.
            "names": comparison.names[i] if comparison.names else None,
            "unknown_names": comparison.unknown_names[i] if comparison.unknown_names else None,
        }
        for i, (system, measured) in enumerate(zip(comparison.systems, comparison.measured, strict=True))
    ]
    metrics = [m.metric for m in comparison.measured[0]]
    return {
        "references": refs,
        "sentences": len(comparison.systems[0].words),
        "systems": systems,
        "subset_metric": comparison.subset_metric,
        "by_length": comparison.bins,
        "longer_than": comparison.longer,
        "unknown_free": comparison.unknown_free,
        "paired": {d.metric: {"signature": d.signature, "systems": d.tested} for d in comparison.differences},
        "seeds": {metric: {"mean": mean, "deviation": deviation}
                  for metric, (mean, deviation) in zip(metrics, comparison.spread, strict=False)},
    }  # fmt: skip
