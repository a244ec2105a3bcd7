import re
import time
from dataclasses import replace
from pathlib import Path

import polib
import pytest

from nmtkit.documents.formats import read_document
from nmtkit.documents.segment import Segment
from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from tests.documents.files import FILES, PO, TMX, XLIFF, XLIFF2, capitals, read


def texts(name: str, data: bytes | str) -> list[str]:
    return [segment.text for segment in read(name, data.encode() if isinstance(data, str) else data).segments]


def test_a_po_file_keeps_its_translations_and_ours_are_fuzzy() -> None:
    before, after = polib.pofile(PO), polib.pofile(capitals("a.po").decode())
    assert [(entry.msgid, entry.msgctxt, entry.comment) for entry in before] == [
        (entry.msgid, entry.msgctxt, entry.comment) for entry in after]  # fmt: skip
    found = {entry.msgid: (entry.msgstr, entry.fuzzy) for entry in after if not entry.msgid_plural}
    assert found == {
        "cannot open it.\ntry <b>again</b>.\n": ("CANNOT OPEN IT.\nTRY <b>AGAIN</b>.\n", True),
        "done": ("fait", False), "old": ("ancien", True), "open": ("OPEN", True), "gone": ("", False),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "text", "translation"),
    [
        ("&file", "file", "&FILE"),
        ("... E&xit", "... Exit", "... &EXIT"),
        ("Save _As", "Save As", "_SAVE AS"),
        ("AT&T", "AT&T", "AT&T"),
        ("dogs && &cats", "dogs && &cats", "DOGS && &CATS"),
        ("a & b", "a & b", "A & B"),
        ("caf&eacute; of user_id", "caf&eacute; of user_id", "CAF&EACUTE; OF USER_ID"),
    ],
)
def test_the_mark_of_an_accelerator_is_before_the_first_letter_of_a_translation(
    source: str, text: str, translation: str
) -> None:
    file = f'msgid "{source}"\nmsgstr ""\n'.encode()
    assert texts("a.po", file) == [text]
    [entry] = polib.pofile(capitals("a.po", file).decode())
    assert entry.msgstr == translation


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "entry",
    [
        '<#, fuzzy\n>msgid "a"\nmsgstr "<A>"',
        '# c\n#\n\n#: x.c:1\n#: y.c:2\n<#, fuzzy\n>msgid   "a"\nmsgstr "<A>"\n',
        '#, c-format<, fuzzy>\n#| msgid "b"\nmsgid "a"\n\nmsgstr "<A>"\n\n\n# end\n',
        '#, fuzzy\n  msgctxt "b"\n  msgid "a"\nmsgstr "<A>"\n',
        'msgid ""\nmsgstr "X: y\\n"\n#~ msgid "b"\n#~ msgstr ""\n\n<#, fuzzy\n>msgid "a"\nmsgstr "<A>"\n',
        '<#, fuzzy\n>msgid "a"\nmsgid_plural "b"\nmsgstr[0] "<A>"\nmsgstr[1] "<B>"\n',
    ],
)
def test_of_a_po_file_nothing_changes_but_translations_and_the_mark_fuzzy(entry: str, end: str) -> None:
    before, after = re.sub("<[^>]*>", "", entry), re.sub("[<>]", "", entry)
    assert capitals("a.po", before.replace("\n", end).encode()) == after.replace("\n", end).encode()


def test_a_po_file_declares_the_region_after_an_underscore() -> None:
    document = read("a.po", b'msgid ""\nmsgstr "Language: \\n"\n\nmsgid "a"\nmsgstr ""\n', "pt-BR")
    assert polib.pofile(document.write(document.segments).decode()).metadata["Language"] == "pt_BR"


def test_lines_of_a_po_file_are_not_wrapped_again() -> None:
    before = f'#\n#: {"x.c:1 " * 40}\nmsgid "{"a " * 99}"\nmsgstr ""\n"b "\n"c"\n\n#. end\n'
    written = capitals("a.po", (before + 'msgid "a"\nmsgstr ""\n').encode()).decode()
    assert written == before + '#, fuzzy\nmsgid "a"\nmsgstr "A"\n'


