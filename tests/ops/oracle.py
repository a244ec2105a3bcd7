"""The plain form of every fast operation, written from its equations: what the fast one must equal.

The recurrences are loops over the cells' own ``step``, which test_recurrence.py compares with NumPy.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.ops import gru, lau, lstm

State = tuple[Tensor, ...]


def gates(pre: Tensor, gain: Tensor | None, bias: Tensor) -> tuple[Tensor, ...]:
    """sigma(LN(.)) for every gate by itself: pre (N, G H), gain and bias (G, H) -> G times (N, H)."""
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
    """``lau.step`` with a layer normalisation for each gate and with dropout of the candidate."""
    width = h.shape[-1]
    s_gates, state = s.split([bias.numel(), width], dim=-1)
    x_gates, x_candidate, linear = x.split([bias.numel(), width, width], dim=-1)
    r, z, g = gates(x_gates + s_gates, gain, bias)
    candidate = torch.tanh((1 - r) * x_candidate + r * state + candidate_bias)
    mixed = (1 - z) * h + z * (candidate if keep is None else candidate * keep)
    new: Tensor = (1 - g) * mixed + g * linear
    return new


def nematus(x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
    """Miceli Barone et al. 2017, as in their code, with LN(h U + b) in place of every h U: u keeps the old state."""
    width = h.shape[-1]
    s_gates, state = (s if bias is None else s + bias).split([2 * width, width], dim=-1)
    if norms:
        s_gates = functional.layer_norm(s_gates, (2 * width,), norms[0], norms[1], eps=1e-5)
        state = functional.layer_norm(state, (width,), norms[2], norms[3], eps=1e-5)
    x_gates, x_p = (torch.zeros_like(s) if x is None else x).split([2 * width, width], dim=-1)
    r, u = (x_gates + s_gates).sigmoid().chunk(2, dim=-1)
    p = torch.tanh(x_p + r * state)
    new: Tensor = u * h + (1 - u) * p
    return new


def sequence(
    step: Callable[[Tensor, State], State], x: Tensor, state: State, mask: Tensor | None, reverse: bool
) -> tuple[Tensor, ...]:
    """A loop of ``step`` over x (T, B, G) from a state of tensors (B, H): the first of every step, and the last of all.

    A step whose mask (T, B) is False hands the state on.
    """
    outputs = {}
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        new = step(x[t], state)
        real = torch.ones(1, dtype=torch.bool) if mask is None else mask[t].unsqueeze(-1)
        state = tuple(torch.where(real, after, before) for after, before in zip(new, state, strict=True))
        outputs[t] = state[0]
    return torch.stack([outputs[t] for t in range(len(x))]), *state


def lstm_sequence(
    f: Tensor, w_r: Tensor, peepholes: Tensor, h0: Tensor, s0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, ...]:
    """``lstm.sequence``."""
    return sequence(lambda f, state: lstm.step(f, *state, w_r, peepholes), f, (h0, s0), mask, reverse)


def gru_sequence(
    x: Tensor, u_gates: Tensor, u: Tensor, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, ...]:
    """``gru.sequence``."""
    return sequence(lambda x, state: (gru.step(x, *state, u_gates, u),), x, (h0,), mask, reverse)


def lau_sequence(
    x: Tensor, u: Tensor, bias: Tensor, h0: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, ...]:
    """``lau.sequence``."""
    return sequence(lambda x, state: (lau.step(x, *state, u, bias),), x, (h0,), mask, reverse)


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
