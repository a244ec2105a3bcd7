"""The Transformer, the baseline of all later papers: attention within each side and between them.

Vaswani et al. 2017, "Attention is all you need" (NIPS), and the variant with layer normalisation before each sublayer
instead of after its sum (He et al. 2016; Wang et al. 2019), and once more after the last layer.

As in the authors' code, attention has no biases, linear layers start from Glorot's uniform values, sines and cosines
are not interleaved, and the first word is preceded by a zero vector. The reported attention weights are the last
layer's, averaged over its heads (our choice). Differences in Marian and transformers are settings.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.config import require_counts, require_fraction
from nmtkit.layers.embedding import OutputLayer, SharedEmbedding, TiedOutputLayer, WordEmbedding, sinusoid
from nmtkit.layers.linear import Linear
from nmtkit.models.base import Decoder, Seq2Seq, Step
from nmtkit.ops.pointwise import dropout


@dataclass(frozen=True)
class Config:
    """Sizes as named in Table 3."""

    layers: int  # N, of encoder and of decoder
    width: int  # d_model
    feed_forward: int  # d_ff
    heads: int  # h
    norm: Literal["post", "pre"]  # post: the paper's, LN(x + sublayer(x)); pre: x + sublayer(LN(x))
    tied: Literal["all", "target", "none"]  # source, target and softmax have one table (3.4), the last two, or three
    dropout: float  # P_drop, on embeddings with their positions and on the output of each sublayer
    # For Marian's Transformers, and so OPUS-MT's (src/models/transformer.h), which have swish, biases, and 1e-6:
    activation: Literal["relu", "swish"] = "relu"  # of the feed-forward network; swish is x sigma(x)
    attention_bias: bool = False  # in the four linear maps of attention
    norm_epsilon: float = 1e-5  # of the layer normalisations
    # The frequencies of positions (3.5) in the authors' code, or in their formula, as in transformers' MarianMTModel:
    positions: Literal["code", "formula"] = "code"

    def __post_init__(self) -> None:
        require_counts(1, self, "layers", "width", "feed_forward", "heads")
        if self.width % 2:
            raise ValueError(f"width: {self.width} is odd; one half is for sines, one for cosines")
        if self.width % self.heads:
            raise ValueError(f"heads: a width of {self.width} cannot be divided by {self.heads}")
        require_fraction(self, "dropout", "norm_epsilon")


def _linear(inputs: int, outputs: int, *, bias: bool, chained: bool = False) -> Linear:
    layer = Linear(inputs, outputs, bias=bias, chained=chained)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2) in parts, because keys and values are cached."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads, width, bias = config.heads, config.width, config.attention_bias
        self.query, self.key, self.value = (_linear(width, width, bias=bias, chained=True) for _ in range(3))
        self.out = _linear(width, width, bias=bias)

    def queries(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, h, T, D / h)."""
        return self._split(self.query(x))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Scaled dot-product attention to the positions where ``mask`` (..., T, S) is True, or to all -> (B, T, D).

        queries (B, h, T, D / h); keys and values (B, S, D), with concatenated heads.
        """
        means = functional.scaled_dot_product_attention(
            queries.to(keys.dtype), self._split(keys), self._split(values), attn_mask=mask
        )
        joined: Tensor = self.out(means.transpose(1, 2).flatten(2))
        return joined

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The scores (B, h, T, S) of queries (B, h, T, D / h) and keys (B, S, D), before the softmax, in float32."""
        scores: Tensor = queries.to(keys.dtype) @ self._split(keys).transpose(2, 3)
        return scores.float() / math.sqrt(queries.shape[-1])

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(-1, (self.heads, -1))
        return heads.transpose(1, 2)


class Sublayer(nn.Module):
    """The residual connection, dropout and layer normalisation around an attention or a feed-forward network.

    With post-normalisation it is LN(x + Dr(sublayer(x))), with pre-normalisation x + Dr(sublayer(LN(x))).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.pre, self.dropout = config.norm == "pre", config.dropout
        self.norm = nn.LayerNorm(config.width, config.norm_epsilon)

    def enter(self, x: Tensor) -> Tensor:
        """The input of the sublayer: x (..., D), normalised with pre-normalisation."""
        normed: Tensor = self.norm(x) if self.pre else x
        return normed

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """The sum of x (..., D) and the sublayer's output (..., D), normalised with post-normalisation."""
        total = x + dropout(output, self.dropout, self.training)
        return total if self.pre else self.norm(total)


