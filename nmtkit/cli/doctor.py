"""``nmtkit doctor``: problems with the text and with a planned training, found before hours are spent on them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.options import AsJson, DataFolder, Raw, SourceLanguage, TargetLanguage, log, say_next
from nmtkit.workflow.shared import presets


def doctor(
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    raw: Raw = Path("raw"),
    data: DataFolder = Path("data"),
    model: Annotated[str | None, typer.Option("--model", "-m", autocompletion=presets,
        help="Also check whether this preset suits the text and fits into memory.")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Check raw text, the coverage of the vocabularies, and whether a preset fits into memory, before training.

      nmtkit doctor -s en

      nmtkit doctor -s en --model deep-att

    Each finding is a line on stdout: the file, the line number and what is wrong there. The vocabularies are checked if
    the data folder has any. The exit status is 1 if nmtkit prep or nmtkit train would fail, and 0 otherwise.
    """
    import torch

    from nmtkit.data.doctor import Finding, examine_ids, examine_round_trip, examine_text
    from nmtkit.experiment.plan import examine_plan
    from nmtkit.experiment.presets import load_preset
    from nmtkit.experiment.schema import build_experiment
    from nmtkit.experiment.size import examine_memory
    from nmtkit.kernels import door
    from nmtkit.ops.plain import PLAIN
    from nmtkit.text.raw import find_raw

    files, src, tgt = find_raw(raw, src_lang, tgt_lang)
    # Text first: what is wrong there is wrong in everything that is made of it.
    findings = examine_text(files, src, tgt)
    if "dev" not in files and not (data / "dev.src").exists():  # which prep may have drawn from the training text
        remedy = "nmtkit prep --dev-size draws one from the training text"
        findings.append(Finding(raw, f"no development set, without which nmtkit train fails; {remedy}", fatal=True))
    if (data / "manifest.json").exists():
        findings += examine_round_trip(data)
    # The folder's vocabularies can be judged only when nmtkit vocab has made them; without them the text alone is.
    if (data / "ids.json").exists():
        findings += examine_ids(data)
    if model is not None:
        # With the folder's vocabularies if it has any, because these decide most of the size.
        planned = build_experiment(load_preset(model), model)
        findings += examine_memory(planned, data, model)
        if (data / "ids.json").exists():
            findings += [Finding(data, f"{model}: {what}") for what in examine_plan(planned, data)]
    if as_json:
        print(json.dumps([{**asdict(finding), "path": str(finding.path)} for finding in findings], indent=2))
    else:
        for finding in findings:
            typer.echo(finding)
    log.info(door.report(PLAIN, "cpu"))
    if torch.cuda.is_available():
        log.info(door.report(PLAIN, "cuda"))
    # The summary is on stderr, so that stdout has the findings and nothing else.
    log.info(f"{len(findings)} findings" if findings else "nothing found")
    if any(finding.fatal for finding in findings):
        raise typer.Exit(1)
    if not as_json and not (data / "manifest.json").exists():
        say_next(f"prep -s {src} -t {tgt}", ("--raw", raw, "raw"), ("-o", data, "data"))
