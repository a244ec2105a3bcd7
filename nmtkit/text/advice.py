"""Warnings of ``nmtkit prep`` about text from which a model would learn badly, before it is prepared."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nmtkit.errors import counted
from nmtkit.folders import SPLITS
from nmtkit.text.aligned import MISALIGNED_REMEDY, misaligned
from nmtkit.text.moses import has_moses_rules
from nmtkit.text.processed import processing
from nmtkit.text.raw import Files, pairs_of
from nmtkit.text.settings import Prep
from nmtkit.text.spelling import differences
from nmtkit.text.work import Work

_MANY_KNOWN, _LEAST = 0.1, 10  # share of the pairs of a development or test set; a set with fewer pairs is not judged

log = logging.getLogger(__name__)


def warn_of(work: Work) -> None:
    """Warn of a tokenizer that does not suit a language, of misaligned lines, and of text unlike the training text."""
    _warn_of_languages(work.prep)
    given = [split for split in SPLITS if split in work.raw and split not in work.held_out.sizes]
    _warn_of_misaligned(work, given)
    _warn_of_processed(work, given)
    _warn_of_spelling(work, given)
    if "overlap" not in work.prep.cleaning.drop:  # as with sampled sets
        _warn_of_overlap(work, given[1:])


def _warn_of_languages(prep: Prep) -> None:
    """Warn if the tokenizer does not suit a language."""
    for side in prep.sides.values():
        if side.tokenizer not in ("moses", "reversible") or side.command:
            continue
        if not side.finds_words:
            reversible = replace(side, tokenizer="reversible").finds_words
            tokenizer, more = ("reversible", "") if reversible else ("none", " and `sentencepiece`")
            remedy = f"use `tokenizer` {side.language}={tokenizer}{more}, or a segmenter as `tokenizer_command`"
            problem = "written without spaces, and this tokenizer does not find its words"
            log.warning(f"language {side.language}: {problem}; {remedy}")
        elif side.tokenizer == "moses" and not has_moses_rules(side.language):
            problem = "Moses has no rules for it; it uses English abbreviations and splits at every apostrophe"
            log.warning(f"language {side.language}: {problem}; use `tokenizer` reversible")


def _warn_of_misaligned(work: Work, given: Sequence[str]) -> None:
    """Warn of lines that do not correspond to those of the other side, or of a further reference."""
    # The texts of a folder, so that a message names the file, and the whole sides, because the texts may be short.
    pairs = [pair for split in given for pair in (*work.raw[split].texts, work.raw[split])]
    pairs += [Files(work.raw["dev"].src, reference) for reference in work.held_out.references]
    for src, tgt in dict.fromkeys(pairs):
        if found := misaligned(src, tgt):
            log.warning(f"{src}: {found}; {MISALIGNED_REMEDY}")


def _warn_of_processed(work: Work, given: Sequence[str]) -> None:
    """Warn of text that is already tokenised or segmented, and would be split again, and of text with entities."""
    texts = defaultdict[tuple[str, str, str], list[Path]](list)  # by set, language and what is wrong
    for split, text in ((name, text) for name in given for text in work.raw[name].texts):
        for side, path in zip(work.prep.sides.values(), text, strict=True):
            found, what = processing(path, side.language) or (None, "")
            wrong = {"words": side.tokenizer == "reversible", "subwords": side.segmentation != "words"}
            if found and wrong.get(found, True) and not side.command:
                texts[split, side.language, what].append(path)
    for (_, _, what), paths in texts.items():
        more = f" and {len(paths) - 1:,} more, which nmtkit doctor lists" if len(paths) > 1 else ""
        log.warning(f"{paths[0]}{more}: {what}")


def _warn_of_spelling(work: Work, given: Sequence[str]) -> None:
    """Warn of development and test sets that are not written like the training text."""
    for number, side in enumerate(work.prep.sides.values()):
        train, *sets = [work.raw[split][number] for split in given]
        capitals = not (side.lowercase or side.truecase)
        for path, what in differences(sets, train, capitals, apostrophes=not side.normalize):
            log.warning(f"{path}: {what}")


def _warn_of_overlap(work: Work, given: Sequence[str]) -> None:
    """Warn of a development or test set many of whose pairs are in the training text, unless it is all of that text."""
    sets = [split for split in given if work.contents[split][:2] != work.contents["train"][:2]]
    pairs = {split: [*_stripped(work.raw[split])] for split in sets}
    known = {pair for of_split in pairs.values() for pair in of_split if all(pair)}
    found = known.intersection(_stripped(work.raw["train"])) if known else known
    for split, of_split in pairs.items():
        count = sum(pair in found for pair in of_split)
        if len(of_split) >= _LEAST and count > _MANY_KNOWN * len(of_split):
            src, tgt = work.raw[split]
            what = f"{count:,} of {counted(len(of_split), 'pair')} are in the training text, so scores are too high"
            log.warning(f"{src}, {tgt}: {what}; `drop` overlap leaves them out of it")


def _stripped(files: Files) -> Iterator[tuple[str, ...]]:
    """The pairs of a text without white space around their sides."""
    return (tuple(map(str.strip, pair)) for pair in pairs_of(files))
