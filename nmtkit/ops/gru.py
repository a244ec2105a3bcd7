"""The GRU of Cho et al. 2014 and Bahdanau et al. 2015 (A.1.1), whose reset gate acts before the product.

    r = sigma(x_r + h U_r)
    z = sigma(x_z + h U_z)
    c = tanh(x_c + (r * h) U)
    h' = (1 - z) * h + z * c

``step`` computes these equations, for search and for readers. ``sequence`` is the whole loop over time with a backward
by hand. A single step of it, or of a training loop with attention, is computed by ``Plain`` or by kernels that replace
it on a CPU, ``native/gru.py``.

Letters: T steps, B rows, H hidden. x holds the transformed inputs in the order r, z, c; u_gates is [U_r, U_z].
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import library, search, trusted
from nmtkit.ops import recurrence
from nmtkit.ops.loop import Shared, scan
from nmtkit.ops.matrix import Matrix, is_packed, product, repeated
from nmtkit.ops.recurrence import add_product, copy, divide, hand_on, total


def step(x: Tensor, h: Tensor, u_gates: Matrix, u: Matrix) -> Tensor:
    """x (B, 3H), state h (B, H), u_gates (H, 2H), u (H, H) -> the next h (B, H)."""
    if is_packed(u) and library.helps(x, h):
        gates, reset = search.gru_gates(x, product(h, u_gates), h)
        return search.gru_state(x, product(reset, u), gates, h)
    if isinstance(u_gates, Shared) and isinstance(u, Shared):
        new: Tensor = _Step.apply(x, h, u_gates, u, trusted.choose(PLAIN, _native, _compare, u.value))
        return new
    width = h.shape[-1]
    # Split, because autograd fills zeros around the gradient of every slice.
    x_gates, x_candidate = x.split_with_sizes([2 * width, width], dim=-1)
    r, z = (x_gates + product(h, u_gates)).sigmoid().chunk(2, dim=-1)
    candidate = (x_candidate + product(r * h, u)).tanh()
    return (1 - z) * h + z * candidate


def sequence(
    x: Tensor, u_gates: Matrix, u: Matrix, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """All steps: h (T, B, H) in the dtype of x, and the last h (B, H) in float32.

    x (T, B, 3H), u_gates (H, 2H), u (H, H), first state h0 (B, H), mask (T, B) True at real steps. ``reverse`` runs
    from the last step to the first.
    """
    if not (isinstance(u_gates, Tensor) and isinstance(u, Tensor)):  # in search
        outputs = scan(lambda x, h, weights: step(x, h, *weights), x, h0, mask, reverse, [u_gates, u])
        return outputs, outputs[0 if reverse else -1]
    steps = trusted.choose(PLAIN, _native, _compare, x)
    # Converted here, not inside, so that autograd gives the weights a gradient in their own dtype.
    outputs, h = _Sequence.apply(x, u_gates.to(x.dtype), u.to(x.dtype), h0, mask, reverse, steps)
    return outputs, h


class State(NamedTuple):
    """The state between two steps, both parts (B, H)."""

    h: Tensor  # float32
    h_w: Tensor  # h in the dtype of the weights; the same memory in float32


class Kept(NamedTuple):
    """The values of a step's forward that its backward needs."""

    gates: Tensor  # (B, 2H) r, z
    reset: Tensor  # (B, H) r * h in the dtype of the weights, for the gradient of U
    candidate: Tensor  # (B, H) c


class Steps(Protocol):
    """One step of the loop and of its backward. ``real`` (B, 1) is the step's mask, None where all rows are real."""

    def forward(
        self, x: Tensor, old: State, u_gates: Matrix, u: Matrix, real: Tensor | None, kept: Kept, new: State
    ) -> None:
        """x (B, 3H), u_gates (H, 2H), u (H, H); writes what is kept and the new state."""

    def backward(
        self, dh: Sequence[Tensor], u_gates_t: Matrix, u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor,
        d_w: Tensor,
    ) -> list[Tensor]:  # fmt: skip
        """From the terms of dh (B, H) to those of the step before; u_gates_t (2H, H), u_t (H, H), h (B, H).

        Writes d_w (B, 3H), the gradient before the functions of gates and candidate, in the weights' dtype.
        """


class Plain:
    """``Steps`` in plain operations, in place."""

    def forward(
        self, x: Tensor, old: State, u_gates: Matrix, u: Matrix, real: Tensor | None, kept: Kept, new: State
    ) -> None:
        """See ``Steps``: x (B, 3H)."""
        gates, reset, candidate = kept
        width = old.h.shape[1]
        add_product(gates, x[:, : 2 * width], old.h_w, u_gates)
        r, z = gates.sigmoid_().chunk(2, dim=-1)
        # The second product waits for the first: this is what makes this GRU slower than those that reset afterwards.
        torch.mul(r, old.h, out=reset)
        add_product(candidate, x[:, 2 * width :], reset, u)
        torch.lerp(old.h, candidate.tanh_(), z, out=new.h)  # h + z (c - h), one pass
        hand_on(real, new.h, old.h)
        copy(new.h, new.h_w)

    def backward(
        self, dh: Sequence[Tensor], u_gates_t: Matrix, u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor,
        d_w: Tensor,
    ) -> list[Tensor]:  # fmt: skip
        """See ``Steps``: dh and h (B, H), d_w (B, 3H)."""
        gates, _, candidate = kept
        width = h.shape[1]
        d_h, passed = divide(total(dh), real)
        # Gradients before a function follow from its result y: y (1 - y) for a sigmoid, 1 - y^2 for tanh.
        d_pre = recurrence.place(d_w, d_h.dtype)
        r, z = gates.chunk(2, dim=-1)
        dr, dz, dc = d_pre.chunk(3, dim=-1)
        torch.mul(d_h, z, out=dc)
        dc.mul_(1 - candidate * candidate)
        d_reset = product(dc.to(d_w.dtype), u_t).float()  # of r * h, which both have a part in
        torch.mul(d_h, candidate - h, out=dz)
        dz.mul_(z).mul_(1 - z)
        torch.mul(d_reset, h, out=dr)
        dr.mul_(r).mul_(1 - r)
        copy(d_pre, d_w)
        # h reaches h' directly, through r * h and through the gates, whose product is a term of its own.
        return [d_h * (1 - z) + d_reset * r, product(d_w[:, : 2 * width], u_gates_t), *passed]


