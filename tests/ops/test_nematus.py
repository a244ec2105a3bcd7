"""The GRU of Marian, with one normalisation: in a loop and its gradients it is PyTorch's own operations."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.ops import nematus
from nmtkit.ops.loop import scan
from tests.laws import assert_same, gradients, leaves

T, B, H = 5, 3, 6


def plain(x: Tensor, h: Tensor, u: Tensor, bias: Tensor | None, gain: Tensor, shift: Tensor) -> Tensor:
    """Marian's equation: r, z, c = sigma(x_r + s_r), sigma(x_z + s_z), tanh(x_c + r s_c) with s = LN(h U + b)."""
    s = h @ u if bias is None else h @ u + bias
    s_r, s_z, s_c = functional.layer_norm(s, (3 * H,), gain, shift, 1e-9).chunk(3, dim=-1)
    x_r, x_z, x_c = x.chunk(3, dim=-1)
    z = (x_z + s_z).sigmoid()
    return z * h + (1 - z) * (x_c + (x_r + s_r).sigmoid() * s_c).tanh()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [True, False])  # an input in every step, or one bias for all of them
def test_one_normalisation_of_gates_and_candidate_is_marians(*, biased: bool, rows: bool) -> None:
    given = leaves((T, B, 3 * H) if rows else (3 * H,), (B, H), (H, 3 * H), (3 * H,), (3 * H,), (3 * H,))
    x, first, u, b, gain, shift = given
    bias = b if biased else None

    def step(term: Tensor, h: Tensor, u: Tensor) -> Tensor:
        return nematus.step(term if rows else x, h, u, bias, [gain, shift])

    steps = x if rows else torch.zeros(T, B, 1)
    ours = scan(step, steps, [first], mask=None, reverse=False, weights=[u])
    h, theirs = first, []
    for t in range(T):
        h = plain(x[t] if rows else x, h, u, bias, gain, shift)
        theirs.append(h)
    assert_same(ours, torch.stack(theirs))
    assert_same(gradients(ours, given), gradients(torch.stack(theirs), given))


def test_a_transition_without_an_input_has_zeros_in_its_place() -> None:
    h, u, gain, shift = leaves((B, H), (H, 3 * H), (3 * H,), (3 * H,))
    ours = nematus.step(None, h, u, None, [gain, shift])
    assert_same(ours, plain(torch.zeros(B, 3 * H), h, u, None, gain, shift))
