import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nmtkit
from nmtkit.errors import UserError
from nmtkit.ops import matrix
from nmtkit.ops import precision as precisions
from nmtkit.ops.precision import Products
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translator
from tests.echo import forced, load_echo, write_folder, write_model


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    return [write_model(tmp_path / f"m{seed}", "rnnsearch", seed) for seed in range(3)]


def texts(translator: Translator) -> list[tuple[str, float]]:
    found = translator.answer(["a b", "", "lower c d"], Request(n_best=2, prefixes=True), ["a", "", "h"])
    return [(t.text, t.score) for best in found for t in best]


def alone(models: list[Path]) -> list[Translator]:
    """Each model by itself."""
    return [loading.load(model, "cpu") for model in models]


def test_an_ensemble_folder_is_the_ensemble_and_self_contained(models: list[Path], tmp_path: Path) -> None:
    loading.write_ensemble(models, tmp_path / "ens", "logprob", [2.0, 1.0, 1.0])
    expected = texts(loading.load(models, "cpu", "logprob", [2.0, 1.0, 1.0]))
    for model in models:
        shutil.rmtree(model)
    (tmp_path / "ens").rename(tmp_path / "moved")
    assert texts(nmtkit.load(tmp_path / "moved", "cpu")) == expected
    assert texts(loading.load(tmp_path / "moved", "cpu", "prob", [1, 1, 1])) != expected


def test_a_model_with_itself_translates_as_the_model(models: list[Path]) -> None:
    expected = texts(loading.load(models[0], "cpu"))
    assert texts(loading.load([models[0]] * 3, "cpu")) == expected
    assert texts(loading.load(models[:2], "cpu")) != expected


def test_members_may_have_different_source_vocabularies_and_segmentation(models: list[Path]) -> None:
    rows = (models[1] / "vocab.src").read_text().splitlines(keepends=True)
    (models[1] / "vocab.src").write_text("".join(rows[:4] + rows[:3:-1]))
    (models[2] / "bpe.src").write_text("#version: 0.2\nl o\n")
    mixed = loading.load(models, "cpu")
    assert len(mixed.sources) == 3
    assert mixed.answer(["lower a"], Request())[0][0].source == ["low@@", "er", "a"]
    assert len(loading.load([models[0]] * 2, "cpu").sources) == 1
    together, *each = (loaded.score_candidates(["lower a"], [["b d"]])[0][0] for loaded in (mixed, *alone(models)))
    np.testing.assert_allclose(np.exp(together), np.mean(np.exp(each), axis=0), rtol=1e-4)


def test_subwords_that_the_vocabulary_lacks_are_split(models: list[Path]) -> None:
    vocabulary = models[0] / "vocab.src"
    vocabulary.write_text(vocabulary.read_text().replace("low@@\t", "lo@@\t"))
    assert loading.load(models[0], "cpu").answer(["lower"], Request())[0][0].source[0] == "lo@@"
    vocabulary = models[1] / "vocab.tgt"
    vocabulary.write_text(vocabulary.read_text().replace("low@@\t", "lo@@\t"))
    [[best]] = loading.load(models[1], "cpu").answer(["a"], Request(prefixes=True), ["lower"])
    assert best.tokens[0] == "lo@@"


def test_models_with_different_target_vocabularies_cannot_be_combined(models: list[Path], tmp_path: Path) -> None:
    rows = (models[1] / "vocab.tgt").read_text().splitlines(keepends=True)
    (models[1] / "vocab.tgt").write_text("".join([*rows[:5], "z\t1\n", *rows[6:]]))
    with pytest.raises(UserError, match=r"line 6 of their vocab.tgt is 'b' and 'z'; train them on one data folder"):
        loading.load(models, "cpu")
    prep = (models[2] / "prep.yaml").read_text()
    words = prep.replace("segmentation: bpe", "segmentation: words")
    (models[2] / "prep.yaml").write_text(prep[: prep.index("tgt:")] + words[words.index("tgt:") :])
    with pytest.raises(UserError, match="their target segmentation is bpe and words; train them on one"):
        loading.write_ensemble([models[0], models[2]], tmp_path / "ens", "prob", None)
    (models[2] / "prep.yaml").write_text(prep.replace("form: null", "form: NFD"))
    with pytest.raises(UserError, match="their target Unicode normal form is none and NFD; train them on one"):
        loading.write_ensemble([models[0], models[2]], tmp_path / "ens", "prob", None)
    (models[2] / "prep.yaml").write_text(prep.replace("language: en", "language: de"))
    with pytest.raises(UserError, match=r"their target language is en and de; train them on one data folder$"):
        loading.write_ensemble([models[0], models[2]], tmp_path / "ens", "prob", None)
    assert not (tmp_path / "ens").exists()


def test_an_ensemble_cannot_be_where_one_model_is_needed(models: list[Path], tmp_path: Path) -> None:
    loading.write_ensemble(models, tmp_path / "ens", "prob", None)
    with pytest.raises(UserError, match="ens: an ensemble, not a single model; its members are in"):
        loading.load([tmp_path / "ens", models[0]], "cpu")
    with pytest.raises(UserError, match="ens: already exists; choose another `output` folder, or remove it"):
        loading.write_ensemble(models, tmp_path / "ens", "prob", None)


