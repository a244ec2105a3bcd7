"""Systems equal their authors' own code: the loss and every gradient, for the same weights and the same batch.

``golden/NAME.npz`` is what that code computed; ``tests/README.md`` says which files of which commits.
"""

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from nmtkit import config as configs
from nmtkit.data.batches import Batch
from nmtkit.models import densenmt
from nmtkit.training.loss import summed_loss

FILES = sorted((Path(__file__).parent / "golden").glob("*.npz"))
# The largest relative errors of a loss and of a gradient. Sixteen normalised transitions in BiDeep amplify rounding to
# 3e-4 in float32; in float64 what remains is that the weights are stored in float32.
WITHIN = {torch.float32: (1e-6, 1e-3), torch.float64: (2e-7, 1e-4)}


@pytest.fixture(params=WITHIN, ids=str)
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.dtype]:
    """The precision of training with kernels, then float64 in plain operations, which reveals a wrong epsilon."""
    if request.param == torch.float64:
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(torch.float32)


def error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The distance of two arrays, relative to theirs; gradients below 1e-12 are rounding errors."""
    return float(np.linalg.norm(ours - theirs) / max(1e-12, float(np.linalg.norm(theirs))))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_loss_and_gradients_are_those_of_the_authors_code(
    file: Path, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # fairseq in Python, unlike its paper, does not take the scaling back before the source embeddings.
    scale_gradient = densenmt.scale_gradient
    monkeypatch.setattr(densenmt, "scale_gradient", lambda x, factor: scale_gradient(x, min(1.0, factor)))
    golden = np.load(file, allow_pickle=False)
    system = json.loads(str(golden["config"]))
    architecture = importlib.import_module(f"nmtkit.models.{system['architecture']}")
    src_words, tgt_words = system["vocab"]
    model = architecture.build(configs.build(architecture.Config, system["model"], file.name), src_words, tgt_words)
    model.load_state_dict({name: torch.from_numpy(golden[f"param/{name}"]) for name, _ in model.named_parameters()})
    src, mask, tgt, tgt_mask = (torch.from_numpy(golden[name]) for name in ("src", "src_mask", "tgt", "tgt_mask"))
    batch = Batch(src, mask, tgt, tgt_mask.flatten().nonzero().squeeze(1))

    total, _ = summed_loss(model, batch, smoothing := system["label_smoothing"], dtype)
    loss = total / (len(src) if "number of sentences" in system["loss"] else len(batch.words))
    loss.backward()

    entropy = 0.0  # of the smoothed target, which DTMT's authors subtract
    if smoothing:
        entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(smoothing / (tgt_words - 1))
    ours = {name: np.zeros(p.shape) if p.grad is None else p.grad.numpy() for name, p in model.named_parameters()}
    theirs = {name.removeprefix("grad/"): golden[name] for name in golden.files if name.startswith("grad/")}
    assert ours.keys() == theirs.keys()
    errors = {name: error(ours[name], theirs[name]) for name in theirs}
    within_loss, within = WITHIN[dtype]
    assert loss.item() - entropy == pytest.approx(golden["loss"].item(), rel=within_loss)
    assert {name: found for name, found in errors.items() if found > within} == {}
