"""``nmtkit posunk``: a filter that replaces the unknown words of translations."""

from dataclasses import replace
from itertools import count
from typing import Annotated

from nmtkit.cli.options import OUTPUT_FILE, check_output, open_output
from nmtkit.lines import check_read_once, decode_line, raw_lines
from nmtkit.options import Option
from nmtkit.workflow.posunk import PosunkOptions, replace_lines


def posunk(
    options: PosunkOptions,
    input: Annotated[str, Option(
        "Tokenised translations (.gz and .zst too); - is standard input.", names="--input -i")] = "-",
    output: Annotated[str, OUTPUT_FILE] = "-",
) -> None:  # fmt: skip
    """Replace unknown words in translations with a translation or a copy of the source words they come from.

      nmtkit posunk --source in.tok --lexicon data/lexicon.tsv < out.tok
      nmtkit translate --tokenized --alignment < in.tok > both
      cut -f1 both | nmtkit posunk --source in.tok --alignment <(cut -f2 both)

    All files are tokenised text with corresponding lines. <unkpos_d> comes from the source word d positions to the
    left, and <unk> from the source word that the alignment links to it; an <unk> without a link stays. The lexicon
    gives the translation of the source word; a word without an entry is copied. This is the papers' rule.

    With --vocab data/vocab.tgt, each unknown word comes from a different source word whose translation is not in the
    vocabulary, at most two positions from the one given; if there is none, the papers' rule applies. A translation from
    the lexicon is capitalised at the beginning of a sentence if, judging by the vocabulary, sentences begin with a
    capital. For a model's own translations, nmtkit translate --replace-unk does this better, because it has all
    attention weights.
    """
    beside = (options.source, options.alignment, options.lexicon, options.vocab)
    files = [input, *(path for path in beside if path is not None)]
    check_read_once(files)
    check_output("--output", output, *files)
    lines = map(decode_line, raw_lines(input), count(1))
    replaced = replace_lines(replace(options, lines=lines, place="standard input" if input == "-" else input))
    with open_output(output) as file:
        file.writelines(f"{line}\n" for line in replaced)