PLAIN: Steps = Plain()


def _native() -> Steps:
    from nmtkit.ops.native import gru

    return gru


def _compare(fused: Steps, device: torch.device, dtype: torch.dtype) -> None:
    t, b, h = recurrence.TRIED
    shapes = [(t, b, 3 * h), (h, 2 * h), (h, h), (b, h)]
    recurrence.compare("GRU", _Sequence.apply, (fused, PLAIN), shapes, device, dtype)


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, u_gates: Tensor, u: Tensor, h0: Tensor, mask: Tensor | None, reverse: bool, steps: Steps
    ) -> tuple[Tensor, Tensor]:
        length, rows, width = x.shape[0], x.shape[1], x.shape[2] // 3
        gates = torch.empty(length, rows, 2 * width, dtype=torch.float32, device=x.device)
        candidates, hs = gates.new_empty(length, rows, width), gates.new_empty(length, rows, width)
        # In float32 the states are the outputs, and no product needs a copy of them.
        resets, outputs = torch.empty_like(hs, dtype=x.dtype), recurrence.place(hs, x.dtype)
        state = State(h0.float().contiguous(), h0.to(x.dtype))
        inputs, real = x.contiguous().unbind(), recurrence.masks(mask, length)
        maps = repeated(u_gates), repeated(u)
        for t in recurrence.order(length, reverse=reverse):
            new = State(hs[t], outputs[t])
            steps.forward(inputs[t], state, *maps, real[t], Kept(gates[t], resets[t], candidates[t]), new)
            state = new
        ctx.save_for_backward(gates, resets, candidates, hs, u_gates, u, h0, mask)
        ctx.reverse, ctx.steps = reverse, steps
        ctx.set_materialize_grads(False)  # None for a result that nothing uses
        return outputs, state.h.clone()  # a copy: the last state is a part of the outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None) -> tuple[Any, ...]:
        gates, resets, candidates, hs, u_gates, u, h0, mask = ctx.saved_tensors
        (length, rows, width), steps = hs.shape, ctx.steps
        previous = recurrence.previous(hs, h0.float(), reverse=ctx.reverse)
        d_x = torch.empty(length, rows, 3 * width, dtype=u.dtype, device=u.device)
        dh = [recurrence.last_gradient(grad_h, hs)]
        maps = repeated(u_gates.t()), repeated(u.t())
        grads, real = recurrence.unbind(grad_hs), recurrence.masks(mask, length)
        for t in reversed(recurrence.order(length, reverse=ctx.reverse)):
            if grads is not None:
                dh.append(grads[t])
            kept = Kept(gates[t], resets[t], candidates[t])
            dh = steps.backward(dh, *maps, real[t], kept, previous[t], d_x[t])
        du_gates = recurrence.weight_gradient(previous, d_x[:, :, : 2 * width])
        du = recurrence.weight_gradient(resets, d_x[:, :, 2 * width :])
        return d_x, du_gates, du, total(dh).to(h0.dtype), None, None, None


class _Step(torch.autograd.Function):
    """One step of a training loop that shares its weights: the state (B, H) in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, u_gates: Shared, u: Shared, steps: Steps) -> Tensor:
        rows, width = h.shape
        h = recurrence.wide(h)
        old = State(h, h.to(u.value.dtype))
        kept = Kept(h.new_empty(rows, 2 * width), torch.empty_like(old.h_w), torch.empty_like(h))
        new = torch.empty_like(h)
        steps.forward(x.contiguous(), old, u_gates.matrix(), u.matrix(), None, kept, State(new, new))
        ctx.save_for_backward(*old, *kept)
        ctx.weights, ctx.steps = (u_gates, u), steps
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor) -> tuple[Any, ...]:
        h, h_w, *tensors = ctx.saved_tensors
        (u_gates, u), kept, width = ctx.weights, Kept(*tensors), h.shape[1]
        d_w = torch.empty(len(h), 3 * width, dtype=h_w.dtype, device=h.device)
        dh = [grad_h.contiguous()]
        maps = u_gates.matrix(transposed=True), u.matrix(transposed=True)
        dh = ctx.steps.backward(dh, *maps, None, kept, h, d_w)
        u_gates.note(h_w, d_w[:, : 2 * width])
        u.note(kept.reset, d_w[:, 2 * width :])
        return d_w, total(dh), None, None, None
