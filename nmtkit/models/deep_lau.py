"""DeepLAU and its DeepGRU controls: plain stacks of recurrent layers with alternating directions.

Wang, Lu, Zhou and Liu 2017, "Deep neural machine translation with linear associative unit" (ACL). One chain of
layers reads the source forward, backward, forward, ...; only the top layer's output is attended to. The attention
sees the first decoder layer and the previous word; the decoder layers above the first see only the layer below.
The cell makes depth work: a GRU with a gated linear path from its input to its state.

Where the paper is silent or contradicts itself, our choices are: the first encoder layer reads forward, as the text
says; all decoder layers start from tanh of a linear map of the mean annotation; H(x) has no bias; the GRU of eqs.
2 to 5 has a bias for each gate and the candidate.

The controls of section 4.6 connect layers outside the recurrence: a layer passes the sum of its state and its input to
the layer above, to the softmax and, as annotations, to the attention, whose query remains the first layer's state. A
residual connection adds the input itself, wherever it is as wide as the state. "+F-F", "a parametric ResNet", "takes
a linear sum between the input and the newly computed state": it adds a linear map of the input, in every layer. Zhou et
al.'s own fast-forward connections map [f; h] of the layer below to f, the input of the cell's gates and candidate (here
without their Half and dropout); attention and softmax read only h.

Beyond the paper: dropout on embeddings (0 in the paper), which small corpora need.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmtkit.config import require_counts, require_fraction
from nmtkit.layers.attention import AdditiveAttention
from nmtkit.layers.embedding import OutputLayer, WordEmbedding
from nmtkit.layers.linear import Linear
from nmtkit.layers.recurrent import GRU, LAU
from nmtkit.models.base import Decoder, Seq2Seq, Step, mean_annotation
from nmtkit.ops.attention import attention_loop
from nmtkit.ops.linear import linear
from nmtkit.ops.matrix import product
from nmtkit.ops.pointwise import dropout


@dataclass(frozen=True)
class Config:
    """Sections 3.4 and 4.2; Table 4 varies the first five."""

    cell: Literal["lau", "gru"]  # DeepLAU or DeepGRU
    connections: Literal["none", "residual", "parametric", "fast_forward"]  # around the cells (section 4.6)
    encoder_layers: int  # L_enc
    decoder_layers: int  # L_dec
    width: int  # of every recurrent layer and of c_t
    embedding: int
    attention: int  # hidden width of the alignment model; unstated
    embedding_dropout: float  # none in the paper
    dropout: float  # on the input of the output layer

    def __post_init__(self) -> None:
        require_counts(1, self, "encoder_layers", "decoder_layers", "width", "embedding", "attention")
        require_fraction(self, "embedding_dropout", "dropout")


class Layer(nn.Module):
    """A recurrent layer (eq. 9), which reads x and f of the layer below and gives its own to the layer above.

    x is the output of a layer; f, G wide, is the transformed input of its cell, with concatenated gates, which only
    fast-forward connections pass upwards: f = [f; x] W_f + b.
    """

    def __init__(self, config: Config, inputs: int, *, bottom: bool):
        super().__init__()
        width = config.width
        self.recurrent = LAU(width) if config.cell == "lau" else GRU(width)
        gates = 5 * width if config.cell == "lau" else 3 * width
        self.input = Linear(inputs, gates, bias=config.cell == "gru")  # a LAU has its own biases
        takes_f = config.connections == "fast_forward" and not bottom
        self.fast_forward = Linear(gates, gates, bias=False) if takes_f else None
        self.shortcut: nn.Module | None = None
        if config.connections == "parametric":
            self.shortcut = Linear(inputs, width, bias=False)
        elif config.connections == "residual" and inputs == width:
            self.shortcut = nn.Identity()

    def forward(
        self, x: Tensor, f: Tensor | None, first: Tensor, mask: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        """A whole sequence: x (T, B, D) and f (T, B, G) below, first state (B, H), mask (T, B) -> x (T, B, H) and f."""
        f = self.transform(x, f)
        return self.output(x, self.recurrent(f, first, mask, reverse)), f

    def step(self, x: Tensor, f: Tensor | None, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step: x (N, D) and f (N, G) below, state (N, H) -> x (N, H), f and the next state."""
        f = self.transform(x, f)
        h = self.recurrent.step(f, h, *self.recurrent.weights())
        return self.output(x, h), f, h

    def transform(self, x: Tensor, f: Tensor | None) -> Tensor:
        """The cell's transformed input f (..., G) from x (..., D) and, with fast-forward connections, f below."""
        new: Tensor = self.input(x)
        return new if self.fast_forward is None else new + self.fast_forward(f)

    def output(self, x: Tensor, h: Tensor) -> Tensor:
        """The input of the layer above: the state h (..., H), plus the connection's map of the input x (..., D)."""
        return h if self.shortcut is None else h + self.shortcut(x)


