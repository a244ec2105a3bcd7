import re

import pytest
import torch
from torch.nn import functional

from nmtkit.data.batches import Batch
from nmtkit.errors import UserError
from nmtkit.evaluation.gradients import Layer, Ratio, flow_page, gradient_flow, ratios
from nmtkit.symbols import PAD
from tests.toys import sources, targets, toy_model


def batch() -> Batch:
    tgt = targets()
    tgt[1, 4:] = PAD
    return Batch.of(sources()[0], tgt)


def test_norms_are_those_of_the_mean_cross_entropy() -> None:
    model, (src, mask, tgt, _) = toy_model("deep-att"), batch()
    layers = {layer.name: layer for layer in gradient_flow(model, batch())}
    cell = model.get_submodule("encoder.columns.1.recurrent.3")
    seen = []
    hook = cell.register_forward_hook(lambda _, __, output: seen.append(output))
    logits = model.output(model(src, mask, tgt))
    hook.remove()
    loss = functional.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)
    of_output, *of_weights = torch.autograd.grad(loss, [seen[0], *cell.parameters()])
    found = layers["encoder.columns.1.recurrent.3"]
    assert found.activation == pytest.approx(float(seen[0].detach().norm()), rel=1e-4)
    assert found.gradient == pytest.approx(float(of_output.norm()), rel=1e-4)
    assert found.weights == pytest.approx(float(torch.cat([w.flatten() for w in of_weights]).norm()), rel=1e-4)


def test_the_layers_of_a_stack_are_those_of_the_paper() -> None:
    names = [layer.name for layer in gradient_flow(toy_model("deep-att"), batch())]
    stacks = {"encoder.columns.0": 9, "encoder.columns.1": 9, "decoder.layers": 7}
    for stack, layers in stacks.items():
        assert [name for name in names if name.startswith(f"{stack}.recurrent")] == [
            f"{stack}.recurrent.{layer}" for layer in range(layers)
        ]
    assert not any("norms" in layer.name for layer in gradient_flow(toy_model("bideep"), batch()))


def test_a_layer_that_runs_step_by_step_has_only_the_gradient_of_its_weights() -> None:
    layers = {layer.name: layer for layer in gradient_flow(toy_model("deep-att"), batch())}
    first = layers["decoder.layers.recurrent.0"]
    assert (first.activation, first.gradient) == (None, None)
    assert first.weights > 0


def test_two_directions_are_not_a_stack_and_a_decoder_without_layers_is_included() -> None:
    layers = gradient_flow(toy_model("rnnsearch"), batch())
    assert ratios(layers) == []
    labels = [layer.label for layer in layers]
    assert labels[2:4] == ["encoder.recurrent.0, forward", "encoder.recurrent.1, backward"]
    assert {"decoder.initial", "decoder.attention", "decoder.recurrent", "decoder.readout_state"} <= set(labels)
    assert all(layer.weights > 0 for layer in layers)


def test_the_maps_of_several_layers_to_keys_are_not_a_stack() -> None:
    found = ratios(gradient_flow(toy_model("densenmt-4l-2"), batch()))
    assert [ratio.stack for ratio in found] == ["encoder.convs", "decoder.convs", "decoder.attentions"]


@pytest.mark.parametrize("preset", ["rnnsearch", "deep-att", "deep-lau", "bideep", "densenmt-4l-1", "dtmt4"])
def test_no_parameter_is_in_two_parts_and_both_sides_have_some(preset: str) -> None:
    model = toy_model(preset)
    names = [layer.name for layer in gradient_flow(model, batch())]
    for side in ("encoder", "decoder"):
        parameters = [f"{side}.{name}" for name, _ in model.get_submodule(side).named_parameters()]
        counts = [sum(parameter.startswith(f"{name}.") for name in names) for parameter in parameters]
        assert set(counts) <= {0, 1}
        assert sum(counts) > len(counts) / 2


def test_measuring_changes_nothing() -> None:
    model = toy_model("deep-lau")
    before = model(*batch()[:3])
    first = gradient_flow(model, batch())
    assert gradient_flow(model, batch()) == first
    assert torch.equal(model(*batch()[:3]), before)


def test_a_ratio_is_the_bottom_over_the_top() -> None:
    layers = [Layer("a.0", 1.0, 0.5, 1.0), Layer("a.1", 1.0, None, 1.0), Layer("a.2", 1.0, 2.0, 1.0),
              Layer("b.0", 1.0, 3.0, 1.0)]  # fmt: skip
    assert ratios(layers) == [Ratio("a", 2, 0.25)]


def test_a_page_has_two_charts_for_each_stack_with_a_line_for_each_model() -> None:
    flows = {name: gradient_flow(toy_model(name), batch()) for name in ("deep-att", "deep-ed")}
    drawn = flow_page(flows)
    stacks = {ratio.stack for layers in flows.values() for ratio in ratios(layers)}
    assert drawn.count("<figure>") == 2 * len(stacks)
    assert all(f"{stack}: gradient, |dL/dh|" in drawn for stack in stacks)
    with pytest.raises(UserError, match="nothing to draw: no stack of two or more layers in one"):
        flow_page({"one": gradient_flow(toy_model("rnnsearch"), batch())})


def test_a_gradient_ten_times_as_large_is_one_unit_higher() -> None:
    drawn = flow_page(
        {"one": [Layer("a.0", 1.0, 1e-3, 1.0), Layer("a.1", 1.0, 0.0, 1.0), Layer("a.2", 1.0, 1e-1, 1.0)]}
    )
    heights = [float(y) for y in re.findall(r'<circle [^>]*cy="([0-9.]+)"', drawn)][3:]  # after three outputs
    lines = [
        float(y) for y in re.findall(r'<line class="grid"[^>]*y1="([0-9.]+)"', drawn.split("gradient, |dL/dh|")[-1])
    ]
    assert len(heights) == 2  # a gradient of 0 has no logarithm
    assert heights == pytest.approx([lines[0], lines[-1]], abs=0.2)
