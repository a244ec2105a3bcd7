"""ConvS2S and DenseNMT: sizes of the paper, NumPy from its equations, and the two kinds of dense attention."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.models import densenmt
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.models.densenmt import Config, Stage, build, plan
from nmtkit.symbols import BOS, EOS
from tests.laws import randomised
from tests.toys import LENGTHS, sources, targets

Array = npt.NDArray[np.float64]

SMALL = Config(
    embedding=5, attention=6, output=7, width=8, growth=3, stages=(Stage(4, 1, 3),), summary=None,
    dense_encoder=False, dense_decoder=False, dense_attention=1, positions=20, dropout=0.0,
)  # fmt: skip
DENSE = replace(SMALL, dense_encoder=True, dense_decoder=True)


def config_of(preset: str) -> Config:
    config: Config = build_experiment(load_preset(preset), preset).model
    return config


def parameters(config: Config, src_words: int, tgt_words: int) -> int:
    with torch.device("meta"):
        return count_parameters(build(config, src_words, tgt_words))


def model_of(config: Config) -> Seq2Seq:
    return randomised(build(config, 11, 13).eval(), std=1.0)


# The sizes behind Table 1, in millions, without tables, softmax bias and gain, and those of Table 2.
TRUNKS = {
    "convs2s-4l-e64": 4.10, "convs2s-4l-e128": 4.31, "convs2s-4l": 4.47,
    "convs2s-8l-e64": 4.71, "convs2s-8l-e128": 4.91, "convs2s-8l": 5.07,
    "densenmt-4l-1-e64": 4.22, "densenmt-4l-1-e128": 4.50, "densenmt-4l-1": 4.79,
    "densenmt-8l-1-e64": 6.03, "densenmt-8l-1-e128": 6.28, "densenmt-8l-1": 6.51,
    "densenmt-enc-4l": 4.40, "densenmt-dec-4l": 4.86, "densenmt-att-4l": 4.67,
}  # fmt: skip


@pytest.mark.parametrize("preset", TRUNKS)
def test_without_its_tables_a_model_has_the_papers_size(preset: str) -> None:
    config = config_of(preset)
    words = 1000
    tables = config.embedding * 2 * words + config.output * words + 2 * words
    assert (parameters(config, words, words) - tables) / 1e6 == pytest.approx(TRUNKS[preset], abs=0.006)


@pytest.mark.parametrize("size", ["", "-e64", "-e128"])
@pytest.mark.parametrize("depth", ["4l", "8l"])
def test_both_kinds_of_dense_attention_have_nearly_the_same_size(depth: str, size: str) -> None:
    one, two = (parameters(config_of(f"densenmt-{depth}-{kind}{size}"), 1000, 1000) for kind in (1, 2))
    assert 0 < two - one < 2100


def test_english_german_sizes_have_the_papers_ratio() -> None:
    """Section 5.4: DenseNMT-En-De-15 has 20 % fewer parameters than ConvS2S."""
    dense, residual = (parameters(config_of(name), 40_000, 40_000) for name in ("densenmt-ende-15", "convs2s-wmt15"))
    assert round(residual / 1e6, 1) == 209.6
    assert round(dense / 1e6, 1) == 166.3
    assert round(dense / residual, 2) == 0.79


TABLE_1 = [f"{kind}{size}" for kind in ("convs2s-4l", "convs2s-8l", "densenmt-4l-1", "densenmt-4l-2", "densenmt-8l-1",
           "densenmt-8l-2") for size in ("-e64", "-e128", "")]  # fmt: skip


@pytest.mark.parametrize("preset", TABLE_1)
@pytest.mark.parametrize(
    ("words", "printed", "within"),
    [
        (15_000, {64: 8, 128: 11, 256: 17}, 1.07),  # German-English
        (29_500, {64: 11, 128: 17, 256: 28}, 1.31),  # Turkish-English, 30,000 merges a side
        (40_000, {64: 13, 128: 21, 256: 36}, 1.31),  # of morphemes and words
    ],
)
def test_one_number_of_words_gives_the_printed_sizes_of_all_systems(
    preset: str, words: int, printed: dict[int, int], within: float
) -> None:
    """Table 1, "Model size (M)", plus or minus one, because the printed sizes are rounded."""
    config = config_of(preset)
    assert parameters(config, words, words) / 1e6 == pytest.approx(printed[config.embedding], abs=within)


@pytest.mark.parametrize("embedding", [64, 128, 256])
def test_six_layers_to_a_summary_cannot_give_the_printed_sizes(embedding: int) -> None:
    """Sizes of a column are printed within one of each other's mean; the vocabulary adds the same to all of them."""
    smallest, largest = (
        parameters(replace(config_of(name), embedding=embedding, output=embedding, **changes), 1000, 1000) / 1e6
        for name, changes in (("convs2s-4l", {}), ("densenmt-8l-2", {"summary": 6}))
    )
    assert largest - smallest > 2.6


