"""Checkpoints: complete or absent, and damaged ones are named."""

import errno
import os
import resource
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.training import averaging, checkpoint
from nmtkit.training.progress import Progress
from tests.training.conftest import trained


def written(folder: Path, update: int, value: float, width: int = 2) -> nn.Linear:
    """A model folder with a checkpoint whose weights all have one value."""
    model = nn.Linear(width, 3)
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
    folder.mkdir(exist_ok=True)
    ModelFolder(folder).write_config({"architecture": "none"})
    checkpoint.save(ModelFolder(folder), model, torch.optim.Adam(model.parameters()), Progress(update=update))
    checkpoint.save_validated(ModelFolder(folder), Progress(update=update))
    return model


def test_a_checkpoint_restores_the_saved_state(tmp_path: Path) -> None:
    written(tmp_path, 7, 0.25)
    model = nn.Linear(2, 3)
    progress = checkpoint.restore(ModelFolder(tmp_path), 7, model, torch.optim.Adam(model.parameters()))
    assert progress == Progress(update=7)
    assert all((parameter == 0.25).all() for parameter in model.parameters())


def test_optimizer_states_are_restored_for_any_order_of_groups(
    tmp_path: Path,
) -> None:
    written(tmp_path, 7, 0.25)
    model = nn.ModuleDict({"query": nn.Linear(2, 2), "key": nn.Linear(2, 2)})

    def adam(*names: str) -> torch.optim.Adam:
        return torch.optim.Adam([{"params": model[name].parameters(), "name": name} for name in names])

    before = adam("query", "key")
    (model["query"](torch.ones(1, 2)) + 3 * model["key"](torch.ones(1, 2))).sum().backward()
    before.step()
    checkpoint.save(ModelFolder(tmp_path), model, before, Progress(update=8))
    after = adam("key", "query")
    checkpoint.restore(ModelFolder(tmp_path), 8, model, after)
    for parameter in model.parameters():
        assert torch.equal(after.state[parameter]["exp_avg"], before.state[parameter]["exp_avg"])


def test_an_unfinished_checkpoint_does_not_count(tmp_path: Path) -> None:
    written(tmp_path, 7, 0.25)
    (tmp_path / "checkpoints" / ".step-9.tmp").mkdir()
    assert ModelFolder(tmp_path).updates() == [7]


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.pt", "validated.pt"])
@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"something else" * 9])
def test_a_damaged_checkpoint_is_named(name: str, damage: object, tmp_path: Path) -> None:
    written(tmp_path, 7, 0.25)
    path = ModelFolder(tmp_path).checkpoint(7) / name
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    model = nn.Linear(2, 3)
    with pytest.raises(UserError, match=rf"step-7/{name}: .*another checkpoint"):
        checkpoint.restore(ModelFolder(tmp_path), 7, model, torch.optim.Adam(model.parameters()))


@pytest.mark.parametrize("name", ["trainer.pt", "validated.pt"])
def test_no_flipped_bit_of_a_checkpoint_changes_what_is_restored(name: str, tmp_path: Path) -> None:
    written(tmp_path, 7, 0.25)
    path = ModelFolder(tmp_path).checkpoint(7) / name
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        model = nn.Linear(2, 3)
        optimizer = torch.optim.Adam(model.parameters())
        try:
            assert checkpoint.restore(ModelFolder(tmp_path), 7, model, optimizer) == Progress(update=7)
            assert optimizer.state_dict() == torch.optim.Adam(model.parameters()).state_dict()
        except UserError:
            refused += 1
    assert refused > 20


def test_the_weights_of_another_checkpoint_are_an_error_even_with_their_checksum(tmp_path: Path) -> None:
    for update in (7, 8):
        model = written(tmp_path, update, update / 4)
    ours, theirs = (ModelFolder(tmp_path).weights(update).parent for update in (7, 8))
    for path in theirs.iterdir():
        if path.suffix != ".pt":
            shutil.copy(path, ours / path.name)
    with pytest.raises(UserError, match=r"step-7/trainer\.pt: .*the weights beside it are not those that it was saved"):
        checkpoint.restore(ModelFolder(tmp_path), 7, model, torch.optim.Adam(model.parameters()))


def test_a_checkpoint_with_files_of_another_is_an_error(tmp_path: Path) -> None:
    model = written(tmp_path, 7, 0.25)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    checkpoint.save(ModelFolder(tmp_path), model, optimizer, Progress(update=8))
    ModelFolder(tmp_path).checkpoint(8).rename(ModelFolder(tmp_path).checkpoint(9))
    with pytest.raises(UserError, match=r"step-9/trainer\.pt: cannot be used \(it belongs to update 8\); delete"):
        checkpoint.restore(ModelFolder(tmp_path), 9, model, optimizer)
    optimizer.state[model.weight]["exp_avg"] = torch.zeros(5)
    checkpoint.save(ModelFolder(tmp_path), model, optimizer, Progress(update=10))
    with pytest.raises(UserError, match=r"step-10/trainer\.pt: .*exp_avg has shape \(5,\) instead of \(3, 2\)"):
        checkpoint.restore(ModelFolder(tmp_path), 10, model, torch.optim.Adam(model.parameters()))
    (ModelFolder(tmp_path).checkpoint(7) / "trainer.pt").unlink()
    with pytest.raises(UserError, match=r"step-7: has no trainer\.pt, like an averaged model, so training cannot"):
        checkpoint.restore(ModelFolder(tmp_path), 7, model, optimizer)


