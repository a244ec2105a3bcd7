"""The Nematus family and BiDeep: recurrent models that are deep in two ways.

Miceli Barone, Helcl, Sennrich, Haddow and Birch 2017, "Deep architectures for neural machine translation" (WMT).
*Stacking* puts levels on top of each other, each with its own recurrence. *Deep transition* makes several
GRU transitions at every word; only the state of the last is passed to the next word. BiDeep does both. With one
level and the fewest transitions the model is the shallow Nematus baseline.

Every linear map is layer-normalised separately, LN(x W + b). The update gate keeps the *old* state, and the reset
gate is applied after the product. Levels above the first of their stack have residual connections.

Where the paper is silent this follows the authors' code (Nematus, tag wmt17.v0.4): the place of biases, the span of LN,
one initial state for all decoder levels, the residual connections of the deep output, the target embedding as
output matrix, the initial values. Levels of cGRU and crGRU have two transitions, as in the paper's equations (the
authors' configuration files do not say). The encoder's chains are concatenated in the paper's order.

Loss and gradients equal those of the authors' code in fifteen systems, see ``tests/README.md``.

Beyond the paper: dropout on embeddings and readout (0 in the paper) and the lexical model, which small corpora need.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmtkit.config import require_counts, require_fraction
from nmtkit.layers.attention import Attending
from nmtkit.layers.embedding import OutputLayer, SharedEmbedding, TiedOutputLayer, WordEmbedding
from nmtkit.layers.recurrent import Recurrent
from nmtkit.models.base import Decoder, Seq2Seq, Step, mean_annotation
from nmtkit.ops import attention, nematus
from nmtkit.ops.loop import scan
from nmtkit.ops.matrix import Matrix, product
from nmtkit.ops.pointwise import dropout

LayerNorm = bool | Literal["marian"]


@dataclass(frozen=True)
class Config:
    """Depths are the columns of Tables 2 to 4; widths are from the authors' configuration files."""

    embedding: int  # E
    hidden: int  # H
    bidirectional_layers: int  # D_s, "s. bidir.": levels in alternating directions; 1 in the shallow encoder
    forward_layers: int  # "s. forw.": levels above them, 2H wide, that only run forward
    encoder_transitions: int  # L_s, "trans.": of every encoder level
    decoder_layers: int  # D_t, "stacked": the base level and those above it
    base_transitions: int  # L_t of the base level; 2 in the shallow decoder, with the attention in between
    high_cell: Literal["gru", "rgru", "cgru", "crgru"] | None  # the levels above (section 2.3.2); null: there are none
    high_transitions: int | None  # of every level above
    output_layers: int  # hidden layers of the output network (Table 3)
    # Table 1. marian: gates and candidate have one normalisation, epsilon is 1e-9 (Marian's src/rnn/cells.h)
    layer_norm: LayerNorm
    dropout: float
    # source, target and softmax have one table, or the last two; none: three, as models of Marian may have
    tied: Literal["all", "target", "none"] = "target"
    lexical: bool = False  # the lexical model of Nguyen and Chiang 2018

    def __post_init__(self) -> None:
        require_counts(1, self, "embedding", "hidden", "bidirectional_layers", "encoder_transitions")
        require_counts(1, self, "decoder_layers", "output_layers")
        require_counts(0, self, "forward_layers")
        if self.base_transitions < 2:
            raise ValueError(f"base_transitions: {self.base_transitions} is not at least 2, around the attention")
        if self.decoder_layers > 1 and (self.high_cell is None or self.high_transitions is None):
            raise ValueError(f"high_cell, high_transitions: needed with decoder_layers {self.decoder_layers}")
        least = 2 if self.high_cell in ("cgru", "crgru") else 1
        require_counts(least, self, "high_transitions")
        require_fraction(self, "dropout")


