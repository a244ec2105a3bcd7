"""Additive attention with its parameters."""

import pytest
import torch

from nmtkit.layers.attention import AdditiveAttention


@pytest.mark.parametrize("bias", [False, True])
def test_the_score_is_v_tanh_of_projected_query_and_key(bias: bool) -> None:
    layer = AdditiveAttention(3, 4, 5, bias=bias)
    for parameter in layer.parameters():
        parameter.data.normal_()
    query, annotations, mask = torch.randn(2, 3), torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool)
    context, weights = layer(query, layer.key(annotations), annotations, mask)
    b = layer.key.bias if bias else 0.0
    energy = (query.unsqueeze(1) @ layer.query.weight.t() + annotations @ layer.key.weight.t() + b).tanh() @ layer.v
    torch.testing.assert_close(weights, energy.softmax(dim=1))
    torch.testing.assert_close(context, torch.einsum("bs,bsd->bd", energy.softmax(dim=1), annotations))


def test_there_is_one_bias_at_most() -> None:
    names = {name for name, _ in AdditiveAttention(3, 4, 5, bias=True).named_parameters()}
    assert names == {"query.weight", "key.weight", "key.bias", "v"}
