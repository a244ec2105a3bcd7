"""Archives of XML files, such as office documents and books, read within limits and written with changed files."""

import io
import re
import shutil
import struct
import zipfile
import zlib

from lxml import etree

from nmtkit.errors import UserError

_FILES = 20_000  # of an archive
_UNPACKED = 400 << 20  # bytes of all files of an archive
_TEXT = 50 << 20  # bytes of a file with text, which takes some ten times as much as a tree
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # the first bytes of an encrypted docx or pptx, and of doc and ppt
_DAMAGE = (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError, struct.error)  # of zipfile
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False)


class Archive:
    """A zip file in memory. Raises UserError if it is none, is damaged or encrypted, or unpacks to too much."""

    def __init__(self, data: bytes) -> None:
        if data.startswith(_OLE):
            raise UserError(
                "is encrypted or in an old binary format; save it again, without a password, as docx or pptx"
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _DAMAGE as error:
            raise UserError(f"is damaged or no document of this kind ({error})") from None
        self._files = self._zip.infolist()
        size = sum(file.file_size for file in self._files)
        if len(self._files) > _FILES or size > _UNPACKED:
            raise UserError(
                f"has {len(self._files)} files of {size >> 20} MiB; at most {_FILES} of {_UNPACKED >> 20} MiB are read"
            )
        if len({file.filename for file in self._files}) < len(self._files):
            raise UserError("has two files of one name; save it again with the program that made it")
        if any(file.flag_bits & 1 for file in self._files):
            raise UserError("is encrypted; save it again without a password")
        try:
            damaged = self._zip.testzip()  # now, not when all is translated
        except (*_DAMAGE, zlib.error, RuntimeError) as error:
            raise UserError(f"is damaged: it cannot be unpacked ({error})") from None
        if damaged is not None:
            raise UserError(f"is damaged: {damaged} in it has changed since it was packed")

    @property
    def names(self) -> list[str]:
        """The names of its files."""
        return [file.filename for file in self._files]

    def read(self, name: str) -> bytes:
        """A file with text. Raises UserError if there is none, or if it is too large."""
        try:
            file = self._zip.getinfo(name)
        except KeyError:
            raise UserError(f"has no {name}, and so is no document of this kind") from None
        if file.file_size > _TEXT:
            raise UserError(f"{name} in it has {file.file_size >> 20} MiB; at most {_TEXT >> 20} MiB are read")
        return self._zip.read(file)

    def parse(self, name: str) -> "Xml":
        """An XML file. Raises UserError as ``read`` and ``parse`` do."""
        return parse(self.read(name), f"{name} in it ")

    def write(self, changed: dict[str, bytes]) -> bytes:
        """The archive with the content of some files changed, and all others as they are, in their order."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for file in self._files:
                if file.filename in changed:
                    archive.writestr(_like(file), changed[file.filename])
                else:
                    with self._zip.open(file) as source, archive.open(_like(file), "w") as target:
                        shutil.copyfileobj(source, target, 1 << 20)
        return written.getvalue()


def _like(file: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """What the archive says of a file, for another content."""
    copy = zipfile.ZipInfo(file.filename, file.date_time)
    copy.compress_type = file.compress_type if file.compress_type == zipfile.ZIP_STORED else zipfile.ZIP_DEFLATED
    copy.external_attr, copy.create_system, copy.comment = file.external_attr, file.create_system, file.comment
    return copy


class Xml:
    """An XML file as a tree, which may be changed and written again."""

    def __init__(self, tree: etree._ElementTree, like: bytes) -> None:
        self.tree = tree
        declared = re.match(rb"<\?xml[^>]*\?>\s*", like)
        self._before, self._after = declared[0] if declared else b"", b"\n" if like.endswith(b"\n") else b""

    def write(self) -> bytes:
        """The file, with the declaration that it had."""
        encoding = self.tree.docinfo.encoding or "UTF-8"
        undeclared = not self._before and encoding.lower() != "utf-8"
        return (
            self._before + bytes(etree.tostring(self.tree, xml_declaration=undeclared, encoding=encoding)) + self._after
        )


def parse(data: bytes, name: str = "") -> Xml:
    """An XML file. Nothing outside of it is read, and no entity is expanded.

    Raises UserError, after ``name``, if it is not well-formed or declares entities.
    """
    if len(data) > _TEXT:
        raise UserError(f"{name}has {len(data) >> 20} MiB; at most {_TEXT >> 20} MiB are read")
    try:
        tree = etree.ElementTree(etree.fromstring(data, _PARSER))
    except (etree.XMLSyntaxError, ValueError, LookupError) as error:
        raise UserError(f"{name}is no well-formed XML: {' '.join(str(error).split())}") from None
    internal = tree.docinfo.internalDTD
    if internal is not None and any(True for _ in internal.iterentities()):
        raise UserError(f"{name}declares XML entities, which are not read; replace them by their text")
    return Xml(tree, data)
