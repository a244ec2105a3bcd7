"""The Transformer, which all later papers compare with: attention within each side and between them.

Vaswani et al. 2017, "Attention is all you need" (NIPS), and the form in which the layer normalisation stands before
each sublayer instead of after its sum (He et al. 2016; Wang et al. 2019), with another one after the last layer.

As in the authors' code: attention has no biases, maps start from Glorot's uniform values, sines and cosines are not
interleaved, and a zero vector stands before the first word. The attention that is reported is the last layer's,
the mean over its heads (our ruling).
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.config import require_at_least, require_fraction
from nmtkit.layers.embedding import OutputLayer, SharedEmbedding, TiedOutputLayer, WordEmbedding
from nmtkit.models.base import Decoder, Seq2Seq, Step
from nmtkit.ops.positions import sinusoid


@dataclass(frozen=True)
class Config:
    """Sizes as named in Table 3."""

    layers: int  # N, of encoder and of decoder
    width: int  # d_model
    feed_forward: int  # d_ff
    heads: int  # h
    norm: Literal["post", "pre"]  # post: the paper's, LN(x + sublayer(x)); pre: x + sublayer(LN(x))
    tied: Literal["all", "target", "none"]  # source, target and softmax have one table (3.4), the last two, or three
    dropout: float  # P_drop, on embeddings with their positions and on what each sublayer adds

    def __post_init__(self) -> None:
        require_at_least(1, self, "layers", "width", "feed_forward", "heads")
        if self.width % 2:
            raise ValueError(f"width: {self.width} is odd; one half is for sines, one for cosines")
        if self.width % self.heads:
            raise ValueError(f"heads: a width of {self.width} cannot be divided by {self.heads}")
        require_fraction(self, "dropout")


def _linear(inputs: int, outputs: int, *, bias: bool) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2) in its parts, because keys and values are kept."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (_linear(width, width, bias=False) for _ in range(4))

    def queries(self, x: Tensor) -> Tensor:
        """x (N, T, D) -> (N, h, T, D / h)."""
        return self._split(self.query(x))

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, T, D) -> both (N, h, T, D / h)."""
        return self._split(self.key(x)), self._split(self.value(x))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Scaled dot-product attention to the places where ``mask`` (..., T, S) is True -> (N, T, D).

        queries (N, h, T, D / h); keys and values (B, h, S, D / h). Memory has one row for a sentence's K hypotheses, to
        which they are K times as many queries.
        """
        rows, heads, steps, width = queries.shape
        grouped = queries.unflatten(0, (len(keys), -1)).transpose(1, 2).flatten(2, 3)  # (B, h, K T, D / h)
        means = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
        means = means.unflatten(2, (-1, steps)).transpose(1, 2).flatten(0, 1)  # (N, h, T, D / h)
        joined: Tensor = self.out(means.transpose(1, 2).reshape(rows, steps, heads * width))
        return joined

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(-1, (self.heads, -1))
        return heads.transpose(1, 2)


class Sublayer(nn.Module):
    """The residual connection, dropout and layer normalisation around an attention or a feed-forward network.

    After the sum (post) it is LN(x + Dr(sublayer(x))), before the sublayer (pre) it is x + Dr(sublayer(LN(x))).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.pre, self.dropout = config.norm == "pre", config.dropout
        self.norm = nn.LayerNorm(config.width)

    def enter(self, x: Tensor) -> Tensor:
        """The input of the sublayer: x (..., D), normalised if the normalisation stands before it."""
        normed: Tensor = self.norm(x) if self.pre else x
        return normed

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """The sum of x (..., D) and the sublayer's output (..., D), normalised if the normalisation stands after it."""
        total = x + functional.dropout(output, self.dropout, self.training)
        return total if self.pre else self.norm(total)


