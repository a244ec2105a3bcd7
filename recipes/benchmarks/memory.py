"""The peak memory of training by batch size, sentence length and vocabulary size, as tables of whole processes.

    python recipes/benchmarks/memory.py                     # rnnsearch and deep-att with the sizes of their papers
    python recipes/benchmarks/memory.py dtmt4 bideep-large

One update each, starting from 40 sentences of 25 words with vocabularies of 30,000. The first figure includes weights,
gradients and optimizer state; the memory of a batch is limited by training.pass_tokens (8,192 padded words).
"""

import argparse

from shared import figures, print_table

SENTENCES, LENGTH, VOCABULARY = 40, 25, 30_000
POINTS = {
    "sentences": [(size, LENGTH, VOCABULARY) for size in (10, 40, 160)],
    "length": [(SENTENCES, length, VOCABULARY) for length in (10, 25, 75)],
    "vocabulary": [(SENTENCES, LENGTH, words) for words in (3_000, 30_000, 100_000)],
}


def peak(preset: str, sentences: int, length: int, words: int) -> float:
    batch = ("--set", f"training.batch_sentences={sentences}", "--set", "training.batch_tokens=null")
    sizes = ("--length", str(length), "--vocab", str(words), str(words), "--updates", "1")
    return float(figures("train.py", preset, *sizes, *batch)["peak_memory"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["rnnsearch", "deep-att"])
    parser.add_argument("--only", choices=POINTS, help="one of the three tables")
    args = parser.parse_args()
    for name in [args.only] if args.only else POINTS:
        column = list(POINTS).index(name)
        print_table(["GiB, by " + name, *(f"{point[column]:,}" for point in POINTS[name])],
                    [[preset, *(f"{peak(preset, *point):.2f}" for point in POINTS[name])]
                     for preset in args.presets])  # fmt: skip
        print()


if __name__ == "__main__":
    main()
