"""A data folder and an experiment small enough to be trained in a second."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from nmtkit.config import merge
from nmtkit.data.encoding import encode
from nmtkit.data.prep import prepare
from nmtkit.data.raw import Files
from nmtkit.data.settings import Prep, Side
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import Experiment, build_experiment

PRECISION = os.environ.get("PRECISION", "auto")
WORDS = "ba be bi bo bu da de di do du".split()


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("small"))


def make_data(folder: Path) -> Path:
    """Sixty pairs to train on and ten to validate with; a translation is its source backwards."""
    choose = random.Random(1)
    raw = {}
    for split, size in (("train", 60), ("dev", 10), ("test", 5)):
        sources = [choose.choices(WORDS, k=choose.randint(1, 6)) for _ in range(size)]
        raw[split] = Files(folder / f"{split}.xx", folder / f"{split}.yy")
        raw[split].src.write_text("".join(" ".join(words) + "\n" for words in sources))
        raw[split].tgt.write_text("".join(" ".join(reversed(words)) + "\n" for words in sources))
    side = {"normalize": False, "tokenizer": "none", "segmentation": "words"}
    prepare(raw, folder / "data", Prep(Side("xx", **side), Side("yy", **side)), workers=1)  # type: ignore[arg-type]
    encode(folder / "data", None, None, 1, False, workers=1)
    return folder / "data"


SMALL = {
    "model": {"embedding": 6, "width": 5, "attention": 4, "encoder_layers": 2, "decoder_layers": 2},
    "training": {"optimizer": {"lr": 0.01, "decay": 0.0}, "batch_sentences": 8, "max_epochs": None, "max_updates": 12},
    "search": {"max_len_a": 1.0, "max_len_b": 3},
}


def small_experiment(**training: Any) -> Experiment:
    """deep-att at toy size; dropout stays on. Precision: as ``PRECISION`` says (make test does), else auto."""
    values = merge(merge(load_preset("deep-att"), SMALL), {"training": {"precision": PRECISION}})
    return build_experiment(merge(values, {"training": training}), "small")
