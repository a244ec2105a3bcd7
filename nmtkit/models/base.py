"""The protocol every architecture follows, and the model assembled from its parts.

Letters used in the whole project: B sentences, K beam, N = B x K rows (sentence-major), S source words,
T target words, E embedding, H hidden, V words. Masks are boolean, True at real words.

*Memory* is computed once per source sentence, has one row per sentence, and never changes. *State* changes
with every step, has one row per hypothesis, and follows the beam. Both are trees of batch-first tensors.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from nmtkit.layers.conv import NormedLinear
from nmtkit.layers.converted import Affine, affine, for_search
from nmtkit.layers.embedding import OutputLayer, TiedOutputLayer
from nmtkit.ops.best import LogProbs, softmax_of
from nmtkit.ops.precision import Products
from nmtkit.ops.tree import Tree
from nmtkit.symbols import BOS

Encoded = TypeVar("Encoded", bound=Tree)  # the encoder's output
Memory = TypeVar("Memory", bound=Tree)
State = TypeVar("State", bound=Tree)

Output: TypeAlias = OutputLayer | TiedOutputLayer | NormedLinear


@dataclass(frozen=True)
class Step(Generic[State]):
    """The result of one decoder step for N rows."""

    hidden: Tensor  # (N, H) the input of the output layer
    state: State  # for the next step, N rows
    attention: Tensor | None  # (N, S) float32 attention weights; None for a decoder without attention


def is_dropout(setting: str) -> bool:
    """Whether a setting of a model's Config is a dropout rate, which does not affect shapes."""
    return setting == "dropout" or setting.endswith("_dropout")


# Lists of an encoder whose members are not stacked: its two directions, columns (which read the same words), and
# DenseNMT's maps of several layers to keys.
_DIRECTIONS = ("encoder.inputs", "encoder.recurrent", "encoder.directions")
_SIDE_BY_SIDE = (*_DIRECTIONS, "encoder.chains", "encoder.columns", "encoder.keys")


def is_stack(name: str) -> bool:
    """Whether each layer of a list reads the output of the one before. name: the list's in ``named_modules``."""
    return name not in _SIDE_BY_SIDE


def direction(name: str) -> str:
    """The direction in which a layer of an encoder reads, "forward" or "backward"; "" for one that has none."""
    parent, _, last = name.rpartition(".")
    return ("forward", "backward")[int(last)] if parent in _DIRECTIONS and last in ("0", "1") else ""


class Decoder(nn.Module, Generic[Encoded, Memory, State]):
    """A decoder is ``begin`` and ``step``, written from the paper; ``unroll`` may compute many steps faster.

    An architecture names its own types, ``class AttentionDecoder(Decoder[Tensor, Memory, Tensor])``, so that a type
    checker knows what memory and state are made of. A contract test checks that ``unroll`` and ``step`` agree.
    """

    def begin(self, encoded: Encoded, mask: Tensor) -> tuple[Memory, State]:
        """The encoder's output (B rows) and the source mask (B, S) -> memory and first state, B rows each."""
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
    """Embeddings, encoder, decoder and output layer; also a ``search.scorer.Scorer``.

    ``embedding`` holds ``src`` and ``tgt`` (ids -> vectors); ``encoder(x (B, S, E), mask (B, S))`` returns what
    ``decoder.begin`` takes; ``output`` is the product before the softmax.
    """

    def __init__(
        self, src: nn.Module, encoder: nn.Module, tgt: nn.Module, decoder: Decoder[Any, Any, Any], output: Output
    ):
        super().__init__()
        self.embedding = nn.ModuleDict({"src": src, "tgt": tgt})
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def begin(self, src: Tensor, mask: Tensor) -> tuple[Tree, Tree]:
        """``Scorer.begin``: source ids (B, S) and their mask (B, S) -> memory and first state, B rows each."""
        return self.decoder.begin(self.encoder(self.embedding["src"](src), mask), mask)

    def forward(self, src: Tensor, mask: Tensor, tgt: Tensor) -> Tensor:
        """Teacher forcing: source ids (B, S), target ids (B, T) -> hidden (B, T, H), one for each target word."""
        return self.unroll(*self.begin(src, mask), tgt)

    def unroll(self, memory: Tree, state: Tree, tgt: Tensor) -> Tensor:
        """Teacher forcing from the memory and first state of ``begin``: target ids (B, T) -> hidden (B, T, H)."""
        return self.decoder.unroll(memory, state, self.embedding["tgt"](previous_words(tgt)))

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """``Scorer.step``: previous words y (N,) -> log-probabilities (N, V), state, attention weights (N, S)."""
        step = self.decoder.step(memory, state, self.embedding["tgt"](y))
        return self.output(step.hidden).float().log_softmax(dim=-1), step.state, step.attention

    def for_search(self, precision: Products) -> "ForSearch":
        """The model prepared for search, with products in this precision; parameters not converted are shared.

        The embeddings are the model's own modules, so it must be in evaluation mode (``eval``) when they are used.
        """
        encoder, decoder = for_search(self.encoder, precision), for_search(self.decoder, precision)
        logits = _logits(self.output, precision)
        return ForSearch(self.embedding, encoder, decoder, self.output, logits, precision, None)


