"""A step of every recurrent cell is its paper's equation, and its gradients are those, with and without the kernels."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from nmtkit.kernels import arguments as table
from nmtkit.kernels.door import kernel
from nmtkit.ops import gru
from nmtkit.ops.loop import advance, share
from nmtkit.ops.matrix import Matrix
from nmtkit.ops.plain import PLAIN
from tests.laws import assert_near, drawn, gradients, representable
from tests.ops import oracle

pytestmark = pytest.mark.usefixtures("operations")

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}  # of the largest element
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])


Results = Tensor | tuple[Tensor, ...]


class Cell(NamedTuple):
    """A step after its product, by its name, and its equation.

    They take arguments of these shapes for N rows of width H: x, the product, the state and others. One without a shape
    is left out.
    """

    name: str
    equation: Callable[..., Results]
    shapes: Callable[[int, int], list[tuple[int, ...] | None]]
    learned: int = 99  # so many of them have a gradient: the factors of dropout have none

    def step(self, x: Tensor | None, s: Tensor, *others: Tensor | None) -> Results:
        """The kernel, or the plain function."""
        like = (s,) if x is None else (x, s)
        found: Results = kernel(self.name, PLAIN[self.name], *like)(x, s, *others)
        return found


def gated_cell(name: str, parts: int, gates: int, *, layer_norm: bool, dropout: bool) -> Cell:
    """A cell whose input has this many parts of width H."""

    def shapes(n: int, h: int) -> list[tuple[int, ...] | None]:
        x, gain, keep = (n, parts * h) if parts else None, (gates, h) if layer_norm else None, (n, h)
        return [x, (n, (gates + 1) * h), (n, h), gain, (gates, h), (h,), keep if dropout else None]

    return Cell(f"gated_{name}", getattr(oracle, f"gated_{name}"), shapes, 6)


def nematus_cell(rows: bool | None, *, bias: bool, layer_norm: bool) -> Cell:
    """A cell whose input has many rows, or one, or is left out."""

    def shapes(n: int, h: int) -> list[tuple[int, ...] | None]:
        x = None if rows is None else (n, 3 * h) if rows else (3 * h,)
        norms = [(2 * h,), (2 * h,), (h,), (h,)] if layer_norm else [None] * 4
        return [x, (n, 3 * h), (n, h), (3 * h,) if bias else None, *norms]

    return Cell("nematus", oracle.nematus, shapes)


CELLS = {
    "LSTM": Cell("lstm", oracle.lstm, lambda n, h: [(n, 4 * h), (n, 4 * h), (n, h), (3, h)]),
    "gates of a GRU": Cell("gru_gates", oracle.gru_gates, lambda n, h: [(n, 2 * h), (n, 2 * h), (n, h)]),
    "state of a GRU": Cell("gru_state", oracle.gru_state, lambda n, h: [(n, h)] * 4),
    **{
        f"{name}{' LN' * norm}{' dropout' * dropout}": gated_cell(
            function, parts, gates, layer_norm=norm, dropout=dropout
        )
        for name, function, parts, gates in [
            ("GRU", "gru", 3, 2), ("T-GRU", "gru", 0, 2), ("L-GRU", "gru", 5, 3), ("LAU", "lau", 5, 3),
        ]
        for norm in (False, True)
        for dropout in (False, True)
    },
    **{
        f"Nematus {name}{' bias' * bias}{' LN' * norm}": nematus_cell(rows, bias=bias, layer_norm=norm)
        for name, rows in [("rows", True), ("one row", False), ("no input", None)]
        for bias in (False, True)
        for norm in (False, True)
    },
}  # fmt: skip
every_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


def arguments(cell: Cell, rows: int, width: int) -> list[Tensor | None]:
    """In float64, with bfloat16 values."""
    shapes = cell.shapes(rows, width)
    numbers = iter(representable(*(shape for shape in shapes if shape is not None), seed=rows, scale=0.7))
    return [None if shape is None else next(numbers) for shape in shapes]


def results(function: Callable[..., Tensor | tuple[Tensor, ...]], given: list[Tensor | None]) -> tuple[Tensor, ...]:
    found = function(*given)
    return (found,) if isinstance(found, Tensor) else found


def leaves_of(cell: Cell, given: list[Tensor | None]) -> list[Tensor]:
    """The floating-point tensors, which require gradients from now on."""
    return [x.requires_grad_() for x in given[: cell.learned] if x is not None]


def test_every_cell_with_a_kernel_is_tested() -> None:
    assert {cell.name for cell in CELLS.values()} == set(table.CELLS)


@every_cell
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 5), (9, 70)])
@pytest.mark.parametrize("x_dtype", TOLERANCE, ids=["x in float32", "x in bfloat16"])
@DTYPES
def test_a_step_and_its_gradients_are_those_of_the_equation(
    cell: Cell, rows: int, width: int, x_dtype: torch.dtype, dtype: torch.dtype
) -> None:
    theirs = arguments(cell, rows, width)
    dtypes = [x_dtype, dtype] + [torch.float32] * len(theirs)
    ours = [None if x is None else x.to(kind) for x, kind in zip(theirs, dtypes, strict=False)]
    of_ours, of_theirs = leaves_of(cell, ours), leaves_of(cell, theirs)
    before = [x.detach().clone() for x in of_ours]
    found, expected = results(cell.step, ours), results(cell.equation, theirs)
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == torch.float32
        assert_near(mine, other, TOLERANCE[torch.float32])
    slopes = gradients(found, of_ours), gradients(expected, of_theirs)
    for mine, other, x in zip(*slopes, of_ours, strict=True):
        assert mine.dtype == x.dtype
        assert_near(mine, other, 10 * TOLERANCE[torch.float32] if x.dtype == torch.float32 else TOLERANCE[x.dtype])
    assert all(torch.equal(x, y) for x, y in zip(of_ours, before, strict=True))


@every_cell
def test_in_float64_a_step_is_the_equation_to_the_last_digits(cell: Cell) -> None:
    given = arguments(cell, 3, 5)
    for mine, other in zip(results(cell.step, given), results(cell.equation, given), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)


@every_cell
@pytest.mark.parametrize("apart", [1, 2])
def test_arguments_may_have_any_memory_layout(cell: Cell, apart: int) -> None:
    given = [None if x is None else x.float() for x in arguments(cell, 4, 6)]
    others = []
    for x in given:  # each a slice of a larger tensor, strided or not
        wide = None if x is None else torch.full((*x.shape[:-1], apart * x.shape[-1] + 3), torch.nan)
        others.append(None if x is None or wide is None else wide[..., 3::apart].copy_(x))
    leaves = leaves_of(cell, others), leaves_of(cell, given)
    found, expected = results(cell.step, others), results(cell.step, given)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(gradients(y, of) for y, of in zip((found, expected), leaves, strict=True)))


@every_cell
def test_a_frozen_argument_does_not_change_the_other_gradients(cell: Cell) -> None:
    given = [None if x is None else x.float() for x in arguments(cell, 3, 4)]
    leaves = leaves_of(cell, given)
    everything = gradients(results(cell.step, given), leaves)
    for frozen, leaf in enumerate(leaves):
        leaf.requires_grad_(False)
        found = gradients(results(cell.step, given), leaves[:frozen] + leaves[frozen + 1 :])
        torch.testing.assert_close(found, everything[:frozen] + everything[frozen + 1 :])
        leaf.requires_grad_()


@every_cell
def test_nan_stays_in_its_row(cell: Cell) -> None:
    given = [None if x is None else x.float() for x in arguments(cell, 3, 40)]
    for x in given[1:3]:  # the product and the state
        assert x is not None
        x[1] = torch.nan
    with torch.no_grad():
        for found in results(cell.step, given):
            assert found.isnan().all(dim=1).tolist() == [False, True, False]
            assert not found[::2].isnan().any()


@pytest.mark.parametrize("far", [-1e30, 1e30, -torch.inf, torch.inf])
def test_a_gru_with_saturated_gates_stays_finite(far: float) -> None:
    h, x = drawn(4, 8), torch.full((4, 16), far)
    reset, z = results(CELLS["gates of a GRU"].step, [x, torch.zeros(4, 16), h])
    torch.testing.assert_close((reset, z), (h * (far > 0), torch.full((4, 8), float(far > 0))), rtol=0, atol=1e-37)
    (new,) = results(CELLS["state of a GRU"].step, [x[:, :8], torch.zeros(4, 8), h, torch.ones(4, 8)])
    torch.testing.assert_close(new, torch.full((4, 8), 1.0 if far > 0 else -1.0), rtol=0, atol=1e-6)


@every_cell
@pytest.mark.parametrize("low", [False, True], ids=["float32", "bfloat16"])
def test_steps_that_share_a_weight_are_those_that_do_not(cell: Cell, low: bool) -> None:
    x, s, *others = [None if y is None else y.float() for y in arguments(cell, 5, 8)]
    assert s is not None
    h, w = (y.float() for y in representable((5, 8), (8, s.shape[1]), seed=1, scale=0.5))
    leaves = [*leaves_of(cell, [x, None, *others]), h.requires_grad_(), w.requires_grad_()]

    def twice(first: Tensor, weight: Matrix) -> tuple[Tensor, ...]:
        """Two steps of a loop."""
        found = [first]
        for _ in range(2):
            new = advance(cell.name, PLAIN[cell.name], x, found[0], weight, *others)
            found = [new] if isinstance(new, Tensor) else list(new)
        return tuple(found)

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        first, (shared,) = share(h, w)
        found = twice(first, shared)
    expected = twice(h, w)
    tolerance = TOLERANCE[torch.bfloat16 if low else torch.float32]
    for mine, other in zip((*found, *gradients(found, leaves)), (*expected, *gradients(expected, leaves)), strict=True):
        assert_near(mine, other, 10 * tolerance if not low else 2 * tolerance)


def test_a_gru_is_its_gates_and_its_state_around_the_second_product() -> None:
    x, h, u_gates, u = representable((5, 9), (5, 3), (3, 6), (3, 3))
    u_r, u_z = u_gates.split(3, dim=1)
    x_r, x_z, x_c = x.split(3, dim=1)
    r, z = (x_r + h @ u_r).sigmoid(), (x_z + h @ u_z).sigmoid()
    expected = (1 - z) * h + z * (x_c + (r * h) @ u).tanh()
    torch.testing.assert_close(gru.step(x, h, u_gates, u), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("x_dtype", TOLERANCE, ids=["x in float32", "x in bfloat16"])
def test_steps_of_a_gru_that_share_weights_are_those_that_do_not(low: bool, x_dtype: torch.dtype) -> None:
    x, *others = (y.float() for y in representable((5, 24), (5, 8), (8, 16), (8, 8), seed=1, scale=0.5))
    leaves = [y.requires_grad_() for y in (x.to(x_dtype), *others)]
    x, h, *weights = leaves
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        first, shared = share(h, *weights)
        found = gru.step(x, gru.step(x, first, *shared), *shared)
    expected = gru.step(x.float(), gru.step(x.float(), h, *weights), *weights)
    tolerance = 2 * TOLERANCE[torch.bfloat16] if low or x_dtype == torch.bfloat16 else 1e-5
    for mine, other in zip((found, *gradients(found, leaves)), (expected, *gradients(expected, leaves)), strict=True):
        assert_near(mine, other, tolerance)
