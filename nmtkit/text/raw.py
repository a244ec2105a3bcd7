"""Raw parallel text: its files, and checks that both sides are UTF-8 and equally long."""

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple, cast
from unicodedata import is_normalized

from nmtkit import naming
from nmtkit.errors import UserError, check_lines
from nmtkit.folders import SIDES, SPLITS
from nmtkit.lines import (
    CARRIAGE_RETURN,
    at_line,
    decode_line,
    file_of,
    files_in,
    parse_line,
    raw_lines,
    rows,
    text_in,
    texts_of,
)
from nmtkit.machine.processes import Workers
from nmtkit.machine.progress import progress
from nmtkit.text.aligned import FIRST_MISALIGNED, misaligned
from nmtkit.text.settings import SetOptions
from nmtkit.text.tables import warn_of_odd_rows
from nmtkit.writing import real_path

NO_WORDS = "no pair of the development set has words on both sides"

log = logging.getLogger(__name__)


class Files(NamedTuple):
    """The two sides of a parallel text."""

    src: Path
    tgt: Path

    @property
    def texts(self) -> list["Files"]:
        """The parallel texts that it consists of: those in a folder, or itself alone."""
        src, tgt = map(texts_of, self)
        return [self] if len(src) != len(tgt) else [Files(*pair) for pair in zip(src, tgt, strict=True)]


class Content(NamedTuple):
    """The facts about a raw text file that prep reads first."""

    lines: int
    sha256: str
    nfc: int  # lines that are not in Unicode's normal form NFC
    nfd: int  # lines that are not in NFD


