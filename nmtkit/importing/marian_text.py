"""Marian's vocabularies, and the subword segmentation of a model.

Marian has no ``<pad>`` and no ``<s>``: a bias makes their probability 0.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from nmtkit.data.foreign import entries
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.folders import SIDES
from nmtkit.importing.words import Words
from nmtkit.symbols import SPELLINGS
from nmtkit.text.bpe import Segmenter
from nmtkit.text.manifest import read_json
from nmtkit.text.sentencepieces import SentencePieces
from nmtkit.text.settings import Prep, Segmentation, Side


def read_words(path: Path, most: int | None = None) -> Words:
    """Read a vocabulary of Marian (``.yml``, ``.spm`` or text), or its first ``most`` words.

    Raises UserError if it is not one of a bilingual model.
    """
    every = _listed(path)
    theirs = every if path.suffix == ".spm" else every[:most]  # as Marian
    ids = {word: id for id, word in enumerate(theirs)}
    for symbol in ("</s>", "<unk>"):
        if symbol not in ids:
            raise UserError(f"{path}: has no {symbol}; give the vocabulary that Marian was trained with")
    if mark := next((word for word in theirs if re.fullmatch(r">>[^<>]+<<", word)), None):
        raise UserError(f"{path}: has {mark}, which marks a target language: multilingual models cannot be imported")
    others = [word for word in theirs if word not in SPELLINGS]
    # A word with white space cannot occur in text, but has an embedding.
    shown = [re.sub(r"\s", lambda space: f"<{ord(space[0]):04X}>", word) or "<>" for word in others]
    vocabulary = Vocabulary([*SPELLINGS, *shown], [0] * (len(SPELLINGS) + len(shown)))
    cut = f"vocabulary: the first {len(theirs):,} of the {len(every):,} words of {path.name}, as in dim-vocabs"
    notes = (cut,) if len(theirs) < len(every) else ()
    return Words(path, theirs, [ids.get(word) for word in (*SPELLINGS, *others)], vocabulary, notes)


def _listed(path: Path) -> list[str]:
    """The words of a file in the order of their ids. Raises UserError if it is not a vocabulary of Marian."""
    if path.suffix == ".fsv":
        raise UserError(f"{path}: a factored vocabulary; models with factors cannot be imported")
    numbers, words = zip(*entries(path), strict=True) if path.is_file() else ((), ())
    if not words or numbers != tuple(range(len(words))) or len(set(words)) < len(words):
        raise UserError(f"{path}: is not a vocabulary of Marian, whose words have the ids 0, 1, 2, ...")
    return list(words)


def segmentation(folder: Path, vocabularies: Sequence[Path]) -> tuple[Prep, dict[str, bytes], list[str]]:
    """The settings and files for text processing, without a tokenizer, and notes on them."""
    pieces = vocabularies if all(path.suffix == ".spm" for path in vocabularies) else _pair(folder, "spm")
    codes = [] if pieces else _pair(folder, "bpe")
    normalize = False
    if pieces:
        script = folder / "preprocess.sh"
        # OPUS-MT normalises text before SentencePiece, with Moses' rules or a list of quotes and wide characters, the
        # most frequent of which Moses normalises too. Marian's own SentencePiece does not normalise.
        steps = script.read_text("utf-8", "replace") if script.is_file() else "normalize-punctuation"
        normalize = pieces != vocabularies and any(sign in steps for sign in ("normalize-punctuation", "\u2019"))
        notes = [f"segmentation: SentencePiece, {pieces[0].name} and {pieces[1].name}"]
        notes += ["normalisation: punctuation, as by Moses"] * normalize
    elif codes:
        for file in codes:
            Segmenter.load(file)  # raises UserError for other files
        notes = [f"segmentation: BPE, {codes[0].name} and {codes[1].name}, of tokenised text"]
    else:
        notes = ["segmentation: none, because there is neither source.spm nor source.bpe; the input must be tokens"]
    kind: Segmentation = "sentencepiece" if pieces else "bpe" if codes else "words"
    src, tgt = (Side(each, normalize=normalize, tokenizer="none", segmentation=kind) for each in _languages(folder))
    files = {f"{kind}.{side}": file.read_bytes() for side, file in zip(SIDES, pieces or codes or (), strict=False)}
    size = max((len(SentencePieces.load(path).pieces) for path in pieces), default=Prep.pieces)
    return Prep(src, tgt, pieces=size, joint=False), files, notes


def _pair(folder: Path, suffix: str) -> list[Path]:
    """OPUS-MT's files source.spm and target.spm, or of another suffix; [] if there is neither.

    Raises UserError if one of the two is missing.
    """
    files = [folder / f"{name}.{suffix}" for name in ("source", "target")]
    there = [file for file in files if file.is_file()]
    if len(there) == 1:
        missing = next(file for file in files if file not in there)
        raise UserError(f"{missing}: not found, but {there[0].name} is there; copy it there, too")
    return there


def _languages(folder: Path) -> list[str]:
    """The languages in transformers' tokenizer_config.json, or in the name of the folder, such as opus-mt-en-de.

    "und" if neither names them. The folder may be a link with such a name, or to a folder with such a name.
    """
    config = folder / "tokenizer_config.json"
    settings = read_json(config, "copy it again") if config.is_file() else {}
    matches = (re.search(r"(?:^|[-_.])([a-z]{2,3})-([a-z]{2,3})$", path.name) for path in (folder, folder.resolve()))
    named = next((match.groups() for match in matches if match), ("und", "und"))
    given = [str(settings.get(key)) for key in ("source_lang", "target_lang")]
    return [code if re.fullmatch("[a-z]{2,3}", code) else name for code, name in zip(given, named, strict=True)]
