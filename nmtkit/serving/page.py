"""The page at ``/``, and a policy that lets a browser run and load what is in it and nothing else."""

import base64
import hashlib
import re
from importlib import resources
from typing import NamedTuple


class Page(NamedTuple):
    """A page and the Content-Security-Policy that belongs to it."""

    html: bytes
    policy: str


def load_page() -> Page:
    """The page. Its one style and one script are known to the policy by their hashes."""
    html = resources.files("nmtkit.serving").joinpath("page.html").read_text("utf-8")
    rules = [
        "default-src 'none'",
        f"style-src {_hashes('style', html)}",
        f"script-src {_hashes('script', html)}",
        "connect-src 'self'",
        "img-src data:",  # an icon
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return Page(html.encode(), "; ".join(rules))


def _hashes(tag: str, html: str) -> str:
    """The hashes of what stands in every element of that name, as a policy has them."""
    contents = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", html, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in contents)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
