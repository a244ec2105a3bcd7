"""Timing of toolkits, each in a separate process; called by peers.sh in its work folder.

    python peers.py train joeynmt 1                      # 30 updates (100 on a GPU); adds a line to figures.jsonl
    python peers.py translate "JoeyNMT, RNN" 1           # with the resulting model
    python peers.py learn joeynmt                        # three epochs
    python peers.py command "JoeyNMT, RNN" 1000 1        # 1,000 lines, with that model
    python peers.py table                                # of all lines in figures.jsonl
    python peers.py systems                              # names of all systems

The last number is that of the round; a measurement that already has this many rounds is skipped.

train: target words per second, EOS included, reported by the toolkit for every 5 updates (10 on a GPU), without the
first two reports.
translate: the time of search for the test set, without loading; the models are almost random, so all translations are
forced to have 15 words. command: the wall time of a command that translates a text; translations end where the model
ends them. Words or sentences per core-second: the rate by wall time, divided by the mean number of cores that the
process had, loading included; other work on the machine does not affect it. Peak memory is that of the process.
"""

import itertools
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import NamedTuple

import sacrebleu
from shared import HERE, print_table

from nmtkit.config import dump_yaml, load_yaml, merge
from nmtkit.lines import read_lines
from nmtkit.text.pipeline import TextPipeline

CONFIGS = HERE / "peers"
FIGURES = Path("figures.jsonl")
WARM = 2  # reports that are not counted
PASS = 363  # updates of 80 sentences in an epoch
PASSES = 3  # epochs of models whose translations have their own lengths
THREADS = os.environ.setdefault("OMP_NUM_THREADS", "1")
DEVICE = os.environ.get("DEVICE", "cpu")
GPU = DEVICE == "cuda"
BATCH = int(os.environ.get("BATCH", "80"))  # sentences
UPDATES, REPORT = (100, 10) if GPU else (30, 5)  # of a timed training
WORDS = 15  # of every translation of a random model
BFLOAT16 = GPU or "avx512_bf16" in Path("/proc/cpuinfo").read_text()
OPENNMT = "opennmt/bin/python"


class Trainer(NamedTuple):
    """How a toolkit trains: the pattern of its log line after every report, and that of the words per second."""

    package: str
    python: str
    report: str
    speed: str


TRAINERS = {
    "nmtkit": Trainer("nmtkit", sys.executable, r"update \d+  epoch", r'"tokens_per_second": ([\d.]+)'),
    "joeynmt": Trainer("joeynmt", "joeynmt/bin/python", r"Tokens per Sec", r"Tokens per Sec: +([\d.]+)"),
    "opennmt": Trainer("OpenNMT-py", OPENNMT, r"tok/s", r"/ *([\d.]+) tok/s"),
}
TRAINERS |= {f"{name}-transformer": TRAINERS[name] for name in ("nmtkit", "opennmt")}


class System(NamedTuple):
    """A timed system: a model trained by a toolkit, and the precision of products in search."""

    trainer: str
    precision: str = "float32"


PRECISIONS = ["float32", *(["bfloat16"] if BFLOAT16 else []), *([] if GPU else ["int8"])]
SYSTEMS = {
    **{f"nmtkit, RNNsearch, {precision}": System("nmtkit", precision) for precision in PRECISIONS},
    "JoeyNMT, RNN": System("joeynmt"),
    "OpenNMT-py, RNN with half the encoder": System("opennmt"),
    **{f"nmtkit, Transformer base, {precision}": System("nmtkit-transformer", precision) for precision in PRECISIONS},
    "OpenNMT-py, Transformer base": System("opennmt-transformer"),
    **{
        f"CTranslate2, Transformer base, {kind}": System("opennmt-transformer", kind)
        for kind in (PRECISIONS if GPU else ["float32", "int8"])
    },
}