class FeedForward(nn.Module):
    """The feed-forward network of eq. 2 with its residual connection."""

    def __init__(self, config: Config):
        super().__init__()
        self.around = Sublayer(config)
        self.inner = _linear(config.width, config.feed_forward, bias=True, chained=True)
        self.outer = _linear(config.feed_forward, config.width, bias=True)
        self.activation = functional.silu if config.activation == "swish" else functional.relu

    def forward(self, x: Tensor) -> Tensor:
        """x (N, T, D) -> (N, T, D)."""
        return self.around.leave(x, self.outer(self.activation(self.inner(self.around.enter(x)))))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network (section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.around_self, self.self_attention = Sublayer(config), Attention(config)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        h = self.around_self.enter(x)
        own = self.self_attention
        context = own(own.queries(h), own.key(h), own.value(h), mask)
        fed: Tensor = self.feed_forward(self.around_self.leave(x, context))
        return fed


class KVCache(NamedTuple):
    """The keys and values of one attention, with concatenated heads."""

    keys: Tensor  # (B, S, D)
    values: Tensor  # (B, S, D)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and a feed-forward network (section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.around_self, self.self_attention = Sublayer(config), Attention(config)
        self.around_source, self.attention = Sublayer(config), Attention(config)
        self.feed_forward = FeedForward(config)

    def attend_self(self, x: Tensor, cache: KVCache, mask: Tensor | None) -> tuple[Tensor, KVCache]:
        """Self-attention of words x (N, T, D), which follow those in ``cache`` (N, C, D): x and the longer cache.

        mask (T, C + T) is True where a word attends; None: everywhere.
        """
        h, own = self.around_self.enter(x), self.self_attention
        cache = KVCache(torch.cat([cache.keys, own.key(h)], dim=1), torch.cat([cache.values, own.value(h)], dim=1))
        return self.around_self.leave(x, own(own.queries(h), *cache, mask)), cache

    def attend_source(self, x: Tensor, source: KVCache, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Attention to the source of words x (B, T, D), then the feed-forward network: x, queries (B, h, T, D / h).

        mask (B, 1, 1, S) is True at the real source words.
        """
        queries = self.attention.queries(self.around_source.enter(x))
        return self.feed_forward(self.around_source.leave(x, self.attention(queries, *source, mask))), queries


def _last_norm(config: Config) -> nn.Module:
    """The normalisation after the last layer, which only pre-normalisation needs."""
    return nn.LayerNorm(config.width, config.norm_epsilon) if config.norm == "pre" else nn.Identity()


def _positioned(x: Tensor, positions: Tensor, formula: bool) -> Tensor:
    """Word vectors x (..., T, D) times sqrt(D), plus embeddings of positions (T,) (sections 3.4 and 3.5)."""
    width = x.shape[-1]
    return x * math.sqrt(width) + sinusoid(positions, width, formula=formula)


class Encoder(nn.Module):
    """The stack of N layers over the source (section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.dropout, self.formula = config.dropout, config.positions == "formula"
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = _last_norm(config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Word vectors x (B, S, D) and mask (B, S) -> (B, S, D)."""
        positions = torch.arange(x.shape[1], device=x.device)
        x = dropout(_positioned(x, positions, self.formula), self.dropout, self.training)
        for layer in self.layers:
            x = layer(x, mask[:, None, None])
        last: Tensor = self.norm(x)
        return last


class Memory(NamedTuple):
    """Computed once for each source sentence."""

    layers: tuple[KVCache, ...]  # of the source, for each layer of the decoder
    mask: Tensor  # (B, S)


class State(NamedTuple):
    """The target words so far."""

    kv_cache: tuple[KVCache, ...]  # (N, C, D) for each layer
    position: Tensor  # (N,) of the next word


class TransformerDecoder(Decoder[Tensor, Memory, State]):
    """A stack of N layers over the target words so far (section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.dropout, self.formula = config.dropout, config.positions == "formula"
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = _last_norm(config)

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Memory, State]:
        """The encoder's output (B, S, D) and mask (B, S) -> keys and values of the source, and empty caches."""
        attentions = [cast(DecoderLayer, layer).attention for layer in self.layers]
        memory = tuple(KVCache(attention.key(encoded), attention.value(encoded)) for attention in attentions)
        empty = tuple(KVCache(keys[:, :0], values[:, :0]) for keys, values in memory)
        return Memory(memory, mask), State(empty, mask.new_zeros(len(mask), dtype=torch.long))

    def step(self, memory: Memory, state: State, y: Tensor) -> Step[State]:
        """One step after the words y (N, E). The weights are the last layer's, averaged over heads."""
        mask, beam = memory.mask[:, None, None], (len(memory.mask), -1)
        x, queries, kv_cache = _positioned(y, state.position, self.formula), y, []
        for layer, cache, source in zip(self._layers(), state.kv_cache, memory.layers, strict=True):
            x, cache = layer.attend_self(x.unsqueeze(1), cache, None)  # (N, 1, D): each hypothesis has its own words
            # The K hypotheses of a sentence are K queries to its one source.
            x, queries = layer.attend_source(x.squeeze(1).unflatten(0, beam), source, mask)
            x = x.flatten(0, 1)
            kv_cache.append(cache)
        scores = self._layers()[-1].attention.scores(queries, memory.layers[-1].keys)  # (B, h, K, S)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1).mean(dim=1)
        return Step(self.norm(x), State(tuple(kv_cache), state.position + 1), weights.flatten(0, 1))

    def unroll(self, memory: Memory, state: State, y: Tensor) -> Tensor:
        """All steps of y (B, T, E) at once, from the first state -> hidden (B, T, H)."""
        steps = y.shape[1]
        causal = torch.ones(steps, steps, dtype=torch.bool, device=y.device).tril()
        x = dropout(_positioned(y, torch.arange(steps, device=y.device), self.formula), self.dropout, self.training)
        for layer, cache, source in zip(self._layers(), state.kv_cache, memory.layers, strict=True):
            x, _ = layer.attend_self(x, cache, causal)
            x, _ = layer.attend_source(x, source, memory.mask[:, None, None])
        hidden: Tensor = self.norm(x)
        return hidden

    def _layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], self.layers)


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """A Transformer with vocabularies of these sizes, the symbols included."""
    tgt = WordEmbedding(tgt_words, config.width, dropout=0.0)
    src = SharedEmbedding(tgt) if config.tied == "all" else WordEmbedding(src_words, config.width, dropout=0.0)
    output = OutputLayer(config.width, tgt_words) if config.tied == "none" else TiedOutputLayer(tgt)
    return Seq2Seq(src, Encoder(config), tgt, TransformerDecoder(config), output)
