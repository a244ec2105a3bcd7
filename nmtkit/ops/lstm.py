"""The LSTM with peepholes of Zhou et al. 2016, eq. 4. It has no input matrix: f holds the transformed inputs.

    z = tanh(f_z + h W_z)
    i = sigma(f_i + h W_i + theta_i * s)        input gate, rho in the paper
    g = sigma(f_g + h W_g + theta_g * s)        forget gate, phi
    s' = z * i + g * s
    o = sigma(f_o + h W_o + theta_o * s')       output gate, pi; its peephole sees the new cell
    h' = tanh(s') * o

``step`` computes these equations, for search and for readers. ``sequence`` is the whole loop over time with a backward
by hand. A single step of it, or of a training loop with attention, is computed by ``Plain`` or by kernels that replace
it on a CPU, ``native/lstm.py``.

Letters: T steps, B rows, H hidden. f, W_r and the gates have the order z, i, g, o.
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


def step(f: Tensor, h: Tensor, s: Tensor, w_r: Matrix, peepholes: Tensor) -> tuple[Tensor, Tensor]:
    """f (B, 4H), state h and cell s (B, H), w_r (H, 4H), peepholes (3, H) -> the next h and s (B, H)."""
    if isinstance(w_r, Shared):
        new_h, new_s = _Step.apply(f, h, s, w_r, peepholes, trusted.choose(PLAIN, _native, _compare, w_r.value))
        return new_h, new_s
    theta_i, theta_g, theta_o = peepholes
    z, i, g, o = (f + product(h, w_r)).chunk(4, dim=-1)
    i = (i + s * theta_i).sigmoid()
    g = (g + s * theta_g).sigmoid()
    s = z.tanh() * i + g * s
    o = (o + s * theta_o).sigmoid()
    return s.tanh() * o, s


def sequence(
    f: Tensor, w_r: Matrix, peepholes: Tensor, h0: Tensor, s0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """All steps: h (T, B, H) in the dtype of f, and the last h and s (B, H) in float32.

    f (T, B, 4H), w_r (H, 4H), peepholes (3, H), first states h0 and s0 (B, H), mask (T, B) True at real steps.
    ``reverse`` runs from the last step to the first.
    """
    if not isinstance(w_r, Tensor):  # in search: a scan, whose state is h and s side by side

        def both(f: Tensor, state: Tensor, weights: Sequence[Matrix]) -> Tensor:
            h, s = state.chunk(2, dim=-1)
            return torch.cat(step(f, h, s, weights[0], peepholes), dim=-1)

        states = scan(both, f, torch.cat([h0, s0], dim=-1), mask, reverse, [w_r])
        outputs, cells = states.chunk(2, dim=-1)
        last = 0 if reverse else -1
        return outputs, outputs[last], cells[last]
    steps = trusted.choose(PLAIN, _native, _compare, f)
    # Converted here, not inside, so that autograd gives the weights a gradient in their own dtype.
    outputs, h, s = _Sequence.apply(f, w_r.to(f.dtype), peepholes, h0, s0, mask, reverse, steps)
    return outputs, h, s


class State(NamedTuple):
    """The state between two steps, each part (B, H)."""

    h: Tensor  # float32
    h_w: Tensor  # h in the dtype of the weights; the same memory in float32
    s: Tensor  # float32


class Kept(NamedTuple):
    """The values of a step's forward that its backward needs."""

    gates: Tensor  # (B, 4H) z, i, g, o after their functions
    s: Tensor  # (B, H) the cell before the step
    new_s: Tensor  # (B, H)


class Steps(Protocol):
    """One step of the loop and of its backward. ``real`` (B, 1) is the step's mask, None where all rows are real."""

    def forward(
        self, f: Tensor, old: State, w: Matrix, theta: Tensor, real: Tensor | None, gates: Tensor, new: State
    ) -> None:
        """f (B, 4H), w (H, 4H), theta (3, H) the peepholes; writes the gates (B, 4H) and the new state."""

    def backward(
        self, dh: Sequence[Tensor], ds: Tensor, w_t: Matrix, theta: Tensor, real: Tensor | None, kept: Kept,
        d_pre: Tensor, d_w: Tensor,
    ) -> tuple[list[Tensor], Tensor]:  # fmt: skip
        """From the terms of dh and ds (B, H) to those of the step before; w_t (4H, H).

        Writes d_pre (B, 4H), the gradient before the gates' functions, also as d_w in the weights' dtype.
        """


