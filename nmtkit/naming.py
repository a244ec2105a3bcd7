"""The names of files of parallel text: NAME.LANGUAGE and NAME.SRC-TGT.tsv (.csv, .tmx, .jsonl), also .gz and .zst."""

import re
from pathlib import Path

# Two or three letters and an optional region or script: en, pt-BR, zh_Hant.
LANGUAGE = r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*"
_BESIDE_HYPHEN = r"[A-Za-z]{2,3}(?:_[A-Za-z0-9]+)*"  # pt_BR
_WITH_REGION = r"[a-z]{2,3}(?:[-_][A-Z0-9][A-Za-z0-9]*)*"  # pt-BR: upper case tells the region from a language
_ONE = re.compile(rf"(.*)[.:]({LANGUAGE})")  # folder/:es is named :es
_BOTH = re.compile(  # en-PT-BR may be of en-PT and BR
    rf"(.+)\.({_BESIDE_HYPHEN}|{_WITH_REGION}(?=-[a-z]))-({_BESIDE_HYPHEN}|{_WITH_REGION})\.(?i:tsv|csv|tmx|jsonl?)"
)
_COMPRESSED = re.compile(r"\.(?:gz|zst)$")
NO_LANGUAGES = ("bpe", "raw", "src", "tgt", "tok")  # unless they are given: Bauni, Rawang, ... have these codes
_NOT_LANGUAGES = ("csv", "gz", "tmx", "tsv", "txt", "xml", "zst")
BY_LANGUAGE = ("tmx", "jsonl")  # kinds of files that say the language of each text


def stem(path: Path) -> str:
    """The name of a file without its suffix, and without .gz or .zst: train for train.tmx.gz."""
    return Path(_COMPRESSED.sub("", path.name)).stem


def kind(path: Path) -> str:
    """The kind of a file with both sides of a text, by its name: tsv, csv, tmx or jsonl; "" for any other file."""
    suffix = Path(_COMPRESSED.sub("", path.name)).suffix[1:].lower()
    suffix = "jsonl" if suffix == "json" else suffix
    return suffix if suffix in ("tsv", "csv", *BY_LANGUAGE) else ""


def sides(path: Path) -> tuple[str, dict[str, Path]]:
    """The name of the parallel text in a file and its sides by language, as paths of ``lines.raw_lines``.

    A file of one side has one; a table has its first two columns, a translation memory or JSON lines the languages of
    the name; the order is that in the name. Any other file has none.
    """
    plain = _COMPRESSED.sub("", path.name)
    if match := _BOTH.fullmatch(plain):
        name, first, second = match.groups()
        marks = (first, second) if kind(path) in BY_LANGUAGE else (1, 2)
        return name, {lang: Path(f"{path}:{mark}") for lang, mark in zip((first, second), marks, strict=True)}
    language = ending(path)
    return (path.name, {}) if language is None else (plain[: -len(language) - 1], {language: path})


def ending(path: Path) -> str | None:
    """The language at the end of a name: fr for corpus.fr.gz, memory.tmx:fr, folder:fr or folder/:fr."""
    match = _ONE.fullmatch(_COMPRESSED.sub("", path.name))
    return match[2] if match and match[2].lower() not in _NOT_LANGUAGES else None
