"""One self-contained page of HTML: nothing is loaded, no script runs, and every text is escaped."""

from collections.abc import Sequence
from html import escape
from importlib import resources


def page(title: str, subtitle: str, sections: Sequence[tuple[str, str]]) -> str:
    """The whole page. Sections are a heading and its HTML; those without content are left out."""
    # Numbered before any is left out, so that a section's address is the same in every report.
    shown = [(number, *section) for number, section in enumerate(sections) if section[1]]
    links = "".join(f'<a href="#s{number}">{escape(heading)}</a>' for number, heading, _ in shown)
    body = "".join(
        f'<section id="s{number}"><h2>{escape(heading)}</h2>{html}</section>\n' for number, heading, html in shown
    )
    # Within the page, so that it can be sent as one file and read without a network.
    style = resources.files("nmtkit.evaluation").joinpath("page.css").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{style}</style></head>\n<body><header><h1>{escape(title)}</h1>"
        f'<p class="soft">{escape(subtitle)}</p><nav>{links}</nav></header>\n{body}\n</body></html>\n'
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table, whose first ``words`` columns are words and the others figures."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}>{escape(cell)}</{tag}>" if column < words else f'<{tag} class="figure">{escape(cell)}</{tag}>'
            for column, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<tr>{cells('th', header)}</tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def terms(pairs: Sequence[tuple[str, str]]) -> str:
    """A list of names with the text beside each, for the sentences of several systems."""
    items = (f"<dt>{escape(name)}</dt><dd>{escape(text) or '&nbsp;'}</dd>" for name, text in pairs)
    return f"<dl>{''.join(items)}</dl>"


def note(text: str) -> str:
    """A paragraph in a softer colour."""
    return f'<p class="soft">{escape(text)}</p>'


def folded(summary: str, html: str) -> str:
    """HTML that is shown when its summary is clicked."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def verbatim(text: str) -> str:
    """Text with its lines as they are."""
    return f"<pre>{escape(text)}</pre>"
