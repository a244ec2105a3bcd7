"""Word embeddings and the output layer."""

import torch

from nmtkit.layers.embedding import OutputLayer, SharedEmbedding, TiedOutputLayer, WordEmbedding
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