def test_weights_are_one_for_each_model(models: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`weights`: 2 of them for 3 models; give one for each"):
        loading.load(models, "cpu", weights=[1, 2])
    with pytest.raises(UserError, match="`combine` and `weights` are for an ensemble; name several models"):
        loading.load(models[0], "cpu", combine="prob")
    loading.write_ensemble(models, tmp_path / "ens", "prob", None)
    (tmp_path / "ens" / "checksums.json").unlink()
    (tmp_path / "ens" / "ensemble.yaml").write_text("members: [1-m0]\ncombine: prob\nweights: [1, 2]\n")
    with pytest.raises(UserError, match="weights: 2 of them for 1 models"):
        loading.load(tmp_path / "ens", "cpu")
    (tmp_path / "ens" / "ensemble.yaml").write_text("members: [1-m0]\ncombine: prob\nweights: [0]\n")
    with pytest.raises(UserError, match=r"weights: 0\.0 is not a number above 0"):
        loading.load(tmp_path / "ens", "cpu")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"weights": [1, 0, 1]}, "`weights`: 0 is not a number above 0"),
        ({"weights": [1, 1, float("nan")]}, "`weights`: nan is not a number above 0"),
        ({"combine": "mean"}, "`combine` mean: not one of prob, logprob"),
        ({"precision": "float16"}, "`precision` float16: not one of auto, float32, bfloat16, int8"),
        ({"folder": []}, "no model in the list; name at least one"),
    ],
)
def test_impossible_arguments_of_load_are_errors(models: list[Path], given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=f"^{complaint}$"):
        nmtkit.load(**{"folder": models, "device": "cpu"} | given)


def test_an_ensemble_has_a_member(models: list[Path], tmp_path: Path) -> None:
    loading.write_ensemble(models, tmp_path / "ens", "prob", None)
    (tmp_path / "ens" / "checksums.json").unlink()
    (tmp_path / "ens" / "ensemble.yaml").write_text("members: []\ncombine: prob\nweights: []\n")
    with pytest.raises(UserError, match=r"ensemble\.yaml: members: none; an ensemble has at least one$"):
        loading.load(tmp_path / "ens", "cpu")
    for outside in ("..", ".", "/tmp/m", "../1-m0"):
        (tmp_path / "ens" / "ensemble.yaml").write_text(f"members: [{outside}]\ncombine: prob\nweights: [1]\n")
        with pytest.raises(UserError, match=r"ensemble\.yaml: members: '.*' is not the name of a folder$"):
            loading.load(tmp_path / "ens", "cpu")


def test_the_device_is_a_gpu_only_where_there_is_one() -> None:
    assert loading.choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert loading.choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["toaster", "cudaa", "cuda:x"])
def test_a_device_that_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=f"`device` {name}: not a device; use auto, cpu, cuda or cuda:1"):
        loading.choose_device(name)


@pytest.mark.parametrize("name", ["cuda:99", "meta"])
def test_a_device_that_cannot_be_used_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=f"`device` {name}: cannot be used here .*; auto and cpu always can"):
        loading.choose_device(name)


def test_the_lexicon_is_that_of_the_model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folder = write_folder(tmp_path / "run")
    assert nmtkit.load(folder, device="cpu").lexicon is None
    (folder / "lexicon.tsv").write_text("")
    own = nmtkit.load(folder, device="cpu").lexicon
    assert own is not None
    assert own.name == str(folder / "lexicon.tsv")
    (folder / "other.tsv").write_text("a\tb\t1\t1\n")
    given = nmtkit.load(folder, device="cpu", lexicon=folder / "other.tsv").lexicon
    assert given is not None
    assert given.best == {"a": "b"}


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_members_may_be_in_other_precisions(
    models: list[Path], precision: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "SMALL", 0)
    exact, near = (loading.load(models, "cpu", precision=each) for each in ("float32", precision))
    [[a]], [[b]] = exact.answer(["a b"], Request()), near.answer(["a b"], Request())
    assert a.log_prob != b.log_prob
    assert math.isclose(a.log_prob, b.log_prob, abs_tol=0.2)
    assert near.model_bytes == exact.model_bytes > 0
    assert forced(near, ["a b"], ["b a"])[0].score != forced(exact, ["a b"], ["b a"])[0].score


def test_auto_is_the_fastest_measured_precision_and_scores_in_float32(
    models: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "SMALL", 0)
    for faster, expected in ((False, "float32"), (True, "bfloat16")):
        monkeypatch.setattr(precisions, "_bfloat16_is_faster", lambda answer=faster: answer)
        auto, named = (loading.load(models, "cpu", precision=each) for each in ("auto", expected))
        exact = loading.load(models, "cpu", precision="float32")
        assert auto.answer(["a b"], Request())[0][0].score == named.answer(["a b"], Request())[0][0].score
        assert forced(auto, ["a b"], ["b a"]) == forced(exact, ["a b"], ["b a"])
        assert torch.equal(*(torch.tensor(each.score_candidates(["a b"], [["b a"]])[0][0]) for each in (auto, exact)))