WIDTHS: list[tuple[str, list[int], list[int]]] = [
    ("densenmt-4l-1", [256, 384, 512, 640, 768], [256, 512, 768, 1024, 1280]),
    (
        "densenmt-8l-2",
        [192, 288, 384, 480, 576, 192, 288, 384, 480],
        [192, 384, 576, 768, 960, 192, 384, 576, 768],
    ),
]


@pytest.mark.parametrize(("preset", "encoder", "decoder"), WIDTHS)
def test_layers_have_the_papers_input_widths(preset: str, encoder: list[int], decoder: list[int]) -> None:
    for made, widths in ((1, encoder), (2, decoder)):
        config = config_of(preset)
        layers = plan(config, config.stages, True, made)
        assert [*(layer.rows for layer in layers), layers[-1].top] == widths


def test_the_deep_model_is_summarised_twice() -> None:
    for made, tail in ((1, [1024, 1280, 1792, 2304]), (2, [1024, 1536, 2560, 3584])):
        config = config_of("densenmt-ende-15")
        layers = plan(config, config.stages, True, made)
        assert len(layers) == 15
        assert [(k, layer.top) for k, layer in enumerate(layers, 1) if not layer.dense] == [(6, 512), (12, 1024)]
        assert [*(layer.rows for layer in layers[12:]), layers[-1].top] == tail
        assert all(below.top == above.rows for below, above in pairwise(layers))


class Paper:
    """The equations in NumPy for one sentence, with the parameters of a model."""

    def __init__(self, model: Seq2Seq, config: Config) -> None:
        self.values = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
        self.config = config

    def linear(self, name: str, x: Array) -> Array:
        v, g, b = (self.values[f"{name}.{part}"] for part in ("v", "g", "bias"))
        weight = g[:, None] * v / np.sqrt((v**2).sum(1, keepdims=True))
        result: Array = x @ weight.T + b
        return result

    def has(self, name: str) -> bool:
        return f"{name}.v" in self.values

    def conv(self, name: str, x: Array, before: int) -> Array:
        zeros = np.zeros((1, x.shape[1]))
        padded = np.concatenate([zeros] * before + [x] + [zeros] * (2 - before))
        both = np.stack([self.linear(f"{name}.product", padded[t : t + 3].ravel()) for t in range(len(x))])
        a, b = np.split(both, 2, axis=1)
        result: Array = a / (1 + np.exp(-b))
        return result

    def input(self, side: str, part: str, ids: list[int]) -> Array:
        token = self.values[f"embedding.{side}.weight"][ids]
        place = self.values[f"{part}.input.position.weight"][np.minimum(np.arange(len(ids)), self.config.positions - 1)]
        maps = f"{part}.input.maps"
        result: Array = token + place
        if self.has(f"{maps}.0"):
            result = self.linear(f"{maps}.0", token) + self.linear(f"{maps}.1", place)
        return result

    def hidden(self, src: list[int], tgt: list[int]) -> Array:
        """The input of the output layer after each of the previous words."""
        config, half = self.config, np.sqrt(0.5)
        g = self.input("src", "encoder", src)
        h = self.linear("encoder.first", g)
        segments, outputs = [h], []
        for k in range(sum(stage.layers for stage in config.stages)):
            new = self.conv(f"encoder.convs.{k}", h, 1)
            summary = config.summary is not None and (k + 1) % config.summary == 0
            if config.dense_encoder and not summary:
                segments.insert(0, new)
                h = np.concatenate(segments, axis=1)
            else:
                name = f"encoder.residuals.{k}"
                h = half * (new + (self.linear(name, h) if self.has(name) else h))
                segments = [h]
            outputs.append(h)
        seen = [h]
        if config.dense_attention == 2:
            seen = segments if config.dense_encoder else outputs
        keys = [self.linear(f"encoder.keys.{i}", part) for i, part in enumerate(seen)]
        values = [half * (key + g) for key in keys]

        g = self.input("tgt", "decoder", tgt)
        h = self.linear("decoder.first", g)
        for k in range(sum(stage.layers for stage in config.decoder_stages or config.stages)):
            u = self.conv(f"decoder.convs.{k}", h, 2)
            q = half * (self.linear(f"decoder.attentions.{k}.query", u) + g)
            context = np.zeros_like(q)
            for key, value in zip(keys, values, strict=True):
                scores = np.exp(q @ key.T)
                context += scores / scores.sum(1, keepdims=True) @ value
            context *= np.sqrt(len(src)) / np.sqrt(len(keys))
            a = self.linear(f"decoder.attentions.{k}.output", context)
            if config.dense_decoder and not (config.summary is not None and (k + 1) % config.summary == 0):
                h = np.concatenate([h, a, u], axis=1)
            else:
                name = f"decoder.residuals.{k}"
                h = half * (half * (u + a) + (self.linear(name, h) if self.has(name) else h))
        return self.linear("decoder.last", h)


