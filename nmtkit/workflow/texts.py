"""The raw texts that a command reads: pairs of files, or those found in a folder."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.errors import UserError
from nmtkit.options import Option

if TYPE_CHECKING:
    from nmtkit.text.raw import Files

TwoFiles = tuple[Path | str, Path | str]
SETS = "Data sets"  # group of the help
TRAIN = Option("Training text: two files, used instead of the folder --raw.", SETS, metavar="SRC TGT")
DEV = Option("Development text: two files.", SETS, metavar="SRC TGT")
TEST = Option("Test text: two files.", SETS, metavar="SRC TGT")


def raw_texts(
    folder: Path | str,
    named: Mapping[str, TwoFiles | None],
    languages: tuple[str | None, str | None],
    sampled: Collection[str],
    *,
    asked: bool,
) -> "tuple[Mapping[str, Files], str, str]":
    """The files of train, dev and test, ``named`` or else in a folder, and the two languages.

    languages: source and target, if they are known. sampled: sets that may be missing. asked: whether the user named a
    language, which may differ from those of the file names. Raises UserError for files and languages that do not agree.
    """
    from nmtkit.text.raw import (
        Files,
        check_side,
        find_raw,
        language_of,
        names_swapped,
        warn_of_columns,
        warn_of_other_languages,
    )

    # Named files replace all sets of the folder, so that none of these is used unnoticed.
    if named["train"] is None:
        if named["dev"] or named["test"]:
            raise UserError("`dev` and `test` need `train`; without it, all three are read from `raw`")
        return find_raw(Path(folder), *languages, sampled)
    files = {split: Files(*map(Path, pair)) for split, pair in named.items() if pair}
    src, tgt = (given or language_of(file) for given, file in zip(languages, files["train"], strict=True))
    for pair in files.values():
        for side in pair:
            check_side(side)
        if names_swapped(pair, src, tgt):
            raise UserError(
                f"{pair.src}, {pair.tgt}: the source language is {src}, the target language {tgt}; swap them"
            )
        if pair.texts != [pair]:  # the columns of a single table are given
            warn_of_columns(pair)
    if not asked:
        warn_of_other_languages(files["train"], src, tgt)
    return files, src, tgt
