"""``nmtkit align``: word alignment of a data folder, and a lexicon from it."""

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.align.pharaoh import read_alignment, read_gold
from nmtkit.align.quality import measure
from nmtkit.align.symmetrize import Heuristic
from nmtkit.cli.options import log_to_stderr
from nmtkit.errors import UserError
from nmtkit.lines import count_lines

HEURISTIC: Heuristic = "grow-diag"
THRESHOLD = 100  # Luong et al. 2015


def align(
    data: Annotated[Path, typer.Option("--data", "-d", help="Data folder that nmtkit prep made.")] = Path("data"),
    pharaoh: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take another aligner's links, source-target from 0, of train.src and .tgt."),
    ] = None,
    symmetrize: Annotated[
        Heuristic | None,
        typer.Option(help=f"How eflomal's two directions become one.  [default: {HEURISTIC}]", show_default=False),
    ] = None,
    threshold: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"A word pair enters the lexicon when it is linked more often than this.  [default: {THRESHOLD}]",
            show_default=False,
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only score the alignment against this one: sure links 0-1, possible 0p1."),
    ] = None,
) -> None:
    """Word-align the training text with eflomal, and count a lexicon of single words from the links.

      nmtkit align

      nmtkit align --threshold 3

      nmtkit align --pharaoh links.txt

      nmtkit align --pharaoh links.txt --gold gold.txt

    It writes train.align and dev.align (whole words, BPE undone) and lexicon.tsv into the data folder. The lexicon
    is what translate --replace-unk takes unknown words' translations from; nmtkit vocab --unkpos needs train.align.
    The threshold of 100 is for millions of pairs (Luong et al. 2015); a small corpus needs a lower one. eflomal draws
    at random, so that two runs differ a little.

    With --gold nothing is made: the links of --pharaoh (or of train.align in the data folder) are scored.
    """
    if gold is not None:
        if symmetrize is not None or threshold is not None:
            raise UserError("--gold only scores an alignment that is there; leave out --symmetrize and --threshold")
        _score(pharaoh or data / "train.align", gold)
        return
    if pharaoh is not None and symmetrize is not None:
        raise UserError("--symmetrize: the links of --pharaoh are taken as they are; leave one of the two out")

    from nmtkit.data.alignment import align_with_program, take_alignment

    threshold = THRESHOLD if threshold is None else threshold
    with log_to_stderr():
        if pharaoh is not None:
            report = take_alignment(data, pharaoh, threshold)
        else:
            report = align_with_program(data, symmetrize or HEURISTIC, threshold)
    typer.echo(report, err=True)


def _score(alignment: Path, gold: Path) -> None:
    """Print how good an alignment is beside one that people made."""
    lines = count_lines(alignment), count_lines(gold)
    if lines[0] != lines[1]:
        raise UserError(
            f"{alignment} has {lines[0]} lines but {gold} has {lines[1]}; they must align the same sentences"
        )
    quality = measure(read_alignment(alignment), read_gold(gold))
    print(f"precision {quality.precision:.2%}  recall {quality.recall:.2%}  AER {quality.aer:.2%}  ({alignment})")
