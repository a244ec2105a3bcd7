"""The kernels in C give what the plain operations beside them give.

They are compiled when nmtkit is installed. Without a C compiler there are none, and nothing to be tried.
"""

import ctypes
import itertools
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from nmtkit.kernels import door, library, search, trusted
from nmtkit.kernels.door import kernel
from nmtkit.kernels.search import GROUP
from nmtkit.ops import attention, bfloat16, gated, gru, int8, lau, lstm, nematus
from nmtkit.ops.best import best
from nmtkit.ops.loop import share
from nmtkit.ops.matrix import Matrix, is_packed, product
from tests.laws import drawn, gradients, leaves, one_at_a_time

DTYPES = [torch.float32, torch.bfloat16]
# Those that this processor multiplies in a way of its own, which is where the kernels are.
PACKS = [pack for pack in (bfloat16.pack, int8.pack) if is_packed(pack(torch.ones(128, 128), None))]


@pytest.fixture(autouse=True)
def forget(threads: None) -> Iterator[None]:
    """Nothing is left of a library that a test has put in the place of this one."""
    yield
    for cached in (library._library, door._choice):
        cached.cache_clear()


needs_kernels = pytest.mark.skipif(library._library() is None, reason="nmtkit was installed without a C compiler")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Tensor]], tuple[Tensor, Tensor]]:
    """What a function gives with the kernels and without."""

    def run(function: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        used: list[str] = []

        def noted(how: Callable[[str], object], name: str) -> object:
            used.append(name)
            return how(name)

        door._choice.cache_clear()
        with monkeypatch.context() as patch:
            for how in ("_call", "_kernel"):
                patch.setattr(library, how, partial(noted, getattr(library, how)))
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
def test_log_probabilities_of_what_is_no_number_are_none(dtype: torch.dtype, wrong: float) -> None:
    logits = drawn(3, 100).to(dtype)
    logits[1, 70] = wrong
    assert search.log_softmax(logits).isnan().any(dim=1).tolist() == [False, True, False]


@needs_kernels
def test_a_word_that_cannot_be_has_the_log_probability_minus_infinity() -> None:
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
    expected, expected_places = search.best(search.log_softmax(logits), k, first)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=5e-6)
    assert torch.equal(logits.gather(1, places), logits.gather(1, expected_places))
    if dtype == torch.bfloat16:  # where many are equal
        assert torch.equal(places, expected_places)


@needs_kernels
@pytest.mark.parametrize("wrong", [torch.nan, -torch.nan])
@pytest.mark.parametrize("place", [0, 29 * GROUP, 30 * GROUP + 4])
def test_a_softmax_that_is_no_number_has_no_best_word(wrong: float, place: int) -> None:
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
def test_search_asks_the_kernel_for_the_best_words(both: Callable[..., tuple[Tensor, Tensor]]) -> None:
    values = drawn(50, 40 * GROUP)
    assert torch.equal(*both(lambda: best(values, 5)[1]))


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


@needs_kernels
@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 33), (130, 64)])
def test_a_step_of_the_gru_is_that_of_plain_operations(
    pack: Callable[[Tensor, None], Matrix], rows: int, width: int, both: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    x, h = 3 * drawn(rows, 4 * width)[:, width:], drawn(rows, width)  # x has gaps
    gates, candidate = pack(drawn(width, 2 * width) / width**0.5, None), pack(drawn(width, width) / width**0.5, None)
    # r * h is rounded to bfloat16 before the product in int8 as well.
    torch.testing.assert_close(*both(lambda: gru.step(x, h, gates, candidate)), rtol=0, atol=0.02)


@needs_kernels
def test_a_gru_far_beyond_the_range_of_its_gates_goes_on() -> None:
    h = drawn(4, 8)
    for far in (-1e30, 1e30, -torch.inf, torch.inf):
        x = torch.full((4, 24), far)
        gates, _ = search.gru_gates(x, torch.zeros(4, 16), h)
        torch.testing.assert_close(gates, torch.full((4, 16), float(far > 0)), rtol=0, atol=1e-37)
        new = search.gru_state(x, torch.zeros(4, 8), torch.ones(4, 16), h)
        torch.testing.assert_close(new, torch.full((4, 8), 1.0 if far > 0 else -1.0), rtol=0, atol=1e-6)


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


class Cell(NamedTuple):
    """A step of training: of the input, states, weights that steps share and others, and their shapes by the width."""

    step: Callable[..., Tensor | tuple[Tensor, ...]]
    terms: int  # of the input
    states: int
    shared: Callable[[int], list[tuple[int, ...]]]
    others: Callable[[int], list[tuple[int, ...]]]


CELLS = {
    "GRU": Cell(gru.step, 3, 1, lambda h: [(h, 2 * h), (h, h)], lambda h: []),
    "LAU": Cell(lau.step, 5, 1, lambda h: [(h, 4 * h)], lambda h: [(4 * h,)]),
    "LSTM": Cell(lstm.step, 4, 2, lambda h: [(h, 4 * h)], lambda h: [(3, h)]),
}


@needs_kernels
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("dtype", "x_dtype", "size"), one_at_a_time(DTYPES, DTYPES, ROWS))
def test_two_steps_of_training_are_those_of_plain_operations(
    name: str,
    dtype: torch.dtype,
    x_dtype: torch.dtype,
    size: tuple[int, int],
    both: Callable[..., tuple[Tensor, Tensor]],
) -> None:
    cell, (rows, width) = CELLS[name], size
    (x,) = leaves((rows, cell.terms * width), dtype=x_dtype, scale=0.5)
    states = leaves(*[(rows, width)] * cell.states, scale=0.5)
    weights = leaves(*cell.shared(width), scale=0.5 / width**0.5)
    others = leaves(*cell.others(width), scale=0.5)

    def run() -> Tensor:
        with torch.autocast("cpu", enabled=dtype == torch.bfloat16):
            first, shared = share(states[0], *weights)
            state = [first, *states[1:]]
            for _ in range(2):
                after = cell.step(x, *state, *shared, *others)
                state = [after] if isinstance(after, Tensor) else [*after]
            return with_gradients(torch.cat(state, dim=1), [x, *states, *weights, *others])

    near = NEAR[torch.bfloat16 if torch.bfloat16 in (dtype, x_dtype) else torch.float32]
    ours, plain = both(run)
    torch.testing.assert_close(ours, plain, rtol=0, atol=near * max(1.0, plain.abs().max().item()))


