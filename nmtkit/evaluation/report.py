"""A report on trained systems as one HTML page: their training, their scores and their translations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from nmtkit.errors import UserError
from nmtkit.evaluation.bleu import sentence_chrf
from nmtkit.evaluation.charts import Series, heat_map, line_chart
from nmtkit.evaluation.comparison import Comparison, Part, unknown_columns
from nmtkit.evaluation.contrast import Accuracy
from nmtkit.evaluation.page import folded, note, page, table, terms, verbatim
from nmtkit.lines import raw_lines

# The numbers that each kind of record in metrics.jsonl must have for the charts.
DRAWN = {
    "train": ("update", "tokens", "loss", "lr_factor"),
    "valid": ("update", "cross_entropy", "token_error_rate", "bleu"),
    "epoch": ("update", "epoch"),
}


@dataclass(frozen=True)
class History:
    """A system and the records of its training; an average or an ensemble has none."""

    name: str
    architecture: str
    rate: float | None  # the optimiser's learning rate, by which factors in the records are multiplied
    config: str  # YAML
    parameters: int
    train: list[dict[str, Any]]  # of metrics.jsonl, in order
    valid: list[dict[str, Any]]
    test: list[dict[str, Any]]  # of checkpoints on the test set: update, cross_entropy, token_error_rate
    contrast: Mapping[str, list[Accuracy]]  # by type, distance and frequency; nothing without contrastive pairs

    @property
    def words(self) -> dict[int, int]:
        """Target words seen after each update that was logged."""
        return {record["update"]: record["tokens"] for record in self.train}

    @property
    def speeds(self) -> list[float]:
        """Target words a second of every record; runs of older versions have none."""
        return [record["tokens_per_second"] for record in self.train if "tokens_per_second" in record]


@dataclass(frozen=True)
class Look:
    """The attention weights of a system for a sentence, end-of-sentence marks included."""

    system: str
    source: list[str]
    target: list[str]
    weights: npt.NDArray[np.float32]  # (T, S) attention weights


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test set, and every system's translation."""

    number: int  # from 1
    source: str
    reference: str
    said: list[str]  # by each system
    chrf: list[float]  # of each of these, from 0 to 100

    @property
    def spread(self) -> float:
        """The difference between the best and the worst system."""
        return max(self.chrf) - min(self.chrf)

    @property
    def mean(self) -> float:
        """The mean chrF of the systems, which is low where all of them fail."""
        return sum(self.chrf) / len(self.chrf)


