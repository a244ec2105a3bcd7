"""One step of each recurrence of ``recurrence.py`` in plain operations, in place. ``kernels.py`` has the same functions
for a GPU.

A step is a product with the state and the pointwise rest. ``real`` is what ``masks`` made of the mask: where it is
False a step hands its state on and backward its gradient. ``h_w`` is h in the dtype of the weights, ``d_w`` the
gradient of what the product is added to; in float32 they are the same memory as h and as that gradient.

Backward takes the gradient of the state as the terms of a sum and gives back that of the state before: one of them is
its product.

Letters: B rows, H hidden.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.ops.padding import full_steps


def masks(mask: Tensor | None, length: int) -> list[Tensor | None]:
    """Of every step the mask (B, 1), or None where all rows are real; mask (T, B)."""
    full = full_steps(mask, length)
    return [None if mask is None or full[t] else mask[t].unsqueeze(-1) for t in range(length)]


def unbind(x: Tensor | None) -> Sequence[Tensor] | None:
    """The steps of a sequence that was made elsewhere, if there is one: (T, B, G) -> T times (B, G)."""
    return None if x is None else x.unbind()


def total(terms: Sequence[Tensor]) -> Tensor:
    """Their sum in float32."""
    result = terms[0].float()
    for term in terms[1:]:
        result = result + term
    return result


def _add_product(out: Tensor, x: Tensor, h_w: Tensor, w: Tensor) -> None:
    """out = x + h w, with the product in the dtype of w."""
    if w.dtype == out.dtype == x.dtype:
        torch.addmm(x, h_w, w, out=out)
    else:
        out.copy_(x).add_(h_w @ w)


def _hand_on(real: Tensor | None, new: Tensor, old: Tensor) -> None:
    """In place of the new state the old one where the step is not real."""
    if real is not None:
        torch.where(real, new, old, out=new)


def _copy(source: Tensor, to: Tensor) -> None:
    """From float32 to the dtype of the weights, unless that is the same memory."""
    if to.dtype != source.dtype:
        to.copy_(source)


def _divide(gradient: Tensor, real: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """A state's gradient as what a step has to go back through, and what it hands on, if it may."""
    if real is None:
        return gradient, []
    return gradient.masked_fill(~real, 0), [gradient.masked_fill(real, 0)]


def lstm(
    f: Tensor, h: Tensor, h_w: Tensor, s: Tensor, w: Tensor, peepholes: Sequence[Tensor], real: Tensor | None,
    gates: Tensor, new_h: Tensor, new_h_w: Tensor, new_s: Tensor,
) -> None:  # fmt: skip
    """f (B, 4H), w (H, 4H), peepholes 3 times (H,); writes gates (B, 4H) and the new states."""
    width = s.shape[1]
    theta_i, theta_f, theta_o = peepholes
    _add_product(gates, f, h_w, w)
    z, i, g, o = gates.chunk(4, dim=-1)
    i.addcmul_(s, theta_i)
    g.addcmul_(s, theta_f)
    z.tanh_()
    gates[:, width : 3 * width].sigmoid_()
    torch.mul(z, i, out=new_s)
    new_s.addcmul_(g, s)
    o.addcmul_(new_s, theta_o).sigmoid_()
    torch.tanh(new_s, out=new_h)
    new_h.mul_(o)
    _hand_on(real, new_s, s)
    _hand_on(real, new_h, h)
    _copy(new_h, new_h_w)


