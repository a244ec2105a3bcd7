"""Archives of XML files, such as office documents and books: read within limits, and written with changed files."""

import copy
import io
import re
import shutil
import struct
import zipfile
import zlib
from html.entities import html5

from lxml import etree

from nmtkit.documents.text import line_end
from nmtkit.errors import UserError

_FILES = 20_000  # in an archive
_UNPACKED = 400 << 20  # bytes of all files in an archive
_TEXT = 50 << 20  # bytes of an XML file, whose tree takes about ten times as much
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # the first bytes of doc, of ppt, and of an encrypted docx or pptx
_DAMAGE = (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError, struct.error)  # of zipfile
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False)
# The beginnings and ends of what is not markup (CDATA, comments, processing instructions), and an entity.
_ENDS = {b"<![CDATA[": b"]]>", b"<!--": b"-->", b"<?": b"?>"}
_ENTITY = re.compile(rb"<!\[CDATA\[|\]\]>|<!--|-->|<\?|\?>|&[A-Za-z][A-Za-z0-9]*;")


class Archive:
    """A zip file in memory. Raises UserError if it is damaged, encrypted or too large when unpacked."""

    def __init__(self, data: bytes) -> None:
        if data.startswith(_OLE):
            raise UserError(
                "is encrypted or in an old binary format; save it again, without a password, as docx or pptx"
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _DAMAGE as error:
            raise UserError(f"is damaged, or not in the format that its name implies ({error})") from None
        self.names, files = self._zip.namelist(), self._zip.infolist()
        size = sum(file.file_size for file in files)
        if len(files) > _FILES or size > _UNPACKED:
            raise UserError(
                f"contains {len(files)} files of {size >> 20} MiB; the limit is {_FILES} of {_UNPACKED >> 20} MiB"
            )
        if len(set(self.names)) < len(files):
            raise UserError("contains two files of the same name; save it again with the program that made it")
        if any(file.flag_bits & 1 for file in files):
            raise UserError("is encrypted; save it again without a password")
        try:
            damaged = self._zip.testzip()  # before translating, not after
        except (*_DAMAGE, zlib.error, RuntimeError) as error:
            raise UserError(f"is damaged: it cannot be unpacked ({error})") from None
        if damaged is not None:
            raise UserError(f"is damaged: the checksum of its {damaged} is wrong")

    def parse(self, name: str) -> "Xml":
        """Parse an XML file. Raises UserError if it is missing, and as ``Xml`` does."""
        try:
            file = self._zip.getinfo(name)
        except KeyError:
            raise UserError(f"contains no {name}, so it is not in the format that its name implies") from None
        _check_size(file.file_size, f"its {name} ")
        return Xml(self._zip.read(file), f"its {name} ")

    def write(self, changed: dict[str, bytes]) -> bytes:
        """The archive with new content for the files in ``changed``; other files and the order stay the same."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for file in self._zip.infolist():
                entry = copy.copy(file)
                entry.extra = b""  # such as sizes, which zipfile writes itself
                if file.compress_type != zipfile.ZIP_STORED:
                    entry.compress_type = zipfile.ZIP_DEFLATED
                content = io.BytesIO(changed[file.filename]) if file.filename in changed else self._zip.open(file)
                with content, archive.open(entry, "w") as target:
                    shutil.copyfileobj(content, target, 1 << 20)
        return written.getvalue()


class Xml:
    """An XML file as a tree that can be changed. Nothing outside the file is read.

    Entities of HTML, which the DTD of XHTML declares, become characters; no other entity is expanded. Raises UserError,
    beginning with ``name``, if the file is too large, not well-formed or declares entities.
    """

    def __init__(self, data: bytes, name: str = "") -> None:
        _check_size(len(data), name)
        try:
            self.tree = etree.ElementTree(etree.fromstring(data, _PARSER))
        except (etree.XMLSyntaxError, ValueError, LookupError) as error:
            raise UserError(f"{name}is not well-formed XML: {' '.join(str(error).split())}") from None
        internal = self.tree.docinfo.internalDTD
        if internal is not None and any(True for _ in internal.iterentities()):
            raise UserError(f"{name}declares XML entities, which are not supported; replace them with their text")
        if self.tree.docinfo.doctype and (expanded := _expanded(data)) != data:
            self.tree = etree.ElementTree(etree.fromstring(expanded, _PARSER))
        declared = re.match(rb"(?:\xef\xbb\xbf)?(?:<\?xml[^>]*\?>\s*)?", data)
        self._before, self._after, self._end = declared[0] if declared else b"", b"", b"\n"
        if b"\0" not in data:  # in UTF-16, half a character is not a line end
            self._after = b"\n" if data.endswith(b"\n") else b""
            self._end = line_end(data.decode("latin-1")).encode()

    def write(self) -> bytes:
        """The file, with its declaration, its byte order mark and its line ends as they were."""
        encoding = self.tree.docinfo.encoding or "UTF-8"
        undeclared = not self._before and encoding.lower() != "utf-8"
        content: bytes = etree.tostring(self.tree, xml_declaration=undeclared, encoding=encoding)
        return self._before + (content + self._after).replace(b"\n", self._end)


def _expanded(data: bytes) -> bytes:
    """An XML file with the entities of HTML as references to their characters."""
    end = b""  # that of the CDATA section, comment or processing instruction which is open; empty if none is

    def expanded(match: re.Match[bytes]) -> bytes:
        nonlocal end
        found = match[0]
        if end:
            end = b"" if found == end else end
            return found
        end = _ENDS.get(found, b"")
        return "".join(f"&#{ord(character)};" for character in html5.get(found[1:].decode(), "")).encode() or found

    # Not a pattern from beginning to end, which takes quadratic time for beginnings in the address of a DTD.
    return _ENTITY.sub(expanded, data)


def _check_size(size: int, name: str) -> None:
    """Raise UserError, beginning with ``name``, if an XML file of this size in bytes is too large."""
    if size > _TEXT:
        raise UserError(f"{name}has {size >> 20} MiB; the limit is {_TEXT >> 20} MiB")