def test_plural_forms_are_of_the_singular_or_the_plural_as_the_formula_says() -> None:
    [entry] = [entry for entry in polib.pofile(capitals("a.po").decode()) if entry.msgid_plural]
    assert entry.msgstr_plural == {0: "MANY FILES", 1: "ONE FILE", 2: "beaucoup de fichiers"}
    one_form = PO.replace("nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);", "nplurals=1; plural=0;")
    assert "one file" not in texts("a.po", one_form)
    for broken in ("nplurals=2; plural=(n", "nplurals=2; plural=n/0;", "nplurals=1" + "0" * 4_999, "nothing"):
        formula = PO.replace("nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);", broken)
        assert texts("a.po", formula)[-2:] == ["one file", "many files"]


@pytest.mark.parametrize(
    ("declared", "translation", "written"),
    [
        ("", "b", "fr"),
        ("fr_CA", "b", "fr_CA"),
        ("fr@old", "b", "fr@old"),
        ("en", "", "fr"),
        ("de_AT", "", "fr"),
    ],
)
@pytest.mark.parametrize("before", ['msgstr ""\n"', 'msgstr "', 'msgstr "X-Language: y\\n'])
def test_a_po_file_declares_the_language_of_its_translations(
    before: str, declared: str, translation: str, written: str
) -> None:
    file = f'# Language: x\nmsgid ""\n{before}Language: %s\\nX: y\\n"\n\nmsgid "a"\nmsgstr "{translation}"\n'
    assert capitals("a.po", (file % declared).encode()).decode().startswith((file % written).partition("\n\n")[0])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a.po", 'msgid ""\nmsgstr "Language: %s\\n"\n\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n'),
        ("a.xlf", XLIFF.replace("source-language", 'target-language="%s" source-language')),
        ("a.xliff", XLIFF2.replace('trgLang="fr"', 'trgLang="%s"')),
    ],
)
def test_a_file_for_another_language_than_that_of_the_model_is_refused(name: str, file: str) -> None:
    assert texts(name, file % "fr_CA")
    complaint = f"{name}: is for translations into de-AT, but the model translates into fr; choose another model, or "
    with pytest.raises(UserError, match=f"^{complaint}"):
        read(name, (file % "de-AT").encode())


@pytest.mark.parametrize(("name", "declares"), [("a.xlf", "source-language"), ("a.xliff", "srcLang")])
def test_xliff_of_another_source_language_than_that_of_the_model_is_refused(name: str, declares: str) -> None:
    file = FILES[name].decode().replace(f'{declares}="en"', f'{declares}="%s"')
    assert texts(name, file % "en-GB")
    complaint = f"{name}: is for translations from cs, but the model translates from en; choose another model, or "
    with pytest.raises(UserError, match=f"^{complaint}"):
        read(name, (file % "cs").encode())


def test_a_po_file_in_another_encoding_becomes_utf8() -> None:
    old = PO.replace("UTF-8", "ISO-8859-1").replace("done", "terminé").encode("latin-1")
    written = capitals("a.po", old).decode("utf-8")
    assert "charset=UTF-8" in written
    assert "terminé" in written


def test_files_that_are_no_po_are_refused() -> None:
    with pytest.raises(UserError, match=r"^a\.po: is empty$"):
        read("a.po", b"")
    with pytest.raises(UserError, match=r"^a\.po: is not a valid po file: .*line 1"):
        read("a.po", b"msgstring x")
    for unknown in ("utf-99", "undefined"):
        with pytest.raises(UserError, match=rf"^a\.po: declares the unknown encoding '{unknown}'$"):
            read("a.po", PO.replace("UTF-8", unknown).encode())


def test_the_name_of_a_file_is_not_read_as_a_po_file(tmp_path: object) -> None:
    with pytest.raises(UserError, match="is not a valid po file"):
        read("a.po", str(tmp_path).encode())


def test_a_unit_of_xliff_gets_a_target_with_its_state() -> None:
    written = capitals("a.xlf").decode()
    state = 'state="needs-review-translation" state-qualifier="mt-suggestion"'
    assert f'milk.</source><target {state}>THE <g id="1">GIRL</g> DRINKS<x id="2"/> MILK.</target>' in written
    assert f'<target {state}>A <bpt id="1">b</bpt>PAIR<ept id="1">b</ept></target>' in written
    assert written.count("<target") == 3
    before = XLIFF.replace('datatype=""', 'datatype="" target-language="fr"').splitlines()
    assert [line for line in written.splitlines() if "mt-suggestion" not in line] == [
        line for line in before if "<g " not in line and "<bpt " not in line]  # fmt: skip


