"""``nmtkit vocab``: vocabularies, and the corpus as numbers."""

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.options import Workers, log_to_stderr
from nmtkit.errors import UserError


def vocab(
    data: Annotated[Path, typer.Option("--data", "-d", help="Data folder that nmtkit prep made.")] = Path("data"),
    src_size: Annotated[
        int | None, typer.Option(min=5, help="Rows of the source vocabulary, with its 4 symbols.  [default: all words]")
    ] = None,
    tgt_size: Annotated[
        int | None, typer.Option(min=5, help="Rows of the target vocabulary.  [default: all words]")
    ] = None,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often in training.")] = 1,
    joint: Annotated[bool, typer.Option("--joint", help="One list for both sides, from both sides' words.")] = False,
    unkpos: Annotated[
        bool, typer.Option("--unkpos", help="Unknown target words say where they come from, for any model to learn.")
    ] = False,
    src_from: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the source words of another toolkit's vocabulary, in their order."),
    ] = None,
    tgt_from: Annotated[Path | None, typer.Option(metavar="FILE", help="The same for the target words.")] = None,
    workers: Workers = None,
) -> None:
    """Count the words of the training text, make vocabularies, and encode the data folder for training.

      nmtkit vocab

      nmtkit vocab --src-size 200000 --tgt-size 80000

      nmtkit vocab --src-size 30000 --tgt-size 30000 --unkpos

      nmtkit vocab --src-from dict.de.txt --tgt-from dict.en.txt     (of fairseq; or OpenNMT, JoeyNMT, Marian, Nematus)

    It shows how many of all words the vocabularies cover, in each part of the data.

    With --unkpos, an unknown word of the target at place j that nmtkit align linked to the source word at place i
    becomes <unkpos_d> with i = j - d, or <unkpos_null> (Luong et al. 2015): 16 more symbols in the target vocabulary.
    The model learns them as words, and translate --replace-unk puts in what stands there; no attention is needed.
    """
    if joint and src_size is not None and tgt_size is not None and src_size != tgt_size:
        raise UserError(f"--joint has one size for its one list, not --src-size {src_size} and --tgt-size {tgt_size}")

    from nmtkit.data.encoding import encode

    if joint:
        src_size = tgt_size = src_size or tgt_size
    with log_to_stderr():
        report = encode(data, src_size, tgt_size, min_count, joint, workers, unkpos, src_from, tgt_from)
    typer.echo(report, err=True)
