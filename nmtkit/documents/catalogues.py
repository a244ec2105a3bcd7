"""Files of program strings: po (gettext), XLIFF 1.2 and 2.0, translation memories (TMX), Java properties and JSON.

Existing translations are kept. New ones are marked for review where the format has a mark: fuzzy in po, a state in
XLIFF. Doubtful ones also get a comment in po, and in XLIFF the state of an untranslated string.
"""

import copy
import gettext
import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, pairwise
from typing import TypeAlias

import javaproperties
import polib
from lxml import etree

from nmtkit.documents.archive import Xml
from nmtkit.documents.markup import XML_SPACE, Role, local_name, read_markup, write_markup
from nmtkit.documents.places import Places, without_forms
from nmtkit.documents.segment import Segment
from nmtkit.documents.text import byte_order_mark, decoded, encoded, guessed, line_end
from nmtkit.errors import UserError
from nmtkit.lines import XML_LANG, text_in
from nmtkit.text.placeholders import PLACEHOLDERS
from nmtkit.text.scripts import base_language

Element: TypeAlias = etree._Element

_COMMENT = "nmtkit: a doubtful translation"
_CHARSET = re.compile(r"charset=([A-Za-z0-9_.:-]+)")
_LANGUAGE = re.compile(r"(?<=[\"n])Language:[^\"\\]*")  # at the start of a line of a po header, or after \n in it
# In an entry of a po file: its translations, its flags, and the line before which flags are missing.
_TRANSLATIONS = re.compile(r"^[ \t]*msgstr[^\r\n]*(?:\s+(?:msgstr|\")[^\r\n]*)*", re.MULTILINE)
_FLAGS = re.compile(r"^[ \t]*#,[^\r\n]*", re.MULTILINE)
_NO_FLAGS = re.compile(r"^[ \t]*(?:#\||msg)", re.MULTILINE)
# The mark of a menu's accelerator: &File, E&xit, and _File of GTK.
_ACCELERATOR = re.compile(r"(?<![^\W\d_])&(?=[^\W\d_])|&(?=[a-z])|(?<!\S)_(?=[A-Z])")
_ARGUMENT = re.compile(r"\{[0-9]")  # of Java's MessageFormat, for which an apostrophe is written twice
# A comment, a blank line or a whole property of a Java file, and the end of a line on which a property does not end.
_PROPERTY = re.compile(r"[ \t\f]*[#!][^\r\n]*(?:\r\n?|\n|\Z)|(?:[^\\\r\n]+|\\(?:\r\n|.))*(?:\r\n?|\n|\\?\Z)", re.DOTALL)
_CONTINUED = re.compile(r"\\(?:\r\n?|\n)[ \t\f]*|(\\.)", re.DOTALL)
# A string of a valid JSON file; group 1 is the colon after a key.
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?')
# Inline elements of XLIFF and TMX that enclose words; all others are code.
_INLINE: dict[str, Role] = {
    "g": "whole", "mrk": "whole", "pc": "whole", "hi": "splits",
    "bpt": "opens", "ept": "closes", "sc": "opens", "ec": "closes",
}  # fmt: skip


def _check_language(declared: str, language: str, way: str) -> None:
    """Raise UserError if a file declares a language, "" being none, other than ``language``. way: "from" or "into"."""
    if declared and base_language(declared) != base_language(language):
        raise UserError(
            f"is for translations {way} {declared}, but the model translates {way} {language}; choose another model, "
            "or correct the language in the file"
        )


