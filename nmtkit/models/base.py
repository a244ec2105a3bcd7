"""The protocol every architecture follows, and the model that is put together from its parts.

Letters used in the whole project: B sentences, K beam, N = B x K rows (sentence-major), S source words,
T target words, E embedding, H hidden, V words. Masks are boolean, True at real words.

*Memory* is computed once per source sentence, has one row per sentence, and never changes. *State* changes
with every step, has one row per hypothesis, and follows the beam. Both are trees of batch-first tensors.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.layers.conv import NormedLinear
from nmtkit.layers.embedding import Int8OutputLayer, OutputLayer, TiedOutputLayer
from nmtkit.ops.tree import Tree
from nmtkit.symbols import BOS

Encoded = TypeVar("Encoded", bound=Tree)  # what the encoder gives
Memory = TypeVar("Memory", bound=Tree)
State = TypeVar("State", bound=Tree)


@dataclass(frozen=True)
class Step(Generic[State]):
    """The result of one decoder step for N rows."""

    hidden: Tensor  # (N, H) what the output layer reads
    state: State  # for the next step, N rows
    attention: Tensor | None  # (N, S) float32 attention weights; None for a decoder without attention


class Decoder(nn.Module, Generic[Encoded, Memory, State]):
    """A decoder is ``begin`` and ``step``, written from the paper; ``unroll`` may be a faster way to many steps.

    An architecture names its own types, ``class AttentionDecoder(Decoder[Tensor, Memory, Tensor])``, so that a type
    checker knows what memory and state are made of. A contract test says that ``unroll`` and ``step`` agree.
    """

    def begin(self, encoded: Encoded, mask: Tensor) -> tuple[Memory, State]:
        """The encoder's result (B rows) and the source mask (B, S) -> memory and first state, B rows each."""
        raise NotImplementedError

    def step(self, memory: Memory, state: State, y: Tensor) -> Step[State]:
        """One step after the previous words y (N, E), where N may be a multiple of the B rows of memory."""
        raise NotImplementedError

    def unroll(self, memory: Memory, state: State, y: Tensor) -> Tensor:
        """All steps of training at once: previous words y (B, T, E) -> hidden (B, T, H)."""
        hidden = []
        for t in range(y.shape[1]):
            step = self.step(memory, state, y[:, t])
            hidden.append(step.hidden)
            state = step.state
        return torch.stack(hidden, dim=1)


class Seq2Seq(nn.Module):
    """Embeddings, encoder, decoder and output layer; also the ``Scorer`` that search drives.

    ``embedding`` holds ``src`` and ``tgt`` (ids -> vectors); ``encoder(x (B, S, E), mask (B, S))`` gives what
    ``decoder.begin`` takes; ``output`` is the product before the softmax.
    """

    def __init__(
        self,
        src: nn.Module,
        encoder: nn.Module,
        tgt: nn.Module,
        decoder: Decoder[Any, Any, Any],
        output: OutputLayer | TiedOutputLayer | NormedLinear | Int8OutputLayer,
    ):
        super().__init__()
        self.embedding = nn.ModuleDict({"src": src, "tgt": tgt})
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def encode(self, src: Tensor, mask: Tensor) -> tuple[Tree, Tree]:
        """Source ids and mask (B, S) -> memory and first state."""
        return self.decoder.begin(self.encoder(self.embedding["src"](src), mask), mask)

    def forward(self, src: Tensor, mask: Tensor, tgt: Tensor) -> Tensor:
        """Teacher forcing: source ids (B, S), target ids (B, T) -> hidden (B, T, H), one for each target word."""
        return self.unroll(*self.encode(src, mask), tgt)

    def unroll(self, memory: Tree, state: Tree, tgt: Tensor) -> Tensor:
        """Teacher forcing from what ``encode`` gave: target ids (B, T) -> hidden (B, T, H)."""
        previous = torch.cat([torch.full_like(tgt[:, :1], BOS), tgt[:, :-1]], dim=1)
        return self.decoder.unroll(memory, state, self.embedding["tgt"](previous))

    def begin(self, src: Tensor, mask: Tensor) -> tuple[Tree, Tree]:
        """As ``search.scorer.Scorer`` asks: ids src (B, S) and mask (B, S) -> memory and first state, B rows each."""
        return self.encode(src, mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """As ``Scorer`` asks: previous words y (N,) -> log-probabilities (N, V), state, attention weights (N, S)."""
        step = self.decoder.step(memory, state, self.embedding["tgt"](y))
        return self.output(step.hidden).float().log_softmax(dim=-1), step.state, step.attention

    def int8(self) -> "Seq2Seq":
        """The same model for search, sharing all parts but its output layer, which is in 8-bit integers."""
        output = Int8OutputLayer(self.output.weight, self.output.bias)
        return Seq2Seq(self.embedding["src"], self.encoder, self.embedding["tgt"], self.decoder, output).eval()

    def over(self, words: Tensor) -> "Narrowed":
        """As ``search.shortlist.Narrowing`` asks: the model, choosing among the target words ``words`` (C,) alone."""
        return Narrowed(self, words)


class Narrowed:
    """A model as a ``Scorer`` of some of its target words alone: ``words`` (C,)."""

    def __init__(self, model: Seq2Seq, words: Tensor):
        self.model, self.words = model, words
        self.weight, self.bias = model.output.weight[words], model.output.bias[words]

    def begin(self, src: Tensor, mask: Tensor) -> tuple[Tree, Tree]:
        """As ``Seq2Seq.begin``: ids src (B, S) and mask (B, S) -> memory and first state, B rows each."""
        return self.model.begin(src, mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """As ``Seq2Seq.step``, but y (N,) and the columns of the log-probabilities (N, C) are places in ``words``."""
        previous = self.model.embedding["tgt"](self.words[y])
        step = self.model.decoder.step(memory, state, previous)
        logits = functional.linear(step.hidden, self.weight, self.bias).float()
        return logits.log_softmax(dim=-1), step.state, step.attention


def rows_of(memory: Tensor, rows: int) -> Tensor:
    """A memory tensor (B, ...) as seen by N rows: each sentence's row once for each of its hypotheses."""
    return memory if len(memory) == rows else memory.repeat_interleave(rows // len(memory), dim=0)


def groups(model: nn.Module, names: Iterable[str]) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """The parameters of ``model`` by group. A group is named after a module or parameter of the model.

    A parameter belongs to the group in ``names`` that is the innermost part of its dotted name:
    ``encoder.columns.0.3.recurrent.weight`` to ``recurrent``, any ``bias`` to ``bias``; the rest to ``other``.
    """
    found: dict[str, list[tuple[str, nn.Parameter]]] = {name: [] for name in (*names, "other")}
    for name, parameter in model.named_parameters():
        parts = reversed(name.split("."))
        found[next((part for part in parts if part in found), "other")].append((name, parameter))
    return found


def count_parameters(model: nn.Module) -> int:
    """The number of trainable values, each shared one counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
