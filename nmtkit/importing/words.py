"""Vocabularies of other toolkits as nmtkit's, and the embeddings in their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from nmtkit.data.vocab import Vocabulary
from nmtkit.importing.tensors import Tensors
from nmtkit.symbols import SPELLINGS

NEVER = -1e4  # the bias of symbols that the toolkit lacks: probability 0, but finite for label smoothing


@dataclass(frozen=True)
class Words:
    """A vocabulary of another toolkit (V' words) as one of nmtkit (V words): the four symbols, then the other words."""

    path: Path
    theirs: list[str]  # (V',) the words by the toolkit's ids
    ids: list[int | None]  # (V,) the toolkit's id of each word of nmtkit's; None: the toolkit lacks the symbol
    vocabulary: Vocabulary
    notes: tuple[str, ...] = ()  # a line on words that cannot occur in nmtkit's text

    def __len__(self) -> int:
        return len(self.ids)

    def table(self, rows: Tensor, missing: float = 0) -> Tensor:
        """The toolkit's rows (V', ...) in nmtkit's order (V, ...), with ``missing`` for symbols that it lacks."""
        table = rows.new_full((len(self.ids), *rows.shape[1:]), missing)
        known = [row for row, id in enumerate(self.ids) if id is not None]
        table[known] = rows[[id for id in self.ids if id is not None]]
        return table


def with_symbols(
    path: Path, side: str, symbols: Sequence[str], words: Sequence[str], counts: Sequence[int] | None = None
) -> Words:
    """A vocabulary that begins with these symbols, in nmtkit's spelling, followed by ``words``.

    Words that cannot occur in nmtkit's text become <unused:ID>: empty ones, those with white space, and those spelled
    like a symbol.
    """
    fine = [word.split() == [word] and word not in SPELLINGS for word in words]
    numbered = enumerate(zip(words, fine, strict=True), len(symbols))
    shown = [word if good else f"<unused:{id}>" for id, (word, good) in numbered]
    unspelled = [word for word, good in zip(words, fine, strict=True) if not good]
    examples = ", ".join(map(repr, unspelled[:3]))
    note = f"{len(unspelled):,} {side} words that cannot occur in nmtkit's text keep their rows: {examples}"
    ids = [symbols.index(symbol) if symbol in symbols else None for symbol in SPELLINGS]
    ids += range(len(symbols), len(symbols) + len(words))
    vocabulary = Vocabulary([*SPELLINGS, *shown], [0] * len(ids) if counts is None else counts)
    return Words(path, [*symbols, *words], ids, vocabulary, (note,) if unspelled else ())


class Tables(NamedTuple):
    """The names of the embeddings and the output layer of a model; ``Wemb`` may be the embeddings of both sides."""

    src: str
    tgt: str
    output: str  # without _W (E, V') and _b (V',)
    by_word: str  # of the output matrix as (V', E), which a file may have instead of (E, V')


def take_tables(weights: Tensors, names: Tables, tied: str, width: int, src: Words, tgt: Words) -> None:
    """Find the embeddings and the output layer of a model in its tensors; ``tied`` as in nmtkit's models."""
    take, found, size = weights.take, weights.found, len(tgt.theirs)
    if tied == "all":
        found["embedding.tgt.weight"] = tgt.table(take("Wemb", size, width))
    else:
        found["embedding.src.weight"] = src.table(take(names.src, len(src.theirs), width))
        found["embedding.tgt.weight"] = tgt.table(take(names.tgt, size, width))
    if tied == "none":
        is_by_word = names.by_word in weights.left
        matrix = take(names.by_word, size, width) if is_by_word else take(f"{names.output}_W", width, size).t()
        found["output.weight"] = tgt.table(matrix)
    found["output.bias"] = tgt.table(take(f"{names.output}_b", size), NEVER)
