"""``vocab``: vocabularies from the training text of a data folder, and the corpus as ids."""

from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.errors import UserError
from nmtkit.symbols import SPELLINGS

if TYPE_CHECKING:
    from nmtkit.data.encoding import VocabReport


def vocab(
    data: Path | str = "data",
    *,
    src_size: int | None = None,
    tgt_size: int | None = None,
    min_count: int = 1,
    joint: bool = False,
    unkpos: bool = False,
    src_from: Path | str | None = None,
    tgt_from: Path | str | None = None,
    jobs: int | None = None,
) -> "VocabReport":
    """Make vocabularies from the training text, and encode the data folder for training: ``nmtkit vocab``.

    src_size, tgt_size: rows, the four symbols included; None: all words. min_count: how often a word must occur. joint:
    one vocabulary for both sides. unkpos: unknown target words point to the source words that they come from. src_from,
    tgt_from: vocabularies whose words are taken instead. jobs: see ``prep``. The report has the vocabularies and their
    coverage; printed, it is meant for people. Raises UserError for a folder that ``prep`` did not make, for sizes that
    are too small, and for arguments that exclude each other.
    """
    for name, size in (("src_size", src_size), ("tgt_size", tgt_size)):
        if size is not None and size <= len(SPELLINGS):
            raise UserError(f"`{name}` {size}: {len(SPELLINGS)} rows are symbols; give it more")
    # Where only one of the two sizes is given, it is that of the joint vocabulary.
    if joint and src_size is not None and tgt_size is not None and src_size != tgt_size:
        raise UserError(f"`joint` has one size for its one list, not `src_size` {src_size} and `tgt_size` {tgt_size}")
    from nmtkit.data.encoding import encode

    # One vocabulary has one size, by whichever name it was given.
    if joint:
        src_size = tgt_size = src_size or tgt_size
    source, target = (None if path is None else Path(path) for path in (src_from, tgt_from))
    return encode(Path(data), src_size, tgt_size, min_count, joint, jobs, unkpos, source, target)
