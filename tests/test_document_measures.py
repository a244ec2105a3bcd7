"""The measures of recipes/documents: a model that copies is right about everything, as it must be."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from nmtkit.documents.placeholders import restore
from nmtkit.translation import loading
from nmtkit.translation.translator import Translator
from tests.echo import load_echo, write_folder

RECIPE = Path(__file__).parents[1] / "recipes" / "documents"
LINES = ["a b c d", "e f g h", "b a", "c"]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the recipe, which import each other from their folder."""
    monkeypatch.syspath_prepend(RECIPE)
    monkeypatch.setattr("nmtkit.documents.translate.restore", restore)  # one of them replaces it
    yield {name: importlib.import_module(name) for name in ("insert", "measure")}
    for name in ("insert", "measure"):
        del sys.modules[name]


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A model that copies its source."""
    monkeypatch.setattr(loading, "load_model", load_echo)
    return loading.load([write_folder(tmp_path / "echo")], "cpu")


def written(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_a_model_that_copies_has_every_tag_every_placeholder_and_the_same_text(
    scripts: dict[str, ModuleType], echo: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = written(tmp_path / "text", LINES)
    gold = written(tmp_path / "gold", [" ".join(f"{i}-{i}" for i in range(len(line.split()))) for line in LINES])
    scripts["measure"].tags(echo, text, text, gold)
    scripts["measure"].bleu(echo, text, text)
    scripts["measure"].placeholders(echo, text)
    assert re.fullmatch(
        r"7 tags: 100\.0% around exactly the right words\n"
        r"100\.0% of the words in a tag belong there; 100\.0% of the words of a tag are in it\n"
        r"BLEU with tags (\S+), without \1; 0 of 4 texts differ\n"
        r"4 of 4 lines have each of their placeholders once\n"
        r"\d+ of (\d+) stand-ins copied once .*\n\d+ of \2 placeholders without a place .*\n",
        capsys.readouterr().out,
    )


def test_words_outside_the_gold_links_are_wrong(
    scripts: dict[str, ModuleType], echo: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, gold = written(tmp_path / "text", ["a b"]), written(tmp_path / "gold", ["0-1 1-0"])
    scripts["measure"].tags(echo, text, text, gold)
    assert not capsys.readouterr().out.startswith("2 tags: 100.0%")


def test_phrases_have_contiguous_and_exclusive_translations(scripts: dict[str, ModuleType]) -> None:
    links = {(0, 0), (1, 2), (2, 1), (3, 3), (3, 5)}
    found = scripts["measure"].candidates(["a", "b", "c", "d"], links, links - {(1, 2)})
    assert found == [(0, 0, {0}), (0, 2, {0, 1, 2}), (0, 3, {0, 1, 2, 3, 5}), (2, 2, {1}), (3, 3, {3, 5})]


def test_placeholders_replace_linked_words_on_both_sides(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    lexicon = written(tmp_path / "lexicon", ["dog\tchien\t0.9\t9", "runs\tcourt\t0.8\t9", "a\tun\t0.3\t9"])
    src, tgt = written(tmp_path / "src", ["a dog runs"] * 40), written(tmp_path / "tgt", ["un chien court"] * 40)
    outputs = [tmp_path / "out.src", tmp_path / "out.tgt"]
    scripts["insert"].main(lexicon, 0.5, src, tgt, *outputs)
    pairs = [*zip(*(path.read_text().splitlines() for path in outputs), strict=True)]
    assert len(pairs) == 40
    assert 10 < sum(pair != ("a dog runs", "un chien court") for pair in pairs) < 30
    for source, target in pairs:
        assert source.startswith("a ")
        assert target.startswith("un ")
        assert set(source.split()) - {"a", "dog", "runs"} == set(target.split()) - {"un", "chien", "court"}
