"""``nmtkit serve``: translators behind a page and an API, until a signal comes."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.options import Device
from nmtkit.errors import UserError
from nmtkit.translation.request import Request


def serve(
    model: Annotated[list[Path] | None, typer.Option("--model", "-m", show_default=False,
        help="Model or ensemble folder; give the option several times to offer several.  [default: run]")] = None,
    ensemble: Annotated[bool, typer.Option("--ensemble",
        help="Offer one translator, the ensemble of all models.")] = False,
    host: Annotated[str, typer.Option(
        help="Address to listen at; 0.0.0.0 is every one of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 is any that is free.")] = 8080,
    device: Device = "auto",
) -> None:  # fmt: skip
    """Serve translations: a page for people at http://127.0.0.1:8080, and an API for programs.

    nmtkit serve -m averaged
    """
    try:
        from nmtkit.serving.limits import Limits
        from nmtkit.serving.search import Offer
        from nmtkit.serving.server import bound
        from nmtkit.serving.server import serve as run
    except ModuleNotFoundError as error:
        raise UserError(f"serving needs {error.name}; install it with: pip install 'nmtkit[serve]'") from None
    from nmtkit.translation.jobs import Models

    listener = bound(host, port)
    offers = tuple(
        Offer(folder.name, Models((folder,), device, None, None, "float32", None)) for folder in model or [Path("run")]
    )
    address = listener.getsockname()
    run(
        offers,
        listener,
        request=Request(),
        limits=Limits(),
        split=True,
        key=None,
        origins=(),
        jobs=1,
        ready=lambda jobs: print(f"http://{address[0]}:{address[1]}", file=sys.stderr),
    )
