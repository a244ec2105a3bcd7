"""Comparison of systems on a test set: all metrics, subsets of the test set, and significance tests."""

import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import NamedTuple, TypeAlias

from nmtkit.align.posunk import Unknown
from nmtkit.errors import UserError, counted
from nmtkit.evaluation.bleu import WORD_METRICS, References, Score, score, text_metrics
from nmtkit.evaluation.forced import CrossEntropy
from nmtkit.evaluation.names import Names, names_kept
from nmtkit.evaluation.significance import Test, Tested, paired_test
from nmtkit.evaluation.subsets import Subset, length_bins, longer_than

Input: TypeAlias = tuple[str, list[str], References]  # for a metric: tokenisation, hypotheses and references

# With p <= 0.05, the bootstrap calls equally good systems different in 5 % of test sets of 100 sentences, in 6 % of
# those of 50, 10 % of 10 and 45 % of 2 (simulated); approximate randomisation in at most 5 % of any.
_ENOUGH_SENTENCES = 50

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class System:
    """A system's translations of a test set, and the references in the same tokenisation."""

    name: str
    on: str  # its tokenisation, such as "Moses words (en)"
    words: list[str]  # tokenised translations
    ref_words: list[list[str]]  # tokenised references
    texts: list[str] | None = None  # translations as plain text; None for tokenised files
    refs: list[list[str]] | None = None
    forced: CrossEntropy | None = None  # that of the first reference; None for files
    unknown: Unknown | None = None  # in the translations, if known
    language: str = "en"  # of the translations


class Compared(NamedTuple):
    """The input of a comparison: the systems and the test set."""

    systems: Sequence[System]
    sources: Sequence[Sequence[str]]  # the words of each source sentence, cased; empty without source text
    free: Subset | None  # the sentences without unknown words; None without a vocabulary
    known: Container[str] | None  # the target vocabulary


class Measured(NamedTuple):
    """The score of a system by one metric."""

    metric: str
    on: str  # the tokenisation, or "plain text"
    score: Score


class Part(NamedTuple):
    """A subset of the test set, and the score of each system on it."""

    name: str
    sentences: int
    scores: list[float]  # empty for an empty subset