def read_po(data: bytes, language: str) -> Places:
    """Read a po or pot file; its header declares ``language`` if it declares none or has no translations.

    Raises UserError if it is not valid, or has translations into another language.
    """
    if not data.strip():
        raise UserError("is empty")
    named = _CHARSET.search(data[:10_000].decode("latin-1"))
    text = decoded(data, named[1] if named and named[1] != "CHARSET" else "utf-8")
    try:
        # polib would open a text that is the path of a file; no path ends with a line break.
        file = polib.pofile(text + "\n", wrapwidth=78)
    except (OSError, ValueError, IndexError, KeyError, AttributeError, UnicodeError) as error:
        raise UserError(f"is not a valid po file: {' '.join(str(error).split())}") from None
    end = line_end(text)
    lines = text.replace(end, "\n").splitlines(keepends=True)
    starts = (max(entry.linenum - 1, 0) for entry in file)
    parts = ["".join(lines[first:last]) for first, last in pairwise([0, *starts, len(lines)])]  # header, entries
    if named and named[1].lower() != "utf-8":
        parts[0] = _CHARSET.sub("charset=UTF-8", parts[0], count=1)
    declared = file.metadata.get("Language", "").partition("@")[0]  # sr for sr@latin
    if any(entry.msgstr or any(entry.msgstr_plural.values()) for entry in file):
        _check_language(declared, language, "into")
    if base_language(declared) != base_language(language):
        parts[0] = _LANGUAGE.sub(f"Language: {language.replace('-', '_')}", parts[0], count=1)
    places = Places(lambda: encoded("".join(parts).replace("\n", end), data))
    singular = _singular_form(file.metadata.get("Plural-Forms", ""))
    missing = (
        (text, (place, entry, form)) for place, entry in enumerate(file, 1) for text, form in _missing(entry, singular)
    )
    for text, (place, entry, form) in without_forms(missing):
        found = _ACCELERATOR.search(text)
        key = found[0] if found and text.count(found[0]) == 1 and not PLACEHOLDERS.search(text) else ""
        put = partial(_put_entry, parts, place, entry, form, key)
        places.add_string(text.replace(key, ""), put, partial(_mark_doubtful, parts, place))
    return places


def _missing(entry: polib.POEntry, singular: int | None) -> list[tuple[str, int | None]]:
    """What must be translated in an entry: texts, and the numbers of their plural forms; None is the only form."""
    if entry.obsolete:
        return []
    if not entry.msgid_plural:
        return [] if entry.msgstr else [(entry.msgid, None)]
    forms = (number for number, form in entry.msgstr_plural.items() if not form)
    return [(entry.msgid if number == singular else entry.msgid_plural, number) for number in forms]


def _put_entry(parts: list[str], place: int, entry: polib.POEntry, form: int | None, key: str, translated: str) -> None:
    """Write a translation, or plural form ``form`` of it, into an entry, whose text is ``parts[place]``.

    key: the mark of an accelerator, which comes before the first letter.
    """
    translated = re.sub(r"[^\W\d_]", rf"{key}\g<0>", translated, count=1)
    if form is None:
        entry.msgstr = translated
    else:
        entry.msgstr_plural[form] = translated
    written = "".join(_TRANSLATIONS.findall(str(entry)))
    text = _TRANSLATIONS.sub(lambda before: written, parts[place], count=1)
    if not entry.fuzzy:
        flagged, mark = (_FLAGS, r"\g<0>, fuzzy") if entry.flags else (_NO_FLAGS, r"#, fuzzy\n\g<0>")
        text = flagged.sub(mark, text, count=1)
        entry.fuzzy = True
    parts[place] = text


def _mark_doubtful(parts: list[str], place: int) -> None:
    """Add the translator comment of a doubtful translation, once."""
    if _COMMENT not in parts[place]:
        parts[place] = f"# {_COMMENT}\n{parts[place]}"


def _singular_form(plural_forms: str) -> int | None:
    """The number of the plural form for one thing; None if all numbers have the same form."""
    if re.search(r"nplurals\s*=\s*0*1(?![0-9])", plural_forms):
        return None
    formula = re.search(r"plural\s*=\s*([^;]+)", plural_forms)
    try:
        return gettext.c2py(formula[1])(1) if formula else 0
    except (ValueError, RecursionError, ZeroDivisionError):
        return 0


