"""What a run is validated with, by the folder that its data come from."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.data.encoding import encode
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.development import DevelopmentSet
from nmtkit.experiment.run import run_experiment
from nmtkit.search.beam import Hypothesis
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.prep import prepare
from nmtkit.text.raw import Files
from nmtkit.text.settings import Prep, SetOptions, Side, load_prep
from tests.training.conftest import small_experiment

PAIRS = [("eins zwei drei vier fuenf", "A b c d e"), ("sechs sieben acht neun zehn", "V w x y z")]
OTHERS = ["F g h i k", "L m n o p"]


@pytest.fixture(params=[False, True], ids=["cased", "lower-cased"])
def data(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A data folder whose development set has two references, and whose training text has the words of both."""
    train = [*PAIRS, *zip(["eins", "zwei"], OTHERS, strict=True)] * 10
    raw = {split: Files(tmp_path / f"{split}.de", tmp_path / f"{split}.en") for split in ("train", "dev")}
    for split, pairs in (("train", train), ("dev", PAIRS)):
        for path, lines in zip(raw[split], zip(*pairs, strict=True), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "others").write_text("".join(f"{line}\n" for line in OTHERS))
    side: dict[str, Any] = {"tokenizer": "none", "normalize": False, "segmentation": "words"}
    prep = Prep(Side("de", **side), Side("en", **side, lowercase=request.param))
    prepare(raw, tmp_path / "data", prep, workers=1, held_out=SetOptions((tmp_path / "others",)))
    encode(tmp_path / "data", None, None, 1, False, workers=1)
    return tmp_path / "data"


def test_lower_case_output_that_equals_a_reference_except_for_case_has_the_highest_scores(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, vocabulary = TextPipeline.load(data, "tgt"), Vocabulary.load(data / "vocab.tgt")
    said = [vocabulary.ids(pipeline.tokens(line)) for line in (PAIRS[0][1], OTHERS[1])]

    def translate(*arguments: object, **settings: object) -> list[tuple[int, list[Hypothesis]]]:
        in_order = list(enumerate([Hypothesis(ids, 0.0, [], None)] for ids in said))
        return in_order[::-1]  # as a search does, whose longest sentences come first

    monkeypatch.setattr("nmtkit.experiment.development.translate_each", translate)
    caplog.set_level(logging.INFO, "nmtkit")
    run_experiment(small_experiment(max_updates=1), data, data.parent / "run", torch.device("cpu"))
    records = map(json.loads, (data.parent / "run" / "metrics.jsonl").read_text().splitlines())
    case = ", without case" if load_prep(data).tgt.lowercase else ""
    assert f"BLEU and chrF2 of the development set: sacreBLEU 13a{case}, 2 references" in caplog.text
    [valid] = [record for record in records if record["kind"] == "valid"]
    assert (valid["bleu"], valid["chrf2"]) == (pytest.approx(100), pytest.approx(100))


def test_a_reference_of_another_length_is_refused_before_training(data: Path) -> None:
    (data / "dev.raw.tgt1").write_text("F g h i k\n")
    with pytest.raises(UserError, match=r"dev.raw.tgt1 has 1 line but the development set has 2; make the folder"):
        DevelopmentSet.load(data)


def test_a_deleted_reference_is_reported_with_the_remedy(data: Path) -> None:
    (data / "dev.raw.tgt").unlink()
    with pytest.raises(UserError, match=r"dev\.raw\.tgt: in the manifest, but missing; make the folder again with"):
        DevelopmentSet.load(data)
