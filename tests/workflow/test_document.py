"""``nmtkit translate FILE`` and ``nmtkit.translate_document``: documents whole or not at all, and --keep for lines."""

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import nmtkit as package
from nmtkit.errors import UserError
from nmtkit.workflow import translate
from tests.echo import load_echo, write_folder

PAGE = '<p>a <b>b</b> {name}<img src="x"></p><pre>c</pre>'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a page and a model that says its source again, and one that cannot look."""
    monkeypatch.setattr("nmtkit.translation.loading.load_model", load_echo)
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "run")
    write_folder(tmp_path / "blind")
    (tmp_path / "page.html").write_text(PAGE)
    return tmp_path


@pytest.mark.parametrize("arguments", [("page.html",), ("--input", "page.html")])
def test_a_file_with_the_name_of_a_document_is_translated_as_one(
    folder: Path, nmtkit: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    nmtkit("translate", *arguments, "-o", "out.html")
    assert (folder / "out.html").read_text() == PAGE


def test_characters_that_the_model_never_saw_are_warned_of(folder: Path, nmtkit: Callable[..., Any]) -> None:
    (folder / "page.html").write_text("<p>a \U0001f600</p><p>b</p>")
    outcome = nmtkit("translate", "page.html", "-o", "out.html")
    assert outcome.err == "1 line with characters that run never saw: \U0001f600\n"


def test_a_document_may_be_written_to_standard_output(nmtkit: Callable[..., Any]) -> None:
    assert nmtkit("translate", "page.html").out == PAGE


def test_python_translates_documents_too(folder: Path) -> None:
    package.translate_document("page.html", folder / "out.html")
    assert (folder / "out.html").read_text() == PAGE


def test_a_document_takes_every_option_of_lines(folder: Path) -> None:
    lines, document = (signature(each).parameters for each in (package.translate, package.translate_document))
    assert lines.keys() - document.keys() == {"lines", "ready"}
    assert document.keys() - lines.keys() == {"input", "output"}
    package.translate_document("page.html", "out.html", model=["run", "run"], combine="logprob", weights=[1, 2], jobs=1)
    assert (folder / "out.html").read_text() == PAGE
    with pytest.raises(UserError, match="`precision` exact: not one of auto, float32, bfloat16, int8"):
        package.translate_document("page.html", "out.html", precision="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("page.html", "--n-best", "2"), "--n-best: is for lines of text, and page.html is a document; leave it out"),
        (("page.html", "--sample"), "--sample: is for lines of text, and page.html is a document; leave it out"),
        (("page.html", "--json"), "--json: is for lines of text, and page.html is a document; leave it out"),
        (("page.html", "-i", "other"), "--input other: page.html is given as the file to translate"),
        (("missing.html",), "missing.html: cannot be read: No such file"),
        (("broken.html",), "broken.html: is not well-formed XML: "),
        (("page.pdf",), "page.pdf: cannot be translated: a PDF stores positions of letters"),
        (("page.html", "-m", "blind"), "this model cannot align words: it has no attention"),
        (("--keep", "a", "--sample", "lines.txt"), "--keep and --sample cannot be combined"),
        (("--keep", "a", "-m", "blind", "lines.txt"), "--keep: this model cannot align words: it has no attention"),
        (("page.html", "--keep", "("), "--keep: '(' is not a regular expression: "),
        (("page.html", "--columns", "2"), "page.html: --columns is for tables (csv, tsv)"),
        (("--columns", "2", "lines.txt"), "--columns: is for documents (csv, tsv), not for lines"),
        (("--keep", "a", "--tokenized", "lines.txt"), "--keep and --tokenized cannot be combined"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    folder: Path, nmtkit: Callable[..., Any], arguments: tuple[str, ...], complaint: str
) -> None:
    (folder / "broken.html").write_text("<?xml version='1.0'?><p>")
    (folder / "page.pdf").write_text("")
    (folder / "lines.txt").write_text("a\n")
    result = nmtkit("translate", *arguments, "-o", "out")
    assert result.status == 1
    assert result.err.splitlines()[-1].startswith(f"nmtkit: error: {complaint}")
    assert not (folder / "out").exists()


def test_attention_is_computed_only_where_markup_or_placeholders_need_it_and_quality_always(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translate_windows(lines: list[str], request: package.Request, options: Any) -> Any:
        asked.append((request.attention, request.quality))
        return translate.translate_windows(lines, request, options)

    asked: list[tuple[bool, bool]] = []
    monkeypatch.setattr("nmtkit.workflow.document.translate_windows", translate_windows)
    (folder / "plain.html").write_text("<p>a b</p>")
    for name, model in (("page.html", "run"), ("plain.html", "run"), ("plain.html", "blind")):
        package.translate_document(name, "out.html", model=model)
    assert asked == [(True, True), (False, True), (False, True)]


def test_what_matches_a_pattern_is_kept_in_documents_too(folder: Path) -> None:
    (folder / "page.html").write_text("<p>a #zebra b</p>")
    package.translate_document("page.html", "out.html", keep=[r"#\w+"])
    assert (folder / "out.html").read_text() == "<p>a #zebra b</p>"
    package.translate_document("page.html", "other.html")
    assert "zebra" not in (folder / "other.html").read_text()


def test_a_page_is_in_the_language_of_its_translation(folder: Path) -> None:
    write_folder(folder / "french")
    source, target = (folder / "french/prep.yaml").read_text().split("tgt:")
    (folder / "french/prep.yaml").write_text(f"{source}tgt:{target.replace('language: en', 'language: fr')}")
    (folder / "page.html").write_text('<html lang="en"><p>a b</p></html>')
    package.translate_document("page.html", "out.html", model="french")
    assert (folder / "out.html").read_text() == '<html lang="fr"><body><p>a b</p></body></html>'


@pytest.mark.parametrize("name", ["prefixes", "references", "alignment", "attention", "tokenized"])
def test_what_a_request_asks_of_lines_is_refused_for_a_document(folder: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"`{name}`: is for lines of text, and page.html is a document; leave it out"):
        package.translate_document("page.html", "out.html", package.Request(**{name: True}))  # type: ignore[arg-type]
    assert not (folder / "out.html").exists()


@pytest.mark.parametrize(
    ("document", "output", "suffix"),
    [
        ("page.html", "out.txt", ".html"),
        ("other.HTML", "out.docx", ".html"),
        ("page.html", "out.html.gz", ".html"),
        ("a.po", "out.pot", ".po"),
    ],
)
def test_a_document_is_not_written_by_the_name_of_another_format(
    folder: Path, nmtkit: Callable[..., Any], document: str, output: str, suffix: str
) -> None:
    (folder / document).write_text('msgid "a"\nmsgstr ""\n')
    result = nmtkit("translate", document, "-o", output)
    assert result.status == 1
    assert result.err.splitlines()[-1] == (
        f"nmtkit: error: --output {output}: must be a {suffix} file, like {document}; end its name in {suffix}"
    )
    assert not (folder / output).exists()


def test_a_format_may_have_two_suffixes(folder: Path, nmtkit: Callable[..., Any]) -> None:
    (folder / "a.htm").write_text("<p>a</p>\n")
    assert nmtkit("translate", "a.htm", "-o", "a.html").status == 0
    assert nmtkit("translate", "a.html", "-o", "b.htm").status == 0
    assert (folder / "b.htm").read_text() == "<p>a</p>\n"


@pytest.mark.parametrize("output", ["out.po", "out.POT", "out"])
def test_a_template_of_gettext_may_become_a_catalogue(folder: Path, nmtkit: Callable[..., Any], output: str) -> None:
    (folder / "a.pot").write_text('msgid "a"\nmsgstr ""\n')
    nmtkit("translate", "a.pot", "-o", output)
    assert (folder / output).read_text() == '#, fuzzy\nmsgid "a"\nmsgstr "a"\n'


def test_a_page_is_never_replaced_by_its_translation(nmtkit: Callable[..., Any]) -> None:
    result = nmtkit("translate", "page.html", "-o", "page.html")
    assert "--output page.html: is also an input" in result.err


def test_what_matches_a_pattern_is_kept_in_lines_too(folder: Path, nmtkit: Callable[..., Any]) -> None:
    (folder / "in.txt").write_text("a #zebra b\n\n@x@ d\n")
    assert nmtkit("translate", "in.txt", "--keep", r"#\w+", "--keep", "@x@").out == "a #zebra b\n\n@x@ d\n"


def test_a_line_of_nothing_but_kept_text_is_copied(folder: Path, nmtkit: Callable[..., Any]) -> None:
    (folder / "in.txt").write_text("#zebra, #zebu?\n")
    assert nmtkit("translate", "in.txt", "--keep", r"#\w+").out == "#zebra, #zebu?\n"
    assert nmtkit("translate", "in.txt", "--keep", r"#\w+", "--n-best", 2).out.startswith("0 ||| #zebra, #zebu? ||| ")


@pytest.mark.parametrize("line", ["#a\r#b\x1b", "\ufeff#a\u2028#b\x1b", "#a\n#b\x1b", "a #a\r#b\x1b"])
def test_kept_text_has_neither_line_breaks_nor_control_characters(line: str) -> None:
    [[best]] = package.translate([line], keep=[r"#\w[^ ]*"])
    assert str(best).removeprefix("a ") == "#a #b"


def test_an_output_that_cannot_be_written_is_refused_before_translation(
    nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("nmtkit.workflow.document.translate_windows")
    result = nmtkit("translate", "page.html", "-o", "no/page.html")
    assert result.err.splitlines()[-1].startswith("nmtkit: error: no/page.html: cannot be written: ")


def test_python_keeps_what_matches_in_lines_and_refuses_what_is_not_for_them() -> None:
    assert [str(best) for [best] in package.translate(["a #zebra b"], keep=[r"#\w+"])] == ["a #zebra b"]
    with pytest.raises(UserError, match="`keep` and `prefixes` cannot be combined"):
        list(package.translate([("a", "b")], package.Request(prefixes=True), keep=["a"]))
    with pytest.raises(UserError, match="`keep` and `sample` cannot be combined"):
        list(package.translate(["a"], package.Request(sample=True), keep=["a"]))
    with pytest.raises(UserError, match="`columns`: is for documents"):
        package.translate(["a"], columns=["1"])
