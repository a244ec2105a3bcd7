"""A Scorer whose steps are done in 8-bit integers."""

from typing import Literal

from torch import Tensor

from nmtkit.ops.int8 import Int8Products
from nmtkit.ops.tree import Tree
from nmtkit.search.scorer import Scorer

Precision = Literal["float32", "int8"]


class Quantized:
    """``scorer`` whose steps are done with ``products``.

    Which should be those of the output layers only. Multi30k test2016, BLEU lost: RNNsearch 0.07 and Deep-Att 0.05 with
    the output layer, 0.17 and 0.23 with every weight of the decoder.
    """

    def __init__(self, scorer: Scorer, products: Int8Products):
        self.scorer, self.products = scorer, products

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        """As ``Scorer`` asks: src (B, S) and src_mask (B, S) -> memory and first state, in float32."""
        return self.scorer.begin(src, src_mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """As ``Scorer`` asks, in int8: previous words y (N,) -> log-probabilities (N, V), state, attention (N, S)."""
        with self.products:
            return self.scorer.step(memory, state, y)
