"""The page as a file: whole in itself, well-formed, and without what its Content-Security-Policy would refuse."""

import re
from collections import Counter
from html.parser import HTMLParser
from importlib import resources
from typing import NamedTuple

import pytest

PAGE = resources.files("nmtkit").joinpath("serving/page.html").read_text("utf-8")

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
LOADING = {"action", "background", "cite", "data", "formaction", "href", "manifest", "ping", "poster", "src", "srcset"}
REFERRING = {"for", "aria-labelledby", "aria-describedby", "aria-controls", "aria-owns", "aria-activedescendant"}
LABELLED = {"textarea", "select", "input"}


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str | None]
    within: tuple[str, ...]  # from the outermost


class Reader(HTMLParser):
    """The elements of a page, and what is wrong with how they are nested."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.faults = list[Element](), list[str]()
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

    def close(self) -> None:
        super().close()
        self.faults += [f"<{tag}> has no end" for tag in self._open]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def malformed(html: str) -> list[str]:
    """Elements without an end or in the wrong one, ids that are there twice, and references to ids that are not."""
    reader = read(html)
    ids = Counter(each.attributes["id"] for each in reader.elements if "id" in each.attributes)
    faults = [*reader.faults, *(f"id {name} is there {count} times" for name, count in ids.items() if count > 1)]
    for element in reader.elements:
        for name in REFERRING & element.attributes.keys():
            faults += [f"{name} {id} is nowhere" for id in str(element.attributes[name]).split() if id not in ids]
    return faults


def foreign(html: str) -> list[str]:
    """Whatever loads or would load something, runs where no hash reaches it, or reads text as HTML or as a program."""
    faults = []
    for element in read(html).elements:
        for name, value in element.attributes.items():
            inside = element.tag == "link" and str(value).startswith("data:")  # an icon, as the policy allows it
            if (name in LOADING and not inside) or name == "style" or name.startswith("on"):
                faults.append(f"<{element.tag} {name}>")
    words = (
        r"https?://|wss?://|@import|url\(|\bimport\b|\beval\b|innerHTML|outerHTML|insertAdjacentHTML|document\.write|"
        r"new Function|setAttribute\(\"style|XMLHttpRequest|sendBeacon|EventSource|WebSocket"
    )
    return faults + re.findall(words, html)


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
        '<img src="https://example.org/a.png">',
        '<img src="data:image/png;base64,">',
        '<link rel="icon" href="a.png">',
        '<p style="color: red">a</p>',
        '<button onclick="a()">b</button>',
        "<style>@import 'a.css';</style>",
        "<style>p { background: url(a.png) }</style>",
        "<script>element.innerHTML = text;</script>",
        "<script>fetch('http://example.org')</script>",
    ],
)
def test_what_is_not_in_the_page_itself_is_noticed(html: str) -> None:
    assert foreign(html)


def test_the_page_is_well_formed() -> None:
    assert malformed(PAGE) == []
    assert PAGE.startswith("<!doctype html>")


def test_the_page_is_whole_in_itself() -> None:
    assert foreign(PAGE) == []
    # Connections that the script makes are relative, so that the page works behind a proxy's path, too.
    assert re.findall(r'\bask\("([^"]*)"', PAGE) == ["v1/translate", "v1/models"]
    assert PAGE.count("fetch(") == 1


def test_the_page_has_one_style_one_script_and_an_icon() -> None:
    tags = Counter(element.tag for element in read(PAGE).elements)
    assert (tags["style"], tags["script"], tags["link"]) == (1, 1, 1)


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
    found = set(re.findall(r'\bfind\("([^"]+)"\)', PAGE))
    parts = set(re.findall(r'\bpart\("\.([a-z]+)', PAGE))
    assert found
    assert parts
    assert found <= ids
    assert parts <= classes


def test_colours_are_written_once_for_light_and_once_for_dark() -> None:
    light, dark = (
        set(re.findall(r"--[a-z-]+(?=: (?:#|none|0))", part)) for part in PAGE.split("prefers-color-scheme")[:2]
    )
    assert light
    assert light == dark
    rules = PAGE[PAGE.index("*, ::before") : PAGE.index("</style>")]
    assert re.findall(r"#[0-9a-f]{3,8}\b", rules) == []
