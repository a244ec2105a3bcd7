"""Learning truecasing models, BPE merges and SentencePiece models from the clean training text."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

from nmtkit.folders import SIDES, SideName, TextFiles
from nmtkit.machine.processes import Chunk, Workers
from nmtkit.machine.progress import progress
from nmtkit.text.bpe import learn_merges
from nmtkit.text.counts import merged, most_frequent, write_run
from nmtkit.text.placeholders import MASKS
from nmtkit.text.sentencepieces import learn_sentencepieces
from nmtkit.text.settings import Prep
from nmtkit.text.truecasing import Truecaser, count_cases, learn_truecaser
from nmtkit.text.work import CHUNK_LINES, Work, split_lines
from nmtkit.writing import write_file

# BPE merges by the number of training words per side. Sennrich and Zhang 2019 use a vocabulary of 2,000 for 100,000
# words; in Ding et al. 2019 at most 4,000 merges are best for low-resource recurrent models.
_MERGES = ((300_000, 2_000), (1_000_000, 4_000), (10_000_000, 10_000))
_MANY_MERGES = 32_000

_LEARNT_FROM = 500_000  # most frequent word types; 850 MB in subword-nmt


def choose_merges(work: Work) -> tuple[int, str]:
    """The number of BPE merges for the size of the clean training text, and the reason."""
    sides = [name for name, side in work.prep.sides.items() if side.finds_words] or SIDES  # in Thai, tokens are phrases
    most = _MERGES[-1][0]
    words = 0
    for chunk in (chunk for shard in work.shards for side in sides for chunk in work.tokens(shard, side)):
        words += sum(map(len, split_lines(chunk)))
        if words >= len(sides) * most:  # more would not change the choice
            return _MANY_MERGES, f"the training text has more than {most:,} words per side"
    merges = next(merges for limit, merges in _MERGES if words < len(sides) * limit)
    return merges, f"the training text has {words // len(sides):,} words per side"


def learn_truecasers(work: Work, kept: int) -> None:
    """Learn the missing truecasing models. kept: the number of clean training pairs, for the progress bar."""
    for side, settings in work.prep.sides.items():
        model = TextFiles(work.folder).truecasing(side)
        if settings.truecase and not model.exists():
            runs = _count(work, side, "cases", _cases, kept)
            write_file(model, learn_truecaser(Counter(dict(most_frequent(merged(runs), _LEARNT_FROM))), settings.case))


def learn_segmenters(work: Work, prep: Prep, kept: int) -> None:
    """Learn the missing BPE or SentencePiece models on the truecased words, jointly or for each side.

    prep: the settings of the work with the number of merges chosen. kept: as in ``learn_truecasers``.
    """
    files = TextFiles(work.folder)
    assert prep.merges is not None, "chosen before"
    for kind, path, amount, what in (
        ("bpe", files.merges, prep.merges, "BPE merges"),
        ("sentencepiece", files.sentencepieces, prep.pieces, "SentencePiece pieces"),
    ):
        sides = [name for name, side in prep.sides.items() if side.segmentation == kind]
        if all(path(side).exists() for side in sides):
            continue
        groups = [sides] if prep.joint else [[side] for side in sides]  # one model per group
        runs = {}
        for side in sides:
            truecaser = files.truecasing(side) if files.truecasing(side).exists() else None
            runs[side] = _count(work, side, "words", partial(_words, truecaser, prep.sides[side].case), kept)
        # Two groups learn at the same time, sharing the memory, in processes that return it to the system at their end.
        learn = partial(_learn, prep, kind, _LEARNT_FROM // len(groups))
        with progress(f"learning {amount:,} {what}"), Workers(min(work.pool.count, 2)) as learners:
            learnt = list(learners.map(learn, [[run for side in group for run in runs[side]] for group in groups]))
        for group, model in zip(groups, learnt, strict=True):
            for side in group:
                write_file(path(side), model)


def _learn(prep: Prep, kind: str, limit: int, runs: Sequence[Path]) -> bytes:
    """BPE merges or a SentencePiece model from the ``limit`` most frequent words of the runs."""
    counts = Counter(dict(most_frequent(merged(runs), limit)))
    if kind == "bpe":
        assert prep.merges is not None, "chosen before"
        return learn_merges(counts, prep.merges).encode()
    return learn_sentencepieces(counts, prep.pieces, prep.languages, MASKS if prep.mask else ())


def _count(work: Work, side: SideName, name: str, function: Callable[[Chunk], Counter[str]], kept: int) -> list[Path]:
    """Write the counts of ``function`` for each shard as runs (counts.py), skipping those that exist."""
    runs = {shard: work.shard_file(shard, f"{name}.{side}") for shard in work.shards}
    todo = [shard for shard, run in runs.items() if not run.exists()]
    with progress(f"counting {name} of train.{side}", kept * len(todo) // len(runs)) as advance:
        for shard in todo:
            counts: Counter[str] = Counter()
            for chunk_counts in work.pool.map(function, work.tokens(shard, side)):
                counts.update(chunk_counts)
                advance(CHUNK_LINES)
            write_run(runs[shard], sorted(counts.items()))
    return list(runs.values())


def _cases(chunk: Chunk) -> Counter[str]:
    """Counts of the forms of words whose case is informative."""
    return count_cases(split_lines(chunk))


def _words(truecaser: Path | None, language: str, chunk: Chunk) -> Counter[str]:
    """Counts of the words of a chunk, truecased if there is a model."""
    words: Iterable[list[str]] = split_lines(chunk)
    if truecaser is not None:
        words = map(_truecaser(truecaser, language).apply, words)
    return Counter(chain.from_iterable(words))


# Per process and side; a work folder is named after its settings.
_truecaser = lru_cache(maxsize=2)(Truecaser.load)
