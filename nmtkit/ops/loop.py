"""Loops whose steps share weights, keys and values: the gradients of shared tensors are computed once, after the loop.

Autograd would compute and accumulate the gradient of a shared tensor in every step. Here it only records the
contribution of each step; when it reaches the first step, the gradient of a weight is one product over all steps. The
forward computation is unchanged.

    h, (w, keys, values, v) = share(h, w, keys, values, v)    # before the loop: tensors become ``Shared``
    h = product(h, w)                                         # in the loop, as usual (``ops/matrix.py``)

``advance`` is a step of a recurrent cell, inside or outside such a loop; ``scan`` runs one over a sequence.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import cells
from nmtkit.kernels.door import KERNELS, kernel
from nmtkit.ops.bfloat16 import tiled
from nmtkit.ops.linear import with_zeros
from nmtkit.ops.matrix import Matrix, product
from nmtkit.ops.padding import full_steps

Next = TypeVar("Next", Tensor, tuple[Tensor, Tensor])


class Shared:
    """A tensor shared by all steps of a loop, and the contributions to its gradient recorded so far.

    ``value`` is the tensor in autocast's dtype, converted once for all steps.
    """

    def __init__(self, tensor: Tensor):
        device = tensor.device.type
        self.value = tensor.detach()
        if not tensor.is_meta and torch.is_autocast_enabled(device):  # meta tensors have no autocast
            self.value = self.value.to(torch.get_autocast_dtype(device))
        self.factor: Tensor | None = None  # broadcasts to the sum, which it multiplies after the loop
        self._dtype = tensor.dtype
        self._products: list[tuple[Tensor, Tensor]] = []
        self._sum: Tensor | None = None
        self._wide: Tensor | None = None
        self._matrices: dict[bool, Matrix] = {}

    def product(self, rows: Tensor) -> Tensor:
        """Rows (N, D) times this matrix (D, E) -> (N, E) in the dtype of ``value``."""
        result: Tensor = _Product.apply(self, rows)
        return result

    def wide(self) -> Tensor:
        """``value`` (...) for sums with float32 tensors: on a CPU in float32, because mixed dtypes are slow there."""
        if self.value.is_cuda:
            return self.value
        if self._wide is None:
            self._wide = self.value.float()
        return self._wide

    def matrix(self, *, transposed: bool = False) -> Matrix:
        """``value`` (D, E), or ``value`` transposed (E, D), packed for AMX tiles if the processor has them."""
        if transposed not in self._matrices:
            value = self.value.t() if transposed else self.value
            tiles = tiled(value, None, value.dtype) if value.dtype == torch.bfloat16 else None
            self._matrices[transposed] = tiles or value
        return self._matrices[transposed]

    def note(self, x: Tensor, gradient: Tensor) -> None:
        """Record a term x^T gradient (..., D, E) of this tensor's gradient: x (..., R, D), gradient (..., R, E)."""
        self._products.append((x.detach(), gradient))  # detached, because its graph would never be freed

    def sum(self) -> Tensor:
        """A sum (...) in float32, of the tensor's shape, to which callers add parts of its gradient in place."""
        if self._sum is None:
            self._sum = torch.zeros(self.value.shape, device=self.value.device)
        return self._sum

    def gradient(self) -> Tensor | None:
        """The gradient of the tensor, of any shape; None if no step used it. Frees everything recorded."""
        total = self._sum
        if total is not None and self.factor is not None:
            total.mul_(self.factor)
        if self._products:
            x, gradient = (torch.cat(parts, dim=-2) for parts in zip(*self._products, strict=True))
            if x.ndim == 2:
                x, gradient = with_zeros(x, x.dtype), with_zeros(gradient, gradient.dtype)
            total = x.mT @ gradient if total is None else total + x.mT @ gradient
        self._products, self._sum, self._wide, self._matrices = [], None, None, {}
        self.value = self.value.new_empty(0)  # a second backward through the loop would count twice, so it fails
        return None if total is None else total.to(self._dtype)


def share(state: Tensor, *tensors: Tensor) -> tuple[Tensor, list[Shared]]:
    """The first state of a loop (any shape), and the tensors as ``Shared``.

    Every use must depend on that state: when its gradient arrives, backward has visited all of them.
    """
    shared = [Shared(tensor) for tensor in tensors]
    first: Tensor = _Enter.apply(shared, state, *tensors)
    return first, shared