def read_properties(data: bytes) -> Places:
    """Read a Java properties file in the encoding of its byte order mark, or else in UTF-8 or, failing that, Latin-1.

    Raises UserError if it is not valid, or contains zero bytes, which Latin-1 would accept.
    """
    strict = byte_order_mark(data, "")[0] != b"" or b"\0" in data
    text, encoding = (decoded(data), "utf-8") if strict else guessed(data, "ascii", "utf-8", otherwise="latin-1")
    end = line_end(text)
    # Not PropertiesFile, which takes quadratic time for a value on many lines.
    parts = _PROPERTY.findall(text.replace(end, "\n"))
    try:
        pairs = [javaproperties.loads(_CONTINUED.sub(r"\1", part)) for part in parts]  # of comments: none
    except ValueError as error:
        raise UserError(f"is not a valid properties file: {error}") from None

    def save() -> bytes:
        written = "".join(parts).replace("\n", end)
        return encoded(written, data) if encoding == "utf-8" else written.encode(encoding)

    places = Places(save)
    values = ((value, (place, key)) for place, pair in enumerate(pairs) for key, value in pair.items())
    for value, (place, key) in without_forms(values):
        text = value.replace("''", "'")
        doubled = _ARGUMENT.search(value) is not None and text.count("'") * 2 == value.count("'")

        def put(translated: str, place: int = place, key: str = key, doubled: bool = doubled) -> None:
            value = translated.replace("'", "''") if doubled else translated
            # Except in Unicode, characters outside ASCII are escaped as \uXXXX.
            parts[place] = javaproperties.join_key_value(key, value, ensure_ascii=encoding != "utf-8") + "\n"

        places.add_string(text if doubled else value, put)
    return places


def read_json(data: bytes) -> Places:
    """Read a JSON file: all strings at any depth, but no keys. Raises UserError if it is not valid."""
    text = decoded(data)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not valid JSON: {error}") from None
    translated = dict[int, str]()  # by the place of the string in the text

    def written(match: re.Match[str]) -> str:
        place = match.start()
        return json.dumps(translated[place], ensure_ascii=False) if place in translated else match[0]

    places = Places(lambda: encoded(_JSON_STRING.sub(written, text), data))
    values = ((json.loads(match[0]), match.start()) for match in _JSON_STRING.finditer(text) if not match[1])
    for value, place in without_forms(values):
        places.add_string(value, partial(translated.__setitem__, place))
    return places


def read_xliff(data: bytes, languages: tuple[str, str]) -> Places:
    """Read an XLIFF file, version 1.2 or 2.0; a unit with a segmented source has a translation of each segment.

    A file of version 1.2 that declares no target language declares that of ``languages``.
    Raises UserError if it is not valid, version 2.0 without a target language, or declares others than ``languages``,
    source and target.
    """
    file = Xml(data)
    root = file.tree.getroot()
    version = root.get("version", "")
    if local_name(root) != "xliff" or version not in ("1.0", "1.1", "1.2", "2.0", "2.1", "2.2"):
        raise UserError("is not XLIFF 1.2 or 2.0")
    if version >= "2" and not root.get("trgLang"):
        raise UserError("has no trgLang, which XLIFF 2.0 requires; add the target language to <xliff>")
    attributes = ("srcLang", "trgLang") if version >= "2" else ("source-language", "target-language")
    for node in root.iter("{*}xliff", "{*}file"):
        for attribute, language, way in zip(attributes, languages, ("from", "into"), strict=True):
            _check_language(node.get(attribute, ""), language, way)
        if version < "2" and local_name(node) == "file" and not node.get("target-language"):
            node.set("target-language", languages[1].replace("_", "-"))
    places = Places(file.write)
    units = root.iter("{*}segment" if version >= "2" else "{*}trans-unit")
    missing = chain.from_iterable(_untranslated(unit) for unit in units if not _is_locked(unit))
    for _, (unit, source, targets) in without_forms(missing):
        places.add(_read_inline(source), partial(_put_xliff, unit, source, targets))
    return places


def _is_locked(unit: Element) -> bool:
    """Whether a unit is approved, or excluded by ``translate="no"`` of itself or its nearest ancestor that has one."""
    said = [node.get("translate") for node in (unit, *unit.iterancestors()) if node.get("translate")]
    return said[:1] == ["no"] or unit.get("approved") == "yes"


def _words(element: Element | None) -> list[str]:
    """The words of an element; empty if there is no such element."""
    return [] if element is None else "".join(element.itertext()).split()


def _untranslated(unit: Element) -> Iterator[tuple[str, tuple[Element, Element, dict[str, Element]]]]:
    """What must be translated in a unit of XLIFF: texts, and the source, or segment of it, that each is of.

    A target that is a copy of the source is not a translation if its state says so. The third element: the segments of
    the target by their ``mid``; ``_put_xliff`` makes them if there are none.
    """
    whole, source = unit.find("{*}target"), unit.find("{*}source")
    is_new = whole is not None and whole.get("state", unit.get("state")) in ("new", "needs-translation", "initial")

    def is_translated(source: Element, target: Element) -> bool:
        return bool(_words(target)) and not (is_new and _words(target) == _words(source))

    translated = is_translated(source, whole)
    targets = _segments(whole) if translated else {}
    for each in [*_segments(unit.find("{*}seg-source")).values()] or unit.findall("{*}source"):
        mid = each.get("mid")
        if not translated or (mid in targets and not is_translated(each, targets[mid])):
            yield "".join(each.itertext()), (unit, each, targets)


