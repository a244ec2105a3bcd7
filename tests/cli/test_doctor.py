import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.kernels import door
from nmtkit.ops.plain import PLAIN

Run = Callable[..., Any]  # the command line of tests/conftest.py


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "raw" / f"{split}.en").write_text(f"a {split}\nb {split}\n")
        (tmp_path / "raw" / f"{split}.fr").write_text(f"c {split}\nd {split}\n")
    return tmp_path


def test_where_nothing_is_wrong_only_the_kernels_are_said(nmtkit: Run) -> None:
    said = f"{door.report(PLAIN, 'cpu')}\nno problems found\nnext: nmtkit prep -s en -t fr\n"
    assert nmtkit("doctor", "-s", "en") == (0, "", said)


def test_a_finding_is_a_line_on_stdout(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "dev.fr").write_text("c dev\n\n")
    status, out, said = nmtkit("doctor", "-s", "en")
    assert (status, out) == (0, "raw/dev.fr:2: blank\n")
    assert said.endswith("\n1 finding\nnext: nmtkit prep -s en -t fr\n")


def test_named_files_are_checked_like_those_of_a_folder(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "dev.fr").write_text("c dev\n\n")
    named = [[f"--{split}", f"raw/{split}.en", f"raw/{split}.fr"] for split in ("train", "dev", "test")]
    status, out, said = nmtkit("doctor", *named[0], *named[1], *named[2])
    assert (status, out) == nmtkit("doctor", "-s", "en")[:2]
    assert said.endswith("\n1 finding\n")
    (folder / "raw").rename(folder / "texts")
    train = [each.replace("raw", "texts") for each in named[0]]
    problem = "texts/train.en: no development set, without which nmtkit train fails; nmtkit prep --dev-size samples one"
    assert nmtkit("doctor", *train)[:2] == (1, f"{problem} from the training text\n")
    assert nmtkit("prep", *train, "--dev-size", "1", "-j1").status == 0
    assert nmtkit("doctor", *train)[:2] == (0, "")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--train", "raw/train.fr", "raw/train.en", "-s", "en", "-t", "fr"], "raw/train.fr, raw/train.en: the source "
         "language is en, the target language fr; swap them"),
        (["--dev", "raw/dev.en", "raw/dev.fr"], "--dev and --test need --train; without it, all three are read from "
         "--raw"),
        (["--train", "raw/a.tsv", "raw/a.tsv", "-s", "en", "-t", "fr"], "raw/a.tsv: a table; name a column of it for "
         "each side, as raw/a.tsv:1"),
    ],
)  # fmt: skip
def test_files_that_prep_would_refuse_are_refused(nmtkit: Run, options: list[str], error: str) -> None:
    Path("raw/a.tsv").write_text("a\tb\n")
    for command in ("doctor", "prep"):
        assert nmtkit(command, *options) == (1, "", f"nmtkit: error: {error}\n")


def test_one_finding_is_singular_and_two_are_plural(nmtkit: Run, folder: Path) -> None:
    for blank, said in (("c dev\n\n", "\n1 finding\n"), ("c\td\x07\n\n", "\n2 findings\n")):
        (folder / "raw" / "dev.fr").write_text(blank)
        assert said in nmtkit("doctor", "-s", "en").err


def test_what_prep_would_refuse_is_a_failure(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "dev.fr").write_bytes(b"c dev\n\xe9\n")
    status, out, _ = nmtkit("doctor", "-s", "en")
    assert status == 1
    assert out.startswith("raw/dev.fr:2: not UTF-8")


TEXTS: dict[str, dict[str, bytes | None]] = {
    "empty": {"train.en": b"", "train.fr": b""},
    "blank side": {"train.fr": b"\n \n"},
    "no pair of words": {"train.en": b"a\n\n", "train.fr": b"\nb\n"},
    "UTF-16": {"train.en": "a\nb\n".encode("utf-16-le") + b"\n"},
    "UTF-16 in pairs": {"train.en": b"a\0\nb\0\n"},
    "Latin-1": {"test.fr": b"\xe9\n\xe9\n"},
    "one line more": {"test.en": b"a\nb\nc\n"},
    "no dev pair of words": {"dev.en": b"\n\n"},
    "half a dev set": {"dev.en": None},
    "a short line": {"train.en": None, "train.fr": None, "train.en-fr.tsv": b"a\tb\nc\n"},
}


