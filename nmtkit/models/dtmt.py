"""DTMT: deep transition between the states of consecutive words, and the shallow RNMT it starts from.

Meng and Zhang 2019, "DTMT: A novel deep transition architecture for neural machine translation" (AAAI). A module is
one cell that reads the input (GRU, LAU, or their L-GRU with a gated linear path) followed by T T-GRUs, which read
only the state. There is one for each direction of the encoder, one in the decoder that computes the query of a
multi-head additive attention, and one that reads the context. With T = 0 this is ShallowRNMT.

The reset gate is applied after the product (eqs. 7, 11 and 15), and layer normalisation to the gates only ("Advanced
Techniques"). Where the paper is silent, this follows the authors' release: the sum of a gate is normalised; the
candidate's bias is inside the reset product; 16 heads share one v; embeddings have a learned bias; the first
previous word is a zero vector without position; the context stays 2H wide and has its own output map, without which
the parameter counts would not be the printed ones. Our choices: an ablated module is one GRU; without layer
normalisation every gate has a bias.

Loss and gradients equal those of the authors' code (fandongmeng/DTMT_InDec and StackedDTMT), see ``tests/README.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmtkit.config import require_counts, require_fraction
from nmtkit.layers.attention import MultiHeadAdditiveAttention
from nmtkit.layers.embedding import OutputLayer, WordEmbedding, sinusoid
from nmtkit.layers.linear import Linear
from nmtkit.layers.recurrent import Recurrent, state_weight
from nmtkit.models.base import Decoder, Seq2Seq, Step, mean_annotation
from nmtkit.ops import gated
from nmtkit.ops.attention import attention_loop
from nmtkit.ops.loop import scan
from nmtkit.ops.matrix import Matrix, product
from nmtkit.ops.pointwise import dropout, dropout_mask
from nmtkit.symbols import BOS


@dataclass(frozen=True)
class Config:
    """ "Training Details" and "Advanced Techniques"; a field that a table varies names the table."""

    cell: Literal["gru", "lau", "lgru"]  # takes the input (Table 3)
    transitions: int  # T, the T-GRUs of every module: DTMT#T (Tables 3 and 6)
    ablated: Literal["none", "encoder", "query", "decoder"]  # this module is one plain GRU (Table 4)
    width: int  # of every state
    embedding: int
    heads: int  # of the attention; 16 in the release, unstated in the paper
    layer_norm: bool  # of the "advanced techniques" that Table 5 removes: this, heads and positions
    positions: bool  # sinusoids added to source and target words (Table 6)
    embedding_dropout: float
    candidate_dropout: float  # on the candidate state of every cell
    dropout: float  # on the input of the output layer

    def __post_init__(self) -> None:
        require_counts(0, self, "transitions")
        require_counts(1, self, "width", "embedding", "heads")
        if self.width % self.heads:
            raise ValueError(f"heads: a width of {self.width} cannot be divided by {self.heads}")
        if self.positions and self.embedding % 2:
            raise ValueError(f"embedding: {self.embedding} is odd; one half of a position is sines, one cosines")
        require_fraction(self, "embedding_dropout", "candidate_dropout", "dropout")


class Gates(nn.Module):
    """The parameters of sigma(LN(.)), with a layer normalisation for each gate; or, without it, of sigma(. + b)."""

    def __init__(self, gates: int, width: int, *, layer_norm: bool):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(gates, width)) if layer_norm else None
        self.bias = nn.Parameter(torch.zeros(gates, width))


class Cell(Recurrent):
    """A recurrent cell: the terms of its G gates and of the candidate, then H(x) where there is one.

    gru   eqs. 6 to 9: r, z, candidate
    tgru  eqs. 10 to 13: r, z, candidate, all from the state alone; the cell has no input
    lgru  eqs. 14 to 16: r, z, l, candidate, H(x); a GRU whose candidate has l * H(x) beside the tanh
    lau   Wang et al. 2017 with this paper's normalised gates and candidate dropout: r, z, g, candidate, H(x)
    """

    def __init__(self, kind: Literal["gru", "tgru", "lau", "lgru"], inputs: int, config: Config):
        super().__init__()
        width, gates, terms = config.width, *((2, 3) if kind in ("gru", "tgru") else (3, 5))
        self.width, self.dropout = width, config.candidate_dropout
        self.next_state: Callable[..., Tensor] = gated.lau if kind == "lau" else gated.gru
        if kind != "tgru":
            self.input = Linear(inputs, terms * width, bias=False)  # W_xr, W_xz, ..., W_xh, W_x
        self.weight = state_weight(width, gates + 1)  # W_hr, W_hz, ..., W_hh
        self.bias = nn.Parameter(torch.zeros(width))
        self.norm = Gates(gates, width, layer_norm=config.layer_norm)

    def step(self, x: Tensor | None, h: Tensor, weight: Matrix) -> Tensor:
        """Terms of the input x (N, 3H or 5H), None for a T-GRU, and state h (N, H) -> the next h (N, H)."""
        keep = dropout_mask(h, self.dropout) if self.dropout and self.training else None
        return self.next_state(x, h, weight, self.norm.gain, self.norm.bias, self.bias, keep)


class Module(nn.Module):
    """A cell that takes the input and the T-GRUs after it: from one word's state to the next's."""

    def __init__(self, config: Config, name: str, inputs: int):
        super().__init__()
        plain = config.ablated == name
        self.first = Cell("gru" if plain else config.cell, inputs, config)
        self.transitions = nn.ModuleList(Cell("tgru", 0, config) for _ in range(0 if plain else config.transitions))

    def step(self, x: Tensor, h: Tensor, *weights: Matrix) -> Tensor:
        """One step from x (N, G H), the first cell's terms of the input, and h (N, H) -> the next h (N, H)."""
        h = self.first.step(x, h, weights[0])
        for cell, weight in zip(self.transitions, weights[1:], strict=True):
            h = cast(Cell, cell).step(None, h, weight)
        return h

    def forward(self, x: Tensor, mask: Tensor, reverse: bool) -> Tensor:
        """A whole sequence from a zero state: x (T, B, D), mask (T, B) -> h (T, B, H)."""
        zero = x.new_zeros(x.shape[1], self.first.width)
        return scan(self.step, self.first.input(x), [zero], mask, reverse, self.weights())

    def weights(self) -> list[Tensor]:
        """The matrices (H, G H) that ``step`` multiplies states by, in its order."""
        return [self.first.weight, *(cast(Cell, cell).weight for cell in self.transitions)]


