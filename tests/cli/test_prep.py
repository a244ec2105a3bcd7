import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.text.settings import Cleaning, Prep, Side, load_prep

Run = Callable[..., Any]  # the command line of tests/conftest.py

ENGLISH = ["The cat isn't here.", "The dog isn't here.", ""]
FRENCH = ["Le chat n'est pas là.", "Le chien n'est pas là.", ""]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with raw/{train,dev,test}.{en,fr}."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    for split in ("train", "dev", "test"):
        for language, lines in (("en", ENGLISH), ("fr", FRENCH)):
            (tmp_path / "raw" / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_raw_becomes_data_and_what_was_done_is_told_on_stderr(nmtkit: Run, folder: Path) -> None:
    outcome = nmtkit("prep", "-s", "en", "-t", "fr", "-j1")
    assert (outcome.status, outcome.out) == (0, "")
    assert "data: en to fr, joint BPE of " in outcome.err
    assert "  train 2 of 3 pairs, " in outcome.err
    assert "    left out 1 for an empty side: line 3\n" in outcome.err
    assert "  test  3 pairs, " in outcome.err
    assert (
        "BPE with 2,000 merges, because the training text has 11 words per side; set --bpe for another" in outcome.err
    )
    assert "  fr: 3 of 3 sampled lines detokenise exactly\n" in outcome.err
    own = {"normalize": False, "tokenizer": "reversible", "form": "NFC"}
    assert load_prep(folder / "data") == Prep(Side("en", **own), Side("fr", **own), merges=2000)  # type: ignore[arg-type]
    assert (folder / "data" / "test.raw.tgt").read_text(encoding="utf-8").splitlines() == FRENCH


def test_the_number_of_merges_depends_on_the_side_whose_words_are_found(nmtkit: Run, folder: Path) -> None:
    (folder / "en").write_text("my cat sleeps\nyour dog runs home\n", encoding="utf-8")
    (folder / "th").write_text("แมวของฉันนอน\nหมาของคุณวิ่ง กลับบ้าน\n", encoding="utf-8")
    outcome = nmtkit("prep", "--train", "en", "th", "-s", "en", "-t", "th", "-j1")
    assert "because the training text has 7 words per side;" in outcome.err


def test_tokenised_text_is_warned_of_unless_the_tokenizer_treats_plain_text_alike(nmtkit: Run, folder: Path) -> None:
    raw = folder / "raw"
    (raw / "train").mkdir()
    for language, lines in (("en", ENGLISH), ("fr", FRENCH)):
        (raw / f"train.{language}").rename(raw / "train" / f"web.{language}")
        tokenised = "".join(f"{line.removesuffix('.')} , oh .\n" for line in lines)
        for name in ("train/bible", "test"):
            (raw / f"{name}.{language}").write_text(tokenised, encoding="utf-8")
    warnings = "".join(
        f"raw/{name}.{language}: looks tokenised: commas and full stops follow a space; a model of tokenised text "
        f"translates plain text badly; detokenise it first, for example with sacremoses -l {language} detokenize\n"
        for name in ("train/bible", "test")
        for language in ("en", "fr")
    )
    assert warnings in nmtkit("prep", "-s", "en", "-j1").err
    assert warnings in nmtkit("prep", "-s", "en", "-j1", "--shard", "1/1", "-o", "part").err
    for other in ("none", "moses"):
        assert "looks tokenised" not in nmtkit("prep", "-s", "en", "-j1", "--tokenizer", other, "-o", other).err
    assert nmtkit("prep", "-s", "en", "-j1", "--tokenizer", "en=moses", "-o", "one").err.count("looks tokenised") == 2


def test_tokenised_texts_in_a_folder_have_one_warning_for_each_language(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "train").mkdir()
    for language, lines in (("en", ENGLISH), ("fr", FRENCH)):
        (folder / "raw" / f"train.{language}").unlink()
        for name in "abc":
            text = "".join(f"{line.removesuffix('.')} , oh .\n" for line in lines)
            (folder / "raw" / "train" / f"{name}.{language}").write_text(text, encoding="utf-8")
    warned = [line for line in nmtkit("prep", "-s", "en", "-j1").err.splitlines() if "looks tokenised" in line]
    assert [line.partition(": looks")[0] for line in warned] == [
        f"raw/train/a.{language} and 2 more, which nmtkit doctor lists" for language in ("en", "fr")
    ]
    assert nmtkit("doctor", "-s", "en").out.count("looks tokenised") == 6


def test_html_entities_are_warned_of_and_the_remedy_works(nmtkit: Run, folder: Path) -> None:
    train = folder / "raw" / "train.en"
    train.write_text("Jack &amp; Jill.\nIt&#39;s here.\nNo.\n", encoding="utf-8")
    said = nmtkit("prep", "-s", "en", "-j1").err
    told, _, command = said.partition("raw/train.en: has HTML entities such as &amp;; decode them first, for example ")
    assert told != said
    command = command.removeprefix("with ").partition("\n")[0]
    assert said.count("entities") == 1
    decoded = subprocess.run(f"{command} < {train}", shell=True, capture_output=True, text=True, check=True)
    assert decoded.stdout == "Jack & Jill.\nIt's here.\nNo.\n"
    train.write_text(decoded.stdout, encoding="utf-8")
    assert "entities" not in nmtkit("prep", "-s", "en", "-j1").err


def test_sets_that_are_not_written_like_the_training_text_are_reported_unless_prep_makes_them_alike(
    nmtkit: Run, folder: Path
) -> None:
    for split, line in (("train", "the cat isn't here"), ("dev", "The cat isn’t here"), ("test", "the cat isn't here")):
        (folder / "raw" / f"{split}.en").write_text(f"{line}\n" * 100, encoding="utf-8")
        (folder / "raw" / f"{split}.fr").write_text("il n'est pas là\n" * 100, encoding="utf-8")
    said = nmtkit("prep", "-s", "en", "-j1").err
    assert said.count("not written like") == 2
    for what in ("capital letters in 100%", "’ (U+2019) in 100%"):
        assert f"raw/dev.en: not written like raw/train.en: {what} of the lines instead of 0%" in said
    assert "capital" not in nmtkit("prep", "-s", "en", "-j1", "--truecase", "-o", "truecased").err
    assert "not written" not in nmtkit("prep", "-s", "en", "-j1", "--lowercase", "--normalize", "-o", "alike").err


def test_a_set_that_is_partly_in_the_training_text_is_reported_unless_prep_drops_it_there(
    nmtkit: Run, folder: Path
) -> None:
    for language in ("en", "fr"):
        lines = [f"{language} sentence {number} \n" for number in range(100)]
        own = [f"{language} other {number}\n" for number in range(10)]
        (folder / "raw" / f"train.{language}").write_text("".join(lines), encoding="utf-8")
        (folder / "raw" / f"dev.{language}").write_text("".join(own[:9] + lines[:1]), encoding="utf-8")
        (folder / "raw" / f"test.{language}").write_text("".join(own[:8] + lines[:2]).replace(" \n", "\n"))
    said = nmtkit("prep", "-s", "en", "-j1").err
    found = "raw/test.en, raw/test.fr: 2 of 10 pairs are in the training text, so scores are too high"
    assert f"{found}; --drop overlap leaves them out of it\n" in said
    assert said.count("too high") == 1
    dropped = nmtkit("prep", "-s", "en", "-j1", "--drop", "overlap", "-o", "dropped").err
    assert "too high" not in dropped
    assert "left out 2 for being in the development or test set" in dropped


@pytest.mark.parametrize("cut", [True, False])
def test_sides_that_are_misaligned_from_a_lost_line_on_are_reported_with_the_first_such_lines(
    nmtkit: Run, folder: Path, cut: bool
) -> None:
    lengths = random.Random(1).choices(range(1, 30), k=1001)
    for language in ("en", "fr"):
        lines = ["word " * length for length in lengths]
        del lines[299 if language == "fr" else 1000 : 300 if language == "fr" else 1001 if cut else 1000]
        (folder / "raw" / f"train.{language}").write_text("\n".join(lines), encoding="utf-8")
    outcome = nmtkit("prep", "-s", "en", "-j1")
    found = (
        "by their lengths, lines 321 to 920 do not correspond to those of raw/train.fr (lines 321 to 420 correspond to "
        "lines 320 to 419)"
    )
    remedy = "find the first misaligned pair, where a line was lost or broken in two"
    if cut:
        assert outcome.status == 0
        assert f"raw/train.en: {found}; {remedy}, or leave these lines out\n" in outcome.err
        assert nmtkit("prep", "-s", "en", "-j1", "--shard", "1/1", "-o", "part").err.count(found) == 1
    else:
        numbers = "raw/train.en has 1,001 lines but raw/train.fr has 1,000; they must be aligned line by line"
        assert f"{numbers}: {remedy} ({found})\n" in outcome.err
        assert outcome.status == 1


@pytest.mark.parametrize(
    ("mark", "written", "command"),
    [
        ("@@", "The c@@ at i@@ s here .", "sed 's/@@ //g'"),
        ("▁", "▁The ▁c at ▁is ▁here .", "sed 's/ //g; s/▁/ /g; s/^ //'"),
    ],
)
def test_text_in_subwords_is_warned_of_unless_its_words_are_not_split_and_the_remedy_works(
    nmtkit: Run, folder: Path, mark: str, written: str, command: str
) -> None:
    (folder / "raw" / "train.en").write_text(f"{written}\n" * 3, encoding="utf-8")
    warning = f"raw/train.en: looks segmented into subwords, with {mark} in many lines; join them first, for example "
    for options in ((), ("--tokenizer", "none")):
        said = nmtkit("prep", "-s", "en", "-j1", *options, "-o", "".join(options) or "data").err
        assert f"{warning}with {command}\n" in said
        assert "looks tokenised" not in said
    assert "looks" not in nmtkit("prep", "-s", "en", "-j1", "--words", "--tokenizer", "none", "-o", "words").err
    joined = subprocess.run(f"{command} raw/train.en", shell=True, capture_output=True, text=True, check=True)
    assert joined.stdout.startswith("The cat is here")


@pytest.mark.parametrize("mark", "'’`")
def test_words_that_are_split_at_apostrophes_are_warned_of_and_the_remedy_works(
    nmtkit: Run, folder: Path, mark: str
) -> None:
    train = folder / "raw" / "train.en"
    train.write_text(f"A jach {mark} a uta.\nIt{mark}s {mark} quoted {mark}.\n{'a' * 100_000} J {mark} ai.\n")
    said = nmtkit("prep", "-s", "en", "-t", "fr", "-j1").err
    example = f"{f'jach {mark} a'!r}; join the words, for example with: "
    command = said.partition(f"raw/train.en: has apostrophes between spaces, as in {example}")[2].partition("\n")[0]
    done = subprocess.run(f"{command} {train}", shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"A jach{mark}a uta.\nIt{mark}s{mark}quoted {mark}.\n")
    train.write_text(done.stdout)
    assert "apostrophes" not in nmtkit("prep", "-s", "en", "-t", "fr", "-j1", "-o", "joined").err


def test_without_options_the_direction_is_asked_for(nmtkit: Run) -> None:
    assert nmtkit("prep") == (
        1,
        "",
        "nmtkit: error: raw/ has en and fr: which one is the source? Add --src-lang en or --src-lang fr\n",
    )


def test_every_option_is_in_the_settings(nmtkit: Run, folder: Path) -> None:
    options = (
        "--tokenizer none --lowercase --bpe 7 --separate --mask-placeholders --max-length 40 --max-ratio 3 -o out -j1"
    )
    assert nmtkit("prep", "-t", "en", *options.split()).status == 0
    side = {"normalize": False, "tokenizer": "none", "lowercase": True}
    expected = Prep(
        Side("fr", **side),  # type: ignore[arg-type]
        Side("en", **side),  # type: ignore[arg-type]
        merges=7,
        joint=False,
        mask=True,
        cleaning=Cleaning(40, 3.0),
    )
    assert load_prep(folder / "out") == expected


def test_own_words_can_be_normalised_all_the_same(nmtkit: Run, folder: Path) -> None:
    assert nmtkit("prep", "-s", "en", "--tokenizer", "none", "--normalize", "--truecase", "--words", "-j1").status == 0
    side = Side("en", normalize=True, tokenizer="none", truecase=True, segmentation="words")
    assert load_prep(folder / "data").src == side


def test_files_can_be_named_and_their_languages_are_in_their_names(nmtkit: Run, folder: Path) -> None:
    outcome = nmtkit("prep", "--train", "raw/train.fr", "raw/train.en", "--dev", "raw/dev.fr", "raw/dev.en", "-j1")
    assert outcome.status == 0
    assert load_prep(folder / "data").src.language == "fr"
    manifest = json.loads((folder / "data" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["raw"] == {"train": ["raw/train.fr", "raw/train.en"], "dev": ["raw/dev.fr", "raw/dev.en"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--words --bpe 100", "--words: words are not split; leave out --bpe"),
        ("--words --separate", "--words: words are not split; leave out --separate"),
        ("--dev a b", "--dev and --test need --train; without it, all three are read from --raw"),
        ("--lowercase --truecase -s en", "--lowercase and --truecase cannot be combined"),
        ("--max-ratio 0.5 -s en", "--max-ratio must be 0 or at least 1, not 0.5"),
        ("--train raw/train.en raw/none.fr", "raw/none.fr: no such file"),
        ("--raw none", "none/: no such folder"),
        ("--drop empty,twins -s en", "--drop empty: not one of identical, script, overlap"),
        ("--tokenizer fr=perl -s en", "--tokenizer perl: not one of reversible, moses, ch"),
        ("--tokenizer de=none -s en", "--tokenizer de=none: expected LANGUAGE=VALUE with en or fr as LANGUAGE"),
        ("--tokenizer-command cat -s en", "--tokenizer-command cat: expected LANGUAGE=VALUE with en or fr as LANGUAGE"),
        (
            "--tokenizer none --escape -s en",
            "--aggressive-hyphens, --protect and --escape are options of --tokenizer moses or",
        ),
        ("--protect ( -s en", "--protect: '(' is not a regular expression: missing ), unterminated subpattern"),
        ("--shard 3/2 -s en", "--shard 3/2: expected PART/PARTS, as in 1/8"),
        (f"--shard 1/{'9' * 5_000} -s en", f"--shard 1/{'9' * 5_000}: expected PART/PARTS, as in 1/8"),
        ("--shard 1/2 --merge", "--shard: --merge and --keep-rejected are for the command that merges the shards"),
        ("-s en -j0", "--jobs: 0 is less than 1"),
    ],
)
def test_mistakes_are_one_line_on_stderr_and_make_nothing(
    nmtkit: Run, folder: Path, options: str, message: str
) -> None:
    status, out, err = nmtkit("prep", *options.split())
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"nmtkit: error: {message}")
    assert not (folder / "data").exists()


def test_rules_and_rejected_pairs_are_named_on_the_command_line(nmtkit: Run, folder: Path) -> None:
    options = "--drop duplicate,identical --keep-rejected rejected.tsv -s en -j1"
    assert nmtkit("prep", *options.split()).status == 0
    assert load_prep(folder / "data").cleaning == Cleaning(drop=("identical", "duplicate"))
    assert (folder / "rejected.tsv").read_text(encoding="utf-8") == "3\tempty\t\t\n"


def test_parts_are_merged_and_the_folder_is_verified(nmtkit: Run, folder: Path) -> None:
    status, out, err = nmtkit("prep", "-s", "en", "-j1", "--shard", "1/2")
    assert (status, out) == (0, "")
    assert "1 of 1 shards are done; when all are done, run nmtkit prep --merge" in err
    assert not (folder / "data" / "manifest.json").exists()
    assert nmtkit("prep", "-s", "en", "-j1", "--merge").status == 0
    assert nmtkit("prep", "--verify") == (0, "", "data: all 13 files are as prep wrote them\n")
    (folder / "data" / "train.src").write_text("")
    assert nmtkit("prep", "--verify").status == 1


def test_each_language_can_have_its_own_tokenizer(nmtkit: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.text.command._PAUSE", 0.01)
    options = [
        "--tokenizer",
        "en=moses",
        "--tokenizer",
        "fr=none",
        "--tokenizer-command",
        "fr=sed -u s/a/X/",
        "--words",
        "-s",
        "en",
        "-j1",
    ]
    assert nmtkit("prep", *options, "--escape", "--aggressive-hyphens", "--protect", "<b>").status == 0
    prep = load_prep(folder / "data")
    words = {"segmentation": "words"}
    assert prep.src == Side("en", escape=True, aggressive_hyphens=True, protected=("<b>",), **words)  # type: ignore
    assert prep.tgt == Side("fr", normalize=False, tokenizer="none", command="sed -u s/a/X/", **words)  # type: ignore
    lines = (folder / "data" / "dev.tgt").read_text(encoding="utf-8").splitlines()
    assert lines == [line.replace("a", "X", 1) for line in FRENCH]


@pytest.mark.parametrize("order", [1, -1])
def test_a_tokenizer_without_a_language_is_for_the_other_language(nmtkit: Run, folder: Path, order: int) -> None:
    moses, none = ("--tokenizer=moses", "--tokenizer=fr=none")[::order]
    assert nmtkit("prep", "-s", "en", moses, none, "--words", "-j1").status == 0
    prep = load_prep(folder / "data")
    assert (prep.src.tokenizer, prep.tgt.tokenizer) == ("moses", "none")


def test_a_development_set_can_have_several_references(nmtkit: Run, folder: Path) -> None:
    (folder / "more").write_text("a\nb\n\n")
    assert nmtkit("prep", "-s", "en", "-j1", "--dev-reference", "more", "--dev-reference", "raw/dev.fr").status == 0
    assert (folder / "data" / "dev.raw.tgt1").read_text() == "a\nb\n\n"
    assert (folder / "data" / "dev.raw.tgt2").read_bytes() == (folder / "data" / "dev.raw.tgt").read_bytes()


def test_a_text_without_a_development_set_gets_one_out_of_itself(nmtkit: Run, folder: Path) -> None:
    for language in ("en", "fr"):
        (folder / f"text.{language}").write_text("".join(f"{language} {n}\n" for n in range(100)))
    for split in ("dev", "test"):
        for language in ("en", "fr"):
            (folder / "raw" / f"{split}.{language}").unlink()
    warned = nmtkit("prep", "-s", "en", "-j1", "--words").err
    remedy = "there will be no dev set; set --dev-size to sample one from train\n"
    assert f"raw/ has no dev.en and dev.fr: {remedy}" in warned
    assert "there will be no test set; set --test-size to sample one from train\n" in warned
    assert "has no dev" not in nmtkit("prep", "-s", "en", "-j1", "--words", "--dev-size", 1).err
    options = "--train text.en text.fr --dev-size 10 --test-size 20 --words -j1"
    assert nmtkit("prep", *options.split(), "--seed", "3").status == 0
    sizes = {split: (folder / "data" / f"{split}.src").read_text().count("\n") for split in ("train", "dev", "test")}
    assert sizes == {"train": 70, "dev": 10, "test": 20}
    references = (folder / "data" / "test.raw.tgt").read_text().splitlines()
    assert [
        line.replace("en", "fr") for line in (folder / "data" / "test.raw.src").read_text().splitlines()
    ] == references
    sampled = {}
    for name, seed in (("three", 3), ("again", 3), ("four", 4)):
        assert nmtkit("prep", *options.split(), "--seed", seed, "-o", name).status == 0
        sampled[name] = (folder / name / "dev.src").read_text()
    assert sampled["three"] == sampled["again"] != sampled["four"]


def test_more_text_can_be_prepared_like_a_model_s(nmtkit: Run, folder: Path) -> None:
    assert (
        nmtkit("prep", "-s", "en", "-t", "fr", "--truecase", "--bpe", 30, "--separate", "-o", "first", "-j1").status
        == 0
    )
    for path in (folder / "raw").iterdir():
        path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    outcome = nmtkit("prep", "--like", "first", "-o", "second", "--max-length", 50, "-j1")
    assert outcome.status == 0, outcome.err
    for name in ("bpe.src", "bpe.tgt", "truecase.src", "truecase.tgt"):
        assert Path("second", name).read_bytes() == Path("first", name).read_bytes()
    first, second = (load_prep(Path(name)) for name in ("first", "second"))
    assert (second.src, second.tgt, second.merges, second.joint) == (first.src, first.tgt, 30, False)
    assert second.cleaning.max_length == 50
    dev = [Path(name, "dev.src").read_text().splitlines() for name in ("first", "second")]
    assert dev[0] == dev[1][::-1]


def test_a_file_named_after_another_language_than_the_model_s_is_warned_of(nmtkit: Run, folder: Path) -> None:
    assert nmtkit("prep", "-s", "en", "-t", "fr", "--bpe", 30, "-j1").status == 0
    for name in ("more.es", "more.fr-CA"):
        (folder / name).write_text(f"{name}\n", encoding="utf-8")
    named = ["--like", "data", "-o", "second", "--train", "more.es", "more.fr-CA", "-j1"]
    warning = (
        "more.es: its name ends in es, but it is read as en; name another file, or add --src-lang en if this is the "
        "right one\n"
    )
    assert nmtkit("prep", *named, "-q") == (0, "", warning)
    assert nmtkit("prep", *named, "-q", "-s", "en") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--bpe", "9", "--lowercase"], "--like data: has its own settings; leave out --lowercase, --bpe"),
        (["--separate"], "--like data: has its own settings; leave out --separate"),
        (["-s", "fr", "-t", "en"], "--like data: is from en to fr, not from fr to en"),
        (["--like", "nowhere"], "nowhere/prep.yaml: not found; make the folder with nmtkit prep"),
        (["--max-ratio", "0.5"], "--max-ratio must be 0 or at least 1, not 0.5"),
    ],
)
def test_what_contradicts_the_model_is_refused(nmtkit: Run, folder: Path, options: list[str], complaint: str) -> None:
    assert nmtkit("prep", "-s", "en", "-t", "fr", "--bpe", 30, "-j1").status == 0
    outcome = nmtkit("prep", "--like", "data", "-o", "second", *options)
    assert (outcome.status, outcome.err) == (1, f"nmtkit: error: {complaint}\n")
    assert not Path("second").exists()


def test_a_folder_like_which_no_text_can_be_prepared_is_named_with_the_remedy(nmtkit: Run, folder: Path) -> None:
    Path("theirs").mkdir()
    outcome = nmtkit("prep", "--like", "theirs", "-o", "second")
    assert outcome.err == (
        "nmtkit: error: --like theirs: has no prep.yaml; name a data or model folder (nmtkit import makes one from the "
        "model of another toolkit)\n"
    )
    Path("theirs/ensemble.yaml").touch()
    outcome = nmtkit("prep", "--like", "theirs", "-o", "second")
    assert outcome.err == ("nmtkit: error: --like theirs: is an ensemble; name one of its models, in theirs/members\n")


def test_a_program_of_a_foreign_model_is_not_run(nmtkit: Run, folder: Path) -> None:
    assert nmtkit("prep", "-s", "en", "-t", "fr", "--words", "-j1").status == 0
    settings = Path("data/prep.yaml")
    settings.write_text(settings.read_text().replace("command: null", "command: cat", 1))
    assert "would run 'cat'" in nmtkit("prep", "--like", "data", "-o", "second").err


def test_the_report_for_scripts_is_the_manifest(nmtkit: Run, folder: Path) -> None:
    outcome = nmtkit("prep", "-s", "en", "-t", "fr", "-j1", "--json", "--words")
    manifest = json.loads((folder / "data" / "manifest.json").read_text())
    assert json.loads(outcome.out) == {"folder": "data", **manifest}
    assert "next" not in outcome.err
    refused = nmtkit("prep", "-s", "en", "-t", "fr", "--shard", "1/2", "--json")
    assert refused == (1, "", "nmtkit: error: --json: describes a whole data folder; leave out --shard and --verify\n")
