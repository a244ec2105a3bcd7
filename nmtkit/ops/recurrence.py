"""The parts that ``lstm.py``, ``gru.py`` and ``lau.py`` share: order, masks, previous states, weight gradients.

Each of those files has a cell's equation as ``step``, and ``sequence``: a forward loop over time that keeps what
backward needs, and a backward by hand. In the loops there are only the state's product and in-place pointwise work;
the gradient of a weight is one product after the backward loop. Sequences are time-major, so that one step is one
block of memory. Products are done in the dtype of the weights (float32 or bfloat16); states and gates are float32.

Letters: T steps, B rows, H hidden, G columns of all gates. A mask is True at real steps; a masked step passes the state
on unchanged, and in backward its gradient.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from nmtkit.ops.linear import with_zeros
from nmtkit.ops.matrix import Matrix, product
from nmtkit.ops.padding import full_steps


def order(length: int, *, reverse: bool) -> range:
    """The step numbers in the order of the loop."""
    return range(length - 1, -1, -1) if reverse else range(length)


def masks(mask: Tensor | None, length: int) -> Sequence[Tensor | None]:
    """The mask (B, 1) of each step, or None where all rows are known to be real; mask (T, B)."""
    if mask is None:
        return [None] * length
    steps = zip(full_steps(mask, length), mask.contiguous(), strict=True)
    return [None if known else real.unsqueeze(-1) for known, real in steps]


def unbind(x: Tensor | None) -> Sequence[Tensor] | None:
    """The steps of a sequence, each contiguous: (T, B, G) -> T tensors (B, G); None for None."""
    return None if x is None else x.contiguous().unbind()


def previous(states: Tensor, first: Tensor, *, reverse: bool) -> Tensor:
    """The state each step started from: states (T, B, H) moved by one in the loop's direction, after first (B, H)."""
    # One copy of all states, so that the weight gradient is one product over them.
    parts = [states[1:], first.unsqueeze(0)] if reverse else [first.unsqueeze(0), states[:-1]]
    return torch.cat(parts)


def place(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor for the values of x (any shape) in ``dtype``: x itself if it has that dtype, else an empty one."""
    return x if x.dtype == dtype else torch.empty_like(x, dtype=dtype)


def wide(state: Tensor) -> Tensor:
    """A state (B, H), contiguous and in float32, or in float64 if it is that."""
    return state.to(torch.promote_types(state.dtype, torch.float32)).contiguous()


def weight_gradient(states: Tensor, d_pre: Tensor) -> Tensor:
    """The sum over steps and rows of h^T d_pre, in one product: (T, B, H), (T, B, G) -> (H, G)."""
    return with_zeros(states.flatten(0, 1), d_pre.dtype).t() @ with_zeros(d_pre.flatten(0, 1), d_pre.dtype)


def last_gradient(gradient: Tensor | None, states: Tensor) -> Tensor:
    """The gradient (B, H) of the last state, with which backward starts; zero if None. states (T, B, H)."""
    return torch.zeros_like(states[0]) if gradient is None else gradient.float().contiguous()


def total(terms: Sequence[Tensor]) -> Tensor:
    """The sum in float32 of tensors of one shape (...), from left to right.

    Backward passes gradients on as the terms of a sum, so that a kernel adds them up as it reads them.
    """
    result = terms[0].float()
    for term in terms[1:]:
        result = result + term
    return result


# For the twins of kernels.


def matmul(x: Tensor, w: Matrix) -> Tensor:
    """x (B, D) times w (D, G) in their own dtype -> (B, G)."""
    if not isinstance(w, Tensor):
        return w.product(x)
    return torch.mm(x, w, out=x.new_empty(len(x), w.shape[1]))  # with ``out``, autocast does not convert


def other(copy: Tensor, original: Tensor) -> Tensor | None:
    """``copy`` (...) if it is a tensor of its own, which a kernel must write as well; None if it is ``original``."""
    return None if copy.dtype == original.dtype else copy


# The pieces of a step in plain operations, all in place.


def add_product(out: Tensor, x: Tensor, h_w: Tensor, w: Matrix) -> None:
    """out (B, G) = x (B, G) + h_w (B, H) w (H, G), with the product in the dtype of w."""
    if isinstance(w, Tensor) and w.dtype == out.dtype == x.dtype:
        # One operation, and no memory for the product. addmm would not mix dtypes.
        torch.addmm(x, h_w, w, out=out)
    else:
        out.copy_(x).add_(product(h_w, w))


def hand_on(real: Tensor | None, new: Tensor, old: Tensor) -> None:
    """Writes the old state (B, H) over the new one where the step is not real (B, 1)."""
    if real is not None:
        torch.where(real, new, old, out=new)


def copy(source: Tensor, to: Tensor) -> None:
    """Copies float32 values (...) to the weights' dtype, unless that is the same memory."""
    if to.dtype != source.dtype:
        to.copy_(source)


def divide(gradient: Tensor, real: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """A state's gradient (B, H), divided into what goes back through a step and, with a mask, what passes it by."""
    if real is None:
        return gradient, []
    return gradient.masked_fill(~real, 0), [gradient.masked_fill(real, 0)]


Result = Tensor | tuple[Tensor, ...]

TRIED = 3, 5, 16  # T, B, H


def compare(
    cell: str,
    function: Callable[..., tuple[Tensor, ...]],
    twins: tuple[object, object],
    shapes: Sequence[Sequence[int]],
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    """Raises ArithmeticError where the results or gradients of one twin are not those of the other, the plain one.

    ``function`` takes tensors of these shapes, (T, B, G) first, then mask, direction and twin.
    """
    random = torch.Generator().manual_seed(1)
    inputs = [torch.randn(*shape, generator=random).to(device, dtype) for shape in shapes]
    length, rows = shapes[0][:2]
    lengths = torch.arange(rows, device=device) % length + 1
    mask = torch.arange(length, device=device).unsqueeze(1) < lengths

    def run(twin: object, *given: Tensor) -> tuple[Tensor, ...]:
        """Results of the twin for tensors of ``shapes``."""
        return function(*given, mask, False, twin)

    fused, plain = twins
    require_same(cell, partial(run, fused), partial(run, plain), inputs)


def require_same(
    cell: str, ours: Callable[..., Result], theirs: Callable[..., Result], inputs: Sequence[Tensor | None]
) -> None:
    """Raises ArithmeticError where the results or gradients of ``ours``, the kernels, are not those of ``theirs``.

    Both take ``inputs``, of any shapes; None is an argument that is left out.
    """
    both: list[list[Tensor]] = []
    for function in (ours, theirs):
        given = [None if x is None else x.clone().requires_grad_() for x in inputs]
        called = function(*given)
        results = [called] if isinstance(called, Tensor) else list(called)
        leaves = [x for x in given if x is not None]
        gradients = torch.autograd.grad(results, leaves, [result.detach() for result in results], allow_unused=True)
        both.append([*results, *(gradient for gradient in gradients if gradient is not None)])
    for fused, plain in zip(*both, strict=True):
        # Wide enough for bfloat16 and a GPU's coarser exponential; a wrong kernel is far off.
        if not torch.allclose(fused, plain, rtol=0, atol=0.05 * plain.abs().max().item()):
            raise ArithmeticError(f"other results of {cell}")
