"""``prep``: raw parallel text to a data folder, from plain arguments."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.text.settings import MOSES, Cleaning, Development, Drop, Prep, Side, Tokenizer

if TYPE_CHECKING:
    from nmtkit.text.manifest import PrepReport
    from nmtkit.text.raw import Files

TwoFiles = tuple[Path | str, Path | str]


def prep(
    raw: Path | str = "raw",
    output: Path | str = "data",
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    train: TwoFiles | None = None,
    dev: TwoFiles | None = None,
    test: TwoFiles | None = None,
    dev_reference: Sequence[Path | str] = (),
    dev_size: int | None = None,
    seed: int = Development.seed,
    like: Path | str | None = None,
    tokenizer: str | Sequence[str] = (),
    tokenizer_command: str | Sequence[str] = (),
    aggressive_hyphens: bool = False,
    protect: str | Sequence[str] = (),
    escape: bool = False,
    normalize: bool | None = None,
    lowercase: bool = False,
    truecase: bool = False,
    bpe: int | None = None,
    sentencepiece: int | None = None,
    joint: bool | None = None,
    words: bool = False,
    max_length: int = Cleaning.max_length,
    max_ratio: float = Cleaning.max_ratio,
    drop: str | Sequence[str] = (),
    keep_rejected: Path | str | None = None,
    shard: str | None = None,
    merge: bool = False,
    jobs: int | None = None,
) -> "PrepReport | str":
    """Make a data folder from raw parallel text: ``nmtkit prep``, whose options have these names and defaults.

    raw: a folder with {train,dev,test}.LANGUAGE; or else train, dev, test: two files each. tokenizer,
    tokenizer_command, protect, drop: one or several, as on the command line (``tokenizer="zh=characters"``). like: a
    data or model folder whose text this one is to match. Returns a report with the manifest, which prints for people,
    or for a ``shard`` such as "1/8" a line of text. As always in Python, a script that starts processes (``jobs``) must
    do so below ``if __name__ == "__main__":``. Raises UserError for text that cannot be used, and for arguments that
    exclude each other.
    """
    # In their order on the command line. False is a choice where None is the default.
    chosen = {
        "tokenizer": tokenizer, "tokenizer_command": tokenizer_command,
        "aggressive_hyphens": aggressive_hyphens or None, "protect": protect, "escape": escape or None,
        "normalize": normalize, "lowercase": lowercase or None, "truecase": truecase or None, "bpe": bpe,
        "sentencepiece": sentencepiece, "joint": joint, "words": words or None,
    }  # fmt: skip
    given = [name for name, value in chosen.items() if value not in (None, (), [])]
    if like is not None and given:
        raise UserError(f"`like` {like}: says how text is prepared; leave out {_names(given)}")
    if words and (split := [name for name in ("bpe", "sentencepiece", "joint") if name in given]):
        raise UserError(f"`words`: no word is split then; leave out {_names(split)}")
    if bpe is not None and sentencepiece is not None:
        raise UserError("`bpe` and `sentencepiece`: words are split by one of them; leave the other out")
    if train is None and (dev or test):
        raise UserError("`dev` and `test` need `train`; without it, all three are looked for in `raw`")
    # A shard knows its own pairs only; what all of them make is for the call that merges.
    if shard and (merge or keep_rejected):
        raise UserError("`shard`: `merge` and `keep_rejected` are for the command that comes after every shard")

    model = ModelFolder(Path(output))
    if model.config.exists() or model.bundle.exists():
        raise UserError(f"`output` {output}: a model, which reads text by files of the same names; name another folder")

    from nmtkit.text.prep import prep_like, prepare, prepare_part

    # The dataclasses check their own values; here their ValueError becomes the user's one line.
    try:
        cleaning = Cleaning(max_length, max_ratio, _rules(drop))
        folder = None if like is None else ModelFolder.at(Path(like)).path
        alike = None if folder is None else prep_like(folder, cleaning)
        if alike is not None:
            src_lang, tgt_lang = src_lang or alike.src.language, tgt_lang or alike.tgt.language
            if (src_lang, tgt_lang) != (alike.src.language, alike.tgt.language):
                theirs = f"from {alike.src.language} to {alike.tgt.language}"
                raise UserError(f"`like` {like}: is {theirs}, not from {src_lang} to {tgt_lang}")
        named = {"train": train, "dev": dev, "test": test}
        files, src, tgt = _files(Path(raw), named, src_lang, tgt_lang, drawn=dev_size is not None)
        both = Side(
            "", aggressive_hyphens=aggressive_hyphens, protected=_several(protect), escape=escape, lowercase=lowercase,
            truecase=truecase,
            segmentation="words" if words else "bpe" if sentencepiece is None else "sentencepiece",
        )  # fmt: skip
        # What a user says of one language leaves the other one at its default.
        tokenizers = {src: "reversible", tgt: "reversible"} | _by_language("tokenizer", _several(tokenizer), (src, tgt))
        commands = _by_language("tokenizer_command", _several(tokenizer_command), (src, tgt))
        settings = alike or Prep(
            _side(both, src, tokenizers, commands.get(src), normalize),
            _side(both, tgt, tokenizers, commands.get(tgt), normalize),
            merges=bpe,
            pieces=Prep.pieces if sentencepiece is None else sentencepiece,
            joint=Prep.joint if joint is None else joint,
            cleaning=cleaning,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    # Not a part of Prep: it says what the sets are, not how text becomes tokens.
    development = Development(tuple(map(Path, dev_reference)), dev_size, seed)
    if shard:
        return prepare_part(files, Path(output), settings, jobs, _part(shard), development, folder)
    rejected = None if keep_rejected is None else Path(keep_rejected)
    return prepare(files, Path(output), settings, jobs, rejected, merge, development, folder)


def _names(arguments: Sequence[str]) -> str:
    """Names of arguments as messages have them."""
    return ", ".join(f"`{name}`" for name in arguments)


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    """One text or several, as several."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _files(
    raw: Path, named: Mapping[str, TwoFiles | None], src: str | None, tgt: str | None, drawn: bool
) -> "tuple[Mapping[str, Files], str, str]":
    """The files of each set, and both languages: from a folder, or those that are named; ``drawn`` as for a folder."""
    from nmtkit.text.raw import Files, find_raw, language_of

    # Named files take the place of the folder as a whole, so that no set of it slips in.
    if named["train"] is None:
        return find_raw(raw, src, tgt, drawn)
    files = {split: Files(*map(Path, pair)) for split, pair in named.items() if pair}
    # europarl.en.gz says its language in its name.
    return files, src or language_of(files["train"].src), tgt or language_of(files["train"].tgt)