class Plain:
    """``Steps`` in plain operations, in place."""

    def forward(
        self, f: Tensor, old: State, w: Matrix, theta: Tensor, real: Tensor | None, gates: Tensor, new: State
    ) -> None:
        """See ``Steps``: f and gates (B, 4H)."""
        width = old.s.shape[1]
        theta_i, theta_g, theta_o = theta.unbind()
        add_product(gates, f, old.h_w, w)
        z, i, g, o = gates.chunk(4, dim=-1)  # views: what is done to them is done to what is kept
        i.addcmul_(old.s, theta_i)
        g.addcmul_(old.s, theta_g)
        z.tanh_()
        gates[:, width : 3 * width].sigmoid_()  # i and g, which are neighbours, in one pass
        torch.mul(z, i, out=new.s)
        new.s.addcmul_(g, old.s)
        o.addcmul_(new.s, theta_o).sigmoid_()  # only now: its peephole sees the new cell
        torch.tanh(new.s, out=new.h)
        new.h.mul_(o)
        hand_on(real, new.s, old.s)
        hand_on(real, new.h, old.h)
        copy(new.h, new.h_w)

    def backward(
        self, dh: Sequence[Tensor], ds: Tensor, w_t: Matrix, theta: Tensor, real: Tensor | None, kept: Kept,
        d_pre: Tensor, d_w: Tensor,
    ) -> tuple[list[Tensor], Tensor]:  # fmt: skip
        """See ``Steps``: dh and ds (B, H), d_pre (B, 4H)."""
        theta_i, theta_g, theta_o = theta.unbind()
        (d_h, passed_h), (d_s, passed_s) = divide(total(dh), real), divide(ds, real)
        z, i, g, o = kept.gates.chunk(4, dim=-1)
        dz, di, dg, do = d_pre.chunk(4, dim=-1)
        # Gradients before a function follow from its result y: y (1 - y) for a sigmoid, 1 - y^2 for tanh.
        tanh_s = kept.new_s.tanh()
        torch.mul(d_h, tanh_s, out=do)
        do.mul_(o).mul_(1 - o)
        d_s = d_s + d_h * o * (1 - tanh_s * tanh_s) + do * theta_o  # through the next s, h' and o
        torch.mul(d_s, i, out=dz)
        dz.mul_(1 - z * z)
        torch.mul(d_s, z, out=di)
        di.mul_(i).mul_(1 - i)
        torch.mul(d_s, kept.s, out=dg)
        dg.mul_(g).mul_(1 - g)
        d_s = (d_s * g).addcmul_(di, theta_i).addcmul_(dg, theta_g)
        copy(d_pre, d_w)
        # W_r's own gradient is left to the end of the loop, where all steps make one product.
        return [product(d_w, w_t), *passed_h], total([d_s, *passed_s])


PLAIN: Steps = Plain()


def _native() -> Steps:
    from nmtkit.ops.native import lstm

    return lstm


