"""DenseNMT, and the ConvS2S models it is compared with.

Shen, Tan, He, Qin and Liu 2018, "Dense information flow for neural machine translation" (NAACL), on Gehring et al.
2017, "Convolutional sequence to sequence learning" (ICML). A ConvS2S layer adds its input to its output; a *dense*
layer reads the concatenated outputs of all layers below it, and appends d channels. At intervals, a *summary* layer
reduces the width again. Dense attention of the second kind attends to every encoder layer separately.

Every product is weight-normalised. Where the paper is silent this follows the first author's release: the stacks
start from an embedding projected to their width, a summary layer is one of the layers counted, small embeddings
and their positions are mapped to the attention's width, each by its own matrix. A summary layer projects to the width
of the stack, as in the release, not "back to the embedding size" as in the text (section 3.3), which would not give
the printed sizes.

Loss and gradients of ConvS2S equal those of its authors' code (fairseq), see ``tests/README.md``, except the gradient
of source embeddings: fairseq in Python divides its part from the encoder by twice the number of attentions, like the
encoder's gradients; the paper (section 3.4) and its release in Lua do not.

Words beyond the learnt positions share the last one, so that no line is too long.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmtkit.config import require_counts, require_fraction
from nmtkit.layers.conv import GatedConv, NormedLinear, TokenEmbedding, scale_gradient
from nmtkit.models.base import Decoder, Seq2Seq, Step
from nmtkit.ops.pointwise import dropout

HALF = math.sqrt(0.5)  # times a sum of two terms of variance 1 has variance 1


@dataclass(frozen=True)
class Stage:
    """Consecutive layers of one width."""

    layers: int
    times: float  # their width, and the channels that a dense layer adds, in units of the first stage's
    kernel: int

    def __post_init__(self) -> None:
        require_counts(1, self, "layers", "kernel")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel: {self.kernel} is even; an encoder sees as many words before as after")

    def channels(self, first: int) -> int:
        """The number of channels here, if the first stage has ``first``."""
        return round(self.times * first)


@dataclass(frozen=True)
class Config:
    """Sizes of section 4.2, and of the authors' release where the paper is silent."""

    embedding: int  # E, of both sides and of the output layer's input
    attention: int  # N; embeddings of another width are mapped to it
    output: int  # width before the output layer
    width: int  # of the first stage
    growth: int  # d: channels that a dense layer of the first stage adds
    stages: tuple[Stage, ...]
    summary: int | None  # every so many layers a dense stack is summarised; null: never
    dense_encoder: bool
    dense_decoder: bool
    dense_attention: Literal[1, 2]  # DenseAtt-1: one set of keys, of the encoder's top; 2: one for every layer
    positions: int
    dropout: float
    # Of the decoder; null: as in the encoder. Those of fairseq's fconv_iwslt_de_en have one layer less.
    decoder_stages: tuple[Stage, ...] | None = None

    def __post_init__(self) -> None:
        require_counts(1, self, "embedding", "attention", "output", "width", "growth", "positions")
        for name, stages in (("stages", self.stages), ("decoder_stages", self.of_decoder)):
            if not stages:
                raise ValueError(f"{name}: at least one")
        for stage in (*self.stages, *self.of_decoder):
            for size in (self.width, self.growth):
                if stage.channels(size) < 1 or abs(stage.channels(size) - stage.times * size) > 1e-6 * size:
                    raise ValueError(f"times: {stage.times} times {size} is not a whole number of at least 1")
        if self.summary is not None and self.summary < 1:
            raise ValueError(f"summary: {self.summary} is not at least 1; null: never")
        require_fraction(self, "dropout")

    @property
    def of_decoder(self) -> tuple[Stage, ...]:
        """The stages of the decoder."""
        return self.stages if self.decoder_stages is None else self.decoder_stages


class Plan(NamedTuple):
    """A layer's place in its stack."""

    rows: int  # channels it sees
    width: int  # channels its convolution makes
    kernel: int
    top: int  # channels the layer above sees
    dense: bool  # concatenates its input and output for the layer above; else it adds them


def plan(config: Config, stages: Sequence[Stage], dense: bool, made: int) -> list[Plan]:
    """The layers of these stages. A dense layer passes on ``made`` times d new channels (2 in a decoder: eq. 7)."""
    layers: list[Plan] = []
    rows = config.width
    for stage in stages:
        for _ in range(stage.layers):
            summary = config.summary is not None and (len(layers) + 1) % config.summary == 0
            grows = dense and not summary
            width = stage.channels(config.growth if grows else config.width)
            top = rows + made * width if grows else width
            layers.append(Plan(rows, width, stage.kernel, top, grows))
            rows = top
    return layers


