"""The protocol every architecture follows, and the model that is put together from its parts.

Letters used in the whole project: B sentences, K beam, N = B x K rows (sentence-major), S source words,
T target words, E embedding, H hidden, V words. Masks are boolean, True at real words.

*Memory* is computed once per source sentence, has one row per sentence, and never changes. *State* changes
with every step, has one row per hypothesis, and follows the beam. Both are trees of batch-first tensors.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from nmtkit.layers.conv import NormedLinear
from nmtkit.layers.converted import Affine, affine, for_search
from nmtkit.layers.embedding import OutputLayer, TiedOutputLayer
from nmtkit.ops.best import LogProbs, softmax_of
from nmtkit.ops.precision import Products
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
        output: OutputLayer | TiedOutputLayer | NormedLinear,
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

    def for_search(self, precision: Products) -> "ForSearch":
        """The model as search drives it, its products in this precision; it shares whatever is not converted."""
        return ForSearch(
            self.embedding["src"],
            for_search(self.encoder, precision),
            self.embedding["tgt"],
            for_search(self.decoder, precision),
            self.output,
            _logits(self.output, precision),
            precision,
            None,
        )

    def over(self, words: Tensor) -> "ForSearch":
        """As ``search.shortlist.Narrowing`` asks: the model, choosing among the target words ``words`` (C,) alone."""
        return self.for_search("float32").over(words)


@dataclass(frozen=True, eq=False)
class ForSearch:
    """A model as a ``Scorer`` whose weights were converted once; in float32 its results are the model's.

    It has no gradients, and no way to many steps at once.
    """

    src: nn.Module
    encoder: nn.Module
    tgt: nn.Module
    decoder: Decoder[Any, Any, Any]
    output: OutputLayer | TiedOutputLayer | NormedLinear  # of the model
    logits: Affine  # the same in this precision, of the words that can be chosen
    precision: Products
    words: Tensor | None  # (C,) those words, if they are not all; ids of search are then places in it

    @torch.inference_mode()
    def begin(self, src: Tensor, mask: Tensor) -> tuple[Tree, Tree]:
        """As ``Seq2Seq.begin``: ids src (B, S) and mask (B, S) -> memory and first state, B rows each."""
        return self.decoder.begin(self.encoder(self.src(src), mask), mask)

    @torch.inference_mode()
    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[LogProbs, Tree, Tensor | None]:
        """As ``Seq2Seq.step``: previous words y (N,) -> log-probabilities (N, V or C), state, attention (N, S)."""
        previous = y if self.words is None else self.words[y]
        step = self.decoder.step(memory, state, self.tgt(previous))
        logits = self.logits(step.hidden)
        if self.precision != "float32":
            return softmax_of(logits), step.state, step.attention
        return torch.log_softmax(logits, dim=-1, out=logits), step.state, step.attention

    def over(self, words: Tensor) -> "ForSearch":
        """As ``search.shortlist.Narrowing`` asks: the same over the target words ``words`` (C,) alone."""
        return replace(self, logits=_logits(self.output, self.precision, words), words=words)


def _logits(
    output: OutputLayer | TiedOutputLayer | NormedLinear, precision: Products, words: Tensor | None = None
) -> Affine:
    """The output layer for search, of all words or of ``words`` (C,): what bfloat16 gives is widened by the softmax."""
    return affine(output, precision, words, torch.bfloat16 if precision == "bfloat16" else torch.float32)


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