@dataclass(frozen=True, eq=False)
class ForSearch:
    """A model as a ``Scorer`` whose weights were converted once; in float32 its results equal the model's.

    It is also a ``shortlist.Narrowing``. It computes no gradients and has no ``unroll``.
    """

    embedding: nn.ModuleDict  # that of the model, like ``output``
    encoder: nn.Module
    decoder: Decoder[Any, Any, Any]
    output: Output
    logits: Affine  # the output layer in this precision, over ``words`` alone if they are given
    precision: Products
    words: Tensor | None  # (C,) the target words of a shortlist, whose positions are then search's ids; None: all words

    @torch.inference_mode()
    def begin(self, src: Tensor, mask: Tensor) -> tuple[Tree, Tree]:
        """``Scorer.begin``: source ids (B, S) and their mask (B, S) -> memory and first state, B rows each."""
        return self.decoder.begin(self.encoder(self.embedding["src"](src), mask), mask)

    @torch.inference_mode()
    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[LogProbs, Tree, Tensor | None]:
        """``Scorer.step``: previous words y (N,) -> log-probabilities (N, V or C), state, attention (N, S)."""
        previous = y if self.words is None else self.words[y]
        step = self.decoder.step(memory, state, self.embedding["tgt"](previous))
        logits = self.logits(step.hidden)
        if self.precision != "float32":
            return softmax_of(logits), step.state, step.attention
        return torch.log_softmax(logits, dim=-1, out=logits), step.state, step.attention

    def over(self, words: Tensor) -> "ForSearch":
        """``Narrowing.over``: the same restricted to the target words ``words`` (C,)."""
        return replace(self, logits=_logits(self.output, self.precision, words), words=words)


def _logits(output: Output, precision: Products, words: Tensor | None = None) -> Affine:
    """The output layer for search, over all words or ``words`` (C,); the softmax widens logits in bfloat16."""
    results = torch.bfloat16 if precision == "bfloat16" else torch.float32
    if words is None and isinstance(output, NormedLinear):
        return output.for_search(precision, results)
    weight, bias = (x if words is None else x[words] for x in (output.weight, output.bias))
    return affine(weight, bias, precision, results)


def previous_words(tgt: Tensor) -> Tensor:
    """The word before each of the target ids (B, T), BOS before the first: ids (B, T)."""
    return torch.cat([torch.full_like(tgt[:, :1], BOS), tgt[:, :-1]], dim=1)


def mean_annotation(annotations: Tensor, mask: Tensor) -> Tensor:
    """The mean (B, D) of each sentence's annotations (B, S, D) over its real words, where mask (B, S) is True."""
    real = mask.unsqueeze(-1)
    return (annotations * real).sum(dim=1) / real.sum(dim=1)


def groups(model: nn.Module, names: Iterable[str]) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """The parameters of ``model`` by group, each with its name. A group is named after a module or a parameter.

    A parameter belongs to the group in ``names`` that comes last in its dotted name:
    ``encoder.columns.0.3.recurrent.weight`` to ``recurrent``, any ``bias`` to ``bias``; the rest to ``other``.
    """
    found: dict[str, list[tuple[str, nn.Parameter]]] = {name: [] for name in (*names, "other")}
    for name, parameter in model.named_parameters():
        parts = reversed(name.split("."))
        found[next((part for part in parts if part in found), "other")].append((name, parameter))
    return found


def count_parameters(model: nn.Module) -> int:
    """The number of trainable parameters; shared ones are counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
