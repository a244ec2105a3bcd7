import contextlib
import csv
import errno
import gzip
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias
from unicodedata import is_normalized, normalize

import pytest

import nmtkit.text.cleaning
import nmtkit.text.work
from nmtkit.data.doctor import examine_text
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.lines import at_line, read_lines
from nmtkit.symbols import SPELLINGS
from nmtkit.text.cleaning import paired_chunks
from nmtkit.text.hashes import repeated
from nmtkit.text.manifest import PrepReport, line_numbers, reference_files, verify
from nmtkit.text.pipeline import TextPipeline, copy_prep
from nmtkit.text.prep import prep_like, prepare, prepare_part
from nmtkit.text.raw import Files, find_raw, language_of
from nmtkit.text.rules import broken_rule
from nmtkit.text.settings import Cleaning, Prep, Segmentation, SetOptions, Side, Tokenizer, load_prep
from nmtkit.text.tables import odd_rows
from nmtkit.text.work import Shard

Form: TypeAlias = Literal["NFC", "NFD"]

BPE = Prep(Side("en"), Side("fr"), merges=20)
WORDS = Prep(Side("en", segmentation="words"), Side("fr", segmentation="words"))
CASED = Prep(Side("en", truecase=True), Side("fr", truecase=True), merges=20, joint=False)

# No pair of these may stay: (rule, English, French), among others that may.
FAULTY = [
    ("empty", "", "Rien."),
    ("empty", "Nothing.", " \u2028\t"),
    ("control", "A bell\x07 rings.", "Une cloche sonne."),
    ("control", "Zero.", "Z\x00ro."),
    ("long", "word " * 300, "mot " * 299),
    ("ratio", "Yes.", "C'est bien vrai, ma chère, et depuis si longtemps que je ne sais plus quand."),
    ("ratio", "one " * 10, "un"),
]
STRANGE = [
    "a\u2028b",
    "a\x85b",
    "tab\there",
    "carriage\rreturn",
    "\ufeffma\u00adrk",
    "😀👨‍👩‍👧",
    "\x00nul",
    "",
    " ",
    "<s> <unk>",
    "x@@ y",
]


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Files]:
    """An English-French text of 350 pairs, some of which are faulty, with small development and test sets."""
    generator = random.Random(1)
    pairs = []
    for _ in range(350):
        a, b = generator.choices(["cat", "dog", "house", "mouse", "Rome", "garden"], k=2)
        pairs.append((f"The {a} isn't in the {b}.", f"Ce n'est pas l'{a} : c'est l'{b} !"))
    for place, (_, src, tgt) in enumerate(FAULTY):
        pairs[50 * place + 5] = (src, tgt)
    write(tmp_path / "train.en", [src for src, _ in pairs])
    (tmp_path / "train.fr.gz").write_bytes(gzip.compress("\n".join(tgt for _, tgt in pairs).encode()))
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.en", [*STRANGE, "The cat."])
        (tmp_path / f"{split}.fr").write_bytes("\r\n".join([*STRANGE, "Le chat"]).encode())
    return find_raw(tmp_path, "en", "fr")[0]


