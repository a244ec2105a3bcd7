"""The HTML report on trained systems: training curves, scores and translations."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from nmtkit.errors import UserError
from nmtkit.evaluation.bleu import sentence_chrf
from nmtkit.evaluation.charts import Series, line_chart
from nmtkit.evaluation.comparison import Comparison, difference_rows, part_rows, tested_against, unknown_columns
from nmtkit.evaluation.contrast import Accuracy
from nmtkit.evaluation.page import folded, note, page, table, terms, verbatim
from nmtkit.lines import raw_lines

# The keys that the charts need in each kind of record in metrics.jsonl.
DRAWN = {
    "train": ("update", "tokens", "loss", "lr_factor"),
    "valid": ("update", "cross_entropy", "token_error_rate", "bleu"),
    "epoch": ("update", "epoch"),
}


@dataclass(frozen=True)
class History:
    """A system and the log of its training, which is empty for an average or an ensemble."""

    name: str
    architecture: str
    rate: float | None  # the base learning rate
    config: str  # YAML
    parameters: int
    train: list[dict[str, Any]]  # records of metrics.jsonl, in order
    valid: list[dict[str, Any]]
    test: list[dict[str, Any]]  # update, cross_entropy and token_error_rate of checkpoints on the test set
    contrast: Mapping[str, list[Accuracy]]  # by type, distance and frequency; empty without contrastive sets
    measured: str = "-"  # how BLEU and chrF2 of the validations are computed, if it is known


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test set and its translations."""

    number: int  # from 1
    source: str
    reference: str
    said: list[str]  # the translation of each system
    chrf: list[float]  # of each translation, from 0 to 100


def read_metrics(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The training and validation records in ``metrics.jsonl``; empty if the file does not exist, as in an average.

    Raises UserError for a line that ``nmtkit train`` does not write. An incomplete last line is ignored.
    """
    records: dict[str, list[dict[str, Any]]] = {kind: [] for kind in DRAWN}
    for number, line in enumerate(raw_lines(path) if path.exists() else (), 1):
        record = _record(line)
        if record is not None:
            records[record["kind"]].append(record)
        # A crash may cut off the last line; resuming the run removes it.
        elif line.endswith(b"\n"):
            raise UserError(f"{path}:{number}: not what nmtkit train writes; delete the line")
    return records["train"], records["valid"]


def _record(line: bytes) -> dict[str, Any] | None:
    """A record of metrics.jsonl; None if it lacks a number that the charts need."""
    try:
        record: dict[str, Any] = json.loads(line)
        # Older versions did not log these keys.
        optional = ("train_token_error_rate", "tokens_per_second", "lr", "chrf2")
        numbers = [*(record.get(key, 0) for key in optional), *(record[key] for key in DRAWN[record["kind"]])]
        # Not isinstance, because True is an int; a larger int does not fit into a float.
        return record if all(type(n) is float or (type(n) is int and n < 1 << 63) for n in numbers) else None
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
        return None


def sentences(sources: Sequence[str], comparison: Comparison) -> list[Sentence]:
    """The sentences of the test set with the translations of all systems."""
    # Only systems that are tokenised files have no plain text.
    texts = [system.texts or [] for system in comparison.systems]
    refs = (comparison.systems[0].refs or [[]])[0]
    return [
        Sentence(number, source, ref, said, [sentence_chrf(text, ref) for text in said])
        for number, (source, ref, *said) in enumerate(zip(sources, refs, *texts, strict=True), 1)
    ]


def most_different(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """The sentences whose chrF differs most between systems, in descending order."""
    return sorted(sentences, key=lambda sentence: min(sentence.chrf) - max(sentence.chrf))[:count]


def render(
    histories: Sequence[History],
    comparison: Comparison,
    looks: Sequence[tuple[Sentence, str]],
    sentences: Sequence[Sentence],
    count: int,
    subtitle: str,
) -> str:
    """The report as HTML.

    looks: sentences and the heat maps of the systems that have attention. count: how many of the most different and of
    the worst sentences are listed.
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
            ("Attention", _attention(looks)),
            ("Most different", _listing(names, most_different(sentences, count)) if len(names) > 1 else ""),
            ("Worst", _listing(names, sorted(sentences, key=lambda sentence: sum(sentence.chrf))[:count])),
            ("Configurations", "".join(folded(history.name, verbatim(history.config)) for history in histories)),
        ],
    )


