"""A run that was stopped or killed, or filled the disk, is resumed exactly."""

import json
import logging
import os
import pkgutil
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nmtkit import config as configs
from nmtkit.data.corpus import Corpus
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.run import run_experiment
from nmtkit.folders import ModelFolder, TextFiles
from nmtkit.training import checkpoint, loop
from nmtkit.training.gradient import accumulate
from nmtkit.training.progress import Progress
from nmtkit.training.run import dropout_seed
from tests.training.conftest import (
    CPU,
    everything,
    metrics,
    small_experiment,
    small_run,
    trained,
    validations,
)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_in_pieces_equals_a_run_in_one_go(precision: str, data: Path, tmp_path: Path) -> None:
    for last in (1, 3, 8, 9, 12):
        trained(tmp_path / "pieces", data, max_updates=last, valid_every=4, precision=precision)
    trained(tmp_path / "whole", data, max_updates=12, valid_every=4, precision=precision)
    pieces, whole = everything(tmp_path / "pieces", 12), everything(tmp_path / "whole", 12)
    assert pieces.keys() == whole.keys()
    for name, tensor in whole.items():
        assert torch.equal(pieces[name], tensor), name


def test_a_killed_run_repeats_unsaved_updates_and_logs_them_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "whole", data, valid_every=4)
    calls = []

    def killed(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 11:  # two updates after the checkpoint of update 8
            raise KeyboardInterrupt
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed", data, valid_every=4)
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "update": 10}\n{"kind": "tr')  # logged after the checkpoint; cut short
    trained(tmp_path / "killed", data, valid_every=4)
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "killed", 12).items())


