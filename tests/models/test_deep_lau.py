"""DeepLAU and DeepGRU against NumPy written from Wang et al. 2017, and against the sizes the paper implies."""

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.config import build
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.models import deep_lau
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.models.deep_lau import Config
from nmtkit.training.optimizers import initialise
from tests.laws import randomised, sigmoid
from tests.toys import full_size

WORDS = 9
H = 3
SMALL = Config(
    cell="lau", connections="none", encoder_layers=3, decoder_layers=3, width=H, embedding=2, attention=5,
    embedding_dropout=0.0, dropout=0.0,
)  # fmt: skip


def model_of(config: Config) -> Seq2Seq:
    return randomised(deep_lau.build(config, WORDS, WORDS))


# The paper in NumPy, for one sentence. p holds the parameters by name; a map of nn.Linear is its weight transposed.


def lau(p: dict[str, np.ndarray], layer: str, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Eqs. 6 to 8, x already transformed: reset, update and input gate, candidate, H(x)."""
    x_r, x_z, x_g, x_h, linear = np.split(x, 5)
    h_r, h_z, h_g, h_h = np.split(h @ p[f"{layer}.recurrent.weight"], 4)
    b_r, b_z, b_g, b_h = np.split(p[f"{layer}.recurrent.bias"], 4)
    r, z, g = sigmoid(x_r + h_r + b_r), sigmoid(x_z + h_z + b_z), sigmoid(x_g + h_g + b_g)
    candidate = np.tanh((1 - r) * x_h + r * h_h + b_h)
    return ((1 - z) * h + z * candidate) * (1 - g) + g * linear


def gru(p: dict[str, np.ndarray], layer: str, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Eqs. 2 to 5, x already transformed: reset and update gate, candidate."""
    x_r, x_z, x_h = np.split(x, 3)
    h_r, h_z = np.split(h @ p[f"{layer}.recurrent.gates"], 2)
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    return (1 - z) * h + z * np.tanh(x_h + (r * h) @ p[f"{layer}.recurrent.weight"])


def step(
    p: dict[str, np.ndarray], layer: str, config: Config, x: np.ndarray, f: np.ndarray | None, h: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One layer at one time: x and f below and the state -> x and f for the layer above, and the next state."""
    below, f_below = x, f
    f = p[f"{layer}.input.weight"] @ x
    if config.cell == "gru":
        f = f + p[f"{layer}.input.bias"]
    if config.connections == "fast_forward" and f_below is not None:
        f = f + p[f"{layer}.fast_forward.weight"] @ f_below
    h = lau(p, layer, f, h) if config.cell == "lau" else gru(p, layer, f, h)
    if config.connections == "parametric":
        return h + p[f"{layer}.shortcut.weight"] @ below, f, h
    added = config.connections == "residual" and len(below) == len(h)
    return (below + h if added else h), f, h


def paper_hidden(model: Seq2Seq, config: Config, src: list[int], tgt: list[int]) -> np.ndarray:
    """The input of the output layer (T, H)."""
    p = {name: value.double().numpy() for name, value in model.state_dict().items()}
    xs, fs = list(p["embedding.src.weight"][src]), [None] * len(src)
    for k in range(config.encoder_layers):  # eq. 9: forward, backward, forward, ...
        h = np.zeros(H)
        for j in reversed(range(len(src))) if k % 2 else range(len(src)):
            xs[j], fs[j], h = step(p, f"encoder.layers.{k}", config, xs[j], fs[j], h)
    annotations = np.stack(xs)
    first = np.tanh(p["decoder.initial.weight"] @ annotations.mean(axis=0) + p["decoder.initial.bias"])
    state, hidden = [first] * config.decoder_layers, []
    w_a, w_y = np.split(p["decoder.attention.query.weight"], [H], axis=1)
    for y in [np.zeros(config.embedding), *p["embedding.tgt.weight"][tgt[:-1]]]:
        keys = annotations @ p["decoder.attention.key.weight"].T + p["decoder.attention.key.bias"]
        e = np.tanh(w_a @ state[0] + keys + w_y @ y) @ p["decoder.attention.v"]  # eq. 11
        c = np.exp(e) / np.exp(e).sum() @ annotations  # eq. 10
        x, f = np.concatenate([c, y]), None
        for k in range(config.decoder_layers):
            x, f, state[k] = step(p, f"decoder.layers.{k}", config, x, f, state[k])
        hidden.append(x)
    return np.stack(hidden)


@pytest.mark.parametrize("cell", ["lau", "gru"])
@pytest.mark.parametrize("connections", ["none", "residual", "parametric", "fast_forward"])
@pytest.mark.parametrize("layers", [(3, 2), (2, 3), (1, 1)])
@pytest.mark.parametrize("embedding", [2, H], ids=["narrow words", "words as wide as layers"])
def test_the_model_is_the_papers_equations(
    cell: Literal["lau", "gru"],
    connections: Literal["none", "residual", "parametric", "fast_forward"],
    layers: tuple[int, int],
    embedding: int,
) -> None:
    config = replace(
        SMALL, cell=cell, connections=connections, encoder_layers=layers[0], decoder_layers=layers[1],
        embedding=embedding,
    )  # fmt: skip
    model, src, tgt = model_of(config), [4, 7, 5, 2], [6, 4, 4, 8, 2]
    with torch.no_grad():
        hidden = model(torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool), torch.tensor([tgt]))
    np.testing.assert_allclose(hidden[0], paper_hidden(model, config, src, tgt), rtol=0, atol=2e-6)


# Parameters in millions, implied by the paper's sizes and vocabularies (architectures.md 4.4), and published BLEU.
SYSTEMS = {
    "deep-lau": (67.4, 38.97),
    "deep-lau-2x2": (57.9, 37.65),
    "deep-lau-8x6": (81.5, 39.01),
    "deep-lau-8x6-w256": (48.0, 38.91),
    "deep-lau-ende": (164.7, 22.1),
    "deep-lau-enfr": (67.4, 35.1),
    "deep-gru-2x1": (52.7, 33.59),
    "deep-gru-2x2": (54.2, 34.91),
    "deep-gru-2x2-w1024": (90.3, 34.68),
    "deep-gru-4x4": (60.5, 34.08),
    "deep-gru-resnet": (60.5, 36.4),
    "deep-gru-ff": (62.9, 37.62),
}


@pytest.mark.parametrize("preset", SYSTEMS)
def test_a_preset_has_as_many_parameters_as_the_papers_sizes_imply(preset: str) -> None:
    assert round(count_parameters(full_size(preset)) / 1e6, 1) == SYSTEMS[preset][0]


@pytest.mark.parametrize("preset", SYSTEMS)
def test_a_preset_quotes_the_published_score(preset: str) -> None:
    assert build_experiment(load_preset(preset), preset).paper.score == SYSTEMS[preset][1]


def test_a_lau_layer_has_five_matrices_for_its_input_and_four_for_its_state() -> None:
    layers = full_size("deep-lau").decoder.layers
    matrices = [5 * 1024 * 512 + 4 * 512 * 512] + [9 * 512 * 512] * 3
    assert [count_parameters(layer) for layer in layers] == [count + 4 * 512 for count in matrices]


def test_f_f_adds_a_map_of_its_input_to_every_layer() -> None:
    more = count_parameters(full_size("deep-gru-ff")) - count_parameters(full_size("deep-gru-4x4"))
    assert more == 7 * 512**2 + 1024 * 512  # the decoder's first layer reads context and word


def test_f_f_is_a_linear_sum_of_input_and_new_state_read_by_attention_and_softmax() -> None:
    """Section 4.6, "a parametric ResNet": without states, layers reduce to their linear maps."""
    experiment = build_experiment(load_preset("deep-gru-ff"), "deep-gru-ff")
    model = model_of(replace(experiment.model, width=H, embedding=2, attention=5, dropout=0.0))
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.recurrent.step = lambda x, h, *weights: 0 * h
        layer.recurrent.forward = lambda x, h, mask, reverse: x.new_zeros(*x.shape[:2], H)

    def mapped(x: Tensor, layers: Any) -> Tensor:
        for layer in layers:
            x = x @ layer.shortcut.weight.t()
        return x

    src, y = torch.tensor([[4, 5, 2]]), torch.randn(1, 1, 2)
    memory, state = model.begin(src, src > 0)
    torch.testing.assert_close(memory.annotations, mapped(model.embedding["src"](src), model.encoder.layers))
    step = model.decoder.step(memory, state, y[:, 0])
    context = (step.attention.unsqueeze(-1) * memory.annotations).sum(dim=1)
    torch.testing.assert_close(step.hidden, mapped(torch.cat([context, y[:, 0]], dim=-1), model.decoder.layers))
    torch.testing.assert_close(model.decoder.unroll(memory, state, y)[:, 0], step.hidden)


def test_zhous_fast_forward_adds_one_map_of_f_to_every_layer_above_the_first() -> None:
    plain, connected = (
        count_parameters(model_of(replace(SMALL, cell="gru", connections=connections)))
        for connections in ("none", "fast_forward")
    )
    assert connected - plain == 4 * (3 * H) ** 2


def test_the_context_is_as_wide_as_the_layers() -> None:
    model, mask = full_size("deep-lau"), torch.ones(2, 3, dtype=torch.bool, device="meta")
    annotations = model.encoder(torch.empty(2, 3, 512, device="meta"), mask)
    assert annotations.shape == (2, 3, 512)
    assert model.decoder.begin(annotations, mask)[0].annotations.shape == (2, 3, 512)


def changed_positions(model: Seq2Seq, position: int) -> list[int]:
    """Where the annotations of six words change when the word at ``position`` does."""
    src = torch.tensor([[4, 5, 6, 7, 8, 2]])
    other, mask = src.clone(), torch.ones_like(src, dtype=torch.bool)
    other[0, position] = 3
    differs = model.begin(src, mask)[0].annotations != model.begin(other, mask)[0].annotations
    return differs[0].any(dim=1).nonzero().flatten().tolist()


@pytest.mark.parametrize(("layers", "seen"), [(1, [2, 3, 4, 5]), (2, [0, 1, 2, 3, 4, 5])])
def test_the_first_layer_reads_forward_and_the_second_backward(layers: int, seen: list[int]) -> None:
    assert changed_positions(model_of(replace(SMALL, encoder_layers=layers)), 2) == seen


def test_residual_connections_leave_the_recurrence_alone() -> None:
    plain, residual = (
        model_of(replace(SMALL, connections=connections, encoder_layers=1, embedding=H))
        for connections in ("none", "residual")
    )
    x, mask = torch.randn(2, 5, H), torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(residual.encoder(x, mask), plain.encoder(x, mask) + x)


def test_every_decoder_layer_starts_from_the_same_state() -> None:
    src = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])
    _, state = model_of(SMALL).begin(src, src != 0)
    assert len(state) == 3
    assert all(torch.equal(h, state[0]) for h in state)
    assert not torch.equal(state[0][0], state[0][1])


def test_weights_start_at_normal_0_04_and_biases_at_zero() -> None:
    experiment = build_experiment(load_preset("deep-lau-8x6-w256"), "deep-lau-8x6-w256")
    model = experiment.build(1000, 1000)
    torch.manual_seed(0)
    initialise(model, experiment.training.groups)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        else:
            tolerance = 4 * 0.04 / math.sqrt(2 * parameter.numel())
            assert parameter.std().item() == pytest.approx(0.04, abs=tolerance), name


def dropped(trained: Tensor, evaluated: Tensor) -> bool:
    """Is every element either zero or, with p = 0.5, doubled?"""
    return bool(((trained == 0) | (trained == 2 * evaluated)).all()) and not torch.equal(trained, evaluated)


def test_dropout_is_applied_to_the_readout_and_never_to_the_state() -> None:
    model = model_of(replace(SMALL, dropout=0.5)).eval()
    src = torch.tensor([[4, 5, 6, 2]] * 9)
    memory, state = model.begin(src, torch.ones_like(src, dtype=torch.bool))
    evaluated = model.decoder.step(memory, state, torch.ones(9, 2))
    trained = model.train().decoder.step(memory, state, torch.ones(9, 2))
    assert dropped(trained.hidden, evaluated.hidden)
    assert all(map(torch.equal, trained.state, evaluated.state))


def test_embedding_dropout_is_applied_to_the_words_of_both_sides() -> None:
    model, ids = model_of(replace(SMALL, embedding_dropout=0.5)), torch.arange(4, WORDS)
    for embedding in (model.embedding["src"], model.embedding["tgt"]):
        assert dropped(embedding.train()(ids), embedding.eval()(ids))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_layers": 0}, "encoder_layers: 0 is not at least 1"),
        ({"decoder_layers": -1}, "decoder_layers: -1 is not at least 1"),
        ({"dropout": 1.0}, "dropout: 1.0 is not in [0, 1)"),
        ({"embedding_dropout": -0.1}, "embedding_dropout: -0.1 is not in [0, 1)"),
        ({"cell": "lstm"}, "cell: expected one of lau, gru; found str 'lstm'"),
        (
            {"connections": "dense"},
            "connections: expected one of none, residual, parametric, fast_forward; found str 'dense'",
        ),
    ],
)
def test_an_impossible_configuration_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(Config, {**vars(SMALL), **changes}, "model")
    assert str(error.value) == f"model: {message}"
