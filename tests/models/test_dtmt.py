"""DTMT against NumPy written from Meng and Zhang 2019, and against the figures of its tables."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

from nmtkit.config import build
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset, preset_names
from nmtkit.experiment.schema import build_experiment
from nmtkit.models import dtmt
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.models.dtmt import Config
from nmtkit.training.optimizers import initialise
from tests.laws import randomised, sigmoid
from tests.ops import oracle
from tests.toys import full_size

WORDS, H, E = 9, 4, 6
SMALL = Config(
    cell="lgru", transitions=2, ablated="none", width=H, embedding=E, heads=2, layer_norm=True, positions=True,
    embedding_dropout=0.0, candidate_dropout=0.0, dropout=0.0,
)  # fmt: skip
Kind = Literal["gru", "lau", "lgru"]
every_cell = pytest.mark.parametrize("cell", ["gru", "lau", "lgru"])


def values(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().double().numpy() for name, value in module.state_dict().items()}


# The paper in NumPy, for one sentence. p holds parameters by name; a map of nn.Linear is its weight transposed.


def gate(p: dict[str, np.ndarray], cell: str, k: int, pre: np.ndarray) -> np.ndarray:
    """sigma(LN(pre)) of gate number k; without normalisation sigma(pre + b)."""
    if f"{cell}.norm.gain" in p:
        pre = (pre - pre.mean()) / np.sqrt(pre.var() + 1e-6) * p[f"{cell}.norm.gain"][k]
    return sigmoid(pre + p[f"{cell}.norm.bias"][k])


def maps(p: dict[str, np.ndarray], name: str, count: int) -> list[np.ndarray]:
    return np.split(p[name], count, axis=1)


def transition(p: dict[str, np.ndarray], cell: str, h: np.ndarray) -> np.ndarray:
    """T-GRU, eqs. 10 to 13."""
    w_r, w_z, w_h = maps(p, f"{cell}.weight", 3)
    r, z = gate(p, cell, 0, h @ w_r), gate(p, cell, 1, h @ w_z)
    candidate = np.tanh(r * (h @ w_h + p[f"{cell}.bias"]))
    return (1 - z) * h + z * candidate


def first(p: dict[str, np.ndarray], cell: str, kind: Kind, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """GRU (eqs. 6 to 9), L-GRU (eqs. 14 to 16), or LAU (Wang et al. 2017, eqs. 6 to 8) with normalised gates."""
    x_maps = [w.T for w in np.split(p[f"{cell}.input.weight"], 3 if kind == "gru" else 5)]
    h_maps = maps(p, f"{cell}.weight", 3 if kind == "gru" else 4)
    gates = len(h_maps) - 1
    r, z, *third = (gate(p, cell, k, x @ x_maps[k] + h @ h_maps[k]) for k in range(gates))
    from_x, from_h, b = x @ x_maps[gates], h @ h_maps[gates], p[f"{cell}.bias"]
    if kind == "lau":
        candidate = np.tanh((1 - r) * from_x + r * from_h + b)
        return ((1 - z) * h + z * candidate) * (1 - third[0]) + third[0] * (x @ x_maps[-1])
    candidate = np.tanh(from_x + r * (from_h + b))
    if kind == "lgru":
        candidate = candidate + third[0] * (x @ x_maps[-1])
    return (1 - z) * h + z * candidate


def module(p: dict[str, np.ndarray], name: str, config: Config, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """A module of the model by its name there: encoder.directions.0, decoder.query or decoder.update."""
    paper_names = {"directions": "encoder", "query": "query", "update": "decoder"}
    plain = config.ablated == paper_names[name.split(".")[1]]
    h = first(p, f"{name}.first", "gru" if plain else config.cell, x, h)
    for k in range(0 if plain else config.transitions):
        h = transition(p, f"{name}.transitions.{k}", h)
    return h


def position(index: int) -> np.ndarray:
    """PE / sqrt(d): sines, then cosines, of wavelengths from 2 pi to 10000 * 2 pi."""
    rates = 10000.0 ** -(np.arange(E // 2) / (E // 2 - 1))
    return np.concatenate([np.sin(index * rates), np.cos(index * rates)]) / np.sqrt(E)


def paper_hidden(model: Seq2Seq, config: Config, src: list[int], tgt: list[int]) -> np.ndarray:
    """The input of the output layer (T, H)."""
    p = values(model)
    embedded = {side: p[f"embedding.{side}.words.weight"] + p[f"embedding.{side}.bias"] for side in ("src", "tgt")}
    xs = [embedded["src"][word] + config.positions * position(j) for j, word in enumerate(src)]
    directions = []
    for number, order in enumerate([range(len(src)), reversed(range(len(src)))]):
        h, states = np.zeros(H), {}
        for j in order:
            h = states[j] = module(p, f"encoder.directions.{number}", config, xs[j], h)
        directions.append([states[j] for j in range(len(src))])
    annotations = np.concatenate(directions, axis=1)  # (S, 2H)

    s = np.tanh(p["decoder.initial.weight"] @ annotations.mean(axis=0) + p["decoder.initial.bias"])
    words = [np.zeros(E)]
    words += [embedded["tgt"][word] + config.positions * position(t) for t, word in enumerate(tgt[:-1])]
    hidden = []
    for y in words:
        s_q = module(p, "decoder.query", config, y, s)
        found = []
        queries = np.split(p["decoder.attention.query.weight"] @ s_q, config.heads)
        keys = np.split(annotations @ p["decoder.attention.key.weight"].T, config.heads, axis=1)
        for q, k, v in zip(queries, keys, np.split(annotations, config.heads, axis=1), strict=True):
            weights = np.exp(np.tanh(q + k) @ p["decoder.attention.v"])
            found.append(weights / weights.sum() @ v)
        c = p["decoder.attention.out.weight"] @ np.concatenate(found) + p["decoder.attention.out.bias"]
        s = module(p, "decoder.update", config, c, s_q)
        readout = p["decoder.readout_word.weight"] @ y + p["decoder.readout_word.bias"]
        readout += p["decoder.readout_state.weight"] @ s + p["decoder.readout_context.weight"] @ c
        hidden.append(np.tanh(readout))
    return np.stack(hidden)


@every_cell
@pytest.mark.parametrize("change", [
    {}, {"transitions": 0}, {"heads": 1}, {"layer_norm": False}, {"positions": False},
    {"ablated": "encoder"}, {"ablated": "query"}, {"ablated": "decoder"},
], ids=str)  # fmt: skip
def test_the_model_is_the_papers_equations(cell: Kind, change: dict[str, Any]) -> None:
    config = replace(SMALL, cell=cell, **change)
    model, src, tgt = dtmt.build(config, WORDS, WORDS), [4, 7, 5, 2], [6, 4, 4, 8, 2]
    randomised(model)
    with torch.no_grad():
        hidden = model(torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool), torch.tensor([tgt]))
    np.testing.assert_allclose(hidden[0], paper_hidden(model, config, src, tgt), rtol=0, atol=1e-5)


@every_cell
@pytest.mark.parametrize("layer_norm", [True, False])
def test_the_gradients_of_a_module_are_the_finite_differences(cell: Kind, layer_norm: bool) -> None:
    config = replace(SMALL, cell=cell, layer_norm=layer_norm)
    tested = randomised(dtmt.Module(config, "query", E)).double()
    assert isinstance(tested, dtmt.Module)
    x, h = torch.randn(3, E, dtype=torch.double), torch.randn(3, H, dtype=torch.double)
    names, parameters = zip(*tested.named_parameters(), strict=True)

    def step(x: torch.Tensor, h: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        with_these = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(Stepped(tested), {f"module.{n}": p for n, p in with_these.items()}, (x, h))

    inputs = [tensor.detach().clone().requires_grad_() for tensor in (x, h, *parameters)]
    assert torch.autograd.gradcheck(step, inputs)


class Stepped(nn.Module):
    """A module whose call is one step."""

    def __init__(self, module: dtmt.Module):
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return self.module.step(self.module.first.input(x), h, *self.module.weights())


def test_an_lgru_without_its_linear_path_is_the_gru() -> None:
    lgru, gru = dtmt.Cell("lgru", E, SMALL), dtmt.Cell("gru", E, SMALL)
    randomised(lgru)
    with torch.no_grad():
        r, z, _, candidate, linear = lgru.input.weight.split(H)
        linear.zero_()
        gru.input.weight.copy_(torch.cat([r, z, candidate]))
        gru.weight.copy_(torch.cat([lgru.weight[:, : 2 * H], lgru.weight[:, 3 * H :]], dim=1))
        gru.bias.copy_(lgru.bias)
        assert gru.norm.gain is not None
        assert lgru.norm.gain is not None
        gru.norm.gain.copy_(lgru.norm.gain[:2])
        gru.norm.bias.copy_(lgru.norm.bias[:2])
    x, h = torch.randn(5, E), torch.randn(5, H)
    torch.testing.assert_close(lgru.step(lgru.input(x), h, lgru.weight), gru.step(gru.input(x), h, gru.weight))


def test_a_tgru_is_a_gru_that_ignores_its_input() -> None:
    gru, tgru = dtmt.Cell("gru", E, SMALL), dtmt.Cell("tgru", 0, SMALL)
    randomised(gru)
    tgru.load_state_dict({name: value for name, value in gru.state_dict().items() if name != "input.weight"})
    gru.input.weight.data.zero_()
    x, h = torch.randn(5, E), torch.randn(5, H)
    torch.testing.assert_close(tgru.step(None, h, tgru.weight), gru.step(gru.input(x), h, gru.weight))


def test_a_lau_with_an_open_input_gate_passes_on_the_linear_map_of_its_input() -> None:
    lau = dtmt.Cell("lau", E, SMALL)
    lau.norm.bias.data[2] = 50.0  # g = 1
    x, h = torch.randn(5, E), torch.randn(5, H)
    linear = x @ lau.input.weight.split(H)[-1].t()
    torch.testing.assert_close(lau.step(lau.input(x), h, lau.weight), linear)


def test_candidates_have_dropout_only_in_training() -> None:
    tgru = dtmt.Cell("tgru", 0, replace(SMALL, candidate_dropout=0.5))
    h = torch.randn(2000, H)
    _, z = oracle.gates((h @ tgru.weight)[:, : 2 * H], tgru.norm.gain, tgru.norm.bias)
    kept = tgru.eval().step(None, h, tgru.weight)
    torch.manual_seed(0)
    dropped = tgru.train().step(None, h, tgru.weight)
    none, doubled = (1 - z) * h, 2 * kept - (1 - z) * h  # without a candidate, and with twice of it
    is_none, is_doubled = torch.isclose(dropped, none, atol=1e-6), torch.isclose(dropped, doubled, atol=1e-5)
    assert (is_none | is_doubled).all()
    assert abs(is_none.float().mean().item() - 0.5) < 0.03


def test_the_first_step_reads_a_zero_vector_and_the_second_position_zero() -> None:
    decoder = dtmt.TransitionDecoder(SMALL)
    y = torch.zeros(3, E)
    seen = decoder.words(y, torch.tensor([0, 1, 2]))
    np.testing.assert_allclose(seen, np.stack([np.zeros(E), position(0), position(1)]), atol=1e-6)


# Parameters in millions (architectures.md 4.1; eight of nine as printed in Table 3 and Table 1) and published BLEU.
SYSTEMS = {
    "shallow-rnmt": (143.249, 41.57),
    "shallow-rnmt-lau": (157.937, 43.06),
    "shallow-rnmt-lgru": (157.937, 43.83),
    "dtmt1-gru": (155.853, 43.63),
    "dtmt1-lau": (170.541, 43.79),
    "dtmt1": (170.541, 44.41),
    "dtmt2": (183.144, 44.66),
    "dtmt3": (195.748, 44.70),
    "dtmt4-gru": (193.663, 44.16),
    "dtmt4-lau": (208.351, 44.54),
    "dtmt4": (208.351, 45.04),
}


@pytest.mark.parametrize("preset", SYSTEMS)
def test_a_system_of_the_tables_has_its_size_and_its_score(preset: str) -> None:
    parameters, score = SYSTEMS[preset]
    assert round(count_parameters(full_size(preset)) / 1e6, 3) == parameters
    assert build_experiment(load_preset(preset), preset).paper.score == score


def test_a_transition_adds_a_gru_without_input_to_each_of_the_four_modules() -> None:
    sizes = []
    for depth in (3, 4):
        with torch.device("meta"):
            sizes.append(count_parameters(dtmt.build(replace(SMALL, width=1024, transitions=depth), WORDS, WORDS)))
    assert sizes[1] - sizes[0] == 4 * (3 * 1024**2 + 1024 + 2 * 2 * 1024)  # 12.6 M, as the paper's counts differ


@pytest.mark.parametrize("preset", [name for name in preset_names() if name.startswith(("dtmt", "shallow"))])
def test_everything_but_layer_normalisation_starts_uniform(preset: str) -> None:
    experiment = build_experiment(load_preset(preset), preset)
    model = dtmt.build(replace(experiment.model, width=64, embedding=64), WORDS, WORDS)
    initialise(model, experiment.training.groups)
    for name, parameter in model.named_parameters():
        if ".norm." in name:
            assert torch.equal(parameter, torch.full_like(parameter, float(name.endswith("gain"))))
        else:
            assert parameter.abs().max() <= 0.08
            assert parameter.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "heads: a width of 1024 cannot be divided by 3"),
        ({"embedding": 131}, "embedding: 131 is odd; one half of a position is sines, one cosines"),
        ({"transitions": -1}, "transitions: -1 is not at least 0"),
        ({"candidate_dropout": 1.0}, "candidate_dropout: 1.0 is not in [0, 1)"),
    ],
)
def test_an_impossible_model_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(Config, {**load_preset("dtmt4")["model"], **changes}, "model")
    assert str(error.value) == f"model: {message}"


def test_an_embedding_without_positions_may_have_an_odd_width() -> None:
    model = dtmt.build(replace(SMALL, positions=False, embedding=5), WORDS, WORDS)
    assert model.embedding["src"](torch.tensor([4])).shape == (1, 5)
