"""Additive attention with its parameters."""

import pytest
import torch
from torch import nn

from nmtkit.layers.attention import AdditiveAttention, MultiHeadAdditiveAttention
from nmtkit.layers.converted import for_search
from nmtkit.ops import attention
from tests.laws import randomised


def test_the_score_is_v_tanh_of_projected_query_and_key() -> None:
    layer = randomised(AdditiveAttention(3, 4, 5), std=1.0)
    query, annotations, mask = torch.randn(2, 3), torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool)
    context, weights = layer(query, layer.key(annotations), annotations, mask)
    keys = annotations @ layer.key.weight.t() + layer.key.bias
    energy = (query.unsqueeze(1) @ layer.query.weight.t() + keys).tanh() @ layer.v
    torch.testing.assert_close(weights, energy.softmax(dim=1))
    torch.testing.assert_close(context, torch.einsum("bs,bsd->bd", energy.softmax(dim=1), annotations))


def test_there_is_one_bias() -> None:
    names = {name for name, _ in AdditiveAttention(3, 4, 5).named_parameters()}
    assert names == {"query.weight", "key.weight", "key.bias", "v"}


@pytest.mark.parametrize("layer", [AdditiveAttention(3, 4, 900), MultiHeadAdditiveAttention(3, 4, 1800, 2)])
def test_the_sum_of_squares_of_a_new_v_is_about_one(layer: AdditiveAttention | MultiHeadAdditiveAttention) -> None:
    assert layer.v.norm().item() == pytest.approx(1, rel=0.15)


def test_a_head_is_additive_attention_with_its_slices_and_the_shared_v() -> None:
    heads, layer = 3, randomised(MultiHeadAdditiveAttention(5, 12, 6, 3), std=1.0)
    annotations = torch.randn(2, 7, 12)
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    query = torch.randn(4, 5)  # two hypotheses of each sentence
    context, weights = layer(query, *layer.keys_and_values(annotations), mask)
    found, looks = [], []
    for head in range(heads):
        keys = layer.key(annotations)[..., 2 * head : 2 * head + 2]
        values = annotations[..., 4 * head : 4 * head + 4]
        one = attention.additive(layer.query(query)[:, 2 * head : 2 * head + 2], keys, values, layer.v, mask)
        found.append(one[0])
        looks.append(one[1])
    torch.testing.assert_close(context, layer.out(torch.cat(found, dim=-1)))
    torch.testing.assert_close(weights, torch.stack(looks).mean(dim=0))


@pytest.mark.parametrize("layer", [AdditiveAttention(3, 8, 4), MultiHeadAdditiveAttention(3, 8, 4, 2)])
@torch.inference_mode()
def test_search_in_low_precision_computes_the_exponentials_of_the_keys_once(layer: nn.Module) -> None:
    found = []
    for precision in ("float32", "bfloat16"):
        one = for_search(nn.ModuleList([layer]), precision)[0]  # weights as small as these are not converted
        annotations, mask = torch.linspace(-1, 1, 48).view(2, 3, 8), torch.ones(2, 3, dtype=torch.bool)
        keys, values = (
            one.keys_and_values(annotations)
            if isinstance(one, MultiHeadAdditiveAttention)
            else (one.key(annotations), annotations)
        )
        found.append((keys, *one(torch.ones(2, 3), keys, values, mask)))
    torch.testing.assert_close(found[1][0], (2 * found[0][0]).exp())
    torch.testing.assert_close(found[1][1:], found[0][1:])
