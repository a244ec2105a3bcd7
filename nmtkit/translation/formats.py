"""Translations as text: columns, Moses' n-best lists, JSON lines; and attention weights as arrays.

The functions for text take a line number, from 0, and a translation, and return a line without \\n.
"""

import contextlib
import json
import math
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nmtkit.align.pharaoh import format_links
from nmtkit.symbols import EOS, SPELLINGS
from nmtkit.translation.translation import Translation
from nmtkit.writing import atomic_write


def columns(scores: str, number: int, translation: Translation) -> str:
    """[score TAB] text [TAB token scores] [TAB alignment]; only the text may contain tabs."""
    score = "" if scores == "none" else f"{translation.score:.6f}\t"
    tokens = "\t" + " ".join(f"{each:.6f}" for each in translation.log_probs) if scores == "token" else ""
    pairs = "" if translation.alignment is None else f"\t{format_links(translation.alignment)}"
    return score + translation.text + tokens + pairs


def moses(number: int, translation: Translation) -> str:
    """Line ||| text ||| score [||| alignment]: the format of Moses' n-best lists without the features."""
    pairs = "" if translation.alignment is None else f" ||| {format_links(translation.alignment)}"
    return f"{number} ||| {translation.text} ||| {translation.score:.6f}{pairs}"


def json_object(number: int, translation: Translation) -> str:
    """The line's number and ``json_values``."""
    return json.dumps({"line": number, **json_values(translation)}, ensure_ascii=False)


def json_values(translation: Translation) -> dict[str, Any]:
    """A translation without its attention weights, for JSON, which has no infinity: an infinite score is None."""
    values: dict[str, Any] = {
        "text": translation.text,
        "score": _finite(translation.score),
        "log_prob": _finite(translation.log_prob),
        "quality": _finite(translation.quality),
        "tokens": translation.tokens,
        "token_log_probs": [_finite(each) for each in translation.log_probs],
        "pieces": translation.pieces,
    }
    # What was not requested has no key, because null would look like a line without links.
    if translation.alignment is not None:
        values["alignment"] = translation.alignment
    if translation.unknown is not None:
        values["unknown"] = translation.unknown._asdict()
    if translation.replaced is not None:
        how = {True: "translated", False: "copied"}
        values["replaced"] = [
            {"token": token, "by": translation.written[token], "how": how[translated], "source": source}
            for token, source, translated in translation.replaced
            if source is not None
        ]
    if translation.terms is not None:
        values["terms"] = [term._asdict() for term in translation.terms]
    return values


def _finite(score: float) -> float | None:
    """A score with six decimals; None if it is infinite."""
    return round(score, 6) if math.isfinite(score) else None


@contextlib.contextmanager
def attention_arrays(path: Path | None) -> Iterator[Callable[[int, Translation], None]]:
    """A function that adds a translation's attention weights (T + 1, S + 1) and tokens to an .npz file, if any.

    It takes a line number, from 0, and a translation. A translation without weights (of a blank line) gets zeros. Lines
    are written one by one, and the file is renamed to ``path`` when it is complete.
    """
    if path is None:
        yield lambda number, translation: None
        return
    # A .npz file is a zip archive of .npy files, so that lines can be added one at a time.
    with atomic_write(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def keep(number: int, translation: Translation) -> None:
            source, target = [*translation.source, SPELLINGS[EOS]], [*translation.tokens, SPELLINGS[EOS]]
            weights = translation.attention  # computed at every access
            arrays = {
                "attention": np.zeros((len(target), len(source)), np.float32) if weights is None else weights,
                "source": np.array(source, np.str_),
                "target": np.array(target, np.str_),
            }
            # numpy.savez would need the arrays of all lines at once.
            for name, array in arrays.items():
                with archive.open(f"{number}.{name}.npy", "w") as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

        yield keep
