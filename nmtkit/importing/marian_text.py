"""Marian's vocabularies, and how the text of a model is segmented.

Marian's ``<unk>`` is nmtkit's; ``<pad>`` and ``<s>``, which Marian lacks, have a bias that gives them no probability.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from nmtkit.data.foreign import numbered_words
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.folders import SIDES
from nmtkit.symbols import SPELLINGS
from nmtkit.text.sentencepieces import SentencePieces
from nmtkit.text.settings import Prep, Segmentation, Side


class Words:
    """A vocabulary of Marian, and the same as nmtkit's: the four symbols first, then the others in their order."""

    def __init__(self, path: Path):
        self.path = path
        self.marian = SentencePieces.load(path).pieces if path.suffix == ".spm" else _listed(path)
        ids = {word: id for id, word in enumerate(self.marian)}
        for symbol in ("</s>", "<unk>"):
            if symbol not in ids:
                raise UserError(f"{path}: has no {symbol}; give the vocabulary that Marian was trained with")
        for word in self.marian:
            if re.fullmatch(r">>[^<>]+<<", word):
                raise UserError(
                    f"{path}: has {word}, a mark of the target language: only models of one can be imported"
                )
        others = [word for word in self.marian if word not in SPELLINGS]
        self.rows = [ids.get(word) for word in (*SPELLINGS, *others)]  # Marian's id of each word; None: it has none
        # A word of white space cannot occur in text, but has a row.
        shown = [re.sub(r"\s", lambda space: f"<{ord(space[0]):04X}>", word) or "<>" for word in others]
        self.vocabulary = Vocabulary([*SPELLINGS, *shown], [0] * len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def table(self, rows: Tensor, missing: float) -> Tensor:
        """Marian's rows (V', ...) in nmtkit's order (V, ...), with this number where Marian has no such word."""
        table = rows.new_full((len(self.rows), *rows.shape[1:]), missing)
        known = [row for row, id in enumerate(self.rows) if id is not None]
        table[known] = rows[[id for id in self.rows if id is not None]]
        return table


def _listed(path: Path) -> list[str]:
    """The words of a ``.yml`` file by id."""
    numbers, words = zip(*numbered_words(path), strict=True) if path.is_file() else ((), ())
    if not words or numbers != tuple(range(len(words))):
        raise UserError(f"{path}: not a vocabulary of Marian, whose words have the ids 0, 1, 2 and so on")
    return list(words)


def segmentation(folder: Path, vocabularies: Sequence[Path]) -> tuple[Prep, dict[str, bytes], list[str]]:
    """How raw text becomes tokens, without a tokenizer, the files that this needs, and lines about it."""
    pieces = vocabularies if all(path.suffix == ".spm" for path in vocabularies) else _pair(folder, "spm")
    codes = _pair(folder, "bpe")
    normalize = False
    if pieces:
        script = folder / "preprocess.sh"
        # OPUS-MT's text is normalised before SentencePiece, by Moses or by a list of quotes and wide signs, the most
        # frequent of which Moses replaces likewise; Marian's own SentencePiece takes text as it is.
        steps = script.read_text("utf-8", "replace") if script.is_file() else "normalize-punctuation"
        normalize = pieces != vocabularies and any(sign in steps for sign in ("normalize-punctuation", "\u2019"))
        notes = [f"segmentation: SentencePiece, {pieces[0].name} and {pieces[1].name}"]
        notes += ["punctuation is normalised as by Moses before it"] * normalize
        for path in pieces:
            SentencePieces.load(path)  # refuses a file of another kind
    elif codes:
        notes = [f"segmentation: BPE, {codes[0].name} and {codes[1].name}, of text that is tokenised already"]
    else:
        notes = ["segmentation: none, the folder has neither source.spm nor source.bpe: translate tokens"]
    kind: Segmentation = "sentencepiece" if pieces else "bpe" if codes else "words"
    src, tgt = (Side(each, normalize=normalize, tokenizer="none", segmentation=kind) for each in _languages(folder))
    files = {f"{kind}.{side}": file.read_bytes() for side, file in zip(SIDES, pieces or codes or (), strict=False)}
    return Prep(src, tgt, joint=False), files, notes


def _pair(folder: Path, suffix: str) -> list[Path]:
    """OPUS-MT's files of subwords, source.spm and target.spm; [] without them."""
    files = [folder / f"{name}.{suffix}" for name in ("source", "target")]
    return files if all(file.is_file() for file in files) else []


def _languages(folder: Path) -> list[str]:
    """The languages by the name of the folder, such as opus-mt-en-de; "und" where it does not name them."""
    found = re.search(r"(?:^|[-_.])([a-z]{2,3})-([a-z]{2,3})$", folder.resolve().name)
    return [*found.groups()] if found else ["und", "und"]