def training(name: str, updates: int, folder: str) -> list[str]:
    """The command that trains a model in ``folder``, and saves its weights there after the last update."""
    learns = updates >= PASS
    if name.startswith("nmtkit"):
        preset = "transformer-base" if "transformer" in name else "rnnsearch"
        every = updates if learns else min(REPORT, updates)
        return [sys.executable, "-m", "nmtkit", "train", "--model", preset, "--config", f"{CONFIGS}/{name}.yaml",
                "-o", folder, "--set", f"training.batch_sentences={BATCH}", "--set", f"training.max_updates={updates}",
                "--set", f"training.valid_every={every}", "--set", f"search.max_tokens={100 * BATCH}",
                "--device", DEVICE]  # fmt: skip
    if name == "joeynmt":
        return ["joeynmt/bin/python", "-m", "joeynmt", "train", joeynmt_config(updates, folder), "--skip-test"]
    return ["opennmt/bin/onmt_train", "-config", f"{CONFIGS}/{name}.yaml", "-save_model", f"{folder}/model",
            "-train_steps", str(updates), "-save_checkpoint_steps", str(updates), "-batch_size", str(BATCH),
            "-report_every", str(REPORT), *(["-world_size", "1", "-gpu_ranks", "0"] if GPU else [])]  # fmt: skip


def joeynmt_config(updates: int, folder: str) -> str:
    """A configuration file for training and translating with JoeyNMT, which has no other way to set options."""
    least, most, reports = (WORDS, WORDS, REPORT) if updates < PASS else (1, 100, PASS)
    path = Path(f"{folder}.yaml")
    times = {"epochs": PASSES, "updates": updates, "logging_freq": reports, "validation_freq": updates,
             "batch_size": BATCH}  # fmt: skip
    search = {"min_output_length": least, "max_output_length": most, "batch_size": BATCH}
    changed = {"model_dir": folder, "use_cuda": GPU, "training": times, "testing": search}
    path.write_text(dump_yaml(merge(load_yaml(CONFIGS / "joeynmt.yaml"), changed)))
    return str(path)


def searching(name: str, folder: str, text: str, most: int, least: int) -> list[str]:
    """The command with which a toolkit translates data/TEXT.src into NAME.out, with ``least`` to ``most`` words."""
    system = SYSTEMS[name]
    if name.startswith("CTranslate2"):
        converted = f"{folder}-ctranslate2"
        if not Path(converted).exists():
            subprocess.run(
                ["opennmt/bin/ct2-opennmt-py-converter", "--model_path", checkpoint(folder),
                 "--unsafe_deserialization", "--output_dir", converted], check=True)  # fmt: skip
        return [OPENNMT, f"{CONFIGS}/translate_ctranslate2.py", converted, f"data/{text}.src", f"{name}.out",
                system.precision, DEVICE, THREADS, str(BATCH), str(least), str(most)]  # fmt: skip
    if name.startswith("OpenNMT"):
        return ["opennmt/bin/onmt_translate", "-model", checkpoint(folder), "-src", f"data/{text}.src",
                "-output", f"{name}.out", "-report_time", "-beam_size", "5", "-batch_size", str(BATCH),
                "-length_penalty", "avg", "-min_length", str(least), "-max_length", str(most),
                *(["-gpu", "0"] if GPU else [])]  # fmt: skip
    assert name.startswith("JoeyNMT")
    return ["joeynmt/bin/python", "-m", "joeynmt", "translate", f"{folder}.yaml"]


def checkpoint(folder: str) -> str:
    """OpenNMT-py's only checkpoint in a folder."""
    [path] = Path(folder).glob("model_step_*.pt")
    return str(path)


class Run(NamedTuple):
    log: str
    cores: list[float]  # mean number of busy cores between reports
    peak: float  # GiB
    seconds: float


