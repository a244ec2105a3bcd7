"""``nmtkit vocab``: vocabularies, and the corpus as numbers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmtkit.cli.options import AsJson, DataFolder, Jobs, log, say_next
from nmtkit.workflow import vocab as workflow

if TYPE_CHECKING:
    from nmtkit.data.encoding import VocabReport

SMALL_TEXT = 200_000  # sentence pairs; small forms of presets, like the default of `train`, are for less text


def vocab(
    data: DataFolder = Path("data"),
    src_size: Annotated[int | None, typer.Option(
        help="Size of the source vocabulary, its 4 symbols included.  [default: all words]")] = None,
    tgt_size: Annotated[int | None, typer.Option(
        help="Size of the target vocabulary, its 4 symbols included.  [default: all words]")] = None,
    min_count: Annotated[int, typer.Option(min=1,
        help="Leave out words that occur less often than this in the training text.")] = 1,
    joint: Annotated[bool, typer.Option("--joint",
        help="Make one vocabulary for both sides, from the words of both.")] = False,
    unkpos: Annotated[bool, typer.Option("--unkpos",
        help="Replace unknown target words by symbols that point to the source words they translate.")] = False,
    src_from: Annotated[Path | None, typer.Option(metavar="FILE",
        help="Use the words of this source vocabulary, of nmtkit or another toolkit, in their order.")] = None,
    tgt_from: Annotated[Path | None, typer.Option(metavar="FILE",
        help="Use the words of this target vocabulary, of nmtkit or another toolkit, in their order.")] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make vocabularies from the training text, and encode the data folder for training.

      nmtkit vocab

      nmtkit vocab --src-size 200000 --tgt-size 80000

      nmtkit vocab --src-size 30000 --tgt-size 30000 --unkpos

      nmtkit vocab --src-from dict.de.txt --tgt-from dict.en.txt     (vocabularies of fairseq)

    The command shows how much of each part of the data the vocabularies cover. It also reads vocabularies of OpenNMT,
    JoeyNMT, Marian, Nematus and Sockeye.

    With --unkpos, an unknown target word at position j that nmtkit align linked to the source word at position i
    becomes <unkpos_d>, where i = j - d, or else <unkpos_null> (Luong et al. 2015): 16 more symbols in the target
    vocabulary. The model learns them like words, and nmtkit translate --replace-unk replaces them by a translation of
    the source word that they point to. This works for models without attention, too.
    """
    from nmtkit.data.corpus import read_header

    report = workflow.vocab(
        data, src_size=src_size, tgt_size=tgt_size, min_count=min_count, joint=joint, unkpos=unkpos, src_from=src_from,
        tgt_from=tgt_from, jobs=jobs,
    )  # fmt: skip
    log.info(report)
    if as_json:
        print(json.dumps(_json(report), indent=2))
        return
    little = read_header(data)["train.src"].lines <= SMALL_TEXT
    say_next("train" if little else "train --model bideep", ("-d", data, "data"))


def _json(report: "VocabReport") -> dict[str, Any]:
    """The report as plain values for scripts."""
    return {
        "folder": str(report.folder),
        "vocabularies": {
            side: {"rows": len(words), "symbols": words.symbols, "different_words": report.types[side]}
            for side, words in report.vocabularies.items()
        },
        "coverage": {name: coverage._asdict() for name, coverage in report.coverage.items()},
    }
