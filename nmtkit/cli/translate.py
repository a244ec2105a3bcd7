"""``nmtkit translate``: a filter from raw text to plain translations, one line out for every line in."""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from nmtkit.cli.options import OUTPUT_FILE, check_output, log, open_output
from nmtkit.cli.parameters import Without
from nmtkit.documents.formats import is_document
from nmtkit.errors import UserError
from nmtkit.lines import beside_lines, check_read_once, raw_lines, real_path
from nmtkit.options import Option
from nmtkit.search.settings import SEARCH
from nmtkit.translation.request import OUTPUT, SEED, Request
from nmtkit.translation.stream import Stream, decoded
from nmtkit.translation.terms import read_terms
from nmtkit.workflow.document import write_document
from nmtkit.workflow.translate import TranslateOptions, translate_text


def translate(
    request: Annotated[Request, Without(("seed",))],
    options: TranslateOptions,
    file: Annotated[str | None, Option(
        "File to translate, as with --input; a document (html, docx, odt, po, srt, ...) with its formatting.",
        argument=True)] = None,
    input: Annotated[str, Option(
        "File to translate (.gz and .zst too); - is standard input, which is translated as it arrives.",
        names="--input -i", before="beam_size")] = "-",
    output: Annotated[str, replace(OUTPUT_FILE, before="beam_size")] = "-",
    sample: Annotated[bool, Option(
        "Sample a translation from the model instead of searching for the best.", SEARCH)] = False,
    seed: Annotated[int | None, SEED] = None,
    prefix: Annotated[Path | None, Option(
        "File with the words with which each translation must begin, one line per input line.", SEARCH)] = None,
    terms: Annotated[Path | None, Option(
        "File with terms that must be translated as it says: a source term, a tab and its translation on each line "
        "(.csv and .tbx, too).", SEARCH)] = None,
    score_reference: Annotated[Path | None, Option(
        "File with a given translation of each input line, to score instead of translating.", SEARCH)] = None,
    scores: Annotated[Literal["none", "sentence", "token"], Option(
        "Write the score of each translation and a tab before it (sentence), and also a tab and the scores of its "
        "tokens after it (token).", OUTPUT, before="alignment")] = "none",
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

    Search options default to those of the model's configuration. The score of a translation is its log-probability
    (base e) under the length and coverage penalties; with --mbr it is its chrF2, from 0 to 1. The score of a token is
    its log-probability; the last one is that of the end-of-sentence mark. Word alignments are numbered from 0, in
    tokenised words (in tokens with --tokenized); a target word without attention has no pair. In an n-best list, lines
    are numbered from 0, and the alignment is a fourth field. A line gets the same sample anywhere in a text, unless
    rounding of probabilities leads to another word. The arrays of --attention are N.attention (target tokens x source
    tokens), N.source and N.target for line N, numbered from 0, and include end-of-sentence marks.

    With --replace-unk, an unknown word in the output is replaced by the translation that the lexicon has for a source
    word, or else by the source word as it was typed. Among the source words whose translation is not in the target
    vocabulary, it is the one with the highest attention weight, a different one for each unknown word; if there are too
    few of them, other source words are weighted by how often they are linked to words outside the vocabulary. Numbers,
    dates, e-mail addresses and URLs are always copied, and a replacement that begins a sentence is capitalised if
    sentences of the training text are. With --unk-origin papers, it is the source word with the highest attention
    weight of all or, for a model trained on data from nmtkit vocab --unkpos, the one that the model points to. The
    numbers of unknown words translated, copied and left are reported on standard error, and per line by --json.

    With --terms, a term that occurs in a line appears in its translation, in one of the forms that "|" separates, as in
    "dog<TAB>chien|chienne"; further columns are comments. At the beginning of a sentence its first letter may be a
    capital. Of terms that overlap, the longest counts. --json says which form of each term the translation has: null if
    the greatest length leaves no room. Words that the vocabulary lacks are written as the file has them.

    A model of word pieces has no unknown words, but spells names that it has never seen as other words. With
    --replace-unk, a capitalised word that is split into pieces and not in the lexicon is copied to where the
    translation attends to it; not so with --unk-origin papers.

    With --shortlist, a large vocabulary costs less: a batch is translated with the N most frequent target words, the 20
    best translations of each of its source words in the lexicon, and the source words themselves. The lexicon has
    whole words, with or without BPE. Probabilities then sum to one over the words of the shortlist, and a translation
    may depend slightly on the other lines of its batch.

    bfloat16 and int8 round the factors of matrix products, so that scores differ slightly, and sometimes a translation.
    --precision auto depends on the machine; in float32, machines differ in the last digits only. Given translations are
    scored in float32, unless --precision names another format.

    A document is translated with its formatting, paragraph by paragraph, and written when it is complete. Markup within
    a paragraph, as of bold words and links, is put around the words that translate those that it had, by attention and,
    if there is one, the lexicon of nmtkit align. Code, what the document says is not to be translated, placeholders
    such as {name} and %1$s, URLs and e-mail addresses are copied, each once; a warning names the paragraph where the
    model gave one no place. --keep adds to these, and is for lines of text as well.

    A line of more tokens than --max-input-length is cut into pieces: at the end of a sentence, or else at other
    punctuation, or else between words. Its pieces are translated and joined, and nothing is left out.

    Translations are written whenever standard input pauses, so the command can be used in a dialogue. A long text is
    shared among several processes.
    """
    # The rules between options of this command alone. Request has those that hold for Python as well.
    if request.n_best and scores != "none":
        raise UserError("--scores: an n-best list has them already; leave it out")
    if request.n_best and attention:
        raise UserError("--attention: of the best translation only; leave --n-best out")
    if seed is not None and not sample:
        raise UserError("--seed: is for --sample; add that, or leave it out")
    if file is not None and input != "-":
        raise UserError(f"--input {input}: {file} is given as the file to translate; leave one of them out")
    input = file or input
    request = replace(
        request, seed=(1 if seed is None else seed) if sample else None, prefixes=prefix is not None,
        references=score_reference is not None, attention=attention is not None,
        terms=None if terms is None else read_terms(terms), quality=as_json,
    )  # fmt: skip
    # Request has refused both at once, so that there is one file at most.
    beside = prefix or score_reference
    read = [path for path in (input, beside, terms, options.lexicon) if path is not None]
    check_read_once(read)
    check_output("--output", output, *read)
    if attention:
        check_output("--attention", attention, *read)
        if output != "-" and real_path(attention) == real_path(Path(output)):
            raise UserError(f"--attention {attention}: is the output of the translations, too; name another file")
    if is_document(input):
        lines_only = {"--json": as_json, "--scores": scores != "none"}
        if given := [name for name, value in lines_only.items() if value]:
            raise UserError(f"{given[0]}: is for lines of text, and {input} is a document; leave it out")
        write_document(input, output, request, options)
        return
    if options.lexicon and not request.replace_unk and request.shortlist is None and not options.keep:
        raise UserError(
            "--lexicon: is for unknown words, a shortlist or --keep; add --replace-unk, --shortlist or --keep"
        )
    # Without a prompt, a user at a terminal cannot tell that the command is waiting for input.
    typed = input == "-" and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)

    stream = Stream() if input == "-" else None
    # Only reading from standard input can block.
    raw, ready = (stream, stream.ready) if stream else (raw_lines(input), lambda: True)
    place = "standard input" if input == "-" else input
    lines = decoded(raw, place, _warn)
    pairs = beside_lines(lines, beside, place) if beside else lines
    windows = translate_text(pairs, request, options, ready)
    from nmtkit.translation import formats  # after torch, which that imports

    # No progress where it would stand between the translations, or in what is typed.
    shown = sys.stderr.isatty() and not typed and (output != "-" or not sys.stdout.isatty())
    done: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda lines: None)
    if shown:
        from nmtkit.machine.progress import progress  # rich, which a pipe does without

        done = progress("translating")
    line = formats.json_object if as_json else formats.moses if request.n_best else partial(formats.columns, scores)
    number = long = 0
    unknown = Counter[str]()
    with open_output(output) as written, formats.attention_arrays(attention) as keep, done as advance:
        for found in windows:
            for best in found:
                written.writelines(f"{line(number, translation)}\n" for translation in best)
                # Of the best translation alone, which is the only one that is asked for with --attention.
                keep(number, best[0])
                # Lines are numbered over the whole text, not within a window.
                number, long = number + 1, long + (best[0].pieces > 1)
                unknown.update(best[0].unknown._asdict() if best[0].unknown else {})
            written.flush()  # the reader may be waiting for the answer before the next line
            advance(len(found))
    if any(unknown.values()):
        parts = f"{unknown['translated']} translated, {unknown['copied']} copied, {unknown['left']} left"
        log.info(f"nmtkit: unknown words ({request.unk_origin or 'matched'}): {parts}")
    if long:
        they, were = ("1 line is", "was") if long == 1 else (f"{long} lines are", "were")
        _warn(f"{they} longer than {request.limit} tokens (--max-input-length) and {were} translated in pieces")


def _warn(text: str) -> None:
    """Warn on stderr, so that stdout has the translations and nothing else."""
    print(f"nmtkit: warning: {text}", file=sys.stderr)
