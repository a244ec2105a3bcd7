"""``nmtkit doctor``: problems with the text and with a planned training run."""

from pathlib import Path

import typer

from nmtkit.cli.options import AsJson, log, print_json, say_next
from nmtkit.errors import counted
from nmtkit.workflow.doctor import DoctorOptions, diagnose


def doctor(options: DoctorOptions, as_json: AsJson = False) -> None:
    """Before training, check raw text, vocabulary coverage, and whether a preset fits into memory.

      nmtkit doctor -s en
      nmtkit doctor -s en --model deep-att
      nmtkit doctor --train text.en text.fr --dev dev.en dev.fr

    Each finding is a line on stdout: the file, the line number and the problem. The vocabularies are checked if the
    data folder has any. The exit status is 1 if nmtkit prep or nmtkit train would fail, and 0 otherwise.
    """
    import torch

    from nmtkit.kernels import door
    from nmtkit.ops.plain import PLAIN

    findings, src, tgt = diagnose(options)
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            print(finding)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        log.info(door.report(PLAIN, device))
    # On stderr, so that stdout has nothing but the findings.
    log.info(counted(len(findings), "finding") if findings else "no problems found")
    if any(finding.fatal for finding in findings):
        raise typer.Exit(1)
    raw, data = Path(options.raw), Path(options.data)
    if options.train is None and not as_json and not (data / "manifest.json").exists():
        say_next(f"prep -s {src} -t {tgt}", ("--raw", raw, "raw"), ("-o", data, "data"))
