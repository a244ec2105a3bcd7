"""Where every architecture drops units in training: as many masks as its paper has, of their shapes and rates."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor

from nmtkit.experiment.schema import Experiment
from nmtkit.layers.embedding import sinusoid
from nmtkit.models import densenmt, dtmt
from nmtkit.models.transformer import Sublayer
from nmtkit.ops import pointwise
from nmtkit.symbols import BOS
from tests.laws import assert_near, drawn, randomised
from tests.toys import (
    LENGTHS,
    SRC_WORDS,
    TGT_WORDS,
    one_of_each,
    one_of_each_architecture,
    preset_experiment,
    sources,
    targets,
    toy,
)

B, S, T = len(LENGTHS), max(LENGTHS), 6
Shapes = list[tuple[int, ...]]
Mask: TypeAlias = Callable[[Tensor, float], Tensor]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mask], None]:
    """Sets the function that draws the masks of dropout."""

    def draw_by(mask: Mask) -> None:
        for module in (pointwise, dtmt):
            monkeypatch.setattr(module, "dropout_mask", mask)

    return draw_by


def with_rates(experiment: Experiment) -> tuple[Experiment, dict[str, float]]:
    """The experiment with another rate for each of the model's settings of dropout, and these."""
    names = [name for name in vars(experiment.model) if name.endswith("dropout")]
    rates = {name: 0.1 * (1 + number) for number, name in enumerate(names)}
    return replace(experiment, model=replace(experiment.model, **rates)), rates


# The masks of a batch by the setting that has their rate; c: the model's Config.


def rnnsearch(c: Any) -> dict[str, Shapes]:
    return {"dropout": [(B, S, c.embedding), (B, T, c.embedding), (B, T, c.maxout)]}


def deep_att(c: Any) -> dict[str, Shapes]:
    """Every h that leaves its layer; those that leave the encoder of Deep-ED are vectors."""
    top = (B, c.width) if c.interface == "constant" else (S, B, c.width)
    encoder = [*(c.encoder_layers - 1) * [(S, B, c.width)], top]
    return {"dropout": [*c.columns * encoder, *c.decoder_layers * [(T, B, c.width)]]}


def deep_lau(c: Any) -> dict[str, Shapes]:
    return {"embedding_dropout": [(B, S, c.embedding), (B, T, c.embedding)], "dropout": [(T, B, c.width)]}


def deep_transition(c: Any) -> dict[str, Shapes]:
    """The words, the candidate of every cell of two modules in each side, and the readout."""
    steps = {"encoder": 2 * S, "query": T, "decoder": T}
    cells = sum(count * (1 + c.transitions * (c.ablated != name)) for name, count in steps.items())
    return {
        "embedding_dropout": [(B, S, c.embedding), (B, T, c.embedding)],
        "candidate_dropout": cells * [(B, c.width)],
        "dropout": [(T, B, c.width)],
    }


def nematus(c: Any) -> dict[str, Shapes]:
    """The words, the readout, and the state of the lexical model."""
    return {"dropout": [(B, S, c.embedding), (B, T, c.embedding), *(1 + c.lexical) * [(T, B, c.embedding)]]}


def convolutional(c: Any) -> dict[str, Shapes]:
    """The sums of words and positions, the input of every convolution and of the output layer."""
    encoder = densenmt.plan(c, c.stages, c.dense_encoder, made=1)
    decoder = densenmt.plan(c, c.of_decoder, c.dense_decoder, made=2)
    words = [(B, S, c.attention), (B, T, c.attention)]
    layers = [*((B, S, layer.rows) for layer in encoder), *((B, T, layer.rows) for layer in decoder)]
    return {"dropout": [*words, *layers, (B, T, c.output)]}


def transformer(c: Any) -> dict[str, Shapes]:
    """Section 5.4: the sums of words and positions, and the output of every sublayer."""
    return {"dropout": [*(1 + 2 * c.layers) * [(B, S, c.width)], *(1 + 3 * c.layers) * [(B, T, c.width)]]}


PLACES = {
    "rnnsearch": rnnsearch,
    "deep_att": deep_att,
    "deep_lau": deep_lau,
    "dtmt": deep_transition,
    "bideep": nematus,
    "densenmt": convolutional,
    "transformer": transformer,
}


@pytest.mark.parametrize("preset", one_of_each())
def test_units_are_dropped_in_training_where_the_paper_says_and_nowhere_else(
    preset: str, draw: Callable[[Mask], None]
) -> None:
    experiment, rates = with_rates(toy(preset_experiment(preset)))
    found: Counter[tuple[float, tuple[int, ...]]] = Counter()

    def mask(like: Tensor, rate: float) -> Tensor:
        found[rate, tuple(like.shape)] += 1
        return torch.ones_like(like)

    draw(mask)
    experiment.build(SRC_WORDS, TGT_WORDS).train()(*sources(), targets(T))
    places = PLACES[experiment.architecture](experiment.model)
    assert found == Counter((rates[name], shape) for name, shapes in places.items() for shape in shapes)


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_for_search_encoder_and_decoder_drop_nothing_even_if_those_of_the_model_do(
    preset: str, draw: Callable[[Mask], None]
) -> None:
    model = with_rates(toy(preset_experiment(preset)))[0].build(SRC_WORDS, TGT_WORDS).train()
    searched, dropped = model.for_search("float32"), list[Tensor]()
    model.embedding.eval()
    draw(lambda like, _: dropped.append(like) or torch.ones_like(like))
    memory, state = searched.begin(*sources())
    searched.step(memory, state, torch.full((B,), BOS))
    assert dropped == []


@pytest.mark.parametrize("preset", ["dtmt4", "transformer-base"])
def test_a_dropped_unit_of_a_word_has_no_position(preset: str, draw: Callable[[Mask], None]) -> None:
    draw(lambda like, _: torch.zeros_like(like))
    experiment = toy(preset_experiment(preset))
    rates = {name: 0.0 for name in vars(experiment.model) if name.endswith("dropout")}
    model = randomised(replace(experiment, model=replace(experiment.model, **rates)).build(SRC_WORDS, TGT_WORDS))
    (src, mask), width = sources(), model.embedding["src"](sources()[0]).shape[-1]
    opposite = -sinusoid(torch.arange(S), width, formula=False) / math.sqrt(width)  # a word that cancels its position
    expected = model.encoder(opposite.expand(B, S, width), mask)
    encoder: Any = model.encoder
    encoder.dropout = 0.5
    assert_near(encoder(model.embedding["src"](src), mask), expected, 1e-5)


def test_a_dropped_output_of_a_sublayer_leaves_its_input(draw: Callable[[Mask], None]) -> None:
    draw(lambda like, _: torch.zeros_like(like))
    layer = Sublayer(replace(preset_experiment("transformer-base-pre").model, width=4, heads=1, dropout=0.5))
    x = drawn(3, 4)
    assert torch.equal(layer.leave(x, drawn(3, 4) + 1), x)
