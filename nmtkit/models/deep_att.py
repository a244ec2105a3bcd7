"""Deep-Att and Deep-ED: deep LSTM stacks with fast-forward connections.

Zhou, Cao, Wang, Li and Xu 2016, "Deep recurrent models with fast-forward connections for neural machine
translation" (TACL). Each layer first computes its input f as a linear map of f and h of the layer
below (the fast-forward path: no nonlinearity, no recurrence), then runs an LSTM over f. Two encoder columns
alternate directions from layer to layer. Deep-Att attends over both columns' top h and f; Deep-ED reduces
them to one constant vector.

Where the paper is silent, our choices are: one bias per layer, in W_f; decoder states start at zero; without
F-F there is no W_p, because the paper calls that model exactly the standard one; one column keeps the 1/4
rule (5H -> 5H/4). "The last time step" of the first column is the step processed last; eq. 7 has the last word,
which is another step only where that column's top layer reads backward, as in none of the paper's systems. Dropout is
on every h that leaves its layer (for Deep-ED after the maximum over time) except the query of the attention.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmtkit.config import require_counts, require_fraction
from nmtkit.layers.attention import AdditiveAttention
from nmtkit.layers.embedding import OutputLayer, WordEmbedding
from nmtkit.layers.linear import Linear
from nmtkit.layers.recurrent import LSTMState, PeepholeLSTM
from nmtkit.models.base import Decoder, Seq2Seq, Step
from nmtkit.ops.attention import attention_loop
from nmtkit.ops.matrix import product
from nmtkit.ops.pointwise import dropout


@dataclass(frozen=True)
class Config:
    """Sections 3.1 and 4.2. A field that a table varies names the table."""

    interface: Literal["attention", "constant"]  # Deep-Att or Deep-ED (Table 1)
    encoder_layers: int  # n_e (Table 5)
    decoder_layers: int  # n_d (Table 5)
    columns: int  # Col (Tables 5 and 6)
    bidirectional: bool  # interleaved directions, or every layer forward (Table 4)
    fast_forward: Literal["half", "full", "none"]  # F-F (Table 2), and how much of f it carries (section 3.1)
    embedding: int
    width: int  # memory cells of every LSTM layer (Tables 3 and 6)
    attention: int | None  # hidden width of the alignment model; null for Deep-ED, which has none
    dropout: float  # p_d, on every h that leaves its layer

    def __post_init__(self) -> None:
        if self.columns not in (1, 2):
            raise ValueError(f"columns: {self.columns} is not 1 or 2")
        require_counts(1, self, "encoder_layers", "decoder_layers", "embedding", "width", "attention")
        require_fraction(self, "dropout")
        if (self.interface == "attention") != (self.attention is not None):
            raise ValueError(f"attention: {self.attention} does not fit interface {self.interface}")

    @property
    def ff_width(self) -> int:
        """The number of features of f, of 4H, that the next layer reads: input and input gate (2H), all, or none."""
        return {"none": 0, "half": 2 * self.width, "full": 4 * self.width}[self.fast_forward]


class FeedForward(nn.Module):
    """The "f" block above the first layer, eq. 6: f = [Half(f below); Dr(h below)] W_f + b.

    It reads ``ff_width`` features of f; without F-F this is 0. The rows of W_f that multiply h are ``h_to_f``, so that
    a preset can give them their own rate and initialiser.
    """

    def __init__(self, width: int, ff_width: int, *, dropout: float):
        super().__init__()
        self.ff_width, self.dropout = ff_width, dropout
        self.f_to_f = Linear(ff_width, 4 * width, bias=False) if ff_width else None
        self.h_to_f = Linear(width, 4 * width)

    def forward(self, f: Tensor, h: Tensor) -> Tensor:
        """From f (..., 4H) and h (..., H) of the layer below to this layer's f (..., 4H)."""
        new: Tensor = self.h_to_f(dropout(h, self.dropout, self.training))
        if self.f_to_f is not None:
            new = new + self.f_to_f(f[..., : self.ff_width])
        return new


