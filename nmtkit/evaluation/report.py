"""A report on trained systems: how they were trained, what they score, and what they say, as one page of HTML."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmtkit.errors import UserError
from nmtkit.evaluation.bleu import sentence_chrf
from nmtkit.evaluation.charts import Series, heat_map, line_chart
from nmtkit.evaluation.comparison import Comparison, Part
from nmtkit.evaluation.page import folded, note, page, table, terms
from nmtkit.lines import raw_lines

# The numbers that each kind of record in metrics.jsonl must have for the charts.
DRAWN = {
    "train": ("update", "tokens", "loss", "lr_factor"),
    "valid": ("update", "cross_entropy", "token_error_rate", "bleu"),
    "epoch": ("update", "epoch"),
}


@dataclass(frozen=True)
class History:
    """What a run wrote while it trained."""

    name: str
    architecture: str
    rate: float | None  # the optimiser's, which each record says a multiple of; none without records
    config: str  # YAML
    parameters: int
    train: list[dict[str, Any]]  # of metrics.jsonl, in order
    valid: list[dict[str, Any]]

    @property
    def words(self) -> dict[int, int]:
        """Target words seen after each update that was logged."""
        return {record["update"]: record["tokens"] for record in self.train}


@dataclass(frozen=True)
class Look:
    """Where a system looked while it translated a sentence; end marks included."""

    system: str
    source: list[str]
    target: list[str]
    weights: npt.NDArray[np.float32]  # (target, source)


@dataclass(frozen=True)
class Sentence:
    number: int  # from 1
    source: str
    reference: str
    said: list[str]  # by each system
    chrf: list[float]

    @property
    def spread(self) -> float:
        return max(self.chrf) - min(self.chrf)

    @property
    def mean(self) -> float:
        return sum(self.chrf) / len(self.chrf)


def read_metrics(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What training and validations logged in ``metrics.jsonl``; nothing if it is not there, as in an average.

    Raises UserError for a line that training did not write, unless it is the half line of a process that was killed.
    """
    records: dict[str, list[dict[str, Any]]] = {kind: [] for kind in DRAWN}
    for number, line in enumerate(raw_lines(path) if path.exists() else (), 1):
        record = _record(line)
        if record is not None:
            records[record["kind"]].append(record)
        elif line.endswith(b"\n"):
            raise UserError(f"{path}:{number}: not what nmtkit train writes; take the line out")
    return records["train"], records["valid"]


def _record(line: bytes) -> dict[str, Any] | None:
    """A line of metrics.jsonl, if it has the numbers that are drawn."""
    try:
        record: dict[str, Any] = json.loads(line)
        numbers = [record.get("train_token_error_rate", 0), *(record[key] for key in DRAWN[record["kind"]])]
        return record if all(type(n) is float or (type(n) is int and n < 1 << 63) for n in numbers) else None
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
        return None


def sentences(sources: Sequence[str], comparison: Comparison) -> list[Sentence]:
    """Every sentence of the test set with what each system says; sentences are compared by chrF."""
    texts = [system.texts or [] for system in comparison.systems]
    refs = (comparison.systems[0].refs or [[]])[0]
    return [
        Sentence(number, source, ref, said, [sentence_chrf(text, ref) for text in said])
        for number, (source, ref, *said) in enumerate(zip(sources, refs, *texts, strict=True), 1)
    ]


def most_different(found: Sequence[Sentence], count: int) -> list[Sentence]:
    return sorted(found, key=lambda sentence: -sentence.spread)[:count]


def worst(found: Sequence[Sentence], count: int) -> list[Sentence]:
    return sorted(found, key=lambda sentence: sentence.mean)[:count]


def render(
    histories: Sequence[History],
    comparison: Comparison,
    looks: Sequence[tuple[Sentence, Sequence[Look]]],
    different: Sequence[Sentence],
    bad: Sequence[Sentence],
    subtitle: str,
) -> str:
    names = [history.name for history in histories]
    return page(
        "Translation systems: " + ", ".join(names),
        subtitle,
        [
            ("Scores", _scores(histories, comparison)),
            ("Training", training_charts(histories)),
            ("By length of the source", _lengths(names, comparison)),
            ("Without unknown words", _unknown_free(names, comparison)),
            ("Are the differences chance?", _differences(names, comparison)),
            ("Where they look", _looking(looks)),
            ("Most different", _listing(names, different) if len(names) > 1 else ""),
            ("Worst", _listing(names, bad)),
            ("Configurations", "".join(folded(history.name, history.config) for history in histories)),
        ],
    )


