"""RNNsearch against NumPy written from appendix A of Bahdanau et al. 2015."""

import numpy as np
import pytest
import torch

from nmtkit.config import build
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.models import rnnsearch
from nmtkit.models.base import Seq2Seq
from nmtkit.models.rnnsearch import Config
from nmtkit.training.optimizers import initialise
from tests.laws import randomised, sigmoid

WORDS = 9
SMALL = Config(embedding=2, hidden=3, attention=5, maxout=4, dropout=0.0)


def model_of(config: Config) -> Seq2Seq:
    return randomised(rnnsearch.build(config, WORDS, WORDS))


def gru(p: dict[str, np.ndarray], cell: str, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """A.1.1, with x the three products of the input: reset gate, update gate, candidate."""
    u_r, u_z = np.split(p[f"{cell}.gates"], 2, axis=1)
    x_r, x_z, x_h = np.split(x, 3)
    r, z = sigmoid(x_r + h @ u_r), sigmoid(x_z + h @ u_z)
    return (1 - z) * h + z * np.tanh(x_h + (r * h) @ p[f"{cell}.weight"])


def paper_hidden(model: Seq2Seq, config: Config, src: list[int], tgt: list[int]) -> np.ndarray:
    """t of A.2.2 for every target word (T, l)."""
    p = {name: value.double().numpy() for name, value in model.state_dict().items()}
    directions = []
    for way in (0, 1):  # A.2.1
        h, states = np.zeros(config.hidden), []
        for word in src[::-1] if way else src:
            x = p[f"encoder.inputs.{way}.weight"] @ p["embedding.src.weight"][word] + p[f"encoder.inputs.{way}.bias"]
            h = gru(p, f"encoder.recurrent.{way}", x, h)
            states.append(h)
        directions.append(states[::-1] if way else states)
    annotations = np.concatenate([np.stack(states) for states in directions], axis=1)
    s = np.tanh(p["decoder.initial.weight"] @ directions[1][0] + p["decoder.initial.bias"])
    hidden = []
    for y in [np.zeros(config.embedding), *p["embedding.tgt.weight"][tgt[:-1]]]:
        key = annotations @ p["decoder.attention.key.weight"].T + p["decoder.attention.key.bias"]
        energy = np.tanh(p["decoder.attention.query.weight"] @ s + key) @ p["decoder.attention.v"]
        c = np.exp(energy) / np.exp(energy).sum() @ annotations
        t = p["decoder.readout_state.weight"] @ s + p["decoder.readout_state.bias"]  # of s_{i-1}, as printed
        t = t + p["decoder.readout_word.weight"] @ y + p["decoder.readout_context.weight"] @ c
        hidden.append([max(t[2 * j], t[2 * j + 1]) for j in range(config.maxout)])
        x = p["decoder.word.weight"] @ y + p["decoder.word.bias"] + p["decoder.context.weight"] @ c
        s = gru(p, "decoder.recurrent", x, s)
    return np.array(hidden)


@pytest.mark.parametrize("src", [[4, 7, 5, 2], [2]], ids=["words", "only the end mark"])
def test_the_model_is_the_papers_equations(src: list[int]) -> None:
    model, tgt = model_of(SMALL), [6, 4, 4, 8, 2]
    with torch.no_grad():
        hidden = model(torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool), torch.tensor([tgt]))
    np.testing.assert_allclose(hidden[0], paper_hidden(model, SMALL, src, tgt), rtol=0, atol=2e-6)


def test_the_preset_is_initialised_as_in_appendix_b() -> None:
    experiment = build_experiment(load_preset("rnnsearch"), "rnnsearch")
    model = rnnsearch.build(Config(embedding=40, hidden=60, attention=50, maxout=30, dropout=0.0), 100, 100)
    torch.manual_seed(0)
    initialise(model, experiment.training.groups)
    for name, parameter in model.named_parameters():
        if "recurrent" in name:
            for block in parameter.split(60, dim=1):
                torch.testing.assert_close(block @ block.t(), torch.eye(60))
        elif name.endswith(("bias", "attention.v")):
            assert not parameter.any(), name
        else:
            std = 0.001 if "attention" in name else 0.01
            assert parameter.std().item() == pytest.approx(std, rel=0.1), name


def test_an_impossible_dropout_is_an_error() -> None:
    with pytest.raises(UserError, match=r"model: dropout: 1.5 is not in \[0, 1\)"):
        build(Config, {**vars(SMALL), "dropout": 1.5}, "model")
