"""What a server has done, in the text format that Prometheus reads. Nothing of what people send is in it."""

import itertools
import math
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, math.inf)  # seconds

Labels = tuple[tuple[str, str], ...]
Samples = Mapping[Labels, float]


class Metrics:
    """The counters of one server. They grow as long as it runs; whoever reads them computes rates."""

    def __init__(self) -> None:
        self._began = time.time()
        self.queued_sentences = self.queued_characters = 0
        self._requests = Counter[tuple[str, str]]()  # by path and status
        self._latency = defaultdict[str, list[int]](lambda: [0] * len(BOUNDS))  # requests of each path by duration
        self._seconds = defaultdict[str, float](float)  # that the requests of each path took
        # Of each model.
        self._batches, self._sentences, self._words = Counter[str](), Counter[str](), Counter[str]()
        self._searching = defaultdict[str, float](float)  # seconds

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request that took so many seconds."""
        self._requests[path, str(status)] += 1
        self._latency[path][bisect_left(BOUNDS, seconds)] += 1
        self._seconds[path] += seconds

    def searched(self, model: str, sentences: Sequence[str], seconds: float) -> None:
        """Count a batch that was searched in so many seconds."""
        self._batches[model] += 1
        self._sentences[model] += len(sentences)
        self._words[model] += sum(len(sentence.split()) for sentence in sentences)
        self._searching[model] += seconds

    def text(self) -> str:
        """All of them as Prometheus' text format 0.0.4 has them."""
        paths: Samples = {(("path", path), ("status", status)): n for (path, status), n in self._requests.items()}
        batches, sentences, words = map(_by_model, (self._batches, self._sentences, self._words))
        searching = _by_model(self._searching)
        lines = [
            *_family(
                "start_time_seconds", "gauge", "When the server started, in seconds of Unix time.", {(): self._began}
            ),
            *_family("requests_total", "counter", "Requests that were answered, by path and status.", paths),
            *_family("batches_total", "counter", "Batches that were searched.", batches),
            *_family("sentences_total", "counter", "Sentences that were searched.", sentences),
            *_family("words_total", "counter", "Source words that were searched, before tokenisation.", words),
            *_family("search_seconds_total", "counter", "Seconds of search, of all workers together.", searching),
            *_family("queued_sentences", "gauge", "Sentences that wait to be searched.", {(): self.queued_sentences}),
            *_family("queued_characters", "gauge", "Characters of these sentences.", {(): self.queued_characters}),
            "# HELP nmtkit_request_seconds Seconds from a request to its answer.",
            "# TYPE nmtkit_request_seconds histogram",
        ]
        for path, counts in self._latency.items():
            label = (("path", path),)
            for bound, count in zip(BOUNDS, itertools.accumulate(counts), strict=True):
                le = "+Inf" if bound == math.inf else f"{bound:g}"
                lines.append(_sample("request_seconds_bucket", (*label, ("le", le)), count))
            lines.append(_sample("request_seconds_sum", label, self._seconds[path]))
            lines.append(_sample("request_seconds_count", label, sum(counts)))
        return "\n".join(lines) + "\n"


def _by_model(values: Mapping[str, float]) -> Samples:
    """The value of each model, labelled with its name."""
    return {(("model", name),): value for name, value in values.items()}


def _family(name: str, kind: str, text: str, values: Samples) -> Iterable[str]:
    """The lines of a metric: what it is, then its value for each combination of labels."""
    samples = (_sample(name, labels, value) for labels, value in values.items())
    return [f"# HELP nmtkit_{name} {text}", f"# TYPE nmtkit_{name} {kind}", *samples]


def _sample(name: str, labels: Labels, value: float) -> str:
    """One line. A label may be any text, so that quotes, backslashes and line breaks are escaped."""
    escaped = ((key, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, text in labels)
    inside = ",".join(f'{key}="{text}"' for key, text in escaped)
    return f"nmtkit_{name}{{{inside}}} {value}" if inside else f"nmtkit_{name} {value}"
