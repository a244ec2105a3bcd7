"""All measurements on a GPU in one command, because GPU time is scarce.

    python recipes/benchmarks/gpu.py --out gpu                          # all stages
    python recipes/benchmarks/gpu.py train profile --systems dtmt4 --out gpu
    SCALE=tiny DEVICE=cpu python recipes/benchmarks/gpu.py --out gpu    # tries the script itself, without a GPU

Each stage is a separate process with a time limit, so that a failing or hanging one does not affect the others:

    machine      GPU, driver, versions; rate of matrix products
    train        target words/s of whole updates with the papers' sizes, with and without CUDA graphs, compared with the
                 rate of products and with cuDNN's LSTM of equally many multiplications
    profile      kernel launches, host waits and the longest kernels of one update
    search       sentences/s of beam search with batches of 64 to 1,024 sentences
    recurrences  recurrences.py: GRU, LAU and LSTM compared with cuDNN's, with torch.compile and with plain operations
    memory       the largest batch without micro-batches
    repeat       whether a repeated update gives bit-identical weights, and what deterministic algorithms change
    laws         tests/gpu: resumed runs, running out of memory, nccl

Every result is immediately appended to OUT/results.jsonl; OUT/report.md is the section for README.md, rewritten after
each stage, and OUT/log.txt has the output of the stages. Sentences are random, of 25 words. The exit status is 1 if
anything failed; the end of the report says what.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from xml.etree import ElementTree

import numpy as np
import torch
from shared import HERE, RandomCorpus, clock_of, peak_memory, plan, product_rate, seconds
from torch import Tensor, nn

from nmtkit.experiment.presets import SMALL
from nmtkit.folders import ModelFolder
from nmtkit.models.base import count_parameters
from nmtkit.ops.precision import dtype_of, resolve
from nmtkit.search.batching import translate_each
from nmtkit.symbols import EOS
from nmtkit.training import optimizers
from nmtkit.training.gradient import accumulate, clip, micro_batches, read
from nmtkit.training.graphs import graphs_for
from nmtkit.training.progress import Progress
from nmtkit.training.run import Run

Record = dict[str, Any]
NEVER = -1e4  # bias of EOS, so that hypotheses end only at the maximum length


class Scale(NamedTuple):
    """The sizes of all measurements."""

    systems: tuple[str, ...]
    form: str  # suffix of the presets: full size or small version
    vocabulary: tuple[int, int] | None  # words; None: the papers'
    length: int  # of sentences
    tokens: tuple[int, ...]  # of a batch: sentences times the longest side
    most_tokens: int  # upper limit in the search for the largest batch
    updates: int  # the number of timed updates
    searched: tuple[str, ...]
    batches: tuple[int, ...]  # sentences per batch in search
    side: int  # of the square matrices in timed products
    width: int  # of cuDNN's LSTM
    recurrences: tuple[str, ...]  # arguments of recurrences.py
    laws: str  # pytest's selection of tests


SCALES = {
    "full": Scale(
        systems=("rnnsearch", "deep-att", "deep-lau", "bideep", "dtmt4", "densenmt-8l-2", "transformer-base"),
        form="", vocabulary=None, length=25, tokens=(4096, 16384), most_tokens=1 << 20, updates=5,
        searched=("rnnsearch", "dtmt4", "transformer-base"), batches=(64, 256, 1024), side=8192, width=1024,
        recurrences=("--width", "512", "1024", "--rows", "64", "256", "--dtype", "bfloat16", "--rounds", "3"),
        laws="pieces or parts or torchrun",
    ),
    "tiny": Scale(
        systems=("rnnsearch", "dtmt1"), form=SMALL, vocabulary=(60, 60), length=4, tokens=(16, 32), most_tokens=64,
        updates=1, searched=("rnnsearch",), batches=(1, 2), side=64, width=512,
        recurrences=("--width", "16", "--rows", "2", "--steps", "2", "--rounds", "1"), laws="number_format",
    ),
}  # fmt: skip


def planned(scale: Scale, name: str, tokens: int) -> tuple[Any, tuple[int, int]]:
    """The experiment with batches of ``tokens`` without micro-batches, and its vocabulary sizes."""
    settings = [f"training.batch_tokens={tokens}", "training.batch_sentences=null", f"training.pass_tokens={1 << 30}"]
    return plan(Namespace(preset=name, config=None, set=settings, vocab=scale.vocabulary))


def corpus_of(tokens: int, length: int, words: tuple[int, int]) -> RandomCorpus:
    """The sentences of a batch of at most ``tokens``, padding and EOS included."""
    return RandomCorpus(max(1, tokens // (length + max(1, length // 5) + 1)), length, *words)


def start(scale: Scale, name: str, tokens: int, device: torch.device) -> tuple[Run, np.ndarray]:
    """A run before its first update, and the indices of the pairs in its batch."""
    experiment, words = planned(scale, name, tokens)
    training = experiment.training
    torch.manual_seed(1)
    model = experiment.build(*words)
    optimizers.initialise(model, training.groups)
    model.to(device)
    optimizer = optimizers.build_optimizer(model, training.optimizer, training.groups)
    corpus = corpus_of(tokens, scale.length, words)
    dtype = dtype_of(training.precision, device)
    graphs, folder = graphs_for(device), ModelFolder(Path())
    run = Run(model, optimizer, training, corpus, folder, Progress(), dtype, graphs)  # type: ignore[arg-type]
    return run, np.lexsort(corpus.lengths(np.arange(len(corpus))))


def update(run: Run, rows: np.ndarray) -> int:
    """Make an update like training; returns how often memory ran out."""
    run.seed_dropout()
    sums = accumulate(run, rows, micro_batches(run, rows))
    gradient = read(sums, clip(run.model, 1.0))
    run.optimizer.step()
    return gradient.halvings


def gibibytes(device: torch.device) -> float:
    """The peak memory so far, on a GPU since the last reset."""
    return peak_memory() if device.type == "cpu" else torch.cuda.max_memory_allocated(device) / 2**30


def free(device: torch.device) -> None:
    """Free PyTorch's cached memory, and reset the peak."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def each(systems: Sequence[str], measure: Callable[[str], Iterator[Record]]) -> Iterator[Record]:
    """The records of every system; a failure is a record, too, and does not stop the others."""
    for name in systems:
        try:
            yield from ({"system": name, **record} for record in measure(name))
        except Exception as error:  # any failure is a result
            traceback.print_exc()
            yield {"system": name, "failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def machine(scale: Scale, device: torch.device) -> Iterator[Record]:
    card, driver = f"no GPU ({platform.machine()})", ""
    if device.type == "cuda":
        card = torch.cuda.get_device_name(device)
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    yield {"card": card, "driver": driver, "cuda": torch.version.cuda, "python": platform.python_version(),
           "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}  # fmt: skip
    for dtype in (torch.bfloat16, torch.float32):
        rate = product_rate(scale.side, scale.side, scale.side, dtype, device)
        yield {"products": str(dtype), "teraflops": rate / 1e12}


def train(scale: Scale, device: torch.device) -> Iterator[Record]:
    def measure(name: str) -> Iterator[Record]:
        run, _ = start(scale, name, scale.tokens[0], device)
        model, clock = run.model, clock_of(device)
        _, words = planned(scale, name, scale.tokens[0])
        tables = ("embedding.", "output.", "encoder.input.position", "decoder.input.position")
        inner = sum(p.numel() for key, p in model.named_parameters() if p.ndim == 2 and not key.startswith(tables))
        for tokens in scale.tokens:
            free(device)
            corpus = corpus_of(tokens, scale.length, words)
            # First without graphs, which need gradients at fixed addresses.
            run = replace(run, corpus=corpus, graphs=None)  # type: ignore[arg-type]
            rows = np.lexsort(corpus.lengths(np.arange(len(corpus))))
            update(run, rows)
            plain = statistics.median(seconds(partial(update, run, rows), scale.updates, clock))
            [batch] = micro_batches(run, rows)
            plain_memory = gibibytes(device)
            free(device)
            with_graphs = replace(run, graphs=graphs_for(device))
            update(with_graphs, rows)
            [recording] = seconds(partial(update, with_graphs, rows), 1, clock)
            halvings = update(with_graphs, rows)
            updated = statistics.median(seconds(partial(update, with_graphs, rows), scale.updates, clock))
            memory_used = gibibytes(device)

            words_done, steps = len(batch.words), batch.tgt.shape[1]
            rate = product_rate(words_done, 512, 1536, run.dtype, device)
            yield {
                "tokens": tokens, "sentences": len(rows), "precision": str(run.dtype),
                "parameters": count_parameters(model), "words_per_second": words_done / updated,
                "update_ms": 1e3 * updated, "plain_ms": 1e3 * plain, "recording_ms": 1e3 * recording,
                "plain_gibibytes": plain_memory,
                "lstm_ms": 1e3 * cudnn(scale, inner, steps, len(rows), run.dtype, device),
                "share": 6 * (inner + model.output.weight.numel()) * words_done / updated / rate,
                "gibibytes": memory_used, "halvings": halvings,
            }  # fmt: skip

    yield from each(scale.systems, measure)


def cudnn(scale: Scale, inner: int, steps: int, rows: int, dtype: torch.dtype, device: torch.device) -> float:
    """Seconds of torch's LSTM, forward and backward, scaled to ``inner`` multiplications per word and direction."""
    layers = max(1, round(inner / (8 * scale.width**2)))
    network = nn.LSTM(scale.width, scale.width, layers).to(device, dtype)
    x = torch.randn(steps, rows, scale.width, device=device).to(dtype).requires_grad_()

    def run() -> None:
        outputs: Tensor = network(x)[0]
        outputs.backward(torch.ones_like(outputs))

    found = statistics.median(seconds(run, 2 + scale.updates, clock_of(device))[2:])
    return found * inner / (8 * scale.width**2 * layers)


def waiting_lines(run: Run, rows: np.ndarray) -> dict[str, int]:
    """The lines of Python where an update waits for the GPU, and how often."""
    gpu = run.device.type == "cuda"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        if gpu:
            torch.cuda.set_sync_debug_mode("warn")
        try:
            update(run, rows)
        finally:
            if gpu:
                torch.cuda.set_sync_debug_mode("default")
    told = [warning for warning in seen if "synchroniz" in str(warning.message)]
    return Counter(f"{Path(warning.filename).name}:{warning.lineno}" for warning in told)


def profile(scale: Scale, device: torch.device) -> Iterator[Record]:
    def measure(name: str) -> Iterator[Record]:
        run, rows = start(scale, name, scale.tokens[0], device)
        clock = clock_of(device)
        wall = statistics.median(seconds(partial(update, run, rows), 3, clock)[1:])
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if device.type == "cuda":
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=kinds) as profiled:
            update(run, rows)
            clock()
        events = profiled.key_averages()
        host = [e for e in events if e.device_type == torch.autograd.DeviceType.CPU]
        kernels = [e for e in events if e.device_type != torch.autograd.DeviceType.CPU]
        times = [(e.self_device_time_total, e) for e in kernels] or [(e.self_cpu_time_total, e) for e in host]
        waits = [e for e in host if "Synchronize" in e.key]
        top = sorted(times, key=lambda pair: -pair[0])[:12]
        yield {
            "tokens": scale.tokens[0], "update_ms": 1e3 * wall, "busy_ms": sum(t for t, _ in times) / 1e3,
            "launches": sum(e.count for e in host if "Launch" in e.key), "operations": sum(e.count for e in host),
            "waits": sum(e.count for e in waits), "wait_ms": sum(e.self_cpu_time_total for e in waits) / 1e3,
            "copies": sum(e.count for e in host if "Memcpy" in e.key), "waiting_lines": waiting_lines(run, rows),
            "kernels": [{"name": e.key[:70], "count": e.count, "ms": t / 1e3} for t, e in top],
        }  # fmt: skip

    yield from each(scale.systems, measure)


def search(scale: Scale, device: torch.device) -> Iterator[Record]:
    def measure(name: str) -> Iterator[Record]:
        experiment, words = planned(scale, name, scale.tokens[0])
        model = experiment.build(*words).eval().to(device)
        with torch.no_grad():
            model.output.bias[EOS] = NEVER  # random weights do not end a sentence at the right place
        precision = resolve("auto", device)
        scorer = model.for_search(precision)
        for size in scale.batches:
            free(device)
            corpus = RandomCorpus(size, scale.length, *words)
            sentences = [corpus.src(i).tolist() for i in range(size)]
            settings = replace(experiment.search, beam_size=5, max_len_a=1.0, max_len_b=1, max_tokens=10**9)

            def translate(sentences: Any = sentences, settings: Any = settings) -> None:
                assert len(list(translate_each(scorer, [sentences], settings, device=device))) == len(sentences)

            found = min(seconds(translate, 3, clock_of(device))[1:])
            yield {"sentences": size, "precision": precision, "sentences_per_second": size / found,
                   "gibibytes": gibibytes(device)}  # fmt: skip

    yield from each(scale.searched, measure)


def recurrences(scale: Scale, device: torch.device) -> Iterator[Record]:
    command = [sys.executable, HERE / "recurrences.py", "--device", str(device), *scale.recurrences]
    for said, switch in (("with kernels", ""), ("without: NMTKIT_KERNELS=off", "off")):
        environment = {**os.environ, "NMTKIT_KERNELS": switch}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        yield {"markdown": f"Recurrences {said}, {done.stdout}"}


def memory(scale: Scale, device: torch.device) -> Iterator[Record]:
    def measure(name: str) -> Iterator[Record]:
        run, _ = start(scale, name, scale.tokens[-1], device)
        _, words = planned(scale, name, scale.tokens[-1])
        tokens, halvings = scale.tokens[-1], 0
        while not halvings and tokens <= scale.most_tokens:
            free(device)
            corpus = corpus_of(tokens, scale.length, words)
            halvings = update(replace(run, corpus=corpus), np.arange(len(corpus)))  # type: ignore[arg-type]
            yield {"tokens": tokens, "fits": not halvings, "gibibytes": gibibytes(device)}
            tokens *= 2

    yield from each(scale.systems, measure)


def repeat(scale: Scale, device: torch.device) -> Iterator[Record]:
    small = scale._replace(form=SMALL, vocabulary=scale.vocabulary or (5000, 5000))

    def measure(name: str) -> Iterator[Record]:
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            twice = []
            for _ in range(2):
                run, rows = start(small, name.removesuffix(SMALL) + SMALL, scale.tokens[0], device)
                for _ in range(3):
                    update(run, rows)
                twice.append({key: p.detach().clone() for key, p in run.model.named_parameters()})
            other = [key for key, p in twice[0].items() if not torch.equal(p, twice[1][key])]
            yield {"deterministic": deterministic, "same": not other, "others": other[:5], "differing": len(other)}

    try:
        yield from each(scale.systems, measure)
    finally:
        torch.use_deterministic_algorithms(False)


def laws(scale: Scale, device: torch.device) -> Iterator[Record]:
    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "tests/gpu"]
        command = [*pytest, "-k", scale.laws, f"--junitxml={file.name}"]
        subprocess.run(command, cwd=HERE.parents[1], env={**os.environ, "DEVICE": str(device)})
        for case in ElementTree.parse(file.name).iter("testcase"):
            outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
            said = next((child.get("message", "") for child in case if child.tag == outcome), "")
            yield {"test": case.get("name"), "outcome": outcome, "seconds": float(case.get("time", 0)),
                   "message": said[:200]}  # fmt: skip


