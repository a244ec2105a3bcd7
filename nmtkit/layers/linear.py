"""The linear map that models are made of."""

from torch import Tensor, nn

from nmtkit.ops.linear import linear


class Linear(nn.Linear):
    """PyTorch's own, but for how products in bfloat16 are done on a CPU, see ``ops/linear.py``."""

    def forward(self, x: Tensor) -> Tensor:
        """The map of x (..., D): (..., E), in autocast's dtype where that is on."""
        return linear(x, self.weight, self.bias)
