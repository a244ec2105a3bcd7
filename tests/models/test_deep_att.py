"""Deep-Att and Deep-ED against NumPy written from Zhou et al. 2016, and against statements of the paper."""

import math
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.config import build
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.models import deep_att
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.models.deep_att import Config, DeepAtt, FeedForward, Stack
from nmtkit.symbols import BOS
from nmtkit.training.optimizers import initialise
from tests.laws import randomised, sigmoid
from tests.toys import full_size

WORDS = 9
H = 3
SMALL = Config(
    interface="attention", encoder_layers=3, decoder_layers=3, columns=2, bidirectional=True, fast_forward="half",
    embedding=2, width=H, attention=5, dropout=0.0,
)  # fmt: skip
fast_forward = pytest.mark.parametrize("ff", ["half", "full", "none"])


def model_of(config: Config) -> Seq2Seq:
    return randomised(deep_att.build(config, WORDS, WORDS))


# The paper in NumPy, for one sentence. p holds the parameters by name; a map of nn.Linear is its weight transposed.


def lstm(p: dict[str, np.ndarray], cell: str, f: np.ndarray, h: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
    """Eq. 4."""
    theta = p[f"{cell}.peepholes"]
    z, z_rho, z_phi, z_pi = np.split(f + h @ p[f"{cell}.weight"], 4)
    new = np.tanh(z) * sigmoid(z_rho + s * theta[0]) + sigmoid(z_phi + s * theta[1]) * s
    return [np.tanh(new) * sigmoid(z_pi + new * theta[2]), new]


def next_f(p: dict[str, np.ndarray], name: str, ff: str, f: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Eqs. 5 and 6: W_f . [f', h], with f' the first half of f, all of it, or nothing."""
    new = p[f"{name}.h_to_f.weight"] @ h + p[f"{name}.h_to_f.bias"]
    return new if ff == "none" else new + p[f"{name}.f_to_f.weight"] @ f[: 2 * H if ff == "half" else 4 * H]


def column(
    p: dict[str, np.ndarray], a: int, config: Config, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Top h and f of column ``a`` and the h of the step processed last. The direction is (-1)^k, turned in a2."""
    name = f"encoder.columns.{a}"
    hs = np.zeros((len(x), H))
    for k in range(config.encoder_layers):
        if k == 0:
            fs = x @ p[f"{name}.feed_forward.0.weight"].T + p[f"{name}.feed_forward.0.bias"]
        else:
            layer = f"{name}.feed_forward.{k}"
            fs = np.stack([next_f(p, layer, config.fast_forward, f, h) for f, h in zip(fs, hs, strict=True)])
        h, s = np.zeros(H), np.zeros(H)
        backward = config.bidirectional and (k + a) % 2 == 1
        for t in reversed(range(len(x))) if backward else range(len(x)):
            h, s = lstm(p, f"{name}.recurrent.{k}", fs[t], h, s)
            hs[t] = h
    return hs, fs, h


def paper_hidden(model: Seq2Seq, config: Config, src: list[int], tgt: list[int]) -> np.ndarray:
    """The input of the output layer (T, H)."""
    p = {name: value.double().numpy() for name, value in model.state_dict().items()}
    tops = [column(p, a, config, p["embedding.src.weight"][src]) for a in range(config.columns)]
    if config.interface == "constant":  # e of eq. 7
        parts = [tops[0][2]] + [h.max(axis=0) for h, _, _ in tops[1:]]
        parts += [f.max(axis=0) for _, f, _ in tops] if config.fast_forward != "none" else []
        e = np.concatenate(parts)
    else:
        e = np.concatenate([h for h, _, _ in tops], axis=1)
        if config.fast_forward != "none":
            e = np.concatenate([e, *(f for _, f, _ in tops)], axis=1) @ p["decoder.projection.weight"].T
    n_d = config.decoder_layers
    state, hidden = [[np.zeros(H), np.zeros(H)] for _ in range(n_d)], []
    for y in [np.zeros(config.embedding), *p["embedding.tgt.weight"][tgt[:-1]]]:
        c = e
        if config.interface == "attention":  # eqs. 8 and 9
            key = p["decoder.attention.key.weight"] @ e.T + p["decoder.attention.key.bias"][:, None]
            query = p["decoder.attention.query.weight"] @ state[0][0]
            weights = np.exp(p["decoder.attention.v"] @ np.tanh(key + query[:, None]))
            c = weights / weights.sum() @ e
        f = p["decoder.context.weight"] @ c + p["decoder.word.weight"] @ y + p["decoder.context.bias"]  # eq. 10
        for k in range(n_d):
            if k > 0:
                f = next_f(p, f"decoder.layers.feed_forward.{k - 1}", config.fast_forward, f, state[k - 1][0])
            state[k] = lstm(p, f"decoder.layers.recurrent.{k}", f, *state[k])
        hidden.append(state[-1][0])
    return np.stack(hidden)


@fast_forward
@pytest.mark.parametrize("interface", ["attention", "constant"])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False], ids=["bi", "uni"])
@pytest.mark.parametrize("layers", [(3, 2), (2, 3), (1, 1)])
def test_the_model_is_the_papers_equations(
    interface: Literal["attention", "constant"], ff: Any, columns: int, bidirectional: bool, layers: tuple[int, int]
) -> None:
    config = replace(
        SMALL, interface=interface, attention=5 if interface == "attention" else None, fast_forward=ff,
        columns=columns, bidirectional=bidirectional, encoder_layers=layers[0], decoder_layers=layers[1],
    )  # fmt: skip
    model, src, tgt = model_of(config), [4, 7, 5, 2], [6, 4, 4, 8, 2]
    with torch.no_grad():
        hidden = model(torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool), torch.tensor([tgt]))
    np.testing.assert_allclose(hidden[0], paper_hidden(model, config, src, tgt), rtol=0, atol=2e-6)