def test_a_segment_of_xliff_2_gets_a_target_and_its_state() -> None:
    written = capitals("a.xliff").decode()
    assert '<segment state="translated"><source>the <pc id="1">girl</pc> drinks<ph id="2"/> milk.</source>' in written
    assert '</source><target>THE <pc id="1">GIRL</pc> DRINKS<ph id="2"/> MILK.</target>' in written


SEGMENTED = """<xliff version="1.2"><file><body><trans-unit id="1"><source>a dog. %s 12</source>\
<seg-source><g id="1"><mrk mtype="seg" mid="0">a dog.</mrk> <mrk mtype="seg" mid="1">%s</mrk></g>\
 <mrk mtype="seg" mid="2">12</mrk></seg-source>%s</trans-unit></body></file></xliff>"""


@pytest.mark.parametrize("target", ["", "<target/>", '<target state="new">a dog. a cat. 12</target>'])
def test_each_segment_of_a_segmented_source_gets_a_target_with_its_number(target: str) -> None:
    file = SEGMENTED % ("a cat.", "a cat.", target)
    assert texts("a.xlf", file) == ["a dog.", "a cat."]
    segments = file.partition("<seg-source>")[2].partition("</seg-source>")[0]
    written = capitals("a.xlf", file.encode()).decode()
    assert f">{segments.replace('a dog', 'A DOG').replace('a cat', 'A CAT')}</target>" in written
    assert texts("a.xlf", written) == []


@pytest.mark.parametrize(("state", "second"), [("", ""), ("", " "), ("new", "a cat."), ("needs-translation", "")])
def test_translated_segments_of_a_target_stay_and_others_are_filled(state: str, second: str) -> None:
    target = '<target%s><mrk mtype="seg" mid="0">un chien.</mrk> <mrk mtype="seg" mid="1">%s</mrk></target>'
    file = SEGMENTED % ("a cat.", "a cat.", target % (f' state="{state}"' if state else "", second))
    assert texts("a.xlf", file) == ["a cat."]
    ours = ' state="needs-review-translation" state-qualifier="mt-suggestion"'
    assert target % (ours, "A CAT.") in capitals("a.xlf", file.encode()).decode()


def test_a_target_with_other_segments_than_its_source_stays() -> None:
    target = '<target><mrk mtype="seg" mid="0">un chien. un chat.</mrk></target>'
    assert texts("a.xlf", SEGMENTED % ("a cat.", "a cat.", target)) == []
    assert texts("a.xlf", SEGMENTED % ("a cat.", "a cat.", "<target>un chien. un chat.</target>")) == []


def test_a_target_with_one_doubtful_segment_is_doubtful() -> None:
    document = read("a.xlf", (SEGMENTED % ("a cat.", "a cat.", "")).encode())
    dog, cat = document.segments
    written = document.write([replace(dog, doubtful=True), cat]).decode()
    assert '<target state="needs-translation" state-qualifier="mt-suggestion">' in written


@pytest.mark.parametrize(
    ("name", "before", "after", "is_read"),
    [
        ("a.xlf", "<source>done</source>", '<target state="new">done</target>', True),
        ("a.xlf", "<source>done</source>", '<target state="needs-translation"> done</target>', True),
        ("a.xlf", "<source>done</source>", '<target state="new">fait</target>', False),
        ("a.xlf", "<source>done</source>", "<target>done</target>", False),
        ("a.xlf", "<source>done</source>", '<target state="final">done</target>', False),
        ("a.xliff", '<segment state="initial"><source>done</source>', "<target>done</target>", True),
        ("a.xliff", '<segment state="translated"><source>done</source>', "<target>done</target>", False),
        ("a.xliff", "<segment><source>done</source>", "<target>done</target>", False),
    ],
)
def test_a_copy_of_the_source_in_xliff_is_translated_if_its_state_says_so(
    name: str, before: str, after: str, is_read: bool
) -> None:
    start, end = ('<trans-unit id="9">', "</trans-unit>") if name == "a.xlf" else ('<unit id="9">', "</segment></unit>")
    file = FILES[name].decode().replace(end, f"{end}{start}{before}{after}{end}", 1)
    assert ("done" in texts(name, file)) == is_read


