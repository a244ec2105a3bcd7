import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmtkit.errors import UserError
from nmtkit.folders import CHECKSUMS, ModelFolder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFolder:
    """A run with the checkpoints 10, 20 and 30, of which 20 is the best, in the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = ModelFolder(Path("run"))
    for update in (10, 20, 30):
        folder.checkpoint(update).mkdir(parents=True)
    folder.write_config({})
    folder.write_ranking([[20, 30.0, 1.5], [10, 20.0, 1.6]])
    return folder


def test_a_path_selects_the_model_or_one_of_its_checkpoints(run: ModelFolder) -> None:
    assert ModelFolder.at(Path("run")) == run
    assert ModelFolder.at(Path("run")).chosen_weights() == run.weights(20)
    for path in ("run/checkpoints/step-30", "run/checkpoints/step-30/", "./run/checkpoints/../checkpoints/step-30"):
        chosen = ModelFolder.at(Path(path))
        assert chosen.chosen_weights().resolve() == run.weights(30).resolve()
        assert ModelFolder.at(chosen.named) == chosen
    Path("mine").symlink_to("run/checkpoints/step-10")
    assert ModelFolder.at(Path("mine")).chosen_weights() == run.weights(10).resolve()


def test_a_checkpoint_may_be_given_from_within_its_folder(run: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.checkpoints)
    assert ModelFolder.at(Path("step-10")).chosen_weights().resolve() == Path("step-10/model.safetensors").resolve()


def test_a_copy_of_a_checkpoint_under_another_name_is_not_counted(run: ModelFolder) -> None:
    for name in ("step-020", "step-20b", "step-+5"):
        (run.checkpoints / name).mkdir()
    assert run.updates() == [10, 20, 30]


@pytest.mark.parametrize(("name", "update"), [("best", 20), ("last", 30), ("10", 10)])
def test_a_checkpoint_is_the_best_the_last_or_a_number(run: ModelFolder, name: str, update: int) -> None:
    chosen = ModelFolder.at(Path("run"), name)
    assert chosen.chosen_weights() == run.weights(update)
    assert str(chosen) == f"run/checkpoints/step-{update}"
    assert chosen.translations("test") == run.checkpoint(update) / "test.hyp"


@pytest.mark.parametrize(
    ("path", "checkpoint", "wanted"),
    [("run", "40", "`checkpoint` 40"), ("run", "newest", "`checkpoint` newest"),
     ("run/checkpoints/step-40", None, "run/checkpoints/step-40")],
)  # fmt: skip
def test_a_missing_checkpoint_is_an_error_with_the_existing_ones(
    run: ModelFolder, path: str, checkpoint: str | None, wanted: str
) -> None:
    with pytest.raises(UserError) as refused:
        ModelFolder.at(Path(path), checkpoint)
    assert str(refused.value) == f"{wanted}: does not exist; the checkpoints of run are 10, 20, 30, the best is 20"


def test_a_checkpoint_with_a_huge_number_does_not_exist(run: ModelFolder) -> None:
    with pytest.raises(UserError, match=r"^`checkpoint` 9+: does not exist; the checkpoints of run are"):
        ModelFolder.at(Path("run"), "9" * 5_000)


def test_an_error_lists_only_the_newest_checkpoints(run: ModelFolder) -> None:
    for update in range(100, 130):
        run.checkpoint(update).mkdir()
    with pytest.raises(UserError, match=r"are \.\.\., 110, 111, .* 128, 129, the best is 20"):
        ModelFolder.at(Path("run"), "40")


def test_a_folder_without_checkpoints_is_an_error(run: ModelFolder) -> None:
    with pytest.raises(
        UserError, match=r"^run/checkpoints/step-10: is a checkpoint itself; leave `checkpoint` last out$"
    ):
        ModelFolder.at(run.checkpoint(10), "last")
    Path("empty").mkdir()
    with pytest.raises(UserError, match=r"^empty: not a model folder"):
        ModelFolder.at(Path("empty"), "last")
    ModelFolder(Path("empty")).write_config({})
    for path, checkpoint in (("empty", "last"), ("empty", "10"), ("empty/checkpoints/step-10", None)):
        with pytest.raises(UserError, match=r"^empty: has no checkpoint yet; nmtkit train makes one$"):
            ModelFolder.at(Path(path), checkpoint)
    (Path("empty") / "ensemble.yaml").touch()
    with pytest.raises(
        UserError, match=r"^empty: an ensemble, whose members have one checkpoint each; leave `checkpoint`"
    ):
        ModelFolder.at(Path("empty"), "last")


def test_a_folder_that_cannot_be_listed_is_named(run: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(UserError, match=r"^run: cannot be read: Permission denied$"):
        run.check()


def test_a_model_folder_may_have_the_name_of_a_checkpoint(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "checkpoints" / "step-5")
    folder.checkpoint(7).mkdir(parents=True)
    folder.write_config({})
    assert ModelFolder.at(folder.path).chosen_weights() == folder.weights(7)


def test_a_model_that_replaces_another_has_none_of_its_files_and_all_of_the_users(run: ModelFolder) -> None:
    for name in ("bpe.src", "vocab.tgt", "notes.txt"):
        (run.path / name).write_text("old")
    with run.replaced() as new:
        new.write_config({"a": 1})
        new.text.vocabulary("tgt").write_text("new")
        new.checkpoint(0).mkdir(parents=True)
    assert not run.text.merges("src").exists()
    assert run.updates() == [0]
    assert (run.text.vocabulary("tgt").read_text(), (run.path / "notes.txt").read_text()) == ("new", "old")


def test_of_a_model_that_replaces_another_the_weights_come_last(
    run: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process leaves no checkpoint without its other files."""
    moved = list[str]()
    monkeypatch.setattr("nmtkit.folders.os.replace", lambda source, target: moved.append(target.name))
    with run.replaced() as new:
        for name in ("a", "config.yaml", "vocab.src"):
            (new.path / name).touch()
        new.checkpoint(0).mkdir(parents=True)
    assert sorted(moved) == ["a", "checkpoints", "config.yaml", "vocab.src"]
    assert moved[-1] == "checkpoints"


def test_a_killed_process_leaves_no_checksums_of_an_older_configuration(
    run: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, content: str) -> None:
        raise KeyboardInterrupt

    run.seal()
    monkeypatch.setattr("nmtkit.folders.write_file", killed)
    with pytest.raises(KeyboardInterrupt):
        run.write_config({"a": 1})
    assert not (run.path / CHECKSUMS).exists()


def test_every_file_but_weights_and_history_is_verified(run: ModelFolder) -> None:
    names = ("config.yaml", "data.json", "origin.json", "ensemble.yaml", "prep.yaml", "vocab.src", "lexicon.tsv")
    for name in names:
        (run.path / name).write_text(name)
    run.seal()
    for name in names:
        (run.path / name).write_text("changed")
        with pytest.raises(UserError, match=f"{name}: does not match its checksum"):
            run.check_sums()
        (run.path / name).write_text(name)
    run.check_sums()


def test_a_file_that_is_damaged_while_it_is_copied_is_detected(
    run: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = ModelFolder(tmp_path / "copy")
    monkeypatch.setattr("shutil.copy2", lambda file, folder: (folder / file.name).write_text("damaged"))
    run.copy_settings(copy)
    with pytest.raises(UserError, match=r"copy/config\.yaml: does not match its checksum"):
        copy.check_sums()
