"""``nmtkit align``: word alignment of a data folder, and a lexicon from it."""

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from nmtkit.align.pharaoh import read_alignment, read_gold
from nmtkit.align.quality import measure
from nmtkit.align.symmetrize import Heuristic
from nmtkit.cli.options import AsJson, DataFolder, log, say_next
from nmtkit.errors import UserError
from nmtkit.lines import check_read_once

HEURISTIC: Heuristic = "grow-diag"
THRESHOLD = 100  # Luong et al. 2015


def align(
    data: DataFolder = Path("data"),
    pharaoh: Annotated[Path | None, typer.Option(metavar="FILE",
        help="Use the links of another aligner for train.src and train.tgt: source-target pairs, "
        "counted from 0.")] = None,
    symmetrize: Annotated[Heuristic | None, typer.Option(show_default=False,
        help=f"How to combine the two directions that eflomal aligns.  [default: {HEURISTIC}]")] = None,
    threshold: Annotated[int | None, typer.Option(min=0, show_default=False,
        help=f"Keep a word pair in the lexicon if it is linked more often than this.  [default: {THRESHOLD}]")] = None,
    gold: Annotated[Path | None, typer.Option(metavar="FILE",
        help="Only score the alignment against this gold standard, with sure links 0-1 and "
        "possible links 0p1.")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Align the words of the training text with eflomal, and make a lexicon from the links.

      nmtkit align

      nmtkit align --threshold 3

      nmtkit align --pharaoh links.txt

      nmtkit align --pharaoh links.txt --gold gold.txt

    This writes train.align and dev.align (links between whole words, BPE undone) and lexicon.tsv to the data folder.
    nmtkit translate --replace-unk takes the translations of unknown words from the lexicon, and nmtkit vocab --unkpos
    needs train.align. The default threshold suits millions of sentence pairs (Luong et al. 2015); a small corpus needs
    a lower one. eflomal samples at random, so two runs differ a little.

    With --gold, nothing is written: the links of --pharaoh, or else of train.align in the data folder, are scored.
    """
    # Both defaults are None, so that an option that was given where it has no effect can be refused.
    if gold is not None:
        if symmetrize is not None or threshold is not None:
            raise UserError("--gold only scores an alignment that is there; leave out --symmetrize and --threshold")
        _score(pharaoh or data / "train.align", gold, as_json)
        return
    if pharaoh is not None and symmetrize is not None:
        raise UserError("--symmetrize: the links of --pharaoh are taken as they are; leave one of the two out")

    from nmtkit.data.alignment import align_with_program, take_alignment

    # Not ``or``: a threshold of 0 keeps every pair that is linked at all.
    threshold = THRESHOLD if threshold is None else threshold
    if pharaoh is not None:
        report = take_alignment(data, pharaoh, threshold)
    else:
        report = align_with_program(data, symmetrize or HEURISTIC, threshold)
    log.info(report)
    if as_json:
        splits = {split: aligned._asdict() for split, aligned in report.splits.items()}
        print(json.dumps({**asdict(report), "folder": str(report.folder), "splits": splits}, indent=2))
    # The corpus may be encoded already, and aligned for the lexicon alone.
    elif not (data / "ids.json").exists():
        say_next("vocab", ("-d", data, "data"))


def _score(alignment: Path, gold: Path, as_json: bool) -> None:
    """Print precision, recall and AER of an alignment against a gold standard.

    Raises UserError where the two differ in length, or are both standard input.
    """
    check_read_once((alignment, gold))
    # Each is read once, since it may be a pipe; and no more of a long alignment than tells that it is of another text.
    golds = list(read_gold(gold))
    links = list(islice(read_alignment(alignment), len(golds) + 1))
    if len(links) != len(golds):
        they = "more" if len(links) > len(golds) else "fewer"
        raise UserError(f"{alignment} has {they} lines than {gold}, {len(golds)}; they must align the same sentences")
    quality = measure(links, golds)
    if as_json:
        print(json.dumps({"precision": quality.precision, "recall": quality.recall, "aer": quality.aer}, indent=2))
        return
    print(f"precision {quality.precision:.2%}  recall {quality.recall:.2%}  AER {quality.aer:.2%}  ({alignment})")
