"""A development set drawn from the training text, for a text that comes without one."""

import random
from collections.abc import Iterator, Mapping

from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, parse_line, raw_lines, read_lines
from nmtkit.machine.progress import progress
from nmtkit.text.hashes import pair_hash
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.raw import Files
from nmtkit.text.rules import broken_rule
from nmtkit.text.settings import Prep


def draw(raw: Mapping[str, Files], lines: int, size: int, seed: int, prep: Prep, dev: Files) -> None:
    """Write ``size`` of the ``lines`` training pairs of ``raw``, drawn at random, to the files ``dev`` in their order.

    Only pairs are drawn that training could use and that are not in the test set, and no two of them are equal. They
    have to be left out of training then, and so has whatever equals them: the rule "overlap", which the settings must
    have, does all of this. Raises UserError where there are too few.
    """
    train = raw["train"]
    if 2 * size > lines:
        raise UserError(
            f"`dev_size` {size}: more than half of the {lines} pairs of {train.src} and {train.tgt}; take less"
        )
    # More than are needed, because some cannot be used; few enough to be held in memory.
    numbers = random.Random(seed).sample(range(1, lines + 1), min(lines, 4 * size + 1000))
    with progress(f"drawing {size:,} pairs of train for dev", lines):
        candidates = dict(_pairs(train, set(numbers)))
    pipelines, seen, drawn = (TextPipeline(prep.src), TextPipeline(prep.tgt)), set[bytes](), set[int]()
    tested = frozenset(_hashes(raw["test"], pipelines) if "test" in raw else ())
    # In the order in which they were drawn, not of their lines: the first that can be used are a random choice.
    for number in numbers:
        pair = candidates[number]
        src_words, tgt_words = (pipeline.tokenize(line) for pipeline, line in zip(pipelines, pair, strict=True))
        hashed = pair_hash(src_words, tgt_words)
        if hashed not in seen and not broken_rule("".join(pair), src_words, tgt_words, prep, tested):
            drawn.add(number)
            seen.add(hashed)
        if len(drawn) == size:
            break
    if len(drawn) < size:
        raise UserError(
            f"`dev_size` {size}: of {len(numbers)} pairs drawn from {train.src} and {train.tgt} only {len(drawn)} "
            "differ and could be trained on; take less"
        )
    for side, path in enumerate(dev):
        with atomic_write(path) as file:
            file.writelines(candidates[number][side] + "\n" for number in sorted(drawn))


def _hashes(files: Files, pipelines: tuple[TextPipeline, TextPipeline]) -> Iterator[bytes]:
    """The hashes of the pairs of a text, tokenised as the training text is."""
    for pair in zip(*map(read_lines, files), strict=True):
        src_words, tgt_words = (pipeline.tokenize(line) for pipeline, line in zip(pipelines, pair, strict=True))
        yield pair_hash(src_words, tgt_words)


def _pairs(files: Files, numbers: set[int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """The lines of these numbers (from 1) of both sides."""
    for number, (src, tgt) in enumerate(zip(raw_lines(files.src), raw_lines(files.tgt), strict=True), 1):
        if number in numbers:
            yield number, (parse_line(src, files.src, number), parse_line(tgt, files.tgt, number))
