"""GRU, T-GRU, L-GRU and LAU, with or without layer normalisation of the gates.

Every gate is normalised separately, gate_k = sigma(LN_k(x_k + s_k)); without normalisation, sigma(x_k + s_k + b_k).

The GRU, T-GRU (no x) and L-GRU (a third gate l) of Meng and Zhang 2019, eqs. 6 to 16:

    c = tanh(x_c + r * (s_c + b)), in an L-GRU with l * H(x) added
    h' = (1 - z) * h + z * dropout(c)

The linear associative unit (LAU) of Wang et al. 2017, eqs. 6 to 8 with f = 1 - r, a GRU with a gated linear path, whose
third gate is g and whose bias is outside the reset product:

    c = tanh((1 - r) * x_c + r * s_c + b)
    h' = (1 - g) * ((1 - z) * h + z * dropout(c)) + g * H(x)

s = h U is the product with the state.

Letters: N rows, H hidden, G gates. x and s begin with the terms of the gates r, z and the third, followed by those of
the candidate; an x of three gates ends with H(x).
"""

import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.ops.loop import advance
from nmtkit.ops.matrix import Matrix

EPSILON = 1e-6  # of the layer normalisations


def gru(
    x: Tensor | None, h: Tensor, u: Matrix, gain: Tensor | None, bias: Tensor, state_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """The next state (N, H) of a GRU, of a T-GRU (x is None), or of an L-GRU (three gates).

    x (N, 3H, in an L-GRU 5H), h (N, H), u (H, (G+1) H). gain and bias (G, H) of the gates' layer normalisation; gain is
    None without it. state_bias (H,), inside the reset product. keep (N, H): the dropout factors of the candidate, or
    None.
    """
    return advance("gated_gru", plain_gru, x, h, u, h, gain, bias, state_bias, keep)


def lau(
    x: Tensor, h: Tensor, u: Matrix, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """The next state (N, H) of a LAU.

    As ``gru`` with the gates r, z, g: x (N, 5H), h (N, H), u (H, 4H), gain and bias (3, H), keep (N, H).
    candidate_bias (H,) is outside the reset product.
    """
    return advance("gated_lau", plain_lau, x, h, u, h, gain, bias, candidate_bias, keep)


def plain_gru(
    x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """``gru`` after its product, s (N, (G+1) H): x (N, 3H or 5H), h and keep (N, H)."""
    s, sizes = s.to(h.dtype), [bias.numel(), h.shape[-1]]
    s_gates, s_candidate = s.split_with_sizes(sizes, dim=-1)
    x_gates, x_candidate, linear = (None, None, None) if x is None else x.tensor_split([sizes[0], sum(sizes)], dim=-1)
    r, z, *third = _gates(s_gates if x_gates is None else x_gates + s_gates, gain, bias)
    inner = r * (s_candidate + state_bias)
    c = torch.tanh(inner if x_candidate is None else x_candidate + inner)
    if third and linear is not None:
        c = c + third[0] * linear
    return torch.lerp(h, c if keep is None else c * keep, z)


def plain_lau(
    x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """``lau`` after its product, s (N, 4H): x (N, 5H), h and keep (N, H)."""
    width = h.shape[-1]
    s_gates, s_candidate = s.to(h.dtype).split_with_sizes([3 * width, width], dim=-1)
    x_gates, x_candidate, linear = x.split_with_sizes([3 * width, width, width], dim=-1)
    r, z, g = _gates(x_gates + s_gates, gain, bias)
    c = torch.tanh((1 - r) * x_candidate + r * s_candidate + candidate_bias)
    mixed = torch.lerp(h, c if keep is None else c * keep, z)
    return torch.lerp(mixed, linear.to(h.dtype), g)


def _gates(terms: Tensor, gain: Tensor | None, bias: Tensor) -> tuple[Tensor, ...]:
    """The G gates (N, H) from their terms (N, G H), gain and bias (G, H)."""
    terms = terms.unflatten(-1, bias.shape)
    if gain is not None:
        terms = functional.layer_norm(terms, terms.shape[-1:], eps=EPSILON) * gain
    return torch.sigmoid(terms + bias).unbind(dim=-2)
