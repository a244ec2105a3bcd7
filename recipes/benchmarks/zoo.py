"""Training speed, translation speed and memory of the small version of every system of recipes/multi30k, in one table.

    python recipes/benchmarks/zoo.py
    python recipes/benchmarks/zoo.py rnnsearch dtmt1 --updates 5 --sentences 100

Batches of 80 sentences of 14 words, vocabularies of 8,500; beam 5, translations as long as their sources. Each figure
is from a separate process; systems are interleaved, so that a temporarily busy machine slows all of them.
"""

import argparse
import statistics
from collections import defaultdict

from shared import figures, print_table

from nmtkit.experiment.presets import SMALL, find_preset, preset_names

# The systems whose small version was trained.
SYSTEMS = sorted(name for name in preset_names() if find_preset(name + SMALL).paper["score"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", default=SYSTEMS)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    batch = ("--set", "training.batch_sentences=80", "--set", "training.batch_tokens=null")
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(args.rounds):
        for name in args.systems:
            model = (name + SMALL, "--vocab", "8500", "8500")
            train = figures("train.py", *model, *batch, "--updates", str(args.updates))
            translate = figures("translate.py", *model, "--sentences", str(args.sentences), "--rounds", "2")
            for key, value in [*train.items(), *((f"translate_{key}", value) for key, value in translate.items())]:
                found[name][key].append(value)
    rows = []
    for name, lists in found.items():
        of = {key: statistics.median(values) for key, values in lists.items()}
        rows.append([f"`{name}`", f"{of['parameters'] / 1e6:.1f} M", f"{of['words_per_second']:,.0f}",
                     f"{of['share']:.0%}", f"{of['peak_memory']:.2f}", f"{of['translate_sentences_per_second']:.1f}",
                     f"{of['translate_peak_memory']:.2f}"])  # fmt: skip
    print_table(["system", "parameters", "training, words/s", "share of products", "GiB", "translation, sentences/s",
                 "GiB"], rows)  # fmt: skip


if __name__ == "__main__":
    main()
