"""``nmtkit serve``: a web page and an API for translation."""

import ipaddress
import logging
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated

from nmtkit.cli.parameters import Without
from nmtkit.errors import UserError
from nmtkit.options import Option
from nmtkit.serving.limits import Limits
from nmtkit.translation.request import Request
from nmtkit.workflow.shared import ENSEMBLES
from nmtkit.workflow.translate import TranslateOptions, models_of
from nmtkit.writing import real_path

log = logging.getLogger(__name__)


def serve(
    *,
    model: Annotated[list[Path] | None, Option(
        "Model or ensemble folder; give the option several times to offer several.  [default: run]",
        names="--model -m")] = None,
    host: Annotated[str, Option(
        "Address to listen on: 127.0.0.1 accepts connections from this machine only, 0.0.0.0 from any.",
        )] = "127.0.0.1",
    port: Annotated[int, Option("Port to listen on; 0 is any free one.", at_least=0, at_most=65535)] = 8080,
    api_key: Annotated[str | None, Option(
        "Key that clients must send. Setting NMTKIT_API_KEY in the environment is safer: others on this machine can "
        "read the command line.")] = None,
    cors: Annotated[list[str] | None, Option(
        "Origin of web pages that may use the API from a browser, such as https://example.org, or * for all; may "
        "be repeated.", metavar="ORIGIN")] = None,
    split: Annotated[bool, Option(
        "Split texts into sentences, not only into lines.", names="--split/--no-split")] = True,
    request: Annotated[Request, Without(("n_best", "sample", "seed", "alignment", "tokenized", "max_tokens"))],
    ensemble: Annotated[bool, Option(
        "Offer only the ensemble of all models.", ENSEMBLES, before="max_input_length")] = False,
    options: Annotated[TranslateOptions, Without(("model", "checkpoint", "keep", "columns"))],
    limits: Limits,
) -> None:  # fmt: skip
    """Serve translations on a web page, http://127.0.0.1:8080, and through an API.

      nmtkit serve -m averaged
      nmtkit serve -m rnnsearch -m bideep --port 8081

    Each model or ensemble is offered under the name of its folder, and the page shows two of them side by side.
    Requests that arrive during a search are batched for the next one, a sentence from each in turn, so that a
    short text does not wait for a long one. Search options are defaults for requests that do not set them.

    POST /v1/translate takes JSON with a text or lines, and options of nmtkit translate by their names in Python
    (n_best, attention, alignment, replace_unk, ...). POST /translate and GET /languages are for clients of
    LibreTranslate, GET /health and GET /metrics for monitoring.

    Texts are not logged. On SIGTERM, the server finishes the current searches and refuses other requests.
    """
    if api_key is None:
        api_key = os.environ.get("NMTKIT_API_KEY")
    # Only ASCII is reliable in headers.
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key != ""):
        reason = "is empty, or has spaces around it or non-ASCII characters"
        raise UserError(f"--api-key (or NMTKIT_API_KEY): {reason}; give another")
    if wrong := [origin for origin in cors or () if not re.fullmatch(r"\*|null|[^/\s]+://[^/\s]+", origin)]:
        raise UserError(f"--cors {wrong[0]}: is not an origin; give one such as https://example.org, without a path")
    folders = model or [Path("run")]
    if len(folders) > 1 and not ensemble and (options.combine or options.weights):
        raise UserError("--combine and --weights are for an ensemble; add --ensemble, or leave them out")
    try:
        from nmtkit.serving.server import listen, run
    except ModuleNotFoundError as error:
        raise UserError(f"serving needs {error.name}; install it with: pip install 'nmtkit[serve]'") from None
    from nmtkit.serving.search import Description, Offer

    offered = [replace(options, model=each) for each in ([folders] if ensemble else folders)]
    names = ["ensemble"] if ensemble else shortest_names(folders)
    offers = tuple(Offer(name, models_of(each)) for name, each in zip(names, offered, strict=True))
    # Before models are loaded, so that a port that is in use is reported at once.
    with listen(host, port) as listener:
        # A link-local address (fe80::1) includes the name of its network.
        address = socket.getnameinfo(listener.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]

        def ready(models: Sequence[Description]) -> None:
            if api_key is None and not ipaddress.ip_address(address[0]).is_loopback:
                log.warning(
                    "nmtkit: warning: anyone who can reach this address can translate; use --api-key to require a key"
                )
            named = ", ".join(f"{each.name} ({each.source} to {each.target})" for each in models)
            log.info(f"{named}: http://{shown}:{address[1]} (Ctrl-C stops the server)")

        run(listener, ready, offers, request, limits, split, api_key, cors or (), host, options.jobs)


def shortest_names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the folders' paths that are all different.

    Raises UserError for a folder that is given twice.
    """
    paths = [real_path(folder) for folder in folders]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise UserError(f"`model`: {folders[number]} is given twice; name it once")
    depth = next(n for n in count(1) if len({path.parts[-n:] for path in paths}) == len(paths))
    return ["/".join(path.parts[-depth:]) for path in paths]
