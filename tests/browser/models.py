"""Models with known translations, attention and errors, in otherwise real folders.

``python -m tests.browser.models serve ...`` is the command line with them. What a model does is in its folder's name.
"""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from nmtkit.config import dump_yaml, to_dict
from nmtkit.ops.tree import Tree
from nmtkit.search.beam import Search
from nmtkit.serving import limits
from nmtkit.symbols import EOS
from nmtkit.text.settings import Prep, Side
from nmtkit.translation import loading
from tests.echo import WORDS, Echo, write_folder

NUMBERS = "אחת שתיים שלוש ארבע חמש שש שבע שמונה".split()  # what the letters are in Hebrew, for these tests
STRONG, WEAK = 0.75, 0.25  # attention weights of a target word on its source word and on the next one


class Soft(Echo):
    """Copies the source, with the replacements ``instead``; attends to the copied word and, less, to the next one."""

    def __init__(self, looks: bool, instead: dict[str, str]) -> None:
        super().__init__(looks)
        self.instead = {WORDS.index(word): WORDS.index(other) for word, other in instead.items()}

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        said = src.clone()
        for word, other in self.instead.items():
            said[src == word] = other
        return super().begin(said, src_mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        log_probs, after, look = super().step(memory, state, y)
        if look is None:
            return log_probs, after, None
        # EOS is the last position to attend to.
        assert isinstance(memory, Tensor)
        ends = (memory == EOS).int().argmax(dim=1).repeat_interleave(len(y) // len(memory), dim=0)
        places = look.argmax(dim=1)
        ahead = torch.zeros_like(look).scatter(1, torch.minimum(places + 1, ends)[:, None], 1.0)
        return log_probs, after, STRONG * look + WEAK * ahead


def write_models(folder: Path, names: Sequence[str]) -> list[Path]:
    """A model folder for each name; ``hebrew`` is of words and from English to Hebrew, the others are all English."""
    for name in names:
        model = write_folder(folder / name)
        if name == "hebrew":
            source = Side("en", normalize=False, tokenizer="none", segmentation="words")
            target = Side("he", normalize=False, tokenizer="none", segmentation="words")
            (model / "prep.yaml").write_text(dump_yaml(to_dict(Prep(source, target))))
            vocabulary = (model / "vocab.tgt").read_text("utf-8")
            for letter, number in zip("abcdefgh", NUMBERS, strict=True):
                vocabulary = vocabulary.replace(f"\n{letter}\t", f"\n{number}\t")
            (model / "vocab.tgt").write_text(vocabulary, "utf-8")
    return [folder / name for name in names]


def load(folder: Path, device: torch.device) -> tuple[Echo, SimpleNamespace]:
    """Replaces ``experiment.load_model``: ``other`` translates c as d, and ``blind`` has no attention."""
    model = Soft(folder.name != "blind", {"c": "d"} if folder.name == "other" else {})
    return model, SimpleNamespace(search=Search(beam_size=3, length_penalty="none"))


if __name__ in ("__main__", "__mp_main__"):  # the command, and a worker process of it
    loading.load_model = load  # type: ignore[assignment, attr-defined]
    vars(limits).update(json.loads(os.environ.get("LIMITS", "{}")))  # before the modules that import them
if __name__ == "__main__":
    from nmtkit.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # which background jobs of a shell are born without
    main()