def test_tables_make_the_same_folder_as_files_of_their_columns(raw: dict[str, Files], tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    for split, files in raw.items():
        src, tgt = ([line.replace("\t", " ") for line in read_lines(path)] for path in files)
        write(tables / f"{split}.en-fr.tsv", [f"{a}\t{b}" for a, b in zip(src, tgt, strict=True)])
    prepare(raw, tmp_path / "from-files", BPE, workers=1)
    prepare(find_raw(tables, "en", "fr")[0], tmp_path / "from-tables", BPE, workers=1)
    for split in raw:
        for side in ("src", "tgt"):
            name = f"{split}.{side}"
            assert (tmp_path / "from-tables" / name).read_bytes() == (tmp_path / "from-files" / name).read_bytes()


def test_pairs_with_windows_1252_that_was_read_as_latin_1_are_prepared_as_it_was_written(tmp_path: Path) -> None:
    english, french = ["The cat’s “house”.", "It’s 5 € – no."] * 20, ["La « maison » du chat…", "Non : 5 €, l’œuf"] * 20
    for name, broken in (("written", lambda line: line), ("broken", as_latin_1)):
        folder = tmp_path / name
        folder.mkdir()
        for split in ("train", "dev"):
            write(folder / f"{split}.en", list(map(broken, english)))
            write(folder / f"{split}.fr", [broken(line.replace("…", "...")) for line in french])
        report = prepare(find_raw(folder, "en", "fr")[0], folder / "data", BPE, workers=1)
        assert report.manifest["pairs"]["train"] == 40
    for name in ("train.src", "train.tgt", "dev.src", "dev.tgt", "bpe.src"):
        assert (tmp_path / "written/data" / name).read_bytes() == (tmp_path / "broken/data" / name).read_bytes()


def as_latin_1(line: str) -> str:
    return line.encode("cp1252").decode("latin1")


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a data folder; the folder of an unfinished run is none."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("prep", [BPE, WORDS, CASED], ids=["bpe", "words", "cased"])
def test_every_line_of_the_data_folder_equals_the_pipeline_of_the_raw_line(
    raw: dict[str, Files], tmp_path: Path, prep: Prep
) -> None:
    data = tmp_path / "data"
    prepare(raw, data, prep, workers=1)
    assert load_prep(data) == prep
    faulty = {50 * place + 5 for place in range(len(FAULTY))}
    for number, side in enumerate(("src", "tgt")):
        pipeline = TextPipeline.load(data, side)  # type: ignore[arg-type]
        for split, files in raw.items():
            lines = list(read_lines(files[number]))
            kept = [line for place, line in enumerate(lines) if split != "train" or place not in faulty]
            tokens = (data / f"{split}.{side}").read_text(encoding="utf-8").split("\n")
            assert tokens == [" ".join(pipeline.tokens(line)) for line in kept] + [""]


@pytest.mark.parametrize("segmentation", ["bpe", "sentencepiece", "words"])
def test_placeholders_are_masked_in_the_training_text_alone(tmp_path: Path, segmentation: Segmentation) -> None:
    texts = {"en": ["Open {file} at %d.", "Close the door."], "fr": ["À %d, ouvrez l'{file}.", "Fermez la porte."]}
    for language, lines in texts.items():
        write(tmp_path / f"train.{language}", lines * 20)
        write(tmp_path / f"test.{language}", lines)
    sides = (Side(language, tokenizer="reversible", truecase=True, segmentation=segmentation) for language in texts)
    prep = Prep(*sides, merges=20, pieces=60, mask=True)
    prepare(find_raw(tmp_path, "en", "fr")[0], tmp_path / "data", prep, workers=1)
    for language, side, line in (("en", "src", "Open ǁ1ǁ at ǁ2ǁ."), ("fr", "tgt", "À ǁ2ǁ, ouvrez l'ǁ1ǁ.")):
        pipeline = TextPipeline.load(tmp_path / "data", side)  # type: ignore[arg-type]
        written = (tmp_path / "data" / f"train.{side}").read_text().splitlines()
        assert [pipeline.text(tokens.split()) for tokens in written[:2]] == [line, texts[language][1]]
        assert written[0].split() == pipeline.tokens(line)
        assert segmentation == "words" or {"ǁ1ǁ", "ǁ2ǁ"} <= set(written[0].split())
        tested = (tmp_path / "data" / f"test.{side}").read_text().splitlines()
        assert tested == [" ".join(pipeline.tokens(text)) for text in texts[language]]


def test_pairs_that_differ_in_a_placeholder_are_one_and_each_is_one_word(tmp_path: Path) -> None:
    write(tmp_path / "train.en", ["Open {a}.", "Open {b}.", "See {c} {d} {e}.", "Close it."])
    write(tmp_path / "train.fr", ["Ouvrez {a}.", "Ouvrez {b}.", "Voyez {c} {d} {e}.", "Fermez."])
    cleaning = Cleaning(max_length=5, drop=("duplicate",))
    side = {"tokenizer": "moses", "segmentation": "words"}
    prep = Prep(Side("en", **side), Side("fr", **side), mask=True, cleaning=cleaning)  # type: ignore[arg-type]
    report = prepare(find_raw(tmp_path, "en", "fr")[0], tmp_path / "data", prep, workers=1)
    assert (tmp_path / "data" / "train.src").read_text() == "Open ǁ1ǁ .\nSee ǁ1ǁ ǁ2ǁ ǁ3ǁ .\nClose it .\n"
    assert {rule: lost["lines"] for rule, lost in report.manifest["cleaning"].items() if lost["count"]} == {
        "duplicate": [2]
    }


def test_text_like_that_of_a_model_has_the_subwords_of_its_translations(raw: dict[str, Files], tmp_path: Path) -> None:
    prepare(raw, tmp_path / "data", BPE, workers=1)
    model = tmp_path / "model"
    model.mkdir()
    copy_prep(tmp_path / "data", model)
    (model / "config.yaml").touch()
    letters = {letter + mark for letter in map(chr, range(33, 0x250)) for mark in ("", "@@")}
    for side in ("src", "tgt"):
        vocabulary = Vocabulary([*SPELLINGS, *sorted(letters)], [0] * (len(SPELLINGS) + len(letters)))
        vocabulary.save(model / f"vocab.{side}")
    prepare(raw, tmp_path / "more", prep_like(model, Cleaning()), workers=1, like=model)
    translating = TextPipeline.load(model, "src", known=letters)
    tokens = [" ".join(translating.tokens(line)) for line in read_lines(raw["dev"].src)]
    assert list(read_lines(tmp_path / "more" / "dev.src")) == tokens
    assert {*(tmp_path / "more" / "train.src").read_text().split()} <= letters
    assert not (tmp_path / "more" / "vocab.src").exists()


def test_any_number_of_processes_makes_the_same_folder(raw: dict[str, Files], tmp_path: Path) -> None:
    prepare(raw, tmp_path / "one", CASED, workers=1)
    prepare(raw, tmp_path / "two", CASED, workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_every_rule_has_its_count_and_line_numbers(raw: dict[str, Files], tmp_path: Path) -> None:
    report = prepare(raw, tmp_path / "data", BPE, workers=1)
    expected: dict[str, dict[str, Any]] = {
        rule: {"count": 0, "lines": []} for rule in ("control", "empty", "long", "ratio")
    }
    for place, (rule, _, _) in enumerate(FAULTY):
        expected[rule]["count"] += 1
        expected[rule]["lines"].append(50 * place + 6)
    assert report.manifest["cleaning"] == expected
    assert json.loads((tmp_path / "data" / "manifest.json").read_text(encoding="utf-8")) == report.manifest


def test_the_report_counts_the_pairs_kept_and_left_out_by_rule(raw: dict[str, Files], tmp_path: Path) -> None:
    lines = str(prepare(raw, tmp_path / "data", BPE, workers=1)).splitlines()
    assert lines[0] == f"{tmp_path / 'data'}: en to fr, joint BPE of 20 merges"
    assert lines[1].startswith("  train 343 of 350 pairs, ")
    assert "    left out 2 for an empty side: lines 6, 56" in lines
    assert "    left out 1 for more than 250 words: line 206" in lines
    assert lines[-3].startswith("  test  12 pairs, ")
    assert lines[-1].startswith("  fr: ")


def test_the_report_names_the_units_of_each_side(raw: dict[str, Files], tmp_path: Path) -> None:
    assert "en to fr, words\n" in str(prepare(raw, tmp_path / "data", WORDS, workers=1))
    assert "en to fr, BPE of 20 + 20 merges\n" in str(prepare(raw, tmp_path / "data", CASED, workers=1))
    for path in (tmp_path / "data").glob("bpe.*"):  # as subword-nmt before 0.2 wrote it
        path.write_text(path.read_text().partition("\n")[2])
    like = tmp_path / "data"
    again = prepare(raw, tmp_path / "more", prep_like(like, Cleaning()), workers=1, like=like)
    assert "en to fr, BPE of 20 + 20 merges\n" in str(again)


def test_development_and_test_text_keep_every_line_and_a_copy_as_it_was(raw: dict[str, Files], tmp_path: Path) -> None:
    prepare(raw, tmp_path / "data", BPE, workers=1)
    for split in ("dev", "test"):
        for side, last in (("src", "The cat."), ("tgt", "Le chat")):
            assert len((tmp_path / "data" / f"{split}.{side}").read_bytes().split(b"\n")) == len(STRANGE) + 2
            assert list(read_lines(tmp_path / "data" / f"{split}.raw.{side}")) == [*STRANGE, last]


def test_joint_merges_are_learnt_on_both_sides_and_separate_ones_on_each(raw: dict[str, Files], tmp_path: Path) -> None:
    prepare(raw, tmp_path / "joint", BPE, workers=1)
    prepare(raw, tmp_path / "separate", replace(BPE, joint=False), workers=1)
    joint, separate = contents(tmp_path / "joint"), contents(tmp_path / "separate")
    assert joint["bpe.src"] == joint["bpe.tgt"]
    assert separate["bpe.src"] != separate["bpe.tgt"]
    assert b"q" not in separate["bpe.src"]


def test_the_manifest_describes_every_file(raw: dict[str, Files], tmp_path: Path) -> None:
    manifest = prepare(raw, tmp_path / "data", CASED, workers=1).manifest
    made = contents(tmp_path / "data")
    del made["manifest.json"]
    assert manifest["files"] == {
        name: {
            "lines": content.count(b"\n"),
            "tokens": len(content.split()),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for name, content in made.items()
    }
    assert manifest["pairs"] == {"train": 350, "dev": 12, "test": 12}


def test_a_folder_made_anew_has_nothing_of_the_old_one(raw: dict[str, Files], tmp_path: Path) -> None:
    data = tmp_path / "data"
    prepare(raw, data, CASED, workers=1)
    (data / "notes.txt").write_text("mine")
    prepare({"train": raw["train"]}, data, WORDS, workers=1)
    assert sorted(contents(data)) == ["manifest.json", "notes.txt", "prep.yaml", "train.src", "train.tgt"]


def test_an_interrupted_run_leaves_the_old_folder_as_it_was(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    prepare(raw, data, BPE, workers=1)
    before = contents(data)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nmtkit.text.prep._make_heldout", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare(raw, data, WORDS, workers=1)
    assert contents(data) == before


@pytest.mark.parametrize("workers", [1, 2])
def test_text_that_is_not_utf8_is_reported_with_file_and_line(
    raw: dict[str, Files], tmp_path: Path, workers: int
) -> None:
    raw["dev"].tgt.write_bytes(b"un\ndeux\nt\xe9\n")
    with pytest.raises(UserError, match=r"dev\.fr:3: byte 0xE9 is not UTF-8; convert the file"):
        prepare(raw, tmp_path / "data", BPE, workers)
    assert not (tmp_path / "data").exists()


def test_sides_of_unequal_length_are_reported_with_both_files_and_counts(raw: dict[str, Files], tmp_path: Path) -> None:
    write(raw["train"].src, ["one", "two"])
    with pytest.raises(UserError, match=r"train\.en has 2 lines but .*train\.fr\.gz has 350; .* a line was lost"):
        prepare(raw, tmp_path / "data", BPE, workers=1)


def test_a_missing_file_is_reported(raw: dict[str, Files], tmp_path: Path) -> None:
    raw["test"].src.unlink()
    with pytest.raises(UserError, match=r"test\.en: no such file"):
        prepare(raw, tmp_path / "data", BPE, workers=1)


def test_raw_text_is_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "train.src", ["mine"])
    with pytest.raises(UserError, match=r"train\.src: would be overwritten; choose another folder"):
        prepare({"train": Files(tmp_path / "train.src", tmp_path / "train.src")}, tmp_path, WORDS, workers=1)
    assert contents(tmp_path) == {"train.src": b"mine\n"}


def test_raw_text_that_links_into_the_data_folder_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("manifest.json", "train.src", "train.tgt"):
        write(data / name, ["mine"])
    raw = Files(tmp_path / "text.en", tmp_path / "text.fr")
    for link, target in zip(raw, (data / "train.src", data / "train.tgt"), strict=True):
        link.symlink_to(target)
    with pytest.raises(UserError, match=r"text\.en: would be overwritten; choose another folder"):
        prepare({"train": raw}, data, WORDS, workers=1)
    assert contents(data)["train.src"] == b"mine\n"


@pytest.mark.parametrize("name", ["train.src", "train.tgt", "dev.src", "test.src"])
def test_prep_replaces_text_only_in_a_folder_that_it_made(raw: dict[str, Files], tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write(data / name, ["mine"])
    for call in (lambda: prepare(raw, data, WORDS, 1), lambda: prepare_part(raw, data, WORDS, 1, (1, 1))):
        with pytest.raises(UserError, match=rf"{name}: not made by prep, and would be overwritten; choose another"):
            call()
    assert contents(data) == {name: b"mine\n"}


def test_a_pipe_cannot_be_read_twice(raw: dict[str, Files], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    raw["train"] = Files(tmp_path / "pipe", raw["train"].tgt)
    with pytest.raises(UserError, match="pipe: not a regular file"):
        prepare(raw, tmp_path / "data", BPE, workers=1)


def test_an_empty_training_text_is_refused(tmp_path: Path) -> None:
    for name in ("empty", "blank"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="empty: no lines; there is nothing to train on"):
        prepare({"train": Files(tmp_path / "empty", tmp_path / "blank")}, tmp_path / "data", BPE, workers=1)


def lose(tmp_path: Path, lost: int) -> dict[str, Files]:
    write(tmp_path / "train.en", ["one two"] * 100)
    write(tmp_path / "train.fr", [""] * lost + ["un deux"] * (100 - lost))
    return {"train": Files(tmp_path / "train.en", tmp_path / "train.fr")}


@pytest.mark.parametrize(("lost", "warned"), [(10, False), (11, True)])
def test_losing_more_than_a_tenth_of_the_pairs_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int, warned: bool
) -> None:
    prepare(lose(tmp_path, lost), tmp_path / "data", WORDS, workers=1)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert bool(warnings) == warned
    if warned:
        assert warnings[0].startswith(
            "11 of the 100 training pairs (11%) are left out, most of them for an empty side: "
            "see lines 1, 2, 3, 4, 5, ... of"
        )


@pytest.mark.parametrize(("lost", "warned"), [(10, False), (11, True)])
def test_pairs_sampled_for_the_development_set_are_not_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int, warned: bool
) -> None:
    raw = lose(tmp_path, lost)
    write(raw["train"].src, [f"number {n}" for n in range(100)])
    prepare(raw, tmp_path / "data", WORDS, workers=1, held_out=SetOptions(dev_size=30))
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [text[:69] for text in warnings] == warned * [
        "11 of the 100 training pairs (11%) are left out, most of them for an "
    ]


@pytest.mark.parametrize(("src", "tgt"), [([], []), (["", " "], ["un", "deux"]), (["a", ""], ["", "b"])])
def test_a_development_set_without_a_pair_of_words_is_refused(
    raw: dict[str, Files], tmp_path: Path, src: list[str], tgt: list[str]
) -> None:
    write(raw["dev"].src, src)
    write(raw["dev"].tgt, tgt)
    with pytest.raises(
        UserError, match=r"dev\.en, .*dev\.fr: no pair of the development set has words on both sides; "
    ):
        prepare(raw, tmp_path / "data", BPE, workers=1)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["train.en", "dev.fr", "link"])
def test_rejected_pairs_never_overwrite_an_input(raw: dict[str, Files], tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to("train.en")
    before = (tmp_path / name).read_bytes()
    with pytest.raises(UserError, match=rf"{name}: is an input file; choose another `keep_rejected`"):
        prepare(raw, tmp_path / "data", BPE, 1, tmp_path / name)
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("name", ["train.src", "dev.raw.tgt1", "manifest.json"])
def test_rejected_pairs_never_overwrite_a_data_file(raw: dict[str, Files], tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(UserError, match=rf"{name}: is a file of the data folder; choose another `keep_rejected`"):
        prepare(raw, tmp_path / "data", BPE, 1, tmp_path / "data" / name)
    assert contents(tmp_path / "data") == {}


def test_losing_every_pair_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"100 of the 100 training pairs \(100%\) are left out, most of them for an empty"
    ):
        prepare(lose(tmp_path, 100), tmp_path / "data", WORDS, workers=1)


@pytest.mark.parametrize(
    ("src", "tgt", "rule"),
    [(250, 250, None), (251, 250, "long"), (9, 1, None), (10, 1, "ratio"), (1, 10, "ratio"), (0, 0, "empty")],
)
def test_limits_are_the_longest_and_the_most_unequal_that_may_stay(src: int, tgt: int, rule: str | None) -> None:
    assert broken_rule("", ["a"] * src, ["b"] * tgt, BPE, frozenset()) == rule


@pytest.mark.parametrize(
    ("language", "tokenizer", "segmentation", "found"),
    [
        ("th", "reversible", "bpe", False),
        ("th", "none", "sentencepiece", False),
        ("th", "none", "bpe", True),  # the words are separated before
        ("zh", "reversible", "bpe", True),
        ("zh", "moses", "bpe", False),
        ("bo", "reversible", "bpe", True),  # syllables
        ("bo", "none", "sentencepiece", False),
        ("fr", "none", "sentencepiece", True),
    ],
)
def test_lengths_are_those_of_characters_where_no_words_are_found(
    language: str, tokenizer: Tokenizer, segmentation: Segmentation, found: bool
) -> None:
    side = Side(language, tokenizer=tokenizer, segmentation=segmentation)
    assert side.finds_words == found
    prep = Prep(Side("en", tokenizer="reversible"), side)
    assert broken_rule("", ["word"] * 20, ["x" * 60], prep, frozenset()) == ("ratio" if found else None)
    assert broken_rule("", ["word"], ["x" * 60], prep, frozenset()) == (None if found else "ratio")
    assert broken_rule("", ["word"] * 251, ["x" * 300], prep, frozenset()) == "long"
    assert broken_rule("", ["word"] * 200, ["x"] * 251, prep, frozenset()) == ("long" if found else None)


@pytest.mark.parametrize(
    ("limits", "rules"),
    [
        (Cleaning(max_length=1, max_ratio=1), [None, "long", "long", "long"]),
        (Cleaning(max_length=0, max_ratio=1), [None, "ratio", "ratio", None]),
    ],
)
def test_the_strictest_limits_are_single_words_and_equal_lengths(limits: Cleaning, rules: list[str | None]) -> None:
    prep, sentences = replace(BPE, cleaning=limits), (["a"], ["a", "b"])
    assert [broken_rule("", src, tgt, prep, frozenset()) for src in sentences for tgt in sentences] == rules


def test_zero_is_no_limit() -> None:
    prep = replace(BPE, cleaning=Cleaning(max_length=0, max_ratio=0))
    assert broken_rule("", ["a"] * 5000, ["a"], prep, frozenset()) is None


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("tlh", "English abbreviations and splits at every apostrophe; use `tokenizer` reversible"),
        ("th", "written without spaces"),
        ("cs", None),
    ],
)
def test_a_language_that_moses_does_not_know_is_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, language: str, message: str | None
) -> None:
    files = lose(tmp_path, 0)
    prepare(files, tmp_path / "data", replace(WORDS, src=replace(WORDS.src, language=language)), workers=1)
    assert (message in caplog.text) if message else not caplog.text.count("language")
    caplog.clear()
    own = Side(language, tokenizer="none", segmentation="words")
    prepare(files, tmp_path / "data", Prep(own, own), workers=1)
    assert "language" not in caplog.text


