"""LibreTranslate's API, as far as its clients need it.

``POST /translate`` takes JSON or a form: ``q``, a text or (in JSON) a list of texts, ``source``, ``target``, ``format``
(text or html) and ``alternatives``. ``GET /languages`` and ``GET /frontend/settings`` describe the server.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from nmtkit.config import build
from nmtkit.documents.formats import SUFFIXES
from nmtkit.documents.html import Html
from nmtkit.documents.sentences import between
from nmtkit.documents.translate import Plan
from nmtkit.errors import UserError
from nmtkit.serving.languages import language_name
from nmtkit.serving.search import Answer, Description, Kind
from nmtkit.serving.service import Service
from nmtkit.translation.request import Request

T = TypeVar("T")

_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The supported fields of a request; others are ignored, as in LibreTranslate."""

    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0  # further translations


async def translate(service: Service, http: HttpRequest) -> Response:
    """Translate one or more texts."""
    values = await _values(service, http)
    service.check_key(http, values.get("api_key"))
    q, number = values.get("q"), values.get("alternatives")
    if isinstance(number, str) and re.fullmatch("-?[0-9]{1,18}", number):
        values["alternatives"] = int(number)
    if not isinstance(q, str) and not (isinstance(q, list) and all(isinstance(text, str) for text in q)):
        raise UserError("`q`: a text or a list of texts is missing")
    # Clients send null or "" for what they leave out.
    names = ("source", "target", "format", "alternatives")
    asked = build(Asked, {name: values[name] for name in names if values.get(name) not in (None, "")}, "the request")
    if not 0 <= asked.alternatives < service.limits.beam:
        raise UserError(f"`alternatives`: {asked.alternatives} is not from 0 to {service.limits.beam - 1}")
    model = model_between(service, asked.source, asked.target)
    count = 1 + asked.alternatives
    # The beam is at least as large as the n-best list; clients cannot set it.
    request = replace(
        service.request,
        n_best=count if count > 1 else None,
        beam_size=max(count, service.request.beam_size or model.beam_size),
    )
    texts = [q] if isinstance(q, str) else q
    # The limits apply to all texts together.
    service.check_number(len(texts))
    service.check_text("\n".join(texts), request)
    translated = _translated_html if asked.format == "html" else _translated_text
    versions = await translated(service, http, model, request, texts)
    content: dict[str, list[Any]] = {"translatedText": [best for best, *_ in versions]}
    if asked.alternatives:
        content["alternatives"] = [others for _, *others in versions]
    if asked.source == "auto":
        content["detectedLanguage"] = [{"confidence": 100, "language": model.source}] * len(texts)
    return JSONResponse({key: values[0] for key, values in content.items()} if isinstance(q, str) else content)


async def languages(service: Service, http: HttpRequest) -> Response:
    """The source languages, each with its target languages."""
    targets: dict[str, dict[str, None]] = {}  # in order
    for model in service.models.values():
        targets.setdefault(model.source, {})[model.target] = None
    # Languages that are only targets are listed too, because clients look up names here.
    for model in service.models.values():
        targets.setdefault(model.target, {})
    return JSONResponse([{"code": code, "name": language_name(code), "targets": [*to]} for code, to in targets.items()])


async def settings(service: Service, http: HttpRequest) -> Response:
    """The settings that LibreTranslate's own page needs."""
    first = next(iter(service.models.values()))
    sides = {"source": first.source, "target": first.target}
    return JSONResponse(
        {
            "apiKeys": service.key is not None,
            "keyRequired": service.key is not None,
            "charLimit": service.limits.characters,
            "frontendTimeout": 500,
            "filesTranslation": True,
            "suggestions": False,
            "supportedFilesFormat": list(SUFFIXES),
            "language": {side: {"code": code, "name": language_name(code)} for side, code in sides.items()},
        }
    )


async def _values(service: Service, http: HttpRequest) -> dict[str, Any]:
    """The fields of a request, from JSON or a form."""
    if http.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return await service.json(http)
    try:
        text = (await service.body(http, service.limits.body)).decode("utf-8")
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=20)
    except UnicodeDecodeError:
        raise HTTPException(400, "the form is not UTF-8") from None
    except ValueError:
        raise HTTPException(400, "the form has more than 20 fields") from None
    values, texts = dict[str, Any](fields), [value for name, value in fields if name == "q"]
    if len(texts) > 1:
        values["q"] = texts
    return values


def model_between(service: Service, source: str, target: str) -> Description:
    """The first translator for a language pair; ``auto`` as source works if a target has only one source language.

    Raises UserError if there is none, or if the source is ambiguous.
    """
    matching = [each for each in service.models.values() if each.target == target and source in (each.source, "auto")]
    if not matching:
        pairs = ", ".join(dict.fromkeys(f"{each.source} to {each.target}" for each in service.models.values()))
        raise UserError(f"there is no model from {source[:20]} to {target[:20]}; available: {pairs}")
    if len({each.source for each in matching}) > 1:
        raise UserError("`source`: auto is ambiguous, because there are several source languages; name one of them")
    return matching[0]


async def _translated_text(
    service: Service, http: HttpRequest, model: Description, request: Request, texts: Sequence[str]
) -> list[list[str]]:
    """Each text with the best translation of each sentence, then with the second best, and so on.

    Sentences with fewer translations repeat their last one.
    """
    spans = await service.sentences(texts, model.source, service.split)
    sources = [text[span.start : span.end] for text, each in zip(texts, spans, strict=True) for span in each]
    answers = iter(await service.answers(http, Kind(model.name, request, full=False), sources, None))
    translated = []
    for text, each in zip(texts, spans, strict=True):
        gaps = between(text, each, model.source, model.target)
        ranked = _ranked([answer.texts for answer in itertools.islice(answers, len(each))])
        translated.append(["".join(itertools.chain(*zip(gaps, [*best, ""], strict=True))) for best in ranked])
    return translated


async def _translated_html(
    service: Service, http: HttpRequest, model: Description, request: Request, texts: Sequence[str]
) -> list[list[str]]:
    """The same for pages and fragments of HTML, with their markup around the right words."""
    pages = await service.engine.aside(_read, service, model, texts)
    sources = [sentence for _, planned in pages for sentence in planned.sentences]
    request = replace(request, attention=any(planned.aligned for _, planned in pages))
    answers = await service.answers(http, Kind(model.name, request, full=False), sources, None)
    return await service.engine.aside(_written, pages, answers)


def _read(service: Service, model: Description, texts: Sequence[str]) -> list[tuple[Html, Plan]]:
    # The byte order mark of utf-8-sig takes precedence over the encoding that a page declares.
    pages = [Html(text.encode("utf-8-sig"), model.target) for text in texts]
    return list(zip(pages, service.plans([page.segments for page in pages], model), strict=True))


def _written(pages: Sequence[tuple[Html, Plan]], answers: Iterable[Answer]) -> list[list[str]]:
    """Each page with the best translation of each sentence, then with the second best, and so on."""
    answers, translated = iter(answers), []
    for page, planned in pages:
        ranked = _ranked([answer.aligned for answer in itertools.islice(answers, len(planned.sentences))])
        # What was lost is not logged, because it is a client's text.
        written = (page.write(planned.finish(best, warn=False)) for best in ranked)
        translated.append([content.decode("utf-8-sig") for content in written])
    return translated


def _ranked(answers: Sequence[Sequence[T]]) -> list[list[T]]:
    """The best of each sentence, then the second best, and so on; the last of a sentence that has fewer."""
    count = max(map(len, answers), default=1)
    return [[each[min(rank, len(each) - 1)] for each in answers] for rank in range(count)]