def residual(layer: Plan, *, dense: bool, dropout: float) -> nn.Module:
    """The map of a layer's input before it is added to its output: none, unless the widths differ."""
    if layer.dense or (not dense and layer.rows == layer.width):
        return nn.Identity()
    return NormedLinear(layer.rows, layer.width, dropout=dropout)


class Input(nn.Module):
    """g = token + position, each mapped from E to N where these differ; then dropout."""

    def __init__(self, config: Config):
        super().__init__()
        table = nn.init.normal_(torch.empty(config.positions, config.embedding), std=0.1)
        self.position = nn.Embedding.from_pretrained(table, freeze=False)
        mapped = config.embedding != config.attention
        self.maps = nn.ModuleList(
            NormedLinear(config.embedding, config.attention, dropout=config.dropout) for _ in range(2 * mapped)
        )
        self.dropout = config.dropout

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Words x (..., E) at ``positions`` (...), or (T,) for x (B, T, E) -> g (..., N)."""
        # Positions beyond the table share its last vector.
        place = self.position(positions.clamp(max=self.position.num_embeddings - 1))
        if len(self.maps):
            x, place = self.maps[0](x), self.maps[1](place)
        return dropout(x + place, self.dropout, self.training)


class Encoded(NamedTuple):
    """The keys and values that the decoder attends to: one set for DenseAtt-1, one for each part for DenseAtt-2."""

    keys: tuple[Tensor, ...]  # (B, S, N) each
    values: tuple[Tensor, ...]  # (B, S, N) each


class Encoder(nn.Module):
    """A stack of gated convolutions, residual or dense, and the keys and values made from it."""

    def __init__(self, config: Config):
        super().__init__()
        layers = plan(config, config.stages, config.dense_encoder, made=1)
        self.input = Input(config)
        self.first = NormedLinear(config.attention, config.width, dropout=config.dropout)
        self.convs = nn.ModuleList(
            GatedConv(layer.rows, layer.width, layer.kernel, dropout=config.dropout) for layer in layers
        )
        self.residuals = nn.ModuleList(
            residual(layer, dense=config.dense_encoder, dropout=config.dropout) for layer in layers
        )
        self.dense = [layer.dense for layer in layers]
        self.parts, self.grows = config.dense_attention == 2, config.dense_encoder
        widths = self._part_widths(config, layers) if self.parts else [layers[-1].top]
        self.keys = nn.ModuleList(NormedLinear(width, config.attention) for width in widths)
        # Every layer of the decoder attends, and each uses keys and values.
        self.scaling = 2 * sum(stage.layers for stage in config.of_decoder)

    @staticmethod
    def _part_widths(config: Config, layers: Sequence[Plan]) -> list[int]:
        """The widths of the parts that DenseAtt-2 attends to.

        In a residual encoder these are all layers (our choice), in a dense one the last summary, or else the input of
        the stack, and each layer after it (eq. 10 and the release).
        """
        if not config.dense_encoder:
            return [layer.width for layer in layers]
        widths = [config.width]
        for layer in layers:
            widths = [layer.width, *widths] if layer.dense else [layer.width]
        return widths

    def forward(self, x: Tensor, mask: Tensor) -> Encoded:
        """Words x (B, S, E) and mask (B, S) -> keys and values, (B, S, N) each."""
        g = self.input(x, torch.arange(x.shape[1], device=x.device))
        real = mask.unsqueeze(-1)
        # The gradients of the layers are scaled, those of source embeddings are not (Gehring et al. 2017, 3.4).
        h = self.first(g if self.parts else scale_gradient(g, self.scaling))
        made, parts = [], [h]  # all layers of a residual stack; the next layer's inputs of a dense one, newest first
        for conv, added, dense in zip(self.convs, self.residuals, self.dense, strict=True):
            gated = cast(GatedConv, conv)
            new = gated(h * real, (gated.kernel - 1) // 2)
            parts = [new, *parts] if dense else [HALF * (new + added(h))]
            h = torch.cat(parts, dim=-1)
            made.append(h)
        if self.parts:
            seen = parts if self.grows else made
            keys = tuple(key(part) for key, part in zip(self.keys, seen, strict=True))
        else:
            keys = (scale_gradient(self.keys[0](h), 1 / self.scaling),)
        return Encoded(keys, tuple(HALF * (key + g) for key in keys))


class Memory(NamedTuple):
    """Computed once for each source sentence."""

    keys: tuple[Tensor, ...]  # (B, S, N) each
    values: tuple[Tensor, ...]  # (B, S, N) each
    mask: Tensor  # (B, S)
    length: Tensor  # (B, 1, 1): sqrt(m), m source words


class Attention(nn.Module):
    """q = sqrt(.5) (u W_q + b + g); a = (sum_i softmax(q K_i^T) V_i / sqrt(parts) sqrt(m)) W_a + b (eqs. 8 to 10)."""

    def __init__(self, width: int, attention: int):
        super().__init__()
        self.query = NormedLinear(width, attention)
        self.output = NormedLinear(attention, width)

    def forward(self, u: Tensor, g: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """u (B, T, d), embedded words g (B, T, N) -> a (B, T, d), attention weights (B, T, S)."""
        query = HALF * (self.query(u) + g)
        context, total = torch.zeros_like(query), torch.zeros((), device=u.device)
        for keys, values in zip(memory.keys, memory.values, strict=True):
            scores = (query.to(keys.dtype) @ keys.transpose(1, 2)).float()
            weights = scores.masked_fill(~memory.mask.unsqueeze(1), float("-inf")).softmax(dim=-1)
            context = context + weights.to(values.dtype) @ values
            total = total + weights
        parts = len(memory.keys)
        return self.output(context * (memory.length / math.sqrt(parts))), total / parts


class State(NamedTuple):
    """The last inputs of every convolution, and the position of the next word."""

    windows: tuple[Tensor, ...]  # (N, k-1, channels) each
    position: Tensor  # (N,)


class ConvDecoder(Decoder[Encoded, Memory, State]):
    """Every layer convolves over the words so far, attends, and passes both on (eq. 7 if it is dense)."""

    def __init__(self, config: Config):
        super().__init__()
        layers = plan(config, config.of_decoder, config.dense_decoder, made=2)
        self.input = Input(config)
        self.first = NormedLinear(config.attention, config.width, dropout=config.dropout)
        self.convs = nn.ModuleList(
            GatedConv(layer.rows, layer.width, layer.kernel, dropout=config.dropout) for layer in layers
        )
        self.attentions = nn.ModuleList(Attention(layer.width, config.attention) for layer in layers)
        self.residuals = nn.ModuleList(
            residual(layer, dense=config.dense_decoder, dropout=config.dropout) for layer in layers
        )
        self.dense = [layer.dense for layer in layers]
        self.last = NormedLinear(layers[-1].top, config.output)
        self.dropout = config.dropout

    def begin(self, encoded: Encoded, mask: Tensor) -> tuple[Memory, State]:
        """Keys and values (B, S, N) each, mask (B, S) -> memory, and windows of zeros."""
        length = mask.sum(dim=1).sqrt()[:, None, None]
        windows = tuple(cast(GatedConv, conv).first(len(mask), encoded.keys[0]) for conv in self.convs)
        return Memory(*encoded, mask, length), State(windows, mask.new_zeros(len(mask), dtype=torch.long))

    def step(self, memory: Memory, state: State, y: Tensor) -> Step[State]:
        """One step after the words y (N, E): every layer sees its last k - 1 inputs and the new one."""
        g = self.input(y, state.position)
        h, windows, attentions = self.first(g), [], []
        for k, conv in enumerate(self.convs):
            u, window = cast(GatedConv, conv).step(h, state.windows[k])
            # The hypotheses of a sentence are queries like the words of a target sentence in training.
            a, weights = self.attentions[k](*(x.unflatten(0, (len(memory.mask), -1)) for x in (u, g)), memory)
            h = self.join(k, h, u, a.flatten(0, 1))
            windows.append(window)
            attentions.append(weights.flatten(0, 1))
        return Step(self.readout(h), State(tuple(windows), state.position + 1), torch.stack(attentions).mean(dim=0))

    def unroll(self, memory: Memory, state: State, y: Tensor) -> Tensor:
        """All positions of y (B, T, E) at once, from the first state -> hidden (B, T, H)."""
        g = self.input(y, torch.arange(y.shape[1], device=y.device))
        h = self.first(g)
        for k, conv in enumerate(self.convs):
            gated = cast(GatedConv, conv)
            u = gated(h, gated.kernel - 1)
            a, _ = self.attentions[k](u, g, memory)
            h = self.join(k, h, u, a)
        return self.readout(h)

    def join(self, k: int, h: Tensor, u: Tensor, a: Tensor) -> Tensor:
        """The output of layer k (..., D), from its input h, its convolution u and its attention a (eq. 7 if dense)."""
        if self.dense[k]:
            return torch.cat([h, a, u], dim=-1)
        joined: Tensor = HALF * (HALF * (u + a) + self.residuals[k](h))
        return joined

    def readout(self, h: Tensor) -> Tensor:
        """The input of the output layer: the top h (..., D) mapped to (..., ``output``), after dropout."""
        return dropout(self.last(h), self.dropout, self.training)


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """DenseNMT or ConvS2S with vocabularies of these sizes, the symbols included."""
    return Seq2Seq(
        TokenEmbedding(src_words, config.embedding),
        Encoder(config),
        TokenEmbedding(tgt_words, config.embedding),
        ConvDecoder(config),
        NormedLinear(config.output, tgt_words, dropout=config.dropout),
    )
