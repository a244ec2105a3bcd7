"""Shared by all endpoints: translators, engine, limits, and reading and checking of requests."""

import asyncio
import hmac
import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from nmtkit.documents.segment import Segment
from nmtkit.documents.sentences import Span, nonblank_lines, sentences
from nmtkit.documents.translate import Plan, plan
from nmtkit.errors import UserError
from nmtkit.serving.engine import Engine
from nmtkit.serving.limits import ATTENTION, LINE, TERMS, TRANSFER, Limits
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Answer, Description, Kind
from nmtkit.translation.request import Request

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """A server's translators by name, and its settings."""

    models: dict[str, Description]  # the first one is the default
    engine: Engine
    limits: Limits
    metrics: Metrics
    request: Request  # the default of clients
    split: bool  # whether texts are split into sentences by default
    key: str | None  # the API key

    def check_key(self, http: HttpRequest, given: object = None) -> None:
        """Raise HTTPException unless the client sends the key, in a header or as ``given`` in the request."""
        if self.key is None:
            return
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        offered = http.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else given)
        text = offered if isinstance(offered, str) else ""
        # In constant time, against timing attacks; "surrogatepass" encodes lone surrogates.
        if not hmac.compare_digest(text.encode("utf-8", "surrogatepass"), self.key.encode("utf-8", "surrogatepass")):
            raise HTTPException(403, "the API key is missing or wrong")

    async def body(self, http: HttpRequest, most: int) -> bytes:
        """The body of a request. Raises HTTPException if it has more than ``most`` bytes or takes too long."""
        try:
            return await within(TRANSFER, _body(http, most))
        except TimeoutError:
            raise HTTPException(408, f"the request was not complete after {TRANSFER:g} seconds") from None

    async def json(self, http: HttpRequest) -> dict[str, Any]:
        """The JSON object in the body. Raises HTTPException for anything else."""
        body = await self.body(http, self.limits.body)
        if http.headers.get("content-type", "").lower().startswith("multipart/"):
            raise HTTPException(400, "the request is a multipart form; send a JSON object")
        try:
            values = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise HTTPException(400, f"the request is not UTF-8 at byte {error.start}") from None
        except (ValueError, RecursionError) as error:
            known = isinstance(error, json.JSONDecodeError)
            reason = str(error) if known else "a value is too long or nested too deeply"
            raise HTTPException(400, f"the request is not JSON: {reason}") from None
        if not isinstance(values, dict):
            raise HTTPException(400, "the request is not a JSON object")
        for name, value in values.items():  # refused before they are converted, which takes long
            longest = TERMS if name == "terms" else self.limits.lines
            if isinstance(value, list) and len(value) > longest:
                raise HTTPException(413, f"`{name[:60]}`: a list of {len(value)} items; the limit is {longest}")
        return values

    def description(self, name: str | None) -> Description:
        """The translator of that name, by default the first. Raises UserError if there is none."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise UserError(f"`model`: there is no {name[:60]!r}; available: {', '.join(self.models)}")
        return self.models[name]

    def check_text(self, text: str, request: Request) -> None:
        """Raise HTTPException for a text that is too long for the request, and UserError for invalid characters."""
        check_characters("text", text)
        limits, times = self.limits, max(request.n_best or 1, request.mbr or 1)
        for most, what in ((limits.characters, ""), (ATTENTION if request.attention else None, "for `attention` ")):
            if most is not None and len(text) * times > most:
                many = f", {times} times for `n_best` or `mbr`" if times > 1 else ""
                raise HTTPException(413, f"the text has {len(text)} characters{many}; the limit {what}is {most}")

    async def sentences(self, texts: Sequence[str], language: str, split: bool) -> list[list[Span]]:
        """The sentences of each text. Raises HTTPException for too many lines or sentences, or one that is too long."""
        self.check_number(sum(map(nonblank_lines, texts)))  # before they are split, which takes longer

        def split_all() -> list[list[Span]]:
            return [sentences(text, language, split) for text in texts]

        # Short texts are split in milliseconds, and need not wait for a thread.
        spans = split_all() if sum(map(len, texts)) <= LINE else await self.engine.aside(split_all)
        self.check_lengths([span.end - span.start for each in spans for span in each])
        return spans

    def plans(self, documents: Sequence[Sequence[Segment]], model: Description) -> list[Plan]:
        """What there is to translate in the segments of each document. Raises HTTPException as ``sentences`` does."""
        self.check_number(sum(nonblank_lines(segment.text) for segments in documents for segment in segments))
        plans = [plan(each, model.source, model.target, model.stand_ins, split=self.split) for each in documents]
        self.check_lengths([len(sentence) for each in plans for sentence in each.sentences])
        return plans

    def check_lengths(self, lengths: Sequence[int]) -> None:
        """Raise HTTPException for too many lines or sentences, or one that is too long."""
        self.check_number(len(lengths))
        if (longest := max(lengths, default=0)) > LINE:
            raise HTTPException(413, f"a line or sentence has {longest} characters, more than {LINE}")

    def check_number(self, number: int) -> None:
        """Raise HTTPException for too many texts, lines or sentences."""
        if number > self.limits.lines:
            raise HTTPException(413, f"the text has {number} lines or sentences, more than {self.limits.lines}")

    async def answers(
        self, http: HttpRequest, kind: Kind, sentences: Sequence[str], targets: Sequence[str] | None
    ) -> list[Answer]:
        """The answer to each sentence. Raises ClientDisconnect, and cancels the search, if the client disconnects."""
        return await _before(_gone(http), ClientDisconnect, self.engine.answer(kind, sentences, targets))


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``; after so many seconds, it is cancelled and TimeoutError raised.

    ``asyncio.wait_for`` would ignore a cancellation at the moment when the work is done, before Python 3.12.
    """
    return await _before(asyncio.sleep(seconds), TimeoutError, work)


async def _body(http: HttpRequest, most: int) -> bytes:
    content, size = bytearray(), 0
    async for part in http.stream():
        size += len(part)
        # Read it all, because a client that is still sending reads no answer.
        if size <= most:
            content += part
    if size > most:
        raise HTTPException(413, f"the request has more than {most} bytes")
    return bytes(content)


async def _before(end: Coroutine[Any, Any, None], error: type[Exception], work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``; if ``end`` comes first, it is cancelled and ``error`` raised."""
    working, ending = asyncio.create_task(work), asyncio.create_task(end)
    try:
        await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise error
    finally:
        for task in (working, ending):
            task.cancel()
        await asyncio.wait([working, ending])


async def _gone(http: HttpRequest) -> None:
    """Return when the client has closed the connection."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _refuse_constant(name: str) -> None:
    """Reject NaN and Infinity, which are not valid JSON."""
    raise HTTPException(400, f"the request is not JSON: it has {name}")


def check_characters(name: str, text: str) -> None:
    """Raise UserError for lone surrogates, which JSON can escape but UTF-8 cannot encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"`{name}`: character {error.start} is half of a surrogate pair") from None
