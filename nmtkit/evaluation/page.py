"""A self-contained HTML page: it loads nothing, runs no script, and escapes all text."""

from collections.abc import Sequence
from html import escape
from importlib import resources


def page(title: str, subtitle: str, sections: Sequence[tuple[str, str]]) -> str:
    """The page. Sections are pairs of a heading and HTML; empty sections are left out."""
    # Empty sections are numbered, too, so that a section has the same anchor in every report.
    shown = [(number, *section) for number, section in enumerate(sections) if section[1]]
    links = "".join(f'<a href="#s{number}">{escape(heading)}</a>' for number, heading, _ in shown)
    body = "".join(
        f'<section id="s{number}"><h2>{escape(heading)}</h2>{html}</section>\n' for number, heading, html in shown
    )
    style = resources.files("nmtkit.evaluation").joinpath("page.css").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{style}</style></head>\n<body><header><h1>{escape(title)}</h1>"
        f'<p class="soft">{escape(subtitle)}</p><nav>{links}</nav></header>\n{body}\n</body></html>\n'
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first ``words`` columns are text, and the others numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}>{escape(cell)}</{tag}>" if column < words else f'<{tag} class="figure">{escape(cell)}</{tag}>'
            for column, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<tr>{cells('th', header)}</tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def terms(pairs: Sequence[tuple[str, str]]) -> str:
    """A list of names with their descriptions, each in the direction of its own text."""
    items = (f'<dt>{escape(name)}</dt><dd dir="auto">{escape(text) or "&nbsp;"}</dd>' for name, text in pairs)
    return f"<dl>{''.join(items)}</dl>"


def note(text: str) -> str:
    """A paragraph in a softer colour."""
    return f'<p class="soft">{escape(text)}</p>'


def folded(summary: str, html: str) -> str:
    """HTML that is shown when the summary is clicked."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def verbatim(text: str) -> str:
    """Preformatted text."""
    return f"<pre>{escape(text)}</pre>"
