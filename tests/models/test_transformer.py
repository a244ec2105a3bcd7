"""The Transformer against NumPy written from Vaswani et al. 2017, and against the sizes of its Table 3."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

from nmtkit.config import build, merge
from nmtkit.data.encoding import encode
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.run import run_experiment
from nmtkit.experiment.schema import build_experiment
from nmtkit.models import transformer
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.models.transformer import Config
from nmtkit.ops import matrix
from nmtkit.ops.precision import Products
from nmtkit.ops.tree import select
from nmtkit.symbols import BOS
from nmtkit.text.prep import Files, prepare
from nmtkit.text.settings import Prep, Side
from tests.laws import randomised

WORDS, D = 9, 8
SMALL = Config(layers=2, width=D, feed_forward=6, heads=2, norm="post", tied="all", dropout=0.0)
SRC, TGT = [4, 7, 5, 2], [6, 4, 4, 8, 2]
every_norm = pytest.mark.parametrize("norm", ["post", "pre"])


def model_of(config: Config) -> Seq2Seq:
    return randomised(transformer.build(config, WORDS, WORDS)).eval()


# The paper in NumPy, for one sentence. p holds parameters by name.


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normalised: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


def norm(p: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return x * p[f"{name}.weight"] + p[f"{name}.bias"]


def attention(
    p: dict[str, np.ndarray], name: str, x: np.ndarray, memory: np.ndarray, heads: int, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 1 in every head, and the mean of their weights."""
    found, looks = [], []
    maps = [np.split(p[f"{name}.{part}.weight"], heads) for part in ("query", "key", "value")]
    for w_q, w_k, w_v in zip(*maps, strict=True):
        scores = (x @ w_q.T) @ (memory @ w_k.T).T / np.sqrt(len(w_q))
        if causal:
            scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
        looks.append(softmax(scores))
        found.append(looks[-1] @ (memory @ w_v.T))
    return np.concatenate(found, axis=1) @ p[f"{name}.out.weight"].T, np.mean(looks, axis=0)