def test_settings_and_source_of_the_data_are_on_record(raw: dict[str, Files], tmp_path: Path) -> None:
    report: PrepReport = prepare(raw, tmp_path / "data", BPE, workers=1)
    assert report.manifest["raw"]["train"] == [str(raw["train"].src), str(raw["train"].tgt)]
    assert set(report.manifest["made_with"]) == {"sacremoses", "subword-nmt"}


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    def make(*names: str) -> Path:
        for name in names:
            (tmp_path / name).touch()
        return tmp_path

    return make


@pytest.mark.parametrize(("src", "tgt"), [("en", "fr"), ("en", None), (None, "fr")])
def test_raw_text_is_found_by_split_and_language(
    folder: Callable[..., Path], caplog: pytest.LogCaptureFixture, src: str | None, tgt: str | None
) -> None:
    place = folder("train.en", "train.fr.gz", "dev.en.zst", "dev.fr", "README", "train.en.bak", "trainee.de")
    files, *languages = find_raw(place, src, tgt)
    assert languages == ["en", "fr"]
    assert files == {
        "train": (place / "train.en", place / "train.fr.gz"),
        "dev": (place / "dev.en.zst", place / "dev.fr"),
    }
    assert "has no test.en and test.fr: there will be no test set" in caplog.text


@pytest.mark.parametrize("delimiter", [",", ";", pytest.param("\t", marks=pytest.mark.slow)])
@pytest.mark.parametrize("first", ["", "sep"], ids=["plain", "named delimiter"])
def test_csv_makes_the_folder_that_its_columns_make(
    repetitive: dict[str, Files], tmp_path: Path, delimiter: str, first: str
) -> None:
    held_out = SetOptions(dev_size=20)
    raw = tmp_path / "raw"
    raw.mkdir()
    pairs = zip(*map(read_lines, repetitive["train"]), strict=True)
    pairs = [(f'{src} "Yes", he said; no?', f"{tgt}; «oui»,\tnon ?" if tgt else "") for src, tgt in pairs]
    for side, path in enumerate(repetitive["train"]):
        write(path, [pair[side] for pair in pairs])
    broken = [(src.replace(" he", "\r\nhe"), tgt) for src, tgt in pairs]  # a line break in a cell is a space
    with open(raw / "train.en-fr.csv", "w", encoding="utf-8-sig", newline="") as file:
        file.write(f"{first}={delimiter}\r\n" if first else "")
        csv.writer(file, delimiter=delimiter).writerows(broken)
    prepare(repetitive, tmp_path / "data", BPE, workers=1, held_out=held_out)
    report = prepare(find_raw(raw, None, None)[0], tmp_path / "other", BPE, workers=1, held_out=held_out)
    for name in ("train.src", "train.tgt", "dev.src", "dev.raw.tgt", "bpe.src"):
        assert (tmp_path / "other" / name).read_bytes() == (tmp_path / "data" / name).read_bytes()
    assert re.search(r"left out \d+ for an empty side: rows \d+, ", str(report))


def test_a_header_of_a_table_is_warned_of(
    repetitive: dict[str, Files], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [f"{src}\t{tgt}" for src, tgt in zip(*map(read_lines, repetitive["train"]), strict=True)]
    for name, first in (("with", "EN\tFrench"), ("without", "The header\tLa source")):
        table = tmp_path / f"{name}.en-fr.tsv"
        write(table, [first, *rows])
        prepare({"train": Files(Path(f"{table}:1"), Path(f"{table}:2"))}, tmp_path / name, WORDS, workers=1)
    [told] = [message for message in caplog.messages if "header" in message]
    assert (
        told == f"{tmp_path}/with.en-fr.tsv:1: looks like a header, which would be read as a sentence pair; remove it"
    )


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("Inglés,Aymara", "looks like a header, which would be read as a sentence pair; remove it"),
        ("\ufeffFR,Source text", "names column 1 fr, which is read from column 2; correct the columns or the name of"),
        ("n,en,fr", "names column 2 en, which is read from column 1; correct the columns or the name of the table, "),
        ("eng,Texte", "looks like a header, which would be read as a sentence pair; remove it"),
        ("fra,eng", "names column 2 en, which is read from column 1; correct the columns or the name of the table, "),
    ],
)
def test_a_header_in_another_language_or_of_other_columns_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: str, told: str
) -> None:
    table = tmp_path / "train.en-fr.csv"
    write(table, [first, *(f"the house {n},la maison {n},{n}" for n in range(20))])
    prepare(find_raw(tmp_path, "en", "fr")[0], tmp_path / "data", WORDS, workers=1)
    [warning] = [message for message in caplog.messages if f"{table}:1" in message]
    assert warning.startswith(f"{table}:1: {told}")


def test_a_header_with_two_letters_is_one_of_a_language_given_with_three_and_a_region(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("pt\tTexto\n")
    [(_, number, what)] = odd_rows(table, {"por-BR": 1, "shp": 2}, None)
    assert (number, what[:21]) == (1, "looks like a header, ")
    table.write_text("No-one came.\tIngen kom.\n")
    assert [*odd_rows(table, {"no": 1, "nb": 2}, None)] == []


def test_rows_with_more_columns_than_the_first_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = tmp_path / "train.en-fr.csv"
    write(table, [f"the house {n},{'oui, ' * (n in (7, 9))}la maison" for n in range(20)])
    prepare(find_raw(tmp_path, "en", "fr")[0], tmp_path / "data", WORDS, workers=1)
    [warning] = [message for message in caplog.messages if "more columns" in message]
    why = "is there a delimiter outside quotation marks?"
    assert warning == f"{table}:8: has more columns than the first line, 2; {why}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a;b\n\nc\n", r"train\.en-fr\.csv: row 3 has 1 column, so no column 2; fix the row, or name another"),
        (b'a,b\n"c"d,e\n', r"train\.en-fr\.csv:2: not valid CSV: .*; export it again"),
        (b'a,b\nc, "d" e\n', r"train\.en-fr\.csv:2: not valid CSV: .*; export it again, or quote the whole cell and"),
        (b'a,b\n"c,e\n', r"train\.en-fr\.csv:2: not valid CSV: unexpected end of data"),
        (b'a,b\n"c,e\nf,g\nh,i\n', r"train\.en-fr\.csv:2: not valid CSV: unexpected end of data"),
        (b'sep=,\na,b\n"c,e\nf,"g"\nh,i\n', r"train\.en-fr\.csv:3: not valid CSV: ',' expected"),
        (b"a,b\rc,d\r", r"train\.en-fr\.csv:1: has .r, which does not end a line; convert .* with: tr '.r' '.n'"),
        (b"a,b\ncaf\xe9,e\n", r"train\.en-fr\.csv: row 2, column 1: byte 0xE9 is not UTF-8; convert the file"),
        *(
            (text.encode("utf-16"), r"train\.en-fr\.csv.* ?1: byte 0xFF is not UTF-8; convert .* iconv -f utf-16")
            for text in ("a;b\n", "a;b\r\nc;d\r\n", 'a;"b"\r\n')
        ),
    ],
)
def test_csv_that_cannot_be_read_names_its_row(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "train.en-fr.csv").write_bytes(text)
    with pytest.raises(UserError, match=message):
        prepare(find_raw(tmp_path, "en", "fr")[0], tmp_path / "data", WORDS, workers=1)


def test_a_text_whose_lines_end_as_on_an_old_mac_is_warned_of(
    repetitive: dict[str, Files], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    for path in repetitive["train"]:
        (folder / f"a{path.suffix}").write_bytes(path.read_bytes())
        (folder / f"b{path.suffix}").write_bytes(b"the house\rthe cat\rmoney\r")
        (folder / f"c{path.suffix}").write_bytes(b"the dog\r\n")
    (folder / "d.en-fr.tsv").write_bytes(b"the house\tla maison\rthe cat\tle chat\r")
    sides = Files(Path(f"{folder}:en"), Path(f"{folder}:fr"))
    prepare({"train": sides}, tmp_path / "data", WORDS, workers=1)
    told = [message.removeprefix(f"{folder}/") for message in caplog.messages if "old Mac" in message]
    what = "has \\r, which does not end a line; convert old Mac line ends, for example with: tr '\\r' '\\n'"
    assert sorted(told) == [f"{place}: {what}" for place in ("b.en:1", "b.fr:1", "d.en-fr.tsv:1, column 2")]
    assert {f"{finding}" for finding in examine_text({"train": sides}, "en", "fr")}.issuperset(
        f"{folder}/{message}" for message in told
    )


def test_the_last_suffix_of_a_table_says_whether_it_is_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv.tsv").write_text("one, two\tun, deux\n")
    (tmp_path / "a.tsv.csv").write_text("one\ttwo,un\n")
    assert [*read_lines(tmp_path / "a.csv.tsv:2"), *read_lines(tmp_path / "a.tsv.csv:2")] == ["un, deux", "un"]


def test_the_suffix_of_a_table_may_be_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "train.en-fr.CSV").write_text("one,un\n")
    (tmp_path / "dev.en-fr.TSV").write_text("one, two\tun, deux\n")
    found, *_ = find_raw(tmp_path, None, None)
    assert [list(map(list, map(read_lines, found[split]))) for split in ("train", "dev")] == [
        [["one"], ["un"]],
        [["one, two"], ["un, deux"]],
    ]


def test_a_table_as_a_whole_is_no_text_of_one_language(folder: Callable[..., Path]) -> None:
    table = folder("crawl.tsv.gz") / "crawl.tsv.gz"
    with pytest.raises(UserError, match=r"crawl\.tsv\.gz: a table; name a column .* as .*crawl\.tsv\.gz:1"):
        prepare({"train": Files(table, table)}, folder() / "data", WORDS, workers=1)


def test_a_table_is_found_by_its_two_languages(folder: Callable[..., Path]) -> None:
    place = folder("train.en-pt_BR.tsv.gz", "dev.pt_BR-en.tsv", "test.en", "test.pt_BR")
    files, *languages = find_raw(place, "pt_BR", None)
    assert languages == ["pt_BR", "en"]
    assert files == {
        "train": (place / "train.en-pt_BR.tsv.gz:2", place / "train.en-pt_BR.tsv.gz:1"),
        "dev": (place / "dev.pt_BR-en.tsv:1", place / "dev.pt_BR-en.tsv:2"),
        "test": (place / "test.pt_BR", place / "test.en"),
    }


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("train.en-pt-BR.tsv", ["en", "pt-BR"]),
        ("train.pt-BR-en.tsv.gz", ["en", "pt-BR"]),
        ("train.en-zh-Hans-CN.tsv", ["en", "zh-Hans-CN"]),
        ("train.EN-FR.tsv", ["EN", "FR"]),
        ("train.en-pt-br.tsv", None),  # may be of en-pt and br
        ("train.EN-PT-BR.tsv", None),
        ("train.EN-pt-BR.tsv", ["EN", "pt-BR"]),
        ("train.en-PT-BR.tsv", None),
        ("train.zh-TW-PT-BR.tsv", None),
    ],
)
def test_in_a_table_s_name_capitals_tell_a_region_from_a_language(
    folder: Callable[..., Path], name: str, languages: list[str] | None
) -> None:
    if languages is None:
        with pytest.raises(UserError, match=r"has no train\.LANGUAGE"):
            find_raw(folder(name), None, None)
    else:
        assert find_raw(folder(name), *languages)[1:] == tuple(languages)


def test_the_name_of_a_table_says_which_side_is_the_source(folder: Callable[..., Path]) -> None:
    assert find_raw(folder("train.fr-en.tsv"), None, None)[1:] == ("fr", "en")
    assert find_raw(folder("train.fr-en.tsv"), "en", None)[1:] == ("en", "fr")


