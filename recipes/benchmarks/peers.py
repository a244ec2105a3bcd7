"""One toolkit's training and translation, timed in processes of their own; peers.sh calls it for each in turns.

    python peers.py measure joeynmt      # in the folder that peers.sh made; adds a line to figures.jsonl
    python peers.py table                # of all lines there

Training: target words per second, end marks included, as the toolkit itself reports them for every 5 updates, without
the first 10. Translation: all sentences of the test set by the time the search itself takes, without loading; random
as the models still are, every translation is made to have 15 words. Words or sentences per core-second: those
by the clock on the wall, divided by the cores that the process had meanwhile on the mean, loading included; what other
work on the machine leaves of a core does not change it. Peak memory is that of the process.
"""

import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import NamedTuple

from shared import HERE, print_table

CONFIGS = HERE / "peers"
FIGURES = Path("figures.jsonl")
WARM = 2  # reports that are not counted


class Toolkit(NamedTuple):
    package: str
    python: str
    train: list[str]
    report: str  # a line of the log that says that 5 more updates are done
    speed: str  # their words per second
    translate: list[str]
    seconds: str  # what it says of the time that translating took


TOOLKITS = {
    "nmtkit": Toolkit(
        "nmtkit",
        sys.executable,
        ["-m", "nmtkit", "train", "--model", "rnnsearch", "--config", f"{CONFIGS}/nmtkit.yaml", "-o", "nmtkit-model"],
        r"update \d+  epoch",
        r'"tokens_per_second": ([\d.]+)',
        [f"{HERE}/translate.py", "--model", "nmtkit-model", "--text", "raw/test.en", "--words", "15", "--rounds", "1",
         "--sentences", "1000", "--jobs", os.environ["OMP_NUM_THREADS"], "--wall"],
        r"\(([\d.]+) s\)",
    ),
    "joeynmt": Toolkit(
        "joeynmt",
        "joeynmt/bin/python",
        ["-m", "joeynmt", "train", f"{CONFIGS}/joeynmt.yaml", "--skip-test"],
        r"Tokens per Sec",
        r"Tokens per Sec: +([\d.]+)",
        ["-m", "joeynmt", "test", f"{CONFIGS}/joeynmt.yaml"],
        r"Generation took ([\d.]+)\[sec\]",
    ),
    "opennmt": Toolkit(
        "OpenNMT-py",
        "opennmt/bin/python",
        ["opennmt/bin/onmt_train", "-config", f"{CONFIGS}/opennmt.yaml"],
        r"tok/s",
        r"/ *([\d.]+) tok/s",
        ["opennmt/bin/onmt_translate", "-model", "opennmt-model/model_step_30.pt", "-src", "data/test.src",
         "-output", "opennmt.out", "-report_time",
         "-beam_size", "5", "-batch_size", "80", "-min_length", "15", "-max_length", "15"],
        r"Total translation time \(s\): ([\d.]+)",
    ),
}  # fmt: skip


class Run(NamedTuple):
    log: str
    cores: list[float]  # that were busy with it on the mean, between one report and the next
    peak: float  # GiB


def run(command: list[str], report: str) -> Run:
    """Run it; reports are the lines that match, and the end."""
    clocks, log = [(time.perf_counter(), 0.0)], ""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        log += line
        if re.search(report, line):
            clocks.append((time.perf_counter(), cpu_seconds(process.pid)))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{log}")
    clocks.append((time.perf_counter(), usage.ru_utime + usage.ru_stime))
    cores = [(cpu - before) / (now - then) for (then, before), (now, cpu) in itertools.pairwise(clocks)]
    return Run(log, cores, usage.ru_maxrss / 2**20)


def cpu_seconds(process: int) -> float:
    """What it has used so far: fields 14 and 15 of man 5 proc_pid_stat."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name: str) -> None:
    toolkit = TOOLKITS[name]
    trained = run([toolkit.python, *toolkit.train], toolkit.report)
    log = trained.log + (Path("nmtkit-model/metrics.jsonl").read_text() if name == "nmtkit" else "")
    words = [float(found) for found in re.findall(toolkit.speed, log)]
    a_core = [rate / cores for rate, cores in zip(words, trained.cores, strict=False)]  # the last cores are of the end
    translated = run([toolkit.python, *toolkit.translate], toolkit.seconds)
    took = float(re.findall(toolkit.seconds, translated.log)[-1])  # JoeyNMT translates its dev set first
    sentences = len(Path("data/test.src").read_text().splitlines())
    of_python = "from importlib.metadata import version as v; print(v('torch'), v('{}'))"
    versions = subprocess.check_output([toolkit.python, "-c", of_python.format(toolkit.package)], text=True)
    record = {
        "toolkit": name,
        "versions": versions.strip(),
        "words": statistics.median(words[WARM:]),
        "words_a_core": statistics.median(a_core[WARM:]),
        "peak": trained.peak,
        "sentences": sentences / took,
        "sentences_a_core": sentences / took / translated.cores[-2],
        "translate_peak": translated.peak,
    }
    with FIGURES.open("a") as file:
        print(json.dumps(record), file=file)
    print(record)


def table() -> None:
    of: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    versions = {}
    for line in FIGURES.read_text().splitlines():
        record = json.loads(line)
        name = record.pop("toolkit")
        versions[name] = record.pop("versions")
        for key, value in record.items():
            of[name][key].append(value)
    medians = {name: {key: statistics.median(values) for key, values in lists.items()} for name, lists in of.items()}
    one = os.environ["OMP_NUM_THREADS"] == "1"  # several processes translate otherwise, whose CPU time is not added up
    keys = ("words_a_core", "sentences_a_core") if one else ("words", "sentences")
    ours, rows = medians["nmtkit"], []
    for name, its in medians.items():
        torch_version, own = versions[name].split()
        row = [f"{name} {own}, torch {torch_version}"]
        for key, peak, digits in zip(keys, ("peak", "translate_peak"), (0, 1), strict=True):
            row += [f"{its[key]:,.{digits}f}", f"{its[key] / ours[key]:.2f}", f"{its[peak]:.2f}"]
        rows.append(row)
    kind = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")), platform.processor())  # fmt: skip
    rounds = len(of["nmtkit"]["words"])
    print(f"{kind}; {os.environ['OMP_NUM_THREADS']} threads; Python {platform.python_version()}; {date.today()}; "
          f"medians of {rounds} rounds\n")  # fmt: skip
    each = "core-second" if one else "second"
    print_table(["toolkit", f"training, words per {each}", "of nmtkit", "GiB",
                 f"translation, sentences per {each}", "of nmtkit", "GiB"], rows)  # fmt: skip


if __name__ == "__main__":
    {"measure": measure, "table": table}[sys.argv[1]](*sys.argv[2:])
