import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nmtkit
from nmtkit.data.encoding import encode
from nmtkit.data.vocab import Vocabulary
from nmtkit.folders import SIDES, TextFiles
from nmtkit.text.prep import Files, prepare
from nmtkit.text.settings import Prep, Side
from tests.echo import write_model

Run = Callable[..., Any]  # the command line of tests/conftest.py

SMALL = ("--set", "model.width=8", "--set", "model.embedding=8", "--set", "model.attention=8")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(folder: Path) -> Path:
    for name in ("a", "b"):
        (folder / name).write_text("a b c\nb c d\nc d a b\n" * 4)
    side = Side("en", normalize=False, tokenizer="none", segmentation="words")
    prepare({"train": Files(folder / "a", folder / "b")}, folder / "data", Prep(side, side), workers=1)
    encode(folder / "data", None, None, 1, joint=False, workers=1)
    return folder / "data"


def test_parts_are_shown_with_the_papers_figure_and_costs(nmtkit: Run) -> None:
    outcome = nmtkit("inspect", "convs2s-4l-e64", "--set", "training.pass_tokens=1024", "--device", "cpu")
    assert outcome.status == 0, outcome.err
    total = re.search(r"^total +([\d.]+) +([\d.]+)$", outcome.out, re.MULTILINE)  # one column: there is no data folder
    assert total
    assert float(total[1]) == pytest.approx(float(total[2]), abs=1)
    assert re.search(r"^total +[\d.]+ GiB$", outcome.out, re.MULTILINE)
    *parts, sum_of_parts = map(float, re.findall(r" ([\d.]+) GiB$", outcome.out, re.MULTILINE))
    assert len(parts) == 3
    assert sum(parts) == pytest.approx(sum_of_parts, abs=0.02)
    assert re.search(r"^on cpu, 16 sentences of 25 words +[\d,]+ target words/s$", outcome.out, re.MULTILINE)


def test_everything_shown_is_also_in_the_json(nmtkit: Run, data: Path) -> None:
    shown = json.loads(nmtkit("inspect", "deep-att-1x1", *SMALL, "--shapes", "--json", "--device", "cpu").out)
    assert shown["shapes"]["output.weight"] == [8, 8]
    assert shown["words"] == {"src": 8, "tgt": 8}
    assert shown["parameters"]["total"] == sum(math.prod(shape) for shape in shown["shapes"].values())
    assert shown["training"]["words_per_second"] > 0
    table = nmtkit("inspect", "deep-att-1x1", *SMALL, "--device", "cpu").out
    totals = [f"{shown[name]['total'] / 1e6:.3f}" for name in ("parameters", "parameters_with_words_of_paper")]
    assert re.findall(r"^total +([\d.]+) +([\d.]+)", table, re.MULTILINE) == [tuple(totals)]
    flows = json.loads(nmtkit("inspect", "deep-att-1x1", *SMALL, "--gradients", "--json", "--device", "cpu").out)
    assert all(layer["name"] and layer["weights"] > 0 for layer in flows["deep-att-1x1"]["layers"])
    assert [found["name"] for found in flows["deep-att-1x1"]["attention"]] == ["decoder.attention"]


def test_every_parameter_has_its_shape(nmtkit: Run, data: Path) -> None:
    outcome = nmtkit("inspect", "deep-att-1x1", *SMALL, "--shapes", "--device", "cpu")
    assert re.search(r"^decoder.layers.recurrent.0.weight +8 x 32 +256$", outcome.out, re.MULTILINE)
    assert re.search(r"^output.weight +8 x 8 +64$", outcome.out, re.MULTILINE)  # four symbols and four words


def test_gradients_with_and_without_fast_forward_connections(nmtkit: Run, data: Path) -> None:
    change = "model.fast_forward=none"
    outcome = nmtkit("inspect", "deep-att-2x2", *SMALL, "--gradients", "--compare", change, "--device", "cpu")
    assert outcome.status == 0, outcome.err
    assert f"{change}: norms (- for a layer that runs word by word, " in outcome.out
    assert re.search(r"^decoder.attention +- +- +\S+$", outcome.out, re.MULTILINE)
    ratios = outcome.out.partition("gradient at the bottom of a stack, divided by that at its top\n")[2]
    assert [line.split()[:3] for line in ratios.splitlines() if "recurrent" in line] == [
        [model, f"encoder.columns.{column}.recurrent", "2"] for model in ("deep-att-2x2", change) for column in (0, 1)
    ]


