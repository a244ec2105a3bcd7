"""Output product, softmax and loss in chunks equal the whole computation, without its largest tensor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmtkit.ops import cross_entropy
from nmtkit.ops.linear import FEW
from tests.laws import representable, tensors_of
from tests.ops import oracle

pytestmark = pytest.mark.usefixtures("operations")

ROWS, HIDDEN, WORDS = 13, 4, 11
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}  # of the largest element


def inputs(rows: int = ROWS, hidden: int = HIDDEN, words: int = WORDS) -> tuple[list[Tensor], Tensor]:
    """hidden, weight, bias in float64 with bfloat16 values, and target."""
    shapes = [(rows, hidden), (words, hidden), (words,)]
    target = torch.randint(words, (rows,), generator=torch.Generator().manual_seed(1))
    return representable(*shapes), target


@contextmanager
def largest_tensor() -> Iterator[list[int]]:
    """Records the number of elements of every tensor that an operation makes."""
    sizes = [0]

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            sizes.extend(x.numel() for x in tensors_of(result))
            return result

    with Record():
        yield sizes


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("rows", "rows_per_chunk"),
    [(ROWS, 1), (ROWS, 4), (ROWS, ROWS), (ROWS, 100), (300, FEW + 1), (700, 600)],
)
def test_loss_and_all_gradients_equal_the_plain_version(
    dtype: torch.dtype, smoothing: float, rows: int, rows_per_chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "chunk_rows", lambda *_: rows_per_chunk)
    plain, target = inputs(rows)
    fast = [plain[0].to(dtype).requires_grad_()] + [x.float().requires_grad_() for x in plain[1:]]
    plain = [x.requires_grad_() for x in plain]
    expected, expected_nll = oracle.cross_entropy(*plain, target, smoothing)
    loss, nll = cross_entropy.linear_cross_entropy(*fast, target, smoothing)
    torch.testing.assert_close(loss, expected, rtol=TOLERANCE[dtype], atol=0)
    torch.testing.assert_close(nll, expected_nll, rtol=TOLERANCE[dtype], atol=0)
    ours = torch.autograd.grad(loss / 7, fast)
    theirs = torch.autograd.grad(expected / 7, plain)
    for mine, other in zip(ours, theirs, strict=True):
        atol = TOLERANCE[dtype] * other.abs().max().item()
        torch.testing.assert_close(mine.double(), other, rtol=0, atol=atol)


@pytest.mark.parametrize("frozen", [0, 1, 2], ids=["hidden", "weight", "bias"])
def test_a_frozen_input_does_not_change_the_other_gradients(frozen: int) -> None:
    tensors, target = inputs()
    leaves = [x.float().requires_grad_() for x in tensors]
    expected = torch.autograd.grad(cross_entropy.linear_cross_entropy(*leaves, target)[0], leaves)
    leaves[frozen].requires_grad_(False)
    cross_entropy.linear_cross_entropy(*leaves, target)[0].backward()
    for i, leaf in enumerate(leaves):
        assert leaf.grad is None if i == frozen else torch.equal(leaf.grad, expected[i])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_tensor_has_a_score_for_every_row_and_word(
    dtype: torch.dtype, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, hidden, words = 64, 4, 2 * cross_entropy.EVEN
    monkeypatch.setattr(cross_entropy, "chunk_rows", lambda *_: 8)
    tensors, target = inputs(rows, hidden, words)
    leaves = [tensors[0].to(dtype).requires_grad_()] + [x.float().requires_grad_() for x in tensors[1:]]
    with largest_tensor() as sizes:
        cross_entropy.linear_cross_entropy(*leaves, target, smoothing)[0].backward()
        cross_entropy.score(*leaves, target)
    assert max(sizes) == 8 * words


def test_the_plain_version_would_fail_that_test() -> None:
    tensors, target = inputs()
    with largest_tensor() as sizes:
        oracle.cross_entropy(*tensors, target)
    assert max(sizes) == ROWS * WORDS


def test_no_rows_have_no_loss_and_no_gradient() -> None:
    tensors, target = inputs(rows=0)
    leaves = [x.float().requires_grad_() for x in tensors]
    loss, nll = cross_entropy.linear_cross_entropy(*leaves, target, 0.1)
    loss.backward()
    assert loss == nll == 0
    assert all(not leaf.grad.any() for leaf in leaves)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_plain_version_is_the_cross_entropy_with_the_smoothed_target(smoothing: float) -> None:
    tensors, target = inputs()
    h, w, b = (x.numpy() for x in tensors)
    loss, nll = oracle.cross_entropy(*tensors, target, smoothing)
    logits = h @ w.T + b
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    wanted = np.full((ROWS, WORDS), smoothing / (WORDS - 1))
    wanted[np.arange(ROWS), target] = 1 - smoothing
    np.testing.assert_allclose(loss, -(wanted * log_p).sum(), rtol=1e-12)
    np.testing.assert_allclose(nll, -log_p[np.arange(ROWS), target].sum(), rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_plain_gradient_is_the_slope(smoothing: float) -> None:
    variables, target = inputs()
    assert torch.autograd.gradcheck(
        lambda *x: oracle.cross_entropy(*x, target, smoothing)[0], [x.requires_grad_() for x in variables]
    )


@pytest.mark.parametrize("rows_per_chunk", [1, 4, 100])
def test_score_gives_every_row_its_log_probability_and_whether_it_is_the_maximum(
    rows_per_chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "chunk_rows", lambda *_: rows_per_chunk)
    tensors, target = inputs()
    hidden, weight, bias = (x.float() for x in tensors)
    log_p = (tensors[0] @ tensors[1].t() + tensors[2]).log_softmax(dim=1)
    target[::2] = log_p[::2].argmax(dim=1)
    log_probs, right = cross_entropy.score(hidden, weight, bias, target)
    torch.testing.assert_close(log_probs.double(), log_p[range(ROWS), target], rtol=1e-5, atol=1e-6)
    assert right.tolist() == (log_p.argmax(dim=1) == target).tolist()
    assert right[::2].all()


def test_in_bfloat16_a_score_has_rounded_products_and_an_exact_bias() -> None:
    (hidden, weight, _), target = inputs()
    bias = torch.linspace(10, 20, WORDS)
    logits = (hidden @ weight.t()).bfloat16() + bias
    log_probs, _ = cross_entropy.score(hidden.bfloat16(), weight.float(), bias, target)
    torch.testing.assert_close(log_probs, logits.log_softmax(dim=1)[range(ROWS), target], rtol=0, atol=1e-5)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_the_loss_of_nan_is_nan(wrong: float) -> None:
    hidden, weight, bias = torch.ones(3, 4), torch.ones(100, 4), torch.zeros(100)
    bias[70] = wrong
    assert cross_entropy.linear_cross_entropy(hidden, weight, bias, torch.arange(3))[0].isnan()