def words(p: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """Section 3.4 and 3.5: vectors times sqrt(D), plus sines and cosines of wavelengths from 2 pi to 10000 * 2 pi."""
    vectors = p["embedding.tgt.weight"][ids] * (np.array(ids) != BOS)[:, None]
    angles = np.arange(len(ids))[:, None] * 10000.0 ** -(np.arange(D // 2) / (D // 2 - 1))
    return vectors * np.sqrt(D) + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def paper(model: Seq2Seq, config: Config, src: list[int], tgt: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The input of the output layer (T, D), and the attention weights of the last layer (T, S)."""
    p = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}
    pre = config.norm == "pre"

    def sublayer(name: str, x: np.ndarray, function: Any) -> np.ndarray:
        return x + function(norm(p, f"{name}.norm", x)) if pre else norm(p, f"{name}.norm", x + function(x))

    def feed_forward(name: str, x: np.ndarray) -> np.ndarray:
        hidden = np.maximum(0, x @ p[f"{name}.inner.weight"].T + p[f"{name}.inner.bias"])
        return hidden @ p[f"{name}.outer.weight"].T + p[f"{name}.outer.bias"]

    x = words(p, src)
    for i in range(config.layers):
        layer = f"encoder.layers.{i}"
        attend = lambda h: attention(p, f"{layer}.self_attention", h, h, config.heads, False)[0]  # noqa: B023, E731
        x = sublayer(f"{layer}.around_self", x, attend)
        x = sublayer(f"{layer}.feed_forward.around", x, lambda h: feed_forward(f"{layer}.feed_forward", h))  # noqa: B023
    source = norm(p, "encoder.norm", x) if pre else x

    x, looks = words(p, [BOS, *tgt[:-1]]), np.zeros(0)
    for i in range(config.layers):
        layer = f"decoder.layers.{i}"
        attend = lambda h: attention(p, f"{layer}.self_attention", h, h, config.heads, True)[0]  # noqa: B023, E731
        x = sublayer(f"{layer}.around_self", x, attend)
        query = norm(p, f"{layer}.around_source.norm", x) if pre else x
        found, looks = attention(p, f"{layer}.attention", query, source, config.heads, False)
        x = sublayer(f"{layer}.around_source", x, lambda _: found)  # noqa: B023
        x = sublayer(f"{layer}.feed_forward.around", x, lambda h: feed_forward(f"{layer}.feed_forward", h))  # noqa: B023
    return (norm(p, "decoder.norm", x) if pre else x), looks


@every_norm
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_the_model_is_the_papers_equations(norm: Literal["post", "pre"], heads: int) -> None:
    config = replace(SMALL, norm=norm, heads=heads)
    model, src = model_of(config), torch.tensor([SRC])
    expected, looks = (torch.tensor(x).float() for x in paper(model, config, SRC, TGT))
    hidden = model(src, src > 0, torch.tensor([TGT]))[0]
    torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-4)
    memory, state = model.begin(src, src > 0)
    for t, word in enumerate([BOS, *TGT[:-1]]):
        log_probs, state, look = model.step(memory, state, torch.tensor([word]))
        torch.testing.assert_close(log_probs[0], model.output(expected[t]).log_softmax(-1), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(look[0], looks[t], rtol=1e-4, atol=1e-4)


def test_the_kv_cache_follows_the_beam() -> None:
    model, src = model_of(SMALL), torch.tensor([SRC])
    memory, state = model.begin(src, src > 0)
    _, state, _ = model.step(memory, state, torch.tensor([BOS]))
    _, after, _ = model.step(memory, select(state, torch.tensor([0, 0])), torch.tensor([6, 4]))
    _, last, _ = model.step(memory, select(after, torch.tensor([1, 0])), torch.tensor([5, 7]))
    assert last.position.tolist() == [3, 3]
    for old, new in zip(after.kv_cache, last.kv_cache, strict=True):
        for before, behind in zip(old, new, strict=True):
            assert behind.shape == (2, 3, D)
            assert torch.equal(behind[:, :2], before.flip(0))


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_in_low_precision_keys_and_values_take_half_the_memory(
    precision: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "SMALL", 0)
    model, src = model_of(SMALL).for_search(precision), torch.tensor([SRC])
    memory, state = model.begin(src, src > 0)
    _, state, _ = model.step(memory, state, torch.tensor([BOS]))
    kept = [*memory.layers[0], *state.kv_cache[0]]
    assert {each.dtype for each in kept} == {torch.bfloat16}


def test_one_table_serves_source_target_and_softmax() -> None:
    model = model_of(SMALL)
    names = [name for name, _ in model.named_parameters() if not name.startswith(("encoder", "decoder"))]
    assert names == ["embedding.tgt.weight", "output.bias"]
    ids = torch.tensor([4, 5])
    assert torch.equal(model.embedding["src"](ids), model.embedding["tgt"](ids))
    separate = model_of(replace(SMALL, tied="target"))
    assert not torch.equal(separate.embedding["src"](ids), separate.embedding["tgt"](ids))


def test_without_tying_both_sides_and_the_softmax_have_separate_tables() -> None:
    model = model_of(replace(SMALL, tied="none"))
    tables = [name for name, _ in model.named_parameters() if not name.startswith(("encoder", "decoder"))]
    assert tables == ["embedding.src.weight", "embedding.tgt.weight", "output.weight", "output.bias"]


def test_every_normalisation_has_the_given_epsilon() -> None:
    model = model_of(replace(SMALL, layers=1, norm="pre", norm_epsilon=0.5))
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert [norm.eps for norm in norms] == [0.5] * (2 + 3 + 2)  # of sublayers, and of the last layers


def test_maps_start_at_glorots_uniform_values_and_tables_at_variance_1_over_the_width() -> None:
    torch.manual_seed(0)
    config = replace(SMALL, width=64, feed_forward=96, tied="none", attention_bias=True)
    for name, parameter in transformer.build(config, 500, 500).named_parameters():
        if parameter.ndim == 1:
            start = float("norm" in name and name.endswith("weight"))
            assert torch.equal(parameter, torch.full_like(parameter, start)), name
        elif name.startswith(("embedding", "output")):
            assert parameter.std().item() == pytest.approx(64**-0.5, rel=0.03), name
        else:
            limit = math.sqrt(6 / sum(parameter.shape))
            assert 0.98 * limit < parameter.abs().max() <= limit, name


@pytest.mark.parametrize(("preset", "printed"), [
    ("transformer-base", 65), ("transformer-base-pre", 65), ("transformer-big", 213), ("transformer-big-pre", 213),
])  # fmt: skip
def test_presets_have_about_the_printed_sizes_with_37000_words(preset: str, printed: int) -> None:
    planned = build_experiment(load_preset(preset), preset)
    with torch.device("meta"):
        model = planned.build(37_000, 37_000)
    assert count_parameters(model) / 1e6 == pytest.approx(printed, rel=0.03)


@pytest.mark.parametrize(("preset", "width"), [("transformer-base", 512), ("transformer-big", 1024)])
def test_the_rate_is_equation_3(preset: str, width: int) -> None:
    training = build_experiment(load_preset(preset), preset).training
    for step in (1, 1000, 4000, 4001, 100_000):
        expected = width**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert training.optimizer.lr * training.schedule.multiplier(step, 0) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("change", "message"), [
    ({"layers": 0}, "layers: 0 is not at least 1"),
    ({"width": 511}, "width: 511 is odd; one half is for sines, one for cosines"),
    ({"heads": 7}, "heads: a width of 512 cannot be divided by 7"),
    ({"dropout": 1}, "dropout: 1.0 is not in [0, 1)"),
    ({"norm_epsilon": -1e-6}, "norm_epsilon: -1e-06 is not in [0, 1)"),
])  # fmt: skip
def test_an_impossible_model_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(Config, {**load_preset("transformer-base")["model"], **change}, "model")
    assert str(error.value) == f"model: {message}"


def test_one_table_for_two_vocabularies_is_a_user_error(tmp_path: Path) -> None:
    raw = Files(tmp_path / "raw.xx", tmp_path / "raw.yy")
    raw.src.write_text("a b c\nb c\n")
    raw.tgt.write_text("d e\ne\n")
    side = {"normalize": False, "tokenizer": "none", "segmentation": "words"}
    prep = Prep(Side("xx", **side), Side("yy", **side))  # type: ignore[arg-type]
    prepare({"train": raw, "dev": raw}, tmp_path / "data", prep, workers=1)

    def run() -> None:
        small = {"model": {"layers": 1, "width": 4, "feed_forward": 4, "heads": 1}, "training": {"max_updates": 1}}
        planned = build_experiment(merge(load_preset("transformer-base"), small), "small")
        run_experiment(planned, tmp_path / "data", tmp_path / "run", torch.device("cpu"))

    encode(tmp_path / "data", None, None, 1, False, workers=1)
    with pytest.raises(UserError) as error:
        run()
    assert str(error.value) == (
        f"{tmp_path / 'data'}: the model shares one embedding between both sides, but the vocabularies differ; "
        "make a joint one with nmtkit vocab (`joint`), or set model.tied: target"
    )
    encode(tmp_path / "data", None, None, 1, True, workers=1)
    run()
