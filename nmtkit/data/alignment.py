"""``nmtkit align``: word alignment of a data folder, and a lexicon built from the links."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nmtkit.align.eflomal import align_with_eflomal
from nmtkit.align.lexicon import WordPair, write_lexicon
from nmtkit.align.pharaoh import Link, check_links, format_links, parse_links, read_alignment
from nmtkit.align.symmetrize import Heuristic, symmetrized
from nmtkit.errors import check_lines, counted
from nmtkit.folders import ALIGN_FILES, TextFiles
from nmtkit.lines import count_lines, read_lines
from nmtkit.machine.progress import progress
from nmtkit.text.bpe import Segmenter
from nmtkit.text.manifest import read_manifest
from nmtkit.text.sentencepieces import SentencePieces
from nmtkit.text.settings import Prep, Segmentation, load_prep
from nmtkit.writing import move_into_place, staging_folder

# The functions that join the subwords of each segmentation into words.
JOIN: dict[Segmentation, Callable[[list[str]], list[str]]] = {
    "bpe": Segmenter.join,
    "sentencepiece": SentencePieces.join,
    "words": list,
}


class Aligned(NamedTuple):
    """Statistics of one split."""

    pairs: int
    links: int
    words: int  # of the target
    linked: int  # target words with a link


@dataclass(frozen=True)
class AlignmentReport:
    """The result of an alignment; ``str`` gives the printed report."""

    folder: Path
    splits: dict[str, Aligned]
    word_pairs: int  # distinct linked pairs
    entries: int  # of the lexicon
    threshold: int

    def __str__(self) -> str:
        lines = [
            f"{self.folder / split}.align: {counted(aligned.pairs, 'pair')}, {counted(aligned.links, 'link')}, "
            f"{aligned.linked / max(1, aligned.words):.1%} of the target words linked"
            for split, aligned in self.splits.items()
        ]
        lexicon = f"{TextFiles(self.folder).lexicon}: {self.entries:,} of {self.word_pairs:,} word pairs"
        return "\n".join([*lines, f"{lexicon}, those linked more than {self.threshold} times"])

    __repr__ = __str__


def align_with_program(folder: Path, heuristic: Heuristic, threshold: int) -> AlignmentReport:
    """Align training and development text of a data folder with eflomal, and build a lexicon from the links.

    The lexicon has the pairs linked more than ``threshold`` times. Raises UserError if eflomal is missing or fails.
    """
    prep = _load_prep(folder)
    splits = [split for split in ("train", "dev") if split == "train" or (folder / "dev.src").is_file()]
    with staging_folder(folder) as staging:
        # Both splits in one file, because dev is too small to be aligned alone.
        src, tgt, forward, reverse = (staging / name for name in ("src", "tgt", "forward", "reverse"))
        with open(src, "w", encoding="utf-8") as src_file, open(tgt, "w", encoding="utf-8") as tgt_file:
            for split in splits:
                for src_words, tgt_words in _sentences(folder, split, prep):
                    src_file.write(" ".join(src_words) + "\n")
                    tgt_file.write(" ".join(tgt_words) + "\n")
        with progress("aligning with eflomal"):
            align_with_eflomal(src, tgt, forward, reverse)
        # Iterators, because the links of a large corpus do not fit into memory.
        links = map(partial(symmetrized, heuristic), read_alignment(forward), read_alignment(reverse))
        return _write(folder, staging, prep, splits, links, forward, threshold)


def take_alignment(folder: Path, pharaoh: Path, threshold: int) -> AlignmentReport:
    """Read the alignment of the training text from a Pharaoh file, and build a lexicon as ``align_with_program`` does.

    Raises UserError if it does not fit the text.
    """
    prep = _load_prep(folder)
    src, remedy = folder / "train.src", "align the text of that folder, without the pairs that nmtkit prep left out"
    with staging_folder(folder) as staging:
        copy = staging / "links"  # because the alignment may be a pipe, which cannot be read twice
        with open(copy, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in read_lines(pharaoh))
        check_lines(pharaoh, count_lines(copy), src, count_lines(src), remedy)
        links = (parse_links(line, pharaoh, number) for number, line in enumerate(read_lines(copy), 1))
        return _write(folder, staging, prep, ["train"], links, pharaoh, threshold)


def _load_prep(folder: Path) -> Prep:
    """The settings of a data folder. Raises UserError for another folder: a model folder has settings, but no text."""
    prep = load_prep(folder)
    read_manifest(folder)
    return prep


def _sentences(folder: Path, split: str, prep: Prep) -> Iterator[tuple[list[str], list[str]]]:
    """The pairs of a split as whole words. Raises UserError if the two files have different lengths."""
    src, tgt = (folder / f"{split}.{side}" for side in ("src", "tgt"))
    check_lines(src, count_lines(src), tgt, count_lines(tgt), "run nmtkit prep again")
    src_join, tgt_join = JOIN[prep.src.segmentation], JOIN[prep.tgt.segmentation]
    for src_line, tgt_line in zip(read_lines(src), read_lines(tgt), strict=True):
        yield src_join(src_line.split()), tgt_join(tgt_line.split())


def _write(
    folder: Path,
    staging: Path,
    prep: Prep,
    splits: list[str],
    links: Iterator[list[Link]],
    origin: Path,
    threshold: int,
) -> AlignmentReport:
    """Write SPLIT.align and the lexicon to the folder from the ``links`` of all splits in order.

    origin: their file, for messages. Raises UserError for a link outside its sentence pair.
    """
    counts: Counter[WordPair] = Counter()
    aligned = {}
    for split in splits:
        pairs = number = words = linked = 0
        with (
            progress(f"counting links of {split}", count_lines(folder / f"{split}.src")) as advance,
            open(staging / f"{split}.align", "w", encoding="utf-8") as file,
        ):
            for (src, tgt), sentence in zip(_sentences(folder, split, prep), links, strict=False):
                pairs += 1
                check_links(sentence, len(src), len(tgt), origin, pairs)
                file.write(format_links(sentence) + "\n")
                number += len(sentence)
                words += len(tgt)
                linked += len({t for _, t in sentence})
                # The lexicon is part of the model and must not contain evaluation data.
                if split == "train":
                    counts.update((src[s], tgt[t]) for s, t in sentence)
                advance(1)
        aligned[split] = Aligned(pairs, number, words, linked)
    entries = write_lexicon(TextFiles(staging).lexicon, counts, threshold)
    # dev.align is kept if ``pharaoh`` has no links of dev: it may be the user's own, and belongs to the same text.
    move_into_place(staging, folder, [name for name in ALIGN_FILES if (staging / name).exists()])
    return AlignmentReport(folder, aligned, len(counts), entries, threshold)
