import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.data.encoding import encode
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.run import run_experiment
from nmtkit.experiment.schema import build_experiment
from nmtkit.experiment.warm_start import sides_of_words, take_weights
from nmtkit.folders import ModelFolder, TextFiles
from nmtkit.text.prep import prepare
from nmtkit.text.raw import Files
from nmtkit.text.settings import Prep, Side
from nmtkit.training.checkpoint import load_weights, save_weights
from nmtkit.training.progress import Progress
from tests.training.conftest import CPU, make_data, small_experiment, trained

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data folder and a model trained on it for two updates."""
    folder = tmp_path_factory.mktemp("made")
    trained(folder / "run", make_data(folder), max_updates=2)
    return folder


def make_other(folder: Path, words: str) -> Path:
    """A data folder of these words, each a sentence and its own translation."""
    folder.mkdir(exist_ok=True)
    pair = Files(folder / "text.xx", folder / "text.yy")
    for path in pair:
        path.write_text("".join(f"{word} {word}\n" for word in words.split()))
    side = Side("xx", normalize=False, tokenizer="none", segmentation="words")
    prepare({"train": pair, "dev": pair}, folder / "data", Prep(side, replace(side, language="yy")), workers=1)
    encode(folder / "data", None, None, 1, False, workers=1)
    return folder / "data"


def start(data: Path, path: Path, model: Path, **training: Any) -> Progress:
    return run_experiment(small_experiment(max_updates=1, **training), data, path, CPU, model)


def rows(folder: Path) -> Iterator[tuple[str, Vocabulary]]:
    text = TextFiles(folder)
    return ((name, Vocabulary.load(text.vocabulary(side))) for name, side in
            (("embedding.src.weight", "src"), ("embedding.tgt.weight", "tgt"), ("output.weight", "tgt"),
             ("output.bias", "tgt")))  # type: ignore[arg-type] # fmt: skip


def weights_at_the_start(data: Path, model: Path) -> tuple[Weights, Weights]:
    """The initial weights of a run on ``data``, from random numbers and from ``model``."""
    experiment, sizes = (
        small_experiment(),
        [len(Vocabulary.load(TextFiles(data).vocabulary(s))) for s in ("src", "tgt")],
    )
    torch.manual_seed(1)
    built = experiment.build(*sizes)
    random = {name: tensor.clone() for name, tensor in built.state_dict().items()}
    take_weights(built, experiment, data, ModelFolder.at(model))
    return random, built.state_dict()


def test_on_the_same_text_all_weights_are_copied(made: Path) -> None:
    _, begun = weights_at_the_start(made / "data", made / "run")
    theirs = load_weights(ModelFolder(made / "run").weights(2))
    assert begun.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in begun.items())


def test_embeddings_are_matched_by_word_and_new_words_are_initialised(made: Path, tmp_path: Path) -> None:
    data = make_other(tmp_path, "du new ba newer newest")
    random, begun = weights_at_the_start(data, made / "run")
    theirs = load_weights(ModelFolder(made / "run").weights(2))
    for (name, ours), (_, known) in zip(rows(data), rows(made / "run"), strict=True):
        for row, word in enumerate(ours.words):
            there = known.words.index(word) if word in known.words else None
            expected = random[name][row] if there is None else theirs[name][there]
            assert torch.equal(begun[name][row], expected), (name, word)
    assert all(torch.equal(begun[name], theirs[name]) for name in begun if name not in dict(rows(data)))


def test_the_run_logs_and_records_the_copied_weights(
    made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = make_other(tmp_path, "du new ba n1 n2 n3 n4 n5")
    with caplog.at_level(logging.INFO):
        start(data, tmp_path / "run", made / "run" / "checkpoints" / "step-2")
    said = [record.getMessage() for record in caplog.records]
    assert f"starting with the weights of {made}/run/checkpoints/step-2" in said
    assert "vocab.src: 6 of 12 words are in the model, 6 are new (n1, n2, n3, n4, n5, ...); 8 are dropped" in said
    assert not any("prepared with different settings" in line for line in said)
    origin = json.loads((tmp_path / "run" / "origin.json").read_text())
    assert (origin["model"], origin["update"]) == (str(made / "run"), 2)
    assert (origin["taken"], origin["new"]) == ({"src": 6, "tgt": 6}, {"src": 6, "tgt": 6})
    assert "origin.json" in json.loads((tmp_path / "run" / "checksums.json").read_text())


def test_optimizer_and_progress_are_new_and_the_run_is_reproducible(made: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        progress = start(made / "data", tmp_path / name, made / "run")
        assert (progress.update, progress.epoch) == (1, 0)
    one, two = (load_weights(ModelFolder(tmp_path / name).weights(1)) for name in ("one", "two"))
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())
    theirs = load_weights(ModelFolder(made / "run").weights(2))
    assert not torch.equal(one["output.weight"], theirs["output.weight"])


def test_a_warm_started_run_is_resumed_with_or_without_its_start(made: Path, tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    run_experiment(small_experiment(max_updates=4), made / "data", whole, CPU, made / "run")
    for last, model in ((1, made / "run"), (2, made / "run"), (4, None)):
        run_experiment(small_experiment(max_updates=last), made / "data", pieces, CPU, model)
    one, other = (load_weights(ModelFolder(path).weights(4)) for path in (whole, pieces))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert ModelFolder(pieces).origin.exists()


def test_a_run_from_a_checkpoint_is_resumed_when_that_is_gone(made: Path, tmp_path: Path) -> None:
    step = made / "run" / "checkpoints" / "step-2"
    start(made / "data", tmp_path / "warm", step)
    step.rename(tmp_path / "away")
    try:
        run_experiment(small_experiment(max_updates=2), made / "data", tmp_path / "warm", CPU, step)
        with pytest.raises(UserError, match="the run there began with step 2 of"):
            run_experiment(small_experiment(), made / "data", tmp_path / "warm", CPU, step.with_name("step-1"))
        with pytest.raises(UserError, match="run: has no checkpoint yet"):
            start(made / "data", tmp_path / "new", step)
    finally:
        (tmp_path / "away").rename(step)


def test_a_run_with_another_start_is_not_resumed(made: Path, tmp_path: Path) -> None:
    trained(tmp_path / "random", made / "data", max_updates=1)
    with pytest.raises(
        UserError, match="random: the run there began with random weights; leave `start` out to resume it"
    ):
        start(made / "data", tmp_path / "random", made / "run")
    start(made / "data", tmp_path / "warm", made / "run")
    with pytest.raises(
        UserError, match=f"warm: the run there began with step 2 of {made}/run; leave `start` out to resume it, or use"
    ):
        start(made / "data", tmp_path / "warm", tmp_path / "random")


def test_a_run_copied_together_with_its_start_is_resumed(made: Path, tmp_path: Path) -> None:
    start(made / "data", tmp_path / "here" / "warm", made / "run")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.copytree(made / "run", tmp_path / "there" / "run")
    model = tmp_path / "there" / "run"
    run_experiment(small_experiment(max_updates=2), made / "data", tmp_path / "there" / "warm", CPU, model)
    assert ModelFolder(tmp_path / "there" / "warm").updates()[-1] == 2


def test_a_run_is_resumed_only_with_its_own_checkpoint_of_the_model(made: Path, tmp_path: Path) -> None:
    trained(tmp_path / "model", made / "data", max_updates=2, valid_every=1)
    one, two = (ModelFolder(tmp_path / "model").checkpoint(update) for update in (1, 2))
    start(made / "data", tmp_path / "warm", one)
    run_experiment(small_experiment(max_updates=2), made / "data", tmp_path / "warm", CPU, one)
    with pytest.raises(UserError, match="the run there began with step 1 of"):
        run_experiment(small_experiment(max_updates=3), made / "data", tmp_path / "warm", CPU, two)


def test_another_model_is_refused_setting_by_setting(made: Path, tmp_path: Path) -> None:
    experiment = small_experiment()
    deeper = replace(experiment, model=replace(experiment.model, encoder_layers=1, dropout=0.5))
    complaint = "run: another model: model.encoder_layers is 2 there and 1 here; use the same settings, or train from"
    with pytest.raises(UserError, match=complaint):
        run_experiment(deeper, made / "data", tmp_path / "run", CPU, made / "run")
    other = build_experiment(load_preset("rnnsearch-small"), "other")
    with pytest.raises(UserError, match="run: another architecture: deep_att, not rnnsearch; train it from scratch"):
        run_experiment(other, made / "data", tmp_path / "run", CPU, made / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_dropout_may_differ(made: Path, tmp_path: Path) -> None:
    experiment = small_experiment(max_updates=1)
    wilder = replace(experiment, model=replace(experiment.model, dropout=0.5))
    assert run_experiment(wilder, made / "data", tmp_path / "run", CPU, made / "run").update == 1


def test_a_text_without_a_common_word_is_refused(made: Path, tmp_path: Path) -> None:
    data = make_other(tmp_path, "not one of them")
    with pytest.raises(
        UserError, match=r"run: no word of its vocab\.src is in .*data/vocab\.src; prepare the text like the"
    ):
        start(data, tmp_path / "run", made / "run")


def test_one_common_word_is_enough(made: Path, tmp_path: Path) -> None:
    weights_at_the_start(make_other(tmp_path, "ba"), made / "run")


def test_differently_prepared_text_gets_a_warning(made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = make_other(tmp_path, "du new ba")
    settings = (data / "prep.yaml").read_text()
    (data / "prep.yaml").write_text(settings.replace("lowercase: false", "lowercase: true", 1))
    start(data, tmp_path / "run", made / "run")
    warned = [
        record.getMessage() for record in caplog.records if "prepared with different settings" in record.getMessage()
    ]
    assert warned == [
        f"{data}/train.src and the text of {made}/run were prepared with different settings: the same words may be "
        f"segmented or spelled differently; use nmtkit prep --like {made}/run"
    ]


def test_weights_of_another_size_than_the_model_of_the_start_are_refused(made: Path, tmp_path: Path) -> None:
    other = {"encoder.columns.0.feed_forward.0.bias": torch.zeros(1)}
    shutil.copytree(made / "run", tmp_path / "model")
    path = ModelFolder(tmp_path / "model").weights(2)
    save_weights(path, load_weights(path) | other)  # as if the checkpoint was copied from another run
    with pytest.raises(UserError, match=r"tensors: encoder\..*: this model has shape .*, the file has \(1,\)"):
        start(made / "data", tmp_path / "run", tmp_path / "model")


def test_a_start_without_weights_says_so(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing: not a model folder"):
        start(made / "data", tmp_path / "run", tmp_path / "nothing")


@pytest.mark.parametrize(
    ("preset", "shared"),
    [("rnnsearch", False), ("deep-att", False), ("deep-lau", False), ("bideep", False), ("densenmt-4l-1", False),
     ("dtmt1", False), ("transformer-base", True), ("transformer-big-zhen", False)],
)  # fmt: skip
def test_the_rows_of_words_are_found_in_every_architecture(preset: str, shared: bool) -> None:
    experiment = build_experiment(load_preset(preset), preset)
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in experiment.build(10_007, 10_009).state_dict().items()}
    expected = {name: "src" if shape[0] == 10_007 else "tgt" for name, shape in shapes.items()
                if shape and shape[0] in (10_007, 10_009)}  # fmt: skip
    assert sides_of_words(experiment) == expected
    assert set(expected.values()) == ({"tgt"} if shared else {"src", "tgt"})
