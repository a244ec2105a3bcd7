"""The server as an ASGI application: which address is answered by what, and how errors become answers."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from nmtkit.errors import UserError
from nmtkit.machine.processes import WorkerLost
from nmtkit.serving import api, libre
from nmtkit.serving.engine import Busy, Late, log_places
from nmtkit.serving.service import HttpError, Service

Handler = Callable[[Service, HttpRequest], Awaitable[Response]]

GONE = 499  # for the metrics alone: the client has closed the connection

# A browser runs and loads nothing but what this server sends, and neither inline scripts nor inline styles.
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def make_app(service: Service, origins: Sequence[str], hosts: Sequence[str]) -> Starlette:
    """The application. origins: of other web pages that may use it. hosts: what a Host header may name, or "*"."""
    files = StaticFiles(packages=[("nmtkit.serving", "static")])

    def static(name: str) -> Handler:
        async def handler(service: Service, http: HttpRequest) -> Response:
            response = await files.get_response(name, http.scope)
            response.headers["Content-Security-Policy"] = POLICY
            response.headers["Cache-Control"] = "no-cache"  # a browser keeps the file and asks whether it has changed
            return response

        return handler

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await service.engine.close()

    handlers: list[tuple[str, str, Handler]] = [
        ("/", "GET", static("page.html")),
        *((f"/{name}", "GET", static(name)) for name in ("page.css", "page.js", "text.js", "icon.png")),
        ("/health", "GET", health),
        ("/metrics", "GET", metrics),
        ("/v1/models", "GET", api.models),
        ("/v1/translate", "POST", api.translate),
        ("/translate", "POST", libre.translate),
        ("/languages", "GET", libre.languages),
        ("/frontend/settings", "GET", libre.settings),
    ]
    cross = Middleware(
        CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "X-API-Key"],
    )  # fmt: skip
    return Starlette(
        routes=[Route(path, guarded(service, handler), methods=[method]) for path, method, handler in handlers],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)), *([cross] if origins else [])],
        exception_handlers={HTTPException: not_there},
        lifespan=lifespan,
    )


def guarded(service: Service, handler: Handler) -> Callable[[HttpRequest], Awaitable[Response]]:
    """An endpoint whose errors are answered and counted."""

    async def endpoint(http: HttpRequest) -> Response:
        began = time.monotonic()
        try:
            response = await handler(service, http)
        except HttpError as error:
            response = refusal(error.status, str(error))
        except WorkerLost:
            response = refusal(500, "the search was ended from outside, perhaps for lack of memory")
        except UserError as error:
            response = refusal(400, str(error))
        except Busy as error:
            response = refusal(503, str(error))
            response.headers["Retry-After"] = str(error.seconds)
        except Late as error:
            response = refusal(504, str(error))
        except ClientDisconnect:
            response = Response(status_code=GONE)
        except Exception as error:
            log_places(error)
            response = refusal(500, "the server made a mistake, which its log shows")
        service.metrics.answered(http.url.path, response.status_code, time.monotonic() - began)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return endpoint


def refusal(status: int, reason: str) -> Response:
    """An error as every endpoint reports it."""
    # A value that is quoted may have half of a surrogate pair, which no answer can have.
    text = " ".join(reason.split()).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status)


async def not_there(http: HttpRequest, error: Exception) -> Response:
    """The answer for an address that there is not, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    response = refusal(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def health(service: Service, http: HttpRequest) -> Response:
    """What a supervisor asks, however busy the server is."""
    return JSONResponse({"status": "ok"})


async def metrics(service: Service, http: HttpRequest) -> Response:
    """The metrics, for Prometheus."""
    service.check_key(http)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
