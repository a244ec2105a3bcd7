"""``nmtkit doctor``: what is wrong with the text, before hours are spent."""

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.options import log_to_stderr

TwoFiles = tuple[Path, Path]


def doctor(
    src_lang: Annotated[str | None, typer.Option("--src-lang", "-s", help="Source language: en, de, ...")] = None,
    tgt_lang: Annotated[str | None, typer.Option("--tgt-lang", "-t", help="Target language.")] = None,
    raw: Annotated[
        Path, typer.Option(help="Folder with {train,dev,test}.LANGUAGE or .SRC-TGT.tsv, also .gz or .zst.")
    ] = Path("raw"),
    data: Annotated[Path, typer.Option("--data", "-d", help="Data folder, if there is one already.")] = Path("data"),
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Preset of which to say whether training fits into the memory.")
    ] = None,
) -> None:
    """Look for what is wrong with raw text, with the coverage of the vocabularies, and with a preset's memory.

      nmtkit doctor -s en

      nmtkit doctor -s en --model deep-att

    Each finding is a line FILE:LINE: WHAT on stdout. The status is 1 if prep or training would fail, else 0.
    """
    from nmtkit.data.doctor import examine_ids, examine_text
    from nmtkit.data.raw import find_raw
    from nmtkit.experiment.presets import load_preset
    from nmtkit.experiment.schema import build_experiment
    from nmtkit.experiment.size import examine_memory

    with log_to_stderr():
        files, src, tgt = find_raw(raw, src_lang, tgt_lang)
        findings = examine_text(files, src, tgt)
        if (data / "ids.json").exists():
            findings += examine_ids(data)
        if model is not None:
            planned = build_experiment(load_preset(model), model)
            findings += examine_memory(planned, data, model)
    for finding in findings:
        typer.echo(finding)
    typer.echo(f"{len(findings)} findings" if findings else "nothing found", err=True)
    if any(finding.fatal for finding in findings):
        raise typer.Exit(1)