@needs_kernels
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_sequence_in_training_is_that_of_plain_operations(
    name: str, dtype: torch.dtype, reverse: bool, both: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    sequence = {"GRU": gru.sequence, "LAU": lau.sequence, "LSTM": lstm.sequence}[name]
    cell, (length, rows, width) = CELLS[name], (4, 20, 70)  # oneDNN multiplies by 96, the next multiple of 32
    (x,) = leaves((length, rows, cell.terms * width), dtype=dtype, scale=0.5)
    weights = leaves(*cell.shared(width), scale=0.5 / width**0.5)
    others = leaves(*cell.others(width), *[(rows, width)] * cell.states, scale=0.5)
    mask = torch.arange(length)[:, None] <= torch.arange(rows)

    def run() -> Tensor:
        outputs = sequence(x, *weights, *others, mask, reverse)[0]
        return with_gradients(outputs, [x, *weights, *others])

    ours, plain = both(run)
    torch.testing.assert_close(ours, plain, rtol=0, atol=NEAR[dtype] * max(1.0, plain.abs().max().item()))


@needs_kernels
@pytest.mark.parametrize("cell", [gated, gru, lau, lstm, nematus])
def test_kernels_are_trusted_wherever_the_first_tensor_comes_from(cell: ModuleType) -> None:
    training, search = torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()
    for state in (nullcontext(), training, search):
        trusted.sound.cache_clear()
        with state:
            for dtype in DTYPES:
                tensor = torch.zeros(1, dtype=dtype)
                twin = trusted.choose(cell.PLAIN, cell._native, cell._compare, tensor)
                assert twin is cell._native()


def low(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.detach().to(dtype).requires_grad_()


# Gradients in bfloat16 may be rounded to either neighbour.
CLOSE = {torch.float32: {"rtol": 2e-5, "atol": 2e-5}, torch.bfloat16: {"rtol": 2**-7, "atol": 2e-5}}
NORMALISED = {
    "GRU": (gated.gru, 2, 3),
    "T-GRU": (gated.gru, 2, 0),
    "L-GRU": (gated.gru, 3, 5),
    "LAU": (gated.lau, 3, 5),
}


@needs_kernels
@pytest.mark.parametrize("kind", NORMALISED)
@pytest.mark.parametrize(
    ("layer_norm", "dropout", "dtype", "x_dtype", "size"),
    one_at_a_time([True, False], [True, False], DTYPES, DTYPES, ROWS),
)
def test_a_step_with_normalised_gates_is_that_of_plain_operations(
    kind: str, layer_norm: bool, dropout: bool, dtype: torch.dtype, x_dtype: torch.dtype, size: tuple[int, int],
    both: Callable[..., tuple[Tensor, Tensor]],
) -> None:  # fmt: skip
    (cell, gates, parts), (rows, width) = NORMALISED[kind], size
    shapes = [(rows, parts * width), (rows, (gates + 1) * width), (rows, width)]
    x, s, h, gain, bias, other, keep = leaves(*shapes, (gates, width), (gates, width), (width,), (rows, width))
    given = [
        low(x, x_dtype) if parts else None, low(s, dtype), h, gain if layer_norm else None, bias, other,
        keep.detach() if dropout else None,
    ]  # fmt: skip
    of = [y for y in given if y is not None and y.requires_grad]
    ours, plain = both(lambda: with_gradients(cell(*given), of))
    torch.testing.assert_close(ours, plain, **CLOSE[torch.bfloat16 if torch.bfloat16 in (dtype, x_dtype) else dtype])


@needs_kernels
@pytest.mark.parametrize("x_shape", ["rows", "one row", "none"])
@pytest.mark.parametrize(
    ("layer_norm", "with_bias", "dtype", "x_dtype", "size"),
    one_at_a_time([True, False], [True, False], DTYPES, DTYPES, ROWS),
)
def test_a_step_of_nematus_is_that_of_plain_operations(
    x_shape: str, layer_norm: bool, with_bias: bool, dtype: torch.dtype, x_dtype: torch.dtype, size: tuple[int, int],
    both: Callable[..., tuple[Tensor, Tensor]],
) -> None:  # fmt: skip
    rows, width = size
    shapes = [(3 * width,) if x_shape == "one row" else (rows, 3 * width), (rows, 3 * width), (rows, width)]
    x, s, h, bias, *norms = leaves(*shapes, (3 * width,), *[(n * width,) for n in (2, 2, 1, 1)])
    x, s, norms = low(x, x_dtype), low(s, dtype), norms if layer_norm else []
    of = [s, h, *norms, *([x] if x_shape != "none" else []), *([bias] if with_bias else [])]
    given = x if x_shape != "none" else None, s, h, bias if with_bias else None, norms
    ours, plain = both(lambda: with_gradients(nematus.step(*given), of))
    torch.testing.assert_close(ours, plain, **CLOSE[torch.bfloat16 if torch.bfloat16 in (dtype, x_dtype) else dtype])


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", ["LAU", "Nematus"])
def test_what_steps_take_may_have_gaps_and_states_and_inputs_other_dtypes(
    kind: str, dtype: torch.dtype, both: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    def turned(*shape: int) -> Tensor:
        return drawn(*shape).t().requires_grad_()

    # PyTorch's own normalisation takes one dtype alone.
    norms = [] if dtype != torch.float32 else [turned(n * 8, 2)[0] for n in (2, 2, 1, 1)]
    gain, other = (None if dtype != torch.float32 else turned(8, 3)), turned(8, 2)[0]
    of = [turned(40, 9).detach().to(dtype), turned(32, 9).detach(), turned(8, 9).detach().to(dtype)]
    x, s, h = (y.requires_grad_() for y in of)

    def run() -> Tensor:
        if kind == "LAU":
            new = gated.lau(x, s, h, gain, turned(8, 3), other, turned(8, 9).detach())
        else:
            new = nematus.step(x[:, ::5].repeat(1, 3), s[:, 8:], h, turned(24, 2)[0], norms)
        assert new.dtype == torch.promote_types(dtype, torch.float32)
        gradients = torch.autograd.grad(new.sum(), of)  # that of the state is one number in memory
        assert [g.dtype for g in gradients] == [y.dtype for y in of]
        return torch.cat([y.flatten().float() for y in (new.detach(), *gradients)])

    torch.testing.assert_close(*both(run), rtol=0, atol=0.06 if dtype == torch.bfloat16 else 1e-5)


@needs_kernels
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_what_is_no_number_stays_in_its_row_of_a_step_with_normalised_gates(wrong: float) -> None:
    x, s, h, gain, bias, other = leaves((3, 200), (3, 160), (3, 40), (3, 40), (3, 40), (40,))
    with torch.no_grad():
        s[1, 75] = wrong  # of the gate z
        assert gated.lau(x, s, h, gain, bias, other, None).isnan().all(dim=1).tolist() == [False, True, False]
        norms = [gain.flatten()[:80], bias.flatten()[:80], gain[0], bias[0]]
        new = nematus.step(x[:, :120], s[:, :120], h, None, norms)
    assert new.isnan().all(dim=1).tolist() == [False, True, False]


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
def test_they_are_for_the_numbers_that_they_know() -> None:
    def is_used(*like: Tensor) -> bool:
        return kernel("scores", attention.quick_scores, *like) is not attention.quick_scores

    assert is_used(drawn(2, 2), drawn(2, 2))
    assert not is_used(drawn(2, 2), drawn(2, 2).bfloat16())
    assert not is_used(drawn(2, 2).double())
    assert not is_used(torch.empty(2, 2, device="meta"))


def test_a_thread_is_woken_for_enough_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
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
        for name in ("best", "pairs_multiply", "lstm_back"):
            assert hasattr(compiled, f"nmtkit_{name}_{kind}")


def test_without_a_library_everything_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: ".none")
    library._library.cache_clear()
    assert not library.compiled()
    assert torch.equal(best(drawn(3, 7), 2)[0], drawn(3, 7).topk(2).values)
