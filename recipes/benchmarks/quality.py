"""Quality against speed: BLEU and sentences/s of trained models in every precision, as a table and a picture.

    python recipes/benchmarks/quality.py averaged-rnnsearch averaged-bideep --text test2016.en --reference test2016.de
    python recipes/benchmarks/quality.py averaged-* --text ... --reference ... --stop all bound first
    python recipes/benchmarks/quality.py averaged-* --text ... --reference ... --picture quality.svg

From raw text to raw text with the model's own search settings, without loading. Models are interleaved, so that a
temporarily busy machine slows all of them; the result is the median of --rounds. BLEU is sacreBLEU 13a, cased.
"""

import argparse
import itertools
import statistics
from collections import defaultdict
from pathlib import Path
from typing import get_args

import sacrebleu
import torch
from shared import CLOCK, print_table

import nmtkit
from nmtkit.lines import read_lines
from nmtkit.machine import memory
from nmtkit.ops.precision import Products, resolve

MARKERS = {"float32": "o", "bfloat16": "s", "int8": "^"}


def draw(path: Path, points: dict[str, dict[str, tuple[float, float]]]) -> None:
    """Plot BLEU over sentences/s, with a colour for each model and a marker for each precision."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "nmtkit", "svg.fonttype": "none", "font.size": 8}
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for number, (model, found) in enumerate(points.items()):
        places = [found[precision] for precision in MARKERS if precision in found]
        axes.plot(*zip(*places, strict=True), color=f"C{number}", linewidth=0.8, label=model)
        for precision, place in found.items():
            axes.plot(*place, MARKERS[precision], color=f"C{number}", markersize=5)
    for precision, marker in MARKERS.items():
        axes.plot([], [], marker, color="0.4", label=precision)
    axes.set(xlabel=f"sentences/s, {torch.get_num_threads()} thread(s)", ylabel="BLEU", xlim=(0, None))
    axes.grid(linewidth=0.3)
    axes.legend(ncols=2)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--text", type=Path, required=True, help="raw source lines")
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--precision", nargs="+", choices=get_args(Products), help="[those that the processor has]")
    parser.add_argument("--stop", nargs="+", default=["all"], choices=["all", "bound", "first"], help="[all]")
    parser.add_argument("--rounds", type=int, default=2, help="[2]")
    parser.add_argument("--picture", type=Path, help="an SVG file, drawn by matplotlib")
    args = parser.parse_args()
    lines, references = list(read_lines(args.text)), list(read_lines(args.reference))
    memory.keep()  # as `nmtkit translate` does
    # bfloat16 only where it is faster.
    fast = resolve("auto", torch.device("cpu"))
    precisions = args.precision or ["float32", *(["bfloat16"] if fast == "bfloat16" else []), "int8"]
    translators = {
        (model, precision): nmtkit.load(model, "cpu", precision=precision)
        for model, precision in itertools.product(args.models, precisions)
    }
    speeds, outputs = defaultdict[tuple[Path, str, str], list[float]](list), {}
    for number in range(args.rounds + 1):
        for (model, precision), translator in translators.items():
            for stop in args.stop:
                if not number:  # warm-up: everything made once is made here
                    list(translator.translate(lines[:50], nmtkit.Request(stop=stop)))
                    continue
                start = CLOCK()
                outputs[model, precision, stop] = list(translator.translate(lines, nmtkit.Request(stop=stop)))
                speeds[model, precision, stop].append(len(lines) / (CLOCK() - start))
    rows, points = [], defaultdict[str, dict[str, tuple[float, float]]](dict)
    for (model, precision, stop), texts in outputs.items():
        bleu = sacrebleu.corpus_bleu(texts, [references]).score
        speed = statistics.median(speeds[model, precision, stop])
        words = sum(len(text.split()) for text in texts) / len(texts)
        rows.append([f"`{model.name}`", precision, stop, f"{speed:.1f}", f"{bleu:.2f}", f"{words:.1f}"])
        if stop == args.stop[0]:
            points[model.name][precision] = speed, bleu
    print_table(["model", "precision", "stop", "sentences/s", "BLEU", "words a line"], rows)
    if args.picture:
        draw(args.picture, points)


if __name__ == "__main__":
    main()
