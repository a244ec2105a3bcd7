"""Systems side by side on one test set: every metric, parts of the set, and tests of the differences."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nmtkit.errors import UserError
from nmtkit.evaluation.bleu import TEXT_METRICS, WORD_METRICS, References, Score, score
from nmtkit.evaluation.forced import CrossEntropy
from nmtkit.evaluation.names import Names, UnknownWords, names_kept
from nmtkit.evaluation.significance import Test, Tested, mean_and_deviation, paired_test
from nmtkit.evaluation.subsets import Subset, length_bins, longer_than


@dataclass(frozen=True)
class System:
    """A system's translations of a test set, with the references in the same tokenisation."""

    name: str
    on: str  # what its words are, as "Moses words (en)"
    words: list[str]  # of each sentence, with spaces between
    ref_words: list[list[str]]  # of each reference
    texts: list[str] | None = None  # plain text, if there is any
    refs: list[list[str]] | None = None
    forced: CrossEntropy | None = None  # of the first reference, if there is a model
    unknown: UnknownWords | None = None  # in its translations, if known


class Compared(NamedTuple):
    """The input of a comparison: systems on one test set, and what is known of its sentences."""

    systems: Sequence[System]
    sources: Sequence[Sequence[str]]  # the words of each, cased; empty if unknown
    free: Subset | None  # the sentences without unknown words, if known
    known: Container[str] | None  # the target vocabulary, if known


class Measured(NamedTuple):
    """The value of one metric for one system."""

    metric: str
    on: str  # words, as a system has them, or plain text
    score: Score


class Part(NamedTuple):
    """A subset of the test set, and one metric's score for every system on it."""

    name: str
    sentences: int
    scores: list[float]  # none where there are no sentences


class Difference(NamedTuple):
    """The result of a significance test of all systems, by one metric."""

    metric: str
    signature: str
    tested: list[Tested]  # the systems


@dataclass(frozen=True)
class Comparison:
    """All results of comparing systems."""

    systems: Sequence[System]
    measured: list[list[Measured]]  # of each system
    subset_metric: str  # of the three that follow
    bins: list[Part]  # by length of the source, disjoint
    longer: list[Part]  # by length of the source, nested
    unknown_free: list[Part]  # one, or none
    names: list[Names]  # of each system; empty without sources
    unknown_names: list[Names]  # of these, the names that the target vocabulary does not have
    differences: list[Difference]  # of the systems to the first, by metric
    spread: list[tuple[float, float]]  # mean and standard deviation of each metric


def compare(compared: Compared, test: Test | None, seeds: bool, subset_metric: str) -> Comparison:
    """Compare systems on a test set and, by ``subset_metric``, on parts of it.

    test: of the differences to the first system. seeds: the systems are one, trained several times. Raises UserError
    for a metric that is unknown, or that is of plain text where there is none.
    """
    systems = compared.systems
    # All systems have plain text or none has: what the first one allows is possible for all.
    known = list(_metrics(systems[0]))
    if subset_metric not in known:
        raise UserError(f"`subset_metric` {subset_metric}: not one of {', '.join(known)}")
    measured = [measure(system) for system in systems]
    by_metric = [[m.score.value for m in scores] for scores in zip(*measured, strict=True)]
    lengths = [len(words) for words in compared.sources]
    named = systems if compared.sources else []
    return Comparison(
        systems,
        measured,
        subset_metric=subset_metric,
        bins=[part(systems, subset, subset_metric) for subset in length_bins(lengths)],
        longer=[part(systems, subset, subset_metric) for subset in longer_than(lengths)],
        unknown_free=[part(systems, compared.free, subset_metric)] if compared.free else [],
        names=[_names_kept(compared, system, ()) for system in named],
        unknown_names=[_names_kept(compared, system, compared.known) for system in named if compared.known is not None],
        differences=differences(systems, test) if test else [],
        spread=[mean_and_deviation(values) for values in by_metric] if seeds else [],
    )


def unknown_columns(comparison: Comparison) -> dict[str, list[str]]:
    """Columns of a table: what became of unknown words and of names, a cell for each system.

    There are those about which something is known, and none where there is nothing to tell: no unknown word, no name.
    """
    unknown = [system.unknown for system in comparison.systems if system.unknown is not None]
    columns = dict[str, list[str]]()
    if any(any(counts) for counts in unknown):
        for name, figures in zip(UnknownWords._fields, zip(*unknown, strict=True), strict=True):
            columns[f"unknown words {name}"] = ["-" if figure is None else str(figure) for figure in figures]
    for heading, names in (
        ("names kept", comparison.names),
        ("of these, not in the vocabulary", comparison.unknown_names),
    ):
        if any(count.total for count in names):
            columns[heading] = [f"{count.kept} of {count.total}" for count in names]
    return columns


def measure(system: System) -> list[Measured]:
    """The values of every metric that what is known of the system allows."""
    return [Measured(name, on, score(name, hyps, refs)) for name, (on, hyps, refs) in _metrics(system).items()]


def part(systems: Sequence[System], subset: Subset, metric: str) -> Part:
    """A subset of the test set with the metric computed on it; an empty one has no scores."""
    if not subset.numbers:
        return Part(subset.name, 0, [])
    values = []
    for system in systems:
        _, hyps, refs = _metrics(system)[metric]
        values.append(score(metric, subset.of(hyps), [subset.of(ref) for ref in refs]).value)
    return Part(subset.name, len(subset.numbers), values)


def _names_kept(compared: Compared, system: System, but: Container[str]) -> Names:
    """The names that a system keeps, apart from those in ``but``."""
    refs = [list(map(str.split, ref)) for ref in system.ref_words]
    return names_kept(compared.sources, refs, list(map(str.split, system.words)), but)


def differences(systems: Sequence[System], test: Test) -> list[Difference]:
    """Every system tested against the first, by the metrics that have one kind of words for all of them."""
    results = []
    for metric, (_, _, refs) in _metrics(systems[0]).items():
        if any(_metrics(system)[metric][2] != refs for system in systems):
            continue  # models with words of their own have references of their own
        signature, tested = paired_test(test, metric, [_metrics(system)[metric][1] for system in systems], refs)
        results.append(Difference(metric, signature, tested))
    return results


def _metrics(system: System) -> Mapping[str, tuple[str, list[str], References]]:
    """The input of each metric: what it is computed on, the hypotheses and the references."""
    of_words: tuple[str, list[str], References] = (system.on, system.words, system.ref_words)
    if system.texts is None or system.refs is None:
        return dict.fromkeys(WORD_METRICS, of_words)
    of_text: tuple[str, list[str], References] = ("plain text", system.texts, system.refs)
    return {**dict.fromkeys(WORD_METRICS, of_words), **dict.fromkeys(TEXT_METRICS, of_text)}
