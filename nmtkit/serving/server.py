"""The server process: socket, workers, slow connections, and shutdown."""

import asyncio
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmtkit.errors import UserError
from nmtkit.machine.memory import installed_memory
from nmtkit.machine.processes import Workers
from nmtkit.serving.app import make_app
from nmtkit.serving.engine import Engine
from nmtkit.serving.limits import CONNECTIONS, KEEP_ALIVE, TRANSFER, Limits
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Description, Offer, describe, search, translators_of
from nmtkit.serving.service import Service
from nmtkit.translation.jobs import processes_for
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translator

PROCESS = 300 << 20  # bytes of memory of a search process without its models
LEAST_READ = 1 << 16  # bytes that a client must read within ``TRANSFER``


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UserError if the address is not available."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=2048)
    except UnicodeError as error:
        raise UserError(f"`host` {host}: {error}; use another") from None
    except OSError as error:
        # Python adds the address to strerror; errors of getaddrinfo have negative numbers.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise UserError(f"`host` {host} and `port` {port}: {reason}; use others") from None


def hosts_of(listener: socket.socket, host: str) -> list[str]:
    """The names that a Host header may have; ``host`` is the one that the user gave the listener.

    On a loopback address these are only the server's own names, against DNS rebinding: a web page could otherwise let
    its own name resolve to this machine and read the answers. Other servers answer to any name.
    """
    local = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
    return ["localhost", "127.0.0.1", "[::1]", host] if local else ["*"]


def processes_of(translators: Mapping[str, Translator], jobs: int | None) -> int:
    """The number of search processes: ``jobs``, or what suits the machine.

    Raises UserError for more than the memory can hold.
    """
    # Search needs about as much memory as the models.
    each = PROCESS + 2 * sum(translator.model_bytes for translator in translators.values())
    most = max(1, installed_memory() // each)
    if jobs is None:
        return min(most, *map(processes_for, translators.values()))
    if jobs > most:
        needed, installed = (f"{size / 2**30:.1f} GiB" for size in (jobs * each, installed_memory()))
        raise UserError(
            f"`jobs` {jobs}: these need about {needed} of memory, but there are only {installed}; use fewer"
        )
    return jobs


def run(
    listener: socket.socket,
    ready: Callable[[Sequence[Description]], None],
    offers: tuple[Offer, ...],
    request: Request,
    limits: Limits,
    split: bool,
    key: str | None,
    origins: Sequence[str],
    host: str,
    jobs: int | None,
) -> None:
    """Serve until a signal arrives; then finish the running searches and refuse the queue.

    ready: called with the models when the server accepts connections. host: the name of the listener's address. jobs:
    search processes, each with a copy of the models; with 1, a thread of this process searches. Raises UserError for
    models that cannot be used, or not with ``request``, and for more processes than the memory can hold.
    """
    models = describe(offers, request)
    jobs = processes_of(translators_of(offers), jobs)
    if jobs > 1:
        translators_of.cache_clear()  # the processes load their own
    with Workers(jobs) as workers:
        # Warm up: each process loads the models and searches once.
        with ThreadPoolExecutor(jobs) as threads:
            warm = partial(describe, offers)
            list(threads.map(lambda _: workers.call(warm, request), range(jobs)))
        metrics, function = Metrics(), partial(search, offers)
        engine = Engine(lambda batch: workers.call(function, batch), jobs, metrics)
        service = Service({each.name: each for each in models}, engine, limits, metrics, request, split, key)
        config = uvicorn.Config(
            make_app(service, origins, hosts_of(listener, host)), loop="asyncio", http=_Connection, ws="none",
            log_config=None, log_level="critical", access_log=False, server_header=False,
            limit_concurrency=CONNECTIONS, timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=int(TRANSFER) + 60,
        )  # fmt: skip
        _Uvicorn(config, engine, lambda: ready(models)).run([listener])


class _Uvicorn(uvicorn.Server):
    """Calls ``ready`` after startup, and stops the engine at shutdown."""

    def __init__(self, config: uvicorn.Config, engine: Engine, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._engine, self._ready = engine, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._engine.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM is a normal exit; Ctrl-C is raised again."""
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)


class _Connection(H11Protocol):
    """Closes connections of clients that are too slow to send the head of a request or to read an answer."""

    _head: asyncio.TimerHandle | None = None  # deadline for the head of a request
    _reading: asyncio.TimerHandle | None = None  # deadline for reading ``LEAST_READ`` bytes

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = self.loop.call_later(TRANSFER, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # the head is complete
            self._cancel_head()
        elif self._head is None:  # the first bytes of another head
            self._head = self.loop.call_later(TRANSFER, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(TRANSFER, self._check_read, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_head()
        self._cancel_reading()

    def _cancel_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _cancel_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def _check_read(self, before: int) -> None:
        """Abort unless ``LEAST_READ`` bytes were read since ``before`` were left to read."""
        unread = self.transport.get_write_buffer_size()
        if unread > before - LEAST_READ:
            self.transport.abort()
        else:
            self._reading = self.loop.call_later(TRANSFER, self._check_read, unread)
