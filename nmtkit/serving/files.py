"""Documents: LibreTranslate's ``POST /translate_file``, and ``GET /download_file/NAME`` for their translations.

The form has ``file``, ``source`` and ``target``; our own fields are ``model``, instead of the languages, ``terms``, and
``columns`` of a table. The answer is ``{"translatedFileUrl": ...}``.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from nmtkit.documents.formats import read_document
from nmtkit.documents.places import MOST, TooLarge
from nmtkit.documents.segment import Document
from nmtkit.documents.translate import Plan
from nmtkit.errors import UserError
from nmtkit.serving.api import read
from nmtkit.serving.engine import Busy
from nmtkit.serving.libre import model_between
from nmtkit.serving.limits import DOCUMENTS, FILE, FILES, MARKS, WAITING
from nmtkit.serving.search import Answer, Description, Kind
from nmtkit.serving.service import Service
from nmtkit.translation.request import Request

# The client is told what is wrong with its form, which needs no line in the log.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


class _File(NamedTuple):
    name: str
    content: bytes
    expires: float  # on the monotonic clock


class Files:
    """The translated files that wait for their download, in memory."""

    def __init__(self) -> None:
        self._waiting = dict[str, _File]()  # oldest first, by the secret part of their addresses
        self._two = asyncio.Semaphore(2)  # documents that are read or written at a time: that takes memory
        self._places = asyncio.Semaphore(DOCUMENTS)

    async def translate(self, service: Service, http: HttpRequest) -> Response:
        """Translate a document. Raises Busy if many are waiting, whose content is in memory."""
        if self._places.locked():
            raise Busy("too many documents are waiting", 60)
        async with self._places:
            return await self._translated(service, http)

    async def _translated(self, service: Service, http: HttpRequest) -> Response:
        form = await _form(service, http)
        try:
            service.check_key(http, form.get("api_key"))
            sent = form.get("file")
            if not isinstance(sent, UploadFile) or not sent.filename:
                raise UserError("`file`: a file is missing")
            name, content = PurePath(sent.filename).name[-100:], await sent.read()
            columns = [column for column in form.getlist("columns") if isinstance(column, str)]
            request = _request(service, form)
        finally:
            await form.close()
        model = _model(service, form)
        async with self._two:
            document, planned = await service.engine.aside(_read, service, model, name, content, columns)
        request = replace(request, attention=planned.aligned, quality=True)
        answers = await service.answers(http, Kind(model.name, request, full=False), planned.sentences, None)
        async with self._two:
            written = await service.engine.aside(_written, document, planned, answers)
        key, path = secrets.token_urlsafe(18), PurePath(name)
        file = _File(f"{path.stem}.{model.target}{path.suffix}", written, time.monotonic() + WAITING)
        self._waiting[key] = file
        self._forget()
        return JSONResponse({"translatedFileUrl": f"{_address(http)}/download_file/{key}.{quote(file.name)}"})

    async def download(self, service: Service, http: HttpRequest) -> Response:
        """A translated document."""
        self._forget()
        file = self._waiting.get(http.path_params["name"].partition(".")[0])
        if file is None:
            raise HTTPException(404, "there is no such file; files are kept for half an hour")
        headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(file.name)}"}
        return Response(file.content, headers=headers, media_type="application/octet-stream")

    def _forget(self) -> None:
        """Drop files that have expired, and the oldest while all of them but the newest take too much memory."""
        size = sum(len(file.content) for file in self._waiting.values())
        for key, file in list(self._waiting.items()):
            if file.expires < time.monotonic() or (size > FILES and len(self._waiting) > 1):
                del self._waiting[key]
                size -= len(file.content)


def _address(http: HttpRequest) -> str:
    """This server's address as the client sees it. Only the client gets it, so a proxy's headers need no check."""

    def forwarded(name: str, own: str) -> str:
        return http.headers.get(f"x-forwarded-{name}", own).partition(",")[0].strip()

    scheme, host = forwarded("proto", http.base_url.scheme), forwarded("host", http.base_url.netloc)
    return f"{scheme}://{host}{forwarded('prefix', '').rstrip('/')}"


async def _form(service: Service, http: HttpRequest) -> FormData:
    """The fields of a form with a file. Raises HTTPException for anything else."""
    body, what = await service.body(http, FILE), "form with a file (multipart/form-data)"
    if not body.rstrip().endswith(b"--"):  # as the last boundary does
        raise HTTPException(400, f"the request is not a complete {what}: its end is missing; send it again")

    async def stream() -> AsyncIterator[bytes]:
        yield body

    try:
        return await MultiPartParser(http.headers, stream(), max_files=1, max_fields=20).parse()  # type: ignore[arg-type]
    except (MultiPartException, KeyError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"the request is not a {what}: {error}") from None


def _request(service: Service, form: FormData) -> Request:
    """The server's request with the form's terms, which are JSON as in the other API."""
    terms = form.get("terms")
    if not isinstance(terms, str):
        return service.request
    try:
        pairs = json.loads(terms)
    except (ValueError, RecursionError):
        raise UserError('`terms`: not valid JSON; send pairs such as [["dog", "chien"]]') from None
    return read({"text": "", "terms": pairs}, service.request, service.limits)[1]


def _model(service: Service, form: FormData) -> Description:
    """The translator that is asked for by its name or by its languages."""
    source, target, name = form.get("source"), form.get("target"), form.get("model")
    if isinstance(name, str):
        return service.description(name)
    if not isinstance(source, str) or not isinstance(target, str):
        raise UserError("`source` and `target`: a language is missing")
    return model_between(service, source, target)


def _read(service: Service, model: Description, name: str, content: bytes, columns: list[str]) -> tuple[Document, Plan]:
    """A document, and what there is to translate in it. Raises HTTPException and UserError as texts do."""
    MOST.set(service.limits.lines)  # in this thread
    try:
        document = read_document(name, content, columns, (model.source, model.target))
    except TooLarge as error:
        raise HTTPException(413, str(error)) from None
    if any(len(segment.marks) > MARKS for segment in document.segments):
        raise HTTPException(413, f"a paragraph has more than {MARKS} pieces of markup")
    service.check_text("\n".join(segment.text for segment in document.segments), service.request)
    [planned] = service.plans([document.segments], model)
    return document, planned


def _written(document: Document, planned: Plan, answers: list[Answer]) -> bytes:
    """The translated document; what was lost is not logged, because it is a client's text."""
    return document.write(planned.finish([answer.aligned[0] for answer in answers], warn=False))
