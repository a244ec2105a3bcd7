"""The linear associative unit (LAU) of Wang et al. 2017, eqs. 6 to 8 with f = 1 - r: a GRU with a gated linear path.

    r = sigma(x_r + h U_r + b_r), and likewise z and g
    c = tanh((1 - r) * x_c + r * (h U_c) + b_c)
    h' = (1 - g) * ((1 - z) * h + z * c) + g * H(x)

``step`` computes these equations, for search and for readers. ``sequence`` is the whole loop over time with a backward
by hand. A single step of it, or of a training loop with attention, is computed by ``Plain`` or by kernels that replace
it on a CPU, ``native/lau.py``. They write the candidate as
tanh(x_c + b_c + r * (h U_c - x_c)): the difference comes out of the product like a fourth gate, if -x_c is added there.

Letters: T steps, B rows, H hidden. x holds the transformed inputs in the order r, z, g, c, H(x); u is [U_r, U_z, U_g,
U_c], and so is the bias.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import trusted
from nmtkit.ops import recurrence
from nmtkit.ops.loop import Shared, scan
from nmtkit.ops.matrix import Matrix, product, repeated
from nmtkit.ops.recurrence import add_product, copy, divide, hand_on, total


def step(x: Tensor, h: Tensor, u: Matrix, bias: Tensor) -> Tensor:
    """x (B, 5H), state h (B, H), u (H, 4H), bias (4H,) -> the next h (B, H)."""
    if isinstance(u, Shared):
        new: Tensor = _Step.apply(x, h, u, bias, trusted.choose(PLAIN, _native, _compare, u.value))
        return new
    width = h.shape[-1]
    # Split, because autograd fills zeros around the gradient of every slice.
    x_gates, x_candidate, linear = x.split_with_sizes([3 * width, width, width], dim=-1)
    h_gates, h_candidate = product(h, u).split_with_sizes([3 * width, width], dim=-1)
    bias_gates, bias_candidate = bias.split_with_sizes([3 * width, width])
    r, z, g = (x_gates + h_gates + bias_gates).sigmoid().chunk(3, dim=-1)
    candidate = ((1 - r) * x_candidate + r * h_candidate + bias_candidate).tanh()
    return ((1 - z) * h + z * candidate) * (1 - g) + g * linear


def sequence(
    x: Tensor, u: Matrix, bias: Tensor, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """All steps: h (T, B, H) in the dtype of x, and the last h (B, H) in float32.

    x (T, B, 5H), u (H, 4H), bias (4H,), first state h0 (B, H), mask (T, B) True at real steps. ``reverse`` runs from
    the last step to the first.
    """
    if not isinstance(u, Tensor):  # in search
        outputs = scan(lambda x, h, weights: step(x, h, weights[0], bias), x, h0, mask, reverse, [u])
        return outputs, outputs[0 if reverse else -1]
    steps = trusted.choose(PLAIN, _native, _compare, x)
    # Converted here, not inside, so that autograd gives the weights a gradient in their own dtype.
    outputs, h = _Sequence.apply(x, u.to(x.dtype), bias, h0, mask, reverse, steps)
    return outputs, h


class State(NamedTuple):
    """The state between two steps, both parts (B, H)."""

    h: Tensor  # float32
    h_w: Tensor  # h in the dtype of the weights; the same memory in float32


class Kept(NamedTuple):
    """The values of a step's forward that its backward needs."""

    gates: Tensor  # (B, 4H) r, z, g, and the difference h U_c - x_c
    candidate: Tensor  # (B, H) c
    linear: Tensor  # (B, H) H(x)


class Gradients(NamedTuple):
    """The gradients that a step's backward writes."""

    candidate: Tensor  # (B, H) before the tanh
    x: Tensor  # (B, 5H) before the gates' functions, then of the difference and of H(x)
    w: Tensor  # (B, 4H) all of x but the last, in the weights' dtype


