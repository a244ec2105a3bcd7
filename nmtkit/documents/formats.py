"""Which reader a file has, by the end of its name."""

from collections.abc import Sequence
from pathlib import PurePath

from nmtkit.documents.segment import Document
from nmtkit.errors import UserError

_NO = {
    ".pdf": "a PDF has no paragraphs, only places of letters or pictures of them; translate what it was made from",
    **dict.fromkeys((".doc", ".dot", ".rtf"), "save it as docx or odt"),
    **dict.fromkeys((".ppt", ".pps"), "save it as pptx or odp"),
    **dict.fromkeys((".docm", ".dotm"), "it may have macros, which are programs; save it as docx"),
    **dict.fromkeys((".pptm", ".ppsm", ".potm"), "it may have macros, which are programs; save it as pptx"),
    **dict.fromkeys((".xls", ".xlsx", ".xlsm", ".ods"), "save the sheet as csv"),
}
SUFFIXES = (
    ".html", ".htm", ".xhtml", ".docx", ".pptx", ".odt", ".odp", ".epub", ".srt", ".vtt", ".po", ".pot", ".xliff",
    ".xlf", ".tmx", ".properties", ".json", ".csv", ".tsv", ".md", ".markdown",
)  # fmt: skip


def is_document(name: str) -> bool:
    """Whether a file of this name is a document; of one that cannot be translated, ``read_document`` says why."""
    suffix = PurePath(name).suffix.lower()
    return suffix in SUFFIXES or suffix in _NO


def read_document(name: str, data: bytes, columns: Sequence[str], language: str) -> Document:
    """The file ``name`` as a document.

    columns: those of a table that are translated; language: that of the translation, for a memory that has several.
    Raises UserError, with the name, if it cannot be translated, or if the extra nmtkit[files] is not installed.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in _NO:
        raise UserError(f"{name}: cannot be translated: {_NO[suffix]}")
    if columns and suffix not in (".csv", ".tsv"):
        raise UserError(f"{name}: `columns` is for tables (csv, tsv); leave it out")
    try:
        return _read(suffix, data, columns, language)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    except ModuleNotFoundError as error:
        raise UserError(f"{name}: reading it needs {error.name}; pip install 'nmtkit[files]'") from None


def _read(suffix: str, data: bytes, columns: Sequence[str], language: str) -> Document:
    """The table of formats; a reader's libraries are imported when it is used."""
    match suffix:
        case ".html" | ".htm" | ".xhtml":
            from nmtkit.documents.html import Html

            return Html(data)
        case ".docx" | ".pptx":
            from nmtkit.documents.office import read_ooxml

            return read_ooxml(data)
        case ".odt" | ".odp":
            from nmtkit.documents.office import read_odf

            return read_odf(data)
        case ".epub":
            from nmtkit.documents.epub import Epub

            return Epub(data)
        case ".srt":
            from nmtkit.documents.subtitles import read_srt

            return read_srt(data)
        case ".vtt":
            from nmtkit.documents.subtitles import read_vtt

            return read_vtt(data)
        case ".po" | ".pot":
            from nmtkit.documents.catalogues import read_po

            return read_po(data)
        case ".xliff" | ".xlf":
            from nmtkit.documents.catalogues import read_xliff

            return read_xliff(data)
        case ".tmx":
            from nmtkit.documents.catalogues import read_tmx

            return read_tmx(data, language.lower())
        case ".properties":
            from nmtkit.documents.catalogues import read_properties

            return read_properties(data)
        case ".json":
            from nmtkit.documents.catalogues import read_json

            return read_json(data)
        case ".csv" | ".tsv":
            from nmtkit.documents.tables import read as read_table

            return read_table(data, columns)
        case ".md" | ".markdown":
            from nmtkit.documents.markdown import read as read_markdown

            return read_markdown(data)
    raise UserError(f"is no document that can be translated; these can: {', '.join(SUFFIXES)}")
