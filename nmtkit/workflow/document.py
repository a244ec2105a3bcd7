"""``translate_document``: translation of a file with its formatting."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from nmtkit.documents.formats import check_document, read_document, same_format
from nmtkit.errors import UserError
from nmtkit.machine.processes import loading
from nmtkit.options import by_keyword
from nmtkit.translation.request import Request
from nmtkit.workflow.translate import BEST, TranslateOptions, models_of, translate_windows
from nmtkit.writing import atomic_write


@dataclass(frozen=True)
class DocumentOptions(TranslateOptions):
    """The arguments of ``translate_document``; the output "-" is standard output."""

    input: Path | str
    output: Path | str
    request: Request = BEST


def write_document(options: DocumentOptions) -> None:
    """Translate a document, in a format that ``nmtkit translate`` lists, with its formatting.

    Placeholders such as ``{name}`` and ``%1$s``, URLs and e-mail addresses are copied. The translation is written when
    it is complete; on an error, nothing is written. Raises UserError for a file that cannot be read as a document, for
    a request that is for lines of text, and as ``translate`` does.
    """
    input, output, request = options.input, options.output, options.request
    for name in ("n_best", "sample", "prefixes", "references", "alignment", "attention", "tokenized"):
        if getattr(request, name):
            raise UserError(f"`{name}`: is for lines of text, and {input} is a document; leave it out")
    check_document(str(input))
    if not same_format(str(input), str(output)):
        suffix = Path(input).suffix.lower()
        raise UserError(f"`output` {output}: must be a {suffix} file, like {input}; end its name in {suffix}")
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
        translator = translator_of(models_of(options))
    document = read_document(str(input), data, options.columns, translator.languages)
    planned = plan(document.segments, *translator.languages, stand_ins(translator), keep)
    request = replace(request, attention=planned.aligned, quality=True)
    with nullcontext(sys.stdout.buffer) if str(output) == "-" else atomic_write(output, "wb") as file:
        windows = translate_windows(planned.sentences, request, options)
        found = zip(planned.sentences, chain.from_iterable(windows), strict=True)
        # All of them before writing, because the warnings come after the last window.
        answers = [align(translator, line, best) for line, [best] in found]
        file.write(document.write(planned.finish(answers)))


translate_document = by_keyword(DocumentOptions, write_document, "translate_document")
