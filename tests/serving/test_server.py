"""A real process of ``nmtkit serve``: signals, slow and vanishing clients, and a folder that is deleted meanwhile."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.serving.server import _Uvicorn, hosts_of, listen, processes_of
from nmtkit.translation import loading
from nmtkit.translation.translator import Translator
from tests.echo import load_echo, write_folder

PROJECT = Path(__file__).parents[2]


class Running:
    """A server, and requests to it."""

    def __init__(self, folder: Path, *arguments: str, **limits: float) -> None:
        command = [sys.executable, "-m", "tests.echo", "serve", "--port", "0", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "LIMITS": json.dumps(limits)}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.told = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.told)
        assert found, self.told + self.process.stderr.read()
        self.port = int(found[1])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def ask(self, method: str, path: str, values: dict[str, Any] | None = None) -> tuple[int, Any]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)) as connection:
            connection.request(method, path, None if values is None else json.dumps(values))
            response = connection.getresponse()
            content = response.read().decode()
        return response.status, content if path == "/metrics" else json.loads(content)

    def queued(self) -> int:
        found = re.search(r"^nmtkit_queued_sentences (\d+)\.0$", self.ask("GET", "/metrics")[1], re.MULTILINE)
        assert found
        return int(found[1])

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(6_000):
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError("it did not come to that")

    def ended(self) -> tuple[int, str]:
        """The status, and the messages on stderr after the address."""
        _, err = self.process.communicate(timeout=300)
        return self.process.returncode, err


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    write_folder(tmp_path / "run")
    started = list[Running]()

    def run(*arguments: str, **limits: float) -> Running:
        started.append(Running(tmp_path, *arguments, **limits))
        return started[-1]

    yield run
    for server in started:
        server.process.kill()
        server.process.communicate()


def in_thread(function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results = list[Any]()
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    return thread, results


def children(server: Running) -> dict[int, str]:
    """The processes that a server has started, with their command lines."""
    command = ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(server.process.pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {int(line.split()[0]): line for line in listed.splitlines()}


LONG = {"lines": ["a b c d e f g h"] * 10_000}


@pytest.mark.slow
def test_workers_that_are_killed_are_replaced_and_sigterm_under_load_ends_with_0(start: Start) -> None:
    server = start("--jobs", "2")
    assert server.told == f"run (en to en): http://127.0.0.1:{server.port} (Ctrl-C stops the server)\n"

    def kill_workers() -> None:
        for pid, line in children(server).items():
            if "spawn_main" in line:
                os.kill(pid, signal.SIGKILL)

    kill_workers()
    for _ in range(3):
        assert server.ask("POST", "/v1/translate", {"text": "a lower b"})[1]["text"] == "a lower b"
    with server.connect() as idle:
        thread, refused = in_thread(lambda: server.ask("POST", "/v1/translate", LONG))
        server.until(lambda: server.queued() > 0)
        kill_workers()
        server.process.send_signal(signal.SIGTERM)
        thread.join()
        assert refused == [(503, {"error": "the server is shutting down"})]
        status, err = server.ended()
        assert status == 0
        assert set(err.splitlines()) == {"a worker process was killed and has been replaced"}
        assert idle.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        server.connect()


@pytest.mark.slow
def test_kill_9_leaves_no_process_behind(start: Start) -> None:
    server = start("--jobs", "2")
    started = children(server)
    assert len(started) >= 2
    server.process.kill()
    server.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


@pytest.mark.slow
def test_slow_or_vanishing_clients_and_a_deleted_folder_do_not_block_others(start: Start, tmp_path: Path) -> None:
    server = start("--jobs", "1", TRANSFER=0.5, KEEP_ALIVE=1)
    shutil.rmtree(tmp_path / "run")
    asked = {"text": "a z", "replace_unk": True, "attention": True, "n_best": 2}
    assert server.ask("POST", "/v1/translate", asked)[1]["text"] == "a z"

    head = "POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n"
    with server.connect() as slow_head, server.connect() as slow_body, server.connect() as idle:
        slow_head.sendall(head.format(100).encode())
        slow_body.sendall(head.format(100).encode() + b"\r\n{")
        assert idle.recv(1000) == slow_head.recv(1000) == b""
        assert slow_body.recv(1000).startswith(b"HTTP/1.1 408 ")

    # Who asks for a long text and goes away leaves the queue to others.
    body = json.dumps(LONG).encode()
    with server.connect() as gone:
        gone.sendall(head.format(len(body)).encode() + b"\r\n" + body)
        server.until(lambda: server.queued() > 0)
    server.until(lambda: server.queued() == 0)
    assert 'status="499"} 1.0' in server.ask("GET", "/metrics")[1]

    def connections() -> int:
        listed = Path(f"/proc/{server.process.pid}/net/tcp").read_text()
        return len(re.findall(rf":{server.port:04X} \S+ 01 ", listed))

    # Who does not read the answer, here of ten megabytes, is given up.
    body = json.dumps({"lines": ["a b c d e f g h " * 4] * 3_000, "n_best": 3}).encode()
    with server.connect() as deaf:
        deaf.sendall(head.format(len(body)).encode() + b"\r\n" + body)
        server.until(lambda: 'path="/v1/translate",status="200"} 2.0' in server.ask("GET", "/metrics")[1])
        server.until(lambda: connections() == 0)

    # In the end something is searched and something waits.
    thread, refused = in_thread(lambda: server.ask("POST", "/v1/translate", LONG))
    server.until(lambda: server.queued() > 0)
    server.process.send_signal(signal.SIGTERM)
    thread.join()
    assert refused == [(503, {"error": "the server is shutting down"})]
    assert server.ended() == (0, "")


@pytest.mark.slow
def test_errors_before_a_request_is_read_are_plain_text(start: Start) -> None:
    server = start("--jobs", "1", CONNECTIONS=1)
    for request, status, reason in (
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 503, b"Service Unavailable"),
        (b"no HTTP\r\n\r\n", 400, b"Invalid HTTP request received."),
    ):
        with server.connect() as client, client.makefile("rb") as answer:
            client.sendall(request)
            head, _, body = answer.read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert b"content-type: text/plain" in head
        assert reason in body


def test_ctrl_c_ends_with_130_and_says_nothing(start: Start) -> None:
    server = start("--jobs", "1")
    server.process.send_signal(signal.SIGINT)
    assert server.ended() == (130, "")


def test_a_port_in_use_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UserError, match=rf"`host` 127\.0\.0\.1 and `port` {port}: Address already in use; use others"
        ):
            listen("127.0.0.1", port)
    with pytest.raises(UserError, match=r"`host` no\.example and `port` 80: .*; use others"):
        listen("no.example", 80)


def test_a_name_that_no_host_can_have_is_refused() -> None:
    with pytest.raises(UserError, match=r"`host` a\.\.b: .*; use another"):
        listen("a..b", 80)


def test_a_server_for_this_machine_only_answers_to_its_own_names() -> None:
    with listen("127.0.0.2", 0) as own, listen("0.0.0.0", 0) as others:
        assert hosts_of(own, "Own.example") == ["localhost", "127.0.0.1", "[::1]", "Own.example"]
        assert hosts_of(others, "0.0.0.0") == ["*"]


def test_a_link_local_address_is_served_on_its_interface(
    nmtkit: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Path("/proc/net/if_inet6")
    rows = [line.split() for line in table.read_text().splitlines()] if table.exists() else []
    local = [(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])), row[5]) for row in rows if row[3] == "20"]
    if not local:
        pytest.skip("this machine has no link-local address; bring a network with IPv6 up")
    host = "%".join(local[0])
    with listen(host, 0) as listener:
        assert listener.getsockname()[3] == socket.if_nametoindex(local[0][1])
    monkeypatch.setattr(loading, "load_model", load_echo)
    monkeypatch.setattr(_Uvicorn, "run", lambda server, listeners: server._ready())
    told = nmtkit("serve", "-m", write_folder(tmp_path / "run"), "--host", host, "--port", 0, "--jobs", 1).err
    assert re.search(rf"http://\[{re.escape(host)}\]:\d+ \(", told)


def test_a_server_has_no_more_processes_than_the_memory_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(size: int) -> Translator:
        return cast(Translator, SimpleNamespace(model_bytes=size, device=torch.device("cpu")))

    monkeypatch.setattr("nmtkit.serving.server.installed_memory", lambda: 4 << 30)
    monkeypatch.setattr("nmtkit.translation.jobs.available_cores", lambda: 64)
    models = {"one": model(100 << 20), "two": model(262 << 20)}  # with 300 MiB, 1 GiB for each process
    assert processes_of(models, None) == processes_of(models, 4) == 4
    expected = "`jobs` 5: these need about 5.0 GiB of memory, but there are only 4.0 GiB; use fewer"
    with pytest.raises(UserError, match=re.escape(expected)):
        processes_of(models, 5)
    assert processes_of({"huge": model(9 << 30)}, 1) == 1
