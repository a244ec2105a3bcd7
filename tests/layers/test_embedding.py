"""Word embeddings, positions and the output layer."""

import math

import pytest
import torch

from nmtkit.layers.embedding import OutputLayer, SharedEmbedding, TiedOutputLayer, WordEmbedding, sinusoid
from nmtkit.symbols import BOS, EOS, PAD, UNK


def test_a_word_is_its_row_of_the_table() -> None:
    embedding = WordEmbedding(9, 4, dropout=0.0)
    ids = torch.tensor([[4, 8], [UNK, EOS]])
    assert torch.equal(embedding(ids), embedding.weight[ids])


def test_the_start_symbol_is_the_zero_vector_and_has_no_gradient() -> None:
    embedding = WordEmbedding(9, 4, dropout=0.0)
    vectors = embedding(torch.tensor([BOS, 5, BOS]))
    assert not vectors[[0, 2]].any()
    vectors.sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.abs().sum(dim=1).nonzero().flatten().tolist() == [5]


def test_dropout_is_applied_only_in_training_and_keeps_the_mean() -> None:
    embedding = WordEmbedding(9, 4, dropout=0.25)
    ids = torch.full((1000,), 7)
    row = embedding.weight[7].expand(1000, 4)
    torch.manual_seed(0)
    dropped = embedding(ids)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], row[kept] / 0.75)
    assert abs(kept.float().mean().item() - 0.75) < 0.03
    assert torch.equal(embedding.eval()(ids), row)


def test_the_output_layer_is_a_product_and_a_bias() -> None:
    layer = OutputLayer(4, 9)
    layer.bias.data.normal_()
    hidden = torch.randn(3, 4)
    torch.testing.assert_close(layer(hidden), hidden @ layer.weight.t() + layer.bias)


def test_a_tied_output_layer_has_the_embedding_table_and_its_own_bias() -> None:
    embedding = WordEmbedding(9, 4, dropout=0.0)
    layer, hidden = TiedOutputLayer(embedding), torch.randn(3, 4)
    torch.testing.assert_close(layer(hidden), hidden @ embedding.weight.t() + layer.bias)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    layer(hidden).sum().backward()
    torch.testing.assert_close(embedding.weight.grad, hidden.sum(0).expand(9, 4))


def test_further_inputs_of_a_tied_output_layer_come_after_those_of_the_table() -> None:
    embedding = WordEmbedding(9, 4, dropout=0.0)
    layer, hidden = TiedOutputLayer(embedding, further=2), torch.randn(3, 6)
    assert layer.further is not None
    torch.testing.assert_close(layer(hidden), hidden[:, :4] @ embedding.weight.t() + hidden[:, 4:] @ layer.further.t())


def test_a_new_word_has_a_vector_and_output_weights_of_length_one_and_small_ones_for_further_inputs() -> None:
    embedding = WordEmbedding(400, 50, dropout=0.0)
    for table in (embedding.weight, OutputLayer(50, 400).weight):
        assert table.square().sum(dim=1).mean().item() == pytest.approx(1, rel=0.1)
    further = TiedOutputLayer(embedding, further=50).further
    assert further is not None
    assert further.std().item() == pytest.approx(0.01, rel=0.1)


def test_a_tied_output_layer_follows_the_embedding_to_another_device() -> None:
    with torch.device("meta"):
        embedding = WordEmbedding(9, 4, dropout=0.0)
        layer = TiedOutputLayer(embedding)
    embedding.to_empty(device="cpu")
    assert layer.weight is embedding.weight
    assert layer.weight.device.type == "cpu"


def test_padding_is_a_row_like_any_other_so_masks_must_hide_it() -> None:
    assert WordEmbedding(9, 4, dropout=0.0)(torch.tensor(PAD)).any()


def test_a_shared_embedding_is_the_other_sides_without_further_parameters() -> None:
    embedding = WordEmbedding(9, 4, dropout=0.0)
    shared, ids = SharedEmbedding(embedding), torch.tensor([BOS, 4, 8])
    assert torch.equal(shared(ids), embedding(ids))
    assert list(shared.parameters()) == []


@pytest.mark.parametrize("position", [0, 1, 7, 3000])
def test_the_frequency_of_pair_i_is_10000_to_the_minus_i_over_the_last_index_or_their_number(position: int) -> None:
    for last, formula in ((3, False), (4, True)):
        vector = sinusoid(torch.tensor([position]), 8, formula=formula)[0].tolist()
        rates = [10000 ** -(i / last) for i in range(4)]
        expected = [math.sin(position * rate) for rate in rates] + [math.cos(position * rate) for rate in rates]
        assert vector == pytest.approx(expected, abs=3e-4)  # float32 angles


def test_positions_may_have_any_shape() -> None:
    positions = torch.arange(6).view(2, 3)
    assert torch.equal(
        sinusoid(positions, 4, formula=False).flatten(0, 1), sinusoid(positions.flatten(), 4, formula=False)
    )


@pytest.mark.parametrize("formula", [False, True])
def test_two_units_are_the_sine_and_the_cosine(formula: bool) -> None:
    positions = torch.arange(5)
    expected = torch.stack([positions.sin(), positions.cos()], dim=1)
    torch.testing.assert_close(sinusoid(positions, 2, formula=formula), expected)