class Column(nn.Module):
    """A stack of LSTM layers in the encoder (eq. 5); ``reverse`` says for each layer whether it reads backward."""

    def __init__(self, embedding: int, width: int, ff_width: int, reverse: list[bool], *, dropout: float):
        super().__init__()
        self.reverse = reverse
        self.feed_forward = nn.ModuleList([Linear(embedding, 4 * width)])
        for _ in reverse[1:]:
            self.feed_forward.append(FeedForward(width, ff_width, dropout=dropout))
        self.recurrent = nn.ModuleList(PeepholeLSTM(width) for _ in reverse)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Words x (S, B, E) and mask (S, B) -> h (S, B, H) and f (S, B, 4H) of the top."""
        f = self.feed_forward[0](x)
        zero = LSTMState.zero(x.shape[1], f.shape[-1] // 4, x.device)
        h = self.recurrent[0](f, zero, mask, self.reverse[0])
        for k in range(1, len(self.reverse)):  # eq. 5
            f = self.feed_forward[k](f, h)
            h = self.recurrent[k](f, zero, mask, self.reverse[k])
        return h, f


class Encoder(nn.Module):
    """The columns and the interface of eq. 7, which keeps all time steps for Deep-Att and one vector for Deep-ED."""

    def __init__(self, config: Config):
        super().__init__()
        self.constant = config.interface == "constant"
        self.fast_forward = config.ff_width > 0
        self.dropout = config.dropout
        self.columns = nn.ModuleList()
        for column in range(config.columns):
            reverse = [config.bidirectional and (k + column) % 2 == 1 for k in range(config.encoder_layers)]
            self.columns.append(
                Column(config.embedding, config.width, config.ff_width, reverse, dropout=config.dropout)
            )
        self.out_width = config.columns * config.width * (5 if config.ff_width else 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Words x (B, S, E), mask (B, S) -> annotations e_t (B, S, P) for Deep-Att, one vector (B, P) for Deep-ED."""
        x, steps = x.transpose(0, 1).contiguous(), mask.t()
        tops = [column(x, steps) for column in self.columns]
        if not self.constant:
            parts = [dropout(h, self.dropout, self.training) for h, _ in tops]
            parts += [f for _, f in tops] if self.fast_forward else []
            return torch.cat(parts, dim=-1).transpose(0, 1).contiguous()
        # Eq. 7: the last step of the first column, the maximum over time of the other, and of every f.
        last = 0 if cast(Column, self.columns[0]).reverse[-1] else -1  # steps of padding hand the state on
        parts = [tops[0][0][last]] + [_max_over_time(h, steps) for h, _ in tops[1:]]
        parts = [dropout(h, self.dropout, self.training) for h in parts]
        parts += [_max_over_time(f, steps) for _, f in tops] if self.fast_forward else []
        return torch.cat([part.to(x.dtype) for part in parts], dim=-1)


def _max_over_time(values: Tensor, mask: Tensor) -> Tensor:
    """Max of eq. 7 over the real steps: (S, B, D), (S, B) -> (B, D)."""
    return values.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(dim=0)


class AttentionMemory(NamedTuple):
    """Computed once for each source sentence, where p are the annotations through W_p."""

    values: Tensor  # (B, S, 4H) p through the rows of W_f that meet c_t
    keys: Tensor  # (B, S, A) p U_a + b
    mask: Tensor  # (B, S)


class Stack(nn.Module):
    """The n_d forward layers of the decoder after the first f (section 3.1, "Decoder")."""

    def __init__(self, width: int, ff_width: int, layers: int, *, dropout: float):
        super().__init__()
        self.width, self.dropout = width, dropout
        self.feed_forward = nn.ModuleList(FeedForward(width, ff_width, dropout=dropout) for _ in range(layers - 1))
        self.recurrent = nn.ModuleList(PeepholeLSTM(width) for _ in range(layers))

    def begin(self, like: Tensor) -> tuple[LSTMState, ...]:
        """Zero states, one for each layer and each row of ``like`` (B, ...), on its device."""
        return tuple(LSTMState.zero(len(like), self.width, like.device) for _ in self.recurrent)

    def step(self, f: Tensor, state: tuple[LSTMState, ...]) -> tuple[Tensor, tuple[LSTMState, ...]]:
        """One step from f (N, 4H) of the first layer -> h of the top layer (N, H), and the next state."""
        new = [LSTMState(*self.cell(0).step(f, *state[0], *self.cell(0).weights()))]
        for k, feed_forward in enumerate(self.feed_forward, start=1):  # eq. 6
            f = feed_forward(f, new[-1].h)
            new.append(LSTMState(*self.cell(k).step(f, *state[k], *self.cell(k).weights())))
        return self.top(new[-1].h), tuple(new)

    def above(self, f: Tensor, h: Tensor, state: tuple[LSTMState, ...]) -> Tensor:
        """The layers above the first over all steps: its f (T, B, 4H) and h (T, B, H) -> hidden (B, T, H)."""
        for k, feed_forward in enumerate(self.feed_forward, start=1):
            f = feed_forward(f, h)
            h = self.cell(k)(f, state[k], None, reverse=False)
        return self.top(h).transpose(0, 1)

    def cell(self, k: int) -> PeepholeLSTM:
        """The LSTM of layer k, counted from 0."""
        return cast(PeepholeLSTM, self.recurrent[k])

    def top(self, h: Tensor) -> Tensor:
        """The input of the softmax: h (..., H) of the top layer after dropout."""
        return dropout(h, self.dropout, self.training)


