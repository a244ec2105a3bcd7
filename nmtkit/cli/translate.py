"""``nmtkit translate``: a filter from raw text to plain translations, one line out for every line in."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmtkit.cli.options import beside_lines, check_output, lines_done, open_output, parse_weights
from nmtkit.errors import UserError
from nmtkit.lines import raw_lines
from nmtkit.translation.request import Request


def translate(
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="Model folder [run]; several are an ensemble.")
    ] = None,
    input: Annotated[str, typer.Option("--input", "-i", help="File to translate (.gz and .zst too).")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File for the translations.")] = "-",
    beam_size: Annotated[int | None, typer.Option("--beam-size", "-b", min=1, help="Hypotheses kept.")] = None,
    length_penalty: Annotated[
        Literal["none", "avg", "gnmt", "power"] | None,
        typer.Option(help="Rank by log P, log P / |y|, log P / ((5 + |y|) / 6)^alpha, or log P / |y|^alpha."),
    ] = None,
    alpha: Annotated[float | None, typer.Option(min=0.0, help="Exponent of --length-penalty gnmt or power.")] = None,
    coverage_penalty: Annotated[
        float | None, typer.Option(min=0.0, help="The beta of Wu et al. 2016: how much unread source words cost.")
    ] = None,
    max_len_a: Annotated[
        float | None, typer.Option(min=0.0, help="A translation has at most A words for every source word ...")
    ] = None,
    max_len_b: Annotated[int | None, typer.Option(min=1, help="... and B more.")] = None,
    stop: Annotated[
        Literal["all", "bound", "first"] | None,
        typer.Option(help="When a line is done: all, at no risk [default]; bound, sooner; first, soonest."),
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Write the N best of each line as 'line ||| text ||| score'.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw from the model's distribution instead of searching the best.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="For --sample: the same seed draws the same.  [default: 1]")
    ] = None,
    prefix: Annotated[
        Path | None, typer.Option(help="File that says, line by line, how the translation must begin.")
    ] = None,
    score_reference: Annotated[
        Path | None, typer.Option(help="File of translations to score, line by line, instead of translating.")
    ] = None,
    scores: Annotated[
        Literal["none", "sentence", "token"],
        typer.Option(help="sentence: the score and a tab before each translation. token: also a tab and the tokens'."),
    ] = "none",
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Write a tab and 'source-target' word pairs after each translation.")
    ] = False,
    attention: Annotated[
        Path | None, typer.Option(help="File (.npz) for the attention matrix of each translation, and its tokens.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON object for each translation.")] = False,
    replace_unk: Annotated[
        bool, typer.Option("--replace-unk", help="Translate unknown words by the model's lexicon, or copy them.")
    ] = False,
    lexicon: Annotated[
        Path | None,
        typer.Option(help="For --replace-unk and --shortlist: this one of nmtkit align instead of the model's own."),
    ] = None,
    shortlist: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Use only the N most frequent target words and the lexicon's translations of the words in a batch.",
        ),
    ] = None,
    max_input_length: Annotated[
        int | None,
        typer.Option(min=1, show_default=False, help="Translate a line of more tokens in pieces.  [default: 250]"),
    ] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Read and write tokens, segmented as in the data folder.")
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Batch size: source tokens times beam. Less needs less memory.")
    ] = None,
    combine: Annotated[
        Literal["prob", "logprob"] | None,
        typer.Option(help="Of an ensemble: the mean of probabilities [prob], or of their logarithms."),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Of an ensemble: one number for each model, as 2,1,1.")] = None,
    precision: Annotated[
        Literal["float32", "int8"],
        typer.Option(help="int8: the output layer in 8-bit integers, for speed on a CPU."),
    ] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes for a long text.  [default: one per core; 1 on a GPU]", show_default=False),
    ] = None,
) -> None:
    """Translate text: one line out for every line in, in order; a blank line for a blank line.

      nmtkit translate < in.txt > out.txt

      zcat big.gz | nmtkit translate --beam-size 10 --scores sentence | cut -f1

      nmtkit translate -m one -m two -m three < in.txt > out.txt

      nmtkit translate --score-reference out.txt --scores token < in.txt

    Search settings that are not given are those the model was trained with. A score is the log-probability (base
    e) under the penalties; that of a token is its bare log-probability, that of the end-of-sentence mark comes last.
    Word pairs count from 0, in tokenised words (in tokens with --tokenized); a word for which the model looked nowhere
    has none. In an n-best list the lines count from 0 and the word pairs are a fourth field. A line is sampled alike
    wherever it stands. The arrays of --attention are N.attention (target tokens, source tokens), N.source and N.target
    of line N, counted from 0, end-of-sentence marks included.

    With --replace-unk, a word that the model writes as unknown is replaced by the translation of a source word in the
    lexicon that nmtkit align made, or else by that source word as it was typed: the one that the model looked at
    most, or, if it was trained on a corpus of nmtkit vocab --unkpos, the one that it names itself.

    With --shortlist, a large vocabulary costs less: a batch is translated with the N most frequent target words, the 20
    best translations that the lexicon has for each of its source words, and those words themselves. The lexicon is of
    whole words, whether the model has BPE or not. Scores are then of probabilities that sum to one over these words,
    and what a line becomes may depend a little on the lines around it.

    A line of more tokens than --max-input-length is translated in pieces, which are cut at the end of a sentence where
    there is one, else at other punctuation, else between words. Nothing is left out, and what is written is that of the
    whole line.

    Answers are written as soon as the input pauses, so that it works in a dialogue too. A long text is shared by
    several processes.
    """
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
        attention=attention is not None, replace_unk=replace_unk, shortlist=shortlist,
        max_input_length=max_input_length, beam_size=beam_size, length_penalty=length_penalty, alpha=alpha,
        coverage_penalty=coverage_penalty, max_len_a=max_len_a, max_len_b=max_len_b, stop=stop, max_tokens=max_tokens,
    )  # fmt: skip
    beside = prefix or score_reference
    check_output(output, input, *([beside] if beside else []))
    typed = input == "-" and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)

    # These take seconds, because they import torch.
    from nmtkit.translation import formats
    from nmtkit.translation.jobs import SHARED_WINDOW, Job, Models, answers, processes_for, translator_of
    from nmtkit.translation.stream import LARGEST_WINDOW, Stream, decoded, standard_input, windows

    models = Models(tuple(model or [Path("run")]), device, combine, parse_weights(weights), precision, lexicon)
    translator_of(models).check(request)
    jobs = jobs or processes_for(translator_of(models))
    stream = Stream(standard_input()) if input == "-" else None
    raw, at_hand = (stream, stream.at_hand) if stream else (raw_lines(input), lambda: True)
    lines = decoded(raw, "standard input" if input == "-" else input, _warn)
    pairs = beside_lines(lines, beside, input) if beside else ((line, "") for line in lines)
    grouped = windows(pairs, at_hand, LARGEST_WINDOW if jobs == 1 else SHARED_WINDOW)
    # No progress line where it would stand between the translations, or in what is typed.
    shown = sys.stderr.isatty() and not typed and (output != "-" or not sys.stdout.isatty())
    line = formats.json_object if as_json else formats.moses if n_best else partial(formats.columns, scores)
    number = long = 0
    with open_output(output) as file, formats.attention_arrays(attention) as keep, lines_done(shown) as report:
        for found in answers(Job(models, request), grouped, jobs, at_hand):
            for best in found:
                file.writelines(f"{line(number, translation)}\n" for translation in best)
                keep(number, best[0])
                number, long = number + 1, long + (best[0].pieces > 1)
            file.flush()
            report(number)
    if long:
        they, were = ("1 line is", "was") if long == 1 else (f"{long} lines are", "were")
        _warn(f"{they} longer than {request.limit} tokens (--max-input-length) and {were} translated in pieces")


def _warn(text: str) -> None:
    print(f"nmtkit: warning: {text}", file=sys.stderr)
