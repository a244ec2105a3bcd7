"""LibreTranslate's API, as far as its clients need it.

``POST /translate`` takes JSON or a form: ``q``, a text or (in JSON) a list of texts, ``source``, ``target``, ``format``
(text or html) and ``alternatives``. ``GET /languages`` and ``GET /frontend/settings`` describe the server.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape, unescape
from typing import Any, Literal
from urllib.parse import parse_qsl

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from nmtkit.config import build
from nmtkit.documents.sentences import Span, between, count_lines, sentences
from nmtkit.errors import UserError
from nmtkit.serving.engine import Kind
from nmtkit.serving.languages import language_name
from nmtkit.serving.search import Answer, Description
from nmtkit.serving.service import HttpError, Service

_SPACE = re.compile("&(?:nbsp|#160|#xa0);", re.IGNORECASE)
_FORM = "application/x-www-form-urlencoded"
# HTML markup, closed or up to the end: comments, scripts and styles with their content, and tags, where > in a quoted
# value does not close the tag. Any other < is text.
_MARKUP = re.compile(
    r"""<(?: !(?=--) .*? (?: --> | \Z )
    | script .*? (?: </script\s*> | \Z )
    | style .*? (?: </style\s*> | \Z )
    | [a-z/!?] (?: [^>=]+ | =\s* (?: "[^"]*" | '[^']*' ) | = )* >? )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The supported fields of a request; others are ignored, as in LibreTranslate."""

    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0  # further translations

    def __post_init__(self) -> None:
        if self.alternatives < 0:
            raise ValueError(f"alternatives: {self.alternatives} is less than 0")


async def translate(service: Service, http: HttpRequest) -> Response:
    """Translate one or more texts."""
    values = await _values(service, http)
    service.check_key(http, values.get("api_key"))
    q = values.get("q")
    if not isinstance(q, str) and not (isinstance(q, list) and all(isinstance(text, str) for text in q)):
        raise UserError("`q`: a text or a list of texts is missing")
    names = ("source", "target", "format", "alternatives")
    asked = build(Asked, {name: values[name] for name in names if name in values}, "the request")
    if asked.alternatives >= service.limits.beam:
        raise UserError(f"`alternatives`: {asked.alternatives} is not less than {service.limits.beam}")
    model = _model(service, asked.source, asked.target)
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
    # Treat entities of spaces as white space.
    spaced = [_SPACE.sub(lambda found: " " * len(found[0]), text) if asked.format == "html" else text for text in texts]
    pieces = [_pieces(text, asked.format) for text in spaced]
    # Before sentence splitting, which blocks the event loop.
    service.check_number(
        sum(count_lines(text[a:b]) for text, each in zip(spaced, pieces, strict=True) for a, b in each)
    )
    spans = [_spans(text, each, model.source, service.split) for text, each in zip(spaced, pieces, strict=True)]
    service.check_sentences([span for each in spans for span in each])
    sources = [
        unescape(text[span.start : span.end]) if asked.format == "html" else text[span.start : span.end]
        for text, each in zip(texts, spans, strict=True)
        for span in each
    ]
    answers = iter(await service.answers(http, Kind(model.name, request, full=False), sources, None))
    versions = [
        _versions(text, each, [next(answers) for _ in each], model, asked)
        for text, each in zip(texts, spans, strict=True)
    ]
    single = isinstance(q, str)
    best, others = [each[0] for each in versions], [each[1:] for each in versions]
    content: dict[str, Any] = {"translatedText": best[0] if single else best}
    if asked.alternatives:
        content["alternatives"] = others[0] if single else others
    if asked.source == "auto":
        detected = {"confidence": 100, "language": model.source}
        content["detectedLanguage"] = detected if single else [detected] * len(texts)
    return JSONResponse(content)


async def languages(service: Service, http: HttpRequest) -> Response:
    """The source languages, each with its target languages."""
    targets: dict[str, list[str]] = {}
    for model in service.models.values():
        known = targets.setdefault(model.source, [])
        if model.target not in known:
            known.append(model.target)
    # Languages that are only targets are listed too, because clients look up names here.
    for model in service.models.values():
        targets.setdefault(model.target, [])
    return JSONResponse([{"code": code, "name": language_name(code), "targets": to} for code, to in targets.items()])


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
            "filesTranslation": False,
            "suggestions": False,
            "supportedFilesFormat": [],
            "language": {side: {"code": code, "name": language_name(code)} for side, code in sides.items()},
        }
    )


async def _values(service: Service, http: HttpRequest) -> dict[str, Any]:
    """The fields of a request, from JSON or a form."""
    if http.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return await service.json(http)
    try:
        text = (await service.body(http)).decode("ascii")
        values: dict[str, Any] = dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=20))
    except UnicodeDecodeError:
        raise HttpError(400, "the form is not UTF-8") from None
    except ValueError:
        raise HttpError(400, "the form has more than 20 fields") from None
    if "alternatives" in values:
        digits = values["alternatives"]
        values["alternatives"] = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else digits
    return values


def _model(service: Service, source: str, target: str) -> Description:
    """The first translator for a language pair; ``auto`` as source works if a target has only one source language.

    Raises UserError if there is none, or if the source is ambiguous.
    """
    matching = [each for each in service.models.values() if each.target == target and source in (each.source, "auto")]
    if not matching:
        pairs = ", ".join(dict.fromkeys(f"{each.source} to {each.target}" for each in service.models.values()))
        raise UserError(f"there is no model from {source[:20]} to {target[:20]}; there are: {pairs}")
    if len({each.source for each in matching}) > 1:
        raise UserError("`source`: auto is ambiguous, because there are several source languages; name one of them")
    return matching[0]


def _pieces(text: str, format: str) -> list[Span]:
    """The non-blank parts of a text to translate; in HTML, those between tags."""
    pieces = _between_tags(text) if format == "html" else [Span(0, len(text))]
    return [piece for piece in pieces if text[piece.start : piece.end].strip()]


def _spans(text: str, pieces: Sequence[Span], language: str, split: bool) -> list[Span]:
    """The sentences of the pieces of a text."""
    return [
        Span(piece.start + span.start, piece.start + span.end)
        for piece in pieces
        for span in sentences(text[piece.start : piece.end], language, split)
    ]


def _between_tags(html: str) -> Iterator[Span]:
    """The spans of HTML outside of tags, comments, scripts and styles."""
    start = 0
    for markup in _MARKUP.finditer(html):
        yield Span(start, markup.start())
        start = markup.end()
    yield Span(start, len(html))


def _versions(
    text: str, spans: Sequence[Span], answers: Sequence[Answer], model: Description, asked: Asked
) -> list[str]:
    """The whole text with the best translation of each sentence, then with the second best, and so on.

    Sentences with fewer translations repeat their last one.
    """
    gaps = between(text, spans, model.target)
    versions = []
    for rank in range(max((len(answer.texts) for answer in answers), default=1)):
        texts = [answer.texts[min(rank, len(answer.texts) - 1)] for answer in answers]
        texts = [escape(each, quote=False) for each in texts] if asked.format == "html" else texts
        versions.append("".join(part for pair in zip(gaps, [*texts, ""], strict=True) for part in pair))
    return versions
