"""``nmtkit prep``: raw parallel text to a data folder."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from nmtkit.cli.options import AsJson, Jobs, Raw, SourceLanguage, TargetLanguage, log, say_next
from nmtkit.data.settings import Cleaning, Development, Drop, Prep, Side, Tokenizer
from nmtkit.errors import UserError
from nmtkit.training.folder import ModelFolder

TwoFiles = tuple[Path, Path]


def prep(
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    raw: Raw = Path("raw"),
    train: Annotated[TwoFiles | None, typer.Option(metavar="SRC TGT",
        help="Training text: two files, used instead of the folder --raw.")] = None,
    dev: Annotated[TwoFiles | None, typer.Option(metavar="SRC TGT", help="Development text: two files.")] = None,
    test: Annotated[TwoFiles | None, typer.Option(metavar="SRC TGT", help="Test text: two files.")] = None,
    dev_reference: Annotated[list[Path] | None, typer.Option(metavar="FILE",
        help="Another reference for the development text, used for BLEU in training; may be repeated.")] = None,
    dev_size: Annotated[int | None, typer.Option(min=1,
        help="Draw a development set of this many pairs from the training text.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of --dev-size.")] = Development.seed,
    output: Annotated[Path, typer.Option("--output", "-o", help="Data folder to write.")] = Path("data"),
    like: Annotated[Path | None, typer.Option(metavar="FOLDER",
        help="Tokenise and segment as in this data or model folder, whose BPE is used, too.")] = None,
    tokenizer: Annotated[list[str] | None, typer.Option(metavar="[LANGUAGE=]NAME", show_default=False,
        help="Tokenizer, for both languages or for one: moses; characters, for Chinese and Japanese; or none, for text "
        "whose words are separated by spaces already. May be repeated.  [default: moses]")] = None,
    tokenizer_command: Annotated[list[str] | None, typer.Option(metavar="LANGUAGE=COMMAND",
        help="Program that segments each line before the tokenizer: it answers each line with one line.")] = None,
    aggressive_hyphens: Annotated[bool, typer.Option("--aggressive-hyphens",
        help="Split words at hyphens, as in well @-@ known, like Moses' -a.")] = False,
    protect: Annotated[list[str] | None, typer.Option(metavar="REGEX",
        help="Do not split what matches this, like Moses' -protected; may be repeated.")] = None,
    escape: Annotated[bool, typer.Option("--escape",
        help="Escape special characters, as in &apos;, like Moses.")] = False,
    normalize: Annotated[bool | None, typer.Option("--normalize/--no-normalize", show_default=False,
        help="Normalise punctuation like Moses.  [default: yes, unless the tokenizer is none]")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case all text.")] = False,
    truecase: Annotated[bool, typer.Option("--truecase",
        help="Truecase: give the first word of each sentence its usual case.")] = False,
    bpe: Annotated[int | None, typer.Option(min=1, show_default=False,
        help=f"Number of BPE merges to learn.  [default: {Prep.merges}]")] = None,
    joint: Annotated[bool | None, typer.Option("--joint/--separate", show_default=False,
        help="Learn BPE or SentencePiece on both languages together or on each alone.  [default: joint]")] = None,
    sentencepiece: Annotated[int | None, typer.Option(min=1, metavar="N",
        help="Learn SentencePiece with N pieces instead of BPE, usually with --tokenizer none.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Use whole words, without BPE.")] = False,
    max_length: Annotated[int, typer.Option(min=0,
        help="Leave out training pairs with more words (before BPE) than this on either side; "
        "0: no limit.")] = Cleaning.max_length,
    max_ratio: Annotated[float, typer.Option(min=0,
        help="Leave out training pairs with one side more than this many times as long as the other; "
        "0: no limit.")] = Cleaning.max_ratio,
    drop: Annotated[str | None, typer.Option(metavar="RULE,...",
        help="Also leave out training pairs by these rules: identical, script, overlap, "
        "duplicate (see above).")] = None,
    keep_rejected: Annotated[Path | None, typer.Option(metavar="FILE",
        help="Write the training pairs that are left out to this file: line number, rule, both sides.")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N",
        help="Only tokenise and clean part I of N of the training text.")] = None,
    merge: Annotated[bool, typer.Option("--merge",
        help="Make the data folder from all parts made with --shard.")] = False,
    verify: Annotated[bool, typer.Option("--verify",
        help="Only compare the files in the data folder with its manifest.")] = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a data folder from raw parallel text: normalise, tokenise, clean, learn and apply BPE.

      nmtkit prep -s en -t fr

      nmtkit prep --train europarl.en.gz europarl.fr.gz --dev dev.en dev.fr --test test.en test.fr

      nmtkit prep --train text.en text.fr --dev-size 1000     (a development set drawn from the training text)

      nmtkit prep -s en -t fr --train crawl.tsv.gz:2 crawl.tsv.gz:4     (columns 2 and 4 of a table)

      nmtkit prep -s zh -t en --tokenizer zh=characters --escape --drop script,duplicate

      nmtkit prep -s de -t en --truecase --bpe 32000 --separate -o data-truecased

      nmtkit prep -s en -t fr --tokenizer none --sentencepiece 8000

      nmtkit prep --raw raw-news --like run -o data-news     (for nmtkit train --from run)

    Only training text is cleaned: pairs with control characters, an empty side, or too many words or too different
    lengths are left out, and with --drop also those with identical sides, in another script than the language's, that
    are in the development or test set, or that occurred before. The number of pairs and the first line numbers for each
    rule are shown and kept in manifest.json. Development and test text keep every line. All settings are kept in
    prep.yaml, and nmtkit translate repeats them.

    When a run is interrupted, the same command continues it. Machines that share a folder can share a large text:

      nmtkit prep -s en -t fr --shard 1/8     (and 2/8 to 8/8, on any machine)

      nmtkit prep -s en -t fr --merge
    """
    if words and (bpe is not None or sentencepiece is not None or joint is not None):
        raise UserError("--words: no word is split then; leave out --bpe, --sentencepiece, --joint and --separate")
    if bpe is not None and sentencepiece is not None:
        raise UserError("--bpe and --sentencepiece: words are split by one of them; leave the other out")
    chosen = {
        "--tokenizer": tokenizer, "--tokenizer-command": tokenizer_command, "--aggressive-hyphens": aggressive_hyphens,
        "--protect": protect, "--escape": escape, "--normalize": normalize, "--lowercase": lowercase,
        "--truecase": truecase, "--bpe": bpe, "--sentencepiece": sentencepiece, "--joint": joint, "--words": words,
    }  # fmt: skip
    if like is not None and (given := [name for name, value in chosen.items() if value not in (None, False)]):
        raise UserError(f"--like {like}: says how text is prepared; leave out {', '.join(given)}")
    if train is None and (dev or test):
        raise UserError("--dev and --test need --train; without it, all three are looked for in --raw")
    # A shard knows its own pairs only; what all of them make is for the command that merges.
    if as_json and (shard or verify):
        raise UserError("--json: is of a whole data folder; leave out --shard and --verify")
    if shard and (merge or keep_rejected):
        raise UserError("--shard: --merge and --keep-rejected are for the command that comes after every shard")

    from nmtkit.data import manifest
    from nmtkit.data.prep import prep_like, prepare, prepare_part
    from nmtkit.data.raw import Files, find_raw, language_of

    # Reads the folder alone: neither raw text nor settings are needed.
    if verify:
        log.info(manifest.verify(output))
        return
    try:
        cleaning = Cleaning(max_length, max_ratio, _rules(drop))
    except ValueError as error:
        raise UserError(str(error)) from None
    folder = None if like is None else ModelFolder.at(like).path
    alike = None if folder is None else prep_like(folder, cleaning)
    if alike is not None:
        src_lang, tgt_lang = src_lang or alike.src.language, tgt_lang or alike.tgt.language
        if (src_lang, tgt_lang) != (alike.src.language, alike.tgt.language):
            theirs = f"from {alike.src.language} to {alike.tgt.language}"
            raise UserError(f"--like {like}: is {theirs}, not from {src_lang} to {tgt_lang}")
    # Named files take the place of the folder as a whole, so that no set of it slips in.
    if train is None:
        files, src, tgt = find_raw(raw, src_lang, tgt_lang)
    else:
        named = {"train": train, "dev": dev, "test": test}
        files = {split: Files(*pair) for split, pair in named.items() if pair}
        # europarl.en.gz says its language in its name.
        src, tgt = src_lang or language_of(train[0]), tgt_lang or language_of(train[1])
    # Not a part of Prep: it says what the sets are, not how text becomes tokens.
    development = Development(tuple(dev_reference or ()), dev_size, seed)
    # What a user says of one language leaves the other one at its default.
    tokenizers = dict.fromkeys((src, tgt), "moses") | _by_language("--tokenizer", tokenizer or [], (src, tgt))
    commands = _by_language("--tokenizer-command", tokenizer_command or [], (src, tgt))
    # The dataclasses check their own values; here their ValueError becomes the user's one line.
    try:
        both = Side(
            "",
            aggressive_hyphens=aggressive_hyphens,
            protected=tuple(protect or ()),
            escape=escape,
            lowercase=lowercase,
            truecase=truecase,
            segmentation="words" if words else "bpe" if sentencepiece is None else "sentencepiece",
        )
        settings = alike or Prep(
            _side(both, src, tokenizers, commands.get(src), normalize),
            _side(both, tgt, tokenizers, commands.get(tgt), normalize),
            merges=Prep.merges if bpe is None else bpe,
            pieces=sentencepiece or Prep.pieces,
            joint=Prep.joint if joint is None else joint,
            cleaning=cleaning,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    if shard:
        log.info(prepare_part(files, output, settings, jobs, _part(shard), development, folder))
        return
    report = prepare(files, output, settings, jobs, keep_rejected, merge, development, folder)
    log.info(report)
    if as_json:
        # What is kept in manifest.json, too.
        print(json.dumps({"folder": str(output), **report.manifest}, indent=2, ensure_ascii=False))
    else:
        say_next("vocab", ("-d", output, "data"))


def _side(
    both: Side, language: str, tokenizers: Mapping[str, str], command: str | None, normalize: bool | None
) -> Side:
    """The settings of one language, made from those that both have in common."""
    name = _tokenizer(tokenizers[language])
    if name == "none" and set(tokenizers.values()) != {"none"}:  # what tokenizers do is for the other language alone
        both = replace(both, aggressive_hyphens=False, protected=(), escape=False)
    normalize = name != "none" if normalize is None else normalize
    # Text without a tokenizer is taken as it is; its punctuation too, unless that is asked for.
    return replace(both, language=language, normalize=normalize, command=command, tokenizer=name)


def _tokenizer(name: str) -> Tokenizer:
    """A name of a tokenizer as one; raises UserError for any other word."""
    # A loop and not ``in``, so that the type checker knows what is returned.
    for known in get_args(Tokenizer):
        if name == known:
            return cast(Tokenizer, known)
    raise UserError(f"--tokenizer {name}: there is none of this name; there are {', '.join(get_args(Tokenizer))}")


def _by_language(option: str, texts: list[str], languages: tuple[str, str]) -> dict[str, str]:
    """The values of ``[LANGUAGE=]VALUE`` by language; one without a language is for both."""
    values: dict[str, str] = {}
    for text in texts:
        language, equals, value = text.partition("=")
        # A tokenizer may be one for both languages; a program segments one language, which must be named.
        if not equals and option == "--tokenizer":
            values = dict.fromkeys(languages, text)
        elif language in languages and value:
            values[language] = value
        else:
            raise UserError(f"{option} {text}: expected LANGUAGE=VALUE with {' or '.join(languages)} as LANGUAGE")
    return values


def _rules(text: str | None) -> tuple[Drop, ...]:
    """``duplicate,identical`` as rules in the order in which they are tried."""
    names = text.split(",") if text else []
    for name in names:
        if name not in get_args(Drop):
            raise UserError(f"--drop {text}: no rule {name!r}; there are {', '.join(get_args(Drop))}")
    # In one order however they were typed: prep.yaml must be the same for a run that goes on.
    return tuple(rule for rule in get_args(Drop) if rule in names)


def _part(text: str) -> tuple[int, int]:
    """``1/8`` as two numbers; raises UserError for anything else."""
    # From 1, as people count parts.
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard {text}: give the number of the part and how many there are, as in 1/8")
    return int(match[1]), int(match[2])
