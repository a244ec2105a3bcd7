"""The kernels in C give the same as the plain operations.

They are compiled when nmtkit is installed. Without a C compiler there are none, and nothing to be tried.
"""

import ctypes
import itertools
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmtkit.kernels import door, library, search
from nmtkit.kernels.door import kernel
from nmtkit.kernels.search import GROUP
from nmtkit.ops import attention, bfloat16, int8
from nmtkit.ops.best import Logits, best, best_values
from nmtkit.ops.matrix import product
from tests.laws import drawn, gradients, leaves

DTYPES = [torch.float32, torch.bfloat16]
# Those for which this processor has its own instructions, and therefore kernels.
PACKS = [pack for pack in (bfloat16.pack, int8.pack) if not isinstance(pack(torch.ones(128, 128), None), bfloat16.Low)]


@pytest.fixture(autouse=True)
def forget(threads: None) -> Iterator[None]:
    """A library that a test substitutes is removed after the test."""
    yield
    for cached in (library._library, door._choice):
        cached.cache_clear()


needs_kernels = pytest.mark.skipif(library._library() is None, reason="C kernels: pip install -e . with a C compiler")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Tensor]], tuple[Tensor, Tensor]]:
    """The results of a function with and without kernels."""

    def run(function: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        used: list[str] = []

        def noted(how: Callable[[str], object], name: str) -> object:
            used.append(name)
            return how(name)

        door._choice.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(library, "_call", partial(noted, library._call))
            ours = function()
        assert used, "no kernel was used"
        with monkeypatch.context() as patch:
            patch.setattr(library, "compiled", lambda: False)
            door._choice.cache_clear()
            return ours, function()

    return run


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("words", [1, 3, 64, 1003])
def test_log_probabilities_are_those_of_pytorch(dtype: torch.dtype, words: int) -> None:
    logits = (10 * drawn(7, words)).to(dtype)
    logits[1] -= 1e4
    logits[2] *= 8  # exponents far apart
    exact = logits.double().log_softmax(1).float()  # PyTorch's own in float32 is coarse where all are far from 0
    torch.testing.assert_close(search.log_softmax(logits), exact, rtol=1e-6, atol=5e-6)


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", [torch.nan, -torch.nan, torch.inf])
def test_log_probabilities_of_nan_are_nan(dtype: torch.dtype, wrong: float) -> None:
    logits = drawn(3, 100).to(dtype)
    logits[1, 70] = wrong
    assert search.log_softmax(logits).isnan().any(dim=1).tolist() == [False, True, False]


@needs_kernels
def test_an_impossible_word_has_log_probability_minus_infinity() -> None:
    logits = drawn(3, 100)
    logits[:, :50] = -torch.inf
    torch.testing.assert_close(search.log_softmax(logits), logits.log_softmax(1), rtol=1e-6, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize(("columns", "k"), [*itertools.product([3, GROUP, 20 * GROUP - 1, 33 * GROUP + 7], [1, 5])])
def test_the_best_words_before_their_softmax_are_those_after_it(
    columns: int, k: int, first: int, dtype: torch.dtype
) -> None:
    k = min(k, columns - first)
    logits = (10 * drawn(50, columns)).to(dtype)
    logits[:, :first] += 3  # these do not count, but they have a part in the softmax
    found, places = search.best_log_softmax(logits, k, first)
    expected, expected_places = best_values(search.log_softmax(logits), k, first)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=5e-6)
    assert torch.equal(logits.gather(1, places), logits.gather(1, expected_places))
    if dtype == torch.bfloat16:  # where many are equal
        assert torch.equal(places, expected_places)


@needs_kernels
@pytest.mark.parametrize("wrong", [torch.nan, -torch.nan])
@pytest.mark.parametrize("place", [0, 29 * GROUP, 30 * GROUP + 4])
def test_a_softmax_of_nan_is_nan(wrong: float, place: int) -> None:
    logits = drawn(3, 30 * GROUP + 5)
    logits[1, place] = wrong
    found, _ = search.best_log_softmax(logits, 2, 0)
    assert found[:, 0].isnan().tolist() == [False, True, False]


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [1, 64, 130])
def test_weighted_values_are_the_product_of_weights_and_values(depth: int, dtype: torch.dtype) -> None:
    weights, values = drawn(3, 4, 5).softmax(dim=-1), drawn(3, 5, depth).to(dtype)
    exact = weights.double() @ values.double()
    torch.testing.assert_close(search.weighted(weights, values), exact.float(), rtol=1e-5, atol=1e-6)


@needs_kernels
def test_search_uses_the_kernel_for_the_best_words(both: Callable[..., tuple[Tensor, Tensor]]) -> None:
    logits = Logits(drawn(50, 40 * GROUP))
    assert torch.equal(*both(lambda: best(logits, 5)[1]))


