"""The laws of the queue, with searches that the test delays or lets fail."""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from nmtkit.errors import UserError
from nmtkit.serving import engine as engine_module
from nmtkit.serving.engine import ASIDE, Busy, Engine
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Answer, Batch, Kind
from nmtkit.translation.request import Request

ONE = Kind("run", Request(), full=False)


class Search:
    """Translates each sentence as itself. The first batch waits until it is released; batches are recorded."""

    def __init__(self) -> None:
        self.batches = list[Batch]()
        self.go = threading.Event()

    def __call__(self, batch: Batch) -> list[Answer]:
        self.batches.append(batch)
        assert self.go.wait(10)
        if "bad" in batch.sentences:
            raise UserError("a bad sentence")
        if "bug" in batch.sentences:
            raise ZeroDivisionError(batch.sentences)
        targets = batch.targets or [""] * len(batch.sentences)
        return [Answer([text + other], [], "") for text, other in zip(batch.sentences, targets, strict=True)]


def run(test: Callable[[Engine, Search], Awaitable[None]], workers: int = 1) -> tuple[Search, Metrics]:
    """Run a test on an event loop, and check that the queue is empty at the end."""
    search, metrics = Search(), Metrics()

    async def whole() -> None:
        engine = Engine(search, workers, metrics)
        await test(engine, search)
        search.go.set()
        await engine.close()

    asyncio.run(whole())
    for name in ("sentences", "characters"):
        assert f"\nnmtkit_queued_{name} 0.0\n" in metrics.text().decode()
    return search, metrics


def sent(engine: Engine, *sentences: str, kind: Kind = ONE) -> asyncio.Task[list[Answer]]:
    return asyncio.create_task(engine.answer(kind, sentences, None))


async def settled() -> None:
    """Let tasks and threads advance as far as possible without the end of the search."""
    for _ in range(20):
        await asyncio.sleep(0.001)


def texts(answers: list[Answer]) -> list[str]:
    return [answer.texts[0] for answer in answers]


def test_requests_that_arrive_during_a_search_are_batched_next() -> None:
    async def test(engine: Engine, search: Search) -> None:
        first = sent(engine, "first")
        await settled()
        others = [sent(engine, f"other {i}") for i in range(50)]
        await settled()
        search.go.set()
        assert texts(await first) == ["first"]
        assert [texts(answers) for answers in await asyncio.gather(*others)] == [[f"other {i}"] for i in range(50)]

    search, _ = run(test)
    assert [len(batch.sentences) for batch in search.batches] == [1, 50]


def test_one_sentence_does_not_wait_for_ten_thousand_of_another_client() -> None:
    async def test(engine: Engine, search: Search) -> None:
        long = sent(engine, *(f"{i} of a long text" for i in range(10_000)))
        await settled()
        short = sent(engine, "x")
        await settled()
        search.go.set()
        await short
        assert not long.done()
        assert texts(await long) == [f"{i} of a long text" for i in range(10_000)]

    search, _ = run(test)
    assert "x" in search.batches[1].sentences


def test_a_batch_has_what_takes_a_second_at_the_speed_of_the_last_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=0.125)  # every search takes an eighth of a second
    monkeypatch.setattr(engine_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    async def test(engine: Engine, search: Search) -> None:
        search.go.set()
        for sentences, characters in ((1, 400), (1_000, 10), (1_000, 100)):
            await engine.answer(ONE, ["x" * (characters - 1)] * sentences, None)

    search, _ = run(test)
    # The first batch has 3,200 characters a second, the second 25,600; the third is too small to say anything.
    assert [len(batch.sentences) for batch in search.batches] == [1, 320, 680, 256, 744]


@pytest.mark.parametrize("workers", [1, 3])
def test_every_sentence_is_answered_once_and_in_order(workers: int) -> None:
    choose = random.Random(1)
    counts = [choose.choice([0, 1, 2, 700]) for _ in range(60)]
    requests = [[f"{r}: {'x' * choose.randrange(80)}" for _ in range(n)] for r, n in enumerate(counts)]
    kinds = [Kind("run", Request(n_best=1 + r % 3), full=False) for r in range(60)]

    async def test(engine: Engine, search: Search) -> None:
        search.go.set()
        tasks = [sent(engine, *lines, kind=kind) for lines, kind in zip(requests, kinds, strict=True)]
        assert [texts(answers) for answers in await asyncio.gather(*tasks)] == requests

    search, _ = run(test, workers=workers)
    assert sum(len(batch.sentences) for batch in search.batches) == sum(counts)
    for batch in search.batches:
        assert {kinds[int(text.partition(":")[0])].request for text in batch.sentences} == {batch.kind.request}


def test_a_sentence_keeps_its_prefix_or_reference() -> None:
    async def test(engine: Engine, search: Search) -> None:
        search.go.set()
        lines, kind = ["a", "bbb", "cc"], Kind("run", Request(prefixes=True), full=False)
        assert texts(await engine.answer(kind, lines, ["1", "2", "3"])) == ["a1", "bbb2", "cc3"]

    run(test)


def test_a_full_queue_refuses_with_a_retry_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "QUEUE", 100)

    async def test(engine: Engine, search: Search) -> None:
        searched = sent(engine, "searched")
        await settled()
        large = sent(engine, "x" * 1_000)  # larger than the queue, but nobody else waits
        await settled()
        with pytest.raises(Busy, match="the queue is full") as refused:
            await engine.answer(ONE, ["y"], None)
        assert refused.value.seconds >= 1
        search.go.set()
        await asyncio.gather(searched, large)
        assert texts(await engine.answer(ONE, ["y"], None)) == ["y"]

    run(test)