# Maximum seconds of each stage; their sum exceeds the limit of a call, so --minutes limits all together.
STAGES: dict[str, tuple[Callable[[Scale, torch.device], Iterator[Record]], int]] = {
    "machine": (machine, 90), "train": (train, 210), "profile": (profile, 90), "search": (search, 90),
    "recurrences": (recurrences, 150), "memory": (memory, 90), "repeat": (repeat, 60), "laws": (laws, 120),
}  # fmt: skip


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)) + "\n"


def report(records: Sequence[Record]) -> str:
    """The section of README.md on this GPU."""
    of = {stage: [r for r in records if r["stage"] == stage] for stage in STAGES}
    done = {stage: [r for r in of[stage] if "failed" not in r] for stage in STAGES}
    parts = []
    for record in done["machine"]:
        if "card" in record:
            parts.append(f"### {record['card']}, {record['date']}\n\nDriver {record['driver'] or 'none'}, CUDA "
                         f"{record['cuda']}, Python {record['python']}, torch {record['torch']}. "
                         f"`recipes/benchmarks/gpu.py`.\n")  # fmt: skip
    rates = [f"{r['teraflops']:,.1f} TFLOP/s in {r['products']}" for r in done["machine"] if "products" in r]
    if rates:
        parts.append(f"Products of large square matrices: {', '.join(rates)}.\n")
    if done["train"]:
        rows = [[f"`{r['system']}`", f"{r['parameters'] / 1e6:.1f} M", f"{r['tokens']:,}",
                 f"{r['words_per_second']:,.0f}", f"{r['update_ms']:.1f}", f"{r['plain_ms']:.1f}",
                 f"{r['recording_ms']:.0f}", f"{r['share']:.1%}", f"{r['lstm_ms']:.1f}",
                 f"{r['gibibytes']:.1f}", f"{r['plain_gibibytes']:.1f}"]
                for r in done["train"]]  # fmt: skip
        parts.append("Training. Products: the share of an update that they would take at the measured rate. LSTM:\n"
                     "torch's, forward and backward, with as many multiplications as the model has without output\n"
                     "layer:\n")  # fmt: skip
        parts.append(table(["system", "parameters", "tokens a batch", "target words/s", "ms", "without graph, ms",
                            "recording, ms", "products", "LSTM, ms", "GiB",
                            "GiB without graph"], rows))  # fmt: skip
    if done["profile"]:
        rows = [[f"`{r['system']}`", f"{r['update_ms']:.1f}", f"{r['busy_ms']:.1f}", f"{r['launches']:,}",
                 f"{r['copies']:,}", f"{r['waits']:,}", f"{r['wait_ms']:.1f}",
                 "; ".join(f"{k['ms']:.1f} ms {k['count']} x `{k['name'][:30].replace('|', ' ')}`"
                           for k in r["kernels"][:3])] for r in done["profile"]]  # fmt: skip
        parts.append(f"One update of {done['profile'][0]['tokens']:,} tokens; one of the waits is the measurement's:\n")
        parts.append(table(["system", "ms", "GPU busy, ms", "launches", "copies", "waits", "waited, ms", "longest"],
                           rows))  # fmt: skip
        lines = [f"`{r['system']}` {', '.join(f'{line} {n} x' for line, n in r['waiting_lines'].items()) or 'nowhere'}"
                 for r in done["profile"]]  # fmt: skip
        parts.append(f"The host waited, by PyTorch's own account, in: {'; '.join(lines)}.\n")
    if done["search"]:
        rows = [[f"`{r['system']}`", f"{r['sentences']:,}", r["precision"], f"{r['sentences_per_second']:,.1f}",
                 f"{r['gibibytes']:.1f}"] for r in done["search"]]  # fmt: skip
        parts.append("Beam search, beam 5, translations as long as their sources:\n")
        parts.append(table(["system", "sentences a batch", "precision", "sentences/s", "GiB"], rows))
    parts += [r["markdown"] for r in done["recurrences"]]
    if done["memory"]:
        best = {r["system"]: r for r in done["memory"] if r["fits"]}
        rows = [[f"`{name}`", f"{r['tokens']:,}", f"{r['gibibytes']:.1f}"] for name, r in best.items()]
        parts.append("The largest batch in one pass, doubled until memory ran out:\n")
        parts.append(table(["system", "tokens", "GiB"], rows))
    if done["repeat"]:
        rows = [[f"`{r['system']}`", "yes" if r["deterministic"] else "no", "yes" if r["same"] else "no",
                 ", ".join(r["others"])] for r in done["repeat"]]  # fmt: skip
        parts.append("Three updates done twice:\n")
        parts.append(table(["system", "deterministic algorithms", "same bits", "others"], rows))
    if done["laws"]:
        outcomes = [f"{r['outcome']}: `{r['test']}` {r['message']}".strip().replace("\n", " ") for r in done["laws"]]
        parts.append("Tests of `tests/gpu`:\n\n" + "".join(f"- {outcome}\n" for outcome in outcomes))
    failures = [
        f"- {r['stage']} {r.get('system', '')}: {r['failed']}\n" for s in STAGES for r in of[s] if "failed" in r
    ]
    if failures:
        parts.append("What failed:\n\n" + "".join(failures))
    return "\n".join(parts)