class Map(Recurrent):
    """LN(x W + b), or x W + b without layer normalisation.

    W (D, E) is several concatenated matrices of the widths ``matrices``. As in Nematus, square ones start orthogonal,
    others from N(0, 0.01^2). The result is normalised in parts of the widths ``norms``.
    """

    def __init__(self, rows: int, matrices: Sequence[int], norms: Sequence[int], *, bias: bool, layer_norm: LayerNorm):
        super().__init__()
        weight = torch.empty(rows, sum(matrices))
        for block in weight.split(list(matrices), dim=1):
            if block.shape[1] == rows:
                nn.init.orthogonal_(block)
            else:
                block.copy_(nn.init.normal_(torch.empty(block.shape), std=0.01))
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(sum(matrices))) if bias else None
        self.widths = list(norms)
        epsilon = nematus.EPSILON_OF_ALL if layer_norm == "marian" else nematus.EPSILON
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=epsilon) for width in norms) if layer_norm else None

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., E) in float32."""
        return self.step(x, self.weight)

    def step(self, x: Tensor, weight: Matrix) -> Tensor:
        """``forward`` with W as a loop shares it: x (..., D) -> (..., E) in float32."""
        terms = product(x, weight).float()
        if self.bias is not None:
            terms = terms + self.bias
        if self.norms is None:
            return terms
        parts = zip(self.norms, terms.split(self.widths, dim=-1), strict=True)
        return torch.cat([norm(part) for norm, part in parts], dim=-1)


def gates(rows: int, width: int, *, bias: bool, layer_norm: LayerNorm) -> Map:
    """The map of an input or a state to its terms in a GRU's gates and candidate [r, u, p]."""
    return Map(rows, (width, width, width), normalised(width, layer_norm), bias=bias, layer_norm=layer_norm)


def normalised(width: int, layer_norm: LayerNorm) -> tuple[int, ...]:
    """The widths of the parts of [r, u, p] that are normalised separately: both gates and p; in Marian, one part."""
    return (3 * width,) if layer_norm == "marian" else (2 * width, width)


def gru(x: Tensor | None, state: Map, h: Tensor, weight: Matrix) -> Tensor:
    """One transition of a state h (N, H) -> h' (N, H).

    x holds the terms [r, u, p] of the input (N, 3H), or a bias (3H,) for all rows, or is None for zeros.
    """
    norms = [] if state.norms is None else list(state.norms.parameters())
    return nematus.step(x, h, weight, state.bias, norms)


def weights(maps: Iterable[nn.Module]) -> list[Tensor]:
    """The weights (D, E) of maps, which the steps of a loop share."""
    return [cast(Map, part).weight for part in maps]


class DeepTransition(nn.Module):
    """DTGRU of section 2.4: a GRU with an input, then GRUs without. With one transition it is a plain GRU.

    The biases are outside LN and the reset product: x is LN(y W + b) for an input y, and b without one.
    """

    def __init__(self, rows: int, width: int, transitions: int, *, layer_norm: LayerNorm):
        super().__init__()
        self.input = gates(rows, width, bias=True, layer_norm=layer_norm)
        self.states = nn.ModuleList(gates(width, width, bias=False, layer_norm=layer_norm) for _ in range(transitions))
        self.biases = nn.ParameterList(torch.zeros(3 * width) for _ in range(transitions - 1))

    def step(self, y: Tensor, h: Tensor) -> Tensor:
        """One step of search: y (N, D), h (N, H) -> the next h (N, H)."""
        return self.transitions(self.input(y), h, *weights(self.states))

    def unroll(self, y: Tensor, h: Tensor, mask: Tensor | None = None, *, reverse: bool = False) -> Tensor:
        """All steps: y (T, B, D), first h (B, H) -> h (T, B, H). An encoder has a mask (T, B), and either direction."""
        return scan(self.transitions, self.input(y), [h], mask, reverse, weights(self.states))

    def transitions(self, x: Tensor, h: Tensor, *weights: Matrix) -> Tensor:
        """All transitions of one step, from the terms x (N, 3H) of the input and h (N, H) -> the next h (N, H)."""
        for state, terms, weight in zip(self.states, (x, *self.biases), weights, strict=True):
            h = gru(terms, cast(Map, state), h, weight)
        return h


class Encoder(nn.Module):
    """Section 2.3.1: two chains of levels in alternating directions, then levels that run forward over both.

    Chains of one level make the baseline's bidirectional encoder; with levels above, the biunidirectional encoder.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.width = width = config.hidden
        transitions, layer_norm = config.encoder_transitions, config.layer_norm
        rows = [config.embedding] + [width] * (config.bidirectional_layers - 1)
        self.chains = nn.ModuleList(
            nn.ModuleList(DeepTransition(n, width, transitions, layer_norm=layer_norm) for n in rows) for _ in range(2)
        )
        self.lexical = config.lexical
        self.above = nn.ModuleList(
            DeepTransition(2 * width, 2 * width, transitions, layer_norm=layer_norm)
            for _ in range(config.forward_layers)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Words x (B, S, E) and mask (B, S) -> annotations C (B, S, 2H), or [C, x] for the lexical model."""
        x, steps = x.transpose(0, 1).contiguous(), mask.t()
        zero, tops = x.new_zeros(x.shape[1], self.width), []
        for way, chain in enumerate(self.chains):
            w = x
            for k, level in enumerate(cast(list[DeepTransition], chain)):
                h = level.unroll(w, zero, steps, reverse=(k + way) % 2 == 1)
                w = w + h if k else h  # no residual connection around the first level
            tops.append(w)
        c = torch.cat(tops, dim=-1)
        for level in cast(list[DeepTransition], self.above):
            c = c + level.unroll(c, zero.repeat(1, 2), steps)
        if self.lexical:
            c = torch.cat([c, x], dim=-1)
        return c.transpose(0, 1).contiguous()


