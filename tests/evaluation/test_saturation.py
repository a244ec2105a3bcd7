"""Saturated attention: counted without padding, independent of the other sentences in the batch."""

from functools import partial

import pytest
import torch

from nmtkit.data.batches import Batch
from nmtkit.evaluation.saturation import SATURATED, saturation
from nmtkit.models.base import Decoder, Seq2Seq
from nmtkit.symbols import BOS, PAD
from tests.toys import sources, targets, toy_model


def batch() -> Batch:
    tgt = targets()
    tgt[1, 4:] = PAD
    return Batch.of(sources()[0], tgt)


def one_by_one(model: Seq2Seq, attention: str) -> tuple[float, float]:
    """Standard deviation of the keys and share of saturated units, computed sentence by sentence."""
    kept: dict[str, list[torch.Tensor]] = {"key": [], "query": []}
    hooks = [
        model.get_submodule(f"{attention}.{name}").register_forward_hook(
            partial(lambda into, _module, _given, output: into.append(output), into)
        )
        for name, into in kept.items()
    ]
    keys, units = [], []
    for src, tgt in zip(*batch()[::2], strict=True):
        source, words = src[src != PAD].unsqueeze(0), tgt[tgt != PAD]
        memory, state = model.begin(source, torch.ones_like(source, dtype=torch.bool))
        Decoder.unroll(model.decoder, memory, state, model.embedding["tgt"](torch.tensor([[BOS, *words[:-1]]])))
        keys.append(kept["key"].pop().squeeze(0))
        units += [(query + keys[-1]).tanh().abs().flatten() for query in kept["query"]]
        kept["query"].clear()
    for hook in hooks:
        hook.remove()
    return float(torch.cat(keys).std()), float((torch.cat(units) > SATURATED).double().mean())


@torch.no_grad()
@pytest.mark.parametrize(
    ("preset", "attention"),
    [
        ("rnnsearch", "decoder.attention"), ("deep-att", "decoder.attention"), ("deep-lau", "decoder.attention"),
        ("dtmt4", "decoder.attention"), ("nematus-dec-cgru4", "decoder.high.1"),
    ],
)  # fmt: skip
def test_every_unit_at_every_word_except_padding_is_counted(preset: str, attention: str) -> None:
    model = toy_model(preset)
    for parameter in model.get_submodule(f"{attention}.key").parameters():
        parameter *= 10  # so that some units are saturated and some are not
    found = {each.name: each for each in saturation(model, batch())}[attention]
    keys, share = one_by_one(model, attention)
    assert found.keys == pytest.approx(keys, rel=1e-4)
    assert found.share == pytest.approx(share, abs=1e-6)
    assert 0 < share < 1


def test_every_attention_is_counted_in_models_with_additive_attention_only() -> None:
    def names(preset: str) -> list[str]:
        return [each.name for each in saturation(toy_model(preset), batch())]

    assert names("nematus-dec-cgru4") == ["decoder.base", *(f"decoder.high.{k}" for k in range(3))]
    assert names("deep-ed") == names("transformer-base") == names("densenmt-4l-1") == []


def test_large_keys_saturate_every_unit() -> None:
    model = toy_model("deep-att")
    key = model.get_submodule("decoder.attention.key")
    [before] = saturation(model, batch())
    with torch.no_grad():
        for parameter in key.parameters():
            parameter *= 1e4
    [after] = saturation(model, batch())
    assert after.keys == pytest.approx(1e4 * before.keys)
    assert before.share < 0.5 < 0.99 < after.share


def test_counting_changes_nothing() -> None:
    model = toy_model("deep-att")
    before = model(*batch()[:3])
    assert saturation(model, batch()) == saturation(model, batch())
    assert torch.equal(model(*batch()[:3]), before)
