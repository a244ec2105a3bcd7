"""The Nematus family and BiDeep against NumPy written from Miceli Barone et al. 2017, and against their exact sizes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.config import build
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset, preset_names
from nmtkit.experiment.schema import build_experiment
from nmtkit.models import bideep
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.models.bideep import Config
from nmtkit.training.optimizers import initialise
from tests.laws import randomised, sigmoid

WORDS = 9
E, H = 3, 4
SHALLOW = Config(
    embedding=E, hidden=H, bidirectional_layers=1, forward_layers=0, encoder_transitions=1, decoder_layers=1,
    base_transitions=2, high_cell=None, high_transitions=None, output_layers=1, layer_norm=True, dropout=0.0,
)  # fmt: skip
ENCODERS: dict[str, dict[str, Any]] = {
    "shallow": {},
    "alternating": {"bidirectional_layers": 3},
    "biunidirectional": {"forward_layers": 2},
    "mixed": {"bidirectional_layers": 2, "forward_layers": 2},
    "deep transition": {"encoder_transitions": 3},
    "bideep": {"bidirectional_layers": 2, "forward_layers": 1, "encoder_transitions": 2},
}
DECODERS: dict[str, dict[str, Any]] = {
    "shallow": {},
    "deep transition": {"base_transitions": 4},
    "deep output": {"output_layers": 3},
    "lexical": {"lexical": True},
    "gru": {"decoder_layers": 3, "high_cell": "gru", "high_transitions": 1},
    "rgru": {"decoder_layers": 3, "high_cell": "rgru", "high_transitions": 1},
    "cgru": {"decoder_layers": 3, "high_cell": "cgru", "high_transitions": 2},
    "crgru": {"decoder_layers": 3, "high_cell": "crgru", "high_transitions": 2},
    "bideep gru": {"decoder_layers": 2, "base_transitions": 3, "high_cell": "gru", "high_transitions": 2},
    "bideep rgru": {"decoder_layers": 2, "base_transitions": 4, "high_cell": "rgru", "high_transitions": 3},
    "bideep cgru": {"decoder_layers": 2, "base_transitions": 3, "high_cell": "cgru", "high_transitions": 4},
    "bideep crgru": {"decoder_layers": 2, "base_transitions": 3, "high_cell": "crgru", "high_transitions": 4},
    "lexical cgru": {"decoder_layers": 2, "high_cell": "cgru", "high_transitions": 2, "lexical": True},
    "lexical rgru": {"decoder_layers": 2, "high_cell": "rgru", "high_transitions": 2, "lexical": True},
}
SRC, TGT = [4, 7, 2], [6, 4, 4, 8]
Values = dict[str, np.ndarray]


def model_of(config: Config) -> Seq2Seq:
    """With random values in every parameter; those of gains are around 1."""
    model = randomised(bideep.build(config, WORDS, WORDS))
    for name, parameter in model.named_parameters():
        if is_gain(name):
            parameter.data += 1
    return model


def is_gain(name: str) -> bool:
    return "norms" in name and name.endswith("weight")


def hidden_of(model: Seq2Seq, src: list[int] = SRC) -> Tensor:
    """The input of the output layer (T, E), or (T, 2E) with the lexical model."""
    hidden: Tensor = model(torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool), torch.tensor([TGT]))[0]
    return hidden


def values_of(model: Seq2Seq) -> Values:
    return {name: value.double().numpy() for name, value in model.state_dict().items()}


# The equations in NumPy, for one sentence (architectures.md 2.3). p holds the parameters by name.


def ln(p: Values, name: str, x: np.ndarray) -> np.ndarray:
    """Layer normalisation with the gains and biases of that name; a model without it has none."""
    if f"{name}.weight" not in p:
        return x
    x = x - x.sum() / len(x)
    return x / np.sqrt(x @ x / len(x) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(p: Values, name: str, x: np.ndarray) -> np.ndarray:
    """LN(x W + b)."""
    return ln(p, f"{name}.norms.0", x @ p[f"{name}.weight"] + p.get(f"{name}.bias", 0.0))


def ru_and_p(p: Values, name: str, x: np.ndarray) -> list[np.ndarray]:
    """LN(x W + b) of both gates together, and LN(x W_x + b_x) of the candidate."""
    terms = x @ p[f"{name}.weight"] + p.get(f"{name}.bias", 0.0)
    split = len(terms) // 3 * 2
    return [ln(p, f"{name}.norms.0", terms[:split]), ln(p, f"{name}.norms.1", terms[split:])]


def with_input(p: Values, y_map: str, h_map: str, y: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The GRU step with an input, and that with a context: they differ only in the place of the bias."""
    (y_ru, y_p), (h_ru, h_p) = ru_and_p(p, y_map, y), ru_and_p(p, h_map, h)
    r, u = np.split(sigmoid(y_ru + h_ru), 2)
    return u * h + (1 - u) * np.tanh(y_p + r * h_p)


