"""When several processes translate, and that translations do not depend on their number."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.machine.processes import CAN_FORK
from nmtkit.models.base import ForSearch, Seq2Seq
from nmtkit.ops import precision
from nmtkit.ops.precision import Products
from nmtkit.translation import jobs, loading
from nmtkit.translation.jobs import (
    LEAST,
    SHARE,
    Models,
    Window,
    answers,
    parts,
    processes_for,
    translate_window,
    translator_of,
)
from nmtkit.translation.request import Request
from nmtkit.translation.stream import LARGEST_WINDOW
from nmtkit.translation.translator import Translator
from tests.echo import write_model

OLD = Path(__file__).parents[1] / "training" / "made_by_0.1" / "run"


def repeat(window: Window) -> Any:
    """Replaces a job: the lines as their own translations."""
    return [[line] for line, _ in window]


class Crowd:
    """Replaces ``Workers``: records its creation, and computes everything in this process."""

    asked: ClassVar[list[int]] = []

    def __init__(self, count: int, *, helping: bool, fork: bool) -> None:
        assert helping
        assert not fork
        self.asked.append(count)

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def map(self, function: Any, items: Iterator[Any], ready: Any) -> Iterator[Any]:
        for item in items:
            ready()
            yield function(item)


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> type[Crowd]:
    """The requested numbers of processes, none of which are started."""
    Crowd.asked = []
    monkeypatch.setattr(jobs, "Workers", Crowd)
    return Crowd


def lines(number: int, first: int = 0) -> Window:
    """Lines of many lengths."""
    return [(f"{i} " + "x " * (i * 7 % 11), "") for i in range(first, first + number)]


def texts(windows: list[Window], count: int) -> list[str]:
    """The text of each line translated by ``count`` processes."""
    job: Any = repeat
    found = answers(job, iter(windows), count, lambda: True, copies=False)
    return [translations[0] for best in found for translations in best]


def test_each_core_has_a_process_if_half_the_memory_can_hold_their_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "available_cores", lambda: 64)
    monkeypatch.setattr(jobs.memory, "installed_memory", lambda: 8 << 30)
    for device, size, count in (("cpu", 64 << 20, 64), ("cpu", 1 << 30, 4), ("cpu", 9 << 30, 1), ("cuda", 1, 1)):
        assert processes_for(cast(Translator, SimpleNamespace(model_bytes=size, device=torch.device(device)))) == count


def test_translations_are_in_order_whichever_process_made_them(crowd: type[Crowd]) -> None:
    windows = [lines(3), lines(LARGEST_WINDOW, 3), lines(SHARE + 1, 5000), lines(1, 9000)]
    assert texts(windows, 2) == [line for window in windows for line, _ in window]
    assert crowd.asked == [2]


def test_the_parts_of_a_window_do_not_wait_for_the_next_line(
    crowd: type[Crowd], monkeypatch: pytest.MonkeyPatch
) -> None:
    readiness, job = list[bool](), cast(Any, repeat)

    def noted(self: Crowd, function: Any, items: Iterator[Any], ready: Callable[[], bool]) -> Iterator[Any]:
        for item in items:
            readiness.append(ready())
            yield function(item)

    monkeypatch.setattr(crowd, "map", noted)
    assert len(list(answers(job, iter([lines(3 * LEAST)] * 2), 3, lambda: False, copies=False))) == 2
    assert readiness == [True, True, False] * 2


def test_a_short_text_starts_no_process(crowd: type[Crowd]) -> None:
    texts([lines(1000)], 1)
    texts([lines(2 * LEAST - 1)], 2)
    assert crowd.asked == []
    texts([lines(2 * LEAST)], 2)
    assert crowd.asked == [2]


@pytest.mark.parametrize(
    ("number", "count"), [(3 * SHARE + 5, 2), (2 * LEAST, 2), (LARGEST_WINDOW, 3), (700, 16), (1, 2)]
)
def test_parts_have_lines_of_similar_length_and_together_all_lines(number: int, count: int) -> None:
    window = lines(number)
    taken = parts(window, count)
    assert sorted(i for part in taken for i in part) == list(range(number))
    lengths = [[len(window[i][0]) for i in part] for part in taken]
    assert all(min(longer) >= max(shorter) for longer, shorter in itertools.pairwise(lengths))


@pytest.mark.parametrize(("number", "count"), [(SHARE + 1, 2), (1000, 2), (LARGEST_WINDOW, 3), (LARGEST_WINDOW, 16)])
def test_every_process_has_equally_many_parts_of_equal_work(number: int, count: int) -> None:
    window = lines(number)
    amounts = [sum(len(window[i][0]) + 1 for i in part) for part in parts(window, count)]
    longest = max(len(line) for line, _ in window) + 1
    assert len(amounts) % count == 0
    assert max(amounts) - min(amounts) <= 2 * longest


def test_one_huge_line_is_a_part_of_its_own() -> None:
    window = [("x" * 1_000_000, ""), *lines(300)]
    first, *others = parts(window, 2)
    assert first == [0]
    assert sorted(i for part in others for i in part) == list(range(1, 301))


@pytest.mark.parametrize("copies", [False, CAN_FORK], ids=["spawned", "forked"])
def test_several_processes_translate_like_one_and_restore_the_threads(copies: bool) -> None:
    before = torch.get_num_threads()
    job = partial(translate_window, Models((OLD,), "cpu", None, None, "float32", None), Request(beam_size=2))
    window = [(" ".join("abcde"[(i + j) % 5] for j in range(i % 4)), "") for i in range(2 * SHARE + 40)]
    jobs = 3 if copies else 2  # a spawned process imports torch
    [together] = answers(job, iter([window]), jobs, lambda: True, copies=copies)
    assert [best[0].text for best in together] == [best[0].text for best in job(window)]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("products", ["float32", "bfloat16"])
def test_all_processes_use_the_precision_measured_by_the_first(
    products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_bfloat16_is_faster", lambda: products == "bfloat16")
    models = Models((OLD,), "cpu", None, None, "auto", None).resolved()
    monkeypatch.setattr(precision, "_bfloat16_is_faster", lambda: products != "bfloat16")  # in another process
    translator = loading.load(*models[:-1])
    assert isinstance(translator.model, ForSearch)
    assert translator.model.precision == products
    assert isinstance(translator.given, Seq2Seq)  # in float32, because a measured precision was not requested


def test_a_process_translates_with_the_model_that_is_there_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python, as a notebook does: another working folder, or a model that was trained further."""

    def scores(folder: Path) -> list[float]:
        monkeypatch.chdir(folder)
        models = Models((Path("run"),), "cpu", None, None, "float32", None)
        request = Request(max_len_b=5)
        assert translator_of(models.resolved()) is translator_of(models.resolved())
        return [best.log_prob for [best] in translate_window(models.resolved(), request, [("a b c", "")])]

    first, second = tmp_path / "first", tmp_path / "second"
    for folder, seed in ((first, 1), (second, 2)):
        folder.mkdir()
        write_model(folder / "run", "rnnsearch", seed=seed)
    before, other = scores(first), scores(second)
    assert before != other
    for sums in tmp_path.rglob("checksums.json"):
        sums.unlink()  # as in a folder of nmtkit 0.1
    assert [scores(first), scores(second)] == [before, other]
    shutil.rmtree(first / "run")
    write_model(first / "run", "rnnsearch", seed=2)
    assert scores(first) == other


@pytest.mark.parametrize("command", ["translate", "serve --port 0"])
def test_commands_with_several_processes_resolve_the_precision_once(
    command: str, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Models]()

    def load(*arguments: Any) -> None:
        asked.append(Models(*arguments))
        raise UserError("it was asked for")

    monkeypatch.setattr(loading, "load", load)
    assert nmtkit(*command.split(), "-m", "any").err.endswith("it was asked for\n")
    assert asked[0].products == precision.resolve("auto", loading.choose_device("auto"))
