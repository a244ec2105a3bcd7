"""The files of the page: well-formed, complete, and allowed by the Content-Security-Policy."""

import re
from collections import Counter
from html.parser import HTMLParser
from importlib import resources
from typing import NamedTuple

import pytest

from tests.serving.conftest import Start

STATIC = resources.files("nmtkit").joinpath("serving/static")
PAGE, STYLE = STATIC.joinpath("page.html").read_text("utf-8"), STATIC.joinpath("page.css").read_text("utf-8")
SCRIPTS = {name: STATIC.joinpath(name).read_text("utf-8") for name in ("page.js", "text.js")}
FILES = {"icon.png", "page.css", *SCRIPTS}

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
LOADING = {"action", "background", "cite", "data", "formaction", "href", "manifest", "ping", "poster", "src", "srcset"}
REFERRING = {"for", "aria-labelledby", "aria-describedby", "aria-controls", "aria-owns", "aria-activedescendant"}
LABELLED = {"textarea", "select", "input"}


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str | None]
    within: tuple[str, ...]  # from the outermost


class Reader(HTMLParser):
    """The elements of a page, and errors in their nesting."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.faults, self.inline = list[Element](), list[str](), list[str]()
        self._open = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = Counter(name for name, _ in attrs)
        self.faults += [f"<{tag}> has {name} twice" for name, count in names.items() if count > 1]
        self.elements.append(Element(tag, dict(attrs), tuple(self._open)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.faults.append(f"</{tag}> ends {self._open[-1:] or 'nothing'}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] in (["script"], ["style"]) and data.strip():
            self.inline.append(self._open[-1])

    def close(self) -> None:
        super().close()
        self.faults += [f"<{tag}> has no end" for tag in self._open]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def malformed(html: str) -> list[str]:
    """Elements that are not closed or wrongly nested, duplicate ids, and references to missing ids."""
    reader = read(html)
    ids = Counter(each.attributes["id"] for each in reader.elements if "id" in each.attributes)
    faults = [*reader.faults, *(f"id {name} is there {count} times" for name, count in ids.items() if count > 1)]
    for element in reader.elements:
        for name in REFERRING & element.attributes.keys():
            faults += [f"{name} {id} is nowhere" for id in str(element.attributes[name]).split() if id not in ids]
    return faults


def foreign(html: str) -> list[str]:
    """Everything forbidden by the policy: inline scripts and styles, and files from elsewhere."""
    reader, faults = read(html), list[str]()
    for element in reader.elements:
        for name, value in element.attributes.items():
            ours = element.tag in {"link", "script"} and value in FILES
            if (name in LOADING and not ours) or name == "style" or name.startswith("on"):
                faults.append(f"<{element.tag} {name}>")
    return faults + [f"<{tag}> with content" for tag in reader.inline]


def unsafe(program: str) -> list[str]:
    """Code that loads from elsewhere, or interprets text as HTML or as a program."""
    words = (
        r"https?://|wss?://|@import|url\(|\bimport\(|\beval\b|innerHTML|outerHTML|insertAdjacentHTML|document\.write|"
        r"new Function|setAttribute\(\"style|XMLHttpRequest|sendBeacon|EventSource|WebSocket"
    )
    imports = [name for name in re.findall(r'\bfrom "([^"]*)"', program) if name.removeprefix("./") not in FILES]
    return re.findall(words, program) + imports


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ("<p><b>a</p></b>", "</p> ends"),
        ("<div><p>a</p>", "<div> has no end"),
        ('<p id="a"></p><p id="a"></p>', "id a is there 2 times"),
        ('<p id="a" aria-labelledby="a b"></p>', "aria-labelledby b is nowhere"),
        ('<p class="a" class="b"></p>', "<p> has class twice"),
    ],
)
def test_a_malformed_page_is_noticed(html: str, fault: str) -> None:
    assert any(each.startswith(fault) for each in malformed(html))


@pytest.mark.parametrize(
    "html",
    [
        '<script src="a.js"></script>',
        "<script>start();</script>",
        "<style>p { color: red }</style>",
        '<link rel="stylesheet" href="https://example.org/page.css">',
        '<img src="page.js">',
        '<img src="data:image/png;base64,">',
        '<p style="color: red">a</p>',
        '<button onclick="a()">b</button>',
    ],
)
def test_html_that_the_policy_refuses_is_noticed(html: str) -> None:
    assert foreign(html)


@pytest.mark.parametrize(
    "program",
    [
        "@import 'a.css';",
        "p { background: url(a.png) }",
        "element.innerHTML = text;",
        "fetch('http://example.org')",
        'import { a } from "./other.js";',
        "await import(name);",
    ],
)
def test_a_style_or_script_that_loads_from_elsewhere_is_noticed(program: str) -> None:
    assert unsafe(program)


def test_the_page_is_well_formed() -> None:
    assert malformed(PAGE) == []
    assert PAGE.startswith("<!doctype html>")


def test_the_page_loads_its_own_files_only() -> None:
    assert foreign(PAGE) == []
    assert [unsafe(part) for part in (STYLE, *SCRIPTS.values())] == [[], [], []]
    # Addresses are relative, so that the page also works behind a path of a proxy.
    assert re.findall(r'\bask\("([^"]*)"', SCRIPTS["page.js"]) == ["v1/translate", "translate_file", "v1/models"]
    assert "".join(SCRIPTS.values()).count("fetch(") == 1


def test_the_functions_of_texts_do_not_touch_the_document() -> None:
    assert re.findall(r"\b(?:document|window|navigator|fetch|setTimeout)[.(]", SCRIPTS["text.js"]) == []


def test_the_files_of_the_page_are_served_with_their_types_and_a_policy_of_self(start: Start) -> None:
    client = start()
    types = {
        "": "text/html",
        "page.css": "text/css",
        "page.js": "javascript",
        "text.js": "javascript",
        "icon.png": "image/png",
    }
    assert types.keys() - {""} == FILES
    for name, kind in types.items():
        answer = client.get(f"/{name}")
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
        assert policy.pop("default-src") == "'self'"
        assert set(policy.values()) == {"'none'"}
        # A browser asks each time whether the file has changed, and is sent it only if it has.
        assert answer.headers["cache-control"] == "no-cache"
        again = client.get(f"/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert client.get("/limits.py").status_code == client.get("/../limits.py").status_code == 404


def test_everything_that_takes_input_has_a_name() -> None:
    for element in read(PAGE).elements:
        if element.tag in LABELLED:
            named = {"aria-label", "aria-labelledby"} & element.attributes.keys() or "label" in element.within
            assert named, element
        if element.tag == "button":
            assert element.attributes.get("type") == "button", element  # and none sends a form


def test_every_element_that_the_script_names_is_there() -> None:
    elements = read(PAGE).elements
    ids = {element.attributes.get("id") for element in elements}
    classes = {name for element in elements for name in str(element.attributes.get("class")).split()}
    found = set(re.findall(r'\bfind\("([^"]+)"\)', SCRIPTS["page.js"]))
    parts = set(re.findall(r'\bpart\("\.([a-z]+)', SCRIPTS["page.js"]))
    assert found
    assert parts
    assert found <= ids
    assert parts <= classes


def test_colours_are_written_once_for_light_and_once_for_dark() -> None:
    light, dark = (
        set(re.findall(r"--[a-z-]+(?=: (?:#|none|0))", part)) for part in STYLE.split("prefers-color-scheme")[:2]
    )
    assert light
    assert light == dark
    assert re.findall(r"#[0-9a-f]{3,8}\b", STYLE[STYLE.index("*, ::before") :]) == []
