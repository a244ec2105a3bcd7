"""Strings of programs: po (gettext), XLIFF 1.2 and 2.0, translation memories (tmx), Java's properties, and JSON.

Strings that have a translation keep it. Ours are marked as unchecked where the format can say so: fuzzy in po, a state
in XLIFF. Those of which the model is not sure have a comment in po, and the state of what is not translated in XLIFF.
"""

import copy
import gettext
import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import javaproperties
import polib
from lxml import etree

from nmtkit.documents.archive import parse
from nmtkit.documents.markup import Role, read_markup, write_markup
from nmtkit.documents.places import Places
from nmtkit.documents.segment import Segment
from nmtkit.documents.text import decoded, encoded
from nmtkit.errors import UserError

Element: TypeAlias = etree._Element

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_COMMENT = "nmtkit: a doubtful translation"
# A string of a JSON file that is known to be one, and the colon after a key.
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?')
# Inline elements of XLIFF and TMX with words in them; all others are code.
_INLINE: dict[str, Role] = {
    "g": "whole", "mrk": "whole", "pc": "whole", "hi": "splits",
    "bpt": "opens", "ept": "closes", "sc": "opens", "ec": "closes",
}  # fmt: skip


def read_po(data: bytes) -> Places:
    """A po or pot file. Raises UserError if it is none."""
    if not data.strip():
        raise UserError("is empty")
    named = re.search(rb"charset=([A-Za-z0-9_.:-]+)", data[:10_000])
    text = decoded(data, named[1].decode() if named and named[1] != b"CHARSET" else "utf-8")
    try:
        # What has line ends is no name of a file, which polib would read.
        file = polib.pofile(text + "\n", wrapwidth=78)
    except (OSError, ValueError, IndexError, KeyError, AttributeError, UnicodeError) as error:
        raise UserError(f"is no po file: {' '.join(str(error).split())}") from None
    if file.metadata and "utf-8" not in file.metadata.get("Content-Type", "").lower():
        file.metadata["Content-Type"] = "text/plain; charset=UTF-8"
    places = Places(lambda: str(file).encode())
    singular = _form_of_one(file.metadata.get("Plural-Forms", ""))
    for entry in file:
        if entry.obsolete:
            continue
        if entry.msgid_plural:
            for number, form in entry.msgstr_plural.items():
                if not form:
                    places.add_string(
                        entry.msgid if number == singular else entry.msgid_plural, _form(entry, number), _doubt(entry)
                    )
        elif not entry.msgstr:
            places.add_string(entry.msgid, _string(entry), _doubt(entry))
    return places


def _string(entry: polib.POEntry) -> Callable[[str], None]:
    def put(translated: str) -> None:
        entry.msgstr, entry.fuzzy = translated, True

    return put


def _form(entry: polib.POEntry, number: int) -> Callable[[str], None]:
    def put(translated: str) -> None:
        entry.msgstr_plural[number], entry.fuzzy = translated, True

    return put


def _doubt(entry: polib.POEntry) -> Callable[[], None]:
    """Write a comment for the translator, once."""

    def comment() -> None:
        if _COMMENT not in entry.tcomment.splitlines():
            entry.tcomment = "\n".join(filter(None, [entry.tcomment, _COMMENT]))

    return comment


def _form_of_one(plural_forms: str) -> int | None:
    """Which plural form is that of one thing; None if there is one form for any number of them."""
    count = re.search(r"nplurals\s*=\s*([0-9]+)", plural_forms)
    if count and int(count[1]) == 1:
        return None
    formula = re.search(r"plural\s*=\s*([^;]+)", plural_forms)
    try:
        return gettext.c2py(formula[1])(1) if formula else 0
    except (ValueError, RecursionError, ZeroDivisionError):
        return 0


def read_properties(data: bytes) -> Places:
    """A properties file of Java, in UTF-8 or, if it is not that, Latin-1. Raises UserError if it is none."""
    text, encoding = _properties_text(data)
    try:
        file = javaproperties.PropertiesFile.loads(text)
    except ValueError as error:
        raise UserError(f"is no properties file: {error}") from None
    # What is not in UTF-8 now gets \u and the number of each other character.
    places = Places(lambda: file.dumps(ensure_ascii=encoding != "utf-8").encode(encoding))
    for key, value in file.items():
        places.add_string(value, partial(file.__setitem__, key))
    return places


def _properties_text(data: bytes) -> tuple[str, str]:
    """The text and the encoding of a properties file, which is ASCII, UTF-8 or, as of old, Latin-1."""
    for encoding in ("ascii", "utf-8"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding), encoding
    return data.decode("latin-1"), "latin-1"


