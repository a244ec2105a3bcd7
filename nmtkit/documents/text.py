"""Decoding and encoding text files, whose byte order marks and line ends are kept; joining the lines of a text."""

import codecs
import re
from contextlib import suppress

from nmtkit.errors import UserError
from nmtkit.lines import conversion
from nmtkit.text.scripts import WIDE

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UNSPACED = re.compile(f"[{WIDE}]{{2}}")


def decoded(data: bytes, encoding: str = "utf-8") -> str:
    """Decode a file by its byte order mark, or else as ``encoding``. Raises UserError if it is not valid text."""
    mark, encoding = byte_order_mark(data, encoding)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        byte = data[len(mark) :][error.start]
        raise UserError(f"byte 0x{byte:02X} is not {encoding}; {conversion(data[:10_000])}") from None
    except (LookupError, UnicodeError):
        raise UserError(f"declares the unknown encoding {encoding!r}") from None
    if "\0" in text:
        raise UserError("contains zero bytes, so it is not text")
    return text


def encoded(text: str, like: bytes) -> bytes:
    """Encode a text with the byte order mark and the encoding of the file ``like``; without a mark, UTF-8."""
    mark, encoding = byte_order_mark(like, "utf-8")
    return mark + text.encode(encoding)


def guessed(data: bytes, *encodings: str, otherwise: str) -> tuple[str, str]:
    """The text of a file and its encoding: the first of ``encodings`` that decodes it, or else ``otherwise``."""
    for encoding in encodings:
        with suppress(LookupError, UnicodeError):
            return data.decode(encoding), codecs.lookup(encoding).name
    return data.decode(otherwise, "replace"), otherwise


def byte_order_mark(data: bytes, otherwise: str) -> tuple[bytes, str]:
    """The byte order mark of a file and its encoding; without a mark, ``otherwise``."""
    return next(((mark, name) for mark, name in _MARKS.items() if data.startswith(mark)), (b"", otherwise))


def line_end(text: str) -> str:
    """CRLF if all lines of a text end with it, else LF."""
    return "\r\n" if text.count("\r\n") == text.count("\n") > 0 else "\n"


def space_between(line: str, following: str) -> str:
    """What is between two lines in running text: a space, but nothing between Chinese or Japanese characters."""
    return "" if _UNSPACED.fullmatch(line.rstrip()[-1:] + following.lstrip()[:1]) else " "
