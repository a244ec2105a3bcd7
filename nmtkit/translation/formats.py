"""Translations as text: columns, Moses' n-best lists, JSON lines; and attention weights as arrays.

A function of text takes the number of a line, from 0, and one of its translations, and gives a line without its end.
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
from nmtkit.lines import atomic_write
from nmtkit.symbols import EOS, SPELLINGS
from nmtkit.translation.translation import Translation


def columns(scores: str, number: int, translation: Translation) -> str:
    """[score TAB] text [TAB token scores] [TAB alignment]: the text may have tabs of its own, no other column has."""
    score = "" if scores == "none" else f"{translation.score:.6f}\t"
    tokens = "\t" + " ".join(f"{each:.6f}" for each in translation.log_probs) if scores == "token" else ""
    pairs = "" if translation.alignment is None else f"\t{format_links(translation.alignment)}"
    return score + translation.text + tokens + pairs


def moses(number: int, translation: Translation) -> str:
    """Line ||| text ||| score [||| alignment], as Moses writes n-best lists."""
    pairs = "" if translation.alignment is None else f" ||| {format_links(translation.alignment)}"
    return f"{number} ||| {translation.text} ||| {translation.score:.6f}{pairs}"


def json_object(number: int, translation: Translation) -> str:
    """Everything about a translation but its attention weights. JSON has no infinity: an endless score is null."""
    values: dict[str, Any] = {
        "line": number,
        "text": translation.text,
        "score": _finite(translation.score),
        "log_prob": _finite(translation.log_prob),
        "tokens": translation.tokens,
        "quality": _finite(translation.quality),
        "token_log_probs": [_finite(each) for each in translation.log_probs],
    }
    if translation.alignment is not None:
        # A key that was not asked for is not there; null would look like a line without links.
        values["alignment"] = translation.alignment
    if translation.unknown is not None:
        values["unknown"] = translation.unknown._asdict()
    if translation.terms is not None:
        values["terms"] = [term._asdict() for term in translation.terms]
    return json.dumps(values, ensure_ascii=False)


def _finite(score: float) -> float | None:
    """A score with six decimals, None for an infinite one."""
    return round(score, 6) if math.isfinite(score) else None


@contextlib.contextmanager
def attention_arrays(path: Path | None) -> Iterator[Callable[[int, Translation], None]]:
    """A function that adds a translation's attention weights (T + 1, S + 1) and tokens to an .npz file, or to none.

    One line is held in memory at a time. The file appears when it is complete. The function takes the number of the
    line, from 0; a translation without attention weights, as that of a blank line, has zeros.
    """
    if path is None:
        yield lambda number, translation: None
        return
    # A .npz file is a zip archive of .npy files, so that lines can be added one at a time.
    with atomic_write(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def keep(number: int, translation: Translation) -> None:
            source, target = [*translation.source, SPELLINGS[EOS]], [*translation.tokens, SPELLINGS[EOS]]
            weights = translation.attention  # which is made anew each time that it is asked for
            arrays = {
                "attention": np.zeros((len(target), len(source)), np.float32) if weights is None else weights,
                "source": np.array(source, np.str_),
                "target": np.array(target, np.str_),
            }
            # numpy.savez would want the arrays of all lines at once.
            for name, array in arrays.items():
                with archive.open(f"{number}.{name}.npy", "w") as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

        yield keep
