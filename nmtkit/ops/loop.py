"""Loops whose steps share weights, keys and values: the gradients of shared tensors are computed once, after the loop.

Plain autograd computes the gradient of a shared tensor in every step and adds it up. Here backward only records
what each step contributes; when it has reached the first step, the gradient of a weight is one product over all
steps. The forward computation is that of the plain operations.

    h, (w, keys, values, v) = share(h, w, keys, values, v)    # before the loop: tensors become ``Shared``
    h = product(h, w)                                         # in it, as without (``ops/matrix.py``)

``scan`` is such a loop over a whole sequence, for any recurrent cell.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops.linear import with_zeros
from nmtkit.ops.matrix import Matrix, product, repeated
from nmtkit.ops.padding import full_steps
from nmtkit.ops.recurrence import order


class Shared:
    """A tensor that all steps of a loop use, and what their backward has recorded for its gradient so far.

    ``value`` is the tensor in autocast's dtype, converted once for all steps.
    """

    def __init__(self, tensor: Tensor):
        # As autocast would convert it, but once and not in every step.
        device = tensor.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        self.value = tensor.detach().to(low or tensor.dtype)
        self._dtype = tensor.dtype
        self._products: list[tuple[Tensor, Tensor]] = []
        self._sum: Tensor | None = None
        self._factor: Tensor | None = None
        self._wide: Tensor | None = None
        self._matrices: dict[bool, Matrix] = {}

    def product(self, rows: Tensor) -> Tensor:
        """Rows (N, D) times this matrix (D, E) -> (N, E) in the dtype of ``value``."""
        result: Tensor = _Product.apply(self, rows)
        return result

    def wide(self) -> Tensor:
        """``value`` (...) for sums with float32 tensors: on a CPU in float32, where mixed dtypes take far longer."""
        if self.value.is_cuda:
            return self.value
        if self._wide is None:
            self._wide = self.value.float()
        return self._wide

    def matrix(self, *, transposed: bool = False) -> Matrix:
        """``value`` (D, E), or ``value`` transposed (E, D), as the steps multiply by it."""
        if transposed not in self._matrices:
            self._matrices[transposed] = repeated(self.value.t() if transposed else self.value)
        return self._matrices[transposed]

    def note(self, x: Tensor, gradient: Tensor) -> None:
        """x (..., R, D) and gradient (..., R, E) are a part of this tensor's gradient: x^T gradient (..., D, E)."""
        self._products.append((x.detach(), gradient))  # a tensor with its graph would never be freed

    def add(self, gradient: Tensor) -> None:
        """Adds a gradient of the tensor's shape (...), which need not be a product; it may be kept and written to."""
        self._sum = gradient.float() if self._sum is None else self._sum.add_(gradient)

    def add_scaled(self, x: Tensor, y: Tensor, factor: Tensor) -> None:
        """Adds x y factor to the gradient, where factor is the same in every call; x may be kept and written to.

        x (...) has the tensor's shape, to which y (..., 1) and factor (E,) broadcast; all are float32. Not to be
        combined with ``add``.
        """
        self._sum = x.mul_(y) if self._sum is None else self._sum.addcmul_(x, y)
        self._factor = factor

    def sum(self) -> Tensor:
        """The sum (...) in float32, of the tensor's shape, for callers that add parts of its gradient in place."""
        if self._sum is None:
            self._sum = torch.zeros(self.value.shape, device=self.value.device)
        return self._sum

    def gradient(self) -> Tensor | None:
        """The gradient of the tensor, of any shape; None if no step used it. Frees everything that the loop kept."""
        total = self._sum
        if total is not None and self._factor is not None:
            total.mul_(self._factor)
        if self._products:
            x, gradient = (torch.cat(parts, dim=-2) for parts in zip(*self._products, strict=True))
            if x.ndim == 2:
                x, gradient = with_zeros(x, x.dtype), with_zeros(gradient, gradient.dtype)
            total = x.mT @ gradient if total is None else total + x.mT @ gradient
        self._products, self._sum, self._factor, self._wide, self._matrices = [], None, None, None, {}
        self.value = self.value.new_empty(0)  # no other backward can go through the loop: it would count twice
        return None if total is None else total.to(self._dtype)


def share(state: Tensor, *tensors: Tensor) -> tuple[Tensor, list[Shared]]:
    """The first state of a loop (any shape), and the tensors as its steps must use them.

    Every use must depend on that state: when its gradient arrives, backward has passed all of them.
    """
    shared = [Shared(tensor) for tensor in tensors]
    first: Tensor = _Enter.apply(shared, state, *tensors)
    return first, shared


def scan(
    step: Callable[[Tensor, Tensor, Sequence[Matrix]], Tensor],
    x: Tensor,
    first: Tensor,
    mask: Tensor | None,
    reverse: bool,
    weights: Sequence[Matrix],
) -> Tensor:
    """A recurrence over a sequence: h_t = step(x_t, h_t-1, weights), whose steps share the weights.

    x (T, B, G) transformed inputs, first (B, H), mask (T, B) True at real steps; a masked step passes the state on
    unchanged. ``reverse`` runs from the last step to the first. Returns h (T, B, H) in float32. Weights that search has
    converted get no gradient.
    """
    # States are float32 whatever the products' dtype, because errors would accumulate from step to step.
    h, shared = first.float(), weights
    tensors = [weight for weight in weights if isinstance(weight, Tensor)]
    if len(tensors) == len(weights):
        h, shared = share(h, *tensors)
    inputs = x.float().unbind()
    outputs = list(inputs)  # of the right length; every place is written once
    full = full_steps(mask, len(x))
    for t in order(len(x), reverse=reverse):
        new = step(inputs[t], h, shared)
        h = new if mask is None or full[t] else torch.where(mask[t].unsqueeze(-1), new, h)
        outputs[t] = h
    return torch.stack(outputs)


class _Enter(torch.autograd.Function):
    """The first state unchanged. Its gradient arrives last, so its backward is the end of the loop's."""

    @staticmethod
    def forward(ctx: Any, shared: list[Shared], state: Tensor, *tensors: Tensor) -> Tensor:
        ctx.shared = shared
        return state.view_as(state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return (None, gradient, *(shared.gradient() for shared in ctx.shared))


class _Product(torch.autograd.Function):
    """x w, whose backward leaves the gradient of w to the end of the loop."""

    @staticmethod
    def forward(ctx: Any, w: Shared, x: Tensor) -> Tensor:
        x = x.to(w.value.dtype)
        ctx.w = w
        ctx.save_for_backward(x)
        return product(x, w.matrix())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        ctx.w.note(x, gradient)
        return None, product(gradient, ctx.w.matrix(transposed=True))
