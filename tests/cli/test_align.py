import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.errors import UserError
from nmtkit.text.pipeline import copy_prep
from nmtkit.text.prep import Files, prepare
from nmtkit.text.settings import Prep, Side
from tests.conftest import piped

Run = Callable[..., Any]  # the command line of tests/conftest.py

FILES = ["dev.align", "lexicon.tsv", "train.align"]


def make(folder: Path, segmentation: Any) -> Path:
    """A data folder of three training pairs, of which the second one is left out, and of one for development."""
    for name, text in {
        "train.en": "the cat\n\nthe dog sleeps\n", "train.fr": "le chat\nvide\nle chien dort\n",
        "dev.en": "a cat\n", "dev.fr": "un chat\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    raw = {split: Files(folder / f"{split}.en", folder / f"{split}.fr") for split in ("train", "dev")}
    settings = Prep(Side("en", segmentation=segmentation), Side("fr", segmentation=segmentation), merges=3)
    prepare(raw, folder / "data", settings, workers=1)
    return folder / "data"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make(tmp_path, "words")


@pytest.fixture
def eflomal(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The input of the aligner, which links word by word, and in reverse only the first target word."""
    seen: list[list[str]] = []

    def align(src: Path, tgt: Path, forward: Path, reverse: Path) -> None:
        seen[:] = [path.read_text().splitlines() for path in (src, tgt)]
        words = [min(len(s.split()), len(t.split())) for s, t in zip(*seen, strict=True)]
        forward.write_text("".join(" ".join(f"{i}-{i}" for i in range(n)) + "\n" for n in words))
        reverse.write_text("0-0\n" * len(words))

    monkeypatch.setattr("nmtkit.data.alignment.align_with_eflomal", align)
    return seen


def test_training_and_development_text_are_aligned_together(nmtkit: Run, data: Path, eflomal: list[list[str]]) -> None:
    assert nmtkit("align", "--threshold", "0") == (
        0,
        "",
        "aligning with eflomal\n"
        "data/train.align: 2 pairs, 5 links, 100.0% of the target words linked\n"
        "data/dev.align: 1 pair, 2 links, 100.0% of the target words linked\n"
        "data/lexicon.tsv: 4 of 4 word pairs, those linked more than 0 times\n"
        "next: nmtkit vocab\n",
    )
    assert eflomal == [["the cat", "the dog sleeps", "a cat"], ["le chat", "le chien dort", "un chat"]]
    assert (data / "train.align").read_text() == "0-0 1-1\n0-0 1-1 2-2\n"
    assert (data / "dev.align").read_text() == "0-0 1-1\n"
    assert (data / "lexicon.tsv").read_text() == (
        "cat\tchat\t1\t1\ndog\tchien\t1\t1\nsleeps\tdort\t1\t1\nthe\tle\t1\t2\n"
    )


@pytest.mark.parametrize(("heuristic", "line"), [("intersection", "0-0"), ("grow-diag-final", "0-0 1-1 2-2")])
def test_the_two_directions_are_symmetrised_with_the_given_heuristic(
    nmtkit: Run, data: Path, eflomal: list[list[str]], heuristic: str, line: str
) -> None:
    assert nmtkit("align", "--symmetrize", heuristic).status == 0
    assert (data / "train.align").read_text().splitlines()[1] == line


def test_links_of_source_to_target_are_added_before_those_of_target_to_source(
    nmtkit: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def align(src: Path, tgt: Path, forward: Path, reverse: Path) -> None:
        forward.write_text("0-0\n0-0 2-2\n0-0\n")
        reverse.write_text("0-0\n0-0 1-2 2-1\n0-0\n")

    monkeypatch.setattr("nmtkit.data.alignment.align_with_eflomal", align)
    assert nmtkit("align", "--symmetrize", "grow-diag-final").status == 0
    # In the other order, both words of the link 2-2 would be aligned already.
    assert (data / "train.align").read_text().splitlines()[1] == "0-0 1-2 2-1 2-2"


def test_a_pair_enters_the_lexicon_only_above_the_threshold(nmtkit: Run, data: Path, eflomal: list[list[str]]) -> None:
    said = nmtkit("align").err
    assert "lexicon.tsv: 0 of 4 word pairs, those linked more than 100 times\n" in said
    nmtkit("align", "--threshold", "1")
    assert (data / "lexicon.tsv").read_text() == "the\tle\t1\t2\n"


def test_the_pieces_of_bpe_are_joined_to_words(nmtkit: Run, tmp_path: Path, eflomal: list[list[str]]) -> None:
    data = make(tmp_path, "bpe")
    assert "@@" in (data / "train.src").read_text()
    assert nmtkit("align").status == 0
    assert eflomal[0] == ["the cat", "the dog sleeps", "a cat"]


def test_links_of_another_aligner_are_used_unchanged(nmtkit: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "links.gz").write_bytes(gzip.compress(b"0-1 1-0\n\n"))
    outcome = nmtkit("align", "--pharaoh", "links.gz", "--threshold", "0")
    assert outcome.err.splitlines()[0] == "data/train.align: 2 pairs, 2 links, 40.0% of the target words linked"
    assert (data / "train.align").read_text() == "0-1 1-0\n\n"
    assert (data / "lexicon.tsv").read_text() == "cat\tle\t1\t1\nthe\tchat\t1\t1\n"
    assert not (data / "dev.align").exists()


def test_links_of_another_aligner_leave_those_of_the_development_text(nmtkit: Run, data: Path, tmp_path: Path) -> None:
    (data / "dev.align").write_text("0-0\n")
    (tmp_path / "links").write_text("0-1 1-0\n\n")
    assert nmtkit("align", "--pharaoh", "links").status == 0
    assert (data / "dev.align").read_text() == "0-0\n"


def test_links_of_another_aligner_may_come_from_a_pipe(
    nmtkit: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links").write_text("0-1 1-0\n\n")
    with piped(tmp_path / "links") as links:
        assert nmtkit("align", "--pharaoh", links).status == 0
    assert (data / "train.align").read_text() == "0-1 1-0\n\n"
    with open(tmp_path / "links") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert nmtkit("align", "--pharaoh", "-").status == 0
    (tmp_path / "links").write_text("0-0\n")
    with piped(tmp_path / "links") as links:
        assert f"{links} has 1 line but data/train.src has 2" in nmtkit("align", "--pharaoh", links).err


def test_preparing_the_text_again_deletes_its_alignment(
    nmtkit: Run, data: Path, tmp_path: Path, eflomal: list[list[str]]
) -> None:
    nmtkit("align")
    assert all((data / name).exists() for name in FILES)
    make(tmp_path, "words")
    assert not any((data / name).exists() for name in FILES)


def test_an_aligner_that_fails_leaves_the_folder_as_it_was(
    nmtkit: Run, data: Path, eflomal: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*paths: Path) -> None:
        raise UserError("out of luck")

    nmtkit("align")
    before = {path: path.read_bytes() for path in data.iterdir()}
    monkeypatch.setattr("nmtkit.data.alignment.align_with_eflomal", fail)
    assert nmtkit("align").err.endswith("nmtkit: error: out of luck\n")
    assert {path: path.read_bytes() for path in data.iterdir()} == before


def test_gold_prints_precision_recall_and_error_rate(nmtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("0-0 1-1 1p2\n0-0\n")
    (tmp_path / "links").write_text("0-0 1-2 2-2\n0-0\n")
    # Of 4 links found, 2 are sure and 3 possible; 3 are sure in the gold: AER is 1 - 5 / 7.
    assert nmtkit("align", "--pharaoh", "links", "--gold", "gold") == (
        0, "precision 75.00%  recall 66.67%  AER 28.57%  (links)\n", "",
    )  # fmt: skip


@pytest.mark.parametrize("gold", ["", "\n", "0p0\n"])
def test_without_links_there_is_no_error_rate(nmtkit: Run, tmp_path: Path, gold: str) -> None:
    (tmp_path / "gold").write_text(gold)
    (tmp_path / "links").write_text("\n" * len(gold.splitlines()))
    said = "links has no links and gold no sure ones, so the AER is undefined; name other files"
    assert nmtkit("align", "--pharaoh", "links", "--gold", "gold") == (1, "", f"nmtkit: error: {said}\n")


def test_gold_scores_the_alignment_of_the_folder_by_default(
    nmtkit: Run, tmp_path: Path, eflomal: list[list[str]]
) -> None:
    nmtkit("align")
    (tmp_path / "gold").write_text("0-0 1-1\n0-0 1-1 2-2\n")
    assert nmtkit("align", "--gold", "gold").out == "precision 100.00%  recall 100.00%  AER 0.00%  (data/train.align)\n"


def test_an_alignment_and_its_gold_standard_may_come_from_pipes(
    nmtkit: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gold").write_text("0-0 1-1 1p2\n0-0\n")
    (tmp_path / "links").write_text("0-0 1-2 2-2\n0-0\n")
    said = nmtkit("align", "--pharaoh", "links", "--gold", "gold").out.partition("(")[0]
    assert "AER 28.57%" in said
    with piped(tmp_path / "links") as links, piped(tmp_path / "gold") as gold:
        assert nmtkit("align", "--pharaoh", links, "--gold", gold).out == f"{said}({links})\n"
    with open(tmp_path / "gold") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert nmtkit("align", "--pharaoh", "links", "--gold", "-").out == f"{said}(links)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--pharaoh one", "one has 1 line but data/train.src has 2; align the text of that folder"),
        ("--pharaoh far", "far:2: the link 3-0 is outside its pair of 3 and 3 words; align the same words"),
        ("--pharaoh bad", "bad:1: expected links such as 0-0 1-2, counted from 0; found 'x'"),
        ("--pharaoh none", "none: cannot be read: No such file"),
        ("--pharaoh data", "data: cannot be read: Is a directory"),
        ("--pharaoh packed", "packed:1: byte 0xFD is not UTF-8; it is a compressed file"),
        ("--pharaoh one --gold far", "one has fewer lines than far, 2; they must align the same sentences"),
        ("--pharaoh far --gold one", "far has more lines than one, 1; they must align the same sentences"),
        ("--pharaoh - --gold -", "-: standard input can be read only once; name a file instead of the other -"),
        ("--pharaoh one --symmetrize grow-diag", "--symmetrize: is for eflomal, not for the links of --pharaoh"),
        ("--gold one --threshold 3", "--gold only scores an existing alignment"),
        ("--gold one", "data/train.align: cannot be read: No such file"),
        ("--data none", "none/prep.yaml: not found; make the folder with nmtkit prep"),
        ("--data model", "model/manifest.json: not found; make the folder with nmtkit prep"),
        ("--data model --pharaoh one", "model/manifest.json: not found; make the folder with nmtkit prep"),
    ],
)
def test_text_that_cannot_be_aligned_is_an_error(nmtkit: Run, tmp_path: Path, arguments: str, message: str) -> None:
    (tmp_path / "one").write_text("0-0\n")
    (tmp_path / "far").write_text("0-0\n3-0\n")
    (tmp_path / "bad").write_text("x\n\n")
    (tmp_path / "packed").write_bytes(lzma.compress(b"0-0\n0-0\n"))
    (tmp_path / "model").mkdir()
    copy_prep(tmp_path / "data", tmp_path / "model")
    status, out, err = nmtkit("align", *arguments.split())
    assert (status, out) == (1, "")
    assert message in err


def test_a_folder_whose_sides_differ_is_an_error(nmtkit: Run, data: Path, eflomal: list[list[str]]) -> None:
    with open(data / "train.src", "a") as file:
        file.write("one more\n")
    message = "data/train.src has 3 lines but data/train.tgt has 2; run nmtkit prep again"
    assert message in nmtkit("align").err


def test_the_report_for_scripts_has_the_same_figures(nmtkit: Run, data: Path, eflomal: list[list[str]]) -> None:
    outcome = nmtkit("align", "--threshold", "0", "--json")
    assert json.loads(outcome.out) == {
        "folder": "data",
        "splits": {
            "train": {"pairs": 2, "links": 5, "words": 5, "linked": 5},
            "dev": {"pairs": 1, "links": 2, "words": 2, "linked": 2},
        },
        "word_pairs": 4,
        "entries": 4,
        "threshold": 0,
    }
    assert "next" not in outcome.err
    (data.parent / "gold").write_text("0-0 1-1\n0-0\n")
    quality = json.loads(nmtkit("align", "--gold", "gold", "--json").out)
    assert quality.keys() == {"precision", "recall", "aer"}
