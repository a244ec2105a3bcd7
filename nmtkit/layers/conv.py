"""Layers of convolutional models: weight-normalised linear maps, gated convolutions, learned position embeddings."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.layers.converted import Affine, affine
from nmtkit.ops.linear import linear
from nmtkit.ops.pointwise import dropout
from nmtkit.ops.precision import Products
from nmtkit.symbols import BOS, EOS


class NormedLinear(nn.Module):
    """x W^T + b with W = g v / |v| by row (Salimans and Kingma 2016). The scale g / |v| is applied to the product.

    The rows of v start from N(0, gain (1 - p) / D) for inputs (D,) with dropout p, and g from |v| (Gehring et al. 2017,
    section 3.5).
    """

    def __init__(self, in_features: int, out_features: int, *, dropout: float = 0.0, gain: float = 1.0):
        super().__init__()
        self.v = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.normal_(self.v, std=math.sqrt(gain * (1 - dropout) / in_features))
        self.g = nn.Parameter(self.v.detach().norm(dim=1))

    @property
    def weight(self) -> Tensor:
        """The matrix W (E, D), for the loss if this is the output layer."""
        return self.v * self.scale().unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """The map of x (..., D): (..., E) in float32."""
        return linear(x, self.v).float() * self.scale() + self.bias

    def scale(self) -> Tensor:
        """The factors g / |v| (E,) of the product with v."""
        scale: Tensor = self.g / self.v.norm(dim=1)
        return scale

    def for_search(self, precision: Products, results: torch.dtype = torch.float32) -> Affine:
        """``converted.Convertible.for_search``: the scale is computed once; results: as in ``affine``."""
        if precision == "float32":
            return Affine(self.v.t(), self.scale(), self.bias)
        return affine(self.weight, self.bias, precision, results)


class GatedConv(nn.Module):
    """GLU(Conv_k(Drop(x))) (Gehring et al. 2017, 3.2), as one product over windows of k concatenated inputs."""

    def __init__(self, in_features: int, out_features: int, kernel: int, *, dropout: float):
        super().__init__()
        self.kernel, self.in_features, self.dropout = kernel, in_features, dropout
        # Variance 4 (1 - p) / (k D): the factor 4 compensates for the gate, which halves its input on average.
        self.product = NormedLinear(kernel * in_features, 2 * out_features, dropout=dropout, gain=4.0)

    def forward(self, x: Tensor, before: int) -> Tensor:
        """All outputs (B, T, E) of x (B, T, D), padded with zeros; each reads ``before`` inputs before its own."""
        x = dropout(x, self.dropout, self.training)
        padded = functional.pad(x, (0, 0, before, self.kernel - 1 - before))
        # A convolution over time is one product of the concatenated k inputs of each output.
        windows = torch.cat([padded[:, i : i + x.shape[1]] for i in range(self.kernel)], dim=-1)
        return functional.glu(self.product(windows), dim=-1)

    def first(self, rows: int, like: Tensor) -> Tensor:
        """The inputs (N, k-1, D) before the first step, zeros, for N = ``rows``."""
        return like.new_zeros(rows, self.kernel - 1, self.in_features)

    def step(self, x: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """One causal step: x (N, D) and the last inputs (N, k-1, D) -> the output (N, E) and the new last inputs."""
        window = torch.cat([last, x.unsqueeze(1)], dim=1)  # (N, k, D)
        return functional.glu(self.product(window.flatten(1)), dim=-1), window[:, 1:]


class TokenEmbedding(nn.Module):
    """A table (V, E) of word vectors. The target side begins with EOS, as in fairseq."""

    def __init__(self, words: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, width))
        nn.init.normal_(self.weight, std=0.1)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors (..., E) for ids (...) in int64."""
        return functional.embedding(ids.masked_fill(ids == BOS, EOS), self.weight)


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x of any shape unchanged, with its gradient multiplied by ``factor`` in the backward pass."""
    same = x.view_as(x)
    if same.requires_grad:
        same.register_hook(lambda gradient: gradient * factor)
    return same
