"""The API of LibreTranslate, as far as its clients need it, so that they work unchanged.

``POST /translate`` takes JSON or a form: ``q``, a text or (in JSON) a list of texts, ``source``, ``target``, ``format``
(text or html) and ``alternatives``. ``GET /languages`` and ``GET /frontend/settings`` say what there is.
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
from nmtkit.errors import UserError
from nmtkit.serving.engine import Kind
from nmtkit.serving.languages import language_name
from nmtkit.serving.search import Answer, Description
from nmtkit.serving.sentences import Span, between, count_lines, sentences
from nmtkit.serving.service import HttpError, Service

_SPACE = re.compile("&(?:nbsp|#160|#xa0);", re.IGNORECASE)
_FORM = "application/x-www-form-urlencoded"
# What is no text in HTML, up to the end of the text if it is not closed: comments; scripts and styles, in which a > is
# nothing special; and tags, in which a > within a value's quotes is no end. Any other < is a text's own.
_MARKUP = re.compile(
    r"""<(?: !(?=--) .*? (?: --> | \Z )
    | script .*? (?: </script\s*> | \Z )
    | style .*? (?: </style\s*> | \Z )
    | [a-z/!?] (?: [^>=]+ | =\s* (?: "[^"]*" | '[^']*' ) | = )* >? )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The fields of a request that mean something here; others are ignored, as LibreTranslate does."""

    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0  # further translations of each text

    def __post_init__(self) -> None:
        if self.alternatives < 0:
            raise ValueError(f"alternatives: {self.alternatives} is less than 0")


async def translate(service: Service, http: HttpRequest) -> Response:
    """A text, or several, translated."""
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
    # The beam has a hypothesis for each of them: a client that asks for alternatives knows nothing of beams.
    request = replace(
        service.request,
        n_best=count if count > 1 else None,
        beam_size=max(count, service.request.beam_size or model.beam_size),
    )
    texts = [q] if isinstance(q, str) else q
    # The limits are for all of them together, so that no more can be had by asking in pieces.
    service.check_number(len(texts))
    service.check_text("\n".join(texts), request)
    # A space that HTML spells in letters is no more a text, and no more the edge of one, than any other.
    spaced = [_SPACE.sub(lambda found: " " * len(found[0]), text) if asked.format == "html" else text for text in texts]
    pieces = [_pieces(text, asked.format) for text in spaced]
    # Before they are split, while all others wait.
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
    """The languages that can be translated, each with those that it can be translated to."""
    targets: dict[str, list[str]] = {}
    for model in service.models.values():
        known = targets.setdefault(model.source, [])
        if model.target not in known:
            known.append(model.target)
    # Those that are targets only are listed, too: clients look up names here.
    for model in service.models.values():
        targets.setdefault(model.target, [])
    return JSONResponse([{"code": code, "name": language_name(code), "targets": to} for code, to in targets.items()])


async def settings(service: Service, http: HttpRequest) -> Response:
    """What LibreTranslate tells its own page."""
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
    """The fields of a request, from JSON or from a form."""
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
    """The first translator between the two languages. Source ``auto`` is the one language that there is for a target.

    Raises UserError where there is none, or where several source languages would have to be told apart.
    """
    fitting = [each for each in service.models.values() if each.target == target and source in (each.source, "auto")]
    if not fitting:
        pairs = ", ".join(dict.fromkeys(f"{each.source} to {each.target}" for each in service.models.values()))
        raise UserError(f"there is no model from {source[:20]} to {target[:20]}; there are: {pairs}")
    if len({each.source for each in fitting}) > 1:
        raise UserError("`source`: auto is not possible, since there are several source languages; name one of them")
    return fitting[0]


def _pieces(text: str, format: str) -> list[Span]:
    """The parts of a text that are to be translated unless they are blank: those of HTML are between its tags."""
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
    """What is text in HTML: neither tags nor comments nor what scripts and styles contain."""
    start = 0
    for markup in _MARKUP.finditer(html):
        yield Span(start, markup.start())
        start = markup.end()
    yield Span(start, len(html))


def _versions(
    text: str, spans: Sequence[Span], answers: Sequence[Answer], model: Description, asked: Asked
) -> list[str]:
    """The whole text with the best translation of each sentence, with the second best, and so on.

    A sentence that has fewer translations than another keeps its last one.
    """
    gaps = between(text, spans, model.target)
    versions = []
    for rank in range(max((len(answer.texts) for answer in answers), default=1)):
        texts = [answer.texts[min(rank, len(answer.texts) - 1)] for answer in answers]
        texts = [escape(each, quote=False) for each in texts] if asked.format == "html" else texts
        versions.append("".join(part for pair in zip(gaps, [*texts, ""], strict=True) for part in pair))
    return versions
