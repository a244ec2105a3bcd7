"""The process of a server: its socket, its workers, its connections, and how it ends."""

import asyncio
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmtkit.errors import UserError
from nmtkit.machine.processes import Workers
from nmtkit.serving.app import make_app
from nmtkit.serving.engine import Engine
from nmtkit.serving.limits import CONNECTIONS, KEEP_ALIVE, TRANSFER, Limits
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Offer, describe, search, translators_of
from nmtkit.serving.service import Service
from nmtkit.translation.jobs import processes_for
from nmtkit.translation.request import Request

LEAST_READ = 1 << 16  # bytes that a client has to read in the time that it has for it


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises UserError for an address that cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=2048)
    except UnicodeError as error:
        raise UserError(f"`host` {host}: {error}; give another") from None
    except OSError as error:
        # Python puts the address into the reason; numbers that are not the system's are those of getaddrinfo.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise UserError(f"`host` {host} and `port` {port}: {reason}; give others") from None


def hosts_of(listener: socket.socket, host: str) -> list[str]:
    """The names that a Host header may have. host: the one that the user gave the listener.

    A server on a loopback address answers to its own names only: a web page from elsewhere could otherwise read its
    answers by having that page's name resolved to this machine (DNS rebinding). Other servers answer to any name.
    """
    local = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
    return ["localhost", "127.0.0.1", "[::1]", host] if local else ["*"]


class Server:
    """A server with its models loaded.

    jobs: processes that search, each with a copy of the models; with 1, a thread of this one does. Raises UserError for
    models that cannot be used, or not for what ``request`` asks.
    """

    def __init__(
        self,
        offers: tuple[Offer, ...],
        request: Request,
        limits: Limits,
        split: bool,
        key: str | None,
        origins: Sequence[str],
        hosts: Sequence[str],
        jobs: int | None,
    ) -> None:
        self.models = describe(offers, request)
        self._offers, self._request, self._limits, self._split = offers, request, limits, split
        self._key, self._origins, self._hosts = key, origins, hosts
        self._jobs = jobs or min(map(processes_for, translators_of(offers).values()))

    def run(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Answer whoever comes until a signal does. Then what is being searched is finished, and the rest refused.

        ready: is called when the first may come.
        """
        if self._jobs > 1:
            translators_of.cache_clear()  # the processes have their own
        with Workers(self._jobs) as workers:
            # Each of them loads the models and searches once before anybody waits for it.
            with ThreadPoolExecutor(self._jobs) as threads:
                warm = partial(describe, self._offers)
                list(threads.map(lambda _: workers.call(warm, self._request), range(self._jobs)))
            metrics, function = Metrics(), partial(search, self._offers)
            engine = Engine(lambda batch: workers.call(function, batch), self._jobs, self._limits.timeout, metrics)
            models = {each.name: each for each in self.models}
            service = Service(models, engine, self._limits, metrics, self._request, self._split, self._key)
            config = uvicorn.Config(
                make_app(service, self._origins, self._hosts), loop="asyncio", http=_Connection, ws="none",
                log_config=None, log_level="critical", access_log=False, server_header=False,
                limit_concurrency=CONNECTIONS, timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=int(TRANSFER) + 60,
            )  # fmt: skip
            _Uvicorn(config, engine, ready).run([listener])


class _Uvicorn(uvicorn.Server):
    """A server that says when it is ready, and whose end begins with the queue's."""

    def __init__(self, config: uvicorn.Config, engine: Engine, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._engine, self._ready = engine, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse what waits, which ends its connections, and wait for the others."""
        self._engine.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Remember that a signal came. SIGTERM is how a server is ended, and no failure; Ctrl-C is raised again."""
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)


class _Connection(H11Protocol):
    """A connection that is closed if the client takes too long to send the head of a request or to read an answer.

    Without that a client could hold a connection for ever with a byte now and then.
    """

    _sending: asyncio.TimerHandle | None = None  # until the head of a request has to be there
    _reading: asyncio.TimerHandle | None = None  # until some of the answer has to be read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self._sending = self.loop.call_later(TRANSFER, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Read on; the head is complete when there is a request that has no answer yet."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._in_time()
        elif self._sending is None:  # the first bytes of another head
            self._sending = self.loop.call_later(TRANSFER, self.transport.abort)

    def pause_writing(self) -> None:
        """Begin to watch whether the client reads: more of an answer waits for it than is kept for one."""
        super().pause_writing()
        self._read_by(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop watching: the client has read nearly everything."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both clocks."""
        super().connection_lost(exc)
        self._in_time()
        if self._reading is not None:
            self._reading.cancel()

    def _in_time(self) -> None:
        """Note that the head of the request is there."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _read_by(self, unread: int) -> None:
        """Give up a client that has not read ``LEAST_READ`` of these bytes when the time is over."""
        self._reading = self.loop.call_later(TRANSFER, self._check_read, unread)

    def _check_read(self, before: int) -> None:
        """Go on watching a client that has read enough since ``before`` bytes were left, and give up any other."""
        unread = self.transport.get_write_buffer_size()
        if unread > before - LEAST_READ:
            self.transport.abort()
        else:
            self._read_by(unread)