class ConditionalGRU(nn.Module):
    """A GRU with an input, one with a context, then GRUs with neither (sections 2.2.2 and 2.3.2); crGRU.

    From the second on, the biases are inside LN and the reset product: s is LN(h U + b).
    """

    def __init__(self, rows: int, width: int, transitions: int, *, layer_norm: LayerNorm):
        super().__init__()
        self.input = gates(rows, width, bias=True, layer_norm=layer_norm)
        self.first = gates(width, width, bias=False, layer_norm=layer_norm)
        # Nematus has one matrix for both gates here, and 2H x 2H is square.
        self.context = Map(
            2 * width, [2 * width, width], normalised(width, layer_norm), bias=False, layer_norm=layer_norm
        )
        self.states = nn.ModuleList(
            gates(width, width, bias=True, layer_norm=layer_norm) for _ in range(transitions - 1)
        )

    def step(self, y: Tensor, c: Tensor, h: Tensor) -> Tensor:
        """One step of search: y (N, D), context c (N, 2H), h (N, H) -> the next h (N, H)."""
        first, *states = self.weights()
        return self.after(self.context(c), self.before(self.input(y), h, first), states)

    def weights(self) -> list[Tensor]:
        """The matrices of ``before``, then those of ``after``: each (H, 3H)."""
        return weights([self.first, *self.states])

    def unroll(self, y: Tensor, c: Tensor, h: Tensor) -> Tensor:
        """All steps of a decoder: y (T, B, D), contexts c (T, B, 2H), first h (B, H) -> h (T, B, H)."""

        def transitions(x: Tensor, h: Tensor, *weights: Matrix) -> Tensor:
            x, context = x.chunk(2, dim=-1)
            return self.after(context, self.before(x, h, weights[0]), weights[1:])

        x = torch.cat([self.input(y), self.context(c)], dim=-1)
        return scan(transitions, x, [h], mask=None, reverse=False, weights=self.weights())

    def before(self, x: Tensor, h: Tensor, weight: Matrix) -> Tensor:
        """The first transition, from the terms x (N, 3H) of the input: h (N, H) -> s (N, H), the attention's query."""
        return gru(x, self.first, h, weight)

    def after(self, x: Tensor, s: Tensor, weights: Sequence[Matrix]) -> Tensor:
        """The other transitions, from the terms x (N, 3H) of the context: s (N, H) -> the next h (N, H)."""
        for k, (state, weight) in enumerate(zip(self.states, weights, strict=True)):
            s = gru(x if k == 0 else None, cast(Map, state), s, weight)
        return s


class Memory(NamedTuple):
    """Computed once for each source sentence."""

    annotations: Tensor  # C (B, S, 2H), or [C, x] (B, S, 2H + E) with the words x for the lexical model
    keys: tuple[Tensor, ...]  # (B, S, 2H), one for every level of the decoder that attends
    mask: Tensor  # (B, S)


