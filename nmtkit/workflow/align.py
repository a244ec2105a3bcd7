"""``align``: word alignment of a data folder, and a lexicon from it."""

from dataclasses import KW_ONLY, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.align.pharaoh import Quality, measure, read_alignment, read_gold
from nmtkit.align.symmetrize import Heuristic
from nmtkit.errors import UserError
from nmtkit.lines import check_read_once
from nmtkit.options import Option, by_keyword, option
from nmtkit.workflow.shared import DATA

if TYPE_CHECKING:
    from nmtkit.data.alignment import AlignmentReport

HEURISTIC: Heuristic = "grow-diag"
THRESHOLD = 100  # Luong et al. 2015


# fmt: off
@dataclass(frozen=True)
class AlignOptions:
    """The options of ``align``, in the order of its help."""

    data: Path | str = option("data", DATA)
    _: KW_ONLY
    pharaoh: Path | str | None = option(None, Option(
        "Use the links of another aligner for train.src and train.tgt: source-target pairs, counted from 0.",
        metavar="FILE"))
    symmetrize: Heuristic | None = option(None, Option(
        f"How to combine eflomal's alignments of the two directions.  [default: {HEURISTIC}]"))
    threshold: int | None = option(None, Option(
        f"Keep a word pair in the lexicon if it is linked more often than this.  [default: {THRESHOLD}]", at_least=0))
    gold: Path | str | None = option(None, Option(
        "Only score the alignment against this gold standard, with sure links 0-1 and possible links 0p1.",
        metavar="FILE"))

    @property
    def links(self) -> Path:
        """The file of links that ``gold`` scores."""
        return Path(self.data) / "train.align" if self.pharaoh is None else Path(self.pharaoh)
# fmt: on


def align_words(options: AlignOptions) -> "AlignmentReport | Quality":
    """Align the words of the training text, and write the links and a lexicon to the data folder: ``nmtkit align``.

    With ``gold``, writes nothing, but returns the quality of the links of ``pharaoh``, or of the data folder. Raises
    UserError for links that do not match the text, and for arguments that cannot be combined.
    """
    if options.gold is not None:
        if options.symmetrize is not None or options.threshold is not None:
            raise UserError("`gold` only scores an existing alignment; leave out `symmetrize` and `threshold`")
        return _quality(options.links, Path(options.gold))
    if options.pharaoh is not None and options.symmetrize is not None:
        raise UserError("`symmetrize`: is for eflomal, not for the links of `pharaoh`; leave one of them out")

    from nmtkit.data.alignment import align_with_program, take_alignment

    threshold = THRESHOLD if options.threshold is None else options.threshold
    if options.pharaoh is not None:
        return take_alignment(Path(options.data), options.links, threshold)
    return align_with_program(Path(options.data), options.symmetrize or HEURISTIC, threshold)


align = by_keyword(AlignOptions, align_words, "align")


def _quality(alignment: Path, gold: Path) -> Quality:
    """Precision, recall and AER of an alignment. Raises UserError if the files differ in length or have no links."""
    check_read_once((alignment, gold))
    # Each file is read once, because it may be a pipe.
    golds = list(read_gold(gold))
    links = list(islice(read_alignment(alignment), len(golds) + 1))
    if len(links) != len(golds):
        they = "more" if len(links) > len(golds) else "fewer"
        raise UserError(f"{alignment} has {they} lines than {gold}, {len(golds)}; they must align the same sentences")
    if not any(links) and not any(each.sure for each in golds):
        raise UserError(f"{alignment} has no links and {gold} no sure ones, so the AER is undefined; name other files")
    return measure(links, golds)
