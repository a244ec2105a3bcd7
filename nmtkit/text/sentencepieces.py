"""SentencePiece (Kudo and Richardson 2018): a unigram model (Kudo 2018) that splits words into the likeliest pieces.

A piece that begins a word begins with U+2581, which looks like an underscore; so the words can be joined again exactly.
"""

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError

MARK = "\u2581"  # stands before the first piece of each word
_CACHED_WORDS = 200_000  # a hundred megabytes
_THREADS = 4  # always so many: sums over the threads' shares of a text are rounded by their number
# Languages with thousands of characters: the rarest, one in 2,000 of a text, get no piece of their own.
_MANY_CHARACTERS = ("zh", "yue", "ja", "ko")


class SentencePieces:
    """Splits words into the likeliest pieces, and so that joining them is exact but for ``MARK`` in the text itself."""

    def __init__(self, model: bytes) -> None:
        self._processor = package().SentencePieceProcessor(model_proto=model)
        self._pieces: dict[str, list[str]] = {}

    @classmethod
    def load(cls, path: Path) -> "SentencePieces":
        """The pieces of a file as the package sentencepiece writes it. Raises UserError for any other."""
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}; make it with nmtkit prep") from None
        except RuntimeError:
            raise UserError(f"{path}: not a SentencePiece model; make it with nmtkit prep") from None

    @property
    def size(self) -> int:
        """The number of pieces, three symbols included."""
        return int(self._processor.get_piece_size())

    def apply(self, words: Iterable[str]) -> list[str]:
        """The pieces of all words, one after the other; the first of each word begins with ``MARK``."""
        # Emptied, not trimmed, as in bpe.py.
        if len(self._pieces) > _CACHED_WORDS:
            self._pieces.clear()
        return [piece for word in words for piece in self._pieces.get(word) or self._split(word)]

    def _split(self, word: str) -> list[str]:
        """The pieces of a word that is not in the cache. No piece reaches over two words, so that each is alone."""
        pieces: list[str] = self._processor.encode(plain(word), out_type=str)
        self._pieces[word] = pieces
        return pieces

    def join(self, pieces: Iterable[str]) -> list[str]:
        """The words that were split into ``pieces``."""
        return join_sentencepieces(pieces)

    def numbers(self, pieces: Sequence[str]) -> list[int]:
        """The number of the word, in ``join``, that each piece belongs to, counted from 0."""
        return sentencepiece_numbers(pieces)


def plain(word: str) -> str:
    """The word with a low line instead of ``MARK``, which would be taken for the beginning of a word."""
    return word.replace(MARK, "_")


def join_sentencepieces(pieces: Iterable[str]) -> list[str]:
    """The words that were split into ``pieces``; what follows a mark that stands alone belongs to it."""
    words: list[str] = []
    for piece, number in zip(pieces := list(pieces), sentencepiece_numbers(pieces), strict=True):
        if number == len(words):
            words.append("")
        words[number] += piece.lstrip(MARK)
    return words if not words or words[-1] else words[:-1]


def sentencepiece_numbers(pieces: Iterable[str]) -> list[int]:
    """The number of the word that each piece belongs to, counted from 0.

    A mark without letters at the end belongs to no word: it has the number that the next word would have.
    """
    numbers, number, empty = [], 0, True  # whether the word has no letter yet
    for piece in pieces:
        if piece.startswith(MARK) and not empty:
            number, empty = number + 1, True
        empty = empty and not piece.strip(MARK)
        numbers.append(number)
    return numbers


def learn_sentencepieces(counts: Counter[str], size: int, languages: Iterable[str]) -> bytes:
    """A unigram model of at most ``size`` pieces, learnt from how often each word occurs; always the same.

    Text that has too few words for so many pieces gets fewer. Raises UserError for fewer than it has characters.
    """
    trainer = package().SentencePieceTrainer
    ordered = sorted(((plain(word), n) for word, n in counts.items()), key=lambda item: (-item[1], item[0]))
    many = any(language.partition("-")[0].partition("_")[0] in _MANY_CHARACTERS for language in languages)
    model = io.BytesIO()
    try:
        trainer.train(
            sentence_iterator=(f"{word}\t{n}" for word, n in ordered), input_format="tsv", model_writer=model,
            model_type="unigram", vocab_size=size, hard_vocab_limit=False, character_coverage=0.9995 if many else 1.0,
            normalization_rule_name="identity", num_threads=_THREADS, minloglevel=2,
        )  # fmt: skip
    except RuntimeError as error:
        # Without its advice, which is to use an option that prep does not have.
        reason = str(error).rpartition("] ")[2].partition(" Increase")[0].strip(" .")[:200] or "it has no words"
        raise UserError(f"`sentencepiece` {size}: cannot be learnt here ({reason}); try another number") from None
    return model.getvalue()


def package() -> Any:
    """The package sentencepiece. Raises UserError where it is not installed."""
    try:
        import sentencepiece
    except ImportError:
        raise UserError("SentencePiece is not installed; pip install 'nmtkit[sentencepiece]'") from None
    return sentencepiece