def lstm_backward(
    dh_terms: Sequence[Tensor], ds: Tensor, w_t: Tensor, peepholes: Sequence[Tensor], real: Tensor | None,
    gates: Tensor, s: Tensor, new_s: Tensor, d_pre: Tensor, d_w: Tensor,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    """Writes d_pre (B, 4H), of the gates before their functions; gives the terms of dh, and ds, of the step before."""
    theta_i, theta_f, theta_o = peepholes
    (dh, passed_h), (ds, passed_s) = _divide(total(dh_terms), real), _divide(ds, real)
    z, i, g, o = gates.chunk(4, dim=-1)
    dz, di, dg, do = d_pre.chunk(4, dim=-1)
    tanh_s = new_s.tanh()
    torch.mul(dh, tanh_s, out=do)
    do.mul_(o).mul_(1 - o)
    ds = ds + dh * o * (1 - tanh_s * tanh_s) + do * theta_o
    torch.mul(ds, i, out=dz)
    dz.mul_(1 - z * z)
    torch.mul(ds, z, out=di)
    di.mul_(i).mul_(1 - i)
    torch.mul(ds, s, out=dg)
    dg.mul_(g).mul_(1 - g)
    ds = (ds * g).addcmul_(di, theta_i).addcmul_(dg, theta_f)
    _copy(d_pre, d_w)
    return [d_w @ w_t, *passed_h], total([ds, *passed_s])


def gru(
    x: Tensor, h: Tensor, h_w: Tensor, u_gates: Tensor, u: Tensor, real: Tensor | None,
    gates: Tensor, reset: Tensor, candidate: Tensor, new_h: Tensor, new_h_w: Tensor,
) -> None:  # fmt: skip
    """x (B, 3H); writes gates (B, 2H), reset and candidate (B, H), and the new state. reset has the weights' dtype."""
    width = h.shape[1]
    _add_product(gates, x[:, : 2 * width], h_w, u_gates)
    r, z = gates.sigmoid_().chunk(2, dim=-1)
    torch.mul(r, h, out=reset)
    _add_product(candidate, x[:, 2 * width :], reset, u)
    torch.lerp(h, candidate.tanh_(), z, out=new_h)
    _hand_on(real, new_h, h)
    _copy(new_h, new_h_w)


def gru_backward(
    dh_terms: Sequence[Tensor], u_gates_t: Tensor, u_t: Tensor, real: Tensor | None, gates: Tensor, candidate: Tensor,
    h: Tensor, d_w: Tensor,
) -> list[Tensor]:  # fmt: skip
    """Writes d_w (B, 3H), of both gates and the candidate before their functions; gives dh of the step before."""
    width = h.shape[1]
    dh, passed = _divide(total(dh_terms), real)
    d_pre = d_w if d_w.dtype == dh.dtype else torch.empty_like(d_w, dtype=dh.dtype)
    r, z = gates.chunk(2, dim=-1)
    dr, dz, dc = d_pre.chunk(3, dim=-1)
    torch.mul(dh, z, out=dc)
    dc.mul_(1 - candidate * candidate)
    d_reset = (dc.to(u_t.dtype) @ u_t).float()
    torch.mul(dh, candidate - h, out=dz)
    dz.mul_(z).mul_(1 - z)
    torch.mul(d_reset, h, out=dr)
    dr.mul_(r).mul_(1 - r)
    _copy(d_pre, d_w)
    return [dh * (1 - z) + d_reset * r, d_w[:, : 2 * width] @ u_gates_t, *passed]


def lau(
    h: Tensor, h_w: Tensor, u: Tensor, real: Tensor | None, linear: Tensor,
    gates: Tensor, candidate: Tensor, new_h: Tensor, new_h_w: Tensor,
) -> None:  # fmt: skip
    """gates (B, 4H) and candidate (B, H) come with what is from the input (see ``recurrence._LAU``), linear (B, H) is
    H(x); writes both and the new state."""
    width = h.shape[1]
    _add_product(gates, gates, h_w, u)
    gates[:, : 3 * width].sigmoid_()
    r, z, g, difference = gates.chunk(4, dim=-1)
    candidate.addcmul_(r, difference).tanh_()
    torch.lerp(h, candidate, z, out=new_h)
    new_h.lerp_(linear, g)
    _hand_on(real, new_h, h)
    _copy(new_h, new_h_w)


def lau_backward(
    dh_terms: Sequence[Tensor], u_t: Tensor, real: Tensor | None, linear: Tensor, gates: Tensor, candidate: Tensor,
    h: Tensor, dc: Tensor, d_x: Tensor, d_w: Tensor,
) -> list[Tensor]:  # fmt: skip
    """Writes dc (B, H), of the candidate before its tanh, and d_x (B, 5H): of the gates before their functions, of the
    product beside them, and of H(x). d_w (B, 4H) is all but the last. Gives dh of the step before."""
    width = h.shape[1]
    dh, passed = _divide(total(dh_terms), real)
    r, z, g, difference = gates.chunk(4, dim=-1)
    dr, dz, dg, d_product, d_linear = d_x.chunk(5, dim=-1)
    torch.mul(dh, g, out=d_linear)
    torch.sub(linear, torch.lerp(h, candidate, z), out=dg)
    dg.mul_(d_linear).mul_(1 - g)
    dh = dh - d_linear
    torch.mul(dh, z, out=dc)
    torch.sub(candidate, h, out=dz)
    dz.mul_(dc).mul_(1 - z)
    dh = dh - dc
    dc.mul_(1 - candidate * candidate)
    torch.mul(dc, r, out=d_product)
    torch.mul(d_product, difference, out=dr)
    dr.mul_(1 - r)
    _copy(d_x[:, : 4 * width], d_w)
    return [dh, d_w @ u_t, *passed]
