"""The linear layer of all models."""

import torch
from torch import Tensor, nn

from nmtkit.layers.converted import Affine, affine
from nmtkit.ops.linear import linear
from nmtkit.ops.precision import Products


class Linear(nn.Linear):
    """PyTorch's linear layer with faster products in bfloat16 on a CPU, see ``ops/linear.py``.

    chained: the outputs are inputs of other products only, so bfloat16 suffices for them in search.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, chained: bool = False):
        super().__init__(in_features, out_features, bias)
        self.chained = chained

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., E), in autocast's dtype where that is on."""
        return linear(x, self.weight, self.bias)

    def for_search(self, precision: Products) -> Affine:
        """``converted.Convertible.for_search``: the layer with a converted weight."""
        return affine(self.weight, self.bias, precision, torch.bfloat16 if self.chained else torch.float32)
