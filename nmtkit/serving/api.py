"""The API of nmtkit's own page: ``POST /v1/translate`` says everything, ``GET /v1/models`` what there is.

Places in a text are counted in Unicode code points from 0. Attention weights are rows of target tokens, each over the
source tokens; the last row and the last column are those of the end-of-sentence marks.
"""

import asyncio
import json
import time
from dataclasses import dataclass, fields
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from nmtkit.config import build, unknown_key
from nmtkit.errors import UserError
from nmtkit.serving.engine import Kind
from nmtkit.serving.languages import direction, language_name
from nmtkit.serving.limits import ATTENTION, LENGTH, LINE, Limits
from nmtkit.serving.search import Answer, Description
from nmtkit.serving.sentences import Span, between, count_lines, sentences, whole_lines
from nmtkit.serving.service import Service, check_characters
from nmtkit.translation.request import WITHOUT_BEAM, WITHOUT_SEARCH, Request

LONGEST = 2_000  # characters of a prefix, of a reference and of the line that belongs to it

# Fields of a Request that are for the server to say, and those that are lists of texts here.
_HIDDEN, _LISTS = {"max_tokens"}, {"prefixes", "references"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The parts of a JSON request that are no fields of ``Request``."""

    model: str | None = None
    text: str | None = None  # either this, or
    lines: tuple[str, ...] | None = None  # these, one translation for each
    split: bool | None = None  # whether these are split into sentences; None: a text, if the server does, lines not
    prefixes: tuple[str, ...] | None = None  # what the translation of each line begins with
    references: tuple[str, ...] | None = None  # the translation of each line, to be scored

    def __post_init__(self) -> None:
        if (self.text is None) == (self.lines is None):
            raise ValueError("`text` or `lines`: give one of them")
        for name in sorted(_LISTS):
            texts = getattr(self, name)
            if texts is not None and (self.lines is None or self.split or len(texts) != len(self.lines)):
                raise ValueError(f"`{name}`: give one for each of the `lines`, which are not `split` then")
        # Lines are cut into pieces when they are long, but not what is given beside them, nor lines that are scored.
        for name in ("prefixes", "references", "lines") if self.references is not None else ("prefixes",):
            if any(len(text) > LONGEST for text in getattr(self, name) or ()):
                raise ValueError(
                    f"`{name}`: one of them has more than {LONGEST} characters, which is too long for this"
                )


async def models(service: Service, http: HttpRequest) -> Response:
    """The translators that there are, and what a request may have."""
    limits = service.limits
    return JSONResponse(
        {
            "models": [_described(each) for each in service.models.values()],
            "limits": {
                "body": limits.body, "characters": limits.characters, "lines": limits.lines, "line": LINE,
                "attention": ATTENTION, "beam": limits.beam,
            },
            "n_best": limits.beam,
            "split": service.split,
            "key": service.key is not None,
        }
    )  # fmt: skip


async def translate(service: Service, http: HttpRequest) -> Response:
    """A text, or lines, translated. See the README for the names."""
    began = time.monotonic()
    service.check_key(http)
    values = await service.json(http)
    asked, request = read(values, service.request, service.limits)
    model = service.description(asked.model)
    # The translator would name a folder of this machine and ask for a file of it.
    if request.shortlist is not None and not model.lexicon:
        raise UserError(f"`shortlist`: {model.name} has no lexicon; leave it out")
    text = asked.text if asked.text is not None else "\n".join(asked.lines or ())
    service.check_text(text, request)
    if asked.lines is not None and not asked.split:
        spans = whole_lines(asked.lines)
    else:
        service.check_number(count_lines(text))  # before they are split, while all others wait
        spans = sentences(text, model.source, service.split if asked.split is None else asked.split)
    service.check_sentences(spans)
    sources = [text[span.start : span.end] for span in spans]
    beside = asked.prefixes if asked.prefixes is not None else asked.references
    answers = await service.answers(http, Kind(model.name, request, full=True), sources, beside)
    content = await _written(model, text, spans, answers, began)
    return Response(content, media_type="application/json")


def read(values: dict[str, Any], own: Request, limits: Limits) -> tuple[Asked, Request]:
    """What a JSON object asks for. own: the server's request, of which it says what is different.

    Raises UserError for keys that there are not, for values that cannot be, and for those beyond the limits.
    """
    names = {field.name for field in fields(Asked)}
    settings = [field.name for field in fields(Request) if field.name not in _HIDDEN | _LISTS]
    for key in values:
        if key not in names and key not in settings:
            raise UserError(f"the request: {unknown_key('', key[:60], [*sorted(names), *settings])}")
    asked = build(Asked, {key: value for key, value in values.items() if key in names}, "the request")
    for name in _LISTS:
        for text in getattr(asked, name) or ():
            check_characters(name, text)
    changed = {key: value for key, value in values.items() if key in settings}
    lists = {name: getattr(asked, name) is not None for name in _LISTS}
    wishes = {**changed, **lists}
    request = build(Request, {**_kept(own, wishes), **wishes}, "the request")
    most = {
        "n_best": limits.beam, "beam_size": limits.beam, "max_input_length": own.limit, "max_len_a": LENGTH,
        "max_len_b": 100,
    }  # fmt: skip
    for name, bound in most.items():
        value = getattr(request, name)
        if name in changed and value is not None and value > bound:
            raise UserError(f"`{name}`: {value} is more than {bound}, which this server allows")
    return asked, request


def _kept(own: Request, wishes: dict[str, Any]) -> dict[str, Any]:
    """The server's settings that mean something beside what a client asks for; the client knows nothing of them."""
    gone = set[str]()
    if wishes["references"]:
        gone.update(WITHOUT_SEARCH)
    if wishes.get("seed") is not None:
        gone.update(WITHOUT_BEAM)
    if wishes.get("replace_unk") is False or "replace_unk" in gone:
        gone.add("unk_origin")
    if wishes.get("length_penalty") in ("none", "avg"):
        gone.add("alpha")
    return {field.name: getattr(own, field.name) for field in fields(Request) if field.name not in gone}


async def _written(model: Description, text: str, spans: list[Span], answers: list[Answer], began: float) -> bytes:
    """The answer as JSON, put together of what the workers made."""
    best = [answer.texts[0] for answer in answers]
    gaps = between(text, spans, model.target)
    whole = "".join(part for pair in zip(gaps, [*best, ""], strict=True) for part in pair)
    parts = []
    for number, (span, before, answer) in enumerate(zip(spans, gaps, answers, strict=False)):
        place = {"source": text[span.start : span.end], "start": span.start, "end": span.end, "before": before}
        parts.append(f"{_dumped(place)[:-1]},{answer.fields}}}")
        if number % 100 == 99:
            await asyncio.sleep(0)  # others may have something to do
    head = _dumped(
        {"model": model.name, "text": whole, "after": gaps[-1], "seconds": round(time.monotonic() - began, 3)}
    )
    return f'{head[:-1]},"sentences":[{",".join(parts)}]}}'.encode()


def _described(model: Description) -> dict[str, Any]:
    """What clients are told of a translator."""
    codes = {"source": model.source, "target": model.target}
    return {
        **model._asdict(),
        "names": {side: language_name(code) for side, code in codes.items()},
        "direction": {side: direction(code) for side, code in codes.items()},
    }


def _dumped(value: object) -> str:
    """JSON without unnecessary spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
