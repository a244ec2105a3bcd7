"""What all endpoints of a server share: its translators, engine and limits, and the way in and out for a text."""

import asyncio
import hmac
import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from nmtkit.errors import UserError
from nmtkit.serving.engine import Engine, Kind
from nmtkit.serving.limits import ATTENTION, LINE, TRANSFER, Limits
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Answer, Description
from nmtkit.serving.sentences import Span
from nmtkit.translation.request import Request

T = TypeVar("T")


class HttpError(Exception):
    """A request that is answered with this status and one sentence."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Service:
    """A server's translators, by the names that clients know them by, and how they are used."""

    models: dict[str, Description]  # the first one is taken where none is named
    engine: Engine
    limits: Limits
    metrics: Metrics
    request: Request  # what is asked of a translator where the client says nothing else
    split: bool  # whether a text is split into sentences where the client says nothing else
    key: str | None  # that clients have to know

    def check_key(self, http: HttpRequest, given: object = None) -> None:
        """Raise HttpError unless the client knows the key, in a header or as the value ``given`` in its request."""
        if self.key is None:
            return
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        offered = http.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else given)
        text = offered if isinstance(offered, str) else ""
        # In constant time, which does not reveal how much was right. Only "surrogatepass" encodes lone surrogates.
        if not hmac.compare_digest(text.encode("utf-8", "surrogatepass"), self.key.encode("utf-8", "surrogatepass")):
            raise HttpError(403, "the API key is missing or wrong")

    async def body(self, http: HttpRequest) -> bytes:
        """The body of a request. Raises HttpError for one that is too large, or that takes too long to come."""
        try:
            return await asyncio.wait_for(self._body(http), TRANSFER)
        except asyncio.TimeoutError:
            raise HttpError(408, f"the request was not complete after {TRANSFER:g} seconds") from None

    async def _body(self, http: HttpRequest) -> bytes:
        """The body of a request, of which no more is kept than is allowed."""
        content, size = bytearray(), 0
        async for part in http.stream():
            size += len(part)
            # Read to its end all the same: a client that is still sending reads no answer.
            if size <= self.limits.body:
                content += part
        if size > self.limits.body:
            raise HttpError(413, f"the request has more than {self.limits.body} bytes")
        return bytes(content)

    async def json(self, http: HttpRequest) -> dict[str, Any]:
        """The JSON object in the body of a request. Raises HttpError where there is none."""
        try:
            values = json.loads((await self.body(http)).decode("utf-8"), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise HttpError(400, f"the request is not UTF-8 at byte {error.start}") from None
        except (ValueError, RecursionError) as error:
            reason = (
                str(error) if isinstance(error, json.JSONDecodeError) else "a value is too long or nested too deeply"
            )
            raise HttpError(400, f"the request is not JSON: {reason}") from None
        if not isinstance(values, dict):
            raise HttpError(400, "the request is not a JSON object")
        return values

    def description(self, name: str | None) -> Description:
        """The translator of that name, or the first. Raises UserError if there is none."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise UserError(f"`model`: there is no {_shown(name)}; there are {', '.join(self.models)}")
        return self.models[name]

    def check_text(self, text: str, request: Request) -> None:
        """Raise HttpError for a text that is too long for what is asked, and UserError for one that is no text."""
        check_characters("text", text)
        limits, times = self.limits, request.n_best or 1
        for most, what in (
            (limits.characters, ""),
            (ATTENTION if request.attention else None, "for `attention` "),
        ):
            if most is not None and len(text) * times > most:
                many = f", {times} times for `n_best`," if times > 1 else ""
                raise HttpError(413, f"the text has {len(text)} characters{many} and may have {what}{most}")

    def check_sentences(self, sentences: Sequence[Span]) -> None:
        """Raise HttpError for more lines or sentences than a request may have, and for one that is too long."""
        self.check_number(len(sentences))
        longest = max((span.end - span.start for span in sentences), default=0)
        if longest > LINE:
            raise HttpError(413, f"a line or sentence has {longest} characters, more than {LINE}")

    def check_number(self, number: int) -> None:
        """Raise HttpError for more texts, lines or sentences than a request may have."""
        if number > self.limits.lines:
            raise HttpError(413, f"the text has {number} lines or sentences, more than {self.limits.lines}")

    async def answers(
        self, http: HttpRequest, kind: Kind, sentences: Sequence[str], beside: Sequence[str] | None
    ) -> list[Answer]:
        """The answer to each sentence. Raises ClientDisconnect when the client is gone, whose sentences are dropped."""
        return await _unless_gone(http, self.engine.answer(kind, sentences, beside))


async def _unless_gone(http: HttpRequest, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client is gone. Raises ClientDisconnect then."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_gone(http))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait([working, leaving])


async def _gone(http: HttpRequest) -> None:
    """Return when the client has closed the connection. Its request has been read."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and its like, which JSON does not have."""
    raise json.JSONDecodeError(f"{name} is no JSON", name, 0)


def check_characters(name: str, text: str) -> None:
    """Raise UserError for a text that cannot be written as UTF-8: JSON can spell halves of surrogate pairs."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"`{name}`: character {error.start} is half of a surrogate pair") from None


def _shown(text: str) -> str:
    """A name that a client sent, short enough to be shown."""
    return repr(text if len(text) <= 60 else text[:60] + "...")