class Embedding(nn.Module):
    """A word's vector plus a bias that all words share; BOS is the zero vector."""

    def __init__(self, words: int, width: int):
        super().__init__()
        self.words = WordEmbedding(words, width, dropout=0.0)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape (...) -> vectors (..., E)."""
        vectors: Tensor = self.words(ids) + self.bias * (ids != BOS).unsqueeze(-1)
        return vectors


def _position(positions: Tensor, width: int) -> Tensor:
    """The sinusoids of positions (...) over sqrt(d) ("Advanced Techniques"): (..., width)."""
    return sinusoid(positions, width, formula=False) / math.sqrt(width)


class Encoder(nn.Module):
    """A module for each direction; the annotations are C_j = [forward; backward]."""

    def __init__(self, config: Config):
        super().__init__()
        self.positions, self.dropout = config.positions, config.embedding_dropout
        self.directions = nn.ModuleList(Module(config, "encoder", config.embedding) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Words x (B, S, E) and mask (B, S) -> annotations (B, S, 2H)."""
        if self.positions:
            x = x + _position(torch.arange(x.shape[1], device=x.device), x.shape[-1])
        x, steps = dropout(x, self.dropout, self.training).transpose(0, 1).contiguous(), mask.t()
        states = [module(x, steps, reverse) for module, reverse in zip(self.directions, (False, True), strict=True)]
        return torch.cat(states, dim=-1).transpose(0, 1).contiguous()


class Memory(NamedTuple):
    """Computed once for each source sentence."""

    keys: Tensor  # (B, heads, S, H / heads)
    values: Tensor  # (B, heads, S, 2H / heads), slices of the annotations
    mask: Tensor  # (B, S)


class State(NamedTuple):
    """The recurrent state, and the position in the sentence."""

    s: Tensor  # (N, H)
    step: Tensor  # (N,) the number of words so far


