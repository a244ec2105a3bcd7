"""The reader of a file, by the suffix of its name."""

from collections.abc import Sequence
from pathlib import PurePath
from pkgutil import resolve_name

from nmtkit.documents.segment import Document
from nmtkit.errors import UserError

_REFUSED = {
    ".pdf": "a PDF stores positions of letters, or images, but no paragraphs; translate the file it was made from",
    **dict.fromkeys((".doc", ".dot", ".rtf"), "save it as docx or odt"),
    **dict.fromkeys((".ppt", ".pps"), "save it as pptx or odp"),
    **dict.fromkeys((".docm", ".dotm"), "it may have macros, which are programs; save it as docx"),
    **dict.fromkeys((".pptm", ".ppsm", ".potm"), "it may have macros, which are programs; save it as pptx"),
    **dict.fromkeys((".xls", ".xlsx", ".xlsm", ".ods"), "save the sheet as csv"),
    **dict.fromkeys((".gz", ".zst"), "it is compressed; decompress it first"),
    # Not .ts, .yml, .tex, .lrc or .ass: parallel text in Tsonga, Iamalele, Tennet, Luri or Ipulo may have these.
    **dict.fromkeys(
        ".jsonl .xml .yaml .toml .ini .conf .strings .resx .sdlxliff .mqxliff .mxliff .sgm .sgml .svg .rst .adoc "
        ".latex .php .js .jsx .vue .py .ipynb .sbv .ssa .ttml".split(),
        "its markup would be translated, too; extract the text, or translate all its lines from standard input",
    ),
}
# The module and the function or class that read a kind of file. They are imported when needed, with their libraries.
_READERS = {
    ".html": "html:Html", ".htm": "html:Html", ".xhtml": "html:Html", ".docx": "office:read_ooxml",
    ".pptx": "office:read_ooxml", ".odt": "office:read_odf", ".odp": "office:read_odf", ".epub": "epub:Epub",
    ".srt": "subtitles:read_srt", ".vtt": "subtitles:read_vtt", ".po": "catalogues:read_po",
    ".pot": "catalogues:read_po", ".xliff": "catalogues:read_xliff", ".xlf": "catalogues:read_xliff",
    ".tmx": "catalogues:read_tmx", ".properties": "catalogues:read_properties", ".json": "catalogues:read_json",
    ".csv": "tables:read_csv", ".tsv": "tables:read_tsv", ".md": "markdown:read", ".markdown": "markdown:read",
    ".txt": "places:read_txt",
}  # fmt: skip
SUFFIXES = tuple(_READERS)
ARCHIVES = (".docx", ".pptx", ".odt", ".odp", ".epub")  # binary: packed in zip
_SAME = {".htm": ".html", ".markdown": ".md", ".xlf": ".xliff", ".pot": ".po"}  # a translated template is a catalogue
# Their readers need the target language; those of XLIFF and TMX, the source, too.
_WITH_LANGUAGE = (".html", ".htm", ".xhtml", ".docx", ".pptx", ".epub", ".po", ".pot", ".xliff", ".xlf", ".tmx")


def is_document(name: str) -> bool:
    """Whether the suffix of ``name`` is that of a document, also one that ``check_document`` refuses, but not txt."""
    path = PurePath(name.lower())
    suffix = PurePath(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix
    return suffix != ".txt" and (suffix in SUFFIXES or suffix in _REFUSED)


def check_document(name: str) -> None:
    """Raise UserError if documents with this suffix cannot be translated."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _REFUSED:
        raise UserError(f"{name}: cannot be translated: {_REFUSED[suffix]}")
    if suffix not in SUFFIXES:
        raise UserError(f"{name}: is not a supported document; supported are {', '.join(SUFFIXES)}")


def same_format(name: str, output: str) -> bool:
    """Whether the translation of the document ``name`` may be called ``output``: with the same suffix, or none."""
    suffix, named = (PurePath(path).suffix.lower() for path in (name, output))
    return named in ("", suffix, _SAME.get(suffix)) or (suffix == _SAME.get(named) and suffix != ".po")


def read_document(name: str, data: bytes, columns: Sequence[str], languages: tuple[str, str]) -> Document:
    """Read the file ``name`` as a document.

    columns: the columns of a table to translate. languages: source and target. The translation declares the target;
    XLIFF and po with translations must not declare another, nor XLIFF and TMX another source.
    Raises UserError, beginning with the name, if the file cannot be translated or the extra nmtkit[files] is not
    installed.
    """
    check_document(name)
    suffix = PurePath(name).suffix.lower()
    is_table = suffix in (".csv", ".tsv")
    if columns and not is_table:
        raise UserError(f"{name}: `columns` is for tables (csv, tsv); leave it out")
    given = languages if suffix in (".xliff", ".xlf", ".tmx") else languages[1]
    options = [columns] if is_table else [given] if suffix in _WITH_LANGUAGE else []
    try:
        document: Document = resolve_name(f"nmtkit.documents.{_READERS[suffix]}")(data, *options)
    except UserError as error:
        raise type(error)(f"{name}: {error}") from None
    except ModuleNotFoundError as error:
        raise UserError(f"{name}: reading it needs {error.name}; pip install 'nmtkit[files]'") from None
    return document
