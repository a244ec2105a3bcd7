"""Books (epub): chapters and table of contents, each of which is a page of XHTML."""

import posixpath
from collections.abc import Sequence
from itertools import islice
from urllib.parse import unquote

from nmtkit.documents.archive import Archive
from nmtkit.documents.html import Paragraphs, set_language
from nmtkit.documents.segment import Segment
from nmtkit.errors import UserError

_PAGES = ("application/xhtml+xml", "application/x-dtbncx+xml")  # the second: the contents before EPUB 3
_ENCRYPTION = "META-INF/encryption.xml"


class Epub:
    """A book, and the language of its translation.

    Raises UserError if chapters are encrypted or missing, and as ``Archive`` does.
    """

    def __init__(self, data: bytes, language: str) -> None:
        self._archive, self._language = Archive(data), language
        self.segments = list[Segment]()
        self._pages = dict[str, int]()  # the number of segments of each page
        encrypted = set[str]()  # fonts often are, so that they can be used in one book only
        if _ENCRYPTION in self._archive.names:
            references = self._archive.parse(_ENCRYPTION).tree.iter("{*}CipherReference")
            encrypted = {unquote(reference.get("URI", "")) for reference in references}
        for name in self._names():
            if name in encrypted:
                raise UserError(f"is encrypted ({name}), as books with copy protection are; it cannot be translated")
            found = Paragraphs(self._archive.parse(name).tree.getroot()).segments
            self._pages[name] = len(found)
            self.segments += found

    def _names(self) -> list[str]:
        """The names of the pages, in the order of the package document."""
        container = self._archive.parse("META-INF/container.xml").tree
        self._package = next((str(root.get("full-path")) for root in container.iter("{*}rootfile")), "")
        if not self._package:
            raise UserError("contains no list of its files, so it is not an epub")
        items = self._archive.parse(self._package).tree.iter("{*}item")
        pages = [item.get("href", "") for item in items if item.get("media-type") in _PAGES]
        paths = (posixpath.join(posixpath.dirname(self._package), unquote(page)) for page in pages)
        return list(dict.fromkeys(map(posixpath.normpath, paths)))

    def write(self, translated: Sequence[Segment]) -> bytes:
        """The book with these segments in their places."""
        left, changed = iter(translated), dict[str, bytes]()
        package = self._archive.parse(self._package)
        declared = next(package.tree.iter("{http://purl.org/dc/elements/1.1/}language"), None)  # the main language
        if declared is not None:
            declared.text = self._language.replace("_", "-")
            changed[self._package] = package.write()
        for name, count in self._pages.items():
            if count:
                page = self._archive.parse(name)
                Paragraphs(page.tree.getroot()).replace(list(islice(left, count)))
                set_language(page.tree.getroot(), self._language)
                changed[name] = page.write()
        return self._archive.write(changed)
