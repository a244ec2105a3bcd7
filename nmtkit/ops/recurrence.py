"""Recurrences over whole sequences: a forward loop that keeps what backward needs, and a backward by hand.

Each is the plain loop in ``reference.py`` made fast: in the loop only the state's product and in-place
pointwise work, and the gradient of the recurrent weights as one product after the backward loop.
Sequences are time-major here, so that one step is one block of memory. The steps themselves are in ``steps.py``,
and for a GPU in ``kernels.py``.

Products are done in the dtype of the weights (float32 or bfloat16); states and gates are float32.

Letters: T steps, B rows, H hidden. ``mask`` is (T, B), True at real steps; a masked step hands the state on
unchanged. ``reverse`` runs from the last step to the first.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops import steps, trusted
from nmtkit.ops.steps import total


def lstm(
    f: Tensor, w_r: Tensor, peepholes: Tensor, h0: Tensor, s0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The LSTM with peepholes of Zhou et al. 2016, eq. 4.

    f (T, B, 4H) transformed inputs in the order input, input gate, forget gate, output gate; w_r (H, 4H);
    peepholes (3, H) for those three gates; h0, s0 (B, H). Gives h (T, B, H) and the last h and s (B, H).
    """
    return _LSTM.apply(f, w_r.to(f.dtype), peepholes, h0, s0, mask, reverse, _step(f))  # type: ignore[no-any-return]