def _scores(histories: Sequence[History], comparison: Comparison) -> str:
    """The main table, with a column for each system, so that it fits a phone."""
    # The best BLEU, even if checkpoints were ranked by another metric.
    bests = [max(history.valid, key=lambda record: record["bleu"], default=None) for history in histories]
    speeds = [[y for _, y in _points(history.train, "tokens_per_second")] for history in histories]
    chrf2 = [_points(history.valid, "chrf2") for history in histories]
    rows = [
        ["architecture", *(history.architecture for history in histories)],
        ["parameters, M", *(f"{history.parameters / 1e6:.1f}" for history in histories)],
        ["training, target tokens/s", *(f"{median(each):,.0f}" if each else "-" for each in speeds)],
        ["best dev BLEU of the run", *("-" if best is None else f"{best['bleu']:.2f}" for best in bests)],
        ["at update", *("-" if best is None else f"{best['update']:,}" for best in bests)],
        ["best dev chrF2", *(f"{max(y for _, y in each):.2f}" if each else "-" for each in chrf2)],
    ]
    for scores in zip(*comparison.measured, strict=True):
        rows.append([scores[0].metric, *(f"{m.score.value:.2f}" for m in scores)])
    forced = [system.forced.units() if system.forced else {} for system in comparison.systems]
    for unit in dict.fromkeys(unit for units in forced for unit in units):  # an ordered set
        rows.append([unit, *(f"{units[unit]:.4f}" if unit in units else "-" for units in forced)])
    meaning = [["dev BLEU, dev chrF2", f"development set of {h.name}", h.measured] for h in histories if h.valid]
    meaning += [[m.metric, m.on, m.score.signature] for m in comparison.measured[0]]
    text = (
        "Higher is better, except for TER and cross-entropy. Cross-entropy includes end-of-sentence tokens and unknown "
        "words; it can be compared between models with the same target vocabulary and segmentation."
    )
    return (
        table(["", *(history.name for history in histories)], rows)
        + note(text)
        + folded("How each metric is computed", table(["metric", "computed on", "signature"], meaning, words=3))
    )


def training_charts(histories: Sequence[History]) -> str:
    """Charts of the training logs, with a line for each run, and of checkpoints on the test set."""
    drawn = defaultdict[tuple[str, str, str], list[Series]](list)  # by title and labels of the axes
    for colour, history in enumerate(histories):
        train, valid, test = history.train, history.valid, history.test
        # Older versions logged only the factor of the rate, which may have changed when the run was resumed.
        rated = [{"lr": record["lr_factor"] * (history.rate or 0), **record} for record in train]
        loss, tokens = _points(valid, "cross_entropy"), _points(train, "tokens")
        errors, train_errors = (_points(valid, key, 100) for key in ("token_error_rate", "train_token_error_rate"))
        against = _against(train_errors, errors)
        tested = sorted(_against(train_errors, _points(test, "token_error_rate", 100)))
        for title, x_label, y_label, what, points in (
            ("Cross-entropy by updates", "updates", "nats per token", ", train", _points(train, "loss")),
            ("Cross-entropy by updates", "updates", "nats per token", ", dev", loss),
            ("Dev cross-entropy by tokens", "target tokens seen", "nats per token", "", _against(tokens, loss)),
            ("Test cross-entropy by updates", "updates", "nats per token", "", _points(test, "cross_entropy")),
            ("Dev BLEU by updates", "updates", "BLEU", "", _points(valid, "bleu")),
            ("Dev chrF2 by updates", "updates", "chrF2", "", _points(valid, "chrf2")),
            ("Learning rate", "updates", "learning rate", "", _points(rated, "lr")),
            ("Training speed", "updates", "target tokens per second", "", _points(train, "tokens_per_second")),
            ("Token errors on the dev set", "updates", "% of tokens", ", dev", errors),
            ("Token errors, dev against train", "train, % of tokens", "dev, % of tokens", "", against),
            ("Token errors, test against train", "train, % of tokens", "test, % of tokens", "", tested),
        ):
            drawn[title, x_label, y_label].append(Series(history.name + what, points, colour, what == ", train"))
    charts = [
        line_chart(*labels, series, x_names=(), from_zero="train" not in labels[1]) for labels, series in drawn.items()
    ]
    return f'<div class="charts">{"".join(charts)}</div>' if any(charts) else ""


def _points(records: Sequence[Mapping[str, Any]], key: str, times: float = 1) -> list[tuple[float, float]]:
    """(update, value) of every record that has this key; older versions did not log all of them."""
    return [(record["update"], times * record[key]) for record in records if key in record]