# Parameters in millions, implied by the paper's sizes and vocabularies (architectures.md 4.4), and published BLEU.
SYSTEMS = {
    "deep-att": (219.9, 37.7),
    "deep-att-uni": (219.9, 36.2),
    "deep-ed": (220.3, 36.3),
    "deep-ed-uni": (220.3, 34.9),
    "deep-att-1col": (178.2, 36.6),
    "deep-att-1col-w1024": (412.1, 36.7),
    "deep-att-5x3": (169.5, 36.0),
    "deep-att-2x2": (140.1, 34.7),
    "deep-att-1x1": (127.5, 32.3),
    "deep-att-noff-1x1": (120.3, 31.2),
    "deep-att-noff-2x2": (126.6, 33.3),
    "deep-att-noff-2x2-w1024": (204.6, 33.8),
    "deep-att-12m": (137.9, 35.9),
    "deep-att-ende": (281.4, 20.6),
}


@pytest.mark.parametrize("preset", SYSTEMS)
def test_a_preset_has_as_many_parameters_as_the_papers_sizes_imply(preset: str) -> None:
    assert round(count_parameters(full_size(preset)) / 1e6, 1) == SYSTEMS[preset][0]


@pytest.mark.parametrize("preset", SYSTEMS)
def test_a_preset_quotes_the_published_score(preset: str) -> None:
    assert build_experiment(load_preset(preset), preset).paper.score == SYSTEMS[preset][1]


def test_the_trunk_of_deep_att_has_107_2_million_parameters() -> None:
    model = full_size("deep-att")
    assert round((count_parameters(model.encoder) + count_parameters(model.decoder)) / 1e6, 1) == 107.2