class Steps(Protocol):
    """One step of the loop and of its backward. ``real`` (B, 1) is the step's mask, None where all rows are real."""

    def forward(self, old: State, u: Matrix, real: Tensor | None, kept: Kept, new: State) -> None:
        """``kept`` holds the input's terms of gates and candidate; writes their values and the new state. u (H, 4H)."""

    def backward(
        self, dh: Sequence[Tensor], u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor, out: Gradients
    ) -> list[Tensor]:
        """From the terms of dh (B, H) to those of the step before; u_t (4H, H), h (B, H). Writes ``out``."""


class Plain:
    """``Steps`` in plain operations, in place."""

    def forward(self, old: State, u: Matrix, real: Tensor | None, kept: Kept, new: State) -> None:
        """See ``Steps``: u (H, 4H)."""
        gates, candidate, linear = kept
        width = old.h.shape[1]
        add_product(gates, gates, old.h_w, u)
        gates[:, : 3 * width].sigmoid_()  # not the fourth, which is the difference
        r, z, g, difference = gates.chunk(4, dim=-1)
        candidate.addcmul_(r, difference).tanh_()
        torch.lerp(old.h, candidate, z, out=new.h)  # h + z (c - h), the mixed state
        new.h.lerp_(linear, g)  # and between it and H(x)
        hand_on(real, new.h, old.h)
        copy(new.h, new.h_w)

    def backward(
        self, dh: Sequence[Tensor], u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor, out: Gradients
    ) -> list[Tensor]:
        """See ``Steps``: dh and h (B, H)."""
        gates, candidate, linear = kept
        width, dc = h.shape[1], out.candidate
        d_h, passed = divide(total(dh), real)
        r, z, g, difference = gates.chunk(4, dim=-1)
        dr, dz, dg, d_difference, d_linear = out.x.chunk(5, dim=-1)
        # Gradients before a function follow from its result y: y (1 - y) for a sigmoid, 1 - y^2 for tanh. Where a
        # gradient times y is there already, as d_linear for g, only the other factor is missing.
        torch.mul(d_h, g, out=d_linear)
        torch.sub(linear, torch.lerp(h, candidate, z), out=dg)  # the mixed state is computed again, not kept
        dg.mul_(d_linear).mul_(1 - g)
        d_h = d_h - d_linear  # of the mixed state
        torch.mul(d_h, z, out=dc)
        torch.sub(candidate, h, out=dz)
        dz.mul_(dc).mul_(1 - z)
        d_h = d_h - dc  # before the tanh's slope: what z takes from h it gives to c
        dc.mul_(1 - candidate * candidate)
        torch.mul(dc, r, out=d_difference)
        torch.mul(d_difference, difference, out=dr)
        dr.mul_(1 - r)
        copy(out.x[:, : 4 * width], out.w)
        return [d_h, product(out.w, u_t), *passed]


PLAIN: Steps = Plain()


def _native() -> Steps:
    from nmtkit.ops.native import lau

    return lau


def _compare(fused: Steps, device: torch.device, dtype: torch.dtype) -> None:
    t, b, h = recurrence.TRIED
    shapes = [(t, b, 5 * h), (h, 4 * h), (4 * h,), (b, h)]
    recurrence.compare("LAU", _Sequence.apply, (fused, PLAIN), shapes, device, dtype)


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, u: Tensor, bias: Tensor, h0: Tensor, mask: Tensor | None, reverse: bool, steps: Steps
    ) -> tuple[Tensor, Tensor]:
        length, rows, width = x.shape[0], x.shape[1], x.shape[2] // 5
        # What does not wait for a state is done for all steps at once: a step adds its product to it, in place.
        gates, candidates, linear = _prepared(x, bias, torch.float32)
        hs = gates.new_empty(length, rows, width)
        outputs = recurrence.place(hs, x.dtype)
        state = State(h0.float().contiguous(), h0.to(x.dtype))
        real, w = recurrence.masks(mask, length), repeated(u)
        for t in recurrence.order(length, reverse=reverse):
            new = State(hs[t], outputs[t])
            steps.forward(state, w, real[t], Kept(gates[t], candidates[t], linear[t]), new)
            state = new
        ctx.save_for_backward(gates, candidates, linear, hs, u, bias, h0, mask)
        ctx.reverse, ctx.steps = reverse, steps
        ctx.set_materialize_grads(False)  # None for a result that nothing uses
        return outputs, state.h.clone()  # a copy: the last state is a part of the outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None) -> tuple[Any, ...]:
        gates, candidates, linear, hs, u, bias, h0, mask = ctx.saved_tensors
        (length, rows, width), steps = hs.shape, ctx.steps
        previous = recurrence.previous(hs, h0.float(), reverse=ctx.reverse)
        d_x = gates.new_empty(length, rows, 5 * width)
        d_w = recurrence.place(d_x[:, :, : 4 * width], u.dtype)
        d_candidates = torch.empty_like(candidates)
        dh, u_t = [recurrence.last_gradient(grad_h, hs)], repeated(u.t())
        grads, real = recurrence.unbind(grad_hs), recurrence.masks(mask, length)
        for t in reversed(recurrence.order(length, reverse=ctx.reverse)):
            if grads is not None:
                dh.append(grads[t])
            kept, out = Kept(gates[t], candidates[t], linear[t]), Gradients(d_candidates[t], d_x[t], d_w[t])
            dh = steps.backward(dh, u_t, real[t], kept, previous[t], out)
        du = recurrence.weight_gradient(previous, d_w)
        d_bias = _finished(d_x, d_candidates)
        return d_x.to(u.dtype), du, d_bias.to(bias.dtype), total(dh).to(h0.dtype), None, None, None


