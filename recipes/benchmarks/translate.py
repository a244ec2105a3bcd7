"""Speed and memory of beam search, with a preset on random sentences or a trained model on real ones.

    python recipes/benchmarks/translate.py dtmt1-small --vocab 8500 8500
    python recipes/benchmarks/translate.py --model run-dtmt1 --text test2016.en
    OMP_NUM_THREADS=4 python recipes/benchmarks/translate.py rnnsearch      # four threads in one process
    python recipes/benchmarks/translate.py rnnsearch --jobs 4               # four processes with a thread each
    python recipes/benchmarks/translate.py deep-att --shortlist 10000       # of the 80,000 words of its vocabulary
    python recipes/benchmarks/translate.py rnnsearch --wall --device cuda

A random model does not end a sentence at the right place, so hypotheses are forced to be as long as the source, or
--words N. All then stay alive to the end, which is more work than search with a trained model. In a step, a sentence
has a row for each living hypothesis. Prints the median of --rounds, after a warm-up round; with --jobs, memory is that
of the parent only.
"""

import itertools
import json
import multiprocessing
import statistics
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

import torch
from shared import CLOCK, RandomCorpus, options, peak_memory, plan, seconds
from torch import Tensor

from nmtkit.data.vocab import Vocabulary
from nmtkit.experiment.model import load_model
from nmtkit.folders import TextFiles
from nmtkit.lines import read_lines
from nmtkit.machine import memory
from nmtkit.ops.precision import Precision, resolve
from nmtkit.ops.tree import Tree
from nmtkit.search.batching import translate_each
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import Search
from nmtkit.search.shortlist import Narrowing, Shortlists
from nmtkit.symbols import EOS
from nmtkit.text.pipeline import TextPipeline

NEVER = -1e4  # bias of EOS, so that hypotheses end only at the maximum length


class Counted:
    """A scorer that counts steps and rows, the work of search."""

    def __init__(self, scorer: Scorer, counts: list[int]):
        self._scorer, self._counts = scorer, counts

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        return self._scorer.begin(src, src_mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        self._counts[0] += 1
        self._counts[1] += len(y)
        return self._scorer.step(memory, state, y)

    def over(self, words: Tensor) -> "Counted":
        return Counted(cast(Narrowing, self._scorer).over(words), self._counts)


def prepare(args: Namespace) -> tuple[Scorer, Search, list[list[int]], int | None, torch.device]:
    """The model, its search settings, the sentences, the size of the shortlist, and the device."""
    memory.keep()  # both as in `nmtkit translate`
    memory.bound_caches()
    if args.model:
        model, planned = load_model(args.model, args.device)
        pipeline, vocabulary = (
            TextPipeline.load(args.model, "src"),
            Vocabulary.load(TextFiles(args.model).vocabulary("src")),
        )
        lines = itertools.islice(read_lines(args.text), args.sentences)
        sentences = [vocabulary.ids(pipeline.tokens(line)) for line in lines]
    else:
        planned, words = plan(args)
        model = planned.build(*words).eval().to(args.device)
        corpus = RandomCorpus(args.sentences, args.length, *words)
        sentences = [corpus.src(i).tolist() for i in range(len(corpus))]
    search = replace(planned.search, beam_size=args.beam_size)
    if args.words or not args.model:
        with torch.no_grad():
            model.output.bias[EOS] = NEVER
        share, constant = (0.0, args.words - 1) if args.words else (1.0, 1)  # EOS included
        search = replace(search, max_len_a=share, max_len_b=constant)
    scorer = model.for_search(resolve(args.precision, args.device))
    return scorer, search, sentences, args.shortlist, args.device


def start(args: Namespace) -> None:
    """Set up a process of --jobs."""
    global work
    torch.set_num_threads(1)
    work = prepare(args)


def translate(part: slice) -> tuple[int, int, int, int]:
    """Translate sentences in this process; returns the numbers of sentences, target words with EOS, steps, and rows."""
    model, search, sentences, words, device = work
    sentences = sentences[part]
    shortlists = None if words is None else Shortlists(words, [()] * len(sentences))
    counts = [0, 0]
    counted = Counted(model, counts)
    found = list(translate_each(counted, [sentences], search, device=device, shortlists=shortlists))
    return len(found), sum(len(best[0].ids) + 1 for _, best in found), *counts


def main() -> None:
    global work
    parser = options(__doc__)
    parser.add_argument("--model", type=Path, help="folder of a trained model instead of a preset")
    parser.add_argument("--text", type=Path, help="raw source text for the model")
    parser.add_argument("--sentences", type=int, default=200, help="number of sentences [200]")
    parser.add_argument("--words", type=int, help="target words of every sentence, EOS included")
    parser.add_argument("--shortlist", type=int, help="search among this many words, the first of the vocabulary")
    parser.add_argument("--precision", choices=get_args(Precision), default="auto", help="of the products [auto]")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu or cuda [cpu]")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wall", action="store_true", help="use wall time also for a single thread")
    parser.add_argument("--jobs", type=int, default=1, help="processes with one thread each [1: all threads in one]")
    args = parser.parse_args()
    if (args.model is None) == (args.preset is None) or (args.model is None) != (args.text is None):
        parser.error("give a preset, or --model FOLDER with --text FILE")
    parts = [slice(job, None, args.jobs) for job in range(args.jobs)]
    done: list[tuple[int, int, int, int]] = []
    if args.jobs == 1:
        work, clock = prepare(args), time.perf_counter if args.wall else CLOCK
        times = seconds(lambda: done.extend(map(translate, parts)), 1 + args.rounds, clock)
    else:
        with multiprocessing.get_context("spawn").Pool(args.jobs, start, (args,)) as pool:
            times = seconds(lambda: done.extend(pool.map(translate, parts, 1)), 1 + args.rounds, time.perf_counter)
    median = statistics.median(times[1:])
    count, words, steps, rows = (sum(column) // len(times) for column in zip(*done, strict=True))
    speed = count / median, words / median
    found = {"sentences_per_second": speed[0], "words_per_second": speed[1], "peak_memory": peak_memory(),
             "steps": steps, "row_steps_a_sentence": rows / count}  # fmt: skip
    if args.json:
        print(json.dumps(found))
        return
    threads = f"{args.jobs} x {torch.get_num_threads() if args.jobs == 1 else 1} threads"
    print(f"{args.preset or args.model}: {count} sentences ({median:.2f} s), beam {args.beam_size}, {threads}")
    print(f"{speed[0]:,.1f} sentences/s, {speed[1]:,.0f} target words/s, peak memory {found['peak_memory']:.2f} GiB")
    print(f"{steps:,} steps, {rows / count:.1f} rows of them a sentence")


if __name__ == "__main__":
    main()