def test_the_saturation_of_attention_is_shown_for_models_with_attention(nmtkit: Run, data: Path) -> None:
    # Initial values of 70 make keys of far more than 1.
    large = "training.groups.other.init=normal 70"
    printed = nmtkit("inspect", "deep-att-1x1", *SMALL, "--gradients", "--compare", large, "--device", "cpu").out
    assert "standard deviation of its keys, units whose tanh is above 0.99 in magnitude\n" in printed
    rows = re.findall(r"^(\S.*?) +decoder.attention +(\S+) +([0-9.]+) %$", printed, re.MULTILINE)
    assert [row[0] for row in rows] == ["deep-att-1x1", large]
    (_, keys, share), (_, large_keys, large_share) = rows
    assert float(keys) < 0.1
    assert float(share) == 0
    assert float(large_keys) > 100
    assert float(large_share) > 90
    without = ("--set", "model.interface=constant", "--set", "model.attention=null")
    assert "additive" not in nmtkit("inspect", "deep-ed", *SMALL[:4], "--gradients", *without, "--device", "cpu").out


def test_the_cost_of_the_output_layer_is_that_of_the_target_vocabulary(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "data").mkdir()
    for side, words in zip(SIDES, ("abcdefgh", "abc"), strict=True):
        vocabulary = Vocabulary.choose([(word, 1) for word in words], None, 1)
        vocabulary.save(TextFiles(folder / "data").vocabulary(side))
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("nmtkit.training.estimate.estimate", lambda small, training, *sizes: asked.append(sizes))
    found = nmtkit.inspect("deep-att-1x1", settings=SMALL[1::2], device="cpu")
    assert found.words == (4 + 8, 4 + 3)
    assert asked == [(found.parameters["total"], 4 + 3, found.device)]


def test_a_trained_model_can_be_inspected(nmtkit: Run, folder: Path, data: Path) -> None:
    write_model(folder / "run", "deep-att")
    there, elsewhere = (nmtkit("inspect", "--device", "cpu", *where).out for where in ((), ("-d", "none")))
    assert "millions of parameters" in there
    assert there.splitlines()[:5] == elsewhere.splitlines()[:5], "its own vocabularies count"


def test_the_gradients_of_a_model_are_those_of_its_own_words(nmtkit: Run, folder: Path, data: Path) -> None:
    write_model(folder / "run", "deep-att")
    complaint = "nmtkit: error: data: its vocabularies are not those of run; give the model's --data folder\n"
    assert nmtkit("inspect", "--gradients", "--device", "cpu") == (1, "", complaint)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "run: no model there yet; name a preset, for example: nmtkit inspect deep-att"),
        (["deep-att", "--plot", "x.svg"], "--compare and --plot need --gradients"),
        (
            ["deep-att", "--gradients", "--plot", "x.svg"],
            "--plot x.svg: is written as HTML; choose a name that ends in .html",
        ),
        (
            ["deep-att", "--gradients", "--plot", "no/x.html"],
            "--plot no/x.html: cannot be written: there is no folder no",
        ),
        (["deep-att", "--gradients", "--shapes"], "--shapes and --gradients cannot be combined; leave one of them out"),
        (["ens"], "ens: an ensemble, not a single model; its members are in ens/members"),
        (["empty"], "empty: not a model folder (no config.yaml); `nmtkit train` or `nmtkit import` makes one"),
        (["trained", "--set", "a=1"], "trained: is a trained model; --set and --compare are for presets"),
        (
            ["deep-att", "--gradients", "--compare", "model.fast_forward"],
            "--compare model.fast_forward: expected KEY=VALUE, for example training.optimizer.lr=5e-4",
        ),
        (["deep-att", "--gradients"], "data: no such folder; make it with nmtkit prep"),
    ],
)
def test_errors_are_one_line(nmtkit: Run, arguments: list[str], complaint: str) -> None:
    for folder in ("trained", "empty", "ens/members"):
        Path(folder).mkdir(parents=True)
    Path("trained/config.yaml").write_text("")
    assert nmtkit("inspect", *arguments, "--device", "cpu") == (1, "", f"nmtkit: error: {complaint}\n")


def test_gradients_need_a_pair_that_is_not_too_long(nmtkit: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.workflow.inspect.LONGEST", 1)
    complaint = "data: no training pair has words on both sides and at most 1 of them"
    assert nmtkit("inspect", "deep-att", "--gradients", "--device", "cpu") == (1, "", f"nmtkit: error: {complaint}\n")
