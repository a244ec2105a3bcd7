"""``nmtkit posunk``: a filter that replaces the unknown words of translations."""

from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from nmtkit.align.lexicon import NO_LEXICON, Lexicon
from nmtkit.align.pharaoh import check_links, parse_links
from nmtkit.cli.options import beside_lines, check_output, open_output
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.lines import check_read_once, decode_line, raw_lines
from nmtkit.symbols import SPELLINGS, UNK


def posunk(
    source: Annotated[Path, typer.Option("--source",
        help="The source text of the translations, tokenised, with its words spelled as they should be copied.")],
    alignment: Annotated[Path | None, typer.Option("--alignment",
        help="Word alignment of each line: source-target pairs, counted from 0.")] = None,
    lexicon: Annotated[Path | None, typer.Option("--lexicon", show_default=False,
        help="Lexicon made by nmtkit align.  [default: none, every word is copied]")] = None,
    vocab: Annotated[Path | None, typer.Option(
        help="Target vocabulary; source words whose translation is in it are not the origin of unknown words.")] = None,
    input: Annotated[str, typer.Option("--input", "-i",
        help="Tokenised translations (.gz and .zst too); - is standard input.")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")] = "-",
) -> None:  # fmt: skip
    """Replace unknown words in translations by a translation or a copy of the source words they come from.

      nmtkit posunk --source in.tok --lexicon data/lexicon.tsv < out.tok

      nmtkit translate --tokenized --alignment < in.tok > both

      cut -f1 both | nmtkit posunk --source in.tok --alignment <(cut -f2 both)

    All files are tokenised text with corresponding lines. <unkpos_d> comes from the source word d positions to the
    left, and <unk> from the source word that the alignment links to it; an <unk> without a link stays. The lexicon
    gives the translation of the source word; without an entry for it, the word is copied. This is the papers' rule.

    With --vocab data/vocab.tgt, each unknown word comes from a source word of its own, up to two positions from there,
    whose translation is not in the vocabulary; if there is none, the papers' rule holds. A translation by the lexicon
    that begins a sentence has a capital if words of the vocabulary do. nmtkit translate --replace-unk does the same for
    a model's own translations, and better, because it knows all attention weights.
    """
    # Imports NumPy, for which ``nmtkit --help`` must not wait.
    from nmtkit.align.posunk import UNKNOWN, Matcher, replace_unknown

    files: list[Path | str] = [input, source, *filter(None, (alignment, lexicon, vocab))]
    check_read_once(files)
    check_output("--output", output, *files)
    place = "standard input" if input == "-" else input
    # Before the first line is read: a lexicon that cannot be used must not cost half an output.
    entries = Lexicon.load(lexicon) if lexicon else NO_LEXICON
    best = entries.best
    vocabulary = Vocabulary.load(vocab) if vocab else None
    matcher = Matcher(entries, vocabulary.known, vocabulary.capitals) if vocabulary else None
    lines = beside_lines(map(decode_line, raw_lines(input), count(1)), source, input)
    linked = beside_lines(lines, alignment, input) if alignment else ((pair, "") for pair in lines)
    # All is read as a stream, so that a text of any length goes through in constant memory.
    with open_output(output) as file:
        for number, ((line, read), pharaoh) in enumerate(linked, 1):
            target, words = _words(line), _words(read)
            # Without an alignment every line has an empty one, whose place nobody will be told.
            links = parse_links(pharaoh, alignment or place, number)
            check_links(links, len(words), len(target), alignment or place, number)
            if SPELLINGS[UNK] in target and alignment is None:
                raise UserError(f"{place}:{number}: {SPELLINGS[UNK]} may come from anywhere; give an --alignment")
            # A line without unknown words goes through as it came, its spaces included.
            if not UNKNOWN.isdisjoint(target):
                if matcher is None:
                    target, _ = replace_unknown(target, links, words, words, best)
                else:
                    target, _ = matcher.replace(target, links, {}, words, words)
                line = " ".join(target)
            file.write(line + "\n")


def _words(line: str) -> list[str]:
    """The words of a tokenised line. Not ``split()``: other white space, as U+00A0, is a part of a word."""
    return [word for word in line.split(" ") if word]