@pytest.mark.parametrize(
    ("preset", "encoded", "context"),
    [
        ("deep-att", (2, 3, 5120), (2, 3, 1280)),
        ("deep-att-uni", (2, 3, 5120), (2, 3, 1280)),
        ("deep-att-1col", (2, 3, 2560), (2, 3, 640)),
        ("deep-att-noff-1x1", (2, 3, 1024), (2, 3, 1024)),
        ("deep-ed", (2, 5120), None),
    ],
)
def test_the_interface_has_the_papers_width(preset: str, encoded: tuple[int], context: tuple[int] | None) -> None:
    model, x = full_size(preset), torch.empty(2, 3, 256, device="meta")
    mask = torch.ones(2, 3, dtype=torch.bool, device="meta")
    e = model.encoder(x, mask)
    assert e.shape == encoded
    if context is not None:
        assert cast(DeepAtt, model.decoder).projection(e).shape == context


def changed_positions(model: Seq2Seq, position: int) -> list[list[int]]:
    """For every column: at which positions its top h changes when a source word does."""
    src, mask = torch.tensor([[4, 5, 6, 7, 8, 2]]), torch.ones(1, 6, dtype=torch.bool)
    other = src.clone()
    other[0, position] = 3
    before, after = (model.encoder(model.embedding["src"](ids), mask)[0] for ids in (src, other))
    columns = (before != after).split(H, dim=1)[: len(model.encoder.columns)]
    return [differs.any(dim=1).nonzero().flatten().tolist() for differs in columns]


def test_the_first_layers_of_the_columns_read_in_opposite_directions() -> None:
    model = model_of(replace(SMALL, encoder_layers=1))
    assert changed_positions(model, 2) == [[2, 3, 4, 5], [0, 1, 2]]


@pytest.mark.parametrize("layers", [2, 3])
def test_two_layers_of_a_column_read_both_directions(layers: int) -> None:
    model = model_of(replace(SMALL, encoder_layers=layers))
    assert changed_positions(model, 2) == [[0, 1, 2, 3, 4, 5]] * 2


@pytest.mark.parametrize("layers", [1, 3])
def test_no_layer_of_the_uni_directional_encoder_reads_later_words(layers: int) -> None:
    model = model_of(replace(SMALL, bidirectional=False, encoder_layers=layers))
    assert changed_positions(model, 2) == [[2, 3, 4, 5]] * 2


def test_directions_alternate_upwards_and_between_the_columns() -> None:
    backward = [column.reverse for column in full_size("deep-att").encoder.columns]
    assert backward == [[False, True] * 4 + [False], [True, False] * 4 + [True]]
    assert not any(any(column.reverse) for column in full_size("deep-att-uni").encoder.columns)


def test_fast_forward_changes_nothing_in_a_decoder_of_one_layer() -> None:
    stacks = [Stack(H, ff_width, 1, dropout=0.0) for ff_width in (0, 2 * H)]
    stacks[1].load_state_dict(stacks[0].state_dict())
    f = torch.randn(2, 4 * H)
    (hidden, state), (other_hidden, other_state) = (stack.step(f, stack.begin(f)) for stack in stacks)
    assert torch.equal(hidden, other_hidden)
    assert torch.equal(state[0].s, other_state[0].s)


def test_the_recurrent_part_starts_at_zero_and_the_rest_at_normal_0_07() -> None:
    experiment = build_experiment(load_preset("deep-att-1x1"), "deep-att-1x1")
    model = experiment.build(1000, 1000)
    torch.manual_seed(0)
    initialise(model, experiment.training.groups)
    for name, parameter in model.named_parameters():
        if "recurrent" in name or name.endswith("bias"):
            assert not parameter.any(), name
        else:
            tolerance = 4 * 0.07 / math.sqrt(2 * parameter.numel())
            assert parameter.std().item() == pytest.approx(0.07, abs=tolerance), name


