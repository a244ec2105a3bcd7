"""Development and test sets sampled from the training text."""

import random
from collections.abc import Mapping
from itertools import chain, islice

from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.machine.progress import progress
from nmtkit.text.hashes import pair_hash
from nmtkit.text.raw import Files
from nmtkit.text.rules import broken_rule, tokenized
from nmtkit.text.settings import Prep, SetOptions
from nmtkit.writing import write_file


def sample_sets(
    raw: Mapping[str, Files], lines: int, held_out: SetOptions, prep: Prep, output: Mapping[str, Files]
) -> None:
    """Sample pairs of the ``lines`` training pairs of ``raw`` and write them, in corpus order, to files for each set.

    They are distinct, pass the cleaning rules and are not in a given set. The rule "overlap", which ``prep`` must
    have, removes them and their duplicates from the training text. Raises UserError if there are too few.
    """
    size = sum(held_out.sizes.values())
    wanted = " and ".join(f"`{split}_size` {number}" for split, number in held_out.sizes.items())
    if 2 * size > lines:
        raise UserError(f"{wanted}: more than half of the {lines} pairs of the training text; use fewer")
    given = [zip(*map(read_lines, raw[split]), strict=True) for split in ("dev", "test") if split in raw]
    known = frozenset(pair_hash(*tokenized(prep, *pair)) for pair in chain(*given))
    numbers, chosen = list[int](), dict[bytes, int]()  # chosen: by hash
    tried = 4 * size + 1000  # more than needed, because some are rejected; few enough to fit into memory
    while len(chosen) < size:
        if len(numbers) == lines:
            usable = f"only {len(chosen)} of {lines} pairs are distinct and pass the cleaning rules"
            raise UserError(f"{wanted}: {usable}; use fewer")
        numbers = random.Random(held_out.seed).sample(range(1, lines + 1), min(lines, tried))
        tried *= 4  # as most pairs of a translation memory of many languages lack a side
        kept, chosen = set(numbers), {}
        with progress(f"sampling {size:,} pairs of train for {' and '.join(held_out.sizes)}", lines):
            pairs = enumerate(zip(*map(read_lines, raw["train"]), strict=True), 1)
            candidates = {number: pair for number, pair in pairs if number in kept}
        # In random order, so that the first ``size`` are a random sample.
        for number in numbers:
            pair = candidates[number]
            src_words, tgt_words = tokenized(prep, *pair)
            hashed = pair_hash(src_words, tgt_words)
            if hashed not in chosen and not broken_rule("".join(pair), src_words, tgt_words, prep, known):
                chosen[hashed] = number
            if len(chosen) == size:
                break
    left = iter(chosen.values())
    for split, share in held_out.sizes.items():
        ordered = sorted(islice(left, share))
        for side, path in enumerate(output[split]):
            write_file(path, "".join(candidates[number][side] + "\n" for number in ordered))