def _segments(element: Element | None) -> dict[str, Element]:
    """The segments of a source or target of XLIFF 1.2 by their ``mid``, which is the same in both."""
    found = () if element is None else element.iterfind(".//{*}mrk[@mtype='seg'][@mid]")
    return {mrk.get("mid"): mrk for mrk in found}


def _put_xliff(unit: Element, source: Element, targets: dict[str, Element], translated: Segment) -> None:
    """Write the translation of the source of a unit or of a segment of it."""
    whole, segmented = unit.find("{*}target"), unit.find("{*}seg-source")
    if whole is None:
        before = unit.find("{*}source") if segmented is None else segmented
        whole = etree.Element(before.tag.removesuffix(local_name(before)) + "target")
        before.addnext(whole)
    if segmented is not None and not targets:
        whole.text, whole[:] = segmented.text, copy.deepcopy(segmented)[:]
        targets |= _segments(whole)
    write_markup(targets.get(source.get("mid"), whole), translated)
    if local_name(unit) == "segment":
        unit.set("state", "initial" if translated.doubtful else "translated")
    else:
        is_next = bool(targets) and whole.get("state-qualifier") == "mt-suggestion"  # after another segment
        doubtful = translated.doubtful or (is_next and whole.get("state") == "needs-translation")
        whole.set("state", "needs-translation" if doubtful else "needs-review-translation")
        whole.set("state-qualifier", "mt-suggestion")


def _read_inline(source: Element) -> Segment:
    """The content of a source element of XLIFF or TMX; its markup is a copy."""
    spaces = next((node.get(XML_SPACE) for node in (source, *source.iterancestors()) if node.get(XML_SPACE)), "default")
    return read_markup(copy.deepcopy(source), _role, collapse=spaces != "preserve")


def _role(element: etree._Element) -> Role:
    """The role of an inline element; the standards call a line break lb."""
    is_break = any(element.get(name) in ("lb", "xlf:lb") for name in ("ctype", "subType", "type"))
    return _INLINE.get(local_name(element), "layout" if is_break else "kept")


def read_tmx(data: bytes, languages: tuple[str, str]) -> Places:
    """Read a translation memory: each unit with a text in the source language gets one in the target language.

    languages: source and target; ``text_in`` has the rule. A source text may be from a region other than the model's.
    Raises UserError if the file is not TMX, or if a unit's source is in another language.
    """
    file, (source_language, language) = Xml(data), languages
    root = file.tree.getroot()
    header = root.find("{*}header")
    if local_name(root) != "tmx" or header is None:
        raise UserError("is not TMX")
    places = Places(file.write)
    for unit in root.iter("{*}tu"):
        of = unit.get("srclang", header.get("srclang", "")).lower()
        by_source = sorted(unit.findall("{*}tuv"), key=lambda text: _language(text) != of)  # the unit's source first
        texts = {_language(text): text for text in by_source}
        source, there = text_in(texts, source_language), text_in(texts, language)
        if source is None:  # of another region
            source = text_in(texts, base_language(source_language))
        if _words(there):
            continue
        if source is None and of != "*all*":
            _check_language(of, source_language, "from")
        elif source is not None and (segment := source.find("{*}seg")) is not None:
            places.add(_read_inline(segment), partial(_put_tmx, segment, there, language))
    return places


def _language(text: Element) -> str:
    """The language of a text of TMX; older versions use the attribute ``lang``."""
    return str(text.get(XML_LANG, text.get("lang", ""))).lower()


def _put_tmx(source: Element, target: Element | None, language: str, translated: Segment) -> None:
    """Write the translation of the segment ``source`` into ``target``, by default a new text after the others."""
    if target is None:
        text = source.getparent()
        target = etree.SubElement(text.getparent(), text.tag, {XML_LANG: language, "creationtool": "nmtkit"})
    segment = target.find("{*}seg")
    write_markup(etree.SubElement(target, source.tag) if segment is None else segment, translated)