CASES = {
    "convs2s": SMALL,
    "wider layers": replace(SMALL, stages=(Stage(1, 1, 3), Stage(2, 2, 3))),
    "fewer layers in the decoder": replace(SMALL, decoder_stages=(Stage(2, 1, 3),)),
    "wider layers in the decoder": replace(SMALL, decoder_stages=(Stage(1, 1, 3), Stage(1, 2, 3))),
    "dense 1": DENSE,
    "dense 2": replace(DENSE, dense_attention=2),
    "summary 1": replace(DENSE, summary=3),
    "summary 2": replace(DENSE, summary=3, dense_attention=2),
    "nothing but summaries 1": replace(DENSE, summary=1),
    "nothing but summaries 2": replace(DENSE, summary=1, dense_attention=2),
    "dense encoder": replace(SMALL, dense_encoder=True),
    "dense decoder": replace(SMALL, dense_decoder=True),
    "dense attention": replace(SMALL, dense_attention=2),
    "no maps": replace(DENSE, embedding=6),
    "few positions": replace(DENSE, positions=2),
}


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_the_papers_equations(case: str) -> None:
    config = CASES[case]
    model = model_of(config).double()
    (src, mask), tgt = sources(), targets()
    hidden = model(src, mask, tgt)
    for i, length in enumerate(LENGTHS):
        previous = [EOS, *tgt[i, :-1].tolist()]  # the decoder's input begins with EOS
        expected = Paper(model, config).hidden(src[i, :length].tolist(), previous)
        np.testing.assert_allclose(hidden[i].detach(), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_dense_attention_of_one_part_is_dense_attention_of_the_first_kind() -> None:
    one = replace(DENSE, stages=(Stage(3, 1, 3),), summary=3)  # with the summary there is one part
    two = replace(one, dense_attention=2)
    (src, mask), tgt = sources(), targets()
    assert torch.equal(model_of(one)(src, mask, tgt), model_of(two)(src, mask, tgt))


def test_the_reported_attention_is_the_mean_of_all_layers() -> None:
    model, seen = model_of(SMALL), list[Tensor]()
    for layer in model.decoder.attentions:
        layer.register_forward_hook(lambda _, given, results: seen.append(results[1].flatten(0, 1)))
    _, _, attention = model.step(*model.begin(*sources()), torch.full((len(LENGTHS),), BOS))
    assert len(seen) == 4
    torch.testing.assert_close(attention, torch.stack(seen).mean(dim=0))


def test_attention_is_scaled_by_the_true_length() -> None:
    memory, _ = model_of(SMALL).begin(*sources())
    assert torch.equal(memory.length.squeeze(), torch.tensor(LENGTHS).sqrt())


@pytest.mark.parametrize(("decoder", "halves"), [(None, 8), ((Stage(2, 1, 3),), 4)])
def test_the_gradient_into_the_encoder_is_shared_by_the_attentions(
    decoder: tuple[Stage, ...] | None, halves: int
) -> None:
    """Gehring et al. 2017, 3.4: scaled by the number of attentions; "we exclude source word embeddings"."""
    model = model_of(replace(SMALL, decoder_stages=decoder))
    (src, mask), tgt = sources(), targets()

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        model(src, mask, tgt).square().sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    scaled = gradients()
    cast: Any = model.encoder
    cast.scaling = 1
    plain = gradients()
    torch.testing.assert_close(halves * scaled["encoder.keys.0.v"], plain["encoder.keys.0.v"])
    torch.testing.assert_close(halves * scaled["encoder.convs.2.product.v"], plain["encoder.convs.2.product.v"])
    torch.testing.assert_close(halves * scaled["encoder.first.v"], plain["encoder.first.v"])
    for name, gradient in plain.items():
        if not name.startswith(("encoder.first", "encoder.convs", "encoder.residuals", "encoder.keys")):
            torch.testing.assert_close(scaled[name], gradient, msg=name)  # embeddings, positions and their maps, too


def test_initial_values_keep_the_variance() -> None:
    torch.manual_seed(0)
    stages = (Stage(1, 1, 3), Stage(1, 2, 3))
    config = replace(SMALL, embedding=128, attention=256, width=256, stages=stages, dropout=0.2)
    model = build(config, 1000, 1000)
    values = dict(model.named_parameters())
    for name, std in {
        "embedding.src.weight": 0.1,
        "encoder.input.position.weight": 0.1,
        "encoder.first.v": (0.8 / 256) ** 0.5,
        "decoder.attentions.0.query.v": (1 / 256) ** 0.5,
        "decoder.convs.1.product.v": (4 * 0.8 / (3 * 256)) ** 0.5,
        "output.v": (0.8 / 7) ** 0.5,
        "encoder.residuals.1.v": (0.8 / 256) ** 0.5,
        "decoder.residuals.1.v": (0.8 / 256) ** 0.5,
        "encoder.input.maps.0.v": (0.8 / 128) ** 0.5,
        "decoder.input.maps.1.v": (0.8 / 128) ** 0.5,
    }.items():
        assert float(values[name].detach().std()) == pytest.approx(std, rel=0.05)
    torch.testing.assert_close(values["encoder.first.g"], values["encoder.first.v"].norm(dim=1))
    assert not values["encoder.first.bias"].any()


def test_sentences_longer_than_the_positions_are_translated() -> None:
    model = model_of(replace(DENSE, positions=3))
    src = torch.cat([torch.randint(4, 11, (1, 9)), torch.tensor([[EOS]])], dim=1)
    memory, state = model.begin(src, torch.ones_like(src, dtype=torch.bool))
    y = torch.tensor([BOS])
    for _ in range(9):
        log_probs, state, attention = model.step(memory, state, y)
        assert log_probs.isfinite().all()
        assert attention is not None
        assert attention.shape == (1, 10)
        y = log_probs.argmax(dim=-1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": ()}, "^stages: at least one"),
        ({"decoder_stages": ()}, "decoder_stages: at least one"),
        ({"decoder_stages": (Stage(1, 0, 3),)}, "times: 0 times 8 is not a whole number of at least 1"),
        ({"stages": (Stage(1, 0, 3),)}, "times: 0 times 8 is not a whole number of at least 1"),
        ({"stages": (Stage(1, 1.3, 3),)}, "times: 1.3 times 8 is not a whole number of at least 1"),
        ({"growth": 0}, "growth: 0 is not at least 1"),
        ({"summary": 0}, "summary: 0 is not at least 1; null: never"),
        ({"dropout": 1.0}, r"dropout: 1.0 is not in \[0, 1\)"),
    ],
)
def test_impossible_sizes_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_impossible_stages_are_refused() -> None:
    with pytest.raises(ValueError, match="kernel: 2 is even"):
        densenmt.Stage(1, 1, 2)
    with pytest.raises(ValueError, match="layers: 0 is not at least 1"):
        densenmt.Stage(0, 1, 3)