def _against(xs: Sequence[tuple[float, float]], ys: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """(x, y) of every update that has both."""
    known = dict(xs)
    return [(known[update], y) for update, y in ys if update in known]


def _contrast(histories: Sequence[History]) -> str:
    """The contrastive accuracy of the systems: a chart by distance, and tables."""
    if not any(history.contrast for history in histories):
        return ""
    names = [history.name for history in histories]
    # All systems have the same sets, and therefore the same rows.
    places = [accuracy.name for accuracy in histories[0].contrast.get("distance", [])]
    series = [
        Series(h.name, [(x, 100 * a.share) for x, a in enumerate(h.contrast.get("distance", []))], colour)
        for colour, h in enumerate(histories)
    ]
    chart = line_chart("Accuracy by distance", "distance in words", "%", series, x_names=places, from_zero=False)
    tables = ""
    for kind in histories[0].contrast:
        rows = zip(*(history.contrast[kind] for history in histories), strict=True)
        cells = [[row[0].name, f"{row[0].total:,}", *(f"{100 * a.share:.1f}" for a in row)] for row in rows]
        tables += table([kind, "pairs", *names], cells)
    text = "% of contrastive pairs in which the correct translation is more probable than the one with an error."
    return note(text) + (f'<div class="charts">{chart}</div>' if chart else "") + tables


def _lengths(names: Sequence[str], comparison: Comparison) -> str:
    """Scores by source length, as charts and tables."""
    metric, charts, tables = comparison.subset_metric, "", ""
    for title, x_label, parts in (
        (f"{metric} by length", "words of the source", comparison.bins),
        (f"{metric} of longer sources", "sources longer than that many words", comparison.longer),
    ):
        series = [
            Series(name, [(place, part.scores[number]) for place, part in enumerate(parts)], number)
            for number, name in enumerate(names)
        ]
        charts += line_chart(title, x_label, metric, series, x_names=[part.name for part in parts], from_zero=False)
        tables += table(["words", "sentences", *names], part_rows(parts, len(names)))
    return f'<div class="charts">{charts}</div>{tables}'


def _unknown_free(names: Sequence[str], comparison: Comparison) -> str:
    """Scores on the sentences without unknown words."""
    if not comparison.unknown_free:
        return ""
    text = f"{comparison.subset_metric} on the sentences in whose references every token is in the target vocabulary."
    rows = part_rows(comparison.unknown_free, len(names))
    return note(text) + table(["part of the test set", "sentences", *names], rows)


def _unknown(names: Sequence[str], comparison: Comparison) -> str:
    """Counts of unknown words and names; empty if there are none."""
    columns = unknown_columns(comparison)
    if not columns:
        return ""
    text = (
        "Names are capitalised words of the source that also occur in the reference, except words that begin a "
        "sentence and occur in lower case elsewhere. A name is kept if it occurs in the translation."
    )
    return note(text) + table(["", *names], [[heading, *cells] for heading, cells in columns.items()])


def _differences(names: Sequence[str], comparison: Comparison) -> str:
    """The significance tests; empty for a single system."""
    if not comparison.differences:
        return ""
    rows = difference_rows(comparison)
    signatures = [[d.metric, d.signature] for d in comparison.differences]
    return (
        note(f"Every system {tested_against(*names)}.")
        + table(["metric", "system", "score", "mean", "± 95 %", "p"], rows, words=2)
        + folded("Signatures", table(["metric", "signature"], signatures, words=2))
    )


def _attention(looks: Sequence[tuple[Sentence, str]]) -> str:
    """Sentences with the attention weights of every system that has attention."""
    if not looks:
        return ""
    html = note("Rows are target words, columns are source words; a stronger colour is a higher attention weight.")
    for sentence, maps in looks:
        beside = terms([("source", sentence.source), ("reference", sentence.reference)])
        html += f'<h3>Sentence {sentence.number}</h3>{beside}<div class="charts">{maps}</div>'
    return html


def _listing(names: Sequence[str], sentences: Sequence[Sentence]) -> str:
    """Sentences with the translations of all systems."""
    html = note("The chrF of the sentence is in parentheses.")
    for s in sentences:
        said = [(f"{name} ({chrf:.1f})", text) for name, chrf, text in zip(names, s.chrf, s.said, strict=True)]
        html += terms([(f"sentence {s.number}: source", s.source), ("reference", s.reference), *said])
    return html