class FeedForward(nn.Module):
    """The feed-forward network of eq. 2 with its residual connection."""

    def __init__(self, config: Config):
        super().__init__()
        self.around = Sublayer(config)
        self.inner = _linear(config.width, config.feed_forward, bias=True)
        self.outer = _linear(config.feed_forward, config.width, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, T, D) -> (N, T, D)."""
        return self.around.leave(x, self.outer(self.inner(self.around.enter(x)).relu()))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network (section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.around_self, self.self_attention = Sublayer(config), Attention(config.width, config.heads)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        h = self.around_self.enter(x)
        context = self.self_attention(self.self_attention.queries(h), *self.self_attention.keys_and_values(h), mask)
        fed: Tensor = self.feed_forward(self.around_self.leave(x, context))
        return fed


class KeysValues(NamedTuple):
    """The keys and values of one attention: in memory those of the source (B rows), in the state those of the words
    so far (N rows).
    """

    keys: Tensor  # (N, h, S, D / h)
    values: Tensor  # (N, h, S, D / h)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and a feed-forward network (section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.around_self, self.self_attention = Sublayer(config), Attention(config.width, config.heads)
        self.around_source, self.attention = Sublayer(config), Attention(config.width, config.heads)
        self.feed_forward = FeedForward(config)

    def forward(
        self, x: Tensor, past: KeysValues, causal: Tensor, source: KeysValues, mask: Tensor
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """Words x (N, T, D) after those in ``past``, ``causal`` (T, past + T), ``mask`` (B, 1, 1, S).

        Gives x, past and the queries to the source (N, h, T, D / h).
        """
        h = self.around_self.enter(x)
        new = self.self_attention.keys_and_values(h)
        past = KeysValues(*(torch.cat(pair, dim=2) for pair in zip(past, new, strict=True)))
        x = self.around_self.leave(x, self.self_attention(self.self_attention.queries(h), *past, causal))
        queries = self.attention.queries(self.around_source.enter(x))
        x = self.around_source.leave(x, self.attention(queries, *source, mask))
        return self.feed_forward(x), past, queries


def _last_norm(config: Config) -> nn.Module:
    """The normalisation of what the last layer gives, which with pre-normalisation is a bare sum."""
    return nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()


def _positioned(x: Tensor, first: int) -> Tensor:
    """Word vectors x (N, T, D) times sqrt(D), plus the positions from ``first`` on (sections 3.4 and 3.5)."""
    width = x.shape[-1]
    return x * math.sqrt(width) + sinusoid(torch.arange(first, first + x.shape[1], device=x.device), width)


class Encoder(nn.Module):
    """The stack of N layers over the source (section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.dropout = config.dropout
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = _last_norm(config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Word vectors x (B, S, D) and mask (B, S) -> (B, S, D)."""
        x = functional.dropout(_positioned(x, 0), self.dropout, self.training)
        for layer in self.layers:
            x = layer(x, mask[:, None, None])
        last: Tensor = self.norm(x)
        return last


class Memory(NamedTuple):
    """Computed once for each source sentence."""

    layers: tuple[KeysValues, ...]  # for each layer of the decoder
    mask: Tensor  # (B, S)


class TransformerDecoder(Decoder[Tensor, Memory, tuple[KeysValues, ...]]):
    """The state is the keys and values of the words so far, for each layer."""

    def __init__(self, config: Config):
        super().__init__()
        self.dropout = config.dropout
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = _last_norm(config)

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Memory, tuple[KeysValues, ...]]:
        """The encoder's output (B, S, D) and mask (B, S) -> keys and values of the source, and of no words yet."""
        attentions = [cast(DecoderLayer, layer).attention for layer in self.layers]
        memory = tuple(KeysValues(*attention.keys_and_values(encoded)) for attention in attentions)
        state = tuple(KeysValues(keys[:, :, :0], values[:, :, :0]) for keys, values in memory)
        return Memory(memory, mask), state

    def step(self, memory: Memory, state: tuple[KeysValues, ...], y: Tensor) -> Step[tuple[KeysValues, ...]]:
        """One step after the words y (N, E). Its attention is the last layer's, averaged over heads (our ruling)."""
        hidden, state, queries = self.steps(memory, state, y.unsqueeze(1))
        keys = memory.layers[-1].keys
        scores = queries.squeeze(2).unflatten(0, (len(keys), -1)).transpose(1, 2) @ keys.transpose(2, 3)  # (B, h, K, S)
        scores = (scores / math.sqrt(keys.shape[-1])).masked_fill(~memory.mask[:, None, None], float("-inf"))
        return Step(hidden[:, 0], state, scores.softmax(dim=-1).mean(dim=1).flatten(0, 1))

    def unroll(self, memory: Memory, state: tuple[KeysValues, ...], y: Tensor) -> Tensor:
        """All steps of y (B, T, E) at once -> hidden (B, T, H)."""
        return self.steps(memory, state, y)[0]

    def steps(
        self, memory: Memory, state: tuple[KeysValues, ...], y: Tensor
    ) -> tuple[Tensor, tuple[KeysValues, ...], Tensor]:
        """Any number at once: y (N, T, E) -> hidden (N, T, H), state, the last layer's queries to the source."""
        before, steps = state[0].keys.shape[2], y.shape[1]
        causal = torch.ones(steps, before + steps, dtype=torch.bool, device=y.device).tril(before)
        x = functional.dropout(_positioned(y, before), self.dropout, self.training)
        after, queries = [], x
        for layer, past, source in zip(self.layers, state, memory.layers, strict=True):
            x, past, queries = layer(x, past, causal, source, memory.mask[:, None, None])
            after.append(past)
        return self.norm(x), tuple(after), queries


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """A Transformer with vocabularies of these sizes, the symbols included."""
    tgt = WordEmbedding(tgt_words, config.width, dropout=0.0)
    src = SharedEmbedding(tgt) if config.tied == "all" else WordEmbedding(src_words, config.width, dropout=0.0)
    output = OutputLayer(config.width, tgt_words) if config.tied == "none" else TiedOutputLayer(tgt)
    return Seq2Seq(src, Encoder(config), tgt, TransformerDecoder(config), output)