def test_weights_of_another_shape_name_the_first_that_differs(tmp_path: Path) -> None:
    written(tmp_path, 7, 0.25)
    path = ModelFolder(tmp_path).weights(7)
    with pytest.raises(UserError, match=r"weight: this model has shape \(3, 5\), the file has \(3, 2\)"):
        checkpoint.load_into(nn.Linear(5, 3), path)
    with pytest.raises(UserError, match=r"weight: this model has shape \(2, 3\), the file has \(3, 2\)"):
        checkpoint.load_into(nn.Linear(3, 2), path)
    with pytest.raises(UserError, match=r"bias: this model has shape None, the file has \(3,\)"):
        checkpoint.load_into(nn.Linear(2, 3, bias=False), path)
    weights = {name: weight.to(torch.int8) for name, weight in checkpoint.load_weights(path).items()}
    checkpoint.save_weights(path, weights)
    with pytest.raises(UserError, match=r"weight: its numbers are torch\.int8, not torch\.float32$"):
        checkpoint.load_into(nn.Linear(2, 3), path)


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model folder"):
        ModelFolder(tmp_path).chosen_weights()
    ModelFolder(tmp_path).write_config({})
    with pytest.raises(UserError, match="no checkpoint yet"):
        ModelFolder(tmp_path).chosen_weights()
    (tmp_path / "format_version").write_text("99\n")
    with pytest.raises(UserError, match="format_version is 99, but nmtkit reads 1"):
        ModelFolder(tmp_path).chosen_weights()


