"""Every architecture is searched in every precision: in float32 with the model's own results, else nearly so."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from nmtkit.layers.converted import for_search
from nmtkit.layers.linear import Linear
from nmtkit.models.base import Seq2Seq
from nmtkit.ops import matrix
from nmtkit.ops.best import whole
from nmtkit.ops.precision import Products
from nmtkit.search.beam import Search, beam_search
from nmtkit.search.scorer import Scorer
from nmtkit.symbols import BOS
from tests.laws import tensors_of
from tests.toys import LENGTHS, one_of_each_architecture, repeat, sources, toy_model

every_architecture = pytest.mark.parametrize("preset", one_of_each_architecture())
low_precision = pytest.mark.parametrize("precision", ["bfloat16", "int8"])
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def small_weights_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "SMALL", 0)


def test_search_with_a_model_in_training_has_no_dropout_and_the_model_goes_on_training() -> None:
    model = nn.Sequential(nn.Dropout(0.5)).train()
    assert for_search(model, "float32")(torch.ones(99)).all()
    assert not model(torch.ones(99)).all()


def first_step(scorer: Scorer) -> list[Tensor]:
    """All that two hypotheses of every sentence get: log-probabilities first, then states and attention weights.

    The same for another step after it, which reads the state of the first.
    """
    memory, state = scorer.begin(*sources())
    first = scorer.step(memory, repeat(state, 2), torch.full((2 * len(LENGTHS),), BOS))
    second = scorer.step(memory, first[1], torch.arange(2 * len(LENGTHS)) % 2 + 4)
    return tensors_of([(whole(log_probs), *rest) for log_probs, *rest in (first, second)])


@every_architecture
@torch.inference_mode()
def test_in_float32_it_is_the_model_to_the_last_bit(preset: str) -> None:
    model = toy_model(preset)
    for ours, theirs in zip(first_step(model.for_search("float32")), first_step(model), strict=True):
        assert torch.equal(ours, theirs)


@low_precision
@every_architecture
@pytest.mark.parametrize("converted", ["all weights", "the larger half"])
@torch.inference_mode()
def test_in_other_precisions_it_is_nearly_the_model(
    preset: str, precision: Products, converted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = toy_model(preset)
    if converted == "the larger half":
        sizes = sorted(parameter.numel() for parameter in model.parameters() if parameter.ndim == 2)
        monkeypatch.setattr(matrix, "SMALL", sizes[len(sizes) // 2])
    near, exact = first_step(model.for_search(precision)), first_step(model)
    assert not torch.equal(near[0], exact[0])
    assert (near[0].exp() - exact[0].exp()).abs().max() < 0.1
    for ours, theirs in zip(near[1:], exact[1:], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.2, check_dtype=False)  # of a kv_cache


@low_precision
@every_architecture
def test_every_architecture_is_searched(preset: str, precision: Products) -> None:
    model = toy_model(preset)
    config = Search(beam_size=3, length_penalty="none", max_len_a=0, max_len_b=4)
    exact, near = (beam_search(scorer, *sources(), config) for scorer in (model, model.for_search(precision)))
    for [a], [b] in zip(exact, near, strict=True):
        assert abs(a.score - b.score) < 0.3


class WeightsMultiplied(TorchDispatchMode):
    """Records every product with a float32 matrix; products of a batch of matrices are attention."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[torch.Size] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Which of these is seen depends on whether gradients are possible.
        weights = {aten.mm.default: 1, aten.matmul.default: 1, aten.linear.default: 1, aten.addmm.default: 2}
        if function in weights:
            weight = args[weights[function]]
            if weight.dim() == 2 and weight.dtype == torch.float32:
                self.sizes.append(weight.shape)
        return function(*args, **(kwargs or {}))


def multiplied(scorer: Scorer) -> list[torch.Size]:
    with torch.no_grad(), WeightsMultiplied() as noted:
        first_step(scorer)
    return noted.sizes


@low_precision
@every_architecture
def test_no_weight_is_multiplied_in_float32(preset: str, precision: Products) -> None:
    model = toy_model(preset)
    assert multiplied(model.for_search("float32"))
    assert not multiplied(model.for_search(precision))


@low_precision
@every_architecture
@torch.inference_mode()
def test_a_shortlist_has_the_precision_too(preset: str, precision: Products) -> None:
    model, words = toy_model(preset), torch.tensor([0, 1, 2, 3, 6, 9])
    near, exact = (first_step(model.for_search(each).over(words))[0] for each in (precision, "float32"))
    assert near.shape == exact.shape == (2 * len(LENGTHS), len(words))
    assert not torch.equal(near, exact)
    assert (near.exp() - exact.exp()).abs().max() < 0.1


@every_architecture
def test_logits_in_bfloat16_take_half_the_memory(preset: str) -> None:
    searched = toy_model(preset).for_search("bfloat16")
    hidden = torch.ones(2, searched.output.weight.shape[1])
    assert searched.logits(hidden).dtype == torch.bfloat16
    assert searched.over(torch.arange(6)).logits(hidden).dtype == torch.bfloat16


@torch.inference_mode()
def test_results_in_bfloat16_may_be_multiplied_by_a_weight_that_is_not_converted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matrix, "SMALL", 48)
    torch.manual_seed(0)
    layers, x = nn.Sequential(Linear(4, 16, chained=True), Linear(16, 2)), torch.randn(3, 4)
    searched = for_search(layers, "bfloat16")
    assert searched[0](x).dtype == torch.bfloat16
    torch.testing.assert_close(searched(x), layers(x), rtol=0, atol=0.02)


def test_search_in_low_precision_does_not_change_the_model() -> None:
    model = toy_model("rnnsearch")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first_step(model.for_search("bfloat16"))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_unconverted_parameters_are_shared() -> None:
    model: Seq2Seq = toy_model("transformer-base")
    own = {parameter.data_ptr() for parameter in model.parameters()}
    searched = model.for_search("float32")
    assert {each.data_ptr() for part in (searched.encoder, searched.decoder) for each in part.parameters()} <= own