def advance(
    name: str, plain: Callable[..., Next], x: Tensor | None, h: Tensor, w: Matrix, *others: Tensor | None
) -> Next:
    """A step of a cell, ``plain(x, h w, *others)`` or its kernel of this name, for h (N, H) and a matrix w (H, G)."""
    terms = [] if x is None else [x]
    if isinstance(w, Shared) and kernel(name, plain, *terms, w.value) is KERNELS[name].function:
        results = _Advance.apply(name, w, x, h, *others)
        return results if len(results) > 1 else results[0]  # type: ignore[no-any-return]
    s = product(h, w)
    return kernel(name, plain, *terms, s)(x, s, *others)


def scan(
    step: Callable[..., Tensor | tuple[Tensor, ...]],
    x: Tensor,
    first: Sequence[Tensor],
    mask: Tensor | None,
    reverse: bool,
    weights: Sequence[Matrix],
) -> Tensor:
    """A recurrence over a sequence, whose steps share the weights: h_t, ... = step(x_t, h_t-1, ..., *weights).

    x (T, B, G) transformed inputs, first: the tensors (B, H) that a step takes and returns, one or several, mask (T, B)
    False at padding, where the state stays unchanged. ``reverse`` runs from the last step to the first. Returns the
    first tensor of every state, h (T, B, H) in float32. Weights that search has converted get no gradient.
    """
    # States are float32 whatever the products' dtype, because errors would accumulate from step to step.
    (h, *others), shared = [tensor.float() for tensor in first], weights
    tensors = [weight for weight in weights if isinstance(weight, Tensor)]
    if len(tensors) == len(weights):
        h, shared = share(h, *tensors)
    state, steps = (h, *others), range(len(x))
    inputs, full = x.unbind(), full_steps(mask, len(x))
    kept = kernel("keep", keep, h)
    if mask is not None and kept is not keep:  # a compiled function needs numbers, and the same strides every time
        mask = mask.to(h.dtype, memory_format=torch.contiguous_format)
    outputs = list(inputs)  # placeholders; each is overwritten
    for t in reversed(steps) if reverse else steps:
        new = step(inputs[t], *state, *shared)
        new = (new,) if isinstance(new, Tensor) else new
        if mask is not None and not full[t]:
            new = kept(mask[t].unsqueeze(-1), *new, *state)
        state = (new,) if isinstance(new, Tensor) else new
        outputs[t] = state[0]
    return torch.stack(outputs)


def keep(real: Tensor, *states: Tensor) -> Tensor | tuple[Tensor, ...]:
    """New states (B, H) where ``real`` (B, 1) is not 0, else the old ones; first all new ones, then all old ones."""
    pairs = zip(states[: len(states) // 2], states[len(states) // 2 :], strict=True)
    found = tuple(torch.where(real > 0, new, old) for new, old in pairs)
    return found if len(found) > 1 else found[0]


class _Enter(torch.autograd.Function):
    """The identity on the first state, whose gradient arrives last: its backward ends the loop's."""

    @staticmethod
    def forward(ctx: Any, shared: list[Shared], state: Tensor, *tensors: Tensor) -> Tensor:
        ctx.shared = shared
        return state.view_as(state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return (None, gradient, *(shared.gradient() for shared in ctx.shared))


class _Advance(torch.autograd.Function):
    """A product and a cell's kernel; the gradient of w is deferred to the end of the loop."""

    @staticmethod
    def forward(ctx: Any, name: str, w: Shared, x: Tensor | None, h: Tensor, *others: Tensor | None) -> Any:
        low = h.to(w.value.dtype)
        taken, results = cells.forward(name, (x, product(low, w.matrix()), *others))
        ctx.name, ctx.w = name, w
        ctx.save_for_backward(low, *taken)
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        low, *taken = ctx.saved_tensors
        dx, ds, *others = cells.backward(ctx.name, taken, gradients)
        assert ds is not None
        ctx.w.note(low, ds)
        return None, None, dx, product(ds, ctx.w.matrix(transposed=True)), *others


class _Product(torch.autograd.Function):
    """x w; the gradient of w is deferred to the end of the loop."""

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