def read_json(data: bytes) -> Places:
    """A JSON file: its strings, however nested, but not its keys. Raises UserError if it is none."""
    text = decoded(data)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"is no JSON that can be read: {error}") from None
    # Of valid JSON, quotation marks are always those of strings. All else is written as it was.
    pieces, end = list[str](), 0
    places = Places(lambda: encoded("".join(pieces), data))
    for match in _JSON_STRING.finditer(text):
        if match[1]:
            continue
        pieces += [text[end : match.start()], match[0]]
        end = match.end()

        places.add_string(json.loads(match[0]), partial(_put_json, pieces, len(pieces) - 1))
    pieces.append(text[end:])
    return places


def _put_json(pieces: list[str], place: int, translated: str) -> None:
    pieces[place] = json.dumps(translated, ensure_ascii=False)


def read_xliff(data: bytes) -> Places:
    """An XLIFF file, version 1.2 or 2.0. Raises UserError if it is none, or does not name the target language."""
    file = parse(data)
    root = file.tree.getroot()
    version = root.get("version", "")
    if etree.QName(root).localname != "xliff" or version not in ("1.0", "1.1", "1.2", "2.0", "2.1", "2.2"):
        raise UserError("is no XLIFF 1.2 or 2.0")
    if version >= "2" and not root.get("trgLang"):
        raise UserError("has no trgLang, which XLIFF 2.0 requires; add the target language to <xliff>")
    places = Places(file.write)
    for unit in root.iter("{*}segment" if version >= "2" else "{*}trans-unit"):
        source = unit.find("{*}source")
        if source is not None and not _untranslatable(unit) and not _begun(unit.find("{*}target")):
            _add_xliff(places, unit, source)
    return places


def _untranslatable(unit: Element) -> bool:
    """Whether the file says that a unit, or what it is in, is not to be translated."""
    said = [node.get("translate") for node in (unit, *unit.iterancestors()) if node.get("translate")]
    return said[:1] == ["no"] or unit.get("approved") == "yes"


def _begun(target: Element | None) -> bool:
    """Whether there is a translation."""
    return target is not None and bool("".join(target.itertext()).strip())


def _add_xliff(places: Places, unit: Element, source: Element) -> None:
    """Add a unit of XLIFF 1.2, or a segment of 2.0."""

    def put(translated: Segment) -> None:
        target = unit.find("{*}target")
        if target is None:
            target = etree.Element(source.tag.removesuffix("source") + "target")
            segmented = unit.find("{*}seg-source")
            (source if segmented is None else segmented).addnext(target)
        write_markup(target, translated)
        if unit.tag.endswith("segment"):
            unit.set("state", "initial" if translated.doubtful else "translated")
        else:
            target.set("state", "needs-translation" if translated.doubtful else "needs-review-translation")
            target.set("state-qualifier", "mt-suggestion")

    places.add(_read_inline(source), put)


def _read_inline(source: Element) -> Segment:
    """The content of a source of XLIFF or TMX, whose markup is copied."""
    spaces = next((node.get(_SPACE) for node in (source, *source.iterancestors()) if node.get(_SPACE)), "default")
    return read_markup(copy.deepcopy(source), _inline_role, collapse=spaces != "preserve")


def _inline_role(element: Element) -> Role:
    """What an inline element of XLIFF or TMX is to its text."""
    return _INLINE.get(etree.QName(element).localname, "kept")


def read_tmx(data: bytes, language: str) -> Places:
    """A translation memory: each unit without a text in ``language`` gets one, after the others.

    Without ``language``, it is the only one of the file beside the source's. Raises UserError if it is no TMX, or has
    no such language.
    """
    file = parse(data)
    root = file.tree.getroot()
    header = root.find("header")
    if root.tag != "tmx" or header is None:
        raise UserError("is no TMX")
    units = [(unit, unit.get("srclang", header.get("srclang", "")).lower()) for unit in root.iter("tu")]
    if not language:
        others = {_language(text) for unit, of in units for text in unit.findall("tuv")} - {of for _, of in units}
        if len(others) != 1:
            raise UserError(f"has texts in {len(others)} other languages; say which is the target language")
        (language,) = others
    places = Places(file.write)
    for unit, of in units:
        texts = {_language(text): text for text in unit.findall("tuv")}
        source = texts.get(of) if of != "*all*" else next(iter(texts.values()), None)
        there = next((texts[name] for name in texts if name.split("-")[0] == language.split("-")[0]), None)
        if source is not None and source.find("seg") is not None and not _begun(there):
            _add_tmx(places, source, there, language)
    return places


def _language(text: Element) -> str:
    """The language of a text of a TMX, whose older versions have another attribute."""
    return str(text.get(_LANG, text.get("lang", ""))).lower()


def _add_tmx(places: Places, source: Element, target: Element | None, language: str) -> None:
    """Add a unit of a TMX."""

    def put(translated: Segment) -> None:
        nonlocal target
        if target is None:
            target = etree.SubElement(source.getparent(), "tuv", {_LANG: language, "creationtool": "nmtkit"})
        write_markup(etree.SubElement(target, "seg") if target.find("seg") is None else target.find("seg"), translated)

    places.add(_read_inline(source.find("seg")), put)
