"""nmtkit's own API: ``POST /v1/translate`` and ``GET /v1/models``.

Positions in a text count Unicode code points from 0. Attention weights have a row per target token and a column per
source token; the last row and column are the end-of-sentence tokens.
"""

import asyncio
import itertools
import json
import time
from dataclasses import dataclass, fields, replace
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from nmtkit.config import build, unknown_key
from nmtkit.documents.sentences import Span, between, whole_lines
from nmtkit.errors import UserError
from nmtkit.serving.languages import language_name
from nmtkit.serving.limits import ATTENTION, LENGTH, LINE, MORE, TERMS, Limits
from nmtkit.serving.search import Answer, Description, Kind
from nmtkit.serving.service import Service, check_characters
from nmtkit.text.scripts import right_to_left
from nmtkit.translation.request import Request
from nmtkit.translation.translation import DOUBTFUL

LONGEST = 2_000  # characters of a prefix, of a reference and of its line

# Fields of a Request that clients cannot set, and fields that are lists of texts in JSON.
_HIDDEN, _LISTS = {"max_tokens", "quality"}, {"prefixes", "references"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The parts of a JSON request that are not fields of ``Request``."""

    model: str | None = None
    text: str | None = None  # either a text or lines
    lines: tuple[str, ...] | None = None
    split: bool | None = None  # into sentences; None: the server's default for a text, False for lines
    prefixes: tuple[str, ...] | None = None  # of the translation of each line
    references: tuple[str, ...] | None = None  # of each line, to be scored

    def __post_init__(self) -> None:
        if (self.text is None) == (self.lines is None):
            raise ValueError("`text` or `lines`: give one of them")
        for name in sorted(_LISTS):
            texts = getattr(self, name)
            if texts is not None and (self.lines is None or self.split or len(texts) != len(self.lines)):
                raise ValueError(f"`{name}`: give one for each of the `lines`, without `split`")
        # Long lines are translated in pieces, but prefixes, references and scored lines cannot be.
        for name in ("prefixes", "references", "lines") if self.references is not None else ("prefixes",):
            if any(len(text) > LONGEST for text in getattr(self, name) or ()):
                raise ValueError(f"`{name}`: one of them has more than {LONGEST} characters")


async def models(service: Service, http: HttpRequest) -> Response:
    """The translators and the limits of requests."""
    limits = service.limits
    return JSONResponse(
        {
            "models": [_described(each) for each in service.models.values()],
            "limits": {
                "body": limits.body, "characters": limits.characters, "lines": limits.lines, "line": LINE,
                "attention": ATTENTION, "beam": limits.beam, "terms": TERMS,
            },
            "n_best": limits.beam,
            "doubtful": DOUBTFUL,
            "split": service.split,
            "key": service.key is not None,
        }
    )  # fmt: skip


async def translate(service: Service, http: HttpRequest) -> Response:
    """Translate a text or lines; recipes/serve/README.md lists the fields."""
    began = time.monotonic()
    service.check_key(http)
    values = await service.json(http)
    asked, request = read(values, service.request, service.limits)
    model = service.description(asked.model)
    # Checked here, because the translator's own message would name a file of this machine.
    if request.shortlist is not None and not model.lexicon:
        raise UserError(f"`shortlist`: {model.name} has no lexicon; leave it out")
    text = asked.text if asked.text is not None else "\n".join(asked.lines or ())
    service.check_text(text, request)
    if asked.lines is not None and not asked.split:
        spans = whole_lines(asked.lines)
        service.check_lengths([*map(len, asked.lines)])
    else:
        split = service.split if asked.split is None else asked.split
        [spans] = await service.sentences([text], model.source, split)
    sources = [text[span.start : span.end] for span in spans]
    targets = asked.prefixes if asked.prefixes is not None else asked.references
    request = replace(request, quality=True)
    answers = await service.answers(http, Kind(model.name, request, full=True), sources, targets)
    content = await _written(model, text, spans, answers, began)
    return Response(content, media_type="application/json")


def read(values: dict[str, Any], default: Request, limits: Limits) -> tuple[Asked, Request]:
    """Parse a JSON request; ``default`` is the server's Request.

    Raises UserError for unknown keys, invalid values, and values beyond the limits.
    """
    names = {field.name for field in fields(Asked)}
    settings = [field.name for field in fields(Request) if field.name not in _HIDDEN | _LISTS]
    for key in values:
        if key not in names and key not in settings:
            raise UserError(f"the request: {unknown_key('', key[:60], [*sorted(names), *settings])}")
    terms = values.get("terms")
    if isinstance(terms, list) and any(isinstance(pair, list) and len(pair) > 2 for pair in terms):
        raise UserError('`terms`: expected pairs such as ["dog", "chien"]')
    asked = build(Asked, {key: value for key, value in values.items() if key in names}, "the request")
    for name in _LISTS:
        for text in getattr(asked, name) or ():
            check_characters(name, text)
    changed = {key: value for key, value in values.items() if key in settings}
    lists = {name: getattr(asked, name) is not None for name in _LISTS}
    options = {**changed, **lists}
    most = {
        "n_best": limits.beam, "mbr": limits.beam, "beam_size": limits.beam, "max_input_length": default.limit,
        "max_len_a": LENGTH, "max_len_b": MORE,
    }  # fmt: skip
    for name, bound in most.items():
        value = changed.get(name)
        if isinstance(value, int | float) and value > bound:  # before the bounds of a Request, which are higher
            raise UserError(f"`{name}`: {value} is more than this server's limit of {bound}")
    request = build(Request, {**default.beside(options), **options}, "the request")
    letters = "".join(itertools.chain.from_iterable(request.terms or ()))
    check_characters("terms", letters)
    if len(letters) > TERMS:
        raise UserError(f"`terms`: they have {len(letters)} characters; the limit is {TERMS}")
    return asked, request


async def _written(model: Description, text: str, spans: list[Span], answers: list[Answer], began: float) -> bytes:
    """The JSON answer, assembled from the workers' JSON fields."""
    best = [answer.texts[0] for answer in answers]
    gaps = between(text, spans, model.source, model.target)
    whole = "".join(itertools.chain(*zip(gaps, [*best, ""], strict=True)))
    parts = []
    for number, (span, before, answer) in enumerate(zip(spans, gaps, answers, strict=False)):
        place = {"source": text[span.start : span.end], "start": span.start, "end": span.end, "before": before}
        parts.append(f"{_dumped(place)[:-1]},{answer.fields}}}")
        if number % 100 == 99:
            await asyncio.sleep(0)  # let other tasks run
    head = _dumped(
        {"model": model.name, "text": whole, "after": gaps[-1], "seconds": round(time.monotonic() - began, 3)}
    )
    return f'{head[:-1]},"sentences":[{",".join(parts)}]}}'.encode()


def _described(model: Description) -> dict[str, Any]:
    """A translator's entry in ``/v1/models``."""
    codes = {"source": model.source, "target": model.target}
    shown = {name: value for name, value in model._asdict().items() if name != "stand_ins"}
    return {
        **shown,
        "names": {side: language_name(code) for side, code in codes.items()},
        "direction": {side: "rtl" if right_to_left(code) else "ltr" for side, code in codes.items()},
    }


def _dumped(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
