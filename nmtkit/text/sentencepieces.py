"""SentencePiece (Kudo and Richardson 2018): a unigram model (Kudo 2018) splits words into their most likely subwords.

The first subword of a word begins with U+2581, so words can be joined again exactly.
"""

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.text.scripts import CHARACTERS, base_language

MARK = "\u2581"  # begins the first piece of each word
_CACHED_WORDS = 200_000  # about 100 MB
_THREADS = 4  # fixed, because the number of threads changes rounding
# Languages with thousands of characters: character coverage 0.9995.
_MANY_CHARACTERS = (*CHARACTERS, "ko")


class SentencePieces:
    """Splits words into subwords, which join back to the exact words except for ``MARK`` in the text."""

    def __init__(self, model: bytes) -> None:
        self._processor = package().SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model)  # unlike the constructor, it refuses an empty model
        self._split = lru_cache(_CACHED_WORDS)(partial(self._processor.encode, out_type=str))

    @classmethod
    def load(cls, path: Path) -> "SentencePieces":
        """The model in a file of the sentencepiece package. Raises UserError for any other file."""
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}; make it with nmtkit prep") from None
        except RuntimeError:
            raise UserError(f"{path}: not a SentencePiece model; make it with nmtkit prep") from None

    @property
    def pieces(self) -> list[str]:
        """All pieces by index, with three special symbols."""
        return [str(self._processor.id_to_piece(index)) for index in range(self._processor.get_piece_size())]

    def apply(self, words: Iterable[str]) -> list[str]:
        """The subwords of all words, concatenated; the first of each word begins with ``MARK``."""
        return [piece for word in words for piece in self._split(plain(word))]

    @staticmethod
    def join(pieces: Sequence[str]) -> list[str]:
        """Words from subwords; a ``MARK`` alone begins a word."""
        numbers = SentencePieces.numbers(pieces)
        words = [""] * (numbers[-1] + 1 if numbers else 0)
        for number, piece in zip(numbers, pieces, strict=True):
            words[number] += piece.lstrip(MARK)
        return words if not words or words[-1] else words[:-1]

    @staticmethod
    def numbers(pieces: Iterable[str]) -> list[int]:
        """The index of each subword's word in ``join``, from 0; a final ``MARK`` has that of the next word."""
        numbers, number, empty = [], 0, True  # empty: the word has no letter yet
        for piece in pieces:
            if piece.startswith(MARK) and not empty:
                number, empty = number + 1, True
            empty = empty and not piece.strip(MARK)
            numbers.append(number)
        return numbers


def plain(word: str) -> str:
    """The word with an underscore for ``MARK``."""
    return word.replace(MARK, "_")


def learn_sentencepieces(counts: Counter[str], size: int, languages: Iterable[str], whole: Sequence[str] = ()) -> bytes:
    """A unigram model of at most ``size`` pieces, learned deterministically from word counts.

    whole: strings that are always one piece. A small text yields fewer pieces. Raises UserError if ``size`` is less
    than the number of characters.
    """
    trainer = package().SentencePieceTrainer
    ordered = sorted(((plain(word), n) for word, n in counts.items()), key=lambda item: (-item[1], item[0]))
    many = any(base_language(language) in _MANY_CHARACTERS for language in languages)
    model = io.BytesIO()
    try:
        trainer.train(
            sentence_iterator=(f"{word}\t{n}" for word, n in ordered), input_format="tsv", model_writer=model,
            model_type="unigram", vocab_size=size, hard_vocab_limit=False, character_coverage=0.9995 if many else 1.0,
            normalization_rule_name="identity", num_threads=_THREADS, minloglevel=2,
            user_defined_symbols=list(whole),
        )  # fmt: skip
    except RuntimeError as error:
        # Without sentencepiece's advice on an option that prep does not have.
        reason = str(error).rpartition("] ")[2].partition(" Increase")[0].strip(" .")[:200] or "the text has no words"
        raise UserError(f"`sentencepiece` {size}: learning failed ({reason}); try another number") from None
    return model.getvalue()


def package() -> Any:
    """The package sentencepiece. Raises UserError if it is not installed."""
    try:
        import sentencepiece
    except ImportError:
        raise UserError("SentencePiece is not installed; pip install 'nmtkit[sentencepiece]'") from None
    return sentencepiece
