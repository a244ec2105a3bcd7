"""Products with weights in 8-bit integers: nearly twice as fast as float32 on a CPU with AVX2.

A weight has a scale for each of its outputs, found once. The other factor has one for each of its rows, found in every
product, so that a row's result does not depend on the rows beside it. Processors without VNNI add the products up in
pairs, in 16 bits: the largest integers are such that no pair overflows.

Letters: N rows, D inputs, E outputs.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from nmtkit.errors import UserError

LARGEST = 90  # integer of either factor; 2 * (90 + ZERO) * 90 < 2 ** 15
ZERO = 90  # stands for 0 in an input, whose integers must not be negative


class Packed(NamedTuple):
    """A weight (D, E) in the order that the processor likes best."""

    weight: Tensor
    scales: Tensor  # (E,)
    zeros: Tensor  # (E,)


def pack(weight: Tensor) -> Packed:
    """weight (D, E) in float32."""
    scales = (weight.abs().amax(dim=0) / LARGEST).clamp(min=1e-30)
    rounded = (weight / scales).round().to(torch.int8).t().contiguous()
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return Packed(torch.ops.onednn.qlinear_prepack(rounded, None), scales, zeros)


def product(x: Tensor, packed: Packed) -> Tensor:
    """x (N, D) times a packed weight (D, E) -> (N, E) in float32."""
    scale = (x.abs().amax(dim=1, keepdim=True) / LARGEST).clamp_(min=1e-30)
    rounded = (x / scale).round_().add_(ZERO).to(torch.uint8)
    found: Tensor = torch.ops.onednn.qlinear_pointwise(
        rounded, 1.0, ZERO, packed.weight, packed.scales, packed.zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return found.mul_(scale)


class Int8Products(TorchFunctionMode):
    """Within it, every product of rows with one of ``weights``, which must not change any more, is done in int8.

    A weight is known by where it lies in memory, so views of it count too. Vectors and what is looked up are left
    alone.
    """

    def __init__(self, weights: Iterable[Tensor]):
        super().__init__()
        self._weights = list(weights)  # alive, so that nothing else can come to lie where they do
        self._storages = {weight.untyped_storage().data_ptr() for weight in self._weights}
        self._packed: dict[tuple[Any, ...], Packed] = {}

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function in (torch.matmul, torch.Tensor.matmul) and self._is_weight(args[1]):
            return self._product(args[0], args[1])
        if function is functional.linear and self._is_weight(args[1]):
            found = self._product(args[0], args[1].t())
            return found if len(args) == 2 or args[2] is None else found.add_(args[2])
        return function(*args, **(kwargs or {}))

    def _is_weight(self, x: Tensor) -> bool:
        return x.dim() == 2 and x.untyped_storage().data_ptr() in self._storages

    def _product(self, x: Tensor, weight: Tensor) -> Tensor:
        """x (..., D) times weight (D, E)."""
        place = weight.data_ptr(), weight.shape, weight.stride()
        if place not in self._packed:
            self._packed[place] = pack(weight.float())
        return product(x.flatten(0, -2), self._packed[place]).view(*x.shape[:-1], -1)


def check_int8(device: torch.device) -> None:
    """Raises UserError unless this device, processor and PyTorch can multiply in int8."""
    if device.type != "cpu":
        raise UserError(f"--precision int8: is for the cpu, not {device}; use float32, or --device cpu")
    try:
        product(torch.ones(1, 2), pack(torch.ones(2, 2)))
    except (AttributeError, RuntimeError):
        raise UserError(
            "--precision int8: PyTorch has no products of 8-bit integers for this processor; use float32"
        ) from None
