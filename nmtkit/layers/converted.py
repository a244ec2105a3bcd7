"""A part of a model prepared for search: a copy whose products are in one precision, with weights converted once."""

import copy
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.layers.conv import NormedLinear
from nmtkit.layers.embedding import OutputLayer, TiedOutputLayer
from nmtkit.ops import attention
from nmtkit.ops.matrix import Matrix, convert, product
from nmtkit.ops.precision import Products

Part = TypeVar("Part", bound=nn.Module)


@runtime_checkable
class Multiplying(Protocol):
    """A module that multiplies by its own parameters, with ``product``."""

    MATRICES: tuple[str, ...]  # the names of these parameters, (D, E) each


@runtime_checkable
class Chaining(Protocol):
    """A module with layers whose outputs only enter other products, so that bfloat16 suffices for them."""

    CHAINED: tuple[str, ...]  # the names of these layers


@runtime_checkable
class Attending(Protocol):
    """A module whose ``additive`` attends to the output of its ``key``."""

    additive: attention.Additive
    key: nn.Module


class Exponential(nn.Module):
    """Maps keys to the exponentials that ``quick_additive`` takes."""

    def forward(self, keys: Tensor) -> Tensor:
        """exp(2 keys) for keys (..., A)."""
        return attention.exponential(keys)


class Affine(nn.Module):
    """(x W) scale + b for search. scale and b are (E,) or None; W (D, E) is a tensor, or was converted with b."""

    def __init__(self, weight: Matrix, scale: Tensor | None, bias: Tensor | None):
        super().__init__()
        self.weight, self.scale, self.bias = weight, scale, bias

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., E) in float32, or in the dtype that the weight was converted for."""
        if not isinstance(self.weight, Tensor):
            return product(x, self.weight)
        x = x.to(self.weight.dtype)
        if self.scale is None:
            return functional.linear(x, self.weight.t(), self.bias)
        result = product(x, self.weight) * self.scale
        return result if self.bias is None else result.add_(self.bias)


def affine(
    layer: nn.Linear | NormedLinear | OutputLayer | TiedOutputLayer,
    precision: Products,
    outputs: Tensor | None = None,
    results: torch.dtype = torch.float32,
) -> Affine:
    """A layer for search, with all of its outputs or only ``outputs`` (C,); results: their dtype if it is converted.

    The scale of a weight-normalised layer, which training computes in every product, is computed once.
    """
    if outputs is not None:
        weight, bias = layer.weight[outputs], layer.bias[outputs]
        return Affine(convert(weight.t(), bias, precision, results), None, bias)
    if precision == "float32" and isinstance(layer, NormedLinear):
        return Affine(layer.v.t(), layer.scale(), layer.bias)
    return Affine(convert(layer.weight.t(), layer.bias, precision, results), None, layer.bias)


def for_search(part: Part, precision: Products) -> Part:
    """A copy of ``part`` that multiplies in this precision and shares all else; in float32 its results are the same.

    It supports ``forward`` and ``step``. Code that reads a layer's weight itself, as ``Decoder.unroll`` may to compute
    many steps faster, is for training only.
    """
    # The copy shares the parameters of the part, but without gradients, which the conversions could not compute.
    shared = {id(each): nn.Parameter(each.detach(), requires_grad=False) for each in part.parameters()}
    twin = copy.deepcopy(part, shared).eval()
    for module in list(twin.modules()):
        chained = module.CHAINED if isinstance(module, Chaining) else ()
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear | NormedLinear):
                results = torch.bfloat16 if name in chained else torch.float32
                setattr(module, name, affine(child, precision, results=results))
        if isinstance(module, Multiplying):
            for name in module.MATRICES:
                weight = convert(getattr(module, name), None, precision)
                delattr(module, name)  # a parameter's place takes nothing else
                setattr(module, name, weight)
        if isinstance(module, Attending) and precision != "float32":
            module.additive, module.key = attention.quick_additive, nn.Sequential(module.key, Exponential())
    return twin
