"""The GRU of Nematus (Miceli Barone et al. 2017, as in their code), one step with a backward by hand.

    r, u = sigma(x_ru + LN(h U_ru + b))         one normalisation spans both gates
    p = tanh(x_p + r * LN(h U_p + b))           the reset gate acts after the product
    h' = u * h + (1 - u) * p                    u keeps the old state

The product with the state, s = h [U_ru, U_p], is left to the caller, so that a loop can share its weights
(``loop.py``). The rest is computed by ``Plain``, in few passes over memory and in the dtype of h, or in float32 by
kernels that replace it on a CPU, ``native/nematus.py``.

Letters: N rows, H hidden.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import trusted
from nmtkit.ops import recurrence
from nmtkit.ops.pointwise import layer_norm_backward, sigmoid_backward, tanh_, tanh_backward

EPSILON = 1e-5  # of both layer normalisations


def step(x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
    """The next state (N, H) from the state h (N, H).

    x: the input's terms of [r, u, p], (N, 3H), or (3H,) for every row, or None for zeros. s (N, 3H): the state's terms,
    before bias (3H,) and layer normalisation. ``norms``: gain and bias of the normalisation of both gates (2H,) and of
    the candidate (H,); empty without normalisation.
    """
    return trusted.choose(PLAIN, _native, _compare, s).step(x, s, h, bias, norms)


class Steps(Protocol):
    """The function above with its backward, in plain operations or by kernels."""

    def step(self, x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
        """See ``step``: the next state (N, H)."""


class Plain:
    """``Steps`` in plain operations."""

    def step(self, x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
        """See ``Steps``: x (N, 3H) or (3H,), s (N, 3H), h (N, H), bias (3H,)."""
        new: Tensor = _Step.apply(x, s, h, bias, *norms)
        return new


PLAIN: Steps = Plain()


def _native() -> Steps:
    from nmtkit.kernels import nematus

    return nematus


def _compare(fused: Steps, device: torch.device, dtype: torch.dtype) -> None:
    """With and without what may be left out; inputs and products in ``dtype``, the rest in float32."""
    random = torch.Generator().manual_seed(1)
    rows, width = recurrence.TRIED[1:]

    def drawn(*shape: int) -> Tensor:
        """Normally distributed numbers of that shape."""
        return torch.randn(shape, generator=random).to(device)

    def of(twin: Steps) -> Callable[..., Tensor]:
        """The step as a function of tensors alone."""
        return lambda x, s, h, bias, *norms: twin.step(x, s, h, bias, norms)

    s, h, bias = drawn(rows, 3 * width).to(dtype), drawn(rows, width), drawn(3 * width)
    norms = [drawn(n * width) for n in (2, 2, 1, 1)]
    for x in (drawn(rows, 3 * width).to(dtype), drawn(3 * width), None):
        for given in ([x, s, h, bias, *norms], [x, s, h, None]):
            recurrence.require_same("the GRU of Nematus", of(fused), of(PLAIN), given)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, *norms: Tensor) -> Tensor:
        s, width = s.to(h.dtype), h.shape[-1]
        if bias is not None:
            s = s + bias
        parts, kept = list(s.split([2 * width, width], dim=-1)), []
        if norms:
            # Gates and candidate are normalised apart, and PyTorch normalises over what lies side by side.
            raw = [part.contiguous() for part in parts]
            kept = list(raw)
            for k, (gain, shift) in enumerate((norms[:2], norms[2:])):
                parts[k], *statistics = torch.native_layer_norm(raw[k], gain.shape, gain, shift, EPSILON)
                kept += statistics
        gates, state = parts
        # An x of one row, a bias for all, is broadcast here and below.
        gates = (gates if x is None else gates + x[..., : 2 * width]).sigmoid()
        r, u = gates.chunk(2, dim=-1)
        p = r * state
        if x is not None:
            p += x[..., 2 * width :]
        p = tanh_(p)
        difference = h - p  # h' = p + u (h - p)
        ctx.save_for_backward(gates, state, p, difference, *norms, *kept)
        ctx.x_dimensions, ctx.has_bias = 0 if x is None else x.ndim, bias is not None
        return torch.addcmul(p, u, difference)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        gates, state, p, difference, *rest = ctx.saved_tensors
        width = dh.shape[1]
        r, u = gates.chunk(2, dim=-1)
        d_old = dh * u
        d_p = tanh_backward(dh - d_old, p)
        # Both gates' gradients side by side, so that sigmoid and normalisation go back through them at once.
        d_gates = torch.empty_like(gates)
        torch.mul(d_p, state, out=d_gates[:, :width])
        torch.mul(dh, difference, out=d_gates[:, width:])
        parts = [sigmoid_backward(d_gates, gates), d_p * r]
        # x is added after the normalisation, s before it: from here on their gradients part.
        dx = None
        if ctx.x_dimensions:
            dx = torch.cat([parts[0], d_p], dim=-1)
            dx = dx if ctx.x_dimensions == 2 else dx.sum(0)  # one row for all: its gradient is the sum of theirs
        d_norms: list[Tensor] = []
        if rest:
            norms, raw, statistics = rest[:4], rest[4:6], rest[6:]
            for k in (0, 1):
                (gain, shift), (mean, rstd) = norms[2 * k : 2 * k + 2], statistics[2 * k : 2 * k + 2]
                parts[k], *d_norm = layer_norm_backward(
                    parts[k], raw[k], gain.shape, mean, rstd, gain, shift, [True, True, True]
                )
                d_norms += d_norm
        ds = torch.cat(parts, dim=-1)
        return dx, ds, d_old, ds.sum(0) if ctx.has_bias else None, *d_norms
