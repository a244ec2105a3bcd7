"""Recurrences over whole sequences: a forward loop that keeps what backward needs, and a backward by hand.

Each is the plain loop in ``reference.py`` made fast: in the loop only the state's product and in-place
pointwise work, and the gradient of the recurrent weights as one product after the backward loop.
Sequences are time-major here, so that one step is one block of memory.

Products are done in the dtype of the weights (float32 or bfloat16); states and gates are float32.

Letters: T steps, B rows, H hidden. ``mask`` is (T, B), True at real steps; a masked step hands the state on
unchanged. ``reverse`` runs from the last step to the first.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops.padding import full_steps


def lstm(
    f: Tensor, w_r: Tensor, peepholes: Tensor, h0: Tensor, s0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The LSTM with peepholes of Zhou et al. 2016, eq. 4.

    f (T, B, 4H) transformed inputs in the order input, input gate, forget gate, output gate; w_r (H, 4H);
    peepholes (3, H) for those three gates; h0, s0 (B, H). Gives h (T, B, H) and the last h and s (B, H).
    """
    return _LSTM.apply(f, w_r.to(f.dtype), peepholes, h0, s0, mask, reverse)  # type: ignore[no-any-return]


def gru(
    x: Tensor, u_gates: Tensor, u: Tensor, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """The GRU of Cho 2014 and Bahdanau et al. 2015 (A.1.1), whose reset gate acts before the product.

    x (T, B, 3H) transformed inputs in the order reset, update, candidate; u_gates (H, 2H); u (H, H);
    h0 (B, H). Gives h (T, B, H) and the last h (B, H).
    """
    return _GRU.apply(x, u_gates.to(x.dtype), u.to(x.dtype), h0, mask, reverse)  # type: ignore[no-any-return]


def lau(
    x: Tensor, u: Tensor, bias: Tensor, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """The linear associative unit of Wang et al. 2017, eqs. 6 to 8 with f_t = 1 - r_t.

    x (T, B, 5H) transformed inputs in the order reset, update and input gate, candidate, linear map H(x_t);
    u (H, 4H) and bias (4H,) for the first four; h0 (B, H). Gives h (T, B, H) and the last h (B, H).
    """
    return _LAU.apply(x, u.to(x.dtype), bias, h0, mask, reverse)  # type: ignore[no-any-return]


def _steps(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


def _previous(states: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """For every step the state it started from: ``states`` moved by one in the direction of the loop."""
    if reverse:
        return torch.cat([states[1:], first.unsqueeze(0)])
    return torch.cat([first.unsqueeze(0), states[:-1]])


def _add_product(out: Tensor, x: Tensor, h: Tensor, w: Tensor) -> None:
    """out = x + h w, with the product in the dtype of w."""
    if w.dtype == out.dtype == x.dtype:
        torch.addmm(x, h, w, out=out)
    else:
        out.copy_(x).add_(h.to(w.dtype) @ w)


def _weight_gradient(states: Tensor, pre: Tensor, dtype: torch.dtype) -> Tensor:
    """Sum over steps and rows of state times pre-activation gradient: (T, B, H), (T, B, G) -> (H, G)."""
    return states.flatten(0, 1).t().to(dtype) @ pre.flatten(0, 1).to(dtype)


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, f: Tensor, w_r: Tensor, peepholes: Tensor, h0: Tensor, s0: Tensor, mask: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        length, rows, width = f.shape[0], f.shape[1], f.shape[2] // 4
        gates = torch.empty(f.shape, dtype=torch.float32, device=f.device)
        hs, ss = gates.new_empty(length, rows, width), gates.new_empty(length, rows, width)
        h, s = h0.float(), s0.float()
        theta_i, theta_f, theta_o = peepholes.float()
        full = full_steps(mask, length)
        for t in _steps(length, reverse):
            _add_product(gates[t], f[t], h, w_r)
            z, i, g, o = gates[t].chunk(4, dim=-1)
            i.addcmul_(s, theta_i)
            g.addcmul_(s, theta_f)
            z.tanh_()
            gates[t, :, width : 3 * width].sigmoid_()
            torch.mul(z, i, out=ss[t])
            ss[t].addcmul_(g, s)
            o.addcmul_(ss[t], theta_o).sigmoid_()
            torch.tanh(ss[t], out=hs[t])
            hs[t].mul_(o)
            if mask is not None and not full[t]:
                real = mask[t].unsqueeze(-1)
                torch.where(real, ss[t], s, out=ss[t])
                torch.where(real, hs[t], h, out=hs[t])
            h, s = hs[t], ss[t]
        ctx.save_for_backward(gates, hs, ss, w_r, peepholes, h0, s0, mask)
        ctx.reverse = reverse
        ctx.set_materialize_grads(False)
        return hs.to(f.dtype), h.clone(), s.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None, grad_s: Tensor | None) -> tuple[Any, ...]:
        gates, hs, ss, w_r, peepholes, h0, s0, mask = ctx.saved_tensors
        length, rows, width = hs.shape
        theta_i, theta_f, theta_o = peepholes.float()
        previous_s = _previous(ss, s0.float(), ctx.reverse)
        d_pre = torch.empty_like(gates)
        dh = torch.zeros_like(hs[0]) if grad_h is None else grad_h.float()
        ds = torch.zeros_like(hs[0]) if grad_s is None else grad_s.float()
        w_back = w_r.t()
        full = full_steps(mask, length)
        for t in reversed(_steps(length, ctx.reverse)):
            if grad_hs is not None:
                dh = dh + grad_hs[t]
            passed_h = passed_s = None
            if mask is not None and not full[t]:
                real = mask[t].unsqueeze(-1)
                passed_h, passed_s = dh.masked_fill(real, 0), ds.masked_fill(real, 0)
                dh, ds = dh.masked_fill(~real, 0), ds.masked_fill(~real, 0)
            z, i, g, o = gates[t].chunk(4, dim=-1)
            dz, di, dg, do = d_pre[t].chunk(4, dim=-1)
            tanh_s = ss[t].tanh()
            torch.mul(dh, tanh_s, out=do)
            do.mul_(o).mul_(1 - o)
            ds = ds + dh * o * (1 - tanh_s * tanh_s) + do * theta_o
            torch.mul(ds, i, out=dz)
            dz.mul_(1 - z * z)
            torch.mul(ds, z, out=di)
            di.mul_(i).mul_(1 - i)
            torch.mul(ds, previous_s[t], out=dg)
            dg.mul_(g).mul_(1 - g)
            ds = (ds * g).addcmul_(di, theta_i).addcmul_(dg, theta_f)
            dh = (d_pre[t].to(w_r.dtype) @ w_back).float()
            if passed_h is not None:
                dh, ds = dh + passed_h, ds + passed_s
        previous_h = _previous(hs, h0.float(), ctx.reverse)
        dw_r = _weight_gradient(previous_h, d_pre, w_r.dtype)
        _, di, dg, do = d_pre.chunk(4, dim=-1)
        d_peepholes = torch.stack(
            [(di * previous_s).sum((0, 1)), (dg * previous_s).sum((0, 1)), (do * ss).sum((0, 1))]
        )
        return d_pre.to(w_r.dtype), dw_r, d_peepholes.to(peepholes.dtype), dh.to(h0.dtype), ds.to(s0.dtype), None, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, u_gates: Tensor, u: Tensor, h0: Tensor, mask: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        length, rows, width = x.shape[0], x.shape[1], x.shape[2] // 3
        gates = torch.empty(length, rows, 2 * width, dtype=torch.float32, device=x.device)
        candidates, resets, hs = (gates.new_empty(length, rows, width) for _ in range(3))
        h = h0.float()
        full = full_steps(mask, length)
        for t in _steps(length, reverse):
            _add_product(gates[t], x[t, :, : 2 * width], h, u_gates)
            r, z = gates[t].sigmoid_().chunk(2, dim=-1)
            torch.mul(r, h, out=resets[t])
            _add_product(candidates[t], x[t, :, 2 * width :], resets[t], u)
            torch.lerp(h, candidates[t].tanh_(), z, out=hs[t])
            if mask is not None and not full[t]:
                torch.where(mask[t].unsqueeze(-1), hs[t], h, out=hs[t])
            h = hs[t]
        ctx.save_for_backward(gates, candidates, resets, hs, u_gates, u, h0, mask)
        ctx.reverse = reverse
        ctx.set_materialize_grads(False)
        return hs.to(x.dtype), h.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None) -> tuple[Any, ...]:
        gates, candidates, resets, hs, u_gates, u, h0, mask = ctx.saved_tensors
        length, rows, width = hs.shape
        previous = _previous(hs, h0.float(), ctx.reverse)
        d_pre = gates.new_empty(length, rows, 3 * width)
        dh = torch.zeros_like(hs[0]) if grad_h is None else grad_h.float()
        u_back, gates_back = u.t(), u_gates.t()
        full = full_steps(mask, length)
        for t in reversed(_steps(length, ctx.reverse)):
            if grad_hs is not None:
                dh = dh + grad_hs[t]
            passed = None
            if mask is not None and not full[t]:
                real = mask[t].unsqueeze(-1)
                passed = dh.masked_fill(real, 0)
                dh = dh.masked_fill(~real, 0)
            r, z = gates[t].chunk(2, dim=-1)
            dr, dz, dc = d_pre[t].chunk(3, dim=-1)
            torch.mul(dh, z, out=dc)
            dc.mul_(1 - candidates[t] * candidates[t])
            d_reset = (dc.to(u.dtype) @ u_back).float()
            torch.mul(dh, candidates[t] - previous[t], out=dz)
            dz.mul_(z).mul_(1 - z)
            torch.mul(d_reset, previous[t], out=dr)
            dr.mul_(r).mul_(1 - r)
            dh = dh * (1 - z) + d_reset * r + (d_pre[t, :, : 2 * width].to(u.dtype) @ gates_back)
            if passed is not None:
                dh = dh + passed
        du_gates = _weight_gradient(previous, d_pre[:, :, : 2 * width], u_gates.dtype)
        du = _weight_gradient(resets, d_pre[:, :, 2 * width :], u.dtype)
        return d_pre.to(u.dtype), du_gates, du, dh.to(h0.dtype), None, None


class _LAU(torch.autograd.Function):
    """The candidate is tanh(x_c + b + r (h U_c - x_c)). The difference takes the fourth place beside the gates."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, u: Tensor, bias: Tensor, h0: Tensor, mask: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        length, rows, width = x.shape[0], x.shape[1], x.shape[2] // 5
        gates = torch.empty(length, rows, 4 * width, dtype=torch.float32, device=x.device)
        hs = gates.new_empty(length, rows, width)
        x_gates, x_candidate, linear = x.split([3 * width, width, width], dim=-1)
        gates[:, :, : 3 * width] = x_gates + bias[: 3 * width]
        gates[:, :, 3 * width :] = -x_candidate
        candidates = (x_candidate + bias[3 * width :]).float()
        linear = linear.float().contiguous()  # a copy, so that the rest of x can go
        h = h0.float()
        full = full_steps(mask, length)
        for t in _steps(length, reverse):
            _add_product(gates[t], gates[t], h, u)
            gates[t, :, : 3 * width].sigmoid_()
            r, z, g, difference = gates[t].chunk(4, dim=-1)
            candidates[t].addcmul_(r, difference).tanh_()
            torch.lerp(h, candidates[t], z, out=hs[t])
            hs[t].lerp_(linear[t], g)
            if mask is not None and not full[t]:
                torch.where(mask[t].unsqueeze(-1), hs[t], h, out=hs[t])
            h = hs[t]
        ctx.save_for_backward(gates, candidates, linear, hs, u, bias, h0, mask)
        ctx.reverse = reverse
        ctx.set_materialize_grads(False)
        return hs.to(x.dtype), h.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None) -> tuple[Any, ...]:
        gates, candidates, linear, hs, u, bias, h0, mask = ctx.saved_tensors
        length, rows, width = hs.shape
        previous = _previous(hs, h0.float(), ctx.reverse)
        d_x = gates.new_empty(length, rows, 5 * width)
        d_candidates = torch.empty_like(candidates)  # before the tanh
        dh = torch.zeros_like(hs[0]) if grad_h is None else grad_h.float()
        u_back = u.t()
        full = full_steps(mask, length)
        for t in reversed(_steps(length, ctx.reverse)):
            if grad_hs is not None:
                dh = dh + grad_hs[t]
            passed = None
            if mask is not None and not full[t]:
                real = mask[t].unsqueeze(-1)
                passed = dh.masked_fill(real, 0)
                dh = dh.masked_fill(~real, 0)
            r, z, g, difference = gates[t].chunk(4, dim=-1)
            dr, dz, dg, d_product, d_linear = d_x[t].chunk(5, dim=-1)
            dc = d_candidates[t]
            torch.mul(dh, g, out=d_linear)
            torch.sub(linear[t], torch.lerp(previous[t], candidates[t], z), out=dg)
            dg.mul_(d_linear).mul_(1 - g)
            dh = dh - d_linear
            torch.mul(dh, z, out=dc)
            torch.sub(candidates[t], previous[t], out=dz)
            dz.mul_(dc).mul_(1 - z)
            dh = dh - dc
            dc.mul_(1 - candidates[t] * candidates[t])
            torch.mul(dc, r, out=d_product)
            torch.mul(d_product, difference, out=dr)
            dr.mul_(1 - r)
            dh = dh + d_x[t, :, : 4 * width].to(u.dtype) @ u_back
            if passed is not None:
                dh = dh + passed
        du = _weight_gradient(previous, d_x[:, :, : 4 * width], u.dtype)
        d_bias = torch.cat([d_x[:, :, : 3 * width].sum((0, 1)), d_candidates.sum((0, 1))])
        d_x[:, :, 3 * width : 4 * width].neg_().add_(d_candidates)  # x_c has what its product with r has not
        return d_x.to(u.dtype), du, d_bias.to(bias.dtype), dh.to(h0.dtype), None, None