class AttentionGRU(Attending):
    """A conditional GRU with attention between its first two transitions (sections 2.1 and 2.3.2); cGRU.

    score_i = v . tanh(LN(C_i W_c + b_c) + LN(s W_q)) + beta; the context is the mean of the annotations C under the
    softmax of the scores. ``k`` says which of the memory's keys are this level's. For the lexical model, the mean of
    the words x follows in c (N, 2H + E).
    """

    def __init__(self, rows: int, width: int, transitions: int, *, layer_norm: LayerNorm):
        super().__init__()
        self.cell = ConditionalGRU(rows, width, transitions, layer_norm=layer_norm)
        self.key = Map(2 * width, [2 * width], [2 * width], bias=True, layer_norm=layer_norm)  # W_c, b_c
        self.query = Map(width, [2 * width], [2 * width], bias=False, layer_norm=layer_norm)  # W_q
        self.width = 2 * width  # of the context
        self.v = nn.Parameter(torch.empty(2 * width))
        self.score_shift = nn.Parameter(torch.zeros(1))  # beta: the softmax cancels it, so it is never computed with
        nn.init.normal_(self.v, std=0.01)

    def attend(self, y: Tensor, memory: Memory, k: int, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step of search: y (N, D), h (N, H) -> the next h (N, H), context c (N, 2H), attention weights (N, S)."""
        first, *states = self.cell.weights()
        s = self.cell.before(self.cell.input(y), h, first)
        c, weights = self.additive(self.query(s), memory.keys[k], memory.annotations, self.v, memory.mask)
        return self.cell.after(self.cell.context(c[..., : self.width]), s, states), c, weights

    def attend_all(self, y: Tensor, memory: Memory, k: int, h: Tensor) -> tuple[Tensor, Tensor]:
        """All steps of training: y (T, B, D), first h (B, H) -> h (T, B, H) and contexts c (T, B, 2H)."""
        cell, maps = self.cell, weights([self.query, self.cell.context])
        h, attend, (query, context, first, *others) = attention.attention_loop(
            h, memory.keys[k], memory.annotations, self.v, memory.mask, *maps, *cell.weights()
        )
        states, contexts = [], []
        for x in cell.input(y):
            s = cell.before(x, h, first)
            c = attend(self.query.step(s, query))
            h = cell.after(cell.context.step(c[..., : self.width], context), s, others)
            states.append(h)
            contexts.append(c)
        return torch.stack(states), torch.stack(contexts)

    def step(self, y: Tensor, memory: Memory, k: int, h: Tensor) -> Tensor:
        """``attend`` for a level above the base, whose context and weights are not used: -> the next h (N, H)."""
        return self.attend(y, memory, k, h)[0]

    def unroll(self, y: Tensor, memory: Memory, k: int, h: Tensor) -> Tensor:
        """``attend_all`` for such a level: -> h (T, B, H)."""
        return self.attend_all(y, memory, k, h)[0]


def high_level(config: Config) -> nn.Module:
    """A level of the decoder above the base, whose ``step`` and ``unroll`` take ``StackedDecoder.inputs`` and h."""
    assert config.high_cell is not None
    assert config.high_transitions is not None
    cells = {"gru": DeepTransition, "rgru": DeepTransition, "crgru": ConditionalGRU, "cgru": AttentionGRU}
    rows = 3 * config.hidden if config.high_cell == "rgru" else config.hidden
    return cells[config.high_cell](rows, config.hidden, config.high_transitions, layer_norm=config.layer_norm)


class Readout(nn.Module):
    """The output network below the softmax: t = tanh(LN(r W_1 + b_1) + LN(y W_2 + b_2) + LN(c W_3 + b_3)), then
    t + tanh(LN(t W + b)) in every further layer.
    """

    def __init__(self, embedding: int, hidden: int, layers: int, *, layer_norm: LayerNorm, dropout: float):
        super().__init__()
        rows = [hidden, embedding, 2 * hidden]
        self.state, self.word, self.context, *further = (
            Map(n, [embedding], [embedding], bias=True, layer_norm=layer_norm)
            for n in rows + [embedding] * (layers - 1)
        )
        self.further = nn.ModuleList(further)
        for part in (self.state, self.word, self.context, *further):
            nn.init.normal_(part.weight, std=0.01)  # Nematus makes no matrix here orthogonal, not even a square one
        self.dropout = dropout

    def forward(self, r: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """r (..., H), previous words y (..., E), c (..., 2H) -> t (..., E)."""
        t = (self.state(r) + self.word(y) + self.context(c)).tanh()
        for layer in self.further:
            t = t + layer(t).tanh()
        return dropout(t, self.dropout, self.training)


class LexicalModel(nn.Module):
    """The lexical model of Nguyen and Chiang 2018, section 4: h = tanh(LN(f W + b)) + f with f = tanh(sum_i a_i x_i),
    the mean of the source words x under the attention weights a. So the translation of a word is also learnt from the
    word alone: a small corpus has most words in few contexts.

    LN, which the paper lacks, is that of Nematus. Without it, a model learns more slowly (Spanish to Bribri: dev
    cross-entropy 3.83 instead of 3.43 after one epoch, 2.42 instead of 2.33 after eight).
    """

    def __init__(self, embedding: int, *, layer_norm: LayerNorm, dropout: float):
        super().__init__()
        self.map = Map(embedding, [embedding], [embedding], bias=True, layer_norm=layer_norm)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """The mean of the words (..., E) -> h (..., E)."""
        f = x.tanh()
        return dropout(self.map(f).tanh() + f, self.dropout, self.training)


class StackedDecoder(Decoder[Tensor, Memory, tuple[Tensor, ...]]):
    """The base level, a cGRU, and the levels above it (section 2.3.2). The state is h (N, H) of every level."""

    def __init__(self, config: Config):
        super().__init__()
        width, layer_norm = config.hidden, config.layer_norm
        self.initial = Map(2 * width, [width], [width], bias=True, layer_norm=layer_norm)
        self.base = AttentionGRU(config.embedding, width, config.base_transitions, layer_norm=layer_norm)
        self.high_cell = config.high_cell
        self.high = nn.ModuleList(high_level(config) for _ in range(config.decoder_layers - 1))
        self.readout = Readout(
            config.embedding, width, config.output_layers, layer_norm=layer_norm, dropout=config.dropout
        )
        self.lexical = (
            LexicalModel(config.embedding, layer_norm=layer_norm, dropout=config.dropout) if config.lexical else None
        )

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Memory, tuple[Tensor, ...]]:
        """The encoder's output, mask (B, S) -> memory, and tanh(LN(mean_i C_i W + b)) for every level."""
        annotations = encoded[..., : self.base.width]
        first = self.initial(mean_annotation(annotations, mask)).tanh()
        keys = tuple(level.key(annotations) for level in (self.base, *self.high) if isinstance(level, AttentionGRU))
        return Memory(encoded, keys, mask), (first,) * (1 + len(self.high))

    def step(self, memory: Memory, state: tuple[Tensor, ...], y: Tensor) -> Step[tuple[Tensor, ...]]:
        """One step after the words y (N, E); r sums the states, as residual connections do."""
        h, c, weights = self.base.attend(y, memory, 0, state[0])
        c, words = c.tensor_split([self.base.width], dim=-1)
        r, new = h, [h]
        for k, level in self.levels():
            new.append(level.step(*self.inputs(r, c, memory, k), state[k]))
            r = r + new[-1]
        return Step(self.hidden(r, y, c, words), tuple(new), weights)

    def unroll(self, memory: Memory, state: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """All steps of y (B, T, E) -> hidden (B, T, H).

        Levels are computed one after another: only those that attend step by step, the others have all inputs at once.
        """
        y = y.transpose(0, 1).contiguous()
        h, c = self.base.attend_all(y, memory, 0, state[0])
        c, words = c.tensor_split([self.base.width], dim=-1)
        r: Tensor = h
        for k, level in self.levels():
            r = r + level.unroll(*self.inputs(r, c, memory, k), state[k])
        return self.hidden(r, y, c, words).transpose(0, 1)

    def hidden(self, r: Tensor, y: Tensor, c: Tensor, words: Tensor) -> Tensor:
        """The readout t (..., E), or [t, h] (..., 2E) with h of the lexical model for the mean of the source words."""
        t: Tensor = self.readout(r, y, c)
        return t if self.lexical is None else torch.cat([t, self.lexical(words)], dim=-1)

    def levels(self) -> Iterable[tuple[int, Any]]:
        """The levels above the base, numbered from 1."""
        return enumerate(self.high, start=1)

    def inputs(self, r: Tensor, c: Tensor, memory: Memory, k: int) -> tuple[Any, ...]:
        """The input of level ``k`` from r (..., H), the sum of the states below it, and the base's context c (..., 2H).

        A cGRU attends itself, so it gets the memory and its number.
        """
        if self.high_cell == "gru":
            return (r,)
        if self.high_cell == "rgru":
            return (torch.cat([r, c], dim=-1),)
        if self.high_cell == "crgru":
            return r, c
        return r, memory, k  # cgru


def build(config: Config, src_words: int, tgt_words: int) -> Seq2Seq:
    """A system of the Nematus family with vocabularies of these sizes, the symbols included."""
    width = config.embedding
    tgt = WordEmbedding(tgt_words, width, dropout=config.dropout)
    src = SharedEmbedding(tgt) if config.tied == "all" else WordEmbedding(src_words, width, dropout=config.dropout)
    lexical = width if config.lexical else 0
    output = OutputLayer(width + lexical, tgt_words) if config.tied == "none" else TiedOutputLayer(tgt, lexical)
    return Seq2Seq(src, Encoder(config), tgt, StackedDecoder(config), output)
