"""Text files as text and back, with the byte order mark that they had."""

import codecs

from nmtkit.errors import UserError
from nmtkit.lines import conversion

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def decoded(data: bytes, encoding: str = "utf-8") -> str:
    """The text of a file in ``encoding``, or in that of its byte order mark. Raises UserError if it is in another."""
    mark, encoding = _mark(data, encoding)
    try:
        text = data[len(mark) :].decode(encoding)
    except LookupError:
        raise UserError(f"names {encoding!r}, which is no encoding") from None
    except UnicodeDecodeError as error:
        byte = data[len(mark) :][error.start]
        raise UserError(f"byte 0x{byte:02X} is not {encoding}; {conversion(data[:10_000])}") from None
    if "\0" in text:
        raise UserError("has zero bytes, and so is no text")
    return text


def encoded(text: str, like: bytes) -> bytes:
    """A text as a file with the byte order mark and the encoding of ``like``, which is UTF-8 without a mark."""
    mark, encoding = _mark(like, "utf-8")
    return mark + text.encode(encoding)


def _mark(data: bytes, otherwise: str) -> tuple[bytes, str]:
    """The byte order mark of a file and the encoding that it means."""
    return next(((mark, name) for mark, name in _MARKS.items() if data.startswith(mark)), (b"", otherwise))
