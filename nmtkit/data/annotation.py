"""Encoded target text in which every unknown word says where in the source it comes from (Luong et al. 2015)."""

import hashlib
from itertools import repeat
from pathlib import Path

import numpy as np

from nmtkit.align.pharaoh import parse_links
from nmtkit.align.posunk import annotate
from nmtkit.data.corpus import OFFSET, Encoded, Ids
from nmtkit.data.vocab import ALL_SYMBOLS
from nmtkit.errors import UserError
from nmtkit.lines import count_lines, read_lines
from nmtkit.machine.progress import progress
from nmtkit.symbols import UNK
from nmtkit.text.settings import load_prep


def check_annotation(folder: Path, tgt_size: int | None) -> None:
    """Raise UserError for a data folder that cannot be annotated, or a target vocabulary too small for the symbols."""
    prep = load_prep(folder)
    if {prep.src.segmentation, prep.tgt.segmentation} != {"words"}:
        raise UserError(f"`unkpos`: {folder} has pieces of words, so none is unknown; prepare it anew with whole words")
    if not (folder / "train.align").is_file():
        raise UserError(f"{folder / 'train.align'}: not there, and `unkpos` needs it; make it with nmtkit align")
    if tgt_size is not None and tgt_size <= len(ALL_SYMBOLS):
        raise UserError(f"`tgt_size` {tgt_size}: with `unkpos`, {len(ALL_SYMBOLS)} rows are symbols; give it more")


def annotate_file(path: Path, text: Encoded, alignment: Path) -> str:
    """Rewrite every UNK among the ids of a text as a symbol of UNKPOS, and return the SHA-256 of the alignment.

    ``path`` is that of the ids without their suffix. ``alignment`` is a Pharaoh file with the links of each of its
    lines; where there is none, every unknown word becomes the symbol that names no place. Raises UserError for an
    alignment of another number of lines.
    """
    lines = text.lines
    if alignment.is_file() and count_lines(alignment) != lines:
        raise UserError(f"{alignment} has {count_lines(alignment)} lines but the text {lines}; run nmtkit align again")
    # Without an alignment, as for a test set, each line has no links.
    links = read_lines(alignment) if alignment.is_file() else repeat("", lines)
    offsets = np.memmap(f"{path}.offsets", OFFSET, "r")
    ids: Ids = np.memmap(f"{path}.ids", text.dtype, "r+") if text.tokens else np.empty(0, text.dtype)
    digest = hashlib.sha256()
    with progress(f"annotating {path.name}", lines) as advance:
        for number, line in enumerate(links):
            # Over the lines as they were read, so that a folder's annotations are known to be of this alignment.
            digest.update(f"{line}\n".encode())
            sentence = ids[offsets[number] : offsets[number + 1]]  # a view: what is assigned goes into the file
            if (sentence == UNK).any():
                sentence[:] = annotate(sentence.tolist(), parse_links(line, alignment, number + 1))
            advance(1)
    return digest.hexdigest()