@pytest.mark.parametrize(
    ("name", "source", "kept"),
    [
        ("a.xlf", 'a <mrk mtype="protected">b <g id="1">c</g></mrk> <mrk mtype="seg">d</mrk>', ["b ", "c"]),
        ("a.xliff", 'a <mrk id="1" translate="no">b <mrk id="2" translate="yes">c</mrk> d</mrk>', ["b ", " d"]),
    ],
)
def test_text_in_xliff_that_is_not_to_be_translated_is_copied(name: str, source: str, kept: list[str]) -> None:
    first = FILES[name].decode().partition("<source>")[2].partition("</source>")[0]
    [segment, *_] = read(name, FILES[name].decode().replace(first, source).encode()).segments
    assert [segment.text[start:end] for start, end in segment.keep] == kept
    assert len(segment.marks) == source.count("</")


@pytest.mark.parametrize(
    "source",
    [
        '<g id="1">a dog<x id="2"/><x id="3"/></g> runs',
        '<g id="1"><g id="2">a dog<x id="3"/></g><x id="4"/></g><x id="5"/>',
        '<g id="1"><x id="2"/>a<x id="3"/> dog</g><x id="4"/> runs',
    ],
)
def test_an_element_without_text_stays_in_the_element_that_it_is_in(source: str) -> None:
    file = XLIFF.replace("done", source).replace('<target state="final">fait</target>', "")
    written = re.sub("(?<=>)[^<]+", lambda text: text[0].upper(), source)
    assert f">{written}</target>" in capitals("a.xlf", file.encode()).decode()


@pytest.mark.parametrize(
    ("outer", "inner", "found"),
    [
        ("no", "", []),
        ("no", ' translate="yes"', ["a dog"]),
        ("yes", ' translate="no"', []),
        ("yes", ' approved="no"', ["a dog"]),
        ("yes", ' approved="yes"', []),
    ],
)
def test_a_unit_of_xliff_is_translated_as_it_or_else_what_is_around_it_says_unless_it_is_approved(
    outer: str, inner: str, found: list[str]
) -> None:
    unit = f'<group translate="{outer}"><trans-unit id="9"{inner}><source>a dog</source></trans-unit></group>'
    assert texts("a.xlf", XLIFF.replace("<body>", f"<body>{unit}"))[:-2] == found


def test_line_breaks_in_xliff_are_spaces_unless_they_are_to_be_preserved() -> None:
    broken = XLIFF.replace("drinks<x", "drinks\n   a<x")
    assert texts("a.xlf", broken)[0] == "the girl drinks a milk."
    kept = broken.replace("<file ", '<file xml:space="preserve" ')
    assert texts("a.xlf", kept)[0] == "the girl drinks\n   a milk."


def test_a_file_of_xliff_without_a_target_language_gets_that_of_the_translation() -> None:
    declared = ' target-language="{}"'.format
    for language, before, after in (("pt_BR", "", declared("pt-BR")), ("pt", declared("pt-PT"), declared("pt-PT"))):
        document = read("a.xlf", XLIFF.replace(' datatype=""', before).encode(), language)
        written = document.write(document.segments).decode()
        assert f'source-language="en"{after}>' in written
        assert written.count("target-language") == 1


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2"])
def test_every_version_of_xliff_is_read(version: str) -> None:
    file = XLIFF if version < "2" else XLIFF2
    other = re.sub('(xmlns="[^"]*" version=")[^"]*', rf"\g<1>{version}", file)
    assert texts("a.xlf", other) == texts("a.xlf", file)


def test_files_that_are_no_xliff_are_refused() -> None:
    with pytest.raises(UserError, match=r"^a\.xlf: is not XLIFF 1\.2 or 2\.0$"):
        read("a.xlf", b"<html/>")
    with pytest.raises(UserError, match=r"^a\.xlf: has no trgLang, which XLIFF 2\.0 requires; add the target language"):
        read("a.xlf", XLIFF2.replace(' trgLang="fr"', "").encode())
    with pytest.raises(UserError, match=r"^a\.xlf: is not well-formed XML"):
        read("a.xlf", XLIFF.replace("</g>", "").encode())


