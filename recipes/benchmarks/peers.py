"""One toolkit's training and translation, timed in processes of their own; peers.sh calls it for each in turns.

    python peers.py measure joeynmt      # in the folder that peers.sh made; adds a line to figures.jsonl
    python peers.py table                # of all lines there

Training: target words per second, end marks included, as the toolkit itself reports them for every 5 updates, without
the first 10. Translation: all sentences of the test set by the time the search itself takes, without loading; random
as the models still are, every translation is made to have 15 words. Words or sentences per core-second: those
by the clock on the wall, divided by the cores that the process had on the mean; what other work on the machine leaves
of a core does not change it. Peak memory is that of the process.
"""

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
    speed: str  # what the log says of each report's words per second
    translate: list[str]
    seconds: str  # what it says of the time that translating took


TOOLKITS = {
    "nmtkit": Toolkit(
        "nmtkit",
        sys.executable,
        ["-m", "nmtkit", "train", "--model", "rnnsearch", "--config", f"{CONFIGS}/nmtkit.yaml", "-o", "nmtkit-model"],
        r'"tokens_per_second": ([\d.]+)',
        [f"{HERE}/translate.py", "--model", "nmtkit-model", "--text", "raw/test.en", "--words", "15", "--rounds", "1",
         "--sentences", "1000", "--jobs", os.environ["OMP_NUM_THREADS"], "--wall"],
        r"\(([\d.]+) s\)",
    ),
    "joeynmt": Toolkit(
        "joeynmt",
        "joeynmt/bin/python",
        ["-m", "joeynmt", "train", f"{CONFIGS}/joeynmt.yaml", "--skip-test"],
        r"Tokens per Sec: +([\d.]+)",
        ["-m", "joeynmt", "test", f"{CONFIGS}/joeynmt.yaml"],
        r"Generation took ([\d.]+)\[sec\]",
    ),
    "opennmt": Toolkit(
        "OpenNMT-py",
        "opennmt/bin/python",
        ["opennmt/bin/onmt_train", "-config", f"{CONFIGS}/opennmt.yaml"],
        r"/ *([\d.]+) tok/s",
        ["opennmt/bin/onmt_translate", "-model", "opennmt-model/model_step_30.pt", "-src", "data/test.src",
         "-output", "opennmt.out", "-report_time",
         "-beam_size", "5", "-batch_size", "80", "-min_length", "15", "-max_length", "15"],
        r"Total translation time \(s\): ([\d.]+)",
    ),
}  # fmt: skip


class Run(NamedTuple):
    log: str
    cores: float  # that were busy with it on the mean
    peak: float  # GiB


def run(command: list[str]) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    log = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{log}")
    busy = (usage.ru_utime + usage.ru_stime) / (time.perf_counter() - started)
    return Run(log, busy, usage.ru_maxrss / 2**20)


def measure(name: str) -> None:
    toolkit = TOOLKITS[name]
    trained = run([toolkit.python, *toolkit.train])
    log = trained.log + (Path("nmtkit-model/metrics.jsonl").read_text() if name == "nmtkit" else "")
    words = statistics.median(float(found) for found in re.findall(toolkit.speed, log)[WARM:])
    translated = run([toolkit.python, *toolkit.translate])
    took = float(re.findall(toolkit.seconds, translated.log)[-1])  # JoeyNMT translates its dev set first
    sentences = len(Path("data/test.src").read_text().splitlines())
    of_python = "from importlib.metadata import version as v; print(v('torch'), v('{}'))"
    versions = subprocess.check_output([toolkit.python, "-c", of_python.format(toolkit.package)], text=True)
    record = {
        "toolkit": name, "versions": versions.strip(), "words": words, "cores": trained.cores, "peak": trained.peak,
        "sentences": sentences / took, "translate_cores": translated.cores, "translate_peak": translated.peak,
    }  # fmt: skip
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
        of[name]["words_a_core"].append(record["words"] / record["cores"])
        of[name]["sentences_a_core"].append(record["sentences"] / record["translate_cores"])
    medians = {name: {key: statistics.median(values) for key, values in lists.items()} for name, lists in of.items()}
    ours, rows = medians["nmtkit"], []
    for name, its in medians.items():
        torch_version, own = versions[name].split()
        speeds = [[f"{its[key]:,.{digits}f}", f"{its[key] / ours[key]:.2f}", f"{its[each]:,.{digits}f}",
                   f"{its[each] / ours[each]:.2f}", f"{its[peak]:.2f}"]
                  for key, each, peak, digits in (("words", "words_a_core", "peak", 0),
                                                  ("sentences", "sentences_a_core", "translate_peak", 1))]  # fmt: skip
        rows.append([f"{name} {own}, torch {torch_version}", *speeds[0], *speeds[1]])
    kind = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")), platform.processor())  # fmt: skip
    rounds = len(of["nmtkit"]["words"])
    print(f"{kind}; {os.environ['OMP_NUM_THREADS']} threads; Python {platform.python_version()}; {date.today()}; "
          f"medians of {rounds} rounds\n")  # fmt: skip
    print_table(["toolkit", "training, words/s", "of nmtkit", "words per core-second", "of nmtkit", "GiB",
                 "translation, sentences/s", "of nmtkit", "sentences per core-second", "of nmtkit", "GiB"],
                rows)  # fmt: skip


if __name__ == "__main__":
    {"measure": measure, "table": table}[sys.argv[1]](*sys.argv[2:])
