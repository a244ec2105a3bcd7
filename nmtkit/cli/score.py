"""``nmtkit score``: metrics of translations, each printed with what it means."""

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from nmtkit.cli.options import AS_JSON
from nmtkit.cli.tables import print_table
from nmtkit.workflow.score import ScoreOptions, score_systems

if TYPE_CHECKING:
    from nmtkit.evaluation.comparison import Comparison, Part

TESTS = {"bs": "paired bootstrap", "ar": "approximate randomisation"}


def score(options: ScoreOptions, as_json: Annotated[bool, replace(AS_JSON, before="data")] = False) -> None:
    """Score translations with tokenised BLEU (as in the papers), sacreBLEU, chrF and TER.

    Without files, the test set of the data folder is translated with the model and scored, together with the
    cross-entropy of the reference; the translations are kept in the model folder, as run/test.hyp.
    Files are plain text in the target language, one sentence per line.

    With the source, names are counted: capitalised words of the source that also occur in a reference, except words
    that begin a sentence and occur in lower case elsewhere; and how many of them occur in the translation. Names that
    are not in the target vocabulary, if it is known, are also counted by themselves.

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
        # Not in ASCII, for the names of files.
        print(json.dumps(_json(scores.comparison, scores.references), indent=2, ensure_ascii=False))
    else:
        _print(scores.comparison, scores.references, options)


def _print(comparison: "Comparison", refs: list[str], options: ScoreOptions) -> None:
    """Print the scores of all systems, the signatures of the metrics, and the other tables."""
    names = [system.name for system in comparison.systems]
    # All systems have the same metrics.
    metrics = [m.metric for m in comparison.measured[0]]
    scores = [
        [name, *(f"{m.score.value:.2f}" for m in ms)] for name, ms in zip(names, comparison.measured, strict=True)
    ]
    if comparison.spread:
        scores += [["mean", *(f"{mean:.2f}" for mean, _ in comparison.spread)]]
        scores += [["deviation", *(f"{deviation:.2f}" for _, deviation in comparison.spread)]]
    sentences = len(comparison.systems[0].words)
    print_table(f"{sentences} sentences, reference {', '.join(refs)}", ["system", *metrics], scores)
    print()
    # The signature of a significance test also has the number of samples.
    signatures = {d.metric: d.signature for d in comparison.differences}
    meanings = [[m.metric, m.on, signatures.get(m.metric, m.score.signature)] for m in comparison.measured[0]]
    print_table("metrics", ["metric", "computed on", "signature"], meanings)
    metric = comparison.subset_metric
    _print_parts(f"{metric} by length of the source in words", "words", comparison.bins, names)
    _print_parts(f"{metric} of sources longer than this many words", "words", comparison.longer, names)
    _print_parts(f"{metric} of the sentences whose references have no unknown word", "", comparison.unknown_free, names)
    _print_unknown(comparison)
    if options.paired:
        print()
        rows = [
            [d.metric, name, f"{t.score:.2f}", *(_cell(v, 2) for v in (t.mean, t.interval)), _cell(t.p, 4)]
            for d in comparison.differences
            for name, t in zip(names, d.tested, strict=True)
        ]
        title = f"{TESTS[options.paired]} against {names[0]}; p: a difference as large by chance"
        print_table(title, ["metric", "system", "score", "mean", "± 95 %", "p"], rows)
    for system in comparison.systems:
        if system.forced is not None:
            print()
            rows = [[unit, f"{value:.4f}"] for unit, value in system.forced.units().items()]
            # Comparable only if it is computed on the same pairs.
            limit = f" of at most {options.max_length} tokens a side" if options.max_length else ""
            tokens = f"{system.forced.sentences} sentences{limit}, {system.forced.tokens} tokens"
            print_table(f"cross-entropy of the reference, end marks included: {tokens}", ["unit", "value"], rows)


def _print_parts(title: str, kind: str, parts: "list[Part]", names: list[str]) -> None:
    """Print a table of parts of the test set with every system's value, if there are any.

    kind: the heading of the column of their names.
    """
    if parts:
        print()
        figures = [[f"{score:.2f}" for score in part.scores] or ["-"] * len(names) for part in parts]
        rows = [[part.name, str(part.sentences), *scores] for part, scores in zip(parts, figures, strict=True)]
        print_table(title, [kind, "sentences", *names], rows)


def _print_unknown(comparison: "Comparison") -> None:
    """Print the counts of unknown words and names of every system, if there are any."""
    from nmtkit.evaluation.comparison import unknown_columns

    if table := unknown_columns(comparison):
        print()
        rows = [
            [system.name, *cells]
            for system, cells in zip(comparison.systems, zip(*table.values(), strict=True), strict=True)
        ]
        print_table("unknown words, and names that also occur in a reference", ["system", *table], rows)


def _cell(value: float | None, digits: int) -> str:
    """A figure, or a blank cell where the test has none."""
    return "" if value is None else f"{value:.{digits}f}"


def _json(comparison: "Comparison", refs: list[str]) -> dict[str, Any]:
    """The comparison as plain values for scripts; parts that were not requested are empty."""
    systems = [
        {
            "hypothesis": system.name,
            "scores": {
                metric: {"score": score.value, "computed_on": on, "signature": score.signature}
                for metric, on, score in measured
            },
            "cross_entropy": system.forced and {**asdict(system.forced), **system.forced.units()},
            "unknown_words": system.unknown and system.unknown._asdict(),
            # Names of the source that also occur in a reference; None if source or vocabulary are unknown.
            "names": comparison.names[i]._asdict() if comparison.names else None,
            "unknown_names": comparison.unknown_names[i]._asdict() if comparison.unknown_names else None,
        }
        for i, (system, measured) in enumerate(zip(comparison.systems, comparison.measured, strict=True))
    ]
    metrics = [m.metric for m in comparison.measured[0]]
    return {
        "references": refs,
        "sentences": len(comparison.systems[0].words),
        "systems": systems,
        "subset_metric": comparison.subset_metric,
        "by_length": [part._asdict() for part in comparison.bins],
        "longer_than": [part._asdict() for part in comparison.longer],
        "unknown_free": [part._asdict() for part in comparison.unknown_free],
        "paired": {d.metric: {"signature": d.signature, "systems": [t._asdict() for t in d.tested]}
                   for d in comparison.differences},
        "seeds": {metric: {"mean": mean, "deviation": deviation}
                  for metric, (mean, deviation) in zip(metrics, comparison.spread, strict=False)},
    }  # fmt: skip