def _compare(fused: Steps, device: torch.device, dtype: torch.dtype) -> None:
    t, b, h = recurrence.TRIED
    shapes = [(t, b, 4 * h), (h, 4 * h), (3, h), (b, h), (b, h)]
    recurrence.compare("LSTM", _Sequence.apply, (fused, PLAIN), shapes, device, dtype)


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, f: Tensor, w_r: Tensor, peepholes: Tensor, h0: Tensor, s0: Tensor, mask: Tensor | None, reverse: bool,
        steps: Steps,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        length, rows, width = f.shape[0], f.shape[1], f.shape[2] // 4
        gates = torch.empty(f.shape, dtype=torch.float32, device=f.device)
        hs, ss = gates.new_empty(length, rows, width), gates.new_empty(length, rows, width)
        outputs = recurrence.place(hs, f.dtype)  # in float32 the states are the outputs
        state = State(h0.float().contiguous(), h0.to(f.dtype), s0.float().contiguous())
        theta = peepholes.float().contiguous()
        inputs, real, w = f.contiguous().unbind(), recurrence.masks(mask, length), repeated(w_r)
        for t in recurrence.order(length, reverse=reverse):
            new = State(hs[t], outputs[t], ss[t])
            steps.forward(inputs[t], state, w, theta, real[t], gates[t], new)
            state = new
        ctx.save_for_backward(gates, hs, ss, w_r, peepholes, h0, s0, mask)
        ctx.reverse, ctx.steps = reverse, steps
        ctx.set_materialize_grads(False)  # None for a result that nothing uses: most callers use one of three
        return outputs, state.h.clone(), state.s.clone()  # copies: the last states are parts of other results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None, grad_s: Tensor | None) -> tuple[Any, ...]:
        gates, hs, ss, w_r, peepholes, h0, s0, mask = ctx.saved_tensors
        length, steps = len(hs), ctx.steps
        previous_s = recurrence.previous(ss, s0.float(), reverse=ctx.reverse)
        d_pre = torch.empty_like(gates)
        d_f = recurrence.place(d_pre, w_r.dtype)
        dh, ds = [recurrence.last_gradient(grad_h, hs)], recurrence.last_gradient(grad_s, hs)
        theta, w_t = peepholes.float().contiguous(), repeated(w_r.t())
        grads, real = recurrence.unbind(grad_hs), recurrence.masks(mask, length)
        for t in reversed(recurrence.order(length, reverse=ctx.reverse)):
            if grads is not None:
                dh.append(grads[t])
            kept = Kept(gates[t], previous_s[t], ss[t])
            dh, ds = steps.backward(dh, ds, w_t, theta, real[t], kept, d_pre[t], d_f[t])
        dw_r = recurrence.weight_gradient(recurrence.previous(hs, h0.float(), reverse=ctx.reverse), d_f)
        d_peepholes = _peepholes_gradient(d_pre, previous_s, ss)
        dh0 = total(dh).to(h0.dtype)
        return d_f, dw_r, d_peepholes.to(peepholes.dtype), dh0, ds.to(s0.dtype), None, None, None


class _Step(torch.autograd.Function):
    """One step of a training loop that shares its weights: state and cell (B, H) in float32."""

    @staticmethod
    def forward(
        ctx: Any, f: Tensor, h: Tensor, s: Tensor, w_r: Shared, peepholes: Tensor, steps: Steps
    ) -> tuple[Tensor, Tensor]:
        h, s = recurrence.wide(h), recurrence.wide(s)
        theta = peepholes.to(h.dtype).contiguous()
        gates = torch.empty(f.shape, dtype=h.dtype, device=h.device)
        new_h, new_s, h_w = torch.empty_like(h), torch.empty_like(s), h.to(w_r.value.dtype)
        steps.forward(f.contiguous(), State(h, h_w, s), w_r.matrix(), theta, None, gates, State(new_h, new_h, new_s))
        ctx.save_for_backward(h_w, theta, gates, s, new_s)
        ctx.weight, ctx.steps = w_r, steps
        return new_h, new_s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor, grad_s: Tensor) -> tuple[Any, ...]:
        h_w, theta, gates, s, new_s = ctx.saved_tensors
        d_pre = torch.empty_like(gates)
        d_w, w_t = recurrence.place(d_pre, h_w.dtype), ctx.weight.matrix(transposed=True)
        dh, ds = ctx.steps.backward(
            [grad_h.contiguous()], grad_s.contiguous(), w_t, theta, None, Kept(gates, s, new_s), d_pre, d_w
        )
        ctx.weight.note(h_w, d_w)
        return d_w, total(dh), ds, None, _peepholes_gradient(d_pre, s, new_s), None


def _peepholes_gradient(d_pre: Tensor, s: Tensor, new_s: Tensor) -> Tensor:
    """The gradient (3, H) from that before the gates' functions (..., 4H) and the cells around the step (..., H).

    Each peephole's gradient is that of its gate times the cell it saw, the old one but for o.
    """
    _, di, dg, do = d_pre.flatten(0, -2).chunk(4, dim=-1)
    s, new_s = s.flatten(0, -2), new_s.flatten(0, -2)
    return torch.stack([(di * s).sum(0), (dg * s).sum(0), (do * new_s).sum(0)])