def _side(
    both: Side, language: str, tokenizers: Mapping[str, str], command: str | None, normalize: bool | None
) -> Side:
    """The settings of one language, made from those that both have in common."""
    name = _tokenizer(tokenizers[language])
    if name not in MOSES and set(tokenizers.values()) & set(MOSES):  # what Moses does is for the other language alone
        both = replace(both, aggressive_hyphens=False, protected=(), escape=False)
    # Only Moses changes punctuation unasked.
    normalize = name in MOSES if normalize is None else normalize
    return replace(both, language=language, normalize=normalize, command=command, tokenizer=name)


def _tokenizer(name: str) -> Tokenizer:
    """A name of a tokenizer as one; raises UserError for any other word."""
    # A loop and not ``in``, so that the type checker knows what is returned.
    for known in get_args(Tokenizer):
        if name == known:
            return cast(Tokenizer, known)
    raise UserError(f"`tokenizer` {name}: unknown tokenizer; known: {', '.join(get_args(Tokenizer))}")


def _by_language(argument: str, texts: Sequence[str], languages: tuple[str, str]) -> dict[str, str]:
    """The values of ``[LANGUAGE=]VALUE`` by language; one without a language is for both."""
    values: dict[str, str] = {}
    for text in texts:
        language, equals, value = text.partition("=")
        # A tokenizer may be one for both languages; a program segments one language, which must be named.
        if not equals and argument == "tokenizer":
            values = dict.fromkeys(languages, text)
        elif language in languages and value:
            values[language] = value
        else:
            raise UserError(f"`{argument}` {text}: expected LANGUAGE=VALUE with {' or '.join(languages)} as LANGUAGE")
    return values


def _rules(drop: str | Sequence[str]) -> tuple[Drop, ...]:
    """``duplicate,identical``, or a list of these, as rules in the order in which they are tried."""
    names = [name for text in _several(drop) for name in text.split(",")]
    for name in names:
        if name not in get_args(Drop):
            known = ", ".join(get_args(Drop))
            raise UserError(f"`drop` {','.join(names)}: unknown rule {name!r}; known: {known}")
    # In one order however they were given: prep.yaml must be the same for a run that goes on.
    return tuple(rule for rule in get_args(Drop) if rule in names)


def _part(text: str) -> tuple[int, int]:
    """``1/8`` as two numbers; raises UserError for anything else."""
    # From 1, as people count parts.
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"`shard` {text}: give the number of the part and how many there are, as in 1/8")
    return int(match[1]), int(match[2])