def test_files_that_are_too_large_for_a_tree_are_refused() -> None:
    with pytest.raises(UserError, match=r"^a\.xlf: has 51 MiB; the limit is 50 MiB$"):
        read("a.xlf", b" " * (51 << 20))


def test_a_memory_gets_the_texts_that_it_lacks_in_the_language() -> None:
    added = '<tuv xml:lang="fr" creationtool="nmtkit"><seg>THE <bpt i="1">b</bpt>GIRL<ept i="1">b</ept>.</seg></tuv>'
    end = '<ept i="1">b</ept>.</seg></tuv>'
    for file in (TMX, TMX.replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" ')):
        assert capitals("a.tmx", file.encode()).decode() == file.replace(f"girl{end}", f"girl{end}{added}")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_memory_in_utf_16_gets_texts_in_utf_16(encoding: str) -> None:
    written = capitals("a.tmx", ("\ufeff" + TMX.replace("UTF-8", "UTF-16")).encode(encoding))
    body = slice(TMX.index("<!DOCTYPE"), -1)
    assert written.decode("utf-16").startswith("<?xml version=")
    assert written.decode("utf-16").endswith(capitals("a.tmx").decode()[body])


def test_of_the_texts_of_a_memory_that_in_the_language_of_the_model_is_translated() -> None:
    german, english, british = (f'<tuv xml:lang="{code}"><seg>{code}</seg></tuv>' for code in ("de", "en-US", "en-GB"))
    for declared, unit, text in (
        ("en", german + english, "en-US"),
        ("en-GB", english + british, "en-GB"),
        ("*all*", german + english, "en-US"),
        ("de", german + english, "en-US"),
    ):
        file = TMX.replace('srclang="en"', f'srclang="{declared}"').replace("<tu>", f"<tu>{unit}</tu><tu>", 1)
        assert texts("a.tmx", file)[0] == text


def test_documents_and_parallel_text_choose_the_same_text_of_a_memory(tmp_path: Path) -> None:
    """The one in the language itself, or else one without region or of any; a source may be of another region."""
    body = "".join(f'<tuv xml:lang="{code}"><seg>{code}</seg></tuv>' for code in ("pt-PT", "pt-BR", "zh-CN", "es"))
    file = f'<tmx version="1.4"><header srclang="*all*"/><body><tu>{body}</tu></body></tmx>'
    (tmp_path / "a.tmx").write_text(file)

    def translated(source: str, target: str) -> list[str]:
        return [segment.text for segment in read_document("a.tmx", file.encode(), [], (source, target)).segments]

    for language, chosen in (("pt-BR", "pt-BR"), ("pt_PT", "pt-PT"), ("pt", "pt-PT"), ("es-MX", "es")):
        assert translated(language, "gn") == list(read_lines(f"{tmp_path}/a.tmx:{language}")) == [chosen]
        assert not translated("zh", language)  # it has this translation
    assert translated("es-ES", "pt-AO") == translated("es-ES", "zh-TW") == ["es"]
    assert translated("zh-TW", "gn") == ["zh-CN"]


def test_a_memory_from_another_language_is_refused_if_it_lacks_a_translation() -> None:
    unit = '<tu srclang="de"><tuv xml:lang="de"><seg>ja</seg></tuv>{}</tu>'
    translated = unit.format('<tuv xml:lang="fr"><seg>oui</seg></tuv>')
    assert len(texts("a.tmx", TMX.replace("</body>", f"{translated}</body>"))) == 1
    with pytest.raises(UserError, match=r"^a\.tmx: is for translations from de, but the model translates from en;"):
        read("a.tmx", TMX.replace("</body>", f"{unit.format('')}</body>").encode())


def test_a_memory_without_a_header_is_refused() -> None:
    with pytest.raises(UserError, match=r"^a\.tmx: is not TMX$"):
        read("a.tmx", b"<tmx/>")


def test_properties_keep_their_encoding() -> None:
    assert capitals("a.properties", b"a=caf\\u00e9 {0}\n") == b"a=CAF\\u00c9 {0}\n"
    assert capitals("a.properties", "a=café\n".encode()) == "a=CAFÉ\n".encode()
    assert capitals("a.properties", b"# \xe9\na=caf\xe9\nb=\n") == b"# \xe9\na=CAF\\u00c9\nb=\n"
    with pytest.raises(UserError, match=r"^a\.properties: is not a valid properties file: "):
        read("a.properties", b"a=\\u00zz\n")
    with pytest.raises(UserError, match=r"^a\.properties: contains zero bytes, so it is not text$"):
        read("a.properties", "a=b\n".encode("utf-16-le"))
    with pytest.raises(UserError, match=r"^a\.properties: byte 0x89 is not utf-8"):
        read("a.properties", b"\x89PNG\r\n\0a=b\n")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_properties_keep_their_byte_order_mark_before_a_comment_or_a_key(encoding: str) -> None:
    assert capitals("a.properties", "# c\na = b é\n".encode(encoding)) == "# c\na=B É\n".encode(encoding)
    assert capitals("a.properties", "a = b\n".encode(encoding)) == "a=B\n".encode(encoding)


def test_apostrophes_of_properties_with_arguments_are_written_twice() -> None:
    text = b"a=it''s {0}\\n''b\nb=the {0}\nc=don't {0}\nd=don't\n"
    file = read("a.properties", text)
    assert [segment.text for segment in file.segments] == ["it's {0}", "'b", "the {0}", "don't {0}", "don't"]
    assert file.write(file.segments) == text
    assert file.write([Segment("l'a {0}")] * 5).splitlines()[1:] == [b"b=l''a {0}", b"c=l'a {0}", b"d=l'a {0}"]


def test_the_beginnings_of_comments_in_the_address_of_a_dtd_take_linear_time() -> None:
    for beginning in ("<!--", "<?", "<![CDATA["):
        page = XLIFF.replace("<xliff ", f'<!DOCTYPE xliff SYSTEM "{beginning * 1_000}">\n<xliff ', 1)
        page = page.replace("</xliff>", "<x> </x>" * 40_000 + "</xliff>")
        began = time.process_time()
        assert read("a.xliff", page.encode()).segments[0].text == "the girl drinks milk."
        assert time.process_time() - began < 1


def test_a_property_on_many_lines_is_read_in_linear_time() -> None:
    began = time.process_time()
    assert read("a.properties", b"a=" + b"b \\\n" * 4_000).segments[0].text == " ".join("b" * 4_000)
    assert time.process_time() - began < 1


def test_only_the_words_of_properties_change_also_if_a_key_is_there_twice() -> None:
    data = b"# one \\\n  ! two\n\n a : \\\n   b c\\\\\na=c\nd=7 \\\n\\=8\n\\\n\ne=f\n"
    changed = data.replace(b" a : \\\n   b c", b"a=B C").replace(b"=c", b"=C").replace(b"=f", b"=F")
    assert capitals("a.properties", data) == changed


def test_properties_keep_their_line_ends() -> None:
    assert capitals("a.properties", b"# c\r\na = b \\\r\n  c\r\nd=\r\n") == b"# c\r\na=B C\r\nd=\r\n"


def test_of_json_all_but_its_strings_stays_and_so_do_keys() -> None:
    changed = FILES["a.json"].decode()
    for text in ("some", "text", '"one"', "two", "lines", "word"):
        changed = changed.replace(text, text.upper())
    assert capitals("a.json").decode() == changed
    assert texts("a.json", b'{"a": "\\ud800 x", "b": 1}') == []
    assert capitals("a.json", '{"é": "é", "b": "\\u00e9 1", "c": "\\u00e9"}'.encode()) == (
        '{"é": "É", "b": "É 1", "c": "É"}'.encode()
    )
    with pytest.raises(UserError, match=r"^a\.json: is not valid JSON: .*line 1"):
        read("a.json", b'{"a": }')
    with pytest.raises(UserError, match=r"^a\.json: is not valid JSON: "):
        read("a.json", b"[" * 100_000 + b"]" * 100_000)


def test_paths_colours_locales_and_other_identifiers_are_no_text() -> None:
    codes = r"#fff en-US pt_BR img/logo.png C:\\a user_name onClick app.title h264 2024-01-01T10:00:00Z".split()
    words = "Yes e-mail Wi-Fi CANCEL Yes/No he/she 1st e.g. Loading... Title: 我有3只猫 <b>Yes</b>".split()
    listed = ", ".join(f'"{text}"' for text in codes + words)
    assert texts("a.json", f"[{listed}]") == [*words[:-1], "Yes"]


@pytest.mark.parametrize("code", ['<x id="LINE_BREAK" ctype="lb"/>', '<ph id="1" ctype="lb">&lt;br/&gt;</ph>'])
def test_a_line_break_in_xliff_separates_words(code: str) -> None:
    data = XLIFF.replace('drinks<x id="2"/> milk', f"drinks{code}milk")
    assert texts("a.xliff", data)[0] == "the girl drinks milk."
    assert f'<g id="1">GIRL</g> DRINKS{code}MILK.</target>' in capitals("a.xliff", data.encode()).decode()


def test_blocks_of_html_in_a_string_are_translated_one_by_one() -> None:
    string = '["<p>a <b>dog</b></p><p>one cat</p><ul><li>two</li> <li>or <i>three</i></li></ul>"]'
    assert texts("a.json", string) == ["a dog", "one cat", "two", "or three"]
    assert capitals("a.json", string.encode()) == (
        b'["<p>A <b>DOG</b></p><p>ONE CAT</p><ul><li>TWO</li> <li>OR <i>THREE</i></li></ul>"]'
    )
    assert texts("a.json", '["the <p> is a tag"]') == ["the <p> is a tag"]


def test_a_line_without_text_after_a_translated_one_stays() -> None:
    assert capitals("a.json", b'["a dog\\n<br>\\nimg/x.png"]') == b'["A DOG\\n<br>\\nimg/x.png"]'


@pytest.mark.parametrize(
    "message",
    ["{n, plural, =0{no dogs} other{<b>{n}</b> dogs}} run", "a { a.b ,select,b{c}}", "{0,choice,0#none|1<{0} dogs}"],
)
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a.json", '["MESSAGE", {"a": "MESSAGE"}, "{n, number} dogs, plural, TEXT"]'),
        ("a.properties", "a=MESSAGE\nb=MESSAGE\nc={n, number} dogs, plural, TEXT\n"),
        ("a.csv", 'text\n"MESSAGE"\n"MESSAGE"\n"{n, number} dogs, plural, TEXT"\n'),
        (
            "a.po",
            'msgid "{n, number} dogs, plural, TEXT"\nmsgstr ""\n\n'
            'msgid "MESSAGE"\nmsgid_plural "MESSAGE"\nmsgstr[0] ""\nmsgstr[1] ""\n',
        ),
    ],
)
def test_messages_with_plural_or_select_forms_stay_untranslated_with_a_warning(
    name: str, file: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = file.replace("MESSAGE", message).encode()
    assert texts(name, data) == ["{n, number} dogs, plural, TEXT"]
    assert caplog.messages == ["2 ICU messages with plural or select forms left untranslated"]
    assert message in capitals(name, data).decode()


def test_a_message_in_xliff_stays_untranslated_with_its_markup(caplog: pytest.LogCaptureFixture) -> None:
    message = XLIFF.replace("the <g", "{VAR, plural, other {the <x/>}} <g")
    assert texts("a.xlf", message) == texts("a.xlf", XLIFF)[1:]
    assert caplog.messages == ["1 ICU message with plural or select forms left untranslated"]


def test_translations_of_which_the_model_is_not_sure_are_told_apart() -> None:
    written = dict[str, str]()
    for name in ("a.po", "a.xlf", "a.xliff"):
        document = read(name, FILES[name])
        written[name] = document.write([replace(each, doubtful=True) for each in document.segments]).decode()
    ours = [entry for entry in polib.pofile(written["a.po"]) if entry.fuzzy and entry.msgid != "old"]
    assert ours
    assert all(entry.tcomment.count("nmtkit: a doubtful translation") == 1 for entry in ours)
    assert "doubtful" not in capitals("a.po").decode()
    assert '<target state="needs-translation" state-qualifier="mt-suggestion">' in written["a.xlf"]
    assert '<segment state="initial"><source>the <pc id="1">girl' in written["a.xliff"]
