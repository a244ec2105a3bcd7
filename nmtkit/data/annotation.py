"""Annotation of unknown words in encoded target text with their source positions (PosUnk, Luong et al. 2015)."""

import hashlib
import logging
from itertools import repeat
from pathlib import Path

import numpy as np

from nmtkit.align.pharaoh import parse_links
from nmtkit.align.posunk import annotate
from nmtkit.data.corpus import OFFSET, Encoded, Ids
from nmtkit.data.vocab import ALL_SYMBOLS
from nmtkit.errors import UserError, counted
from nmtkit.lines import count_lines, read_lines
from nmtkit.machine.progress import progress
from nmtkit.symbols import UNK, UNKPOS
from nmtkit.text.settings import load_prep

log = logging.getLogger(__name__)


def check_annotation(folder: Path, tgt_size: int | None) -> None:
    """Raise UserError if a data folder cannot be annotated, or the target vocabulary is too small for the symbols.

    Warns if the development set cannot be annotated.
    """
    prep = load_prep(folder)
    if {prep.src.segmentation, prep.tgt.segmentation} != {"words"}:
        raise UserError(f"`unkpos`: {folder} has subwords, so no word is unknown; prepare it again with whole words")
    if not (folder / "train.align").is_file():
        raise UserError(f"{folder / 'train.align'}: not found, and `unkpos` needs it; make it with nmtkit align")
    if tgt_size is not None and tgt_size <= len(ALL_SYMBOLS):
        raise UserError(f"`tgt_size` {tgt_size}: with `unkpos`, {len(ALL_SYMBOLS)} rows are symbols; use a larger one")
    if (folder / "dev.tgt").is_file() and not (folder / "dev.align").is_file():
        log.warning(
            f"{folder / 'dev.align'}: not found, so the unknown words of the development set are all {UNKPOS[-1]}, and "
            f"its cross-entropy is too high; put its links there, as in {folder / 'train.align'}"
        )


def annotate_file(path: Path, text: Encoded, alignment: Path) -> str:
    """Replace every UNK in encoded text with a symbol of UNKPOS, in place; returns the SHA-256 of the alignment.

    path: the file of ids without its suffix. alignment: a Pharaoh file, which may be missing; unknown words without a
    link get the symbol without a position. Raises UserError if its number of lines differs.
    """
    lines = text.lines
    if alignment.is_file() and (aligned := count_lines(alignment)) != lines:
        raise UserError(f"{alignment} has {counted(aligned, 'line')} but the text {lines}; run nmtkit align again")
    links = read_lines(alignment) if alignment.is_file() else repeat("", lines)
    offsets = np.memmap(f"{path}.offsets", OFFSET, "r")
    ids: Ids = np.memmap(f"{path}.ids", text.dtype, "r+") if text.tokens else np.empty(0, text.dtype)
    digest = hashlib.sha256()
    with progress(f"annotating {path.name}", lines) as advance:
        for number, line in enumerate(links):
            digest.update(f"{line}\n".encode())
            sentence = ids[offsets[number] : offsets[number + 1]]  # a view of the file
            if (sentence == UNK).any():
                sentence[:] = annotate(sentence.tolist(), parse_links(line, alignment, number + 1))
            advance(1)
    return digest.hexdigest()
