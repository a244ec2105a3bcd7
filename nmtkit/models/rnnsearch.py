"""RNNsearch: the recurrent model with soft attention on which all later papers build.

Bahdanau, Cho and Bengio 2015, "Neural machine translation by jointly learning to align and translate".
A bidirectional GRU reads the source; at each target word a one-layer network scores every source position
against the decoder's previous state, and their weighted mean enters the GRU and a maxout output layer
(appendix A). The readout reads the state *before* the step, as printed in A.2.2.

Beyond the paper: dropout on embeddings and readout (0 in the paper), which small corpora need.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmtkit.config import require_counts, require_fraction
from nmtkit.layers.attention import AdditiveAttention
from nmtkit.layers.embedding import OutputLayer, WordEmbedding
from nmtkit.layers.linear import Linear
from nmtkit.layers.recurrent import GRU
from nmtkit.models.base import Decoder, Seq2Seq, Step
from nmtkit.ops.attention import attention_loop
from nmtkit.ops.matrix import product
from nmtkit.ops.pointwise import dropout


@dataclass(frozen=True)
class Config:
    """Widths as named in appendix A.2.3."""

    embedding: int  # m
    hidden: int  # n
    attention: int  # n'
    maxout: int  # l
    dropout: float

    def __post_init__(self) -> None:
        require_counts(1, self, "embedding", "hidden", "attention", "maxout")
        require_fraction(self, "dropout")


class Encoder(nn.Module):
    """The bidirectional GRU of A.2.1, whose annotations are h_j = [forward; backward]."""

    def __init__(self, embedding: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.inputs = nn.ModuleList(Linear(embedding, 3 * hidden) for _ in range(2))  # W_r, W_z, W
        self.recurrent = nn.ModuleList(GRU(hidden) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Word vectors x (B, S, E) and mask (B, S) -> annotations (B, S, 2n)."""
        x, steps = x.transpose(0, 1).contiguous(), mask.t()
        zero = x.new_zeros(x.shape[1], self.hidden)
        states = [
            cell(inputs(x), zero, steps, reverse)
            for inputs, cell, reverse in zip(self.inputs, self.recurrent, (False, True), strict=True)
        ]
        return torch.cat([h.transpose(0, 1) for h in states], dim=-1)


class Memory(NamedTuple):
    """Computed once for each source sentence."""

    values: Tensor  # (B, S, 3n + 2l) annotations through the maps of the context
    keys: Tensor  # (B, S, n')
    mask: Tensor  # (B, S)


class AttentionDecoder(Decoder[Tensor, Memory, Tensor]):
    """The decoder of A.2.2, whose state is s (N, n).

    The maps of the context c_i are linear, so the annotations go through them once instead of every c_i: the
    attention's weighted mean is C c_i and C_o c_i, concatenated.
    """

    def __init__(self, embedding: int, hidden: int, attention: int, maxout: int, *, dropout: float):
        super().__init__()
        self.hidden, self.dropout = hidden, dropout
        self.widths = [3 * hidden, 2 * maxout]
        self.initial = Linear(hidden, hidden)  # W_s
        self.attention = AdditiveAttention(hidden, 2 * hidden, attention)
        self.word = Linear(embedding, 3 * hidden)  # W_r, W_z, W
        self.context = Linear(2 * hidden, 3 * hidden, bias=False, chained=True)  # C_r, C_z, C
        self.recurrent = GRU(hidden)
        self.readout_state = Linear(hidden, 2 * maxout)  # U_o
        self.readout_word = Linear(embedding, 2 * maxout, bias=False)  # V_o
        self.readout_context = Linear(2 * hidden, 2 * maxout, bias=False, chained=True)  # C_o

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Memory, Tensor]:
        """Annotations (B, S, 2n) and mask (B, S) -> memory, and s_0 (B, n) from the backward state at word 1."""
        state = self.initial(encoded[:, 0, self.hidden :]).tanh().float()
        values = torch.cat([self.context(encoded), self.readout_context(encoded)], dim=-1)
        return Memory(values, self.attention.key(encoded), mask), state

    def step(self, memory: Memory, state: Tensor, y: Tensor) -> Step[Tensor]:
        """One step after the words y (N, E) from s_{i-1} (N, n): the readout sees that state, not the new one."""
        mean, weights = self.attention(state, memory.keys, memory.values, memory.mask)
        context, to_readout = mean.split(self.widths, dim=-1)
        hidden = self.readout(state, y, to_readout)
        return Step(hidden, self.recurrent.step(self.word(y) + context, state, *self.recurrent.weights()), weights)

    def unroll(self, memory: Memory, state: Tensor, y: Tensor) -> Tensor:
        """All steps, with the products of the words y (B, T, E) before the loop and the readout (B, T, l) after it."""
        words = self.word(y.transpose(0, 1).contiguous())  # (T, B, 3n)
        maps = [self.attention.query.weight.t(), *self.recurrent.weights()]
        state, attend, (query, *weights) = attention_loop(
            state, memory.keys, memory.values, self.attention.v, memory.mask, *maps
        )
        states, contexts = [], []
        for word in words:
            context, to_readout = attend(product(state, query)).split(self.widths, dim=-1)
            states.append(state)
            contexts.append(to_readout)
            state = self.recurrent.step(word + context, state, *weights)
        return self.readout(torch.stack(states, dim=1), y, torch.stack(contexts, dim=1))

    def readout(self, state: Tensor, y: Tensor, context: Tensor) -> Tensor:
        """Maxout over pairs: t_j = max(t~_2j-1, t~_2j) of t~ = U_o s_{i-1} + V_o y_{i-1} + C_o c_i (A.2.2).

        s (..., n), y (..., E) and ``context``, which is C_o c_i (..., 2l), give t (..., l).
        """
        pieces = self.readout_state(state) + self.readout_word(y) + context
        return dropout(pieces.unflatten(-1, (-1, 2)).amax(dim=-1), self.dropout, self.training)


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """RNNsearch with vocabularies of these sizes, the symbols included."""
    return Seq2Seq(
        WordEmbedding(src_words, config.embedding, dropout=config.dropout),
        Encoder(config.embedding, config.hidden),
        WordEmbedding(tgt_words, config.embedding, dropout=config.dropout),
        AttentionDecoder(config.embedding, config.hidden, config.attention, config.maxout, dropout=config.dropout),
        OutputLayer(config.maxout, tgt_words),
    )
