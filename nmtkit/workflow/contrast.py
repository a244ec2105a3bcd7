"""``contrast``: how often a model prefers the correct translation to one with a known error."""

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.errors import UserError
from nmtkit.lines import check_read_once
from nmtkit.options import Option, by_keyword, option
from nmtkit.workflow.shared import CHECKPOINT, DEVICE, MODELS, TYPES, models_at, paths

if TYPE_CHECKING:
    from nmtkit.evaluation.contrast import Accuracy, Entry
    from nmtkit.translation.translator import Translator

SHOWN_TOGETHER = 500  # entries scored between two updates of the progress bar


# fmt: off
@dataclass(frozen=True)
class ContrastOptions:
    """The options of ``contrast``, in the order of its help."""

    sets: Path | str | Sequence[Path | str] = option((), Option(
        "Test sets: JSON as in LingEval97, or folders as in DistilLingEval.", metavar="SET", argument=True))
    _: KW_ONLY
    source: Path | str | None = option(None, Option("Source sentences of --correct and --incorrect, one per line."))
    correct: Path | str | None = option(None, Option("Correct translations, one per line."))
    incorrect: Path | str | None = option(None, Option("Translations with one error each, one per line."))
    types: Sequence[str] = option((), TYPES)
    model: Path | str | Sequence[Path | str] = option("run", MODELS)
    checkpoint: str | int | None = option(None, CHECKPOINT)
    device: str = option("auto", DEVICE)
# fmt: on


def accuracies(options: ContrastOptions) -> "dict[str, list[Accuracy]]":
    """How often a model, or an ensemble, prefers the correct translation to one with an error: ``nmtkit contrast``.

    Returns the accuracy by ``type``, with the total at the end, by ``distance`` and by ``frequency``; the last two are
    empty if the sets do not have them. Raises UserError for sets that cannot be read or have no errors of these types.
    """
    files = [Path(path) for path in (options.source, options.correct, options.incorrect) if path is not None]
    check_read_once(files)
    entries = read_entries(paths(options.sets), options.types, files)

    from nmtkit.translation import loading

    # After reading the sets, so that a wrong file name is reported at once.
    models = models_at(options.model, options.checkpoint)
    return measure(loading.load(models, options.device, precision="float32"), entries)


contrast = by_keyword(ContrastOptions, accuracies, "contrast")


def read_entries(sets: Sequence[Path], types: Sequence[str], files: Sequence[Path] = ()) -> "list[Entry]":
    """The entries of all sets with the errors of these types, or of all types if ``types`` is empty.

    files: the source, correct and incorrect translations of another set. Raises UserError for no set, for a set without
    errors, and for a type without errors.
    """
    from nmtkit.evaluation.contrast import read_json, read_line_aligned

    entries = []
    if len(files) == 3:
        source, correct, incorrect = files
        entries += read_line_aligned(source, correct, incorrect, incorrect.name)
    elif files or not sets:
        raise UserError("give a set (JSON, or a folder), or all of `source`, `correct` and `incorrect`")
    for path in sets:
        if path.is_dir():
            src, right, wrong = (_only(path, name) for name in ("src", "tgt.correct", "tgt.incorrect"))
            # Not path.name: "." has none, and ".." another one.
            entries += read_line_aligned(src, right, wrong, Path(os.path.abspath(path)).name)
        else:
            entries += read_json(path)
    if types:
        known = dict.fromkeys(error.type for entry in entries for error in entry.errors)  # in the order of the files
        for wanted in types:
            if wanted not in known:
                raise UserError(f"`types` {wanted}: not one of {', '.join(known)}")
        entries = [entry._replace(errors=[e for e in entry.errors if e.type in types]) for entry in entries]
    entries = [entry for entry in entries if entry.errors]
    if not entries:
        raise UserError(f"{', '.join(map(str, sets))}: has no errors: there is nothing to compare")
    return entries


def measure(translator: "Translator", entries: "list[Entry]") -> "dict[str, list[Accuracy]]":
    """The accuracy by type, with the total at the end, by distance and by frequency; shows a progress bar."""
    from nmtkit.evaluation.contrast import by_kind
    from nmtkit.machine.progress import progress

    scores: list[list[float]] = []
    # In windows, so that the bar moves, and the log-probabilities of tokens do not fill the memory.
    with progress("scoring", len(entries)) as advance:
        for start in range(0, len(entries), SHOWN_TOGETHER):
            window = entries[start : start + SHOWN_TOGETHER]
            candidates = [[entry.reference, *(error.contrastive for error in entry.errors)] for entry in window]
            scored = translator.score_candidates([entry.source for entry in window], candidates)
            scores += [[float(log_probs.sum(dtype=float)) for log_probs in group] for group in scored]
            advance(len(window))
    return by_kind(entries, scores)


def _only(folder: Path, name: str) -> Path:
    """The only file NAME.LANGUAGE in a folder. Raises UserError if there is none or several."""
    files = sorted(folder.glob(f"{name}.*"))
    if len(files) != 1:
        raise UserError(f"{folder}: has {len(files)} files {name}.*; expected one, as in {name}.de")
    return files[0]