def gru(
    x: Tensor, u_gates: Tensor, u: Tensor, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """The GRU of Cho 2014 and Bahdanau et al. 2015 (A.1.1), whose reset gate acts before the product.

    x (T, B, 3H) transformed inputs in the order reset, update, candidate; u_gates (H, 2H); u (H, H);
    h0 (B, H). Gives h (T, B, H) and the last h (B, H).
    """
    return _GRU.apply(x, u_gates.to(x.dtype), u.to(x.dtype), h0, mask, reverse, _step(x))  # type: ignore[no-any-return]


def lau(
    x: Tensor, u: Tensor, bias: Tensor, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """The linear associative unit of Wang et al. 2017, eqs. 6 to 8 with f_t = 1 - r_t.

    x (T, B, 5H) transformed inputs in the order reset, update and input gate, candidate, linear map H(x_t);
    u (H, 4H) and bias (4H,) for the first four; h0 (B, H). Gives h (T, B, H) and the last h (B, H).
    """
    return _LAU.apply(x, u.to(x.dtype), bias, h0, mask, reverse, _step(x))  # type: ignore[no-any-return]


def _steps(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


def _previous(states: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """For every step the state it started from: ``states`` moved by one in the direction of the loop."""
    if reverse:
        return torch.cat([states[1:], first.unsqueeze(0)])
    return torch.cat([first.unsqueeze(0), states[:-1]])


def _place(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Where x goes in ``dtype``: x itself if it has that."""
    return x if x.dtype == dtype else torch.empty_like(x, dtype=dtype)


def _weight_gradient(states: Tensor, pre: Tensor) -> Tensor:
    """Sum over steps and rows of state times pre-activation gradient: (T, B, H), (T, B, G) -> (H, G)."""
    return states.flatten(0, 1).t().to(pre.dtype) @ pre.flatten(0, 1)


def _start(gradient: Tensor | None, states: Tensor) -> Tensor:
    """The gradient of the last state, with which backward starts; states (T, B, H)."""
    return torch.zeros_like(states[0]) if gradient is None else gradient.float().contiguous()


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, f: Tensor, w_r: Tensor, peepholes: Tensor, h0: Tensor, s0: Tensor, mask: Tensor | None, reverse: bool,
        step: ModuleType,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        length, rows, width = f.shape[0], f.shape[1], f.shape[2] // 4
        gates = torch.empty(f.shape, dtype=torch.float32, device=f.device)
        hs, ss = gates.new_empty(length, rows, width), gates.new_empty(length, rows, width)
        outputs = _place(hs, f.dtype)
        h, h_w, s = h0.float().contiguous(), h0.to(f.dtype), s0.float().contiguous()
        theta = peepholes.float().contiguous().unbind()
        inputs, real = step.unbind(f), step.masks(mask, length)
        for t in _steps(length, reverse):
            new = hs[t], outputs[t], ss[t]
            step.lstm(inputs[t], h, h_w, s, w_r, theta, real[t], gates[t], *new)
            h, h_w, s = new
        ctx.save_for_backward(gates, hs, ss, w_r, peepholes, h0, s0, mask)
        ctx.reverse, ctx.step = reverse, step
        ctx.set_materialize_grads(False)
        return outputs, h.clone(), s.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None, grad_s: Tensor | None) -> tuple[Any, ...]:
        gates, hs, ss, w_r, peepholes, h0, s0, mask = ctx.saved_tensors
        length, step = len(hs), ctx.step
        previous_s = _previous(ss, s0.float(), ctx.reverse)
        d_pre = torch.empty_like(gates)
        d_f = _place(d_pre, w_r.dtype)
        dh, ds = [_start(grad_h, hs)], _start(grad_s, hs)
        theta, w_back = peepholes.float().contiguous().unbind(), w_r.t()
        grads, real = step.unbind(grad_hs), step.masks(mask, length)
        for t in reversed(_steps(length, ctx.reverse)):
            if grads is not None:
                dh.append(grads[t])
            dh, ds = step.lstm_backward(
                dh, ds, w_back, theta, real[t], gates[t], previous_s[t], ss[t], d_pre[t], d_f[t]
            )
        dw_r = _weight_gradient(_previous(hs, h0.float(), ctx.reverse), d_f)
        _, di, dg, do = d_pre.chunk(4, dim=-1)
        d_peepholes = torch.stack([(di * previous_s).sum((0, 1)), (dg * previous_s).sum((0, 1)), (do * ss).sum((0, 1))])
        dh0 = total(dh)
        return d_f, dw_r, d_peepholes.to(peepholes.dtype), dh0.to(h0.dtype), ds.to(s0.dtype), None, None, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, u_gates: Tensor, u: Tensor, h0: Tensor, mask: Tensor | None, reverse: bool,
        step: ModuleType,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        length, rows, width = x.shape[0], x.shape[1], x.shape[2] // 3
        gates = torch.empty(length, rows, 2 * width, dtype=torch.float32, device=x.device)
        candidates, hs = gates.new_empty(length, rows, width), gates.new_empty(length, rows, width)
        resets, outputs = torch.empty_like(hs, dtype=x.dtype), _place(hs, x.dtype)
        h, h_w = h0.float().contiguous(), h0.to(x.dtype)
        inputs, real = step.unbind(x), step.masks(mask, length)
        for t in _steps(length, reverse):
            new = hs[t], outputs[t]
            step.gru(inputs[t], h, h_w, u_gates, u, real[t], gates[t], resets[t], candidates[t], *new)
            h, h_w = new
        ctx.save_for_backward(gates, candidates, resets, hs, u_gates, u, h0, mask)
        ctx.reverse, ctx.step = reverse, step
        ctx.set_materialize_grads(False)
        return outputs, h.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None) -> tuple[Any, ...]:
        gates, candidates, resets, hs, u_gates, u, h0, mask = ctx.saved_tensors
        (length, rows, width), step = hs.shape, ctx.step
        previous = _previous(hs, h0.float(), ctx.reverse)
        d_x = torch.empty(length, rows, 3 * width, dtype=u.dtype, device=u.device)
        dh = [_start(grad_h, hs)]
        u_back, gates_back = u.t(), u_gates.t()
        grads, real = step.unbind(grad_hs), step.masks(mask, length)
        for t in reversed(_steps(length, ctx.reverse)):
            if grads is not None:
                dh.append(grads[t])
            dh = step.gru_backward(dh, gates_back, u_back, real[t], gates[t], candidates[t], previous[t], d_x[t])
        du_gates = _weight_gradient(previous, d_x[:, :, : 2 * width])
        du = _weight_gradient(resets, d_x[:, :, 2 * width :])
        return d_x, du_gates, du, total(dh).to(h0.dtype), None, None, None


class _LAU(torch.autograd.Function):
    """The candidate is tanh(x_c + b + r (h U_c - x_c)). The difference takes the fourth place beside the gates."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, u: Tensor, bias: Tensor, h0: Tensor, mask: Tensor | None, reverse: bool, step: ModuleType
    ) -> tuple[Tensor, Tensor]:
        length, rows, width = x.shape[0], x.shape[1], x.shape[2] // 5
        gates = torch.empty(length, rows, 4 * width, dtype=torch.float32, device=x.device)
        hs = gates.new_empty(length, rows, width)
        outputs = _place(hs, x.dtype)
        x_gates, x_candidate, linear = x.split([3 * width, width, width], dim=-1)
        gates[:, :, : 3 * width] = x_gates + bias[: 3 * width]
        gates[:, :, 3 * width :] = -x_candidate
        candidates = (x_candidate + bias[3 * width :]).float().contiguous()
        linear = linear.float().contiguous()  # a copy, so that the rest of x can go
        h, h_w = h0.float().contiguous(), h0.to(x.dtype)
        real = step.masks(mask, length)
        for t in _steps(length, reverse):
            new = hs[t], outputs[t]
            step.lau(h, h_w, u, real[t], linear[t], gates[t], candidates[t], *new)
            h, h_w = new
        ctx.save_for_backward(gates, candidates, linear, hs, u, bias, h0, mask)
        ctx.reverse, ctx.step = reverse, step
        ctx.set_materialize_grads(False)
        return outputs, h.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hs: Tensor | None, grad_h: Tensor | None) -> tuple[Any, ...]:
        gates, candidates, linear, hs, u, bias, h0, mask = ctx.saved_tensors
        (length, rows, width), step = hs.shape, ctx.step
        previous = _previous(hs, h0.float(), ctx.reverse)
        d_x = gates.new_empty(length, rows, 5 * width)
        d_w = _place(d_x[:, :, : 4 * width], u.dtype)
        d_candidates = torch.empty_like(candidates)  # before the tanh
        dh = [_start(grad_h, hs)]
        u_back = u.t()
        grads, real = step.unbind(grad_hs), step.masks(mask, length)
        for t in reversed(_steps(length, ctx.reverse)):
            if grads is not None:
                dh.append(grads[t])
            dh = step.lau_backward(
                dh, u_back, real[t], linear[t], gates[t], candidates[t], previous[t], d_candidates[t], d_x[t], d_w[t]
            )
        du = _weight_gradient(previous, d_w)
        d_bias = torch.cat([d_x[:, :, : 3 * width].sum((0, 1)), d_candidates.sum((0, 1))])
        d_x[:, :, 3 * width : 4 * width].neg_().add_(d_candidates)  # x_c has what its product with r has not
        return d_x.to(u.dtype), du, d_bias.to(bias.dtype), total(dh).to(h0.dtype), None, None, None


def _step(x: Tensor) -> ModuleType:
    """Whose steps are used for x: ``steps``, or on a GPU ``kernels``, which has functions of the same names."""
    return trusted.kernels(_compare, x) or steps


def _compare(kernels: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    """Raises where a result or a gradient with ``kernels`` is not that with ``steps``."""
    random = torch.Generator().manual_seed(1)
    t, b, h = 3, 5, 16  # a width as usual: for one that 16 does not divide Triton would compile another program
    mask = torch.arange(t, device=device).unsqueeze(1) < torch.tensor([3, 1, 2, 3, 1], device=device)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random).to(device, dtype)

    cases = {
        _LSTM: [drawn(t, b, 4 * h), drawn(h, 4 * h), drawn(3, h), drawn(b, h), drawn(b, h)],
        _GRU: [drawn(t, b, 3 * h), drawn(h, 2 * h), drawn(h, h), drawn(b, h)],
        _LAU: [drawn(t, b, 5 * h), drawn(h, 4 * h), drawn(4 * h), drawn(b, h)],
    }
    for function, inputs in cases.items():
        found: dict[ModuleType, list[Tensor]] = {}
        for step in (steps, kernels):
            with torch.inference_mode(False), torch.enable_grad():
                given = [x.clone().requires_grad_() for x in inputs]
                results = function.apply(*given, mask, False, step)
                gradients = torch.autograd.grad(results, given, [result.detach() for result in results])
            found[step] = [*results, *gradients]
        for fused, plain in zip(found[kernels], found[steps], strict=True):
            if not torch.allclose(fused, plain, rtol=0, atol=0.05 * plain.abs().max().item()):
                raise ArithmeticError(f"other results of {function.__name__[1:]}")