@pytest.mark.parametrize(("characters", "seconds"), [(200, 1), (50_000, 50), (1_000_000, 600)])
def test_the_retry_time_is_that_of_the_queue_and_at_most_ten_minutes(
    monkeypatch: pytest.MonkeyPatch, characters: int, seconds: int
) -> None:
    monkeypatch.setattr(engine_module, "QUEUE", 100)

    async def test(engine: Engine, search: Search) -> None:
        searched = sent(engine, "searched")
        await settled()
        large = sent(engine, "x" * characters)  # a thousand characters a second, until a speed is known
        await settled()
        with pytest.raises(Busy, match="the queue is full") as refused:
            await engine.answer(ONE, ["y"], None)
        assert refused.value.seconds == seconds
        search.go.set()
        await asyncio.gather(searched, large)

    run(test)


def test_a_cancelled_request_leaves_nothing_in_the_queue() -> None:
    async def test(engine: Engine, search: Search) -> None:
        searched = sent(engine, "searched")
        await settled()
        gone, stays = sent(engine, *["gone"] * 100), sent(engine, "stays")
        await settled()
        gone.cancel()
        await settled()
        search.go.set()
        await asyncio.gather(searched, stays)

    search, _ = run(test)
    assert [list(batch.sentences) for batch in search.batches] == [["searched"], ["stays"]]


def test_an_error_of_one_request_does_not_affect_another(caplog: pytest.LogCaptureFixture) -> None:
    async def test(engine: Engine, search: Search) -> None:
        first = sent(engine, "first")
        await settled()
        bad, bug, good = sent(engine, "bad", "b"), sent(engine, "bug"), sent(engine, "good", "g")
        await settled()
        search.go.set()
        assert texts(await first) == ["first"]
        assert texts(await good) == ["good", "g"]
        with pytest.raises(UserError, match="a bad sentence"):
            await bad
        with pytest.raises(ZeroDivisionError):
            await bug

    _, metrics = run(test)
    assert '\nnmtkit_sentences_total{model="run"} 3.0\n' in metrics.text().decode()  # those that were answered
    assert "ZeroDivisionError" in caplog.text
    assert "bug" not in caplog.text  # which is the text of a client


def test_slow_work_holds_up_neither_a_search_nor_the_shutdown() -> None:
    go_on = threading.Event()

    async def test(engine: Engine, search: Search) -> None:
        search.go.set()
        slow = [asyncio.create_task(engine.aside(go_on.wait, 60)) for _ in range(ASIDE)]
        waiting = asyncio.create_task(engine.aside(str.upper, "b"))
        await settled()
        assert texts(await sent(engine, "a")) == ["a"]
        assert not waiting.done()
        slow.pop().cancel()  # its thread goes on, and so keeps its place
        await settled()
        assert not waiting.done()
        engine.stop()
        for refused in (*slow, waiting, engine.aside(str.upper, "c")):
            with pytest.raises(Busy, match="the server is shutting down"):
                await refused

    began = time.monotonic()
    run(test)
    assert time.monotonic() - began < 30
    go_on.set()


def test_a_thread_that_nobody_waits_for_gives_up_its_place_at_its_end() -> None:
    go_on = threading.Event()

    async def test(engine: Engine, search: Search) -> None:
        slow = [asyncio.create_task(engine.aside(go_on.wait, 60)) for _ in range(ASIDE)]
        await settled()
        for task in slow:
            task.cancel()
        waiting = [asyncio.create_task(engine.aside(str.upper, text)) for text in "abcdefgh"]
        await settled()
        assert not any(task.done() for task in waiting)
        go_on.set()
        assert await asyncio.gather(*waiting) == [*"ABCDEFGH"]

    run(test)


def test_a_stopping_server_finishes_the_running_search_and_refuses_the_rest() -> None:
    async def test(engine: Engine, search: Search) -> None:
        searched = sent(engine, "searched")
        await settled()
        waiting = sent(engine, "waiting")
        await settled()
        engine.stop()
        with pytest.raises(Busy, match="the server is shutting down"):
            await waiting
        with pytest.raises(Busy, match="the server is shutting down"):
            await engine.answer(ONE, ["late"], None)
        search.go.set()
        assert texts(await searched) == ["searched"]

    run(test)
