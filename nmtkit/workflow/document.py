"""``translate_document``: a file with its formatting; and text lines parts of which are kept as they are."""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmtkit.documents.formats import read_document
from nmtkit.errors import UserError
from nmtkit.lines import atomic_write
from nmtkit.machine.processes import loading
from nmtkit.translation.request import Request
from nmtkit.workflow.shared import models_at
from nmtkit.workflow.translate import BEST, TranslateOptions, models_of, translate_lines, translate_windows

if TYPE_CHECKING:
    from nmtkit.documents.placeholders import Hole
    from nmtkit.translation.translation import Translation

# Of a request: what is for lines, and not for documents.
_FOR_LINES = ("n_best", "prefixes", "references", "alignment", "attention", "tokenized")


def write_document(input: Path | str, output: Path | str, options: TranslateOptions) -> None:
    """Translate the document ``input`` and write it to ``output``, when it is complete; "-" is standard output.

    Raises UserError for a file that cannot be read as a document, for a request that is for lines, and as
    ``translate_lines`` does; then nothing is written.
    """
    for name in _FOR_LINES:
        if getattr(options.request, name):
            raise UserError(f"`{name}`: is for lines of text, and {input} is a document; leave it out")
    try:
        data = Path(input).read_bytes()
    except OSError as error:
        raise UserError(f"{input}: cannot be read: {error.strerror}") from None
    with loading():
        from nmtkit.documents.alignment import align
        from nmtkit.documents.placeholders import patterns, stand_ins
        from nmtkit.documents.translate import plan
        from nmtkit.translation.jobs import translator_of

        keep = patterns(options.keep)
        translator = translator_of(models_of(options, models_at(options.model, options.checkpoint)))
    src, tgt = translator.sources[0].pipeline.side.language, translator.tgt_pipeline.side.language
    document = read_document(str(input), data, options.columns, tgt)
    planned = plan(document.segments, src, tgt, stand_ins(translator), keep)
    lines = planned.sentences
    request = replace(options.request, attention=planned.aligned)
    found = translate_lines(replace(options, lines=lines, request=request, keep=()))
    aligned = (align(translator, line, best) for line, [best] in zip(lines, found, strict=True))
    content = document.write(planned.finish(aligned))
    if str(output) == "-":
        sys.stdout.buffer.write(content)
        return
    with atomic_write(output, "wb") as file:
        file.write(content)


def translate_document(
    input: Path | str,
    output: Path | str,
    request: Request = BEST,
    *,
    model: Path | str | Sequence[Path | str] = "run",
    keep: Sequence[str] = (),
    columns: Sequence[str] = (),
    lexicon: Path | str | None = None,
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "auto",
    device: str = "auto",
    jobs: int | None = None,
) -> None:
    """Translate a document with its formatting: HTML and the other formats that ``nmtkit translate`` lists.

    keep: regular expressions of what is copied as it is, beside placeholders such as ``{name}`` and ``%1$s``, URLs and
    e-mail addresses. columns: of a table, those that are translated. The other arguments are those of ``translate``.
    Raises UserError for a file that cannot be read as a document, for a request that is for lines of text, and as
    ``translate`` does; then nothing is written.
    """
    options = TranslateOptions(
        request=request, model=model, keep=keep, columns=columns, lexicon=lexicon, precision=precision, device=device,
        jobs=jobs,
    )  # fmt: skip
    write_document(input, output, options)


def windows_with_kept(options: TranslateOptions) -> "Iterator[list[list[Translation]]]":
    """``translate_windows``, with what matches a pattern of ``options.keep`` copied into each translation.

    Raises UserError for a pattern that is none, and for a request in which lines have targets or are tokens.
    """
    for name in ("prefixes", "references", "tokenized"):
        if getattr(options.request, name):
            raise UserError(f"`keep`: does not go with `{name}`; leave one of them out")
    with loading():
        from nmtkit.documents.alignment import align
        from nmtkit.documents.placeholders import find, patterns, restore, stand_ins, warn_of_lost, with_stand_ins
        from nmtkit.translation.jobs import translator_of

        keep = patterns(options.keep)
        translator = translator_of(models_of(options, models_at(options.model, options.checkpoint)))
    words = stand_ins(translator)
    waiting: deque[tuple[str, list[Hole]]] = deque()

    def sentences() -> Iterator[str]:
        for line in options.lines:
            text, holes = with_stand_ins(str(line), 0, len(line), find(str(line), keep), words)
            waiting.append((text, holes))
            yield text

    number = 0
    request = replace(options.request, attention=True)
    for window in translate_windows(replace(options, lines=sentences(), request=request, keep=())):
        for best in window:
            number += 1
            text, holes = waiting.popleft()
            if holes:
                filled = [restore(align(translator, text, each), holes) for each in best]
                warn_of_lost(f"line {number}", filled[0])
                best[:] = [replace(each, text=done.aligned.text) for each, done in zip(best, filled, strict=True)]
        yield window