def worker(stage: str, scale: Scale, device: torch.device, results: Path) -> None:
    """Run one stage in this process, and immediately append each record to the file."""
    with results.open("a", encoding="utf-8") as file:
        for record in STAGES[stage][0](scale, device):
            file.write(json.dumps({"stage": stage, **record}) + "\n")
            file.flush()


def limited(command: Sequence[str], limit: float, log: TextIO, environment: Mapping[str, str]) -> str:
    """Run a command and its child processes for at most ``limit`` seconds; returns the error, or an empty string."""
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"not done in {limit:.0f} s"
    return f"ended with status {status}; see log.txt" if status else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", help=f"of {', '.join(STAGES)} [all]")
    parser.add_argument("--systems", nargs="+", help="presets to train, profile and search with")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results, to which new ones are added")
    parser.add_argument("--minutes", type=float, default=9.0, help="for all stages together [9]")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.stages) - set(STAGES):
        parser.error(f"no stage {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    scale, device = SCALES[os.environ.get("SCALE", "full")], torch.device(os.environ.get("DEVICE", "cuda"))
    names = [name + scale.form for name in args.systems or scale.systems]
    searched = [name + scale.form for name in args.systems or scale.searched]
    results = args.out / "results.jsonl"
    if args.worker:
        worker(args.stages[0], scale._replace(systems=tuple(names), searched=tuple(searched)), device, results)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    results.touch()
    before = len(results.read_text(encoding="utf-8").splitlines())
    started = time.monotonic()
    # Deterministic products need this before the first product.
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONWARNINGS": "default"}
    for stage in args.stages or STAGES:
        limit = max(0.0, min(STAGES[stage][1], 60 * args.minutes - (time.monotonic() - started)))
        command = [sys.executable, __file__, stage, "--worker", "--out", str(args.out)]
        command += ["--systems", *args.systems] if args.systems else []
        print(f"{stage}: at most {limit:.0f} s", flush=True)
        begun = time.monotonic()
        with (args.out / "log.txt").open("a", encoding="utf-8") as log:
            print(f"--- {stage}", file=log, flush=True)
            failed = limited(command, limit, log, environment)
        with results.open("a", encoding="utf-8") as file:
            if failed:
                file.write(json.dumps({"stage": stage, "failed": failed}) + "\n")
        records = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        (args.out / "report.md").write_text(report(records), encoding="utf-8")
        print(f"{stage}: {failed or 'done'}, {time.monotonic() - begun:.0f} s", flush=True)
    sys.exit(any("failed" in record for record in records[before:]))


if __name__ == "__main__":
    main()
