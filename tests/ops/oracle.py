"""The plain version of every fast operation, written from its equations, which the fast one must equal."""

import torch
from torch import Tensor
from torch.nn import functional


def lstm(x: Tensor, s: Tensor, c: Tensor, peepholes: Tensor) -> tuple[Tensor, Tensor]:
    """Zhou et al. 2016, eq. 4, with rho, phi and pi for the gates: x and s (N, 4H), c (N, H), peepholes (3, H)."""
    z, z_rho, z_phi, z_pi = (x + s).chunk(4, dim=1)
    rho, phi = (z_rho + c * peepholes[0]).sigmoid(), (z_phi + c * peepholes[1]).sigmoid()
    new = z.tanh() * rho + phi * c
    return new.tanh() * (z_pi + new * peepholes[2]).sigmoid(), new


def gru_gates(x: Tensor, s: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Bahdanau et al. 2015, A.1.1: r * h and z, from the terms (N, 2H) of both gates."""
    width = h.shape[1]
    return (x[:, :width] + s[:, :width]).sigmoid() * h, (x[:, width:] + s[:, width:]).sigmoid()


def gru_state(x: Tensor, s: Tensor, h: Tensor, z: Tensor) -> Tensor:
    """The same after the product of r * h: (N, H) each."""
    return (1 - z) * h + z * (x + s).tanh()


def gates(pre: Tensor, gain: Tensor | None, bias: Tensor) -> tuple[Tensor, ...]:
    """sigma(LN(.)) for every gate separately: pre (N, G H), gain and bias (G, H) -> G times (N, H)."""
    pre = pre.unflatten(-1, bias.shape)
    if gain is not None:
        pre = functional.layer_norm(pre, pre.shape[-1:], eps=1e-6) * gain
    return (pre + bias).sigmoid().unbind(dim=-2)


def gated_gru(
    x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """Meng and Zhang 2019: the GRU of eqs. 6 to 9, the T-GRU of eqs. 10 to 13 (no x), the L-GRU of eqs. 14 to 16."""
    width = h.shape[-1]
    if x is None:
        x = torch.zeros_like(s)
    s_gates, state = s.split([bias.numel(), width], dim=-1)
    x_gates, x_candidate, linear = x.tensor_split([bias.numel(), bias.numel() + width], dim=-1)
    r, z, *linear_gate = gates(x_gates + s_gates, gain, bias)
    candidate = torch.tanh(x_candidate + r * (state + state_bias))
    if linear_gate:
        candidate = candidate + linear_gate[0] * linear  # l H(x)
    new: Tensor = (1 - z) * h + z * (candidate if keep is None else candidate * keep)
    return new


def gated_lau(
    x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """Wang et al. 2017, eqs. 6 to 8, with a layer normalisation for each gate and with dropout of the candidate."""
    width = h.shape[-1]
    s_gates, state = s.split([bias.numel(), width], dim=-1)
    x_gates, x_candidate, linear = x.split([bias.numel(), width, width], dim=-1)
    r, z, g = gates(x_gates + s_gates, gain, bias)
    candidate = torch.tanh((1 - r) * x_candidate + r * state + candidate_bias)
    mixed = (1 - z) * h + z * (candidate if keep is None else candidate * keep)
    new: Tensor = (1 - g) * mixed + g * linear
    return new


def nematus(x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, *norms: Tensor | None) -> Tensor:
    """Miceli Barone et al. 2017, as in their code, with LN(h U + b) in place of every h U: u keeps the old state."""
    width = h.shape[-1]
    s_gates, state = (s if bias is None else s + bias).split([2 * width, width], dim=-1)
    if norms[0] is not None:
        s_gates = functional.layer_norm(s_gates, (2 * width,), norms[0], norms[1], eps=1e-5)
        state = functional.layer_norm(state, (width,), norms[2], norms[3], eps=1e-5)
    x_gates, x_p = (torch.zeros_like(s) if x is None else x).split([2 * width, width], dim=-1)
    r, u = (x_gates + s_gates).sigmoid().chunk(2, dim=-1)
    p = torch.tanh(x_p + r * state)
    new: Tensor = u * h + (1 - u) * p
    return new


def additive_attention(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """``attention.additive`` with one query row per sentence (Bahdanau et al. 2015, A.1.2)."""
    scores = (query.unsqueeze(1) + keys).tanh() @ v
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return (weights.unsqueeze(1) @ values).squeeze(1), weights


def cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """``cross_entropy.linear_cross_entropy`` with the whole (R, V) tensor of log-probabilities."""
    log_probs = (hidden @ weight.t() + bias).log_softmax(dim=-1)
    nll = -log_probs.gather(1, target.unsqueeze(1)).sum()
    others = -(log_probs.sum() + nll) / (weight.shape[0] - 1)  # the share of the other V - 1 words
    return (1 - label_smoothing) * nll + label_smoothing * others, nll.detach()


def int8_product(x: Tensor, weight: Tensor, largest: int) -> Tensor:
    """As ``int8.pack(weight)``: rows of x (N, D), columns of weight (D, E), in ``largest`` parts of their largest."""
    step_x = x.abs().amax(dim=1, keepdim=True) / largest
    step_w = weight.abs().amax(dim=0) / largest
    return ((x / step_x).round() * step_x) @ ((weight / step_w).round() * step_w)


def paired_product(x: Tensor, weight: Tensor) -> Tensor:
    """As ``pairs.lay_out(weight)``: rows of x (N, D) in 90 parts of their largest, columns of weight (D, E) in 127.

    A column has fewer where its numbers of one sign in rows 0, 1, 4 and 5 of some eight rows, or in the other four,
    would come to more than 180.
    """
    step_x = x.abs().amax(dim=1, keepdim=True) / 90
    steps = []
    for column in weight.t().tolist():
        fours = [[column[k + i] for i in at] for k in range(0, len(column), 8) for at in ((0, 1, 4, 5), (2, 3, 6, 7))]
        sums = [abs(sum(n for n in four if n * sign > 0)) for four in fours for sign in (1, -1)]
        steps.append(max(max(map(abs, column)) / 127, max(sums) / 180))
    step_w = torch.tensor(steps)
    return ((x / step_x).round() * step_x) @ ((weight / step_w).round() * step_w)