@pytest.mark.parametrize("suffix", ["TMX", "jsonl", "json"])
def test_a_translation_memory_or_json_lines_are_found_by_their_two_languages(
    folder: Callable[..., Path], suffix: str
) -> None:
    place = folder(f"train.pt-BR-gn.{suffix}.gz", "dev.gn", "dev.pt-BR")
    files, *languages = find_raw(place, None, None)
    assert languages == ["pt-BR", "gn"]
    memory = place / f"train.pt-BR-gn.{suffix}.gz"
    assert files["train"] == (Path(f"{memory}:pt-BR"), Path(f"{memory}:gn"))
    assert language_of(Path(f"{memory}:gn")) == language_of(Path(f"MEMORY.{suffix}:gn")) == "gn"


@pytest.mark.parametrize(
    ("file", "what", "noun"), [("text.tmx", "a translation memory", "unit"), ("text.jsonl", "JSON lines", "line")]
)
def test_a_translation_memory_or_json_lines_make_the_folder_that_their_two_texts_make(
    repetitive: dict[str, Files], tmp_path: Path, file: str, what: str, noun: str
) -> None:
    memory, held_out = tmp_path / file, SetOptions(dev_size=20)
    pairs = list(zip(*map(read_lines, repetitive["train"]), strict=True))
    if noun == "unit":
        units = (
            f"<tu><tuv xml:lang='en-GB'><seg>{src}</seg></tuv><tuv xml:lang='fr'><seg>{tgt}</seg></tuv></tu>"
            for src, tgt in pairs
        )
        memory.write_text(f"<tmx version='1.4'><header srclang='en'/><body>{''.join(units)}</body></tmx>")
    else:
        rows = ({"id": number, "translation": {"en-GB": src, "fr": tgt}} for number, (src, tgt) in enumerate(pairs))
        memory.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare(repetitive, tmp_path / "data", BPE, workers=1, held_out=held_out)
    sides = Files(Path(f"{memory}:en"), Path(f"{memory}:fr"))
    report = prepare({"train": sides}, tmp_path / "other", BPE, workers=2, held_out=held_out)
    assert re.search(rf"left out \d+ for an empty side: {noun}s \d+, ", str(report))
    for name in ("train.src", "train.tgt", "dev.src", "dev.raw.tgt", "bpe.src"):
        assert (tmp_path / "other" / name).read_bytes() == (tmp_path / "data" / name).read_bytes()
    with pytest.raises(UserError, match=rf"{file}: {what}; name a language of it for each side, as .*{file}:en"):
        prepare({"train": Files(memory, memory)}, tmp_path / "third", BPE, workers=1)


@pytest.fixture
def several(repetitive: dict[str, Files], tmp_path: Path) -> Path:
    """A folder raw with the folder train, where the repetitive text is in two files, a table and a memory."""
    folder = tmp_path / "raw" / "train"
    folder.mkdir(parents=True)
    en, fr = map(list, map(read_lines, repetitive["train"]))
    (folder / "a.v2.en").write_bytes("\n".join(en[:100]).encode())  # the last line has no end
    (folder / "a.v2.fr.gz").write_bytes(gzip.compress("\n".join(fr[:100]).encode()))
    rows = [f"{src}\t{tgt}" for src, tgt in zip(en[100:200], fr[100:200], strict=True)]
    (folder / "b.en-fr.tsv").write_text("".join(f"{row}\r\n" for row in rows), encoding="utf-8-sig")
    units = [
        f"<tu><tuv xml:lang='en'><seg>{src}</seg></tuv><tuv xml:lang='fr'><seg>{tgt}</seg></tuv></tu>"
        for src, tgt in zip(en[200:], fr[200:], strict=True)
    ]
    (folder / "c.TMX").write_text(f"<tmx version='1.4'><header srclang='en'/><body>{''.join(units)}</body></tmx>")
    (folder / ".DS_Store").write_text("no text")
    return folder


def test_the_texts_of_a_folder_make_the_data_folder_that_they_make_as_one_text(
    repetitive: dict[str, Files], several: Path, tmp_path: Path
) -> None:
    held_out = SetOptions(dev_size=20)
    files, *languages = find_raw(several.parent, "en", "fr")
    assert languages == ["en", "fr"]
    assert files == {"train": (Path(f"{several}:en"), Path(f"{several}:fr"))}
    drop = replace(BPE, cleaning=replace(BPE.cleaning, drop=("duplicate",)))
    prepare(repetitive, tmp_path / "data", drop, workers=1, held_out=held_out)
    rejected = tmp_path / "rejected.tsv"
    report = prepare(files, tmp_path / "other", drop, workers=2, held_out=held_out, keep_rejected=rejected)
    for name in ("train.src", "train.tgt", "dev.src", "dev.raw.tgt", "bpe.src"):
        assert (tmp_path / "other" / name).read_bytes() == (tmp_path / "data" / name).read_bytes()
    lines = list(read_lines(repetitive["train"].tgt))
    blank = [number for number, line in enumerate(lines, 1) if not line]
    assert f"for an empty side: {several / 'a.v2.en'}: lines {blank[0]}, {blank[1]}, " in str(report)
    entry = {"lines": [3, 5, 101, 202, 203], "count": 6}
    assert line_numbers(entry, f"{several}:en").replace(f"{several}/", "") == (
        "a.v2.en: lines 3, 5; b.en-fr.tsv: line 1; c.TMX: units 2, 3, ..."
    )
    for number, _, _, tgt in (row.split("\t") for row in read_lines(rejected)):
        assert tgt == lines[int(number) - 1]
    numbers = (1, 100, 101, 200, 201, 300)
    assert [at_line(f"{several}:fr", number).removeprefix(f"{several}/") for number in numbers] == [
        "a.v2.fr.gz:1", "a.v2.fr.gz:100", "b.en-fr.tsv:1, column 2", "b.en-fr.tsv:100, column 2", "c.TMX: unit 1, fr",
        "c.TMX: unit 100, fr",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "a.v2.en").unlink(), r"/a\.v2\.fr\.gz: there is no a\.v2\.en beside it; add it, "),
        (lambda folder: (folder / "Thumbs.db").touch(), r"/Thumbs\.db: there is no .* or move Thumbs\.db to another"),
        (lambda folder: (folder / "notes.txt").touch(), r"train/notes\.txt: not named as a text \(NAME\.en, .*csv"),
        (lambda folder: (folder / "more").mkdir(), r"train/more: not named as a text"),
        (lambda folder: (folder / "b.fr").touch(), r"train/b\.fr: b\.en-fr\.tsv is there too; keep one of them"),
        (lambda folder: write(folder / "a.v2.en", ["one"]), r"a\.v2\.en has 1 line but .*a\.v2\.fr\.gz has 100;"),
        (lambda folder: write(folder.with_name("train.en"), ["a"]), r"raw/train\.en: train is there too; keep one"),
        (lambda folder: (folder / "a.v2.en").write_bytes(b"a\n\xff\n" + b"b\n" * 198), r"train/a\.v2\.en:2: byte 0xFF"),
    ],
)  # fmt: skip
def test_a_folder_of_texts_must_have_each_of_them_in_both_languages(
    several: Path, tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    change(several)
    with pytest.raises(UserError, match=message):
        prepare(find_raw(several.parent, "en", "fr")[0], tmp_path / "data", BPE, workers=1)
    assert not (tmp_path / "data" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "train/texto_en.txt",
            r"raw/train/texto_en\.txt: not named as a text \(NAME\.en, .*; rename it, or move it to",
        ),
        ("train/one.en", r"raw/train/one\.en: there is no one\.fr beside it; add it"),
        ("train/more/one.en", r"raw/train/more: not named as a text"),
        ("train/.hidden", r"raw/train: a folder without texts; put texts there"),
        ("bible.en", r"raw/train\.en: no such file \(nor .*; texts of other names go into the folder .*raw/train/$"),
        ("train.en", r"raw/train\.fr: no such file \(nor \.gz or \.zst\)$"),
        ("train.quechua", r"raw/train\.quechua: quechua is not a language code such as .*; rename the file$"),
    ],
)
def test_files_that_are_not_named_as_training_text_are_told_how(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / "raw" / name
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(UserError, match=message):
        find_raw(tmp_path / "raw", "quechua" if "quechua" in name else "en", "fr")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("b.en-fr.tsv:en", r"b\.en-fr\.tsv: a table; name a column of it for each side, as .*b\.en-fr\.tsv:1$"),
        ("b.en-fr.tsv:0", r"b\.en-fr\.tsv: a table; name a column"),
        (":english", r"train: a folder; name a language of its texts for each side, as .*/train:en$"),
        ("b.en-de.tsv:en", r"b\.en-de\.tsv:en: no such file$"),
    ],
)
def test_a_side_of_a_text_that_does_not_exist_is_told_from_a_text(several: Path, name: str, message: str) -> None:
    side = Path(f"{several}{name}" if name.startswith(":") else several / name)
    with pytest.raises(UserError, match=message):
        prepare({"train": Files(side, side)}, several.parent.parent / "data", BPE, workers=1)


