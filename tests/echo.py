"""A model that copies its source, in an otherwise real folder, so that tests of translation need no training.

``python -m tests.echo translate ...`` is the command line with such models.
"""

import json
import os
import signal
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from nmtkit.align.lexicon import Lexicon
from nmtkit.config import dump_yaml, to_dict
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.folders import ModelFolder
from nmtkit.ops.precision import Products
from nmtkit.ops.tree import Tree
from nmtkit.search.beam import Search
from nmtkit.serving import limits
from nmtkit.symbols import SPELLINGS, UNK
from nmtkit.text.settings import Prep, Side
from nmtkit.training import checkpoint
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator

WORDS = (*SPELLINGS, *"abcdefgh", "low@@", "er")


class Echo:
    """Copies the source word by word with probability 0.9, and attends to the copied word if it has attention."""

    def __init__(self, looks: bool) -> None:
        self.looks, self.output = looks, torch.nn.Linear(1, 1)

    def parameters(self) -> list[Tensor]:
        return []

    def for_search(self, precision: Products) -> "Echo":
        """The model itself, which has no products."""
        return self

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        return src, torch.zeros(len(src), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        assert isinstance(memory, Tensor)
        assert isinstance(state, Tensor)
        src = memory.repeat_interleave(len(y) // len(memory), dim=0)
        place = state.clamp(max=src.size(1) - 1)[:, None]
        log_probs = torch.full((len(y), len(WORDS)), 0.1 / (len(WORDS) - 1)).scatter(1, src.gather(1, place), 0.9).log()
        look = torch.zeros(src.shape).scatter(1, place, 1.0) if self.looks else None
        return log_probs, state + 1, look


def write_folder(folder: Path) -> Path:
    """A model folder; its model has no attention if the folder is called blind."""
    folder.mkdir()
    side = Side("en", normalize=False, tokenizer="none", segmentation="bpe")
    (folder / "prep.yaml").write_text(dump_yaml(to_dict(Prep(side, side))))
    for name in ("src", "tgt"):
        (folder / f"bpe.{name}").write_text("#version: 0.2\nl o\nlo w\ne r</w>\n")
        rows = [f"{word}\t{0 if i <= UNK else 9}\n" for i, word in enumerate(WORDS)]
        (folder / f"vocab.{name}").write_bytes("".join(rows).encode())
    return folder


def write_model(folder: Path, preset: str, seed: int = 0) -> Path:
    """A complete model folder: the preset with the smallest sizes and random weights, one checkpoint."""
    write_folder(folder)
    experiment = build_experiment(load_preset(preset), preset)
    values = {field.name: getattr(experiment.model, field.name) for field in fields(experiment.model)}
    widths = {name: value // 64 for name, value in values.items() if type(value) is int and value >= 64}
    experiment = replace(experiment, model=replace(experiment.model, **widths))
    torch.manual_seed(seed)
    model = experiment.build(len(WORDS), len(WORDS))
    ModelFolder(folder).write_config(to_dict(experiment))
    weights = ModelFolder(folder).checkpoint(1)
    weights.mkdir(parents=True)
    checkpoint.save_weights(weights / "model.safetensors", model.state_dict())
    return folder


def load_echo(folder: Path, device: torch.device) -> tuple[Echo, SimpleNamespace]:
    """Replaces ``experiment.model.load_model``."""
    return Echo(folder.name != "blind"), SimpleNamespace(search=Search(beam_size=3, length_penalty="none"))


def with_lexicon(translator: Translator, words: dict[str, str]) -> Translator:
    """The translator with another lexicon, which has one translation of each word."""
    return replace(translator, lexicon=Lexicon("`lexicon`", lambda: {word: {to: 1.0} for word, to in words.items()}))


def forced(translator: Translator, lines: list[str], references: list[str]) -> list[Translation]:
    """The references as translations."""
    return [reference for [reference] in translator.answer(lines, Request(references=True), references)]


if __name__ in ("__main__", "__mp_main__"):  # the command, and a worker process of it
    loading.load_model = load_echo  # type: ignore[assignment, attr-defined]
    vars(limits).update(json.loads(os.environ.get("LIMITS", "{}")))  # before the modules that import them
if __name__ == "__main__":
    from nmtkit.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # which background jobs of a shell are born without
    main()