def run(command: list[str], report: str, source: str = os.devnull, output: str | None = None) -> Run:
    """Run a command; reports are matching lines of its log, and its end. output: a file for its standard output."""
    clocks, log = [(time.perf_counter(), 0.0)], ""
    with open(source) as text, open(output or os.devnull, "w") as written:
        process = subprocess.Popen(
            command, stdin=text, stdout=written if output else subprocess.PIPE,
            stderr=subprocess.PIPE if output else subprocess.STDOUT, text=True)  # fmt: skip
    lines = process.stderr if output else process.stdout
    assert lines is not None
    for line in lines:
        log += line
        if re.search(report, line):
            clocks.append((time.perf_counter(), cpu_seconds(process.pid)))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{log}")
    clocks.append((time.perf_counter(), usage.ru_utime + usage.ru_stime))
    cores = [(cpu - before) / (now - then) for (then, before), (now, cpu) in itertools.pairwise(clocks)]
    return Run(log, cores, usage.ru_maxrss / 2**20, clocks[-1][0] - clocks[0][0])


def cpu_seconds(process: int) -> float:
    """The CPU time used so far: fields 14 and 15 of man 5 proc_pid_stat."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def train(name: str, turn: str) -> None:
    trainer, folder = TRAINERS[name], f"{name}-model"
    if measured("training", versions(name)) >= int(turn) or ("transformer" in name and Path(folder).exists()):
        return
    shutil.rmtree(folder, ignore_errors=True)
    # Transformers are only trained to get an almost random model; their training is not compared.
    trained = run(training(name, 1 if "transformer" in name else UPDATES, folder), trainer.report)
    if "transformer" in name:
        return
    log = trained.log + (Path(f"{folder}/metrics.jsonl").read_text() if name == "nmtkit" else "")
    words = [float(found) for found in re.findall(trainer.speed, log)]
    a_core = [rate / cores for rate, cores in zip(words, trained.cores, strict=False)]  # the last cores are of the end
    note("training", versions(name), speed=statistics.median(words[WARM:]),
         a_core=statistics.median(a_core[WARM:]), peak=trained.peak)  # fmt: skip


def translate(name: str, turn: str) -> None:
    if measured("translation", name) >= int(turn):
        return
    system = SYSTEMS[name]
    folder, seconds = f"{system.trainer}-model", r"(?:translated in|Total translation time \(s\):) ([\d.]+)"
    if name.startswith("nmtkit"):
        seconds = r"\(([\d.]+) s\)"
        command = [sys.executable, f"{HERE}/translate.py", "--model", folder, "--text", "raw/test.en",
                   "--words", str(WORDS), "--rounds", "1", "--sentences", "1000000", "--jobs", "1" if GPU else THREADS,
                   "--wall", "--device", DEVICE,
                   "--precision", system.precision]  # fmt: skip
    else:
        command = searching(name, folder, "test", WORDS, WORDS)
    if name.startswith("JoeyNMT"):
        seconds = r"Generation took ([\d.]+)\[sec\]"
    # JoeyNMT's option for an output file fails.
    done = run(command, seconds, "data/test.src", f"{name}.out" if name.startswith("JoeyNMT") else None)
    took, sentences = float(re.findall(seconds, done.log)[-1]), len(Path("data/test.src").read_text().splitlines())
    note("translation", name, speed=sentences / took, a_core=sentences / took / done.cores[-2], peak=done.peak)


def learn(name: str) -> None:
    folder = Path(f"{name}-learnt")
    if not (folder / "done").exists():  # nmtkit would resume, the others start from scratch
        run(training(name, PASSES * PASS, str(folder)), TRAINERS[name].report)
        (folder / "done").touch()


def command(name: str, lines: str, turn: str) -> None:
    """Time the command on the test set, followed by the beginning of the training text if there are more lines."""
    text, wanted = f"lines.{lines}", int(lines)
    what = f"{name}, {wanted:,} lines"
    if measured("command", what) >= int(turn):
        return
    if not Path(f"data/{text}.src").exists():
        raw = list(itertools.islice(itertools.chain(read_lines("raw/test.en"), read_lines("raw/train.en")), wanted))
        Path(f"raw/{text}.en").write_text("".join(f"{line}\n" for line in raw))
        reader = TextPipeline.load(Path("data"), "src")
        Path(f"data/{text}.src").write_text("".join(f"{' '.join(reader.tokens(line))}\n" for line in raw))
    system = SYSTEMS[name]
    folder, output = f"{system.trainer}-learnt", Path(f"{name}.out")
    if name.startswith("nmtkit"):  # the only one with raw text as input and output
        done = run([sys.executable, "-m", "nmtkit", "translate", "-m", folder, "-i", f"raw/{text}.en",
                    "-o", str(output), "--max-len-a", "1.5", "--max-len-b", "20",
                    "--device", DEVICE, "--precision", system.precision], r"^$")  # fmt: skip
        texts = output.read_text().splitlines()
    else:
        written = f"{name}.out" if name.startswith("JoeyNMT") else None
        done = run(searching(name, folder, text, 100, 0), r"^$", f"data/{text}.src", written)
        writer = TextPipeline.load(Path("data"), "tgt")
        texts = [writer.text(line.split()) for line in output.read_text().splitlines()]
    assert len(texts) == wanted, f"{name}: {len(texts)} lines of {wanted}"
    references = list(read_lines("raw/test.de"))
    bleu = sacrebleu.corpus_bleu(texts[: len(references)], [references[: len(texts)]]).score
    words = sum(len(line.split()) for line in texts) / wanted
    note("command", what, seconds=done.seconds, words=words, bleu=bleu, peak=done.peak)


def versions(name: str) -> str:
    """The toolkit with its version and that of its PyTorch."""
    code = f"from importlib.metadata import version as v; print(v('{TRAINERS[name].package}'), 'torch', v('torch'))"
    found = subprocess.check_output([TRAINERS[name].python, "-c", code], text=True)
    return f"{name} {found.strip()}"


def measured(kind: str, what: str) -> int:
    """The number of lines for this measurement in the file of figures."""
    lines = FIGURES.read_text().splitlines() if FIGURES.exists() else []
    return sum((record["kind"], record["what"]) == (kind, what) for record in map(json.loads, lines))


def note(kind: str, what: str, **figures: float) -> None:
    """Add a line to the file of figures."""
    with FIGURES.open("a") as file:
        print(json.dumps({"kind": kind, "what": what, **figures}), file=file)
    print(kind, what, figures, flush=True)


def table() -> None:
    of: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for line in FIGURES.read_text().splitlines():
        record = json.loads(line)
        kind, what = record.pop("kind"), record.pop("what")
        for key, value in record.items():
            of[kind][what][key].append(value)
    name = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")), platform.processor())  # fmt: skip
    print(f"{name}; {DEVICE}; {THREADS} threads; Python {platform.python_version()}; {date.today()}; medians\n")
    key, each = ("a_core", "core-second") if THREADS == "1" and not GPU else ("speed", "second")
    for kind, unit, digits in (("training", "words", 0), ("translation", "sentences", 1)):
        rows, ours = [], 0.0
        for what, lists in of[kind].items():
            figure = statistics.median(lists[key])
            ours = ours or figure
            rounds = len(lists[key])
            peak = statistics.median(lists["peak"])
            rows.append([what, f"{figure:,.{digits}f}", f"{figure / ours:.2f}", f"{peak:.2f}", str(rounds)])
        if rows:
            print_table([kind, f"{unit} per {each}", "of the first", "GiB", "rounds"], rows)
            print()
    rows = [[what, *(f"{statistics.median(lists[key]):.1f}" for key in ("seconds", "words", "bleu", "peak")),
             str(len(lists["peak"]))] for what, lists in of["command"].items()]  # fmt: skip
    if rows:
        print_table(["whole command", "seconds", "words a line", "BLEU of test2016", "GiB", "rounds"], rows)


if __name__ == "__main__":
    verbs = {
        "train": train, "translate": translate, "learn": learn, "command": command, "table": table,
        "systems": lambda: print("\n".join(SYSTEMS)),
    }  # fmt: skip
    if {*sys.argv[1:]} - {"-h", "--help"}:
        verbs[sys.argv[1]](*sys.argv[2:])
    else:
        print(__doc__)
