"""``prep``: raw parallel text to a data folder."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from nmtkit.errors import UserError, check_choice
from nmtkit.folders import ModelFolder, TextFiles
from nmtkit.options import Option, by_keyword, option, options_of
from nmtkit.text.settings import MOSES, Cleaning, Drop, Prep, SetOptions, Side, Tokenizer, load_prep
from nmtkit.workflow.shared import JOBS, RAW, SOURCE_LANGUAGE, TARGET_LANGUAGE, several
from nmtkit.workflow.texts import DEV, SETS, TEST, TRAIN, TwoFiles, raw_texts
from nmtkit.writing import real_path

if TYPE_CHECKING:
    from nmtkit.text.manifest import PrepReport

# Groups of the help.
TOKENS, SEGMENTATION, CLEANING, LARGE = "Tokenisation", "Segmentation", "Cleaning", "Large text"


# fmt: off
@dataclass(frozen=True)
class PrepOptions:
    """The options of ``prep``, in the order of its help."""

    raw: Path | str = option("raw", RAW)
    output: Path | str = option("data", Option("Data folder to write.", names="--output -o"))
    _: KW_ONLY
    src_lang: str | None = option(None, replace(SOURCE_LANGUAGE, before="raw"))
    tgt_lang: str | None = option(None, replace(TARGET_LANGUAGE, before="raw"))

    train: TwoFiles | None = option(None, TRAIN)
    dev: TwoFiles | None = option(None, DEV)
    test: TwoFiles | None = option(None, TEST)
    dev_reference: Sequence[Path | str] = option((), Option(
        "Additional reference for the development text, for BLEU during training; may be repeated.", SETS,
        metavar="FILE"))
    dev_size: int | None = option(None, Option(
        "Sample a development set of this many pairs from the training text.", SETS, at_least=1))
    test_size: int | None = option(None, Option(
        "Sample a test set of this many pairs from the training text.", SETS, at_least=1))
    seed: int = option(SetOptions.seed, Option("Random seed for --dev-size and --test-size.", SETS, at_least=0))

    like: Path | str | None = option(None, Option(
        "Tokenise, truecase and segment as in this data or model folder, with the models learnt there.", TOKENS,
        metavar="FOLDER"))
    tokenizer: str | Sequence[str] = option((), Option(
        "Tokenizer for both languages, or for one: reversible, which detokenises to the original text in every "
        "language; moses, as in papers, with rules for as, bn, ca, cs, de, el, en, es, et, fi, fr, ga, gu, "
        "hi, hu, is, it, kn, lt, lv, ml, mni, mr, nl, or, pa, pl, pt, ro, ru, sk, sl, sv, ta, tdt, te, yue and zh; "
        "characters, which is Moses with each Chinese or Japanese character as a word; or none, for words separated by "
        "spaces. May be repeated.  [default: reversible]", TOKENS, metavar="[LANGUAGE=]NAME"))
    tokenizer_command: str | Sequence[str] = option((), Option(
        "Program that segments text before it is tokenised, and writes one line for each line that it reads.", TOKENS,
        metavar="LANGUAGE=COMMAND"))
    aggressive_hyphens: bool = option(False, Option(
        "Split words at hyphens (well @-@ known), like Moses' -a.", TOKENS))
    protect: str | Sequence[str] = option((), Option(
        "Do not split text that matches this regular expression, like Moses' -protected; may be repeated.", TOKENS,
        metavar="REGEX"))
    escape: bool = option(False, Option("Escape special characters (&apos;), like Moses.", TOKENS))
    normalize: bool | None = option(None, Option(
        "Normalise punctuation like Moses: typographic quotes and dashes become plain ones, also in "
        "translations.  [default: yes for the tokenizers moses and characters]", TOKENS))
    lowercase: bool = option(False, Option("Lower-case all text.", TOKENS))
    mask_placeholders: bool = option(False, Option(
        "Replace {name}, %s, URLs and other placeholders found on both sides of a training pair with special words; "
        "nmtkit translate does the same.", TOKENS))
    truecase: bool = option(False, Option(
        "Truecase: give the first word of each sentence its most frequent case.", TOKENS))

    bpe: int | None = option(None, Option(
        "Number of BPE merges to learn.  [default: 2000 to 32000, by the number of training words]", SEGMENTATION,
        at_least=1))
    joint: bool | None = option(None, Option(
        "Learn BPE or SentencePiece on both languages together, or on each separately.  [default: joint]", SEGMENTATION,
        names="--joint/--separate"))
    sentencepiece: int | None = option(None, Option(
        "Learn SentencePiece with N pieces instead of BPE, usually with --tokenizer none.", SEGMENTATION, metavar="N",
        at_least=1))
    words: bool = option(False, Option("Use whole words, without BPE.", SEGMENTATION))

    max_length: int = option(Cleaning.max_length, Option(
        "Leave out training pairs with more words (before BPE) than this on either side; 0: no limit.", CLEANING,
        at_least=0))
    max_ratio: float = option(Cleaning.max_ratio, Option(
        "Leave out training pairs with one side more than this many times as long as the other; 0: no limit.",
        CLEANING, at_least=0))
    drop: str | Sequence[str] = option((), Option(
        "Also apply these cleaning rules: identical, script, overlap, duplicate (see above).", CLEANING,
        metavar="RULE,..."))
    keep_rejected: Path | str | None = option(None, Option(
        "Write the training pairs that are left out to this file: line number (in a folder, counted through all its "
        "texts in the order of their names), rule, both sides.", CLEANING, metavar="FILE"))

    shard: str | None = option(None, Option(
        "Only tokenise and clean part I of N of the training text.", LARGE, metavar="I/N"))
    merge: bool = option(False, Option("Make the data folder from all parts made with --shard.", LARGE))
    jobs: int | None = option(None, JOBS.within(LARGE))
# fmt: on


def prepare(options: PrepOptions) -> "PrepReport | str":
    """Make a data folder from raw parallel text: ``nmtkit prep``.

    Options that may be repeated on the command line take one value or several. Returns a report with the manifest, or
    for a ``shard`` such as "1/8" a line of text; both can be printed. Raises UserError for invalid text, and for
    arguments that cannot be combined.
    """
    _check(options)
    like, shard, output = options.like, options.shard, Path(options.output)
    references = tuple(map(Path, options.dev_reference))
    held_out = SetOptions(references, options.dev_size, options.test_size, options.seed)
    from nmtkit.text import prep as text_prep

    # The dataclasses check their values; their ValueError becomes a UserError.
    try:
        cleaning = Cleaning(options.max_length, options.max_ratio, _rules(options.drop))
        folder = None if like is None else _folder_like(Path(like))
        alike = None if folder is None else text_prep.prep_like(folder, cleaning)
        src_lang, tgt_lang = options.src_lang, options.tgt_lang
        if alike is not None:
            src_lang, tgt_lang = src_lang or alike.src.language, tgt_lang or alike.tgt.language
            if (src_lang, tgt_lang) != alike.languages:
                theirs = " to ".join(alike.languages)
                raise UserError(f"`like` {like}: is from {theirs}, not from {src_lang} to {tgt_lang}")
        named = {"train": options.train, "dev": options.dev, "test": options.test}
        asked = bool(options.src_lang or options.tgt_lang)  # else they may be those of ``like``
        files, src, tgt = raw_texts(options.raw, named, (src_lang, tgt_lang), held_out.sizes, asked=asked)
        if TextFiles(output).settings.is_file():
            there = load_prep(output).languages
            if there != (src, tgt):
                theirs = f"has text from {' to '.join(there)}, which would be replaced"
                raise UserError(f"`output` {output}: {theirs}; name another folder, or remove it")
        settings = alike or _settings(options, src, tgt, cleaning)
    except ValueError as error:
        raise UserError(str(error)) from None
    if shard:
        return text_prep.prepare_part(files, output, settings, options.jobs, _part(shard), held_out, folder)
    rejected = None if options.keep_rejected is None else Path(options.keep_rejected)
    return text_prep.prepare(files, output, settings, options.jobs, rejected, options.merge, held_out, folder)


prep = by_keyword(PrepOptions, prepare, "prep")


def _check(options: PrepOptions) -> None:
    """Raise UserError for options that cannot be combined, and for an output folder that has something else."""
    text = (TOKENS, SEGMENTATION)
    given = [
        field.name
        for field, shown in options_of(PrepOptions)
        if shown.group in text and field.name != "like" and getattr(options, field.name) not in (field.default, [])
    ]
    if options.like is not None and given:
        raise UserError(f"`like` {options.like}: has its own settings; leave out {_names(given)}")
    if options.words and (split := [name for name in ("bpe", "sentencepiece", "joint") if name in given]):
        raise UserError(f"`words`: words are not split; leave out {_names(split)}")
    if options.bpe is not None and options.sentencepiece is not None:
        raise UserError("`bpe` and `sentencepiece` cannot be combined; leave one of them out")
    if options.shard and (options.merge or options.keep_rejected):
        raise UserError("`shard`: `merge` and `keep_rejected` are for the command that merges the shards")
    output = Path(options.output)
    model = ModelFolder(output)
    if model.config.exists() or model.bundle.exists():
        raise UserError(f"`output` {output}: is a model folder, whose files would be replaced; name another one")
    if options.train is None and real_path(output) == real_path(Path(options.raw)):
        raise UserError(f"`output` {output}: is the folder of the raw text; name another one")


def _folder_like(path: Path) -> Path:
    """The data or model folder at ``path``. Raises UserError for one that never has settings of ``prep``."""
    folder = ModelFolder.at(path).path
    if ModelFolder(folder).bundle.exists():
        raise UserError(f"`like` {path}: is an ensemble; name one of its models, in {ModelFolder(folder).members}")
    if folder.is_dir() and not TextFiles(folder).settings.exists():
        settings = TextFiles(folder).settings.name
        raise UserError(
            f"`like` {path}: has no {settings}; name a data or model folder (nmtkit import makes one from the model of "
            "another toolkit)"
        )
    return folder


def _settings(options: PrepOptions, src: str, tgt: str, cleaning: Cleaning) -> Prep:
    """The settings of a data folder in these languages. Raises ValueError for settings that cannot be combined."""
    both = Side(
        "", aggressive_hyphens=options.aggressive_hyphens, protected=tuple(several(options.protect)),
        escape=options.escape, lowercase=options.lowercase, truecase=options.truecase,
        segmentation="words" if options.words else "bpe" if options.sentencepiece is None else "sentencepiece",
    )  # fmt: skip
    # The default is for a language that no option names.
    default = {src: "reversible", tgt: "reversible"}
    tokenizers = default | _by_language("tokenizer", several(options.tokenizer), (src, tgt))
    commands = _by_language("tokenizer_command", several(options.tokenizer_command), (src, tgt))
    return Prep(
        _side(both, src, tokenizers, commands.get(src), options.normalize),
        _side(both, tgt, tokenizers, commands.get(tgt), options.normalize),
        merges=options.bpe,
        pieces=Prep.pieces if options.sentencepiece is None else options.sentencepiece,
        joint=Prep.joint if options.joint is None else options.joint,
        mask=options.mask_placeholders,
        cleaning=cleaning,
    )


def _names(arguments: Sequence[str]) -> str:
    """Names of arguments for a message."""
    return ", ".join(f"`{name}`" for name in arguments)


def _side(
    both: Side, language: str, tokenizers: Mapping[str, str], command: str | None, normalize: bool | None
) -> Side:
    """The settings of one language; both: the settings that the languages share."""
    name = tokenizers[language]
    check_choice("tokenizer", name, Tokenizer)
    if name not in MOSES and set(tokenizers.values()) & set(MOSES):  # the options of Moses are for the other language
        both = replace(both, aggressive_hyphens=False, protected=(), escape=False)
    # By default, only Moses normalises punctuation.
    normalize = name in MOSES if normalize is None else normalize
    return replace(both, language=language, normalize=normalize, command=command, tokenizer=cast(Tokenizer, name))


def _by_language(argument: str, texts: Sequence[str], languages: tuple[str, str]) -> dict[str, str]:
    """The values of ``[LANGUAGE=]VALUE`` by language; a tokenizer without a language is for those that none names."""
    general, values = dict[str, str](), dict[str, str]()
    for text in texts:
        language, equals, value = text.partition("=")
        if not equals and argument == "tokenizer":
            general = dict.fromkeys(languages, text)
        elif language in languages and value:
            values[language] = value
        else:
            raise UserError(f"`{argument}` {text}: expected LANGUAGE=VALUE with {' or '.join(languages)} as LANGUAGE")
    return general | values


def _rules(drop: str | Sequence[str]) -> tuple[Drop, ...]:
    """The rules in ``duplicate,identical`` or a list of these, in the order in which they are applied."""
    names = [name for text in several(drop) for name in text.split(",")]
    for name in names:
        check_choice("drop", name, Drop)
    return tuple(rule for rule in get_args(Drop) if rule in names)


def _part(text: str) -> tuple[int, int]:
    """The two numbers of a shard such as ``1/8``. Raises UserError for other text."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"`shard` {text}: expected PART/PARTS, as in 1/8")
    return int(match[1]), int(match[2])
