"""The server as an ASGI application: routes, and how errors become responses."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

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
from nmtkit.serving.engine import Busy, log_error
from nmtkit.serving.files import Files
from nmtkit.serving.search import ModelLost
from nmtkit.serving.service import Service, within

Handler = Callable[[Service, HttpRequest], Coroutine[Any, Any, Response]]

GONE = 499  # for the metrics only: the client has closed the connection

# Browsers run and load only this server's files, and no inline scripts or styles.
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def make_app(service: Service, origins: Sequence[str], hosts: Sequence[str]) -> Starlette:
    """The application.

    origins: other origins whose web pages may use it (CORS). hosts: allowed Host headers, or "*".
    """
    documents = Files()
    files = StaticFiles(packages=[("nmtkit.serving", "static")])

    def static(name: str) -> Handler:
        async def handler(service: Service, http: HttpRequest) -> Response:
            response = await files.get_response(name, http.scope)
            response.headers["Content-Security-Policy"] = POLICY
            response.headers["Cache-Control"] = "no-cache"  # browsers cache but revalidate
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
        ("/translate_file", "POST", documents.translate),
        ("/download_file/{name}", "GET", documents.download),
        ("/languages", "GET", libre.languages),
        ("/frontend/settings", "GET", libre.settings),
    ]

    async def http_error(http: HttpRequest, error: Exception) -> Response:
        """The response for an unknown path or method."""
        assert isinstance(error, HTTPException)
        response = finished(service, "unknown", refusal(error.status_code, error.detail), 0.0)
        response.headers.update(error.headers or {})
        return response

    cross = Middleware(
        CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "X-API-Key"], expose_headers=["Retry-After", "Content-Disposition"],
    )  # fmt: skip
    return Starlette(
        routes=[Route(path, guarded(service, path, handler), methods=[method]) for path, method, handler in handlers],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)), *([cross] if origins else [])],
        exception_handlers={HTTPException: http_error},
        lifespan=lifespan,
    )


def guarded(service: Service, path: str, handler: Handler) -> Callable[[HttpRequest], Awaitable[Response]]:
    """An endpoint with error handling, and metrics under ``path``."""

    async def endpoint(http: HttpRequest) -> Response:
        began = time.monotonic()
        try:
            response = await within(service.limits.timeout, handler(service, http))
        except HTTPException as error:
            response = refusal(error.status_code, error.detail)
        except WorkerLost:
            response = refusal(500, "the search process was killed, perhaps out of memory")
        except ModelLost:
            response = refusal(500, "the model can no longer be loaded; see the server's log")
        except UserError as error:
            response = refusal(400, str(error))
        except Busy as error:
            response = refusal(503, str(error))
            response.headers["Retry-After"] = str(error.seconds)
        except TimeoutError:
            response = refusal(504, f"the request took more than {service.limits.timeout:g} seconds")
        except ClientDisconnect:
            response = Response(status_code=GONE)
        except Exception as error:
            log_error(error)
            response = refusal(500, "internal server error; see the server's log")
        return finished(service, path, response, time.monotonic() - began)

    return endpoint


def finished(service: Service, path: str, response: Response, seconds: float) -> Response:
    """A response with the headers that all have, counted in the metrics under ``path``."""
    service.metrics.answered(path, response.status_code, seconds)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def refusal(status: int, reason: str) -> Response:
    """An error response, the same for all endpoints."""
    # A quoted value may have a lone surrogate, which UTF-8 cannot encode.
    text = " ".join(reason.split()).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status)


async def health(service: Service, http: HttpRequest) -> Response:
    """For health checks; answers even if the server is busy."""
    if service.engine.model_lost:
        raise HTTPException(503, "a model has changed or disappeared since the server was started; restart the server")
    return JSONResponse({"status": "ok"})


async def metrics(service: Service, http: HttpRequest) -> Response:
    """Metrics for Prometheus."""
    service.check_key(http)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
