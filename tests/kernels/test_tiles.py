"""Products by a processor's tiles are those of the numbers that they are given, and leave oneDNN's alone.

Where a processor has none, as with ATEN_CPU_CAPABILITY=avx2, there is nothing to be tried.
"""

import pytest
import torch
from torch import Tensor

from nmtkit.kernels import library, tiles
from nmtkit.ops.loop import Shared
from tests.laws import drawn, one_at_a_time

pytestmark = [
    pytest.mark.usefixtures("threads"),
    pytest.mark.skipif(not library.has("tiles_multiply"), reason="this processor has no tiles"),
]


def numbers(*shape: int) -> Tensor:
    """Numbers of bfloat16, as floats."""
    return drawn(*shape).bfloat16().float()


def same(ours: Tensor, exact: Tensor) -> None:
    """All is added up in float32, and rounded once if the result is bfloat16."""
    torch.testing.assert_close(ours.double(), exact, rtol=2**-8 if ours.dtype == torch.bfloat16 else 1e-5, atol=1e-4)


# Rows around those of one tile, two, and a block; depths of one tile, of all that stays near, and of more; columns of a
# part of a tile, of one, of more than one, of two and of several.
@pytest.mark.parametrize(
    ("rows", "depth", "width"),
    [
        *one_at_a_time([48, 0, 1, 15, 16, 17, 31, 32, 33, 63, 80], [544, 32, 512, 1088], [110, 3, 16, 29, 32, 96]),
        *[(1030, 32, 110), (1030, 544, 110)],  # more rows than a block may have, and than it has at such a depth
    ],
)
@pytest.mark.parametrize("results", [torch.float32, torch.bfloat16])
def test_a_product_is_that_of_its_numbers(rows: int, depth: int, width: int, results: torch.dtype) -> None:
    x, weight, bias = numbers(rows, depth), numbers(depth, width), numbers(width)
    exact = x.double() @ weight.double()
    for given, added in ((None, 0), (bias, bias)):
        ours = tiles.lay_out(weight, given, results).product(x)
        assert ours.dtype == results
        same(ours, exact + added)


def test_rows_may_have_several_dimensions() -> None:
    x, tiled = numbers(2, 3, 32), tiles.lay_out(numbers(32, 40), None, torch.bfloat16)
    ours = tiled.product(x)
    assert ours.shape == (2, 3, 40)
    assert torch.equal(ours.flatten(0, 1), tiled.product(x.flatten(0, 1)))


def test_packing_does_not_depend_on_the_memory_layout_of_a_weight() -> None:
    weight = numbers(64, 150)
    laid_out = [
        tiles.lay_out(w, None, torch.bfloat16).tiles
        for part in (weight, weight.bfloat16())
        for w in (part, part.t().contiguous().t(), torch.cat([part, part], dim=1)[:, :150])
    ]
    assert all(torch.equal(one, laid_out[0]) for one in laid_out)


def test_floats_are_rounded_as_pytorch_rounds_them() -> None:
    weight = torch.randn(32, 64, generator=torch.Generator().manual_seed(5))
    weight[0, :3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    ours, theirs = (
        tiles.lay_out(weight, None, torch.bfloat16).tiles,
        tiles.lay_out(weight.bfloat16(), None, torch.bfloat16).tiles,
    )
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())


def test_rows_may_be_slices_of_a_larger_tensor() -> None:
    x, weight = numbers(40, 96), numbers(32, 32)
    x[:, :32] = x[:, 64:] = torch.nan
    tiled, exact = tiles.lay_out(weight, None, torch.bfloat16), x[:, 32:64].double() @ weight.double()
    same(tiled.product(x.bfloat16()[:, 32:64]), exact)
    same(tiled.product(x.bfloat16()[:, 32:64].t().contiguous().t()), exact)


def test_products_of_onednn_before_and_after_are_right() -> None:
    """oneDNN keeps tiles of other shapes configured from one product to the next."""
    weight, wide = numbers(64, 64), numbers(512, 256)
    tiled = tiles.lay_out(weight, None, torch.bfloat16)
    for rows in (5, 80, 129, 33, 256):
        x, y = numbers(rows, 64), numbers(rows, 512)
        same(y.bfloat16() @ wide.bfloat16(), y.double() @ wide.double())
        same(tiled.product(x.bfloat16()), x.double() @ weight.double())
        same(y.bfloat16() @ wide.bfloat16(), y.double() @ wide.double())


@pytest.mark.parametrize("depth", [31, 33, 48])
def test_other_depths_use_onednn(depth: int) -> None:
    shared = Shared(torch.ones(depth, 64, dtype=torch.bfloat16))
    assert not tiles.fits(shared.value)
    assert shared.matrix() is shared.value


def test_float32_stays_float32() -> None:
    shared = Shared(torch.ones(64, 64))
    assert shared.matrix() is shared.value