class TransitionDecoder(Decoder[Tensor, Memory, State]):
    """s_q = query module(y_t-1, s_t-1); c_t = attention(s_q); s_t = decoder module(c_t, s_q)."""

    def __init__(self, config: Config):
        super().__init__()
        width = config.width
        self.positions = config.positions
        self.embedding_dropout, self.dropout = config.embedding_dropout, config.dropout
        self.initial = Linear(2 * width, width)
        self.query = Module(config, "query", config.embedding)
        self.attention = MultiHeadAdditiveAttention(width, 2 * width, width, config.heads)
        self.update = Module(config, "decoder", 2 * width)
        self.readout_word = Linear(config.embedding, width)
        self.readout_state = Linear(width, width, bias=False)
        self.readout_context = Linear(2 * width, width, bias=False)

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Memory, State]:
        """Annotations (B, S, 2H), mask (B, S) -> memory, and tanh of a map of the mean annotation."""
        s = self.initial(mean_annotation(encoded, mask)).tanh().float()
        state = State(s, mask.new_zeros(len(mask), dtype=torch.long))
        return Memory(*self.attention.keys_and_values(encoded), mask), state

    def step(self, memory: Memory, state: State, y: Tensor) -> Step[State]:
        """One step after the words y (N, E): query module, attention, decoder module."""
        y = self.words(y, state.step)
        query = self.query.step(self.query.first.input(y), state.s, *self.query.weights())
        context, weights = self.attention(query, memory.keys, memory.values, memory.mask)
        s = self.update.step(self.update.first.input(context), query, *self.update.weights())
        return Step(self.readout(y, s, context), State(s, state.step + 1), weights)

    def unroll(self, memory: Memory, state: State, y: Tensor) -> Tensor:
        """All steps, with the products of the words y (B, T, E) before the loop and the readout (B, T, H) after it."""
        steps = state.step.unsqueeze(1) + torch.arange(y.shape[1], device=y.device)
        y = self.words(y, steps).transpose(0, 1).contiguous()
        attention = self.attention
        mask = memory.mask.repeat_interleave(attention.heads, dim=0)
        keys, values = memory.keys.flatten(0, 1), memory.values.flatten(0, 1)
        maps = [attention.query.weight.t(), attention.out.weight.t(), self.update.first.input.weight.t()]
        modules, split = [*self.query.weights(), *self.update.weights()], len(self.query.weights())
        s, attend, (query, out, update, *weights) = attention_loop(
            state.s, keys, values, attention.v, mask, *maps, *modules
        )
        states, contexts = [], []
        for word in self.query.first.input(y).float().unbind():
            s = self.query.step(word, s, *weights[:split])
            rows = product(s, query).view(len(mask), -1)  # a row per head
            context = product(attend(rows).view(len(s), -1), out) + attention.out.bias
            s = self.update.step(product(context, update), s, *weights[split:])
            states.append(s)
            contexts.append(context)
        return self.readout(y, torch.stack(states), torch.stack(contexts)).transpose(0, 1)

    def words(self, y: Tensor, step: Tensor) -> Tensor:
        """The previous words y (..., E) with positions and dropout, after ``step`` (...) words.

        A word has its own position, so the zero vector before the first word has none.
        """
        if self.positions:
            y = y + _position(step - 1, y.shape[-1]) * (step > 0).unsqueeze(-1)
        return dropout(y, self.embedding_dropout, self.training)

    def readout(self, y: Tensor, s: Tensor, context: Tensor) -> Tensor:
        """tanh(y_{t-1} W_1 + s_t W_2 + c_t W_3 + b) from y (..., E), s (..., H), context (..., 2H) -> (..., H)."""
        hidden = (self.readout_word(y) + self.readout_state(s) + self.readout_context(context)).tanh()
        return dropout(hidden, self.dropout, self.training)


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """DTMT or ShallowRNMT with vocabularies of these sizes, the symbols included."""
    return Seq2Seq(
        Embedding(src_words, config.embedding),
        Encoder(config),
        Embedding(tgt_words, config.embedding),
        TransitionDecoder(config),
        OutputLayer(config.width, tgt_words),
    )