@pytest.mark.parametrize("files", TEXTS.values(), ids=TEXTS)
def test_for_each_text_that_prep_refuses_the_status_is_1(
    nmtkit: Run, folder: Path, files: dict[str, bytes | None]
) -> None:
    for name, content in files.items():
        if content is None:
            (folder / "raw" / name).unlink()
        else:
            (folder / "raw" / name).write_bytes(content)
    assert nmtkit("prep", "-s", "en", "-t", "fr", "-j1").status == 1
    assert nmtkit("doctor", "-s", "en", "-t", "fr").status == 1


def test_languages_are_those_of_the_data_folder_if_it_exists(nmtkit: Run, folder: Path) -> None:
    assert "which one is the source?" in nmtkit("doctor").err
    assert nmtkit("prep", "-s", "fr", "-t", "en", "-j1").status == 0
    status, _, said = nmtkit("doctor")
    assert (status, "next: " in said) == (0, False)  # the text is prepared already
    assert nmtkit("doctor", "-s", "de").status == 1


def test_without_the_development_set_that_training_needs_the_status_is_1(nmtkit: Run, folder: Path) -> None:
    for language in ("en", "fr"):
        (folder / "raw" / f"dev.{language}").unlink()
        (folder / "raw" / f"test.{language}").unlink()
        with open(folder / "raw" / f"train.{language}", "a") as file:
            file.writelines(f"{language} {n}\n" for n in range(8))
    found = "raw: no development set, without which nmtkit train fails; nmtkit prep --dev-size samples one from the "
    status, out, err = nmtkit("doctor", "-s", "en")
    assert (status, out) == (1, f"{found}training text\n")
    assert "there will be no test set; set nmtkit prep --test-size to sample one from train\n" in err
    assert nmtkit("prep", "-s", "en", "--words", "--dev-size", 2, "--test-size", 1, "-j1").status == 0
    status, _, err = nmtkit("doctor", "-s", "en")
    assert (status, "there will be no" in err) == (0, False)  # they were sampled


def test_words_that_an_encoded_text_does_not_know_are_found(nmtkit: Run) -> None:
    assert nmtkit("prep", "-s", "en", "--words", "-j1").status == 0
    assert nmtkit("vocab", "--src-size", 5, "-j1").status == 0
    status, out, _ = nmtkit("doctor", "-s", "en")
    assert status == 0
    assert "data/train.src: 50.0% of the 4 tokens are unknown words; use more words, or BPE\n" in out


def test_a_preset_that_does_not_fit_into_the_memory_is_a_failure(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.experiment.plan.free_memory", lambda device: 10**12)
    assert nmtkit("doctor", "-s", "en", "--model", "deep-att").status == 0
    monkeypatch.setattr("nmtkit.experiment.plan.free_memory", lambda device: 10**9)
    status, out, _ = nmtkit("doctor", "-s", "en", "--model", "deep-att")
    assert status == 1
    assert "deep-att needs " in out
    assert " GiB before the first batch, but only 0.9 GiB are free\n" in out


def test_findings_for_scripts_are_a_list_of_objects(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "dev.fr").write_text("c dev\n\n")
    outcome = nmtkit("doctor", "-s", "en", "--json")
    finding = {"path": "raw/dev.fr", "what": "blank", "fatal": False, "count": 1, "lines": [2]}
    assert json.loads(outcome.out) == [finding]
    assert outcome.err.endswith("\n1 finding\n")
    (folder / "raw").rename(folder / "rå")
    assert '"path": "rå/dev.fr"' in nmtkit("doctor", "-s", "en", "--raw", "rå", "--json").out  # letters are not escaped