def test_a_language_that_is_asked_for_is_not_one_that_a_memory_has(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for name in ("one.tmx", "two.en-fr.tmx"):
        (tmp_path / "train" / name).touch()
    with pytest.raises(UserError, match="/ has en and fr, not enn: which one is the source"):
        find_raw(tmp_path, "enn", None)


@pytest.mark.parametrize("name", ["tmx", "TMX", "jsonl", "json", "jsonl.gz"])
def test_a_memory_without_languages_in_its_name_is_a_set_in_those_that_are_given(tmp_path: Path, name: str) -> None:
    write(tmp_path / "train.en", ["a"])
    write(tmp_path / "train.fr", ["b"])
    (tmp_path / f"dev.{name}").touch()
    (tmp_path / f"test.old.{name}").touch()
    files, *languages = find_raw(tmp_path, "en", None)
    assert languages == ["en", "fr"]
    memory = tmp_path / f"dev.{name}"
    assert files == {
        "train": Files(tmp_path / "train.en", tmp_path / "train.fr"),
        "dev": Files(Path(f"{memory}:en"), Path(f"{memory}:fr")),
    }
    (tmp_path / "dev.jsonl.zst").touch()
    with pytest.raises(UserError, match=r"/dev\.\S+: dev\.\S+ is there too; keep one of them"):
        find_raw(tmp_path, "en", "fr")


def test_memories_of_training_text_need_the_languages(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text('{"translation": {"fr": "un", "fon": "one"}}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"has no train\.LANGUAGE: name two languages, for example"):
        find_raw(tmp_path, None, None)
    files = find_raw(tmp_path, "fon", "fr")[0]["train"]
    assert [list(read_lines(side)) for side in files] == [["one"], ["un"]]


def test_a_folder_as_a_whole_is_no_text_of_one_language(several: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train: a folder; name a language of its texts .* as .*train:en"):
        prepare({"train": Files(several, several)}, tmp_path / "data", BPE, workers=1)
    assert language_of(Path(f"{several}:pt-BR")) == language_of(Path(f"{several}/:pt-BR")) == "pt-BR"


@pytest.mark.parametrize("place", [".", "data"])
def test_nothing_is_written_into_a_folder_of_texts(several: Path, tmp_path: Path, place: str) -> None:
    files = find_raw(several.parent, "en", "fr")[0]
    before = set(several.iterdir())
    with pytest.raises(UserError, match=r"`output` .*train.*: is in the folder of the texts, .*raw/train; name "):
        prepare(files, several / place, BPE, workers=1)
    with pytest.raises(UserError, match=r"`keep_rejected` .*/r\.tsv: is in the folder of the texts, .*raw/train; "):
        prepare(files, tmp_path / "data", BPE, 1, several / "r.tsv")
    assert set(several.iterdir()) == before


def test_a_text_that_is_added_to_a_folder_while_it_is_read_is_refused(
    several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adding(*arguments: Any) -> Any:
        contents = read_all(*arguments)
        for language in ("en", "fr"):
            (several / f"added.{language}").write_text("one\n")
        return contents

    read_all, held_out = nmtkit.text.work.read_all, SetOptions(dev_size=20)
    files = find_raw(several.parent, "en", "fr")[0]
    with monkeypatch.context() as patch, pytest.raises(UserError, match=r"added\.en: changed while prep was reading"):  # noqa: PT012
        patch.setattr("nmtkit.text.work.read_all", adding)
        prepare(files, tmp_path / "data", BPE, workers=1, held_out=held_out)
    assert prepare(files, tmp_path / "data", BPE, workers=1, held_out=held_out).manifest["pairs"]["train"] == 301


def test_a_text_of_a_folder_that_is_named_with_a_region_is_in_the_language_without_it(several: Path) -> None:
    sides = f"{several}:en", f"{several}:fr"
    before = [list(read_lines(side)) for side in sides]
    (several / "a.v2.en").rename(several / "a.v2.en-US")
    (several / "c.TMX").rename(several / "c.en-GB-fr.TMX")
    assert [list(read_lines(side)) for side in sides] == before


def test_a_folder_with_hidden_files_only_has_no_texts(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / ".hidden").touch()
    with pytest.raises(UserError, match=r": a folder without texts; put texts there, named NAME\.en, "):
        prepare({"train": Files(Path(f"{folder}:en"), Path(f"{folder}:fr"))}, tmp_path / "data", BPE, workers=1)


def test_the_languages_of_a_folder_are_asked_for_if_its_names_do_not_say_which_is_the_source(several: Path) -> None:
    with pytest.raises(UserError, match="raw/ has en and fr: which one is the source"):
        find_raw(several.parent, None, None)
    assert find_raw(several.parent, "fr", None)[1:] == ("fr", "en")


def test_a_folder_of_texts_that_cannot_be_read_is_named_and_no_other_folder_is_read(
    several: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (several.parent / "private").mkdir()
    unreadable, listed = several, Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        if folder.name in ("private", unreadable.name):
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(UserError, match=r"raw/train: cannot be read: Permission denied"):
        find_raw(several.parent, "en", "fr")
    unreadable = several.parent / "other"
    assert find_raw(several.parent, "en", "fr")[0]["train"].src == Path(f"{several}:en")


def test_a_folder_without_texts_is_none_of_raw_text(repetitive: dict[str, Files], tmp_path: Path) -> None:
    for name in ("dev/notes.txt", "test/conftest.py", "train/train.log", "train/vocab.src"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert find_raw(tmp_path, "en", "fr")[0] == repetitive


def test_a_table_with_more_columns_than_two_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "train.en-fr.tsv").write_text("1\tone\tun\tcounted\n")
    (tmp_path / "dev.en-fr.tsv").write_text("one\tun\n")
    find_raw(tmp_path, None, None)
    [told] = [message for message in caplog.messages if "are read" in message]
    table = tmp_path / "train.en-fr.tsv"
    remedy = f"to read others: nmtkit prep --train {table}:2 {table}:3"
    assert told == f"{table}: only the first 2 of 4 columns are read; {remedy}"


def test_a_table_with_more_columns_in_a_folder_of_texts_is_warned_of(
    several: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = several / "b.en-fr.tsv"
    table.write_text("1\tone\tun\n")
    find_raw(several.parent, "en", "fr")
    nmtkit.prep(output=tmp_path / "data", train=(f"{several}:en", f"{several}:fr"), words=True, jobs=1)
    told = [message for message in caplog.messages if "are read" in message]
    assert told == [f"{table}: only the first 2 of 3 columns are read; leave only those of the two languages"] * 2
    chosen = (f"{table}:2", f"{table}:3")
    nmtkit.prep(output=tmp_path / "data", train=chosen, src_lang="en", tgt_lang="fr", words=True, jobs=1)
    assert [message for message in caplog.messages if "are read" in message] == told


@pytest.mark.parametrize(
    ("names", "src", "tgt", "message"),
    [
        (["train.en", "train.fr"], None, None, r"has en and fr: which one .*`src_lang` en or `src_lang` fr"),
        (
            ["train.de", "train.en", "train.fr"],
            "en",
            None,
            r"has text in de, en, fr: name two .* `src_lang` en and `tgt_lang`",
        ),
        (["train.en", "train.fr"], None, "frr", r"has en and fr, not frr: which one is the source\?"),
        ([], None, None, r"has no train\.LANGUAGE: name two"),
        (["train.en", "train.fr"], "en", "en", r"source and target language are both en; name two languages"),
        (
            ["train.en", "train.fr"],
            "en",
            "de",
            r"train\.de: no such file \(nor \.gz or \.zst\), but there is .*train\.fr$",
        ),
        (["train.en", "train.fr", "dev.en"], "en", "fr", r"dev\.fr: no such file"),
        (["train.en.csv"], "en", "fr", r"train\.en: no such file"),
        (["train.en", "train.en.gz", "train.fr"], "en", "fr", r"train\.en\.gz: train\.en is there too; keep one"),
        (["train.en", "train.en-fr.tsv"], "en", "fr", r"train\.en-fr\.tsv: train\.en is there too; keep one"),
    ],
)
def test_raw_text_that_cannot_be_chosen_is_asked_for(
    folder: Callable[..., Path], names: list[str], src: str | None, tgt: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        find_raw(folder(*names), src, tgt)


@pytest.mark.parametrize(("src", "tgt"), [("src", "tgt"), ("tok", "raw")])
def test_files_named_after_their_sides_or_in_toki_pona_or_rawang_are_found(
    folder: Callable[..., Path], src: str, tgt: str
) -> None:
    place = folder(f"train.{src}", f"train.{tgt}")
    assert find_raw(place, src, tgt)[0] == {"train": (place / f"train.{src}", place / f"train.{tgt}")}


def test_without_a_raw_folder_files_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"raw/: no such folder; put train\.en, .* or give nmtkit prep two files"):
        find_raw(tmp_path / "raw", None, None)


@pytest.mark.parametrize(("name", "language"), [("a.b.fr", "fr"), ("train.en.gz", "en"), ("x.pt-BR.zst", "pt-BR")])
def test_a_file_name_ends_in_its_language(name: str, language: str) -> None:
    assert language_of(Path(name)) == language


@pytest.mark.parametrize("name", ["train", "train.txt", "train.gz", "train.src", "train.english", "train.tsv:1"])
def test_a_file_name_without_a_language_asks_for_it(name: str) -> None:
    with pytest.raises(UserError, match=f"{name}: its name does not end in a language; give `src_lang` and `tgt_lang`"):
        language_of(Path(name))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.tmx", "name a language of it .* as a.tmx:en"),
        ("a.json.gz", "name a language of it .* as a.json.gz:en"),
        ("a.es-gn.tsv.gz", "name a column of it .* as a.es-gn.tsv.gz:1"),
        ("a.csv", "name a column of it .* as a.csv:1"),
    ],
)
def test_a_memory_or_table_asks_for_its_side_before_the_language(name: str, remedy: str) -> None:
    with pytest.raises(UserError, match=remedy):
        language_of(Path(name))


def every_rule(prep: Prep) -> Prep:
    return replace(prep, cleaning=Cleaning(drop=("identical", "script", "overlap", "duplicate")))


OPTIONAL = [
    ("identical", "Rome Rome", "Rome Rome"),
    ("script", "Дом и сад.", "Une maison et un jardin."),
    ("script", "A house, a garden.", "Дом и сад, house."),
    ("overlap", "The cat.", "Le chat"),
    ("duplicate", "The cat isn't in the dog.", "Ce n'est pas l'cat : c'est l'dog !"),
    (None, "The cat.", "Un chat."),  # in the development set with another translation
    ("overlap", "The garden.", "Le jardin"),  # in the test set
]


@pytest.fixture
def spoilt(tmp_path: Path) -> dict[str, Files]:
    """Pairs that differ from each other, and those above at the places 5, 15, ..."""
    pairs = [(f"The cat {i} isn't in the dog.", f"Ce n'est pas l'cat {i} : c'est l'dog !") for i in range(200)]
    pairs[0] = OPTIONAL[4][1:]
    for place, (_, src, tgt) in enumerate(OPTIONAL):
        pairs[10 * place + 5] = (src, tgt)
    write(tmp_path / "train.en", [src for src, _ in pairs])
    write(tmp_path / "train.fr", [tgt for _, tgt in pairs])
    for split, (_, src, tgt) in (("dev", OPTIONAL[3]), ("test", OPTIONAL[6])):
        write(tmp_path / f"{split}.en", [src])
        write(tmp_path / f"{split}.fr", [tgt])
    return find_raw(tmp_path, "en", "fr")[0]


def test_rules_that_are_not_always_on_are_tried_when_asked_for(spoilt: dict[str, Files], tmp_path: Path) -> None:
    cleaning = prepare(spoilt, tmp_path / "data", every_rule(WORDS), workers=1).manifest["cleaning"]
    found = sorted((line, rule) for rule, entry in cleaning.items() for line in entry["lines"])
    assert found == [(10 * i + 6, rule) for i, (rule, _, _) in enumerate(OPTIONAL) if rule]
    assert (tmp_path / "data" / "train.src").read_bytes().count(b"\n") == 200 - len(found)
    without = prepare(spoilt, tmp_path / "all", WORDS, workers=1).manifest["cleaning"]
    assert sum(entry["count"] for entry in without.values()) == 0


def test_the_first_of_duplicate_pairs_stays_across_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.text.work.SHARD_LINES", 7)
    monkeypatch.setattr("nmtkit.text.hashes._AT_ONCE", 10)
    numbers = random.Random(1).choices(range(30), k=100)
    write(tmp_path / "train.en", [f"cat {n}" for n in numbers])
    write(tmp_path / "train.fr", [f"chat {n}" for n in numbers])
    raw = {"train": Files(tmp_path / "train.en", tmp_path / "train.fr")}
    report = prepare(raw, tmp_path / "data", replace(WORDS, cleaning=Cleaning(drop=("duplicate",))), workers=1)
    firsts = list(dict.fromkeys(numbers))
    assert list(read_lines(tmp_path / "data" / "train.src")) == [f"cat {n}" for n in firsts]
    assert list(read_lines(tmp_path / "data" / "train.tgt")) == [f"chat {n}" for n in firsts]
    assert report.manifest["cleaning"]["duplicate"]["count"] == 100 - len(firsts)


def test_duplicates_are_looked_for_once_also_if_the_merges_are_chosen(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = list[int]()
    monkeypatch.setattr("nmtkit.text.work.repeated", lambda files: searches.append(len(files)) or repeated(files))
    prep = replace(BPE, merges=None, cleaning=Cleaning(drop=("duplicate",)))
    prepare(raw, tmp_path / "data", prep, workers=1)
    assert searches == [1]
    assert load_prep(tmp_path / "data").merges == 2_000


def test_rejected_pairs_are_written_with_line_and_rule(
    spoilt: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmtkit.text.work.SHARD_LINES", 20)
    prepare(spoilt, tmp_path / "data", every_rule(WORDS), 1, tmp_path / "rejected.tsv.gz")
    with gzip.open(tmp_path / "rejected.tsv.gz", "rt", encoding="utf-8") as file:
        rejected = [line.rstrip("\n").split("\t") for line in file]
    assert rejected == [[str(10 * i + 6), *found] for i, found in enumerate(OPTIONAL) if found[0]]  # type: ignore[has-type]


def test_a_rejected_pair_is_one_row_of_four_columns_whatever_it_contains(tmp_path: Path) -> None:
    files = Files(tmp_path / "train.en", tmp_path / "train.fr")
    write(files.src, ["a\ttab\u2028and more", *(f"cat {number}" for number in range(30))])
    write(files.tgt, ["\t", *(f"chat {number}" for number in range(30))])
    prepare({"train": files}, tmp_path / "data", WORDS, 1, tmp_path / "rejected.tsv")
    assert (tmp_path / "rejected.tsv").read_bytes().decode() == "1\tempty\ta tab\u2028and more\t \n"


def test_a_missing_folder_for_rejected_pairs_is_reported_before_the_work(
    spoilt: dict[str, Files], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"none/rejected: cannot be written: there is no folder .*none"):
        prepare(spoilt, tmp_path / "data", WORDS, 1, tmp_path / "none" / "rejected")
    assert not (tmp_path / "data").exists()


class Killed(BaseException):
    """Ends a run where it stands, as SIGKILL would."""


def die(*arguments: object) -> None:
    raise Killed


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.text.work.SHARD_LINES", 100)


@pytest.mark.parametrize("prep", [every_rule(CASED), WORDS], ids=["cased", "words"])
def test_a_run_killed_at_any_file_resumes_to_the_same_folder(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: None, prep: Prep
) -> None:
    prepare(raw, tmp_path / "whole", prep, workers=1)
    expected, replace_file = contents(tmp_path / "whole"), os.replace
    left = 0

    def replace_or_die(old: Path, new: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        replace_file(old, new)

    monkeypatch.setattr("os.replace", replace_or_die)
    for start in range(1, 50):  # in which it may finish one file more than in the last
        left = start
        try:
            prepare(raw, tmp_path / "data", prep, workers=1)
            break
        except Killed:
            pass
    assert start > 5
    assert contents(tmp_path / "data") == expected


def test_finished_shards_are_not_made_again(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: None
) -> None:
    cleaned = []

    def clean(prep: Prep, files: Files, heldout: Path, chunk: Any) -> Any:
        if len(cleaned) == 3:
            raise Killed
        cleaned.append(chunk[0].first)
        return make(prep, files, heldout, chunk)

    make = nmtkit.text.cleaning._clean
    monkeypatch.setattr("nmtkit.text.cleaning._clean", clean)
    with pytest.raises(Killed):
        prepare(raw, tmp_path / "data", BPE, workers=1)
    assert cleaned == [1, 101, 201]
    cleaned.clear()
    prepare(raw, tmp_path / "data", BPE, workers=1)
    assert cleaned == [301]


def test_text_that_changes_while_it_is_read_is_refused_and_leaves_no_shard_of_the_other_text(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: None
) -> None:
    whole = prepare(raw, tmp_path / "whole", BPE, workers=1)
    before, source = raw["train"].src.read_bytes(), raw["train"].src
    read_all = nmtkit.text.work.read_all
    for other in (before.replace(b"cat", b"cow"), before[: len(before) // 2]):

        def changing(*arguments: Any, other: bytes = other) -> Any:
            contents = read_all(*arguments)
            source.write_bytes(other)
            return contents

        with monkeypatch.context() as patch, pytest.raises(UserError, match="while prep was reading"):  # noqa: PT012
            patch.setattr("nmtkit.text.work.read_all", changing)
            prepare(raw, tmp_path / "data", BPE, workers=1)
        source.write_bytes(before)
    assert prepare(raw, tmp_path / "data", BPE, workers=1).manifest["files"] == whole.manifest["files"]


def test_a_full_disk_names_the_folder(raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    full_data = "data: cannot be written: No space left"
    with monkeypatch.context() as patch, pytest.raises(UserError, match=full_data):  # noqa: PT012
        patch.setattr("nmtkit.text.prep.sync", full)
        prepare(raw, tmp_path / "data", BPE, workers=1)
    prepare(raw, tmp_path / "data", BPE, workers=1)


def test_after_other_settings_or_other_text_everything_is_made_anew(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: None
) -> None:
    cleaned = []

    def clean(prep: Prep, files: Files, heldout: Path, chunk: Any) -> Any:
        cleaned.append(chunk[0].first)
        return make(prep, files, heldout, chunk)

    make = nmtkit.text.cleaning._clean
    monkeypatch.setattr("nmtkit.text.cleaning._clean", clean)
    other = replace(BPE, merges=21)
    for prep in (BPE, other):
        with monkeypatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
            patch.setattr("nmtkit.text.prep._finish", die)
            prepare(raw, tmp_path / "data", prep, 1)
    write(raw["dev"].src, ["other"] * 12)
    prepare(raw, tmp_path / "data", other, 1)
    assert cleaned == [1, 101, 201, 301] * 3
    assert not list((tmp_path / "data").glob(".prep-*"))


def test_parts_that_are_started_beside_an_older_run_s_folder_leave_it_alone(
    raw: dict[str, Files], tmp_path: Path, shards: None
) -> None:
    prepare_part(raw, tmp_path / "data", BPE, 1, (1, 2))
    older = set((tmp_path / "data").rglob("*"))
    prepare_part(raw, tmp_path / "data", WORDS, 1, (1, 1))
    assert older < set((tmp_path / "data").rglob("*"))
    prepare(raw, tmp_path / "data", WORDS, 1, merge=True)
    assert not list((tmp_path / "data").glob(".prep-*"))


def test_a_merge_with_another_option_than_the_shards_leaves_every_shard_where_it_was(
    raw: dict[str, Files], tmp_path: Path, shards: None
) -> None:
    prepare_part(raw, tmp_path / "data", BPE, 1, (1, 1))
    (made,) = (tmp_path / "data").glob(".prep-*")
    found = rf"4 of 4 shards are missing, .* line 1 \(those in {made.name} have other settings or another text\); "
    for merge in (1, 2):
        with pytest.raises(UserError, match=found):
            prepare(raw, tmp_path / "data", replace(BPE, merges=20 + merge), 1, merge=True)
    prepare(raw, tmp_path / "data", BPE, 1, merge=True)
    assert load_prep(tmp_path / "data") == BPE


def test_shards_that_were_made_as_parts_are_not_deleted_for_a_run_with_other_settings_or_of_another_text(
    raw: dict[str, Files], tmp_path: Path, shards: None
) -> None:
    prepare(raw, tmp_path / "whole", BPE, workers=1)
    prepare_part(raw, tmp_path / "data", BPE, 1, (1, 1))
    (made,) = (tmp_path / "data").glob(".prep-*")
    changed = re.escape("`shard` with other settings or another text (merges 20, now 21); use the same ones")
    for _ in range(2):
        with pytest.raises(UserError, match=rf"{made}: has shards made by {changed}, or delete this folder"):
            prepare(raw, tmp_path / "data", replace(BPE, merges=21), 1)
    drawn = {split: files for split, files in raw.items() if split != "dev"}
    changed = re.escape("(cleaning.drop [], now ['overlap']; dev_size None, now 3; text dev ") + r"\w+ \w+, now none\)"
    with pytest.raises(UserError, match=changed):
        prepare(drawn, tmp_path / "data", BPE, 1, held_out=SetOptions(dev_size=3))
    prepare(raw, tmp_path / "data", BPE, 1)
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")


@pytest.mark.parametrize("prep", [BPE, WORDS], ids=["by itself", "by other settings"])
def test_a_half_deleted_work_folder_is_not_resumed(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: None, prep: Prep
) -> None:
    def delete_some(folder: Path) -> None:
        for path in [*folder.rglob("*.src"), *folder.rglob("*.tgt")]:
            path.unlink()
        raise Killed

    prepare(raw, tmp_path / "whole", BPE, workers=1)
    with monkeypatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        patch.setattr("nmtkit.text.prep._finish", die)
        prepare(raw, tmp_path / "data", BPE, workers=1)
    with monkeypatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        patch.setattr("shutil.rmtree", delete_some)
        prepare(raw, tmp_path / "data", prep, workers=1)
    prepare(raw, tmp_path / "data", BPE, workers=1)
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")
    assert not list((tmp_path / "data").glob(".prep-*"))


KILLABLE = """
import sys
from pathlib import Path
from nmtkit.text import prep, raw, work
from nmtkit.text.settings import load_prep
if __name__ == "__main__":
    work.SHARD_LINES = 100
    files, _, _ = raw.find_raw(Path(sys.argv[1]), "en", "fr")
    prep.prepare(files, Path(sys.argv[3]), load_prep(Path(sys.argv[2])), int(sys.argv[4]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "kills"), [(1, 3), (2, 10)])
def test_a_run_killed_at_random_moments_resumes_to_the_same_folder(
    raw: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: None, workers: int, kills: int
) -> None:
    prepare(raw, tmp_path / "whole", every_rule(CASED), workers=1)
    (tmp_path / "run.py").write_text(KILLABLE)
    command = [sys.executable, tmp_path / "run.py", tmp_path, tmp_path / "whole", tmp_path / "data", str(workers)]
    generator = random.Random(workers)
    begun = time.monotonic()
    subprocess.run([*command[:4], tmp_path / "other", "1"], check=True)
    whole = time.monotonic() - begun
    for _ in range(kills):
        with subprocess.Popen(command) as run:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(generator.uniform(0.3, 1) * whole)
            run.kill()
    subprocess.run(command, check=True)
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")


def test_parts_made_apart_are_merged_to_the_folder_of_one_run(
    raw: dict[str, Files], tmp_path: Path, shards: None
) -> None:
    prep = every_rule(CASED)
    prepare(raw, tmp_path / "whole", prep, workers=1)
    for i in (3, 1):
        told = prepare_part(raw, tmp_path / "data", prep, 1, (i, 3))
    assert told.endswith(": 3 of 4 shards are done; when all are done, run nmtkit prep --merge")
    with pytest.raises(UserError, match=r"1 of 4 shards are missing, the first of which starts at line 101; run every"):
        prepare(raw, tmp_path / "data", prep, 1, merge=True)
    prepare_part(raw, tmp_path / "data", prep, 1, (2, 3))
    prepare(raw, tmp_path / "data", prep, 1, merge=True)
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")


def test_only_the_first_part_and_the_merge_warn_of_the_text(
    tmp_path: Path, shards: None, caplog: pytest.LogCaptureFixture
) -> None:
    files, generator = Files(tmp_path / "train.en", tmp_path / "train.fr"), random.Random(1)
    for path in files:  # of lengths that have nothing to do with each other
        write(path, [f"{n} already split in@@ to{' sub@@ words' * generator.randint(1, 9)}" for n in range(600)])

    def warned(call: Callable[..., Any], *given: Any) -> list[int]:
        caplog.clear()
        call({"train": files}, tmp_path / "data", BPE, 1, *given)
        signs = "looks segmented into subwords", "do not correspond"
        return [sum(sign in message for message in caplog.messages) for sign in signs]

    assert [warned(prepare_part, (part, 2)) for part in (1, 2)] == [[2, 1], [0, 0]]
    assert warned(prepare, None, True) == [2, 1]


def test_a_missing_shard_of_a_folder_of_texts_begins_at_a_line_of_one_of_them(
    several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmtkit.text.work.SHARD_LINES", 100)
    files, *_ = find_raw(several.parent, "en", "fr")
    for i, place in ((1, r"b\.en-fr\.tsv: line 1"), (2, r"c\.TMX: unit 1")):
        prepare_part(files, tmp_path / "data", BPE, 1, (i, 3))
        with pytest.raises(UserError, match=rf"missing, the first of which starts at .*raw/train/{place}; run every"):
            prepare(files, tmp_path / "data", BPE, 1, merge=True)


def test_a_folder_that_is_as_it_was_made_is_verified(raw: dict[str, Files], tmp_path: Path) -> None:
    prepare(raw, tmp_path / "data", BPE, workers=1)
    assert verify(tmp_path / "data").endswith("data: all 13 files are as prep wrote them")
    text = (tmp_path / "data" / "dev.tgt").read_bytes()
    (tmp_path / "data" / "dev.tgt").write_bytes(text.replace(b"c", b"C"))
    with pytest.raises(UserError, match=r"dev\.tgt: changed since prep wrote it: 12 lines with SHA-256 .*make the"):
        verify(tmp_path / "data")
    (tmp_path / "data" / "bpe.src").unlink()
    with pytest.raises(UserError, match=r"bpe\.src: in the manifest, but missing; make the folder again"):
        verify(tmp_path / "data")
    with pytest.raises(UserError, match=r"manifest\.json: not found; make the folder with nmtkit prep"):
        verify(tmp_path)
    (tmp_path / "manifest.json").write_text('{"files": {"dev.tgt": 3}}')
    with pytest.raises(UserError, match=r"manifest\.json: damaged; make the folder with nmtkit prep"):
        verify(tmp_path)


HELD = """
import sys
from pathlib import Path
from nmtkit.text import raw, work
from nmtkit.machine.processes import Workers
from nmtkit.text.settings import SetOptions, load_prep
files, _, _ = raw.find_raw(Path(sys.argv[1]), "en", "fr")
settings = load_prep(Path(sys.argv[2]))
shared = len(sys.argv) > 4
with Workers(1) as pool, work.Work.open(files, Path(sys.argv[3]), settings, pool, SetOptions(), None, shared):
    print(flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def at_work(tmp_path: Path, *arguments: str) -> Iterator[int]:
    """A process that makes the folder ``data`` with the settings of the folder ``made``, killed at the end."""
    (tmp_path / "held.py").write_text(HELD)
    command = [sys.executable, "held.py", ".", "made", "data", *arguments]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield other.pid
        other.kill()


@pytest.mark.parametrize("prep", [BPE, WORDS], ids=["the same", "other settings"])
def test_a_second_run_for_one_folder_is_refused_until_the_first_has_ended(
    raw: dict[str, Files], tmp_path: Path, prep: Prep
) -> None:
    prepare(raw, tmp_path / "made", BPE, workers=1)
    with at_work(tmp_path) as number:
        there = set((tmp_path / "data").rglob("*"))
        with pytest.raises(
            UserError, match=rf"data/\.prep-\w+: another prep \(process {number} on .+\) is writing there"
        ):
            prepare(raw, tmp_path / "data", prep, workers=1)
        assert there <= set((tmp_path / "data").rglob("*"))
        if prep == BPE:
            with pytest.raises(UserError, match="another prep"):
                prepare_part(raw, tmp_path / "data", prep, 1, (1, 2))
    prepare(raw, tmp_path / "data", prep, workers=1)  # what a killed process held is free


def test_parts_of_one_run_are_made_at_the_same_time_but_not_merged(raw: dict[str, Files], tmp_path: Path) -> None:
    prepare(raw, tmp_path / "made", BPE, workers=1)
    with at_work(tmp_path, "shared"):
        prepare_part(raw, tmp_path / "data", BPE, 1, (1, 1))
        with pytest.raises(UserError, match="another prep"):
            prepare(raw, tmp_path / "data", BPE, workers=1, merge=True)
    prepare(raw, tmp_path / "data", BPE, workers=1, merge=True)
    assert contents(tmp_path / "data") == contents(tmp_path / "made")


def test_every_reference_of_the_development_set_is_kept(raw: dict[str, Files], tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / f"more{number}", [f"Une phrase {number}.{n}" for n in range(12)])
    held_out = SetOptions((tmp_path / "more1", tmp_path / "more2"))
    prepare(raw, tmp_path / "two", BPE, workers=1)
    report = prepare(raw, tmp_path / "four", BPE, workers=1, held_out=held_out)
    two, four = contents(tmp_path / "two"), contents(tmp_path / "four")
    assert four.pop("dev.raw.tgt1") == (tmp_path / "more1").read_bytes()
    assert four.pop("dev.raw.tgt2") == (tmp_path / "more2").read_bytes()
    assert {name for name in two if two[name] != four[name]} == {"manifest.json"}
    assert [path.name for path in reference_files(tmp_path / "four", "dev")] == [
        "dev.raw.tgt", "dev.raw.tgt1", "dev.raw.tgt2",
    ]  # fmt: skip
    assert report.manifest["raw"]["dev"] == [*map(str, raw["dev"]), *map(str, held_out.references)]
    assert verify(tmp_path / "four").endswith("all 15 files are as prep wrote them")
    prepare(raw, tmp_path / "four", BPE, workers=1)
    assert contents(tmp_path / "four") == two  # what an older folder had is gone


def test_references_have_a_line_for_every_line_of_the_development_set(raw: dict[str, Files], tmp_path: Path) -> None:
    write(tmp_path / "more", ["Une phrase."])
    with pytest.raises(UserError, match=r"dev\.en has 12 lines but .*more has 1; they must be aligned"):
        prepare(raw, tmp_path / "data", BPE, workers=1, held_out=SetOptions((tmp_path / "more",)))
    del raw["dev"]
    with pytest.raises(UserError, match=r"more: a reference needs a development set; give its two files"):
        prepare(raw, tmp_path / "data", BPE, workers=1, held_out=SetOptions((tmp_path / "more",)))


@pytest.fixture
def repetitive(tmp_path: Path) -> dict[str, Files]:
    """A training text alone, in which many pairs come several times and some cannot be used."""
    numbers = random.Random(1).choices(range(150), k=300)
    pairs = [(f"A sentence, number {n}.", f"Phrase {n} !" if n % 10 else "") for n in numbers]
    write(tmp_path / "train.en", [src for src, _ in pairs])
    write(tmp_path / "train.fr", [tgt for _, tgt in pairs])
    return {"train": Files(tmp_path / "train.en", tmp_path / "train.fr")}


def pairs_of(folder: Path, split: str) -> list[tuple[str, str]]:
    return list(zip(*(read_lines(folder / f"{split}.{side}") for side in ("src", "tgt")), strict=True))


def test_a_development_set_is_drawn_from_the_training_text(repetitive: dict[str, Files], tmp_path: Path) -> None:
    report = prepare(repetitive, tmp_path / "data", BPE, workers=1, held_out=SetOptions(dev_size=50))
    train, dev = pairs_of(tmp_path / "data", "train"), pairs_of(tmp_path / "data", "dev")
    assert len(dev) == len(set(dev)) == 50
    assert not set(train) & set(dev)
    everything = prepare(repetitive, tmp_path / "whole", BPE, workers=1)
    assert sum(rule["count"] for rule in everything.manifest["cleaning"].values()) > 20  # the blank ones
    raw = [list(read_lines(path)) for path in repetitive["train"]]
    drawn = [list(read_lines(tmp_path / "data" / f"dev.raw.{side}")) for side in ("src", "tgt")]
    assert {*zip(*drawn, strict=True)} <= {*zip(*raw, strict=True)}
    assert report.manifest["cleaning"]["overlap"]["count"] >= 50
    assert report.manifest["raw"]["dev"] == report.manifest["raw"]["train"]
    assert load_prep(tmp_path / "data").cleaning.drop == ("overlap",)
    assert sum(tgt != "" for tgt in raw[1]) == len(train) + report.manifest["cleaning"]["overlap"]["count"]


def test_a_test_set_is_sampled_beside_the_development_set(repetitive: dict[str, Files], tmp_path: Path) -> None:
    alone = prepare(repetitive, tmp_path / "alone", BPE, workers=1, held_out=SetOptions(dev_size=50))
    report = prepare(repetitive, tmp_path / "data", BPE, workers=1, held_out=SetOptions(dev_size=50, test_size=40))
    train, dev, test = (pairs_of(tmp_path / "data", split) for split in ("train", "dev", "test"))
    assert len(test) == len(set(test)) == 40
    assert len(dev) == len(set(dev)) == 50
    assert not set(test) & {*train, *dev}
    raw = [[*read_lines(path)] for path in repetitive["train"]]
    sampled = [[*read_lines(tmp_path / "data" / f"test.raw.{side}")] for side in ("src", "tgt")]
    assert {*zip(*sampled, strict=True)} <= {*zip(*raw, strict=True)}
    assert report.manifest["raw"]["test"] == report.manifest["raw"]["train"] == alone.manifest["raw"]["dev"]
    assert "test" not in alone.manifest["raw"]


def test_a_sampled_test_set_shares_no_pair_with_a_given_development_set(
    repetitive: dict[str, Files], tmp_path: Path
) -> None:
    repetitive["dev"] = Files(tmp_path / "dev.en", tmp_path / "dev.fr")
    write(repetitive["dev"].src, [f"A sentence,  number {n}." for n in range(60)])
    write(repetitive["dev"].tgt, [f"Phrase {n}  !" for n in range(60)])
    prepare(repetitive, tmp_path / "data", BPE, workers=1, held_out=SetOptions(test_size=50))
    train, dev, test = (pairs_of(tmp_path / "data", split) for split in ("train", "dev", "test"))
    assert len(test) == 50
    assert not set(test) & {*train, *dev}


def test_a_drawn_development_set_shares_no_pair_with_the_test_set(repetitive: dict[str, Files], tmp_path: Path) -> None:
    tested = [(f"A sentence,  number {n}.", f"Phrase {n}  !") for n in range(60)]
    repetitive["test"] = Files(tmp_path / "test.en", tmp_path / "test.fr")
    for path, lines in zip(repetitive["test"], zip(*tested, strict=True), strict=True):
        write(path, [*lines])
    prepare(repetitive, tmp_path / "data", BPE, workers=1, held_out=SetOptions(dev_size=50))
    dev, test = (pairs_of(tmp_path / "data", split) for split in ("dev", "test"))
    assert len(dev) == 50
    assert not set(dev) & set(test)


def test_the_sampled_development_set_depends_on_the_seed_only(
    repetitive: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seed in (("first", 1), ("second", 1), ("other", 2)):
        prepare(repetitive, tmp_path / name, BPE, workers=1, held_out=SetOptions(dev_size=50, seed=seed))
        monkeypatch.setattr("nmtkit.text.work.SHARD_LINES", 35)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    assert pairs_of(tmp_path / "first", "dev") != pairs_of(tmp_path / "other", "dev")


def test_parts_made_apart_draw_the_same(
    repetitive: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmtkit.text.work.SHARD_LINES", 100)
    held_out = SetOptions(dev_size=50)
    prepare(repetitive, tmp_path / "whole", BPE, workers=1, held_out=held_out)
    for i in (1, 2):
        prepare_part(repetitive, tmp_path / "data", BPE, 1, (i, 2), held_out)
    prepare(repetitive, tmp_path / "data", BPE, workers=1, merge=True, held_out=held_out)
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("dev", "test", "message"),
    [
        (151, None, "`dev_size` 151: more than half of the 300 pairs"),
        (140, None, "`dev_size` 140: only 1.. of 300 pairs are distinct and pass the cleaning rules; use"),
        (100, 51, "`dev_size` 100 and `test_size` 51: more than half of the 300 pairs"),
        (None, 151, "`test_size` 151: more than half of the 300 pairs"),
    ],
)
def test_too_large_a_sample_is_refused(
    repetitive: dict[str, Files], tmp_path: Path, dev: int | None, test: int | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        prepare(repetitive, tmp_path / "data", BPE, workers=1, held_out=SetOptions(dev_size=dev, test_size=test))


def test_half_of_the_pairs_can_be_sampled_and_are_not_left_in_the_training_text(tmp_path: Path) -> None:
    raw = {"train": Files(tmp_path / "train.en", tmp_path / "train.fr")}
    write(raw["train"].src, [f"Number {number}." for number in range(40)])
    write(raw["train"].tgt, [f"Nombre {number}." for number in range(40)])
    prepare(raw, tmp_path / "data", BPE, workers=1, held_out=SetOptions(dev_size=12, test_size=8))
    sets = [pairs_of(tmp_path / "data", split) for split in ("train", "dev", "test")]
    assert [len(pairs) for pairs in sets] == [20, 12, 8]
    assert len({*chain.from_iterable(sets)}) == 40


def test_parts_with_other_samples_are_parts_of_another_run(
    repetitive: dict[str, Files], tmp_path: Path, shards: None
) -> None:
    prepare_part(repetitive, tmp_path / "data", BPE, 1, (1, 2), SetOptions(dev_size=50))
    for held_out, change in ((SetOptions(dev_size=50, seed=2), "seed 1, now 2"), (SetOptions(dev_size=51), "dev_size")):
        with pytest.raises(UserError, match=rf"made by `shard` with other settings or another text \({change}"):
            prepare(repetitive, tmp_path / "data", BPE, 1, held_out=held_out)


def test_a_set_is_sampled_from_the_few_pairs_that_are_usable(tmp_path: Path) -> None:
    """In a translation memory of many languages, most units lack one of the two."""
    raw = {"train": Files(tmp_path / "train.en", tmp_path / "train.fr")}
    write(raw["train"].src, [f"Unit {number}." for number in range(2000)])
    write(raw["train"].tgt, [f"Unité {number}." if number % 40 == 0 else "" for number in range(2000)])
    prepare(raw, tmp_path / "data", BPE, workers=1, held_out=SetOptions(dev_size=20, test_size=20))
    sets = [pairs_of(tmp_path / "data", split) for split in ("train", "dev", "test")]
    assert [len(pairs) for pairs in sets] == [10, 20, 20]
    assert len({*chain.from_iterable(sets)}) == 50


def test_pairs_that_differ_in_masked_placeholders_only_are_not_sampled_twice(tmp_path: Path) -> None:
    raw = {"train": Files(tmp_path / "train.en", tmp_path / "train.fr")}
    write(raw["train"].src, [f"See https://x.org/{n}" if n % 2 else f"Number {n}." for n in range(100)])
    write(raw["train"].tgt, [f"Voir https://x.org/{n}" if n % 2 else f"Nombre {n}." for n in range(100)])
    prepare(raw, tmp_path / "data", replace(BPE, mask=True), workers=1, held_out=SetOptions(dev_size=20, test_size=20))
    drawn = [line for split in ("dev", "test") for line in read_lines(tmp_path / "data" / f"{split}.raw.src")]
    assert sum("https" in line for line in drawn) == 1


@pytest.mark.parametrize("split", ["dev", "test"])
def test_an_existing_set_is_not_sampled(raw: dict[str, Files], tmp_path: Path, split: str) -> None:
    raw["test"] = Files(*(path.with_name(f"test{path.suffix}") for path in raw["dev"]))
    for path, copy in zip(raw["dev"], raw["test"], strict=True):
        shutil.copy(path, copy)
    with pytest.raises(UserError, match=rf"`{split}_size` 5: there is already .*{split}\.en; use only one of them"):
        prepare(raw, tmp_path / "data", BPE, workers=1, held_out=SetOptions(**{f"{split}_size": 5}))


@pytest.mark.parametrize(("form", "other"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_text_is_converted_to_the_normal_form_of_most_training_lines(
    form: Form, other: Form, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for split, lines in (("train", ["Où est l'été ?", "Un thé."] * 10), ("dev", ["L'été, où ?"])):
        write(raw / f"{split}.en", ["Where is summer?"] * len(lines))
        forms = [form] * len(lines) if split == "train" else [other]
        forms[3:4] = [other] * len(forms[3:4])
        write(raw / f"{split}.fr", [normalize(each, line) for each, line in zip(forms, lines, strict=True)])
    plain = Prep(Side("en", tokenizer="reversible"), Side("fr", tokenizer="reversible"), merges=20)
    with caplog.at_level("INFO"):
        report = prepare(find_raw(raw, "en", "fr")[0], tmp_path / "data", plain, workers=1)
    assert (
        f"{raw / 'train.fr'}: 1 of 20 lines are converted to {form}, the normal form of the others" in caplog.messages
    )
    assert load_prep(tmp_path / "data").tgt.form == form
    for split in ("train", "dev"):
        assert is_normalized(form, (tmp_path / "data" / f"{split}.tgt").read_text(encoding="utf-8"))
    assert (tmp_path / "data" / "dev.raw.tgt").read_bytes() == (raw / "dev.fr").read_bytes()
    assert "20 of 20 sampled lines detokenise exactly" in str(report)
    pipeline = TextPipeline.load(tmp_path / "data", "tgt")
    assert pipeline.tokens(normalize("NFC", "Où, l'été ?")) == pipeline.tokens(normalize("NFD", "Où, l'été ?"))


def test_text_without_accents_is_in_nfc(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = Files(tmp_path / "train.en", tmp_path / "train.fr")
    write(files.src, [f"cat {number}" for number in range(10)])
    write(files.tgt, [f"chat {number}" for number in range(10)])
    sides = Side("en", tokenizer="reversible", segmentation="words"), Side("fr", tokenizer="none", segmentation="words")
    with caplog.at_level("INFO"):
        prepare({"train": files}, tmp_path / "data", Prep(*sides), workers=1)
    assert (load_prep(tmp_path / "data").src.form, load_prep(tmp_path / "data").tgt.form) == ("NFC", None)
    assert "converted" not in caplog.text


def test_text_of_which_most_lines_are_in_no_normal_form_stays_as_it_is_written(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    lines = ["\u09ac\u09be\u09dc\u09bf \u09af\u09be\u09df"] * 10  # "goes home": two letters that NFC and NFD take apart
    assert not any(is_normalized(form, line) for form in ("NFC", "NFD") for line in lines)
    write(raw / "train.en", ["goes home"] * 10)
    write(raw / "train.bn", lines)
    plain = Prep(Side("en", tokenizer="reversible"), Side("bn", tokenizer="reversible"), merges=20)
    prepare(find_raw(raw, "en", "bn")[0], tmp_path / "data", plain, workers=1)
    assert load_prep(tmp_path / "data").tgt.form is None
    pipeline = TextPipeline.load(tmp_path / "data", "tgt")
    assert pipeline.text(pipeline.tokens(lines[0])) == lines[0]


def test_moses_gets_text_in_the_form_that_it_has(raw: dict[str, Files], tmp_path: Path) -> None:
    prepare(raw, tmp_path / "data", BPE, workers=1)
    assert (load_prep(tmp_path / "data").src.form, load_prep(tmp_path / "data").tgt.form) == (None, None)


def test_a_file_cannot_be_both_sides(tmp_path: Path) -> None:
    write(tmp_path / "train.en", ["a cat"] * 9)
    (tmp_path / "train.fr").symlink_to(tmp_path / "train.en")
    with pytest.raises(UserError, match=r"train.en: is given for both sides; give a source file and a target file$"):
        prepare(find_raw(tmp_path, "en", "fr")[0], tmp_path / "data", WORDS, workers=1)


def test_a_development_set_that_is_the_training_text_is_named(
    raw: dict[str, Files], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepare({"train": raw["test"], "dev": raw["dev"], "test": raw["test"]}, tmp_path / "data", WORDS, workers=1)
    same = [message for message in caplog.messages if "the same text as train" in message]
    assert [message.split(":")[0] for message in same] == [
        f"{files.src}, {files.tgt}" for files in (raw["dev"], raw["test"])
    ]


def test_text_that_becomes_shorter_than_it_was_counted_is_an_error(tmp_path: Path) -> None:
    files = Files(tmp_path / "train.en", tmp_path / "train.fr")
    for path, lines in zip(files, (9, 8), strict=True):
        write(path, ["word"] * lines)
    assert [len(src.lines) for src, _ in paired_chunks(files, [Shard(0, 1, 8)])] == [8]
    with pytest.raises(UserError, match=r"train\.fr: became shorter while prep was reading them; run it again$"):
        list(paired_chunks(files, [Shard(0, 1, 9)]))


def test_the_same_text_on_both_sides_is_warned_of(
    raw: dict[str, Files], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy.fr"
    copy.write_bytes(raw["train"].src.read_bytes())
    prepare(raw | {"train": Files(raw["train"].src, copy)}, tmp_path / "data", WORDS, workers=1)
    same = [message for message in caplog.messages if "the same text" in message]
    assert same == [f"{raw['train'].src}, {copy}: the same text; name the translation as the target"]


@pytest.mark.parametrize("suffix", ["tsv", "tsv.gz"])
def test_quotes_as_in_csv_in_the_columns_of_a_named_table_are_warned_of(
    suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [f"The cat is {n}.\tLe chat a {n}.\tno note" for n in range(20)]
    quoted = '"He said ""Yes""."'
    for name, last in (("plain", f'"Yes"\t« Oui »\t{quoted}'), ("quoted", f"{quoted}\tIl dit « Oui ».\tno note")):
        table, text = tmp_path / f"{name}.{suffix}", "".join(f"{row}\n" for row in [*rows, last]).encode()
        table.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
        prepare({"train": Files(Path(f"{table}:1"), Path(f"{table}:2"))}, tmp_path / name, WORDS, workers=1)
    [told] = [message for message in caplog.messages if "quoted" in message]
    remedy = "export the table as tab-separated text without quotes, or rename it .csv"
    assert told == f"{table}:21, column 1: quoted as in CSV, but quotes are read as text; {remedy}"


@pytest.mark.parametrize("quoted", [9, 10])
def test_quotes_around_all_cells_of_a_column_are_those_of_csv(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, quoted: int
) -> None:
    table = tmp_path / "train.en-fr.tsv"
    rows = [f'"The cat is {n}."\tLe chat a {n}.' for n in range(quoted)] + ["Yes.\tOui."] * 11
    table.write_text("\n".join(rows), encoding="utf-8-sig")
    prepare(find_raw(tmp_path, "en", "fr")[0], tmp_path / "data", WORDS, workers=1)
    told = [message.partition(": quoted")[0] for message in caplog.messages if "quoted" in message]
    assert told == ([f"{table}:10, column 1"] if quoted == 10 else [])


@pytest.mark.parametrize("other", ["Yes, please.", '"Yes"'])
def test_quotes_around_all_cells_with_a_comma_are_those_of_excel(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    table = tmp_path / "train.en-fr.tsv"
    rows = [
        row for n in range(10) for row in (f'"Oh, the cat is {n}."\tLe chat a {n}.', f"The dog {n}.\tLe chien {n}.")
    ]
    write(table, [f"{other}\tOui.", *rows, '"No"\tNon.'])
    files = find_raw(tmp_path, "en", "fr")[0]
    prepare(files, tmp_path / "data", WORDS, workers=1)
    told = [message.partition(": quoted")[0] for message in caplog.messages if "quoted" in message]
    assert told == ([] if other == "Yes, please." else [f"{table}:20, column 1"])
    if told:
        assert [each.lines for each in examine_text(files, "en", "fr") if "quoted" in each.what] == [[20]]
        table.rename(tmp_path / "train.en-fr.csv")
        assert next(read_lines(tmp_path / "train.en-fr.csv:1")) == "Yes"


@pytest.mark.parametrize("broken", ['"The\ncat."\tLe chat.', 'The cat.\t"Le\nchat."'])
def test_quotes_around_a_line_break_in_a_table_with_tabs_are_those_of_csv(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    table = tmp_path / "train.en-fr.tsv"
    write(table, ['"Yes.\t« Oui.', broken])
    files = find_raw(tmp_path, "en", "fr")[0]
    with pytest.raises(UserError, match=r"train\.en-fr\.tsv: line \d has 1 column, so no column 2; fix the line"):
        prepare(files, tmp_path / "data", WORDS, workers=1)
    [told] = [message for message in caplog.messages if "quoted" in message]
    assert re.search(r"train\.en-fr\.tsv:[23]: quoted as in CSV, .*, or rename it \.csv$", told)
    assert any("quoted as in CSV" in finding.what for finding in examine_text(files, "en", "fr"))