def _prepared(x: Tensor, bias: Tensor, dtype: torch.dtype) -> Kept:
    """The terms of gates and candidate from the input x (..., 5H) and the bias (4H,), before a step, in ``dtype``."""
    width = bias.numel() // 4
    x_gates, x_candidate, linear = x.split_with_sizes([3 * width, width, width], dim=-1)
    gates = torch.empty(*x.shape[:-1], 4 * width, dtype=dtype, device=x.device)
    gates[..., : 3 * width] = x_gates + bias[: 3 * width]
    gates[..., 3 * width :] = -x_candidate
    # Copies, so that the rest of x can go.
    return Kept(gates, (x_candidate + bias[3 * width :]).to(dtype).contiguous(), linear.to(dtype).contiguous())


def _finished(d_x: Tensor, d_candidate: Tensor) -> Tensor:
    """The gradient of the bias (4H,) from d_x (..., 5H) and d_candidate (..., H) as a step's backward writes them.

    The gradient of the difference in d_x is replaced by that of x_c.
    """
    width = d_candidate.shape[-1]
    rows, candidates = d_x.flatten(0, -2), d_candidate.flatten(0, -2)
    # The candidate's bias stands outside the reset product, so its gradient is not that of the difference.
    d_bias = torch.cat([rows[:, : 3 * width].sum(0), candidates.sum(0)])
    rows[:, 3 * width : 4 * width].neg_().add_(candidates)  # x_c stands in the candidate and in the difference
    return d_bias


class _Step(torch.autograd.Function):
    """One step of a training loop that shares its weights: the state (B, H) in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, u: Shared, bias: Tensor, steps: Steps) -> Tensor:
        h = recurrence.wide(h)
        kept, new, h_w = _prepared(x, bias, h.dtype), torch.empty_like(h), h.to(u.value.dtype)
        steps.forward(State(h, h_w), u.matrix(), None, kept, State(new, new))
        ctx.save_for_backward(h, h_w, *kept)
        ctx.weight, ctx.steps = u, steps
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor) -> tuple[Any, ...]:
        h, h_w, *tensors = ctx.saved_tensors
        kept, (rows, width) = Kept(*tensors), h.shape
        d_x = h.new_empty(rows, 5 * width)
        out = Gradients(torch.empty_like(h), d_x, recurrence.place(d_x[:, : 4 * width], h_w.dtype))
        dh = ctx.steps.backward([grad_h.contiguous()], ctx.weight.matrix(transposed=True), None, kept, h, out)
        # A copy in float32, where the gradient of x_c takes the place of another.
        ctx.weight.note(h_w, out.w.clone() if out.w.dtype == d_x.dtype else out.w)
        d_bias = _finished(d_x, out.candidate)
        return d_x, total(dh), None, d_bias, None