class DeepAtt(Decoder[Tensor, AttentionMemory, tuple[LSTMState, ...]]):
    """Attention of eqs. 8 and 9, whose query is the first layer's previous h; x_t = [c_t; y_{t-1}] (eq. 10).

    The map of the context is linear, so the annotations go through it once instead of every c_t; the weights sum to
    one, so the bias stays b.
    """

    def __init__(self, config: Config, encoded: int):
        super().__init__()
        assert config.attention is not None
        annotation = encoded // 4 if config.ff_width else encoded
        self.projection = Linear(encoded, annotation, bias=False) if config.ff_width else nn.Identity()  # W_p
        self.attention = AdditiveAttention(config.width, annotation, config.attention)
        self.context = Linear(annotation, 4 * config.width)
        self.word = Linear(config.embedding, 4 * config.width, bias=False)
        self.layers = Stack(config.width, config.ff_width, config.decoder_layers, dropout=config.dropout)

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[AttentionMemory, tuple[LSTMState, ...]]:
        """Annotations (B, S, P) and mask (B, S) -> memory and zero states (our choice)."""
        annotations = self.projection(encoded)
        memory = AttentionMemory(self.context(annotations), self.attention.key(annotations), mask)
        return memory, self.layers.begin(encoded)

    def step(self, memory: AttentionMemory, state: tuple[LSTMState, ...], y: Tensor) -> Step[tuple[LSTMState, ...]]:
        """One step after the words y (N, E); the attention's query is the first layer's previous h (eq. 9)."""
        context, weights = self.attention(state[0].h, memory.keys, memory.values, memory.mask)
        hidden, state = self.layers.step(context + self.word(y), state)
        return Step(hidden, state, weights)

    def unroll(self, memory: AttentionMemory, state: tuple[LSTMState, ...], y: Tensor) -> Tensor:
        """All steps of y (B, T, E) -> hidden (B, T, H).

        Only the first layer needs the attention of the step before; the layers above run over all steps at once.
        """
        words = self.word(y.transpose(0, 1).contiguous()).float()  # (T, B, 4H)
        cell, (h, s) = self.layers.cell(0), state[0]
        maps = [self.attention.query.weight.t(), *cell.weights()]
        h, attend, (query, *weights) = attention_loop(
            h, memory.keys, memory.values, self.attention.v, memory.mask, *maps
        )
        fs, hs = [], []
        for word in words:
            fs.append(attend(product(h, query)) + word)
            h, s = cell.step(fs[-1], h, s, *weights)
            hs.append(h)
        return self.layers.above(torch.stack(fs), torch.stack(hs), state)


class DeepED(Decoder[Tensor, Tensor, tuple[LSTMState, ...]]):
    """The decoder without attention, whose context is constant: c_t = e for every t (eq. 8)."""

    def __init__(self, config: Config, encoded: int):
        super().__init__()
        self.context = Linear(encoded, 4 * config.width)
        self.word = Linear(config.embedding, 4 * config.width, bias=False)
        self.layers = Stack(config.width, config.ff_width, config.decoder_layers, dropout=config.dropout)

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Tensor, tuple[LSTMState, ...]]:
        """The vector e (B, P) -> memory, which is c through its rows of W_f (B, 4H), and zero states."""
        return self.context(encoded), self.layers.begin(encoded)

    def step(self, memory: Tensor, state: tuple[LSTMState, ...], y: Tensor) -> Step[tuple[LSTMState, ...]]:
        """One step after the words y (N, E), with the same context for each."""
        context = memory.repeat_interleave(len(y) // len(memory), dim=0)
        hidden, state = self.layers.step(context + self.word(y), state)
        return Step(hidden, state, None)

    def unroll(self, memory: Tensor, state: tuple[LSTMState, ...], y: Tensor) -> Tensor:
        """All steps of y (B, T, E) -> hidden (B, T, H). No layer waits for another step: each runs over all at once."""
        f = memory + self.word(y.transpose(0, 1).contiguous())
        h = self.layers.cell(0)(f, state[0], None, reverse=False)
        return self.layers.above(f, h, state)


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """Deep-Att or Deep-ED with vocabularies of these sizes, the symbols included."""
    encoder = Encoder(config)
    decoder = DeepAtt if config.interface == "attention" else DeepED
    return Seq2Seq(
        WordEmbedding(src_words, config.embedding, dropout=0.0),
        encoder,
        WordEmbedding(tgt_words, config.embedding, dropout=0.0),
        decoder(config, encoder.out_width),
        OutputLayer(config.width, tgt_words),
    )