@pytest.mark.parametrize(
    ("ended", "update", "valid_every"),
    [
        ("nmtkit.experiment.run.validate", 8, 4),
        pytest.param("nmtkit.experiment.run.validate", 12, 5, marks=pytest.mark.slow),
        pytest.param("nmtkit.training.checkpoint.save_validated", 8, None, marks=pytest.mark.slow),
        ("nmtkit.training.checkpoint.save_validated", 12, 5),
    ],
)
def test_a_run_stopped_in_validation_is_resumed_with_that_validation(
    ended: str, update: int, valid_every: int | None, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first moment is before anything is measured, the second after it is logged; both may be in the last one."""
    settings = {"valid_every": valid_every, "save_every": None, "schedule": {"kind": "plateau"}, "patience": 9}
    trained(tmp_path / "whole", data, **settings)
    updates = []

    def killed(*arguments: object) -> object:
        if updates[-1] == update and len(updates) == update:
            raise KeyboardInterrupt
        return going_on(*arguments)

    going_on = pkgutil.resolve_name(ended)
    monkeypatch.setattr(loop, "set_rates", lambda *_: updates.append(len(updates) + 1))
    monkeypatch.setattr(ended, killed)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed", data, **settings)
    assert ModelFolder(tmp_path / "killed").updates()[-1] == update
    monkeypatch.setattr(ended, going_on)
    trained(tmp_path / "killed", data, **settings)
    assert updates == [*range(1, 13)]
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")
    assert (tmp_path / "killed" / "best").read_text() == (tmp_path / "whole" / "best").read_text()
    assert ModelFolder(tmp_path / "killed").updates() == ModelFolder(tmp_path / "whole").updates()
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "killed", 12).items())


def test_a_run_killed_in_its_last_validation_and_extended_equals_the_longer_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "whole", data, valid_every=5)
    monkeypatch.setattr("nmtkit.experiment.run.validate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path / "killed", data, valid_every=5, max_updates=3)
    assert ModelFolder(tmp_path / "killed").updates() == [3]
    monkeypatch.undo()
    trained(tmp_path / "killed", data, valid_every=5)
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_run_stopped_by_a_signal_after_an_update_is_resumed_exactly(
    number: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)  # also where nohup runs the tests
    trained(tmp_path / "whole", data, valid_every=5)
    calls = []

    def signalled(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), number)
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", signalled)
    progress = trained(tmp_path / "stopped", data, valid_every=5)
    assert (progress.update, progress.finished) == (3, "")
    assert ModelFolder(tmp_path / "stopped").updates() == [3]
    trained(tmp_path / "stopped", data, valid_every=5)
    assert metrics(tmp_path / "stopped") == metrics(tmp_path / "whole")


@pytest.mark.parametrize("repeated", [False, True])
def test_a_signal_during_a_validation_stops_the_run_before_another_update(
    repeated: bool, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated = loop._validate

    def killed(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    if repeated:  # at the start of a resumed run
        with monkeypatch.context() as patch:
            patch.setattr(loop, "_validate", killed)
            with pytest.raises(KeyboardInterrupt):
                trained(tmp_path / "stopped", data, valid_every=5)

    def signalled(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return validated(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_validate", signalled)
        assert trained(tmp_path / "stopped", data, valid_every=5).update == 5
    assert ModelFolder(tmp_path / "stopped").updates() == [5]
    trained(tmp_path / "stopped", data, valid_every=5)
    trained(tmp_path / "whole", data, valid_every=5)
    assert metrics(tmp_path / "stopped") == metrics(tmp_path / "whole")


def test_other_references_of_the_development_set_are_refused(data: Path, tmp_path: Path) -> None:
    trained(tmp_path / "run", data, max_updates=1)
    reference = data / "dev.raw.tgt"
    before = reference.read_text()
    reference.write_text(before.replace("\n", " .\n"))
    with pytest.raises(UserError, match=r"the run there differs, see above: text dev\.raw\.tgt;"):
        trained(tmp_path / "run", data, max_updates=2)
    reference.write_text(before)
    further = data / "dev.raw.tgt1"
    further.write_text(before)
    with pytest.raises(UserError, match=r"the run there differs, see above: text dev\.raw\.tgt1;"):
        trained(tmp_path / "run", data, max_updates=2)
    further.unlink()
    texts = json.loads((tmp_path / "run" / "data.json").read_text())
    del texts["dev.raw.tgt"]  # as in older versions
    (tmp_path / "run" / "data.json").write_text(json.dumps(texts))
    ModelFolder(tmp_path / "run").seal()
    trained(tmp_path / "run", data, max_updates=2)


def test_every_epoch_has_other_concatenations_which_depend_on_the_seed_alone(data: Path) -> None:
    corpus, seen = Corpus.open(data, "train"), []
    for seed, epoch in ((1, 0), (1, 1), (1, 0), (2, 0)):
        run = small_run(small_experiment(concatenations=0.5, seed=seed), corpus)
        run.progress.epoch = 7
        later = run.with_concatenations()  # of another epoch, which do not count
        later.progress.epoch = epoch
        joined = later.with_concatenations().corpus
        assert len(joined) == round(1.5 * len(corpus))
        seen.append([tuple(joined.src(row)) for row in range(len(corpus), len(joined))])
    first, second, again, other = seen
    assert first == again
    assert first not in (second, other)
    pairs = {tuple(corpus.src(row)) for row in range(len(corpus))}
    assert all(any(text[:cut] in pairs and text[cut:] in pairs for cut in range(1, len(text))) for text in first)


@pytest.mark.slow
def test_a_run_with_concatenations_has_longer_epochs_and_is_resumed_exactly(data: Path, tmp_path: Path) -> None:
    epoch = {"max_updates": None, "max_epochs": 1}
    plain = trained(tmp_path / "plain", data, **epoch).update
    more = {"concatenations": 1.0}
    longer = trained(tmp_path / "more", data, **epoch, **more).update
    assert longer in (2 * plain - 1, 2 * plain)
    for last in (1, 3, longer + 1, longer + 3):  # the last two in the second epoch
        trained(tmp_path / "pieces", data, max_updates=last, valid_every=4, **more)
    trained(tmp_path / "whole", data, max_updates=longer + 3, valid_every=4, **more)
    whole, pieces = (everything(tmp_path / name, longer + 3) for name in ("whole", "pieces"))
    assert all(torch.equal(pieces[name], tensor) for name, tensor in whole.items())


@pytest.mark.parametrize(("added", "counted"), [(0.0, "pairs?"), (1.0, "pairs? and concatenations together")])
def test_the_log_says_whether_concatenations_are_among_what_is_too_long(
    added: float, counted: str, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lengths = Corpus.open(data, "train").lengths(np.arange(len(Corpus.open(data, "train"))))
    shortest = int(np.maximum(*lengths).min())
    trained(tmp_path / "run", data, max_updates=1, concatenations=added, max_length=shortest)
    assert re.search(rf"training on \d+ {counted}; \d+ left out: empty, or longer than {shortest} tokens", caplog.text)


def test_bfloat16_products_train_like_float32_ones(data: Path, tmp_path: Path) -> None:
    for precision in ("float32", "bfloat16"):
        trained(tmp_path / precision, data, precision=precision, max_updates=6)
    exact, rough = (metrics(tmp_path / precision)[0]["loss"] for precision in ("float32", "bfloat16"))
    assert rough == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_resumed_run_keeps_the_number_format_that_was_chosen_for_it(
    precision: str, data: Path, tmp_path: Path
) -> None:
    trained(tmp_path / "run", data, max_updates=1, precision=precision)
    assert trained(tmp_path / "run", data, max_updates=2, precision="auto").precision == precision


def test_the_ranking_is_that_of_the_checkpoint_from_which_a_run_is_resumed(data: Path, tmp_path: Path) -> None:
    trained(tmp_path / "run", data, max_updates=2, valid_every=1)
    folder = ModelFolder(tmp_path / "run")
    best = folder.best_update()
    folder.write_ranking([[1 + best % 2, 99.0, 0.1]])  # by a process that was killed before it saved the other one
    trained(tmp_path / "run", data, max_updates=2, valid_every=1)
    assert folder.best_update() == best


@pytest.mark.parametrize("best_metric", [pytest.param("bleu", marks=pytest.mark.slow), "chrf2"])
def test_a_run_with_two_metrics_is_resumed_exactly(best_metric: str, data: Path, tmp_path: Path) -> None:
    two = {"stop_metric": "cross_entropy", "best_metric": best_metric, "valid_every": 2}
    trained(tmp_path / "whole", data, **two)
    trained(tmp_path / "pieces", data, **two, max_updates=5)
    trained(tmp_path / "pieces", data, **two)
    assert (tmp_path / "pieces" / "best").read_bytes() == (tmp_path / "whole" / "best").read_bytes()
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "pieces", 12).items())


def test_raising_the_limit_of_a_finished_run_equals_the_longer_run(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    plateau = {"valid_every": 4, "schedule": {"kind": "plateau"}, "patience": 9}
    for last in (6, 12):
        trained(tmp_path / "pieces", data, max_updates=last, **plateau)
    assert "changed since the last start: training.max_updates 6 -> 12" in caplog.messages
    assert not any("the new settings apply" in message for message in caplog.messages)
    trained(tmp_path / "whole", data, max_updates=12, **plateau)
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "pieces", 12).items())


CHANGES: list[dict[str, Any]] = [
    {"optimizer": {"lr": 1e-3, "decay": 0.1}},
    {"schedule": {"kind": "plateau", "warmup": 1000}},
    {"groups": {"recurrent": {"lr": 1e-5}}},
    {"loss": "sentences", "label_smoothing": 0.2, "word_dropout": 0.1, "clip_norm": 0.01, "dropout_seed": 9},
]


@pytest.fixture(scope="module")
def begun(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of four updates, ``begun``, and a copy that was resumed to its end, ``same``."""
    folder = tmp_path_factory.mktemp("begun")
    trained(folder / "begun", data, max_updates=4)
    shutil.copytree(folder / "begun", folder / "same")
    trained(folder / "same", data)
    return folder


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: "-".join(changes))
def test_hyperparameters_may_change_from_the_next_update_on(
    changes: dict[str, Any], begun: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("one", "other"):  # any run that makes the change there is the same
        shutil.copytree(begun / "begun", tmp_path / name)
        trained(tmp_path / name, data, **changes)
    said = [record.getMessage() for record in caplog.records]
    assert any("the new settings apply after update 4;" in line for line in said)
    *_, (key, value) = configs.flatten({"training": changes}).items()
    assert any(re.fullmatch(f"changed since the last start: {key} .* -> {value}", line) for line in said)
    one, other, same = (everything(path, 12) for path in (tmp_path / "one", tmp_path / "other", begun / "same"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert any(not torch.equal(tensor, same[name]) for name, tensor in one.items())
    caplog.clear()
    trained(tmp_path / "one", data, **changes, max_updates=13)
    assert not any("the new settings apply" in record.getMessage() for record in caplog.records)


def test_a_changed_learning_rate_is_used(data: Path, tmp_path: Path) -> None:
    rates = []
    for last, lr in ((2, 0.01), (4, 1e-7)):
        trained(tmp_path, data, max_updates=last, optimizer={"lr": lr}, groups={})
        saved = torch.load(ModelFolder(tmp_path).trainer(last), weights_only=True)
        rates += [group["lr"] for group in saved["optimizer"]["param_groups"] if group["name"] == "other"]
    assert rates == [0.01, 1e-7]


def test_a_run_starts_with_the_initial_values_of_each_group(data: Path, tmp_path: Path) -> None:
    trained(tmp_path, data, max_updates=1, groups={"bias": {"lr": 0.0, "init": "uniform 0.5"}})
    weights = checkpoint.load_weights(ModelFolder(tmp_path).weights(1))
    biases = torch.cat([weight.flatten() for name, weight in weights.items() if name.endswith("bias")])
    assert 0.45 < biases.abs().max() <= 0.5


def test_dropout_and_search_may_change_and_the_order_of_the_data_may_not(data: Path, tmp_path: Path) -> None:
    trained(tmp_path, data, max_updates=2)
    planned = small_experiment(max_updates=3)
    model, search = replace(planned.model, dropout=0.5), replace(planned.search, beam_size=2)
    wilder = replace(planned, model=model, search=search)
    assert run_experiment(wilder, data, tmp_path, CPU).update == 3
    fixed = {"seed": 2, "order_seed": 3, "max_length": 7, "batch_sentences": 9, "stop_metric": "cross_entropy"}
    for name, value in fixed.items():
        with pytest.raises(UserError, match=rf"differs, see above: training\.{name}; restore these"):
            run_experiment(
                replace(wilder, training=replace(wilder.training, **{name: value})), data, tmp_path, CPU
            )  # fmt: skip
    with pytest.raises(UserError, match=r"see above: training\.optimizer\.name; restore these"):
        trained(tmp_path, data, optimizer={"name": "sgd"})


@pytest.mark.parametrize("name", ["train.src", "dev.tgt", "test.tgt"])
def test_a_run_is_not_resumed_with_another_text_except_of_the_test_set(data: Path, tmp_path: Path, name: str) -> None:
    trained(tmp_path / "run", data, max_updates=2)
    other = tmp_path / "other"
    shutil.copytree(data, other)
    ids = json.loads((other / "ids.json").read_text())
    manifest = json.loads((other / "manifest.json").read_text())
    for files, key in ((ids["files"], "text"), (manifest["files"], "sha256")):
        files[name][key] = "of another text"
    (other / "ids.json").write_text(json.dumps(ids))
    (other / "manifest.json").write_text(json.dumps(manifest))
    if name == "test.tgt":
        assert trained(tmp_path / "run", other, max_updates=3).update == 3
        return
    with pytest.raises(UserError, match=rf"differs, see above: text {re.escape(name)}; restore these"):
        trained(tmp_path / "run", other)


def test_a_run_is_not_resumed_with_the_same_words_in_another_order(data: Path, tmp_path: Path) -> None:
    trained(tmp_path / "run", data, max_updates=2)
    other = tmp_path / "other"
    shutil.copytree(data, other)
    path = TextFiles(other).vocabulary("tgt")
    words = Vocabulary.load(path).words
    swapped = Vocabulary([*words[:-2], words[-1], words[-2]], [1] * len(words))
    swapped.save(path)
    ids = json.loads((other / "ids.json").read_text())
    for name in ("train.tgt", "dev.tgt"):
        ids["files"][name]["vocab"] = swapped.fingerprint
    (other / "ids.json").write_text(json.dumps(ids))
    with pytest.raises(UserError, match=r"differs, see above: vocab\.tgt; restore these"):
        trained(tmp_path / "run", other)


def test_ctrl_c_saves_and_then_ends_the_script_too(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, data)
    assert ModelFolder(tmp_path).updates() == [1]


def test_a_corpus_without_short_enough_pairs_is_an_error(data: Path, tmp_path: Path) -> None:
    trained(tmp_path / "enough", data, max_length=3, max_updates=1)
    empty = small_experiment(max_length=1)
    corpus = Corpus.open(data, "train")
    long = np.flatnonzero(corpus.lengths(np.arange(len(corpus)))[0] > 1)

    class Long:
        def __len__(self) -> int:
            return len(long)

        def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return corpus.lengths(long[rows])

    with pytest.raises(UserError, match=r"no training pair: all \d+ are empty or longer than training.max_length 1"):
        loop.train(small_run(empty, Long(), tmp_path), validations([]))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["model.safetensors", pytest.param("trainer.pt", marks=pytest.mark.slow)])
def test_a_run_with_a_damaged_checkpoint_is_resumed_from_the_previous_one_with_the_named_remedy(
    name: str, data: Path, tmp_path: Path
) -> None:
    trained(tmp_path / "whole", data, valid_every=4)
    trained(tmp_path / "run", data, valid_every=4, max_updates=8)
    newest = ModelFolder(tmp_path / "run").checkpoint(8)
    content = bytearray((newest / name).read_bytes())
    number = everything(tmp_path / "run", 8)["0.exp_avg" if name == "trainer.pt" else "output.bias"]
    content[content.find(number.numpy())] ^= 1  # a single bit
    (newest / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        trained(tmp_path / "run", data, valid_every=4)
    assert re.fullmatch(rf"{newest}/.*delete {newest} to use another checkpoint", str(error.value))
    shutil.rmtree(newest)
    trained(tmp_path / "run", data, valid_every=4)
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[key]) for key, tensor in everything(tmp_path / "run", 12).items())


def test_a_deleted_checkpoint_does_not_take_a_place_among_the_best(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate, folder = validations([(1.0, bleu) for bleu in (9, 4, 6, 5)]), ModelFolder(tmp_path)
    monkeypatch.setattr("nmtkit.experiment.run.validate", lambda *_: validate())
    for last, best in ((2, 1), (4, 3)):
        trained(tmp_path, data, max_updates=last, valid_every=1, keep_best=1)
        assert folder.best_updates() == [best]
        shutil.rmtree(folder.checkpoint(best))


def test_two_runs_in_one_folder_are_refused_until_the_first_has_ended(data: Path, tmp_path: Path) -> None:
    hold = "import pathlib, sys; from nmtkit.writing import locked\n"
    hold += "with locked(pathlib.Path(sys.argv[1]), 'training'): print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(UserError, match=rf"another training \(process {other.pid} on .+\) is writing there; wait"):
            trained(tmp_path, data)
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
        other.kill()
    trained(tmp_path, data, max_updates=1)  # the lock of a dead process is free


def test_nothing_is_written_before_the_configuration_is_validated(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no parameter of that name"):
        trained(tmp_path / "run", data, groups={"recurent": {"lr": 1.0}})
    assert not (tmp_path / "run").exists()


def test_a_full_disk_stops_the_run_and_it_is_resumed_later(data: Path, tmp_path: Path) -> None:
    """A limit on file sizes simulates a full disk: writes beyond it fail in the same way."""
    trained(tmp_path / "whole", data, valid_every=4)
    trained(tmp_path / "run", data, valid_every=4, max_updates=4)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (0, 500, 5_000):  # nothing at all, the configuration, the weights without the optimizer
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
            with pytest.raises(UserError, match=r"cannot be written: File too large"):
                trained(tmp_path / "run", data, valid_every=4)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert {path.name for path in before} >= {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
        assert ModelFolder(tmp_path / "run").updates() == [4]
        assert not [*(tmp_path / "run").rglob("*.tmp")]  # to free the space
    trained(tmp_path / "run", data, valid_every=4)
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")


def test_padding_is_in_the_history_of_every_epoch_and_logged_once_for_any_number_of_stops(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for last in (5, 8, 11, 16):  # 60 pairs: an epoch has 8 batches
        trained(tmp_path, data, max_updates=last, valid_every=100)
    found = [record for record in metrics(tmp_path) if record["kind"] == "epoch"]
    assert [(r["update"], r["epoch"], r["batches"]) for r in found] == [(8, 1, 8), (16, 2, 8)]
    assert all(0 < r["padding"] < 0.5 for r in found)
    said = [message for message in caplog.messages if message.endswith("of it is padding")]
    assert said == [f"an epoch has 8 updates; {100 * found[0]['padding']:.1f} % of it is padding"]


def test_checkpoints_between_validations_replace_each_other_and_change_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "whole", data, valid_every=5, save_every=None)
    save, saved = checkpoint.save, []

    def killed(folder: ModelFolder, model: object, optimizer: object, progress: Progress) -> None:
        save(folder, model, optimizer, progress)  # type: ignore[arg-type]
        saved.append(folder.updates())
        if progress.update == 8:
            raise KeyboardInterrupt  # before older ones are deleted

    monkeypatch.setattr(checkpoint, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "often", data, valid_every=5, save_every=1e-9)
    assert saved == [[1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [5, 6, 7], [5, 7, 8]]
    monkeypatch.undo()
    trained(tmp_path / "often", data, valid_every=5, save_every=1e-9)
    assert metrics(tmp_path / "often") == metrics(tmp_path / "whole")
    assert ModelFolder(tmp_path / "often").updates() == ModelFolder(tmp_path / "whole").updates()
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "often", 12).items())


def test_a_checkpoint_is_written_when_the_last_one_is_as_many_minutes_old_as_set(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, save, saved = SimpleNamespace(now=0.0), checkpoint.save, []

    def slow(*arguments: Any) -> Any:
        clock.now += 30  # seconds for an update
        return accumulate(*arguments)

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock.now, perf_counter=time.perf_counter))
    monkeypatch.setattr(loop, "accumulate", slow)
    monkeypatch.setattr(checkpoint, "save", lambda *all: saved.append(all[-1].update) or save(*all))
    trained(tmp_path, data, valid_every=5, save_every=1.0)
    assert saved == [2, 4, 5, 7, 9, 10, 12]


@pytest.mark.parametrize("name", ["init_seed", "order_seed", "dropout_seed"])
def test_each_seed_changes_its_own_random_numbers_and_no_others(name: str, data: Path, tmp_path: Path) -> None:
    corpus = Corpus.open(data, "train")

    def numbers(folder: Path, **seeds: int) -> tuple[object, ...]:
        run = small_run(small_experiment(max_updates=1, **seeds), corpus)
        trained(folder, data, max_updates=1, optimizer={"lr": 1e-30, "decay": 0.0}, **seeds)
        order = [rows.tolist() for rows in run.epoch()]
        weights = checkpoint.load_weights(ModelFolder(folder).weights(1))
        return float(weights["output.weight"].sum()), order, dropout_seed(run.settings, 1)

    plain = numbers(tmp_path / "plain", seed=1)
    assert numbers(tmp_path / "same", seed=9, init_seed=1, order_seed=1, dropout_seed=1) == plain
    other = numbers(tmp_path / "other", seed=1, **{name: 9})
    changed = [ours != theirs for ours, theirs in zip(plain, other, strict=True)]
    assert changed == [name == "init_seed", name == "order_seed", name == "dropout_seed"]
