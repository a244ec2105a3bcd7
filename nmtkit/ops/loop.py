"""Loops whose steps share weights, keys and values: the gradients of what is shared, once after the loop.

Plain autograd computes the gradient of a shared tensor anew in every step and adds it up. Here backward only
notes what each step contributes; when it has arrived at the first step, the gradient of a weight is one product
over all steps. In the forward direction nothing differs from the plain operations.

    state, loop = share(state, w, keys, values, v)    # before the loop
    state = loop.product(state, w)                    # in it, instead of state @ w

``scan`` is such a loop over a whole sequence, for any recurrent cell.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops import trusted
from nmtkit.ops.padding import full_steps

Product = Callable[[Tensor, Tensor], Tensor]  # rows (N, D) times a matrix (D, E)


def share(state: Tensor, *shared: Tensor) -> tuple[Tensor, "Loop"]:
    """The first state of a loop, and the loop that shares ``shared``. Every use must depend on that state."""
    loop = Loop(shared)
    first: Tensor = _Enter.apply(loop, state, *shared)
    return first, loop


def scan(
    step: Callable[[Tensor, Tensor, Product], Tensor],
    x: Tensor,
    first: Tensor,
    mask: Tensor | None,
    reverse: bool,
    weights: Sequence[Tensor],
) -> Tensor:
    """A recurrence over a sequence: h_t = step(x_t, h_t-1, product), where every product with one of ``weights``
    is ``product(rows, weight)``.

    x (T, B, G) transformed inputs, first (B, H), mask (T, B) True at real steps; a masked step hands the state on
    unchanged. ``reverse`` runs from the last step to the first. Gives h (T, B, H) in float32.
    """
    h, loop = share(first.float(), *weights)
    inputs = x.float().unbind()
    outputs = list(inputs)
    full = full_steps(mask, len(x))
    for t in range(len(x) - 1, -1, -1) if reverse else range(len(x)):
        new = step(inputs[t], h, loop.product)
        h = new if mask is None or full[t] else torch.where(mask[t].unsqueeze(-1), new, h)
        outputs[t] = h
    return torch.stack(outputs)


class Loop:
    """What the steps of one loop share, and what their backward has noted so far."""

    def __init__(self, shared: tuple[Tensor, ...]):
        device = shared[0].device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        self._dtypes = [tensor.dtype for tensor in shared]
        self._values = [tensor.detach().to(low or tensor.dtype) for tensor in shared]
        self._numbers = {id(tensor): number for number, tensor in enumerate(shared)}
        self._products: list[list[tuple[Tensor, Tensor]]] = [[] for _ in shared]
        self._sums: list[Tensor | None] = [None for _ in shared]

    def product(self, x: Tensor, w: Tensor) -> Tensor:
        """x @ w for a shared w."""
        result: Tensor = _Product.apply(self, self._numbers[id(w)], x)
        return result

    def additive(self, query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """``attention.additive`` for one query row per sentence and shared keys, values and v; the weights carry
        no gradient of their own."""
        numbers = tuple(self._numbers[id(tensor)] for tensor in (keys, values, v))
        context, weights = _Additive.apply(self, numbers, query, mask)
        return context, weights

    def _note(self, number: int, x: Tensor, gradient: Tensor) -> None:
        self._products[number].append((x.detach(), gradient))  # a tensor with its graph would never be freed

    def _add(self, number: int, gradient: Tensor) -> None:
        total = self._sums[number]
        self._sums[number] = gradient.float() if total is None else total.add_(gradient)

    def _gradients(self) -> list[Tensor | None]:
        """Of everything shared; the loop is over. Noted (..., R, D) and (..., R, E) make a gradient (..., D, E)."""
        found: list[Tensor | None] = []
        for noted, total, dtype in zip(self._products, self._sums, self._dtypes, strict=True):
            if noted:
                x, gradient = (torch.cat(parts, dim=-2) for parts in zip(*noted, strict=True))
                total = x.mT @ gradient
            found.append(None if total is None else total.to(dtype))
        self._products, self._sums, self._values = [], [], []
        return found


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loop: Loop, state: Tensor, *shared: Tensor) -> Tensor:
        ctx.loop = loop
        return state.view_as(state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return (None, gradient, *ctx.loop._gradients())


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loop: Loop, number: int, x: Tensor) -> Tensor:
        w = loop._values[number]
        x = x.to(w.dtype)
        ctx.loop, ctx.number = loop, number
        ctx.save_for_backward(x)
        return x @ w

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        ctx.loop._note(ctx.number, x, gradient)
        return None, None, gradient @ ctx.loop._values[ctx.number].t()


class _Additive(torch.autograd.Function):
    """With tanh x = 2 sigmoid(2x) - 1, as in ``attention.additive``. Backward computes it again instead of keeping
    (B, S, A) for every step.
    """

    @staticmethod
    def forward(
        ctx: Any, loop: Loop, numbers: tuple[int, int, int], query: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        keys, values, v = (loop._values[number] for number in numbers)
        kernels = trusted.kernels(_compare, query)
        weights = (kernels or _Additive).additive_scores(query, keys, v, mask).softmax(dim=-1)
        ctx.loop, ctx.numbers = loop, numbers
        ctx.save_for_backward(query, weights)
        ctx.mark_non_differentiable(weights)
        return torch.bmm(weights.to(values.dtype).unsqueeze(1), values).squeeze(1), weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_context: Tensor, _: Tensor) -> tuple[Any, ...]:
        query, weights = ctx.saved_tensors
        keys, values, v = (ctx.loop._values[number] for number in ctx.numbers)
        d_weights = torch.bmm(values, grad_context.unsqueeze(-1)).squeeze(-1).float()
        d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
        sigmoid = _Additive.sigmoid(query, keys)
        ctx.loop._add(ctx.numbers[2], 2 * (d_scores.flatten() @ sigmoid.flatten(0, 1)))  # d_scores sums to 0
        slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1)  # a quarter of that of tanh
        d_query = torch.bmm(d_scores.unsqueeze(1), slope).squeeze(1) * (4 * v.float())
        ctx.loop._add(ctx.numbers[0], slope.mul_(d_scores.unsqueeze(-1)).mul_(4 * v.float()))
        ctx.loop._note(ctx.numbers[1], weights.to(values.dtype).unsqueeze(1), grad_context.unsqueeze(1))
        return None, None, d_query, None

    @staticmethod
    def additive_scores(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """v . tanh(query + keys), but for what a softmax takes away: (B, S), -inf where the mask is False."""
        return (_Additive.sigmoid(query, keys) @ (2 * v.float())).masked_fill_(~mask, float("-inf"))

    @staticmethod
    def sigmoid(query: Tensor, keys: Tensor) -> Tensor:
        """sigmoid(2 (query + keys)), (B, S, A) in float32: near 0.5 a bfloat16 is too coarse."""
        return (query.float().unsqueeze(1) + keys).mul_(2).sigmoid_()


def _compare(kernels: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    """Raises where the weights of an attention with ``kernels`` are not the plain ones."""
    random = torch.Generator().manual_seed(1)
    shapes = [(3, 32), (3, 4, 32), (32,)]
    query, keys, v = (torch.randn(shape, generator=random).to(device, dtype) for shape in shapes)
    mask = torch.arange(4, device=device) < torch.tensor([[4], [1], [2]], device=device)
    fused, plain = (m.additive_scores(query, keys, v, mask).softmax(dim=-1) for m in (kernels, _Additive))
    if not torch.allclose(fused, plain, rtol=0, atol=1e-3):
        raise ArithmeticError("other results of additive attention")