def read_metrics(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of training and of validations in ``metrics.jsonl``; none if it is not there, as in an average.

    Raises UserError for a line that training did not write, except a line cut off by a crash.
    """
    records: dict[str, list[dict[str, Any]]] = {kind: [] for kind in DRAWN}
    for number, line in enumerate(raw_lines(path) if path.exists() else (), 1):
        record = _record(line)
        if record is not None:
            records[record["kind"]].append(record)
        # A crash may cut off a line, which is removed when the run is resumed.
        elif line.endswith(b"\n"):
            raise UserError(f"{path}:{number}: not what nmtkit train writes; take the line out")
    return records["train"], records["valid"]


def _record(line: bytes) -> dict[str, Any] | None:
    """A line of metrics.jsonl, if it has the numbers that are drawn."""
    try:
        record: dict[str, Any] = json.loads(line)
        # Runs of older versions have not logged these.
        optional = ("train_token_error_rate", "tokens_per_second")
        numbers = [*(record.get(key, 0) for key in optional), *(record[key] for key in DRAWN[record["kind"]])]
        # Plain numbers only: true is an int to Python, and a longer one could not be drawn.
        return record if all(type(n) is float or (type(n) is int and n < 1 << 63) for n in numbers) else None
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
        return None


def sentences(sources: Sequence[str], comparison: Comparison) -> list[Sentence]:
    """Every sentence of the test set with what each system says; sentences are compared by chrF."""
    # A model's own translations have plain text always; only files of words have none.
    texts = [system.texts or [] for system in comparison.systems]
    refs = (comparison.systems[0].refs or [[]])[0]
    return [
        Sentence(number, source, ref, said, [sentence_chrf(text, ref) for text in said])
        for number, (source, ref, *said) in enumerate(zip(sources, refs, *texts, strict=True), 1)
    ]


def most_different(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """The sentences whose chrF differs most between systems, in descending order."""
    # The sort is stable: sentences that are equal keep the order of the test set.
    return sorted(sentences, key=lambda sentence: -sentence.spread)[:count]


def worst(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """The sentences with the lowest mean chrF, in ascending order."""
    return sorted(sentences, key=lambda sentence: sentence.mean)[:count]


def render(
    histories: Sequence[History],
    comparison: Comparison,
    looks: Sequence[tuple[Sentence, Sequence[Look]]],
    different: Sequence[Sentence],
    bad: Sequence[Sentence],
    subtitle: str,
) -> str:
    """The whole page.

    looks: sentences with the attention weights of the systems that have any. different, bad: sentences that are listed
    because the systems differ about them, or fail.
    """
    names = [history.name for history in histories]
    return page(
        "Translation systems: " + ", ".join(names),
        subtitle,
        [
            ("Scores", _scores(histories, comparison)),
            ("Training", training_charts(histories)),
            ("Contrastive accuracy", _contrast(histories)),
            ("By length of the source", _lengths(names, comparison)),
            ("Without unknown words", _unknown_free(names, comparison)),
            ("Unknown words and names", _unknown(names, comparison)),
            ("Are the differences due to chance?", _differences(names, comparison)),
            ("Attention", _looking(looks)),
            ("Most different", _listing(names, different) if len(names) > 1 else ""),
            ("Worst", _listing(names, bad)),
            ("Configurations", "".join(folded(history.name, verbatim(history.config)) for history in histories)),
        ],
    )


def _scores(histories: Sequence[History], comparison: Comparison) -> str:
    """A row for everything that is known of the systems, a column for each, so that phones can show it."""
    # By BLEU, whatever ranked the run's checkpoints: this is the row of the best BLEU.
    bests = [max(history.valid, key=lambda record: record["bleu"], default=None) for history in histories]
    rows = [
        ["architecture", *(history.architecture for history in histories)],
        ["parameters, M", *(f"{history.parameters / 1e6:.1f}" for history in histories)],
        ["training, target words/s", *(f"{median(h.speeds):,.0f}" if h.speeds else "-" for h in histories)],
        ["best dev BLEU", *("-" if best is None else f"{best['bleu']:.2f}" for best in bests)],
        ["at update", *("-" if best is None else f"{best['update']:,}" for best in bests)],
    ]
    for scores in zip(*comparison.measured, strict=True):
        rows.append([scores[0].metric, *(f"{m.score.value:.2f}" for m in scores)])
    forced = [system.forced.units() if system.forced else {} for system in comparison.systems]
    # Every unit that any system has, in the first one's order; the others show a dash.
    for unit in dict.fromkeys(unit for units in forced for unit in units):
        rows.append([unit, *(f"{units[unit]:.4f}" if unit in units else "-" for units in forced)])
    meaning = [[m.metric, m.on, m.score.signature] for m in comparison.measured[0]]
    text = (
        "More is better, except for TER and for the cross-entropy of the reference, which counts end-of-sentence marks."
    )
    return (
        table(["", *(history.name for history in histories)], rows)
        + note(text)
        + folded("What each number is", table(["metric", "computed on", "signature"], meaning, words=3))
    )


def training_charts(histories: Sequence[History]) -> str:
    """Charts of the training logs, a line for each run, and of checkpoints on the test set if they are known."""
    loss, by_words, bleu, rates, speeds, errors, both, test = [], [], [], [], [], [], [], []
    for colour, history in enumerate(histories):
        name, train, valid, words = history.name, history.train, history.valid, history.words
        # Validations are by update; how many words had been seen by then is in the records of training.
        seen = [(words[v["update"]], v["cross_entropy"]) for v in valid if v["update"] in words]
        known = [v for v in valid if "train_token_error_rate" in v]  # runs of older versions have no training errors
        trained = {v["update"]: 100 * v["train_token_error_rate"] for v in known}
        tested = [(trained[t["update"]], 100 * t["token_error_rate"]) for t in history.test if t["update"] in trained]
        loss.append(Series(f"{name}, train", _points(train, "loss"), colour, dashed=True))
        loss.append(Series(f"{name}, dev", _points(valid, "cross_entropy"), colour))
        # A colour of its own: checkpoints are few and may lie on the line of the development set.
        loss.append(Series(f"{name}, test", _points(history.test, "cross_entropy"), colour + len(histories)))
        by_words.append(Series(name, seen, colour))
        bleu.append(Series(name, _points(valid, "bleu"), colour))
        rates.append(Series(name, _points(train, "lr_factor", history.rate or 0), colour))
        speeds.append(
            Series(name, _points([t for t in train if "tokens_per_second" in t], "tokens_per_second"), colour)
        )
        errors.append(Series(f"{name}, dev", _points(valid, "token_error_rate", 100), colour))
        both.append(Series(name, [(trained[v["update"]], 100 * v["token_error_rate"]) for v in known], colour))
        test.append(Series(name, sorted(tested), colour))
    drawn = [
        ("Cross-entropy by updates", "updates", "nats per word", loss),
        ("Dev cross-entropy by words", "target words seen", "nats per word", by_words),
        ("Dev BLEU by updates", "updates", "BLEU (13a)", bleu),
        ("Learning rate", "updates", "learning rate", rates),
        ("Training speed", "updates", "target words per second", speeds),
        ("Token errors on the dev set", "updates", "% of words", errors),
        ("Token errors, dev against train", "train, % of words", "dev, % of words", both),
        ("Token errors, test against train", "train, % of words", "test, % of words", test),
    ]
    charts = [
        line_chart(title, x_label, y_label, series, x_names=(), from_zero="train" not in x_label)
        for title, x_label, y_label, series in drawn
    ]
    return f'<div class="charts">{"".join(charts)}</div>' if any(charts) else ""


def _points(records: Sequence[Mapping[str, Any]], key: str, times: float = 1) -> list[tuple[float, float]]:
    """A number of every record against its update."""
    return [(record["update"], times * record[key]) for record in records]


def _contrast(histories: Sequence[History]) -> str:
    """The contrastive accuracy of the systems: a chart by distance, and a table of everything."""
    if not any(history.contrast for history in histories):
        return ""
    names = [history.name for history in histories]
    # The sets are the same for all systems, and so are the kinds of errors in them.
    places = [accuracy.name for accuracy in histories[0].contrast.get("distance", [])]
    series = [
        Series(h.name, [(x, 100 * a.share) for x, a in enumerate(h.contrast.get("distance", []))], colour)
        for colour, h in enumerate(histories)
    ]
    chart = line_chart("Accuracy by distance", "distance in words", "%", series, x_names=places, from_zero=False)
    tables = ""
    for kind in histories[0].contrast:
        # One row for each kind of error, with the accuracy of every system.
        rows = zip(*(history.contrast[kind] for history in histories), strict=True)
        cells = [[row[0].name, f"{row[0].total:,}", *(f"{100 * a.share:.1f}" for a in row)] for row in rows]
        tables += table([kind, "pairs", *names], cells)
    text = "Of contrastive pairs: % in which the right translation is more probable than the one with an error."
    return note(text) + (f'<div class="charts">{chart}</div>' if chart else "") + tables


def _lengths(names: Sequence[str], comparison: Comparison) -> str:
    """The metric by the length of the source, as charts and below them as figures."""
    metric = comparison.subset_metric
    charts = [
        _length_chart(f"{metric} by length", "words of the source", names, metric, comparison.bins),
        _length_chart(
            f"{metric} of longer sources", "sources longer than that many words", names, metric, comparison.longer
        ),
    ]
    return f'<div class="charts">{"".join(charts)}</div>' + "".join(
        table(["words", "sentences", *names], [_cells(part) for part in parts])
        for parts in (comparison.bins, comparison.longer)
    )


def _length_chart(title: str, x_label: str, names: Sequence[str], metric: str, parts: Sequence[Part]) -> str:
    """A chart of the metric on parts of the test set, a line for each system."""
    series = [
        Series(name, [(place, part.scores[number]) for place, part in enumerate(parts)], number)
        for number, name in enumerate(names)
    ]
    return line_chart(title, x_label, metric, series, x_names=[part.name for part in parts], from_zero=False)


def _cells(part: Part) -> list[str]:
    """A part as a line of a table."""
    return [part.name, str(part.sentences), *(f"{score:.2f}" for score in part.scores)]


def _unknown_free(names: Sequence[str], comparison: Comparison) -> str:
    """The metric on the sentences without unknown words; nothing if these are not known."""
    if not comparison.unknown_free:
        return ""
    text = (
        f"{comparison.subset_metric} on the sentences in whose reference every word, or piece of a word, is in the "
        "target vocabulary."
    )
    # A list of one part: this subset has no complement that papers report.
    cells = [_cells(part) for part in comparison.unknown_free]
    return note(text) + table(["part of the test set", "sentences", *names], cells)


def _unknown(names: Sequence[str], comparison: Comparison) -> str:
    """The treatment of unknown words and names; nothing if there were none."""
    columns = unknown_columns(comparison)
    if not columns:
        return ""
    text = (
        "Names are capitalised words of the source that stand in the reference, too, but for first words of a sentence "
        "that occur without a capital elsewhere; those are kept that stand in the translation."
    )
    return note(text) + table(["", *names], [[heading, *cells] for heading, cells in columns.items()])


def _differences(names: Sequence[str], comparison: Comparison) -> str:
    """The significance tests; nothing for a single system."""
    rows = [
        [d.metric, name, *("-" if value is None else f"{value:.2f}" for value in t[:3]),
         "-" if t.p is None else f"{t.p:.4f}"]
        for d in comparison.differences
        for name, t in zip(names, d.tested, strict=True)
    ]  # fmt: skip
    if not rows:
        return ""
    text = f"Every system against {names[0]}. p: how often chance alone would make a difference as large."
    signatures = [[d.metric, d.signature] for d in comparison.differences]
    return (
        note(text)
        + table(["metric", "system", "score", "mean", "± 95 %", "p"], rows, words=2)
        + folded("Signatures", table(["metric", "signature"], signatures, words=2))
    )


def _looking(looks: Sequence[tuple[Sentence, Sequence[Look]]]) -> str:
    """The attention weights of every sentence that was chosen."""
    text = (
        "Rows are target words, columns source words. The stronger a square's colour, the more of its row's attention "
        "weight is there."
    )
    return note(text) + "".join(_look(sentence, maps) for sentence, maps in looks) if looks else ""


def _look(sentence: Sentence, looks: Sequence[Look]) -> str:
    """One sentence with a map for every system that has attention."""
    maps = "".join(heat_map(look.system, look.source, look.target, look.weights) for look in looks)
    beside = terms([("source", sentence.source), ("reference", sentence.reference)])
    return f'<h3>Sentence {sentence.number}</h3>{beside}<div class="charts">{maps}</div>'


def _listing(names: Sequence[str], sentences: Sequence[Sentence]) -> str:
    """The sentences with what every system says."""
    return note("chrF of the sentence stands behind each system's name.") + "".join(
        terms(
            [
                (f"sentence {s.number}: source", s.source),
                ("reference", s.reference),
                *((f"{name} ({chrf:.1f})", text) for name, chrf, text in zip(names, s.chrf, s.said, strict=True)),
            ]
        )
        for s in sentences
    )
