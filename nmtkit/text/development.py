"""A development set sampled from the training text."""

import random
from collections.abc import Iterable, Mapping

from nmtkit.errors import UserError
from nmtkit.lines import read_lines, write_file
from nmtkit.machine.progress import progress
from nmtkit.text.hashes import pair_hash
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.raw import Files
from nmtkit.text.rules import broken_rule
from nmtkit.text.settings import Prep


def sample_dev(raw: Mapping[str, Files], lines: int, size: int, seed: int, prep: Prep, dev: Files) -> None:
    """Sample ``size`` of the ``lines`` training pairs of ``raw`` and write them, in corpus order, to the files ``dev``.

    They are distinct, pass the cleaning rules and are not in the test set. The rule "overlap", which ``prep`` must
    have, removes them and their duplicates from the training text. Raises UserError if there are too few.
    """
    if 2 * size > lines:
        raise UserError(f"`dev_size` {size}: more than half of the {lines} pairs of the training text; use fewer")
    # More than needed, because some are rejected; few enough to fit into memory.
    numbers = random.Random(seed).sample(range(1, lines + 1), min(lines, 4 * size + 1000))
    wanted = set(numbers)
    with progress(f"sampling {size:,} pairs of train for dev", lines):
        pairs = enumerate(zip(*map(read_lines, raw["train"]), strict=True), 1)
        candidates = {number: pair for number, pair in pairs if number in wanted}
    pipelines = TextPipeline(prep.src), TextPipeline(prep.tgt)

    def tokenize(pair: Iterable[str]) -> list[list[str]]:
        return [pipeline.tokenize(line) for pipeline, line in zip(pipelines, pair, strict=True)]

    test = zip(*map(read_lines, raw["test"]), strict=True) if "test" in raw else ()
    tested = frozenset(pair_hash(*tokenize(pair)) for pair in test)
    seen, chosen = set[bytes](), set[int]()
    # In random order, so that the first ``size`` are a random sample.
    for number in numbers:
        pair = candidates[number]
        src_words, tgt_words = tokenize(pair)
        hashed = pair_hash(src_words, tgt_words)
        if hashed not in seen and not broken_rule("".join(pair), src_words, tgt_words, prep, tested):
            chosen.add(number)
            seen.add(hashed)
        if len(chosen) == size:
            break
    if len(chosen) < size:
        usable = f"only {len(chosen)} of {len(numbers)} sampled pairs are distinct and pass the cleaning rules"
        raise UserError(f"`dev_size` {size}: {usable}; use fewer")
    for side, path in enumerate(dev):
        write_file(path, "".join(candidates[number][side] + "\n" for number in sorted(chosen)))