@needs_kernels
@pytest.mark.parametrize(("sentences", "beam", "sources", "width"), [(1, 1, 1, 1), (3, 5, 7, 33), (20, 5, 11, 64)])
def test_attention_is_that_of_plain_operations(
    sentences: int, beam: int, sources: int, width: int, both: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    keys = attention.exponential(drawn(sentences, sources, width))
    mask = torch.arange(sources) <= torch.arange(sentences)[:, None]

    def attend() -> Tensor:
        query, values, v = drawn(sentences * beam, width), drawn(sentences, sources, 5), drawn(width)
        return torch.cat(attention.quick_additive(query, keys, values, v, mask), dim=1)

    torch.testing.assert_close(*both(attend), rtol=1e-4, atol=1e-5)


def with_gradients(result: Tensor, of: list[Tensor]) -> Tensor:
    """The result and its gradients in one row."""
    return torch.cat([x.float().flatten() for x in (result.detach(), *gradients(result, of))])


NEAR = {torch.float32: 1e-5, torch.bfloat16: 0.06}
SIZES = [(1, 1, 1), (5, 3, 7), (9, 17, 130)]  # sentences, words, width
ROWS = [(5, 7), (1, 1), (20, 70), (33, 130)]  # and width


@needs_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("sentences", "words", "width"), SIZES)
def test_a_step_of_training_with_attention_is_that_of_plain_operations(
    dtype: torch.dtype, sentences: int, words: int, width: int, both: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    of = leaves(
        (sentences, width), (sentences, words, width), (sentences, words, 2 * width), (width,), dtype=dtype, scale=0.5
    )
    mask = torch.arange(words) <= torch.arange(sentences)[:, None]

    def run() -> Tensor:
        query, *others = of
        first, attend, _ = attention.attention_loop(query, *others, mask)
        context = attend(first.to(dtype)) + attend(2 * first.to(dtype))
        return with_gradients(context, of)

    torch.testing.assert_close(*both(run), rtol=torch.finfo(dtype).eps, atol=NEAR[dtype])


@needs_kernels
@pytest.mark.parametrize(("dtype", "results"), [*itertools.product(DTYPES, DTYPES)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_products_in_int8_are_the_same_to_the_last_bit_but_for_a_fused_addition(
    dtype: torch.dtype, results: torch.dtype, with_bias: bool, both: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    rows, weight = drawn(300, 100).to(dtype), drawn(100, 257)
    rows[1] = 0
    rows[2] *= 1e5
    packed = int8.pack(weight, drawn(257) if with_bias else None, results)
    ours, plain = both(lambda: product(rows, packed).float())
    rounding = 2**-8 if results == torch.bfloat16 else 1e-6
    torch.testing.assert_close(ours, plain, rtol=rounding, atol=1e-6)


@needs_kernels
@pytest.mark.parametrize("x", [0.5, 1.5, -0.5, 2.5, 3.4e38, -0.0, 1 + 2**-8, 1 + 3 * 2**-8, torch.inf, torch.nan])
def test_numbers_are_rounded_to_bfloat16_as_pytorch_does(x: float) -> None:
    sums, place = torch.tensor([[x, -x]]), torch.empty(1, 2, dtype=torch.bfloat16)
    search.dequantise(sums, torch.ones(1, 1), None, place)
    assert place.isnan().tolist() == sums.isnan().tolist()
    assert torch.equal(place.nan_to_num(), sums.bfloat16().nan_to_num())


@needs_kernels
def test_kernels_are_used_only_for_supported_dtypes() -> None:
    def is_used(*like: Tensor) -> bool:
        return kernel("scores", attention.quick_scores, *like) is not attention.quick_scores

    assert is_used(drawn(2, 2), drawn(2, 2))
    assert not is_used(drawn(2, 2), drawn(2, 2).bfloat16())
    assert not is_used(drawn(2, 2).double())
    assert not is_used(torch.empty(2, 2, device="meta"))


def test_threads_are_used_only_for_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setattr(library, "GRAIN", 100)
    assert library.parts(1000, 99) == 1
    assert library.parts(1000, 10_000) == threads
    assert library.parts(2, 10_000) == min(2, threads)
    assert library.parts(0, 0) == 1


@needs_kernels
def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    library._library.cache_clear()
    assert not library.compiled()


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have one kind of kernels")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_either_compiler_makes_kernels_for_both_kinds_of_processors(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"apt install {compiler}")
    source = Path(library.__file__).with_name("kernels.c")
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", tmp_path / "kernels.so"], check=True)
    compiled = ctypes.CDLL(str(tmp_path / "kernels.so"))
    assert compiled.nmtkit_version() == library.VERSION
    for kind in library.KINDS.values():
        for name in ("scores", "pairs_multiply", "lstm_back"):
            assert hasattr(compiled, f"nmtkit_{name}_{kind}")


def test_without_a_library_plain_functions_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: ".none")
    library._library.cache_clear()
    assert not library.compiled()
    assert torch.equal(best(drawn(3, 7), 2)[0], drawn(3, 7).topk(2).values)
