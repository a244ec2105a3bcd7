"""``nmtkit posunk``: a filter that replaces the unknown words of translations."""

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.align.lexicon import load_lexicon
from nmtkit.align.pharaoh import check_links, parse_links
from nmtkit.align.posunk import UNKNOWN, replace_unknown
from nmtkit.cli.options import beside_lines, check_output, open_output
from nmtkit.errors import UserError
from nmtkit.lines import decode_line, raw_lines
from nmtkit.symbols import SPELLINGS, UNK


def posunk(
    source: Annotated[Path, typer.Option("--source", "-s", help="What was translated, as words, spelled as to copy.")],
    alignment: Annotated[
        Path | None, typer.Option("--alignment", "-a", help="Links source-target of each line, counted from 0.")
    ] = None,
    lexicon: Annotated[
        Path | None, typer.Option("--lexicon", "-l", help="Of nmtkit align. Without one, all words are copied.")
    ] = None,
    input: Annotated[str, typer.Option("--input", "-i", help="Translations, as words (.gz and .zst too).")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File for the result.")] = "-",
) -> None:
    """Replace unknown words by the lexicon's translation, or else by a copy, of the source words they come from.

      nmtkit posunk --source in.tok --lexicon data/lexicon.tsv < out.tok

      nmtkit translate --tokenized --alignment < in.tok > both

      cut -f1 both | nmtkit posunk --source in.tok --alignment <(cut -f2 both)

    Lines are words with spaces between, and correspond in all files. <unkpos_d> is replaced by the source word that
    stands d places to the left, <unk> by the one that the alignment links to it; without one it stays <unk>. For a
    model's own translations, nmtkit translate --replace-unk does this in one go.
    """
    check_output(output, input, source, *(path for path in (alignment, lexicon) if path is not None))
    place = "standard input" if input == "-" else input
    entries = load_lexicon(lexicon) if lexicon else {}
    lines = beside_lines(map(decode_line, raw_lines(input)), source, input)
    linked = beside_lines(lines, alignment, input) if alignment else ((pair, "") for pair in lines)
    with open_output(output) as file:
        for number, ((line, read), pharaoh) in enumerate(linked, 1):
            target, words = _words(line), _words(read)
            links = parse_links(pharaoh, alignment or place, number)
            check_links(links, len(words), len(target), alignment or place, number)
            if SPELLINGS[UNK] in target and alignment is None:
                raise UserError(f"{place}:{number}: {SPELLINGS[UNK]} may come from anywhere; give an --alignment")
            if not UNKNOWN.isdisjoint(target):
                line = " ".join(replace_unknown(target, links, words, words, entries))
            file.write(line + "\n")


def _words(line: str) -> list[str]:
    return [word for word in line.split(" ") if word]
