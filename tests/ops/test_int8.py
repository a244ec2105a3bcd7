"""Products in 8-bit integers equal their plain version, row by row."""

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.kernels import library, pairs
from nmtkit.ops import int8
from nmtkit.ops.int8 import check_int8, pack
from nmtkit.ops.matrix import product
from tests.laws import factors
from tests.ops import oracle

SIZES = [(1, 1, 1), (1, 2, 3), (3, 5, 4), (7, 64, 33), (33, 100, 257)]  # N, D, E


@pytest.mark.parametrize("sizes", SIZES)
def test_a_product_equals_the_plain_version_and_is_close_to_the_exact_one(sizes: tuple[int, int, int]) -> None:
    x, weight = factors(*sizes)
    found = product(x, int8._pack(weight, None, int8.largest()))
    torch.testing.assert_close(found, oracle.int8_product(x, weight, int8.largest()), rtol=1e-4, atol=1e-4)
    for given in (found, product(x, pack(weight, None))):
        torch.testing.assert_close(given, x @ weight, rtol=0, atol=0.1 * math.sqrt(sizes[1]))


def test_rows_and_results_may_be_bfloat16() -> None:
    x, weight = factors(33, 100, 257)
    low = product(x.bfloat16(), pack(weight, torch.ones(257), torch.bfloat16))
    assert low.dtype == torch.bfloat16
    assert torch.equal(low, product(x.bfloat16().float(), pack(weight, torch.ones(257))).bfloat16())


def test_a_row_does_not_depend_on_the_others() -> None:
    x, weight = factors(33, 100, 257)
    x[0] *= 1000
    together = product(x, pack(weight, None))
    for row, found in zip(x, together, strict=True):
        assert torch.equal(product(row[None], pack(weight, None))[0], found)


def test_the_range_is_the_widest_that_this_processor_sums_exactly() -> None:
    ones = torch.ones(64, 64)
    exact = [torch.allclose(int8._pack(ones, None, n).product(ones), 64 * ones) for n in (int8.NARROW, int8.WIDE)]
    assert exact == [True, int8.largest() == int8.WIDE]


@pytest.mark.slow
def test_a_processor_without_vnni_has_the_narrow_range() -> None:
    # oneDNN is held to a kind of processor when it is first used, so in another process.
    asked = "from nmtkit.ops.int8 import largest; print(largest())"
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    ran = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == int8.NARROW


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_numbers_do_not_overflow(sign: float) -> None:
    x, weight = torch.full((4, 1024), 3.0), torch.full((1024, 8), sign)
    torch.testing.assert_close(product(x, pack(weight, None)), torch.full((4, 8), sign * 3 * 1024))


def test_zero_is_exact_and_nan_stays_nan() -> None:
    x, weight = factors(3, 5, 4)
    x[0], x[1, 2] = 0, math.nan
    weight[:, 1] = 0
    found = product(x, pack(weight, None))
    assert not found[0].any()
    assert found[1, 0].isnan()
    assert found[2, 1] == 0
    assert found[2].isfinite().all()


def test_rows_and_columns_of_zeros_are_divided_by_a_number() -> None:
    _, of_rows = int8.quantise(torch.zeros(3, 8), int8.WIDE)
    of_columns = int8.pack_narrow(torch.zeros(8, 3), None, torch.float32).scales
    assert of_rows.reciprocal().isfinite().all()
    assert of_columns.reciprocal().isfinite().all()


@pytest.mark.skipif(not library.has("pairs_multiply"), reason="there is no kernel for this processor")
def test_a_kernel_multiplies_on_processors_that_add_in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for largest in (int8.NARROW, int8.WIDE):
        monkeypatch.setattr(int8, "largest", lambda largest=largest: largest)
        kinds = [type(pack(torch.ones(depth, 4), None)) for depth in (8, 9)]
        assert kinds == [pairs.Paired if largest == int8.NARROW else int8.Packed, int8.Packed]


def test_a_packed_weight_multiplies_rows_of_any_shape() -> None:
    x, weight = factors(6, 5, 4)
    packed = pack(weight, None)
    together = product(x, packed)
    assert torch.equal(product(x.view(2, 3, 5), packed), together.view(2, 3, 4))
    assert torch.equal(product(x[0], packed), together[0])


def test_packing_works_for_any_dtype_and_orientation_and_makes_a_copy() -> None:
    x, weight = factors(6, 5, 4)
    low = weight.bfloat16()
    expected = product(x, pack(low.float(), None))
    weights = low.t().contiguous().t()
    packed = pack(weights, None)
    weights.zero_()
    assert torch.equal(product(x, packed), expected)
    assert not torch.equal(expected, x @ low.float())


def test_another_device_is_refused() -> None:
    check_int8(torch.device("cpu"))
    with pytest.raises(UserError, match="`precision` int8: is for the cpu, not meta; use float32, or the cpu"):
        check_int8(torch.device("meta"))


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, NotImplementedError])
def test_an_unsupported_processor_is_refused(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(weight: Tensor, bias: Tensor | None) -> None:
        raise error

    monkeypatch.setattr(int8, "pack", missing)
    with pytest.raises(UserError, match="cannot multiply 8-bit integers on this processor; use float32"):
        check_int8(torch.device("cpu"))
