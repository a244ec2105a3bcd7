"""``nmtkit vocab``: vocabularies, and the corpus as ids."""

from pathlib import Path

from nmtkit.cli.options import AsJson, log, print_json, say_next
from nmtkit.workflow.vocab import VocabOptions, make_vocabularies

SMALL_TEXT = 200_000  # maximum sentence pairs for small versions of presets, such as the default of `train`


def vocab(options: VocabOptions, as_json: AsJson = False) -> None:
    """Build vocabularies from the training text, and encode the data folder for training.

      nmtkit vocab
      nmtkit vocab --src-size 200000 --tgt-size 80000
      nmtkit vocab --src-size 30000 --tgt-size 30000 --unkpos
      nmtkit vocab --src-from dict.de.txt --tgt-from dict.en.txt     (fairseq's vocabularies)

    The command shows how much of each set the vocabularies cover. It also reads vocabularies of OpenNMT, JoeyNMT,
    Marian, Nematus and Sockeye, and the pieces of a SentencePiece model (.spm, .model).

    With --unkpos, an unknown target word at position j that nmtkit align linked to the source word at position j - d
    becomes <unkpos_d> (d from -7 to 7), and any other becomes <unkpos_null> (Luong et al. 2015); these are 16 more
    symbols in the target vocabulary. The model learns them like words, and nmtkit translate --replace-unk replaces them
    with a translation of the source word that they point to. This works for models without attention, too.
    """
    from nmtkit.data.corpus import read_header

    report = make_vocabularies(options)
    log.info(report)
    if as_json:
        sides = {
            side: {"rows": len(words), "symbols": words.symbols, "different_words": report.types[side]}
            for side, words in report.vocabularies.items()
        }
        print_json({"folder": report.folder, "vocabularies": sides, "coverage": report.coverage})
        return
    little = read_header(Path(options.data))["train.src"].lines <= SMALL_TEXT
    say_next("train" if little else "train --model bideep", ("-d", Path(options.data), "data"))