def transition(p: Values, h_map: str, b: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Without an input in a plain stack: the bias outside LN and the reset product."""
    h_ru, h_p = ru_and_p(p, h_map, h)
    r, u = np.split(sigmoid(b[: 2 * len(h)] + h_ru), 2)
    return u * h + (1 - u) * np.tanh(b[2 * len(h) :] + r * h_p)


def conditional_transition(p: Values, h_map: str, h: np.ndarray) -> np.ndarray:
    """Without an input in a conditional stack: the bias inside."""
    h_ru, h_p = ru_and_p(p, h_map, h)
    r, u = np.split(sigmoid(h_ru), 2)
    return u * h + (1 - u) * np.tanh(r * h_p)


def dtgru(p: Values, cell: str, transitions: int, y: np.ndarray, h: np.ndarray) -> np.ndarray:
    h = with_input(p, f"{cell}.input", f"{cell}.states.0", y, h)
    for k in range(1, transitions):
        h = transition(p, f"{cell}.states.{k}", p[f"{cell}.biases.{k - 1}"], h)
    return h


def after_context(p: Values, cell: str, transitions: int, c: np.ndarray, s: np.ndarray) -> np.ndarray:
    h = with_input(p, f"{cell}.context", f"{cell}.states.0", c, s)
    for k in range(1, transitions - 1):
        h = conditional_transition(p, f"{cell}.states.{k}", h)
    return h


def attend(p: Values, level: str, annotations: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The attention weights (S,)."""
    query = linear(p, f"{level}.query", s)
    scores = np.array([np.tanh(linear(p, f"{level}.key", c) + query) @ p[f"{level}.v"] for c in annotations])
    alpha = np.exp(scores + p[f"{level}.score_shift"])
    weights: np.ndarray = alpha / alpha.sum()
    return weights


def cgru(
    p: Values, level: str, transitions: int, annotations: np.ndarray, y: np.ndarray, h: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The next state and the attention weights."""
    s = with_input(p, f"{level}.cell.input", f"{level}.cell.first", y, h)
    a = attend(p, level, annotations, s)
    return after_context(p, f"{level}.cell", transitions, a @ annotations, s), a


def over(p: Values, cell: str, transitions: int, ys: np.ndarray, width: int, backward: bool) -> np.ndarray:
    h, states = np.zeros(width), np.zeros((len(ys), width))
    for i in reversed(range(len(ys))) if backward else range(len(ys)):
        h = states[i] = dtgru(p, cell, transitions, ys[i], h)
    return states


def paper_annotations(p: Values, config: Config, xs: np.ndarray) -> np.ndarray:
    """C of section 2.3.1 (S, 2H)."""
    tops, n = [], config.encoder_transitions
    for chain in (0, 1):
        w = over(p, f"encoder.chains.{chain}.0", n, xs, H, chain == 1)
        for k in range(1, config.bidirectional_layers):
            w = w + over(p, f"encoder.chains.{chain}.{k}", n, w, H, (k + chain) % 2 == 1)
        tops.append(w)
    c = np.concatenate(tops, axis=1)
    for k in range(config.forward_layers):
        c = c + over(p, f"encoder.above.{k}", n, c, 2 * H, False)
    return c


def paper_hidden(p: Values, config: Config) -> np.ndarray:
    """The input of the output layer: t (T, E), or [t, h] (T, 2E) with h of Nguyen and Chiang 2018, section 4."""
    xs = p["embedding.src.weight"][SRC]
    annotations = paper_annotations(p, config, xs)
    first = np.tanh(linear(p, "decoder.initial", annotations.mean(axis=0)))
    state, hidden, n = [first] * config.decoder_layers, [], config.high_transitions or 0
    for y in [np.zeros(E), *p["embedding.tgt.weight"][TGT[:-1]]]:
        state[0], a = cgru(p, "decoder.base", config.base_transitions, annotations, y, state[0])
        r, c = state[0], a @ annotations
        for k in range(1, config.decoder_layers):
            level = f"decoder.high.{k - 1}"
            if config.high_cell == "gru":
                state[k] = dtgru(p, level, n, r, state[k])
            elif config.high_cell == "rgru":
                state[k] = dtgru(p, level, n, np.concatenate([r, c]), state[k])
            elif config.high_cell == "crgru":
                s = with_input(p, f"{level}.input", f"{level}.first", r, state[k])
                state[k] = after_context(p, level, n, c, s)
            else:
                state[k], _ = cgru(p, level, n, annotations, r, state[k])
            r = r + state[k]
        words = {"state": r, "word": y, "context": c}
        t = np.tanh(sum(linear(p, f"decoder.readout.{name}", x) for name, x in words.items()))
        for k in range(config.output_layers - 1):
            t = t + np.tanh(linear(p, f"decoder.readout.further.{k}", t))
        f = np.tanh(a @ xs)
        hidden.append(np.concatenate([t, np.tanh(linear(p, "decoder.lexical.map", f)) + f]) if config.lexical else t)
    return np.stack(hidden)


with_and_without_ln = pytest.mark.parametrize("layer_norm", [True, False], ids=["LN", "no LN"])


@with_and_without_ln
@pytest.mark.parametrize(("encoder", "decoder"), [
    *((encoder, "shallow") for encoder in ENCODERS), *(("bideep", decoder) for decoder in DECODERS),
])  # fmt: skip
def test_the_model_is_the_papers_equations(encoder: str, decoder: str, layer_norm: bool) -> None:
    config = replace(SHALLOW, layer_norm=layer_norm, **ENCODERS[encoder], **DECODERS[decoder])
    model = model_of(config)
    with torch.no_grad():
        np.testing.assert_allclose(hidden_of(model), paper_hidden(values_of(model), config), rtol=0, atol=1e-5)


@with_and_without_ln
@pytest.mark.parametrize(("encoder", "decoder"), [
    ("bideep", "deep output"), ("shallow", "bideep rgru"), ("shallow", "bideep cgru"), ("shallow", "bideep crgru"),
    ("bideep", "lexical"),
])  # fmt: skip
def test_every_gradient_is_the_slope_of_the_papers_equations(encoder: str, decoder: str, layer_norm: bool) -> None:
    """Along a random direction of every parameter, by central differences of the NumPy model."""
    config = replace(SHALLOW, layer_norm=layer_norm, **ENCODERS[encoder], **DECODERS[decoder])
    model, random, small = model_of(config), np.random.default_rng(0), 1e-5
    upstream = random.standard_normal((len(TGT), 2 * E if config.lexical else E))
    (hidden_of(model) * torch.tensor(upstream)).sum().backward()
    p = values_of(model)
    for name, parameter in model.named_parameters():
        if name.startswith("output") or name.endswith("score_shift"):
            continue
        direction = random.standard_normal(parameter.shape)
        up, down = (paper_hidden({**p, name: p[name] + step * direction}, config) for step in (small, -small))
        slope = ((up - down) * upstream).sum() / (2 * small)
        assert parameter.grad is not None, name
        assert (parameter.grad.numpy() * direction).sum() == pytest.approx(slope, rel=1e-3, abs=1e-4), name


# Parameters without those of the vocabularies (architectures.md 4.2).
SIZES = {
    "nematus-baseline-noln": 33_835_521,
    "nematus-baseline": 33_897_985,
    "nematus-enc-alt4-noln": 71_602_689,
    "nematus-enc-alt4": 71_738_881,
    "nematus-enc-biuni4": 109_487_617,
    "nematus-enc-dt4": 52_827_649,
    "nematus-dec-gru4": 52_818_433,
    "nematus-dec-rgru4": 71_692_801,
    "nematus-dec-cgru4": 100_087_300,
    "nematus-dec-crgru4": 81_176_065,
    "nematus-dec-dt8": 52_827_649,
    "nematus-dec-out4": 34_689_025,
    "nematus-zhou": 90_659_329,
    "nematus-wu": 147_282_433,
    "nematus-alt-rgru": 109_533_697,
    "nematus-alt-cgru": 137_928_196,
    "nematus-dt": 71_757_313,
    "bideep": 81_194_497,
    "bideep-large": 150_547_969,
    "nematus-alt8-rgru8": 210_381_313,
    "nematus-low-resource": 33_897_985 + 512 * (512 + 3),  # the baseline with the map of the lexical model
    "nematus-low-resource-250k": 33_897_985 + 512 * (512 + 3),
}


@pytest.mark.parametrize("preset", SIZES)
def test_a_preset_has_exactly_as_many_parameters_as_the_authors_code(preset: str) -> None:
    experiment = build_experiment(load_preset(preset), preset)
    with torch.device("meta"):
        model = experiment.build(51_100, 74_383)
    assert count_parameters(model.encoder) + count_parameters(model.decoder) == SIZES[preset]
    lexical = 512 * 74_383 if experiment.model.lexical else 0  # the further columns of the output
    assert count_parameters(model) == SIZES[preset] + 512 * (51_100 + 74_383) + 74_383 + lexical  # one target table


def test_every_preset_is_counted() -> None:
    assert {name for name in preset_names() if load_preset(name)["architecture"] == "bideep"} == set(SIZES)


def neutral(model: Seq2Seq, shallow: Seq2Seq) -> None:
    """Give ``model`` the weights of ``shallow``, and such update gates to all that is new that a level's state is
    zero and a transition hands its state on.
    """
    shared = shallow.state_dict()
    for name, parameter in model.named_parameters():
        if name in shared:
            parameter.data.copy_(shared[name])
            continue
        parameter.data.zero_()
        width = len(parameter) // 3
        if name.endswith("input.bias"):  # of a level
            parameter.data[width : 2 * width] = -50.0  # u = 0: the candidate, which is tanh(0)
        elif parameter.ndim == 1 and "readout" not in name:  # the bias of a transition
            parameter.data[width : 2 * width] = 50.0  # u = 1: the old state


@pytest.mark.parametrize("parts", [
    *(pytest.param(ENCODERS[name], id=f"{name} encoder") for name in ("alternating", "biunidirectional", "mixed")),
    pytest.param({"encoder_transitions": 3}, id="deep transition encoder"),
    pytest.param({"base_transitions": 4}, id="deep transition decoder"),
    *(pytest.param(DECODERS[name], id=f"{name} decoder") for name in ("gru", "rgru")),
    pytest.param({"output_layers": 3}, id="deep output"),
])  # fmt: skip
def test_whatever_is_deep_contains_the_shallow_model(parts: dict[str, Any]) -> None:
    shallow = model_of(replace(SHALLOW, layer_norm=False))
    deep = model_of(replace(SHALLOW, layer_norm=False, **parts))
    assert not torch.allclose(hidden_of(deep), hidden_of(shallow), atol=0.01)
    neutral(deep, shallow)
    torch.testing.assert_close(hidden_of(deep), hidden_of(shallow))


def test_a_crgru_is_a_cgru_with_the_attention_of_the_base() -> None:
    """With one source word there is one position to attend to."""
    config = replace(SHALLOW, decoder_layers=2, high_cell="cgru", high_transitions=3)
    cgru, crgru = model_of(config), model_of(replace(config, high_cell="crgru"))
    weights = {name.replace("high.0.cell", "high.0"): value for name, value in cgru.state_dict().items()}
    crgru.load_state_dict({name: weights[name] for name in crgru.state_dict()})
    torch.testing.assert_close(hidden_of(cgru, [4]), hidden_of(crgru, [4]))
    assert not torch.allclose(hidden_of(cgru, [4, 5]), hidden_of(crgru, [4, 5]), atol=1e-3)


def matrices(name: str, parameter: Tensor) -> list[Tensor]:
    """The concatenated matrices in a weight: of r, u and p, but of both gates together for a context."""
    width = parameter.shape[1] // 3
    if ".context." in name and "readout" not in name:
        return list(parameter.split([2 * width, width], dim=1))
    gates = any(part in name for part in (".input.", ".states.", ".first."))
    return list(parameter.split(width, dim=1)) if gates else [parameter]


def test_a_model_starts_as_nematus_does() -> None:
    """Square matrices orthogonal, except those of the readout; others N(0, 0.01^2); biases 0; gains 1."""
    experiment = build_experiment(load_preset("nematus-alt-cgru"), "nematus-alt-cgru")
    model = replace(experiment, model=replace(experiment.model, embedding=40, hidden=60, lexical=True)).build(200, 200)
    torch.manual_seed(0)
    initialise(model, experiment.training.groups)
    square = []
    for name, parameter in model.named_parameters():
        if is_gain(name):
            assert parameter.eq(1).all(), name
        elif name.endswith(("bias", "score_shift")):
            assert not parameter.any(), name
        elif name.endswith(".v"):
            assert parameter.std().item() == pytest.approx(0.01, rel=0.25), name
        else:
            for block in matrices(name, parameter):
                if block.shape[0] == block.shape[1] and "readout" not in name:
                    square.append(name)
                    torch.testing.assert_close(block @ block.t(), torch.eye(len(block)))
                else:
                    assert block.std().item() == pytest.approx(0.01, rel=0.1), name
    per_high_level = ["input"] * 3 + ["first"] * 3 + ["states"] * 3 + ["context", "key"]
    assert len(square) == 2 * (3 + 3 * 6) + len(per_high_level[3:]) + 3 * len(per_high_level) + len(["lexical.map"])


@pytest.mark.parametrize(("layer_norm", "epsilon"), [(True, 1e-5), ("marian", 1e-9)])
def test_a_normalisation_has_the_epsilon_of_its_toolkit(layer_norm: bideep.LayerNorm, epsilon: float) -> None:
    layer, x = bideep.Map(H, [E], [E], bias=False, layer_norm=layer_norm), 0.1 * torch.randn(50, H)
    expected = functional.layer_norm(x @ layer.weight, (E,), eps=epsilon)
    torch.testing.assert_close(layer(x), expected)


def test_dropout_is_applied_to_the_readout_and_to_embeddings() -> None:
    model = bideep.build(replace(SHALLOW, dropout=0.5), WORDS, WORDS)
    parts = torch.randn(50, H), torch.randn(50, E), torch.randn(50, 2 * H)
    readout = model.decoder.readout
    trained, evaluated = readout.train()(*parts), readout.eval()(*parts)
    assert ((trained == 0) | (trained == 2 * evaluated)).all()
    assert not torch.equal(trained, evaluated)
    assert [embedding.dropout for embedding in model.embedding.values()] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bidirectional_layers": 0}, "bidirectional_layers: 0 is not at least 1"),
        ({"encoder_transitions": 0}, "encoder_transitions: 0 is not at least 1"),
        ({"decoder_layers": 0}, "decoder_layers: 0 is not at least 1"),
        ({"output_layers": 0}, "output_layers: 0 is not at least 1"),
        ({"forward_layers": -1}, "forward_layers: -1 is not at least 0"),
        ({"base_transitions": 1}, "base_transitions: 1 is not at least 2, around the attention"),
        ({"decoder_layers": 2}, "high_cell, high_transitions: needed with decoder_layers 2"),
        ({"decoder_layers": 2, "high_cell": "gru"}, "high_cell, high_transitions: needed with decoder_layers 2"),
        ({"high_cell": "gru", "high_transitions": 0}, "high_transitions: 0 is not at least 1"),
        ({"high_cell": "cgru", "high_transitions": 1}, "high_transitions: 1 is not at least 2"),
        ({"high_cell": "crgru", "high_transitions": 1}, "high_transitions: 1 is not at least 2"),
        ({"high_cell": "lstm"}, "high_cell: expected one of gru, rgru, cgru, crgru; found str 'lstm'"),
        ({"dropout": 1.0}, "dropout: 1.0 is not in [0, 1)"),
    ],
)
def test_an_impossible_configuration_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(Config, {**vars(SHALLOW), **changes}, "model")
    assert str(error.value) == f"model: {message}"