def test_the_average_is_the_arithmetic_mean(tmp_path: Path) -> None:
    for update, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        written(tmp_path / "run", update, value)
    used = averaging.average(ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean"), [], last=3)
    assert [path.name for path in used] == ["step-3", "step-2", "step-1"]
    weights = checkpoint.load_weights(ModelFolder(tmp_path / "mean").chosen_weights())
    assert all((tensor == 3.0).all() for tensor in weights.values())


def test_the_average_of_equal_weights_is_these_weights_bit_for_bit(tmp_path: Path) -> None:
    for update in range(1, 8):
        weights = written(tmp_path / "run", update, 0.1).state_dict()
        averaging.average(ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean"), [], last=update)
        for name, mean in checkpoint.load_weights(ModelFolder(tmp_path / "mean").chosen_weights()).items():
            assert mean.dtype == torch.float32
            assert torch.equal(mean, weights[name])


def test_the_average_is_of_the_best_the_last_or_the_given_checkpoints(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for update, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        written(run, update, value)
    ModelFolder(run).write_ranking([[2, 30.0, 1.5], [1, 20.0, 1.6]])

    def mean(**which: object) -> float:
        chosen = {"named": [], "best": None, "last": None, **which}
        output = ModelFolder(tmp_path / "mean")
        averaging.average(ModelFolder(run), output, chosen["named"], chosen["best"], chosen["last"])  # type: ignore[arg-type]
        return float(checkpoint.load_weights(output.chosen_weights())["bias"][0])

    assert mean() == 1.5
    assert mean(best=1) == 2.0
    assert mean(last=2) == 4.0
    assert mean(named=[ModelFolder(run).checkpoint(1), ModelFolder(run).checkpoint(3)]) == 3.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"best": 4}, "has 1 best checkpoint, not 4; a run keeps training.keep_best"),
        ({"last": 4}, "has 1 checkpoint, not 4"),
        ({"best": 1, "last": 1}, "`checkpoints`, `best` and `last` cannot be combined; give one"),
    ],
)
def test_an_impossible_average_is_an_error_with_the_reason(
    arguments: dict[str, int], message: str, tmp_path: Path
) -> None:
    written(tmp_path / "run", 1, 1.0)
    ModelFolder(tmp_path / "run").write_ranking([[1, 20.0, 1.5]])
    with pytest.raises(UserError, match=message):
        averaging.average(ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean"), [], **arguments)
    assert not (tmp_path / "mean").exists()


def test_a_run_without_checkpoints_has_no_average(tmp_path: Path) -> None:
    run, mean = ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean")
    run.path.mkdir()
    run.write_config({})
    with pytest.raises(UserError, match=r"run: has no checkpoint yet; nmtkit train makes one$"):
        averaging.average(run, mean, [], last=1)
    with pytest.raises(UserError, match=r"run: has no validated checkpoint; `last` averages the newest"):
        averaging.average(run, mean, [])


def test_on_a_full_disk_the_old_average_is_kept(tmp_path: Path) -> None:
    """A limit on file sizes simulates a full disk: writes beyond it fail in the same way."""
    run, output = ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean")
    written(run.path, 1, 1.0)
    (run.path / "notes").write_text("x" * 1000)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fails() -> None:
        for size in (0, 100, 500):  # nothing at all, no weights, no notes
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
                with pytest.raises(UserError, match=r"cannot be (written|copied): .*File too large"):
                    averaging.average(run, output, [], last=1)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    fails()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    averaging.average(run, output, [], last=1)
    (output.path / "mine").write_text("kept")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    written(run.path, 2, 2.0)
    fails()
    assert {path: path.read_bytes() for path in before} == before
    averaging.average(run, output, [], last=1)
    assert output.updates() == [2]
    assert (output.path / "mine").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean", "run"]


def test_a_new_average_comes_in_one_step_and_a_killed_one_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, output = ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean")
    written(run.path, 1, 1.0)
    (run.path / ".best.1.tmp").touch()  # being written by the training
    moved = list[Path]()

    def killed(source: Path, target: Path) -> None:
        if Path(target).name == "mean":
            moved.append(Path(target))
            raise KeyboardInterrupt
        os.rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", killed)
        patch.setattr("shutil.rmtree", lambda *_, **__: None)  # a killed process leaves its temporary folder
        with pytest.raises(KeyboardInterrupt):
            averaging.average(run, output, [], last=1)
    assert moved
    assert not output.path.exists()
    averaging.average(run, output, [], last=1)
    assert output.updates() == [1]
    assert not [*output.path.glob(".*.tmp")]


def test_a_checkpoint_that_cannot_be_deleted_does_not_end_the_training(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS keeps the files that a process has open."""

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    keep = {"keep_best": 1, "keep_last": 1, "valid_every": 1, "max_updates": 4}
    with monkeypatch.context() as patch:
        patch.setattr("os.rmdir", busy)
        trained(tmp_path / "run", data, **keep)
    assert len(ModelFolder(tmp_path / "run").updates()) <= 2
    trained(tmp_path / "run", data, **keep | {"max_updates": 5})
    assert not [*ModelFolder(tmp_path / "run").checkpoints.glob(".step-*.tmp")]


@pytest.mark.parametrize("place", ["mean", "run/mean"])
def test_an_average_of_a_run_with_further_folders_can_be_made_repeatedly(tmp_path: Path, place: str) -> None:
    run, output = ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / place)
    for update in (1, 2, 3):
        written(run.path, update, float(update))
        run.tensorboard.mkdir(exist_ok=True)
        (run.tensorboard / "events").write_text("history")
        (run.path / "notes").write_text("mine")
        averaging.average(run, output, [], last=1)
        assert output.updates() == [update]
        assert float(checkpoint.load_weights(output.chosen_weights())["bias"][0]) == update
        assert [path.name for path in output.path.iterdir() if path.is_dir()] == ["checkpoints"]
        assert (output.path / "notes").read_text() == "mine"
    averaging.average(output, ModelFolder(tmp_path / "again"), [], last=1)  # and it is whole


@pytest.mark.parametrize("name", ["mine", "step-²", "step-" + "9" * 30])
def test_the_average_of_a_checkpoint_whose_folder_was_renamed_has_the_number_0(tmp_path: Path, name: str) -> None:
    run, output = ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean")
    written(run.path, 1, 1.0)
    averaging.average(run, output, [run.checkpoint(1).rename(run.checkpoints / name)])
    assert output.updates() == [0]


def test_a_file_that_cannot_be_copied_is_named(tmp_path: Path) -> None:
    written(tmp_path / "run", 1, 1.0)
    (tmp_path / "run" / "notes").symlink_to("nowhere")
    with pytest.raises(UserError, match=r"run/notes: cannot be copied: .*No such file or directory"):
        averaging.average(ModelFolder(tmp_path / "run"), ModelFolder(tmp_path / "mean"), [], last=1)


def test_only_checkpoints_of_one_shape_are_averaged_and_the_run_is_never_overwritten(tmp_path: Path) -> None:
    written(tmp_path / "a", 1, 1.0)
    written(tmp_path / "b", 1, 1.0)
    written(tmp_path / "c", 1, 1.0)
    written(tmp_path / "c", 2, 1.0, width=4)
    a, b, c, mean = (ModelFolder(tmp_path / name) for name in ("a", "b", "c", "mean"))
    with pytest.raises(UserError, match="has different parameters from"):
        averaging.average(c, mean, [], last=2)
    complaint = r"b/checkpoints/step-1: not a checkpoint of .*a; average checkpoints of one run, given as `model`"
    with pytest.raises(UserError, match=complaint):
        averaging.average(a, mean, [b.checkpoint(1)])
    with pytest.raises(UserError, match=r"step-1: is named twice; name each checkpoint once"):
        averaging.average(a, mean, [a.checkpoint(1), tmp_path / "b" / ".." / "a" / "checkpoints" / "step-1"])
    with pytest.raises(UserError, match="b: holds a run or other files"):
        averaging.average(a, b, [], last=1)
    with pytest.raises(UserError, match="has no validated checkpoint; `last` averages"):
        averaging.average(a, mean, [])
    with pytest.raises(UserError, match="would overwrite the run"):
        averaging.average(a, a, [])
