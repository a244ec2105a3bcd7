"""Additive attention equals its plain version, for any number of queries per sentence."""

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.ops import attention
from tests.laws import assert_near, gradients, representable
from tests.ops import oracle

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}  # of the largest element
SIZES = [(3, 5, 7, 4), (1, 4, 3, 3), (2, 1, 3, 5), (1, 1, 1, 1)]  # B, S, A, D


def inputs(sentences: int, length: int, width: int, values: int, beams: int = 1) -> tuple[list[Tensor], Tensor]:
    """Query, keys, values, v in float64 with bfloat16 values, and a mask of sentences of different lengths."""
    shapes = [(sentences * beams, width), (sentences, length, width), (sentences, length, values), (width,)]
    lengths = torch.tensor([max(1, length - 2 * row) for row in range(sentences)])
    return representable(*shapes, seed=length), torch.arange(length) < lengths.unsqueeze(1)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)], ids=["context", "weights", "both"])
@pytest.mark.parametrize("sizes", SIZES)
def test_outputs_and_all_gradients_equal_the_plain_version(
    dtype: torch.dtype, used: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    plain, mask = inputs(*sizes)
    fast = [x.to(dtype).requires_grad_() for x in plain[:3]] + [plain[3].float().requires_grad_()]
    plain = [x.requires_grad_() for x in plain]
    expected, results = oracle.additive_attention(*plain, mask), attention.additive(*fast, mask)
    with torch.no_grad():
        searched = attention.additive(*fast, mask)
    for found in (results, searched):
        assert [r.dtype for r in found] == [dtype, torch.float32]
        for ours, theirs in zip(found, expected, strict=True):
            assert_near(ours, theirs, TOLERANCE[dtype])
    ours = gradients(tuple(results[i] for i in used), fast)
    theirs = gradients(tuple(expected[i] for i in used), plain)
    for mine, other in zip(ours, theirs, strict=True):
        assert_near(mine, other, TOLERANCE[dtype])


@pytest.mark.parametrize("beams", [2, 3])
@pytest.mark.parametrize("gradient", [False, True], ids=["search", "training"])
@pytest.mark.parametrize("sizes", SIZES)
def test_several_queries_per_sentence_equal_the_sentence_repeated(
    beams: int, gradient: bool, sizes: tuple[int, ...]
) -> None:
    tensors, mask = inputs(*sizes, beams)
    query, keys, values, v = (x.float() for x in tensors)
    apart = [x.repeat_interleave(beams, dim=0) for x in (keys, values, mask)]
    with torch.set_grad_enabled(gradient):
        together = attention.additive(query, keys, values, v, mask)
        torch.testing.assert_close(together, attention.additive(query, apart[0], apart[1], v, apart[2]))


def test_padding_has_weight_0_and_the_weights_sum_to_one() -> None:
    tensors, mask = inputs(3, 5, 4, 2)
    _, weights = attention.additive(*(x.float() for x in tensors), mask)
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(3))


@pytest.mark.parametrize("gradient", [False, True], ids=["search", "training"])
def test_values_at_padding_change_nothing(gradient: bool) -> None:
    tensors, mask = inputs(3, 5, 4, 2)
    query, keys, values, v = (x.float() for x in tensors)
    padding = ~mask.unsqueeze(-1)
    with torch.set_grad_enabled(gradient):
        expected = attention.additive(query, keys, values, v, mask)
        garbage = attention.additive(query, keys.masked_fill(padding, 50.0), values.masked_fill(padding, 1e6), v, mask)
    torch.testing.assert_close(garbage, expected, rtol=0, atol=0)


def test_the_plain_version_is_the_alignment_model_of_bahdanau_et_al() -> None:
    (query, keys, values, v), mask = inputs(3, 5, 4, 2)
    context, weights = oracle.additive_attention(query, keys, values, v, mask)
    for b in range(3):
        energies = np.array([v.numpy() @ np.tanh(query[b].numpy() + key) for key in keys[b][mask[b]].numpy()])
        alpha = np.exp(energies) / np.exp(energies).sum()
        np.testing.assert_allclose(weights[b][mask[b]], alpha, rtol=1e-12)
        np.testing.assert_allclose(context[b], alpha @ values[b][mask[b]].numpy(), rtol=1e-12)


def test_the_plain_gradient_is_the_slope() -> None:
    variables, mask = inputs(2, 3, 2, 2)
    assert torch.autograd.gradcheck(
        lambda *x: oracle.additive_attention(*x, mask), [x.requires_grad_() for x in variables]
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_attention_from_exponentials_is_attention(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(beam)
    query, keys, values, v = (
        torch.randn(shape, generator=random) for shape in ((4 * beam, 6), (4, 5, 6), (4, 5, 7), (6,))
    )
    query[0], keys[1] = 9 * query[0], -9 * keys[1]
    mask = torch.arange(5) < torch.tensor([[5], [1], [3], [2]])
    expected = attention.additive(query, keys, values, v, mask)
    for part in (1, 2 * beam * 5 * 6, attention.PART):  # sentences one by one, by twos, together
        monkeypatch.setattr(attention, "PART", part)
        found = attention.quick_additive(query, attention.exponential(keys), values, v, mask)
        torch.testing.assert_close(found, expected)


def test_attention_from_exponentials_is_finite_however_large_queries_and_keys_are() -> None:
    huge = torch.tensor([[1e30, -1e30, 300.0]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    keys = attention.exponential(torch.stack([huge, -huge], dim=1))
    context, weights = attention.quick_additive(huge, keys, torch.ones(1, 2, 4), torch.ones(3), mask)
    torch.testing.assert_close(context, torch.ones(1, 4))
    torch.testing.assert_close(weights.sum(1), torch.ones(1))


@pytest.mark.usefixtures("operations")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_and_values_have_a_gradient_in_every_dtype(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(4)
    shapes = [(6, 32), (3, 4, 32), (3, 4, 16), (32,)]
    given = [torch.randn(shape, generator=random).to(dtype).requires_grad_() for shape in shapes]
    context, _ = attention.additive(*given, torch.ones(3, 4, dtype=torch.bool))
    gradients = torch.autograd.grad(context.float().square().sum(), given)
    assert all(gradient.any() for gradient in gradients)
