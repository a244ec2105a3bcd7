"""Prometheus metrics of a server. They contain no text of clients."""

from collections.abc import Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)  # histogram buckets


class Metrics:
    """The metrics of one server, in their own registry."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        started = Gauge("nmtkit_start_time_seconds", "Unix time at which the server started.", registry=registry)
        started.set_to_current_time()
        self._requests = Counter("nmtkit_requests", "Requests answered.", ["path", "status"], registry=registry)
        self._seconds = Histogram(
            "nmtkit_request_seconds", "Seconds from a request to its answer.", ["path"], buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        by_model = partial(Counter, labelnames=["model"], registry=registry)
        self._batches = by_model("nmtkit_batches", "Batches searched.")
        self._sentences = by_model("nmtkit_sentences", "Sentences searched.")
        self._words = by_model("nmtkit_words", "Source words searched, before tokenisation.")
        self._searching = by_model("nmtkit_search_seconds", "Seconds of search, summed over all workers.")
        self.queued_sentences = Gauge("nmtkit_queued_sentences", "Sentences in the queue.", registry=registry)
        self.queued_characters = Gauge("nmtkit_queued_characters", "Characters in the queue.", registry=registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def searched(self, model: str, sentences: Sequence[str], seconds: float) -> None:
        """Count a batch."""
        self._batches.labels(model).inc()
        self._sentences.labels(model).inc(len(sentences))
        self._words.labels(model).inc(sum(len(sentence.split()) for sentence in sentences))
        self._searching.labels(model).inc(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
