"""Models converted for search: a copy whose products are in one precision, with weights converted once.

A module that search needs in another form has ``for_search``; all others are copied unchanged.
"""

import copy
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.ops.matrix import Matrix, convert, product
from nmtkit.ops.precision import Products

Module = TypeVar("Module", bound=nn.Module)


@runtime_checkable
class Convertible(Protocol):
    """A module that can be converted for search."""

    def for_search(self, precision: Products) -> nn.Module:
        """This module for products in ``precision``: a new one, or itself with converted weights.

        It is called on a copy. The children of the result are converted afterwards.
        """


class Affine(nn.Module):
    """(x W) scale + b for search. scale and b are (E,) or None; W (D, E) is a tensor, or was converted with b."""

    def __init__(self, weight: Matrix, scale: Tensor | None, bias: Tensor | None):
        super().__init__()
        self.weight, self.scale, self.bias = weight, scale, bias

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., E) in float32, or in the ``results`` dtype of the converted weight."""
        if not isinstance(self.weight, Tensor):
            return product(x, self.weight)
        x = x.to(self.weight.dtype)
        if self.scale is None:
            return functional.linear(x, self.weight.t(), self.bias)
        result = product(x, self.weight) * self.scale
        return result if self.bias is None else result.add_(self.bias)


def affine(weight: Tensor, bias: Tensor | None, precision: Products, results: torch.dtype = torch.float32) -> Affine:
    """x W^T + b for search: weight (E, D), bias (E,); results: the dtype of the products if the weight is converted."""
    return Affine(convert(weight.t(), bias, precision, results), None, bias)


def for_search(part: Module, precision: Products) -> Module:
    """A copy of ``part`` that multiplies in this precision and shares the rest; in float32 the results are the same.

    It supports ``forward`` and ``step``. Code that reads a layer's weight itself, as ``Decoder.unroll`` may to compute
    many steps faster, is for training only.
    """
    # The copy shares the parameters of the part, but without gradients, which the conversions could not compute.
    shared = {id(each): nn.Parameter(each.detach(), requires_grad=False) for each in part.parameters()}
    twin = copy.deepcopy(part, shared).eval()
    _convert_children(twin, precision)
    return twin


def _convert_children(module: nn.Module, precision: Products) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, Convertible):
            child = child.for_search(precision)
            setattr(module, name, child)
        _convert_children(child, precision)