def stamp(path: Path) -> tuple[int, int] | None:
    """The size in bytes and modification time in ns of a file, which reveal a change; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def input_files(raw: Mapping[str, Files], held_out: SetOptions) -> list[Path]:
    """The files of all sets, and further references of the development set."""
    return [file_of(text)[0] for path in chain(held_out.references, *raw.values()) for text in texts_of(path)]


def check_outside(raw: Mapping[str, Files], path: Path, name: str) -> None:
    """Raise UserError if the output ``path`` of an option is in a folder of texts, and would be read as one."""
    for folder in (file_of(side)[0] for files in raw.values() for side in files):
        if folder.is_dir() and real_path(folder) in (real_path(path), *real_path(path).parents):
            raise UserError(f"`{name}` {path}: is in the folder of the texts, {folder}; name another place")


def read_all(
    raw: Mapping[str, Files], references: Sequence[Path], pool: Workers, languages: Sequence[str]
) -> dict[str, list[Content]]:
    """The contents of both sides of each split; those of dev are followed by its further references.

    languages: source and target, by which the header of a table is recognised, to warn of it.
    Raises UserError for a line that is not UTF-8, for sides of different lengths, and for a file that is both sides.
    """
    if references and "dev" not in raw:
        raise UserError(f"{references[0]}: a reference needs a development set; give its two files, too")
    groups = {split: [*files, *(references if split == "dev" else ())] for split, files in raw.items()}
    texts = {path: texts_of(path) for group in groups.values() for path in group}
    paths = [text for of_path in texts.values() for text in of_path]
    for path in paths:
        _check_file(path)
    sides = [side for files in raw.values() for text in files.texts for side in zip(languages, text, strict=True)]
    warn_of_odd_rows([*sides, *((languages[1], path) for path in references)])
    with progress("counting lines"):
        contents = dict(zip(paths, pool.map(read, paths), strict=True))
    for path in contents:
        if contents[path].lines == 1 and b"\r" in next(raw_lines(path)).strip(b"\r\n"):
            log.warning(f"{at_line(path, 1)}: {CARRIAGE_RETURN}")
    contents |= {path: _joined([contents[text] for text in of_path]) for path, of_path in texts.items()}
    # The texts of a folder, so that a message names the file, and the whole sides, also of further references.
    pairs = [tuple(pair) for files in raw.values() for pair in files.texts]
    pairs += [(src, tgt) for src, *others in groups.values() for tgt in others]
    for src, tgt in dict.fromkeys(pairs):
        if real_path(src) == real_path(tgt):
            raise UserError(f"{src}: is given for both sides; give a source file and a target file")
        if contents[src].lines != contents[tgt].lines:
            found = misaligned(src, tgt)
            remedy = f"they must be aligned line by line: {FIRST_MISALIGNED}{f' ({found})' if found else ''}"
            check_lines(src, contents[src].lines, tgt, contents[tgt].lines, remedy)
    if "dev" in raw and not has_words(raw["dev"]):
        raise UserError(f"{raw['dev'].src}, {raw['dev'].tgt}: {NO_WORDS}; training needs another one")
    if not contents[raw["train"].src].lines:
        raise UserError(f"{raw['train'].src}: no lines; there is nothing to train on")
    every = {split: [contents[path] for path in group] for split, group in groups.items()}
    for split, (one, other, *_) in every.items():
        if one.lines and one.sha256 == other.sha256:
            log.warning(f"{raw[split].src}, {raw[split].tgt}: the same text; name the translation as the target")
    for split in SPLITS[1:]:
        if split in every and every[split][:2] == every["train"]:
            log.warning(f"{raw[split].src}, {raw[split].tgt}: the same text as train, so scores on it are meaningless")
    return every


def _joined(contents: Sequence[Content]) -> Content:
    """The content of texts one after the other."""
    if len(contents) == 1:
        return contents[0]
    lines, sums, nfc, nfd = zip(*contents, strict=True)
    return Content(sum(lines), hashlib.sha256("".join(sums).encode()).hexdigest(), sum(nfc), sum(nfd))


def _check_file(path: Path) -> None:
    """Raise UserError if a text cannot be read more than once."""
    file, _ = file_of(path)
    if not file.exists():
        whole = Path(str(file).rpartition(":")[0])
        if ":" in file.name and whole.exists():
            check_side(whole)
        raise UserError(f"{file}: no such file")
    check_side(path)
    if not file.is_file():
        raise UserError(f"{file}: not a regular file, but prep must read it more than once; copy it to a file")


def check_side(path: Path) -> None:
    """Raise UserError for a folder, or a file with both sides, without the column or language to read."""
    file, side = file_of(path)
    if side is None and file.is_dir():
        raise UserError(f"{file}: a folder; name a language of its texts for each side, as {file}:en")
    kind = "" if side is not None else naming.kind(file)
    if kind in ("tsv", "csv"):
        raise UserError(f"{file}: a table; name a column of it for each side, as {file}:1")
    if kind in naming.BY_LANGUAGE:
        what = "a translation memory" if kind == "tmx" else "JSON lines"
        raise UserError(f"{file}: {what}; name a language of it for each side, as {file}:en")


def pairs_of(files: Files) -> Iterator[tuple[str, str]]:
    """The pairs as text, with U+FFFD for invalid UTF-8, until the shorter side ends."""
    src, tgt = (map(decode_line, raw_lines(path), count(1)) for path in files)
    return zip(src, tgt, strict=False)


def has_words(files: Files) -> bool:
    """True if any pair has words on both sides."""
    return any(src.split() and tgt.split() for src, tgt in pairs_of(files))


def read(path: Path) -> Content:
    """The content of a raw text file. Raises UserError for a line that is not UTF-8."""
    lines = nfc = nfd = 0
    digest = hashlib.sha256()
    for lines, line in enumerate(raw_lines(path), 1):
        text = parse_line(line, path, lines)
        digest.update(line)
        nfc += not is_normalized("NFC", text)
        nfd += not is_normalized("NFD", text)
    return Content(lines, digest.hexdigest(), nfc, nfd)


def find_raw(
    folder: Path, src: str | None, tgt: str | None, sampled: Collection[str] = ()
) -> tuple[dict[str, Files], str, str]:
    """The raw files of each split in a folder, and the source and target language.

    Names are {train,dev,test}.LANGUAGE, {train,dev,test}.SRC-TGT.tsv (or .csv) with the sides in the first two columns,
    or {train,dev,test}.SRC-TGT.tmx (or .jsonl; also without SRC-TGT), also with .gz or .zst; or {train,dev,test} is a
    folder of such texts of any name. A language may be None if the folder has only two, and both if a file has both
    sides in its name. sampled: the sets that are sampled from train, so that there is no warning if they are missing.
    Raises UserError if files are missing or the languages are ambiguous.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}/: no such folder; put train.en, train.fr, ... there, or give nmtkit prep two files")
    sets: dict[str, dict[str, Path]] = {split: {} for split in SPLITS}
    named: tuple[str | None, str | None] = (None, None)  # source and target of a table's name
    for path in sorted(folder.iterdir()):
        folder_of_texts = path.name in SPLITS and path.is_dir()
        split, sides = _sides_in(path, src, tgt) if folder_of_texts else naming.sides(path)
        if split not in SPLITS:
            continue
        if split == "train" and len(sides) == 2 and path.is_file():
            named = cast(tuple[str, str], tuple(sides))
        for language, side in sides.items():
            if language in sets[split]:
                other, _ = file_of(sets[split][language])
                raise UserError(f"{path}: {other.name} is there too; keep one of them")
            sets[split][language] = side
    languages = sorted(sets["train"])
    if src is None and tgt is None and languages == sorted(filter(None, named)):
        src, tgt = named
    src, tgt = _direction(folder, languages, src, tgt)
    raw = {}
    for split, by_language in sets.items():
        if not by_language and not (folder / split).is_dir():
            by_language.update(_sides_of_memory(folder, split, src, tgt))
        missing = [language for language in (src, tgt) if language not in by_language]
        if (split == "train" and missing) or len(missing) == 1:
            for language in missing if not by_language else ():
                texts_of(f"{folder / split}:{language}")  # raises for a file in a folder of texts
            if (there := folder / f"{split}.{missing[0]}").exists():
                raise UserError(f"{there}: {missing[0]} is not a language code such as en or pt-BR; rename the file")
            others = [str(side) for language, side in by_language.items() if language not in (src, tgt)]
            hint = f", but there is {', '.join(others)}" if others else ""
            if not by_language:
                hint = f"; texts of other names go into the folder {folder / split}/"
            raise UserError(f"{folder / split}.{missing[0]}: no such file (nor .gz or .zst){hint}")
        if not missing:
            raw[split] = Files(by_language[src], by_language[tgt])
            warn_of_columns(raw[split])
        elif split not in sampled:
            log.warning(
                f"{folder}/ has no {split}.{src} and {split}.{tgt}: there will be no {split} set; set `{split}_size` "
                "to sample one from train"
            )
    return raw, src, tgt