def stack(config: Config, inputs: int, layers: int) -> nn.ModuleList:
    """A stack of ``layers`` layers whose lowest reads an input ``inputs`` wide."""
    widths = [inputs] + [config.width] * (layers - 1)
    return nn.ModuleList(Layer(config, width, bottom=k == 0) for k, width in enumerate(widths))


class Encoder(nn.Module):
    """One chain of layers, of which the 1st, 3rd, ... read forward and the others backward (section 3.4)."""

    def __init__(self, config: Config):
        super().__init__()
        self.width = config.width
        self.layers = stack(config, config.embedding, config.encoder_layers)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Words x (B, S, E) and mask (B, S) -> annotations h_j (B, S, H), which are the top layer's outputs."""
        x, f, steps = x.transpose(0, 1).contiguous(), None, mask.t()
        zero = x.new_zeros(x.shape[1], self.width)
        for k, layer in enumerate(self.layers):
            x, f = layer(x, f, zero, steps, reverse=k % 2 == 1)
        return x.transpose(0, 1).contiguous()


class Memory(NamedTuple):
    """Computed once for each source sentence."""

    annotations: Tensor  # (B, S, H)
    keys: Tensor  # annotations U_a + b (B, S, A)
    mask: Tensor  # (B, S)


class AttentionDecoder(Decoder[Tensor, Memory, tuple[Tensor, ...]]):
    """Eqs. 10 and 11. The state is h (N, H) of every layer, of which the paper's s^1 is that of the first."""

    def __init__(self, config: Config):
        super().__init__()
        self.widths = [config.width, config.embedding]  # of [s^1_{t-1}; y_{t-1}] and of [c_t; y_{t-1}]
        self.dropout = config.dropout
        self.initial = Linear(config.width, config.width)
        self.attention = AdditiveAttention(sum(self.widths), config.width, config.attention)  # W_a, W_y; U_a
        self.layers = stack(config, sum(self.widths), config.decoder_layers)

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Memory, tuple[Tensor, ...]]:
        """Annotations (B, S, H), mask (B, S) -> memory, and tanh of a map of the mean annotation for every layer."""
        state = self.initial(mean_annotation(encoded, mask)).tanh().float()
        return Memory(encoded, self.attention.key(encoded), mask), (state,) * len(self.layers)

    def step(self, memory: Memory, state: tuple[Tensor, ...], y: Tensor) -> Step[tuple[Tensor, ...]]:
        """One step after the words y (N, E); the layers above the first see only the layer below."""
        query = torch.cat([state[0], y], dim=-1)
        context, weights = self.attention(query, memory.keys, memory.annotations, memory.mask)  # eqs. 10 and 11
        x, f, new = torch.cat([context, y], dim=-1), None, []
        for k, h in enumerate(state):
            x, f, h = self.layer(k).step(x, f, h)
            new.append(h)
        return Step(self.top(x), tuple(new), weights)

    def unroll(self, memory: Memory, state: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """All steps of y (B, T, E) -> hidden (B, T, H).

        Only the first layer needs the attention of the step before; the layers above run over all steps at once.
        """
        y, bottom = y.transpose(0, 1).contiguous(), self.layer(0)
        query_state, query_word = self.attention.query.weight.split(self.widths, dim=1)
        context_maps, word_maps = bottom.input.weight.split(self.widths, dim=1)
        queries = linear(y, query_word)  # (T, B, A)
        words = linear(y, word_maps, bottom.input.bias).float()  # (T, B, G)
        maps = [query_state.t(), context_maps.t(), *bottom.recurrent.weights()]
        h, attend, (query, to_f, *weights) = attention_loop(
            state[0], memory.keys, memory.annotations, self.attention.v, memory.mask, *maps
        )
        contexts, fs, hs = [], [], []
        for from_word, word in zip(queries, words, strict=True):
            context = attend(product(h, query) + from_word)
            fs.append(product(context, to_f) + word)
            h = bottom.recurrent.step(fs[-1], h, *weights)
            contexts.append(context)
            hs.append(h)
        x, f = bottom.output(torch.cat([torch.stack(contexts), y], dim=-1), torch.stack(hs)), torch.stack(fs)
        for k in range(1, len(state)):
            x, f = self.layer(k)(x, f, state[k], None, reverse=False)
        return self.top(x).transpose(0, 1)

    def layer(self, k: int) -> Layer:
        """Layer k of the decoder, counted from 0."""
        return cast(Layer, self.layers[k])

    def top(self, x: Tensor) -> Tensor:
        """The input of the softmax: x (..., H) of the top layer after dropout."""
        return dropout(x, self.dropout, self.training)


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """DeepLAU or DeepGRU with vocabularies of these sizes, the symbols included."""
    return Seq2Seq(
        WordEmbedding(src_words, config.embedding, dropout=config.embedding_dropout),
        Encoder(config),
        WordEmbedding(tgt_words, config.embedding, dropout=config.embedding_dropout),
        AttentionDecoder(config),
        OutputLayer(config.width, tgt_words),
    )
