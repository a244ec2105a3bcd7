"""Load test for a running ``nmtkit serve``: many clients with one line each, a few with thousands, and both at once.

    nmtkit translate -m run < lines.txt > expected.txt
    nmtkit serve -m run --port 8123 &
    python recipes/serve/load.py http://127.0.0.1:8123 lines.txt expected.txt --large 4 --lines 5000 --small 200

Every answer is compared with the line of expected.txt. For each of the three phases, it prints the number of lines,
lines per second, latencies of small requests, the maximum latency of ``GET /health``, and the number of wrong answers.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """The result of a request for some lines."""

    seconds: float
    wrong: int  # lines that were not translated as expected


class Load(NamedTuple):
    """A server and the lines to send to it."""

    host: str
    port: int
    lines: Sequence[str]
    expected: Sequence[str]

    async def get(self, path: str, body: bytes = b"") -> bytes:
        """The response body of a request with a new connection. Raises RuntimeError for an error."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        method = "POST" if body else "GET"
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.read(-1)
        writer.close()
        status, _, content = answer.partition(b"\r\n\r\n")
        if b" 200 " not in status.partition(b"\r\n")[0]:
            raise RuntimeError(f"{status.decode()}: {content[:200].decode()}")
        return content

    async def translate(self, first: int, count: int) -> Answer:
        """Translate ``count`` lines from ``first`` on in one request, starting again after the last line."""
        numbers = [i % len(self.lines) for i in range(first, first + count)]
        began = time.monotonic()
        body = json.dumps({"lines": [self.lines[i] for i in numbers]}).encode()
        answer: dict[str, Any] = json.loads(await self.get("/v1/translate", body))
        texts = [sentence["translations"][0]["text"] for sentence in answer["sentences"]]
        pairs = itertools.zip_longest(texts, (self.expected[i] for i in numbers))
        return Answer(time.monotonic() - began, sum(text != wanted for text, wanted in pairs))

    async def health(self) -> list[float]:
        """The latencies of /health until this is cancelled."""
        times: list[float] = []
        try:
            while True:
                began = time.monotonic()
                await self.get("/health")
                times.append(time.monotonic() - began)
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            return times

    async def phase(self, name: str, small: int, rounds: int, large: int, lines: int) -> None:
        """Run a phase and print its line. small: clients that send one line, ``rounds`` times in sequence."""

        async def one_by_one(client: int) -> list[Answer]:
            return [await self.translate(client * rounds + turn, 1) for turn in range(rounds)]

        watch = asyncio.create_task(self.health())
        began = time.monotonic()
        long = [asyncio.create_task(self.translate(1_000 + client * lines, lines)) for client in range(large)]
        short = [asyncio.create_task(one_by_one(client)) for client in range(small)]
        answers = list(itertools.chain.from_iterable(await asyncio.gather(*short)))
        wrong = sum(answer.wrong for answer in [*answers, *await asyncio.gather(*long)])
        seconds = time.monotonic() - began
        watch.cancel()
        health = max(await watch, default=0.0)
        count = small * rounds + large * lines
        figures = f"{name}: {count} lines in {seconds:.1f} s, {count / seconds:.0f} a second, {wrong} not as expected"
        if answers:
            times = sorted(answer.seconds for answer in answers)
            last = times[min(len(times) - 1, round(0.99 * len(times)))]
            figures += f"; one line: median {statistics.median(times):.3f} s, 99 % within {last:.3f} s"
        print(f"{figures}; /health at most {health:.3f} s", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("lines_file", type=Path)
    parser.add_argument("expected_file", type=Path)
    parser.add_argument("--small", type=int, default=200, help="clients with one line")
    parser.add_argument("--rounds", type=int, default=1, help="lines of such a client, one after the other")
    parser.add_argument("--large", type=int, default=4, help="clients with many lines")
    parser.add_argument("--lines", type=int, default=5_000, help="lines of such a client")
    parser.add_argument("--only", choices=["small", "large", "both"], help="one phase alone")
    args = parser.parse_args()
    url = urlsplit(args.url)
    texts = [path.read_text("utf-8").split("\n")[:-1] for path in (args.lines_file, args.expected_file)]
    assert url.hostname is not None
    assert len(texts[0]) == len(texts[1]), "the files do not correspond"
    load = Load(url.hostname, url.port or 80, *texts)
    if args.only in (None, "small"):
        await load.phase("small", args.small, args.rounds, 0, 0)
    if args.only in (None, "large"):
        await load.phase("large", 0, 0, args.large, args.lines)
    if args.only in (None, "both"):
        await load.phase("both", args.small, args.rounds, args.large, args.lines)


if __name__ == "__main__":
    asyncio.run(main())
