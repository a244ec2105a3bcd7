"""``nmtkit translate``: raw text to plain translations, one line out for each line in."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from nmtkit.cli.options import OUTPUT_FILE, check_output, log, open_output
from nmtkit.documents.formats import ARCHIVES, is_document
from nmtkit.errors import UserError, counted
from nmtkit.lines import beside_lines, check_read_once, raw_lines
from nmtkit.options import Option
from nmtkit.search.settings import SEARCH
from nmtkit.translation.request import OUTPUT, Request
from nmtkit.translation.stream import Stream, decoded, standard_input
from nmtkit.translation.terms import read_terms
from nmtkit.workflow.document import DocumentOptions, write_document
from nmtkit.workflow.translate import LineOptions, TranslateOptions, translate_text
from nmtkit.writing import real_path

if TYPE_CHECKING:
    from nmtkit.translation.translation import Translation


def translate(
    request: Request,
    options: TranslateOptions,
    file: Annotated[str | None, Option(
        "File to translate, as with --input; a document (html, docx, odt, po, srt, ...) with its formatting.",
        argument=True)] = None,
    input: Annotated[str, Option(
        "File to translate (.gz and .zst too); - is standard input, which is translated as it arrives.",
        names="--input -i", before="beam_size")] = "-",
    output: Annotated[str, replace(OUTPUT_FILE, before="beam_size")] = "-",
    prefix: Annotated[Path | None, Option(
        "File with the words that each translation must begin with, one line per input line.", SEARCH)] = None,
    terms: Annotated[Path | None, Option(
        "File with the translations of terms to use: a source term, a tab and its translation on each line "
        "(.csv and .tbx, too).", SEARCH)] = None,
    score_reference: Annotated[Path | None, Option(
        "File with a translation of each input line, to score (and, with --alignment, align) instead of searching "
        "for one.", SEARCH)] = None,
    scores: Annotated[Literal["none", "sentence", "token"], Option(
        "Write the score of each translation and a tab before it (sentence), and also a tab and the scores of its "
        "tokens after it (token). With --score-reference, the default is sentence.", OUTPUT,
        before="alignment")] = "none",
    attention: Annotated[Path | None, Option(
        "File (.npz) to write the attention weights and the tokens of each translation to.", OUTPUT,
        before="tokenized")] = None,
    as_json: Annotated[bool, Option(
        "Write a JSON object per translation, for scripts.", OUTPUT, names="--json", before="tokenized")] = False,
) -> None:  # fmt: skip
    """Translate text line by line: one output line for each input line, and a blank line for a blank line.

      nmtkit translate < in.txt > out.txt
      zcat big.gz | nmtkit translate --beam-size 10 --scores sentence | cut -f1
      nmtkit translate page.html -o page.fr.html
      nmtkit translate -m one -m two -m three < in.txt > out.txt
      nmtkit translate --score-reference out.txt --scores token < in.txt

    Search options default to the model's configuration. The score of a translation is its log-probability (base e) with
    the length and coverage penalties or, with --mbr, its chrF2, from 0 to 1. The score of a token is its
    log-probability; the last score belongs to the end-of-sentence token. Word alignments are pairs of tokenised words
    (of tokens with --tokenized), numbered from 0; a target word without attention has no pair. In an n-best list, lines
    are numbered from 0, and the alignment is a fourth field. With --sample, a line gets the same translation at any
    position in a text, unless the rounding of probabilities changes a word. The arrays of --attention are N.attention
    (target tokens x source tokens), N.source and N.target for line N, numbered from 0, and include end-of-sentence
    tokens.

    With --replace-unk, an unknown word in the output is replaced by the lexicon's translation of its source word, or
    else by a copy of it. The source word is the one with the highest attention weight among those whose translation is
    not in the target vocabulary, and a different one for each unknown word; if there are too few, other source words
    are weighted by how often they are linked to words outside the vocabulary. Punctuation in the target vocabulary is
    never chosen, and an unknown word without a source word stays <unk>. Source words that are numbers, dates, e-mail
    addresses or URLs are copied, not translated. A replacement at the beginning of a sentence is capitalised if
    sentences of the training text are. With --unk-origin papers, the source word is the one with the highest attention
    weight of all or, for a model trained on data from nmtkit vocab --unkpos, the one that the model points to. The
    numbers of unknown words translated, copied and left are reported on standard error, and per line by --json.

    A subword model has no unknown words, but turns unseen names into other words. With --replace-unk, a capitalised
    word that is split into subwords and not in the lexicon is copied to where the translation attends to it, unless it
    begins a sentence or follows a colon, where other words have a capital, too. No name is copied from German and
    other languages that capitalise all nouns, nor with --unk-origin papers.

    With --terms, if a line contains a source term, its translation contains one of the term's translations, which
    are separated by "|", as in "dog<TAB>chien|chienne"; further columns are comments. A term and its translation may be
    capitalised at the beginning of a sentence. Of overlapping terms, the one that begins first is used, and of those
    that begin at the same word, the longest. Words outside the vocabulary are written as in the file. --json has the
    form of each term in the translation, or null if the maximum length left no room.

    With --shortlist, a large vocabulary costs less time: the translations of a batch are restricted to the N most
    frequent target words, the 20 best translations of each source word in the lexicon, and the source words themselves.
    The lexicon has whole words, with or without BPE. Probabilities sum to one over the shortlist, and a translation may
    depend slightly on the other lines of its batch.

    bfloat16 and int8 round the factors of matrix products, which changes scores slightly, and sometimes a translation.
    --precision auto depends on the machine; in float32, machines differ in the last digits only. References are
    scored in float32, unless --precision names another format.

    A document is translated with its formatting, paragraph by paragraph, and written when it is complete. Inline
    markup, such as bold text and links, is placed around the translations of its words, which are found by attention
    and the lexicon of nmtkit align, if there is one. Code, text marked as not to be translated, placeholders such as
    {name} and %1$s, URLs and e-mail addresses are copied, each once; if the model omitted one, its position is a guess,
    and a warning names the paragraph. --keep adds patterns to these, and also works on lines of text. The model reads a
    name or a number in place of each copied text, and the tokens and alignments in the output of lines contain these.

    A line of more tokens than --max-input-length is cut into pieces: at the end of a sentence, or else at other
    punctuation, or else between words. The translations of the pieces are joined.

    Translations are written whenever standard input pauses, so the command can be used interactively. A long text is
    divided among several processes.
    """
    # Rules for options that only the command line has; Request has the others.
    if request.n_best and scores != "none":
        raise UserError("--scores: an n-best list already has scores; leave it out")
    if request.n_best and attention:
        raise UserError("--attention: is for the best translation only; leave --n-best out")
    if file is not None and input != "-":
        raise UserError(f"--input {input}: {file} is given as the file to translate; leave one of them out")
    input = input if file is None else file
    request = replace(
        request, prefixes=prefix is not None, references=score_reference is not None, attention=attention is not None,
        terms=None if terms is None else read_terms(terms), quality=as_json,
    )  # fmt: skip
    beside = prefix or score_reference  # Request refuses both
    _check_files([path for path in (input, beside, terms, options.lexicon) if path is not None], output, attention)
    if is_document(input):
        lines_only = {"--json": as_json, "--scores": scores != "none"}
        if given := [name for name, value in lines_only.items() if value]:
            raise UserError(f"{given[0]}: is for lines of text, and {input} is a document; leave it out")
        if output == "-" and input.lower().endswith(ARCHIVES) and sys.stdout.isatty():
            raise UserError(f"{input}: is a binary file, which a terminal cannot show; name an output file (--output)")
        write_document(DocumentOptions(input, output, request, **vars(options)))
        return
    if output.lower().endswith((*ARCHIVES, ".pdf")):
        raise UserError(f"--output {output}: lines of text do not make a document; end its name in .txt")
    if options.lexicon and not request.replace_unk and request.shortlist is None and not options.keep:
        raise UserError(
            "--lexicon: is for unknown words, a shortlist or --keep; add --replace-unk, --shortlist or --keep"
        )
    stream = Stream(standard_input()) if input == "-" else None
    typed = stream is not None and sys.stdin.isatty()
    if typed:  # tell a user at a terminal that the command waits for input
        print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)
    raw, ready = (stream, stream.ready) if stream else (raw_lines(input), lambda: True)
    place = "standard input" if input == "-" else input
    lines = decoded(raw, place, _warn)
    pairs = beside_lines(lines, beside, place) if beside else lines
    windows = translate_text(LineOptions(pairs, request, **vars(options), ready=ready))
    from nmtkit.translation import formats  # imports torch

    if score_reference is not None and scores == "none":
        scores = "sentence"  # a reference is given for its score
    line = formats.json_object if as_json else formats.moses if request.n_best else partial(formats.columns, scores)
    _summarise(_write(windows, line, output, attention, typed), request, terms)


def _check_files(read: Sequence[Path | str], output: str, attention: Path | None) -> None:
    """Raise UserError if standard input is read twice, an input would be overwritten, or ``attention`` is no .npz."""
    check_read_once(read)
    check_output("--output", output, *read)
    if attention:
        check_output("--attention", attention, *read)
        if output != "-" and real_path(attention) == real_path(Path(output)):
            raise UserError(f"--attention {attention}: is also the output of the translations; choose another file")
        if attention.suffix != ".npz":
            raise UserError(f"--attention {attention}: must be an .npz file; choose a name that ends in .npz")


@dataclass
class _Totals:
    """What is reported when all lines are translated."""

    lines: int = 0
    long: int = 0  # lines that were translated in pieces
    unknown: Counter[str] = field(default_factory=Counter)  # unknown words by what became of them
    met: Counter[bool] = field(default_factory=Counter)  # terms of the lines, by whether they are in the translation


def _write(
    windows: Iterable[Sequence[Sequence["Translation"]]], line: Callable[[int, "Translation"], str], output: str,
    attention: Path | None, typed: bool,
) -> _Totals:  # fmt: skip
    """Write the translations of each line, the best first, as text and the attention of the best as arrays.

    typed: the user types the lines, so that a progress bar would be in the way.
    """
    from nmtkit.translation import formats

    done: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda lines: None)
    if sys.stderr.isatty() and not typed and (output != "-" or not sys.stdout.isatty()):
        from nmtkit.machine.progress import progress  # rich, which a pipe does without

        done = progress("translating")
    totals = _Totals()
    with open_output(output) as written, formats.attention_arrays(attention) as keep, done as advance:
        for found in windows:
            for translations in found:
                best = translations[0]
                written.writelines(f"{line(totals.lines, translation)}\n" for translation in translations)
                keep(totals.lines, best)
                totals.lines += 1
                totals.long += best.pieces > 1
                totals.unknown.update(best.unknown._asdict() if best.unknown else {})
                totals.met.update(term.form is not None for term in best.terms or ())
            written.flush()  # the reader may wait for this before the next line
            advance(len(found))
    return totals


def _summarise(totals: _Totals, request: Request, terms: Path | None) -> None:
    """Report what became of unknown words, terms and long lines."""
    if any(totals.unknown.values()):
        parts = ", ".join(f"{totals.unknown[name]} {name}" for name in ("translated", "copied", "left"))
        log.info(f"nmtkit: unknown words ({request.unk_origin or 'matched'}): {parts}")
    if terms and totals.lines and not totals.met:
        _warn(f"no line contains a term of {terms}; terms match whole words, case included")
    if missing := totals.met[False]:
        _warn(
            f"{missing} of {counted(totals.met.total(), 'term')} did not fit into the translations; --json names them"
        )
    if totals.long:
        they, were = ("1 line is", "was") if totals.long == 1 else (f"{totals.long} lines are", "were")
        _warn(f"{they} longer than {request.limit} tokens (--max-input-length) and {were} translated in pieces")


def _warn(text: str) -> None:
    print(f"nmtkit: warning: {text}", file=sys.stderr)
