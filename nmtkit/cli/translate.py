"""``nmtkit translate``: a filter from raw text to plain translations, one line out for every line in."""

import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmtkit.cli.options import (
    Alpha,
    BeamSize,
    Checkpoint,
    Combine,
    CoveragePenalty,
    Device,
    JobsOfSearch,
    LengthPenalty,
    LexiconFile,
    MaxInputLength,
    MaxLenA,
    MaxLenB,
    ModelFolders,
    Precision,
    ReplaceUnk,
    Shortlist,
    Stop,
    UnkOrigin,
    Weights,
    beside_lines,
    check_output,
    lines_done,
    log,
    open_output,
    parse_weights,
)  # fmt: skip
from nmtkit.errors import UserError
from nmtkit.folders import at_checkpoint
from nmtkit.lines import check_read_once, raw_lines, real_path
from nmtkit.translation.request import Request


def translate(
    model: ModelFolders = None,
    checkpoint: Checkpoint = None,
    input: Annotated[str, typer.Option("--input", "-i",
        help="File to translate (.gz and .zst too); - is standard input, which is translated as it arrives.")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")] = "-",
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    alpha: Alpha = None,
    coverage_penalty: CoveragePenalty = None,
    max_len_a: MaxLenA = None,
    max_len_b: MaxLenB = None,
    stop: Stop = None,
    n_best: Annotated[int | None, typer.Option(min=1,
        help="Write the N best translations of each line as 'line ||| text ||| score'.")] = None,
    sample: Annotated[bool, typer.Option("--sample",
        help="Sample a translation from the model instead of searching for the best.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, show_default=False,
        help="Random seed of --sample.  [default: 1]")] = None,
    prefix: Annotated[Path | None, typer.Option(
        help="File with the words with which each translation must begin, one line per input line.")] = None,
    score_reference: Annotated[Path | None, typer.Option(
        help="File with a given translation of each input line, to score instead of translating.")] = None,
    scores: Annotated[Literal["none", "sentence", "token"], typer.Option(
        help="Write the score of each translation and a tab before it (sentence), and also a tab and the scores of its "
        "tokens after it (token).")] = "none",
    alignment: Annotated[bool, typer.Option("--alignment",
        help="Write the word alignment after each translation: a tab and source-target pairs.")] = False,
    attention: Annotated[Path | None, typer.Option(
        help="File (.npz) to write the attention weights and the tokens of each translation to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON object per translation, for scripts.")] = False,
    replace_unk: ReplaceUnk = False,
    unk_origin: UnkOrigin = None,
    lexicon: LexiconFile = None,
    shortlist: Shortlist = None,
    max_input_length: MaxInputLength = None,
    tokenized: Annotated[bool, typer.Option("--tokenized",
        help="Read and write tokens, segmented as in the data folder, instead of plain text.")] = False,
    max_tokens: Annotated[int | None, typer.Option(min=1,
        help="Batch size: source tokens times beam size. A smaller batch needs less memory.")] = None,
    combine: Combine = None,
    weights: Weights = None,
    precision: Precision = "auto",
    device: Device = "auto",
    jobs: JobsOfSearch = None,
) -> None:  # fmt: skip
    """Translate text line by line: one output line for each input line, and a blank line for a blank line.

      nmtkit translate < in.txt > out.txt

      zcat big.gz | nmtkit translate --beam-size 10 --scores sentence | cut -f1

      nmtkit translate -m one -m two -m three < in.txt > out.txt

      nmtkit translate --score-reference out.txt --scores token < in.txt

    Search options that are not given are those that the model was trained with. The score of a translation is its
    log-probability (base e) under the length and coverage penalties. The score of a token is its log-probability;
    the last one is that of the end-of-sentence mark. Word alignments are numbered from 0, in tokenised words (in tokens
    with --tokenized); a target word without attention has no pair. In an n-best list, lines are numbered from 0, and
    the alignment is a fourth field. A line is sampled alike wherever it stands in a text, but for the rounding of
    probabilities, which now and then leads to another word. The arrays of --attention are N.attention (target tokens x
    source tokens), N.source and N.target for line N, numbered from 0, and include end-of-sentence marks.

    With --replace-unk, an unknown word in the output is replaced by the translation that the lexicon has for a source
    word, or else by the source word as it was typed. Among the source words whose translation is not in the target
    vocabulary, it is the one with the highest attention weight, a different one for each unknown word; if there are too
    few of them, other source words are weighted by how often they are linked to words outside the vocabulary. Numbers,
    dates, e-mail addresses and URLs are always copied, and a replacement that begins a sentence is capitalised if
    sentences of the training text are. With --unk-origin papers, it is the source word with the highest attention
    weight of all or, for a model trained on data from nmtkit vocab --unkpos, the one that the model points to. The
    numbers of unknown words translated, copied and left are reported on standard error, and per line by --json.

    A model of word pieces has no unknown words, but spells names that it has never seen as other words. With
    --replace-unk, a capitalised word that is split into pieces and not in the lexicon is copied to where the
    translation attends to it; not so with --unk-origin papers.

    With --shortlist, a large vocabulary costs less: a batch is translated with the N most frequent target words, the 20
    best translations of each of its source words in the lexicon, and the source words themselves. The lexicon has
    whole words, with or without BPE. Probabilities then sum to one over the words of the shortlist, and a translation
    may depend slightly on the other lines of its batch.

    bfloat16 and int8 round the numbers that are multiplied, so that scores differ slightly, and now and then a
    translation. What --precision auto takes depends on the machine; in float32 all machines agree but for the last
    digits. Given translations are scored in float32, unless --precision names another format.

    A line of more tokens than --max-input-length is cut into pieces: at the end of a sentence, or else at other
    punctuation, or else between words. Its pieces are translated and joined, and nothing is left out.

    Translations are written whenever standard input pauses, so the command can be used in a dialogue. A long text is
    shared among several processes.
    """
    # The rules between options of this command alone. Request has those that hold for Python as well.
    if n_best and scores != "none":
        raise UserError("--scores: an n-best list has them already; leave it out")
    if n_best and attention:
        raise UserError("--attention: of the best translation only; leave --n-best out")
    if seed is not None and not sample:
        raise UserError("--seed: is for --sample; add that, or leave it out")
    if lexicon and not replace_unk and shortlist is None:
        raise UserError("--lexicon: is for unknown words or a shortlist; add --replace-unk or --shortlist")
    request = Request(
        n_best=n_best, seed=(1 if seed is None else seed) if sample else None, tokenized=tokenized,
        prefixes=prefix is not None, references=score_reference is not None, alignment=alignment,
        attention=attention is not None, replace_unk=replace_unk, unk_origin=unk_origin, shortlist=shortlist,
        max_input_length=max_input_length, beam_size=beam_size, length_penalty=length_penalty, alpha=alpha,
        coverage_penalty=coverage_penalty, max_len_a=max_len_a, max_len_b=max_len_b, stop=stop, max_tokens=max_tokens,
    )  # fmt: skip
    # Request has refused both at once, so that there is one file at most.
    beside = prefix or score_reference
    read: list[Path | str] = [input, *filter(None, (beside, lexicon))]
    check_read_once(read)
    check_output("--output", output, *read)
    if attention:
        check_output("--attention", attention, *read)
        if output != "-" and real_path(attention) == real_path(Path(output)):
            raise UserError(f"--attention {attention}: is the output of the translations, too; name another file")
    # Somebody who types sees no prompt, and may wait for a command that is waiting too.
    typed = input == "-" and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)

    from nmtkit.machine.processes import CAN_FORK, loading

    with loading():
        # These take seconds, because they import torch.
        from nmtkit.translation import formats
        from nmtkit.translation.jobs import Job, Models, answers, processes_for, translator_of
        from nmtkit.translation.stream import LARGEST_WINDOW, Stream, decoded, standard_input, windows

        # A value and not a loaded model, because it is sent to worker processes, which have the model or load it.
        folders = at_checkpoint(model or [Path("run")], checkpoint)
        models = Models(tuple(folders), device, combine, parse_weights(weights), precision, lexicon).resolved()
        translator_of(models).check(request)  # here, where it is refused before a line is read or a process started
    translator = translator_of(models)
    copies = CAN_FORK and translator.device.type == "cpu"
    # A process that is not a copy takes as long to start as this one did. With --jobs, processes start at once.
    start = 0.0 if jobs or copies else time.process_time()
    # After loading, because the models' size says how many of them the memory holds.
    jobs = jobs or processes_for(translator)
    stream = Stream(standard_input()) if input == "-" else None
    # A file is always at hand; only standard input may pause.
    raw, at_hand = (stream, stream.at_hand) if stream else (raw_lines(input), lambda: True)
    lines = decoded(raw, "standard input" if input == "-" else input, _warn)
    pairs = beside_lines(lines, beside, input) if beside else ((line, "") for line in lines)
    grouped = windows(pairs, at_hand, LARGEST_WINDOW)
    # No progress line where it would stand between the translations, or in what is typed.
    shown = sys.stderr.isatty() and not typed and (output != "-" or not sys.stdout.isatty())
    line = formats.json_object if as_json else formats.moses if n_best else partial(formats.columns, scores)
    number = long = 0
    unknown = Counter[str]()
    with open_output(output) as file, formats.attention_arrays(attention) as keep, lines_done(shown) as report:
        for found in answers(Job(models, request), grouped, jobs, at_hand, start, copies=copies):
            for best in found:
                file.writelines(f"{line(number, translation)}\n" for translation in best)
                # Of the best translation alone, which is the only one that is asked for with --attention.
                keep(number, best[0])
                # Lines are numbered over the whole text, not within a window.
                number, long = number + 1, long + (best[0].pieces > 1)
                unknown.update(best[0].unknown._asdict() if best[0].unknown else {})
            file.flush()  # the reader may be waiting for the answer before the next line
            report(number)
    if any(unknown.values()):
        parts = f"{unknown['translated']} translated, {unknown['copied']} copied, {unknown['left']} left"
        log.info(f"nmtkit: unknown words ({unk_origin or 'matched'}): {parts}")
    if long:
        they, were = ("1 line is", "was") if long == 1 else (f"{long} lines are", "were")
        _warn(f"{they} longer than {request.limit} tokens (--max-input-length) and {were} translated in pieces")


def _warn(text: str) -> None:
    """Warn on stderr, so that stdout has the translations and nothing else."""
    print(f"nmtkit: warning: {text}", file=sys.stderr)
