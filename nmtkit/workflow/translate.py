"""``translate``: translation of a text of any length by one or more models, in several processes if that is faster."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from string import digits
from typing import TYPE_CHECKING

from nmtkit.errors import UserError, counted, refuse_string
from nmtkit.lines import given_lines
from nmtkit.machine.processes import CAN_FORK, loading
from nmtkit.options import Option, by_keyword, option
from nmtkit.search.settings import Combine
from nmtkit.translation.request import SPEED, UNKNOWN, Request
from nmtkit.workflow.shared import (
    CHECKPOINT,
    COMBINE,
    DEVICE,
    ENSEMBLES,
    JOBS,
    MODELS,
    PRECISION,
    WEIGHTS,
    Precision,
    models_at,
    weights_of,
)

if TYPE_CHECKING:
    from nmtkit.documents.placeholders import Hole
    from nmtkit.translation.jobs import Models
    from nmtkit.translation.translation import Translation
    from nmtkit.translation.translator import Translator

log = logging.getLogger(__name__)

BEST = Request()  # the best translation of each line
DOCUMENTS = "Documents"  # group of the help
SHOWN = 5  # characters that training never saw
_ENOUGH, _UNLIKE = 10, 0.8  # commas and full stops; difference between the shares that follow a space
NUMBER = r"\d+([.,:]\d+)*"  # a pattern to recommend


def _always() -> bool:
    """Reading from a list or a file never blocks."""
    return True


# fmt: off
@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """The options of ``translate`` except the text and those of ``Request``."""

    model: Path | str | Sequence[Path | str] = option(
        "run", replace(MODELS, before="beam_size"))
    checkpoint: str | int | None = option(None, replace(CHECKPOINT, before="beam_size"))
    lexicon: Path | str | None = option(None, Option(
        "Lexicon made by nmtkit align.  [default: the model's own]", UNKNOWN, before="shortlist"))
    combine: Combine | None = option(None, replace(COMBINE, group=ENSEMBLES, before="max_input_length"))
    weights: str | Sequence[float] | None = option(None, replace(
        WEIGHTS, group=ENSEMBLES, before="max_input_length"))
    precision: Precision = option("auto", PRECISION.within(SPEED))
    device: str = option("auto", DEVICE.within(SPEED))
    keep: Sequence[str] = option((), Option(
        "Copy text that matches this regular expression; may be repeated. In documents, placeholders such as "
        "{name} and %1$s, URLs and e-mail addresses are always copied.", DOCUMENTS, metavar="REGEX"))
    columns: Sequence[str] = option((), Option(
        "Column of a table (csv, tsv) to translate: its number, or its name in the first row, which is then not "
        "translated; may be repeated.", DOCUMENTS))
    jobs: int | None = option(None, replace(
        JOBS, help="Number of processes.  [default: one per core, or 1 on a GPU or macOS]", group=SPEED))
# fmt: on


@dataclass(frozen=True)
class LineOptions(TranslateOptions):
    """The arguments of ``translate``."""

    lines: Iterable[str | tuple[str, str]] = ()
    request: Request = BEST
    ready: Callable[[], bool] = field(default=_always, kw_only=True)


def models_of(options: TranslateOptions) -> "Models":
    """The models, not loaded, so that they can be sent to worker processes.

    Raises UserError for a checkpoint that does not exist, and for a device or a precision that is not available.
    """
    from nmtkit.translation.jobs import Models

    folders = tuple(models_at(options.model, options.checkpoint))
    lexicon = None if options.lexicon is None else Path(options.lexicon)
    return Models(
        folders, options.device, options.combine, weights_of(options.weights), options.precision, lexicon
    ).resolved()


def translate_windows(
    lines: Iterable[str | tuple[str, str]],
    request: Request,
    options: TranslateOptions,
    ready: Callable[[], bool] = _always,
) -> "Iterator[list[list[Translation]]]":
    """The translations of every line, best first, in windows of lines that are translated together.

    Ignores ``options.keep`` and ``options.columns``. Raises UserError, before it returns, for models that cannot be
    used, or not for this request.
    """
    with loading():
        # Importing torch takes seconds.
        from nmtkit.translation.jobs import answers, processes_for, translate_window, translator_of
        from nmtkit.translation.stream import LARGEST_WINDOW, windows

        models = models_of(options)
        translator = translator_of(models)
        translator.check(request)  # before a line is read or a process is started
    if request.replace_unk and translator.lexicon is None:
        remedy = "give one made by nmtkit align as `lexicon`"
        log.warning(f"{translator.name} has no lexicon, so unknown words are only copied; {remedy}")
    if request.terms and request.terms[0] == translator.languages:
        log.warning(
            f"the first term is {' = '.join(translator.languages)}; if that is a header, delete it from the file"
        )
    copies = CAN_FORK and translator.device.type == "cpu"
    # Without fork, each process loads the models.
    jobs = options.jobs or (processes_for(translator) if copies else 1)
    pairs = starmap(_pair, enumerate(lines, 1))
    grouped = windows(pairs, ready, LARGEST_WINDOW)
    translated = answers(partial(translate_window, models, request), grouped, jobs, ready, copies=copies)
    translated = _warn_of_spaces(translated, translator)
    if request.replace_unk or translator.sources[0].pipeline.segmenter is None:
        return translated
    advise = not options.keep and not _refusing_keep(request)
    return _warn_of_unseen(translated, translator, advise, digits if options.keep else "")


def _pair(number: int, line: str | tuple[str, str]) -> tuple[str, str]:
    """A line with its prefix or reference, if it has any. Raises UserError for anything else, such as NaN."""
    if isinstance(line, str):
        return line, ""
    if isinstance(line, Sequence) and len(line) == 2:
        return line[0], line[1]
    raise UserError(f"`lines`: number {number} is {line!r}, not text")


def _warn_of_spaces(
    windows: "Iterator[list[list[Translation]]]", translator: "Translator"
) -> "Iterator[list[list[Translation]]]":
    """The windows; at the end, warn if one of the text and the training text is tokenised, and the other is not.

    Only the reversible tokenizer keeps the spaces before commas and full stops.
    """
    from nmtkit.text.reversible import JOINER

    source, after_space, after_word = translator.sources[0], (",", "."), (f"{JOINER},", f"{JOINER}.")
    either = frozenset(after_space + after_word)
    known = zip(source.vocab.words, source.vocab.counts, strict=True)
    trained, given = Counter({word: count for word, count in known if word in either}), Counter[str]()
    for window in windows:
        words = chain.from_iterable(source.pipeline.words(best[0].source) for best in window)
        given.update(filter(either.__contains__, words))
        yield window
    marks = [sum(counts[mark] for mark in either) for counts in (given, trained)]
    if min(marks) < _ENOUGH:
        return
    here, there = (
        sum(counts[mark] for mark in after_space) / n for counts, n in zip((given, trained), marks, strict=True)
    )
    if abs(here - there) > _UNLIKE:
        text = f"{here:.0%} of the commas and full stops follow a space, but {there:.0%} in the training text"
        remedy = "detokenise" if here > there else "tokenise"
        log.warning(f"{text} of {translator.name}: translations will be bad; {remedy} the text first")


def _warn_of_unseen(
    windows: "Iterator[list[list[Translation]]]", translator: "Translator", advise: bool, ignored: str
) -> "Iterator[list[list[Translation]]]":
    """The windows; at the end, warn of characters that a model of subwords never saw in training.

    advise: whether to recommend ``options.keep`` for numbers. ignored: characters that stand in for text to copy.
    """
    from nmtkit.text.pipeline import letters

    known = translator.sources[0].vocab.known
    # Invalid UTF-8 (U+FFFD) is reported elsewhere.
    seen = {"\ufffd", *ignored, *chain.from_iterable(map(letters, known))}
    lines, unseen = 0, Counter[str]()
    for window in windows:
        unknown = ((letters(token) for token in best[0].source if token not in known) for best in window)
        found = [[letter for letter in "".join(tokens) if letter not in seen] for tokens in unknown]
        lines += sum(map(bool, found))
        unseen.update(chain.from_iterable(found))
        yield window
    if lines:
        characters = " ".join(character for character, _ in unseen.most_common(SHOWN))
        more = " ..." if len(unseen) > SHOWN else ""
        numbers = advise and translator.has_attention and any(map(str.isdecimal, unseen))
        remedy = f"; `keep` '{NUMBER}' copies numbers" if numbers else ""
        what = f"{counted(lines, 'line')} with characters that {translator.name} never saw: {characters}{more}"
        log.warning(what + remedy)


def translate_text(options: LineOptions) -> "Iterator[list[list[Translation]]]":
    """``translate_windows`` that copies text that matches a pattern of ``options.keep``.

    Raises UserError for a string as ``options.lines``, for an invalid pattern, for patterns together with sampling,
    given targets or tokenised lines, for patterns and a model without attention, and for ``options.columns``.
    """
    refuse_string("lines", options.lines)
    if options.columns:
        raise UserError("`columns`: is for documents (csv, tsv), not for lines of text; leave it out")
    if options.keep:
        return _with_kept(options)
    return translate_windows(options.lines, options.request, options, options.ready)


def _with_kept(options: LineOptions) -> "Iterator[list[list[Translation]]]":
    """``translate_text`` with patterns."""
    if refusing := _refusing_keep(options.request):
        raise UserError(f"`keep` and `{refusing[0]}` cannot be combined; leave one of them out")
    with loading():
        from nmtkit.documents import placeholders
        from nmtkit.documents.alignment import align
        from nmtkit.documents.sentences import Span
        from nmtkit.text.pipeline import one_line
        from nmtkit.translation.jobs import translator_of

        keep = placeholders.patterns(options.keep)
        translator = translator_of(models_of(options))
    if not translator.has_attention:
        raise UserError("`keep`: this model cannot align words: it has no attention")
    words = placeholders.stand_ins(translator)
    waiting: deque[tuple[str, list[Hole] | None]] = deque()  # None: the line is copied

    def sentences() -> Iterator[str]:
        for text in given_lines("`lines`", options.lines):
            line = one_line(text)
            spans = placeholders.find(line, keep)
            if spans and placeholders.nothing_else(line, Span(0, len(line)), spans):
                waiting.append((line, None))
                yield ""
                continue
            text, holes = placeholders.with_stand_ins(line, 0, len(line), spans, words)
            waiting.append((text, holes))
            yield text

    number, request = 0, replace(options.request, attention=True)
    for window in translate_windows(sentences(), request, options, options.ready):
        for best in window:
            number += 1
            text, holes = waiting.popleft()
            if holes is None:
                best[:] = [replace(best[0], text=text)]
            elif holes:
                filled = [placeholders.restore(align(translator, text, each), holes) for each in best]
                placeholders.warn_of_lost(f"line {number}", filled[0])
                best[:] = [replace(each, text=done.text) for each, done in zip(best, filled, strict=True)]
        yield window


def _refusing_keep(request: Request) -> list[str]:
    """The fields of a request that cannot be combined with patterns."""
    return [name for name in ("prefixes", "references", "sample", "tokenized") if getattr(request, name)]


def translate_lines(options: LineOptions) -> "Iterator[list[Translation]]":
    """The translations of every line, best first, by a model or an ensemble, in several processes if that is faster.

    lines: read as they are needed, so that a text may be of any length; pairs with a prefix or a reference if
    ``request`` has ``prefixes`` or ``references``. ready: says whether the next line can be read without blocking; if
    not, the translations so far are yielded first. The other arguments are those of ``nmtkit.load``, and
    ``nmtkit.load("run").translate(lines)`` does the same in one process. Raises UserError for models that cannot be
    used, or not with this request.
    """
    return chain.from_iterable(translate_text(options))


translate = by_keyword(LineOptions, translate_lines, "translate")
