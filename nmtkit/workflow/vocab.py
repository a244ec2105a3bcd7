"""``vocab``: vocabularies from the training text of a data folder, and the corpus as ids."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.errors import UserError
from nmtkit.lines import check_read_once
from nmtkit.options import Option, by_keyword, option
from nmtkit.symbols import SPELLINGS
from nmtkit.workflow.shared import DATA, JOBS

if TYPE_CHECKING:
    from nmtkit.data.encoding import VocabReport


# fmt: off
@dataclass(frozen=True)
class VocabOptions:
    """The options of ``vocab``, in the order of its help."""

    data: Path | str = option("data", DATA)
    _: KW_ONLY
    src_size: int | None = option(None, Option(
        "Size of the source vocabulary, including its 4 special symbols.  [default: all words]"))
    tgt_size: int | None = option(None, Option(
        "Size of the target vocabulary, including its 4 special symbols.  [default: all words]"))
    min_count: int = option(1, Option(
        "Leave out words that occur less often than this in the training text.", at_least=1))
    joint: bool = option(False, Option("Build one vocabulary for both sides, from the words of both."))
    unkpos: bool = option(False, Option(
        "Replace unknown target words with symbols that point to the source words they translate."))
    src_from: Path | str | None = option(None, Option(
        "Use this source vocabulary, of nmtkit or another toolkit, with its words in the same order.", metavar="FILE"))
    tgt_from: Path | str | None = option(None, Option(
        "Use this target vocabulary, of nmtkit or another toolkit, with its words in the same order.", metavar="FILE"))
    jobs: int | None = option(None, JOBS)
# fmt: on


def make_vocabularies(options: VocabOptions) -> "VocabReport":
    """Build vocabularies from the training text, and encode the data folder for training: ``nmtkit vocab``.

    The report has the vocabularies and their coverage; it can be printed. ``jobs``: see ``prep``. Raises UserError for
    a folder that ``prep`` did not make, for sizes that are too small, and for arguments that cannot be combined.
    """
    src_size, tgt_size, joint = options.src_size, options.tgt_size, options.joint
    for name, size in (("src_size", src_size), ("tgt_size", tgt_size)):
        if size is not None and size <= len(SPELLINGS):
            raise UserError(f"`{name}` {size}: {len(SPELLINGS)} rows are symbols; use a larger one")
    if joint and src_size is not None and tgt_size is not None and src_size != tgt_size:
        raise UserError(
            f"`joint` makes one vocabulary of one size, not of `src_size` {src_size} and `tgt_size` {tgt_size}"
        )
    given = [None if path is None else Path(path) for path in (options.src_from, options.tgt_from)]
    check_read_once(path for path in given if path)
    from nmtkit.data.encoding import encode

    if joint:  # the size may be given by either name
        src_size = tgt_size = src_size or tgt_size
    return encode(
        Path(options.data), src_size, tgt_size, options.min_count, joint, options.jobs, options.unkpos, *given
    )


vocab = by_keyword(VocabOptions, make_vocabularies, "vocab")
