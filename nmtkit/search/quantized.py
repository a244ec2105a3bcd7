"""A Scorer whose products with weights are done in 8-bit integers."""

from collections.abc import Iterable
from typing import Literal

from torch import Tensor

from nmtkit.ops.int8 import Int8Products
from nmtkit.ops.tree import Tree
from nmtkit.search.scorer import Scorer

Precision = Literal["float32", "int8"]


class Quantized:
    """``scorer`` with its ``weights`` in int8; everything between the products stays in float32."""

    def __init__(self, scorer: Scorer, weights: Iterable[Tensor]):
        self.scorer, self.products = scorer, Int8Products(weights)

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        """See ``Scorer``."""
        with self.products:
            return self.scorer.begin(src, src_mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """See ``Scorer``."""
        with self.products:
            return self.scorer.step(memory, state, y)