def first_layer_gradient(ff: str) -> float:
    """The ratio of the gradients of f (its bias) in layers 1 and 9 of a column, with the preset's initialisation."""
    experiment = build_experiment(load_preset("deep-att-1col"), "deep-att-1col")
    small = replace(experiment.model, fast_forward=ff, decoder_layers=1)
    with torch.device("meta"):
        model = replace(experiment, model=small).build(WORDS, WORDS)
    torch.manual_seed(0)
    initialise(model.to_empty(device="cpu"), experiment.training.groups)  # the preset's groups fill everything
    src = torch.tensor([[4, 5, 6], [7, 8, 2]])
    logits = model.output(model(src, torch.ones_like(src, dtype=torch.bool), src))
    functional.cross_entropy(logits.flatten(0, 1), src.flatten()).backward()
    feed_forward = model.encoder.columns[0].feed_forward
    assert len(feed_forward) == 9
    first, last = feed_forward[0].bias.grad, feed_forward[8].h_to_f.bias.grad
    return (first.norm() / last.norm()).item()


def test_fast_forward_carries_the_gradient_down_to_layer_1_of_9() -> None:
    half, none = first_layer_gradient("half"), first_layer_gradient("none")
    assert half > 1
    assert none < 0.1


def test_between_layers_dropout_is_applied_to_h_and_never_to_f() -> None:
    layer = FeedForward(H, 2 * H, dropout=0.5)
    f, h = torch.randn(1000, 4 * H), torch.randn(1000, H)
    torch.testing.assert_close(layer(f, torch.zeros_like(h)), layer.eval()(f, torch.zeros_like(h)))
    assert not torch.equal(layer.train()(f, h), layer.eval()(f, h))


def dropped(trained: Tensor, evaluated: Tensor) -> bool:
    """Is every element either zero or, with p = 0.5, doubled?"""
    return bool(((trained == 0) | (trained == 2 * evaluated)).all()) and not torch.equal(trained, evaluated)


def test_at_the_interface_dropout_is_applied_to_h_and_never_to_f() -> None:
    model = model_of(replace(SMALL, encoder_layers=1, dropout=0.5))
    x, mask = torch.randn(5, 7, 2), torch.ones(5, 7, dtype=torch.bool)
    trained, evaluated = model.train().encoder(x, mask), model.eval().encoder(x, mask)
    assert dropped(trained[..., : 2 * H], evaluated[..., : 2 * H])
    assert torch.equal(trained[..., 2 * H :], evaluated[..., 2 * H :])


def test_dropout_is_applied_to_the_readout_and_never_to_the_state() -> None:
    model = model_of(replace(SMALL, decoder_layers=1, dropout=0.5)).eval()
    src = torch.tensor([[4, 5, 6, 2]] * 9)
    memory, state = model.begin(src, torch.ones_like(src, dtype=torch.bool))
    evaluated = model.decoder.step(memory, state, torch.ones(9, 2))
    trained = model.train().decoder.step(memory, state, torch.ones(9, 2))
    assert dropped(trained.hidden, evaluated.hidden)
    assert torch.equal(trained.state[0].h, evaluated.state[0].h)


def test_a_word_starts_from_the_zero_vector() -> None:
    model = model_of(SMALL)
    assert not model.embedding["tgt"](torch.tensor([BOS])).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": 3}, "columns: 3 is not 1 or 2"),
        ({"encoder_layers": 0}, "encoder_layers: 0 is not at least 1"),
        ({"decoder_layers": -1}, "decoder_layers: -1 is not at least 1"),
        ({"dropout": 1.0}, "dropout: 1.0 is not in [0, 1)"),
        ({"attention": 0}, "attention: 0 is not at least 1"),
        ({"attention": None}, "attention: None does not fit interface attention"),
        ({"interface": "constant"}, "attention: 5 does not fit interface constant"),
        ({"fast_forward": "third"}, "fast_forward: expected one of half, full, none; found str 'third'"),
    ],
)
def test_an_impossible_configuration_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(Config, {**vars(SMALL), **changes}, "model")
    assert str(error.value) == f"model: {message}"