def _scores(histories: Sequence[History], comparison: Comparison) -> str:
    measured = comparison.measured
    rows = []
    for history, scores in zip(histories, measured, strict=True):
        best = max(history.valid, key=lambda record: record["bleu"], default=None)
        dev = "-" if best is None else f"{best['bleu']:.2f} at {best['update']:,}"
        values = [f"{m.score.value:.2f}" for m in scores]
        rows.append([history.name, history.architecture, f"{history.parameters / 1e6:.1f}", dev, *values])
    header = ["system", "architecture", "parameters, M", "best dev BLEU, update", *(m.metric for m in measured[0])]
    meaning = [[m.metric, m.on, m.score.signature] for m in measured[0]]
    forced = [
        [h.name, f"{s.forced.per_sentence:.3f}", f"{s.forced.per_token:.4f}", f"{s.forced.bits_per_token:.4f}",
         f"{s.forced.perplexity:.3f}"]
        for h, s in zip(histories, comparison.systems, strict=True) if s.forced
    ]  # fmt: skip
    entropy = ["system", "nats per sentence", "nats per token", "bits per token", "perplexity"]
    return (
        table(header, rows, words=2)
        + note("All but TER: more is better. What each number is:")
        + table(["metric", "computed on", "signature"], meaning, words=3)
        + (note("Cross-entropy of the reference, end marks included.") + table(entropy, forced) if forced else "")
    )


def training_charts(histories: Sequence[History]) -> str:
    loss, by_words, bleu, rates, errors, both = [], [], [], [], [], []
    for colour, history in enumerate(histories):
        name, train, valid, words = history.name, history.train, history.valid, history.words
        seen = [(words[v["update"]], v["cross_entropy"]) for v in valid if v["update"] in words]
        shares = [  # runs of older versions have no training errors
            (100 * v["train_token_error_rate"], 100 * v["token_error_rate"])
            for v in valid
            if "train_token_error_rate" in v
        ]
        loss.append(Series(f"{name}, train", _points(train, "loss"), colour, dashed=True))
        loss.append(Series(f"{name}, dev", _points(valid, "cross_entropy"), colour))
        by_words.append(Series(name, seen, colour))
        bleu.append(Series(name, _points(valid, "bleu"), colour))
        rates.append(Series(name, _points(train, "lr_factor", history.rate or 0), colour))
        errors.append(Series(f"{name}, dev", _points(valid, "token_error_rate", 100), colour))
        both.append(Series(name, shares, colour))
    charts = [
        line_chart("Cross-entropy by updates", "updates", "nats per word", loss),
        line_chart("Dev cross-entropy by words", "target words seen", "nats per word", by_words),
        line_chart("Dev BLEU by updates", "updates", "BLEU (13a)", bleu),
        line_chart("Learning rate", "updates", "learning rate", rates),
        line_chart("Token errors on the dev set", "updates", "% of words", errors),
        line_chart("Token errors, dev against train", "train, % of words", "dev, % of words", both),
    ]
    return f'<div class="charts">{"".join(charts)}</div>' if any(charts) else ""


def _points(records: Sequence[Mapping[str, Any]], key: str, times: float = 1) -> list[tuple[float, float]]:
    return [(record["update"], times * record[key]) for record in records]


def _lengths(names: Sequence[str], comparison: Comparison) -> str:
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
    series = [
        Series(name, [(place, part.scores[number]) for place, part in enumerate(parts)], number)
        for number, name in enumerate(names)
    ]
    return line_chart(title, x_label, metric, series, [part.name for part in parts])


def _cells(part: Part) -> list[str]:
    return [part.name, str(part.sentences), *(f"{score:.2f}" for score in part.scores)]


def _unknown_free(names: Sequence[str], comparison: Comparison) -> str:
    if not comparison.unknown_free:
        return ""
    text = (
        f"{comparison.subset_metric} on the sentences in whose reference every word, or piece of a word, is in the "
        "target vocabulary."
    )
    cells = [_cells(part) for part in comparison.unknown_free]
    return note(text) + table(["part of the test set", "sentences", *names], cells)


def _differences(names: Sequence[str], comparison: Comparison) -> str:
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
        + table(["metric", "signature"], signatures, words=2)
    )


def _looking(looks: Sequence[tuple[Sentence, Sequence[Look]]]) -> str:
    text = "Rows are target words, columns source words. The darker a square, the more of its row's attention is there."
    return note(text) + "".join(_look(sentence, maps) for sentence, maps in looks) if looks else ""


def _look(sentence: Sentence, looks: Sequence[Look]) -> str:
    maps = "".join(heat_map(look.system, look.source, look.target, look.weights) for look in looks)
    beside = terms([("source", sentence.source), ("reference", sentence.reference)])
    return f'<h3>Sentence {sentence.number}</h3>{beside}<div class="charts">{maps}</div>'


def _listing(names: Sequence[str], found: Sequence[Sentence]) -> str:
    return note("chrF of the sentence stands behind each system's name.") + "".join(
        terms(
            [
                (f"sentence {s.number}: source", s.source),
                ("reference", s.reference),
                *((f"{name} ({chrf:.1f})", text) for name, chrf, text in zip(names, s.chrf, s.said, strict=True)),
            ]
        )
        for s in found
    )
