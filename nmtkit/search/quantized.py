"""A Scorer whose products with weights are done in 8-bit integers."""

from typing import Literal, cast

from torch import Tensor

from nmtkit.ops.int8 import Int8Products
from nmtkit.ops.tree import Tree
from nmtkit.search.scorer import Scorer
from nmtkit.search.shortlist import Narrowing

Precision = Literal["float32", "int8"]


class Quantized:
    """``scorer`` whose steps are done with ``products``. Its ``begin``, a small part of the work, stays in float32."""

    def __init__(self, scorer: Scorer, products: Int8Products):
        self.scorer, self.products = scorer, products

    def over(self, words: Tensor) -> "Quantized":
        """See ``shortlist.Narrowing``. The output layer of the words, which is made anew, is in float32."""
        return Quantized(cast(Narrowing, self.scorer).over(words), self.products)

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        """See ``Scorer``."""
        return self.scorer.begin(src, src_mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """See ``Scorer``."""
        with self.products:
            return self.scorer.step(memory, state, y)