class Difference(NamedTuple):
    """The significance tests of all systems for one metric."""

    metric: str
    signature: str
    tested: list[Tested]  # one per system


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison."""

    systems: Sequence[System]
    measured: list[list[Measured]]  # the scores of each system
    subset_metric: str  # the metric of the next three
    bins: list[Part]  # disjoint, by source length
    longer: list[Part]  # nested, by source length
    unknown_free: list[Part]  # at most one
    names: list[Names]  # of each system; empty without source text
    unknown_names: list[Names]  # only names that are not in the target vocabulary; empty without a vocabulary
    differences: list[Difference]  # from the first system, by metric
    spread: list[tuple[float, float]]  # mean and sample standard deviation over the systems, by metric


def compare(compared: Compared, test: Test | None, seeds: bool, subset_metric: str) -> Comparison:
    """Compare systems on a test set and, by ``subset_metric``, on subsets of it.

    test: the significance test against the first system. seeds: the systems are runs of one system with several seeds.
    Raises UserError for an unknown metric, and for a metric of plain text if the systems are tokenised files.
    """
    systems, inputs = compared.systems, [_inputs(system) for system in compared.systems]
    if subset_metric not in inputs[0]:  # all systems have plain text, or none has
        raise UserError(f"`subset_metric` {subset_metric}: not one of {', '.join(inputs[0])}")
    if test == "bs" and len(systems[0].words) < _ENOUGH_SENTENCES:
        log.warning(
            "nmtkit: %s: with fewer than %d, the bootstrap's p and intervals are too small; set `paired` to ar",
            counted(len(systems[0].words), "sentence"), _ENOUGH_SENTENCES,
        )  # fmt: skip
    measured = [
        [Measured(metric, on, score(metric, hyps, refs)) for metric, (on, hyps, refs) in of_system.items()]
        for of_system in inputs
    ]
    of_parts = [of_system[subset_metric] for of_system in inputs]
    by_metric = [[m.score.value for m in scores] for scores in zip(*measured, strict=True)]
    lengths = [len(words) for words in compared.sources]
    named = systems if compared.sources else []
    return Comparison(
        systems,
        measured,
        subset_metric=subset_metric,
        bins=[_part(subset, subset_metric, of_parts) for subset in length_bins(lengths)],
        longer=[_part(subset, subset_metric, of_parts) for subset in longer_than(lengths)],
        unknown_free=[_part(compared.free, subset_metric, of_parts)] if compared.free else [],
        names=[_names_kept(compared, system, ()) for system in named],
        unknown_names=[_names_kept(compared, system, compared.known) for system in named if compared.known is not None],
        differences=_differences(inputs, test) if test else [],
        spread=[(mean(values), stdev(values)) for values in by_metric] if seeds else [],
    )


def unknown_columns(comparison: Comparison) -> dict[str, list[str]]:
    """The columns of a table of unknown words and names, with a cell for each system.

    Columns without data are left out: all of them if there is no unknown word and no name.
    """
    unknown = [system.unknown for system in comparison.systems if system.unknown is not None]
    columns = dict[str, list[str]]()
    if any(any(counts) for counts in unknown):
        for name, figures in zip(Unknown._fields, zip(*unknown, strict=True), strict=True):
            columns[f"unknown words {name}"] = ["-" if figure is None else str(figure) for figure in figures]
    headings = {"names kept": comparison.names, "of these, not in the vocabulary": comparison.unknown_names}
    for heading, names in headings.items():
        if any(count.total for count in names):
            columns[heading] = [f"{count.kept} of {count.total}" for count in names]
    return columns


def part_rows(parts: Sequence[Part], systems: int) -> list[list[str]]:
    """The rows of a table of subsets: name, number of sentences, and the score of each system."""
    scores = [[f"{score:.2f}" for score in part.scores] or ["-"] * systems for part in parts]
    return [[part.name, str(part.sentences), *cells] for part, cells in zip(parts, scores, strict=True)]


def difference_rows(comparison: Comparison) -> list[list[str]]:
    """The rows of a table of significance tests: metric, system, and the fields of ``Tested``."""
    return [
        [d.metric, system.name, *("-" if value is None else f"{value:.2f}" for value in tested[:3]),
         "-" if tested.p is None else f"{tested.p:.4f}"]
        for d in comparison.differences
        for system, tested in zip(comparison.systems, d.tested, strict=True)
    ]  # fmt: skip


def tested_against(first: str, *others: str) -> str:
    """A caption for the table of ``difference_rows`` of systems with these names."""
    alone = ", not corrected for several comparisons" if len(others) > 1 else ""
    return f"against {first}; p: probability of a difference at least as large by chance{alone}"


def _part(subset: Subset, metric: str, inputs: Sequence[Input]) -> Part:
    """A subset of the test set with the score of each system on it."""
    if not subset.numbers:
        return Part(subset.name, 0, [])
    scores = [score(metric, subset.of(hyps), [subset.of(ref) for ref in refs]).value for _, hyps, refs in inputs]
    return Part(subset.name, len(subset.numbers), scores)


def _names_kept(compared: Compared, system: System, but: Container[str]) -> Names:
    """How many names a system keeps, except those in ``but``."""
    refs = [list(map(str.split, ref)) for ref in system.ref_words]
    return names_kept(compared.sources, refs, list(map(str.split, system.words)), but)


def _differences(inputs: Sequence[Mapping[str, Input]], test: Test) -> list[Difference]:
    """Significance tests of every system against the first, for all metrics for which they have equal references."""
    results = []
    for metric, (_, _, refs) in inputs[0].items():
        texts = [of_system[metric] for of_system in inputs]
        # Tokenised references differ if the models tokenise differently.
        if all(theirs == refs for _, _, theirs in texts):
            results.append(Difference(metric, *paired_test(test, metric, [hyps for _, hyps, _ in texts], refs)))
    return results


def _inputs(system: System) -> Mapping[str, Input]:
    """The input of each metric for a system."""
    inputs: dict[str, Input] = dict.fromkeys(WORD_METRICS, (system.on, system.words, system.ref_words))
    if system.texts is not None and system.refs is not None:
        inputs |= dict.fromkeys(text_metrics(system.language), ("plain text", system.texts, system.refs))
    return inputs