def _memories(folder: Path, split: str) -> list[Path]:
    """The translation memories and JSON lines of a split without languages in their names."""
    files = sorted(folder.glob(f"{split}.*"))
    return [path for path in files if naming.stem(path) == split and naming.kind(path) in naming.BY_LANGUAGE]


def _sides_of_memory(folder: Path, split: str, src: str, tgt: str) -> dict[str, Path]:
    """The sides of a split in a translation memory or JSON lines without languages in the name, if there is one."""
    found = _memories(folder, split)
    if len(found) > 1:
        raise UserError(f"{found[1]}: {found[0].name} is there too; keep one of them")
    return {language: Path(f"{path}:{language}") for path in found for language in (src, tgt)}


def _sides_in(folder: Path, src: str | None, tgt: str | None) -> tuple[str, dict[str, Path]]:
    """The name of a folder and the sides of all its texts together, by language; none if it lacks a requested one.

    A translation memory, or JSON lines, without languages in the name may have any.
    """
    files = files_in(folder)
    found = {language: side for path in files for language, side in naming.sides(path)[1].items()}
    asked = [language for language in (src, tgt) if language]
    memories = any(naming.kind(path) in naming.BY_LANGUAGE for path in files)
    if not memories and any(text_in(found, language) is None for language in asked):
        return folder.name, {}
    every = [*found, *asked] if src and tgt else found  # one alone may be mistyped
    return folder.name, {language: Path(f"{folder}:{language}") for language in every}


def warn_of_columns(files: Files) -> None:
    """Warn of tables found by their names that have more columns than the two that are read."""
    for text in files.texts:
        (table, column), _ = map(file_of, text)
        columns = len(next(rows(table), [])) if isinstance(column, int) else 0
        others = f"to read others: nmtkit prep --train {table}:2 {table}:3"
        remedy = others if text == files else "leave only those of the two languages"
        if columns > 2:
            log.warning(f"{table}: only the first 2 of {columns} columns are read; {remedy}")


def _direction(folder: Path, languages: list[str], src: str | None, tgt: str | None) -> tuple[str, str]:
    """Source and target language; one may be None if it is unambiguous. Raises UserError if it is not."""
    others = [language for language in languages if language not in (src, tgt)]
    if src and src == tgt:
        raise UserError(f"{folder}/: source and target language are both {src}; name two languages or two files")
    if src and tgt:
        return src, tgt
    if (src or tgt) and len(others) == 1:
        return src or others[0], tgt or others[0]
    if len(languages) == 2:
        a, b = languages
        there = f"{a} and {b}, not {src or tgt}" if src or tgt else f"{a} and {b}"
        raise UserError(f"{folder}/ has {there}: which one is the source? Add `src_lang` {a} or `src_lang` {b}")
    found = f"has text in {', '.join(languages)}" if languages else "has no train.LANGUAGE"
    raise UserError(f"{folder}/ {found}: name two languages, for example `src_lang` en and `tgt_lang` fr")


def has_training_text(folder: Path) -> bool:
    """Whether a folder has training text of two languages under names that ``find_raw`` reads."""
    named = [naming.sides(path) for path in folder.glob("train.*") if path.name != "train.log"]
    named += [_sides_in(path, None, None) for path in folder.glob("train") if path.is_dir()]
    return bool(_memories(folder, "train")) or sum(len(sides) for name, sides in named if name == "train") > 1


def language_of(path: Path) -> str:
    """The language at the end of a name: fr for corpus.fr.gz or memory.tmx:fr. Raises UserError if there is none."""
    check_side(path)
    if not (language := naming.ending(path)) or language in naming.NO_LANGUAGES:
        raise UserError(f"{path}: its name does not end in a language; give `src_lang` and `tgt_lang`")
    return language


def names_swapped(files: Files, src: str, tgt: str) -> bool:
    """Whether the file names end in the two languages, but in the other order."""
    return src != tgt and [*map(naming.ending, files)] == [tgt, src]


def warn_of_other_languages(files: Files, src: str, tgt: str) -> None:
    """Warn of file names that end in a language other than the one that is read."""
    for side, path, language in zip(SIDES, files, (src, tgt), strict=True):
        named = naming.ending(path)
        if named and named not in naming.NO_LANGUAGES and text_in({named: path}, language) is None:
            remedy = f"name another file, or add `{side}_lang` {language} if this is the right one"
            log.warning(f"{path}: its name ends in {named}, but it is read as {language}; {remedy}")
