"""A loop with shared tensors has the results and gradients of the plain loop."""

import inspect
import itertools
import weakref
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from nmtkit.ops import attention
from nmtkit.ops.linear import FEW
from nmtkit.ops.loop import Shared, scan, share
from nmtkit.ops.matrix import Matrix, product
from tests.laws import assert_near, gradients, representable

pytestmark = pytest.mark.usefixtures("operations")

NAMES = ["state", "query", "update", "keys", "values", "v"]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 3e-2}  # of the largest element
STEPS, SENTENCES, LENGTH, WIDTH = 4, 3, 5, 6


def inputs(sentences: int = SENTENCES) -> tuple[list[Tensor], Tensor]:
    """The tensors of NAMES, in float32 with bfloat16 values, and a mask of sentences of different lengths."""
    rows, square, source = (sentences, WIDTH), (WIDTH, WIDTH), (sentences, LENGTH, WIDTH)
    shapes = [rows, square, square, source, source, (WIDTH,)]
    tensors = [x.float() for x in representable(*shapes, scale=0.5)]
    lengths = torch.tensor([5, 1, 3]).repeat(sentences // SENTENCES)
    return [x.requires_grad_() for x in tensors], torch.arange(LENGTH) < lengths.unsqueeze(1)


def states(steps: int, state: Tensor, attend: Callable[[Tensor], Tensor], weights: Sequence[Matrix]) -> Tensor:
    """A small recurrent network with attention: (T, B, D)."""
    query, update = weights
    found = []
    for _ in range(steps):
        state = (attend(product(state, query)) + product(state, update)).tanh()
        found.append(state)
    return torch.stack(found)


def shared_states(steps: int, tensors: list[Tensor], mask: Tensor) -> Tensor:
    state, query, update, *source = tensors
    return states(steps, *attention.attention_loop(state, *source, mask, query, update))


def plain_states(steps: int, tensors: list[Tensor], mask: Tensor) -> Tensor:
    state, query, update, *source = tensors
    return states(steps, state, lambda rows: attention.additive(rows, *source, mask)[0], [query, update])


@pytest.mark.parametrize(
    ("steps", "sentences"), [(1, SENTENCES), (STEPS, SENTENCES), (STEPS, FEW // STEPS * SENTENCES)]
)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
def test_results_and_all_gradients_equal_the_plain_loop(steps: int, sentences: int, dtype: torch.dtype) -> None:
    tensors, mask = inputs(sentences)
    expected = plain_states(steps, tensors, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        low = [x.to(dtype) if name in ("keys", "values") else x for name, x in zip(NAMES, tensors, strict=True)]
        found = shared_states(steps, low, mask)
    assert_near(found, expected, TOLERANCE[dtype])
    for ours, theirs in zip(gradients(found, tensors), gradients(expected, tensors), strict=True):
        assert_near(ours, theirs, TOLERANCE[dtype])


def test_a_query_may_have_more_precision_than_the_keys() -> None:
    (query, _, _, *shared), mask = inputs()
    expected, _ = attention.additive(query, *shared, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first, attend, _ = attention.attention_loop(query, *shared, mask)
        found = attend(first)
    assert_near(found, expected, TOLERANCE[torch.bfloat16])
    for ours, theirs in zip(gradients(found, [query, *shared]), gradients(expected, [query, *shared]), strict=True):
        assert_near(ours, theirs, TOLERANCE[torch.bfloat16])


@pytest.mark.parametrize("step", range(STEPS))
def test_unused_steps_do_not_contribute_to_the_gradient(step: int) -> None:
    tensors, mask = inputs()
    ours = gradients(shared_states(STEPS, tensors, mask)[step], tensors)
    theirs = gradients(plain_states(STEPS, tensors, mask)[step], tensors)
    for mine, other in zip(ours, theirs, strict=True):
        assert_near(mine, other, 2e-6)


@pytest.mark.parametrize("frozen", range(len(NAMES)), ids=NAMES)
def test_a_frozen_input_does_not_change_the_other_gradients(frozen: int) -> None:
    tensors, mask = inputs()
    tensors[frozen].requires_grad_(False)
    rest = [x for x in tensors if x.requires_grad]
    ours, theirs = (gradients(run(STEPS, tensors, mask), rest) for run in (shared_states, plain_states))
    for mine, other in zip(ours, theirs, strict=True):
        assert_near(mine, other, 2e-6)


def test_a_single_gradient_can_be_computed() -> None:
    tensors, mask = inputs()
    for i in range(len(NAMES)):
        (ours,) = gradients(shared_states(STEPS, tensors, mask), [tensors[i]])
        (theirs,) = gradients(plain_states(STEPS, tensors, mask), [tensors[i]])
        assert_near(ours, theirs, 2e-6)


def test_a_second_backward_fails_instead_of_counting_twice() -> None:
    tensors, mask = inputs()
    found = shared_states(STEPS, tensors, mask)
    gradients(found, tensors, retain_graph=True)
    with pytest.raises((RuntimeError, IndexError)):
        gradients(found, tensors)


def test_a_loop_is_freed_with_its_graph() -> None:
    tensors, mask = inputs()
    first, query, update, *source = tensors
    state, attend, weights = attention.attention_loop(first, *source, mask, query, update)
    found = states(STEPS, state, attend, weights)
    gradients(found, tensors)
    inside = inspect.getclosurevars(attend).nonlocals.values()  # keys, values and v
    watched = [weakref.ref(each) for each in (*weights, *inside) if isinstance(each, Shared)]
    assert len(watched) == len(NAMES) - 1
    del state, attend, weights, inside, found
    assert [shared() for shared in watched] == [None] * len(watched)


def test_an_unused_shared_tensor_has_no_gradient() -> None:
    (state, query, *_), _ = inputs()
    spare = torch.ones(2, requires_grad=True)
    first, (shared, _) = share(state, query, spare)
    loss = product(first, shared).sum()
    assert torch.autograd.grad(loss, [query, spare], allow_unused=True)[1] is None


def test_without_gradients_the_loop_is_the_plain_one() -> None:
    tensors, mask = inputs()
    with torch.no_grad():
        torch.testing.assert_close(shared_states(STEPS, tensors, mask), plain_states(STEPS, tensors, mask))


def cell(x: Tensor, h: Tensor, w: Matrix, u: Matrix) -> Tensor:
    """A recurrent cell with two products, one on top of the other."""
    return (x + product(product(h, w).tanh(), u)).tanh() + 0.5 * h


def pair(x: Tensor, h: Tensor, c: Tensor, w: Matrix, u: Matrix) -> tuple[Tensor, Tensor]:
    """A cell whose state has two parts."""
    return cell(x, h + c, w, u), (x + c).tanh()


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("steps", [1, STEPS])
def test_a_scan_is_the_plain_loop_over_real_steps(
    steps: int, parts: int, masked: bool, reverse: bool, low: bool
) -> None:
    shapes = [(steps, SENTENCES, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), *[(SENTENCES, WIDTH)] * parts]
    tensors = [x.float().requires_grad_() for x in representable(*shapes, seed=2, scale=0.5)]
    x, w, u, *first = tensors
    step = cell if parts == 1 else pair
    mask = torch.arange(steps)[:, None] < torch.tensor([steps, 1, max(1, steps - 1)]) if masked else None

    columns = []
    for row in range(SENTENCES):  # every sentence alone, without its padding
        state, outputs = [part[row] for part in first], [first[0][row]] * steps
        length = steps if mask is None else int(mask[:, row].sum())
        order = list(range(length))[:: -1 if reverse else 1]
        for t in order:
            new = step(x[t, row], *state, w, u)
            state = [new] if isinstance(new, Tensor) else list(new)
            outputs[t] = state[0]
        if not reverse:
            outputs[length:] = [state[0]] * (steps - length)
        columns.append(torch.stack(outputs))
    plain = torch.stack(columns, dim=1)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        ours = scan(step, x, first, mask, reverse, [w, u])
    tolerance = TOLERANCE[torch.bfloat16 if low else torch.float32]
    assert ours.dtype == torch.float32
    assert_near(ours, plain, tolerance)
    for mine, theirs in zip(gradients(ours, tensors), gradients(plain, tensors), strict=True):
        assert_near(mine, theirs, tolerance)


def test_a_gradient_is_the_sum_of_all_that_was_added_and_of_products() -> None:
    w, x, gradient, added = (torch.randn(n, m) for n, m in ((3, 4), (5, 3), (5, 4), (3, 4)))
    factor = torch.randn(4)
    for noted, summed, scaled in itertools.product((False, True), repeat=3):
        shared, expected = Shared(w), torch.zeros(3, 4)
        for _ in range(2):
            if noted:
                shared.note(x, gradient)
                expected += x.T @ gradient
            if summed:
                shared.sum().add_(added)
                expected += added * factor if scaled else added
        shared.factor = factor if scaled else None
        found = shared.gradient()
        assert (found is None) == (not (noted or summed))
        if found is not None:
            torch.testing.assert_close(found, expected)
