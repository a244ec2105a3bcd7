"""``posunk``: replacement of unknown words in translations."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nmtkit.align.lexicon import NO_LEXICON, Lexicon
from nmtkit.align.pharaoh import check_links, parse_links
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError, refuse_string
from nmtkit.lines import beside_lines, given_lines, tokens_of
from nmtkit.options import Option, by_keyword, option
from nmtkit.symbols import SPELLINGS, UNK


# fmt: off
@dataclass(frozen=True, kw_only=True)
class PosunkOptions:
    """The options of ``posunk``, in the order of its help."""

    lines: Iterable[str] = ()
    source: Path | str = field(metadata={"option": Option(
        "Source text of the translations, tokenised, with words spelled as they should be copied.")})
    alignment: Path | str | None = option(None, Option(
        "Word alignment of each line: source-target pairs, counted from 0."))
    lexicon: Path | str | None = option(None, Option(
        "Lexicon made by nmtkit align.  [default: none, every word is copied]"))
    vocab: Path | str | None = option(None, Option(
        "Target vocabulary; no unknown word comes from a source word whose translation is in it."))
    place: str = "the translations"  # the name of ``lines`` in messages
# fmt: on


def replace_lines(options: PosunkOptions) -> Iterator[str]:
    """Tokenised translations with their unknown words replaced, line by line: ``nmtkit posunk``.

    lines: read as they are needed, and yielded without line ends. Raises UserError for a string as ``lines``, for files
    that do not correspond to them, and for ``<unk>`` without an alignment.
    """
    refuse_string("lines", options.lines)
    # Imports NumPy, which ``nmtkit --help`` must not wait for.
    from nmtkit.align.posunk import UNKNOWN, Matcher, replace_unknown

    place, alignment = options.place, options.alignment
    entries = Lexicon.load(Path(options.lexicon)) if options.lexicon else NO_LEXICON
    best = entries.best  # read before the first line, so that an invalid lexicon leaves no half output
    vocabulary = Vocabulary.load(Path(options.vocab)) if options.vocab else None
    matcher = Matcher(entries, vocabulary.known, vocabulary.capitals) if vocabulary else None
    pairs = beside_lines(given_lines("`lines`", options.lines), Path(options.source), place)
    linked = beside_lines(pairs, Path(alignment), place) if alignment else ((pair, "") for pair in pairs)
    for number, ((line, read), pharaoh) in enumerate(linked, 1):
        target, words = tokens_of(line), tokens_of(read)
        links = parse_links(pharaoh, alignment or place, number)
        check_links(links, len(words), len(target), alignment or place, number)
        if SPELLINGS[UNK] in target and alignment is None:
            raise UserError(f"{place}:{number}: the source word of {SPELLINGS[UNK]} is unknown; give an `alignment`")
        # A line without unknown words is not changed, nor are its spaces.
        if not UNKNOWN.isdisjoint(target):
            if matcher is None:
                target, _ = replace_unknown(target, links, words, words, best)
            else:
                target, _ = matcher.replace(target, links, {}, words, words)
            line = " ".join(target)
        yield line


posunk = by_keyword(PosunkOptions, replace_lines, "posunk")
