import errno
import gzip
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nmtkit import writing
from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.writing import atomic_write, locked, move_into_place, staging_folder


@pytest.mark.parametrize("name", ["text", "text.gz", "text.zst"])
def test_what_is_written_is_what_is_read(tmp_path: Path, name: str) -> None:
    with atomic_write(tmp_path / name) as file:
        file.write("ä\r\n\u2028\nend\n")
        assert not (tmp_path / name).exists()
    assert list(read_lines(tmp_path / name)) == ["ä", "\u2028", "end"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["text", "text.gz", "text.zst"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / name) as file:  # noqa: PT012
        file.write("new")
        raise KeyboardInterrupt
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, b"old")]


def test_a_gzip_file_does_not_have_the_name_of_the_temporary_file(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "text.gz") as file:
        file.write("text\n")
    header = (tmp_path / "text.gz").read_bytes()[:10]
    assert header[3] == 0  # no flags: no name follows (RFC 1952)


def test_binary_files_are_written_whole_too(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "weights.gz", "wb") as file:
        file.write(b"\xff\n")
    assert (tmp_path / "weights.gz").read_bytes() == b"\xff\n"


def test_a_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    (tmp_path / "loose").symlink_to(tmp_path / "far" / "new")
    for name in ("link", "loose"):
        with atomic_write(tmp_path / name) as file:
            file.write("new")
        assert (tmp_path / name).is_symlink()
    assert {path.name: path.read_text() for path in (tmp_path / "far").iterdir()} == {"file": "new", "new": "new"}


@pytest.mark.parametrize("name", ["pipe", "pipe.gz"])
def test_a_named_pipe_stays_and_is_written_to(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / name).read_bytes)
        with atomic_write(tmp_path / name) as file:
            file.write("text\n")
        content = read.result(timeout=10)
    assert (gzip.decompress(content) if name.endswith("gz") else content) == b"text\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("redirection", ["> out", ">> out", "| cat > out"])
def test_dev_stdout_is_written_without_being_replaced(tmp_path: Path, redirection: str) -> None:
    (tmp_path / "out").write_text("before\n")
    python = "from nmtkit.writing import atomic_write as w\nwith w('/dev/stdout') as f: f.write('text\\n')"
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = f'"{sys.executable}" -c "$0" {redirection}'
    subprocess.run(["bash", "-c", command, python], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "out").read_text() == ("before\ntext\n" if ">>" in redirection else "text\n")


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "new"):
        pass
    (tmp_path / "plain").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"no/file: cannot be written: No such file"),
        atomic_write(tmp_path / "no/file"),
    ):
        pass
    for folder in (tmp_path, ""):
        with pytest.raises(UserError, match=r"written: Is a directory"), atomic_write(folder):
            pytest.fail("begins, although its results cannot be kept")
    assert not list(tmp_path.iterdir())


def test_only_a_full_disk_becomes_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written: No space left"), atomic_write(tmp_path / "file"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(ConnectionError), atomic_write(tmp_path / "file"):
        raise ConnectionError


def test_finished_files_replace_old_ones_and_missing_ones_are_deleted(tmp_path: Path) -> None:
    for name in ("a", "b", "other"):
        (tmp_path / name).write_text("old")
    with staging_folder(tmp_path) as staging:
        (staging / "a").write_text("new")
        (staging / "c").write_text("new")
        (staging / "scrap").write_text("new")
        move_into_place(staging, tmp_path, ["a", "b", "c"])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "new", "c": "new", "other": "old"}


def test_an_interrupted_move_leaves_no_folder_that_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, tmp_path / "staging"):
        folder.mkdir(exist_ok=True)
        for name in ("a", "b", "complete"):
            (folder / name).write_text(folder.name)
    moved = list[str]()

    def replace(source: Path, target: Path) -> None:
        assert not (tmp_path / "complete").exists()
        if moved:
            raise KeyboardInterrupt
        moved.append(target.name)

    monkeypatch.setattr("nmtkit.writing.os.replace", replace)
    with pytest.raises(KeyboardInterrupt):
        move_into_place(tmp_path / "staging", tmp_path, ["a", "b", "complete"])


def test_content_is_on_disk_before_its_name_and_the_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure leaves no empty file, and what has been written stays."""
    done, rename = list[tuple[str, Path]](), os.replace

    def replace(source: Path, target: Path) -> None:
        assert done[-1:] == [("on disk", source)]
        done.append(("named", target))
        rename(source, target)

    monkeypatch.setattr(writing, "sync", lambda path: done.append(("on disk", path)))
    monkeypatch.setattr("nmtkit.writing.os.replace", replace)
    with atomic_write(tmp_path / "a") as file:
        file.write("new")
    assert done[-2:] == [("named", tmp_path / "a"), ("on disk", tmp_path)]
    (tmp_path / "folder").mkdir()
    move_into_place(tmp_path, tmp_path / "folder", ["a"])
    assert done[-2:] == [("named", tmp_path / "folder" / "a"), ("on disk", tmp_path / "folder")]


STAGING = """
import sys
import tracemalloc
from pathlib import Path
from nmtkit.writing import staging_folder
with staging_folder(Path(sys.argv[1])) as staging:
    (staging / "large").touch()
    print(staging, flush=True)
    sys.stdin.read()
"""


def test_a_staging_folder_is_deleted_by_the_next_process_if_its_own_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STAGING, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().rstrip())
        with staging_folder(tmp_path) as staging:
            assert {*tmp_path.iterdir()} == {left, staging}
        assert (left / "large").exists()
        other.kill()
    assert [*tmp_path.iterdir()] == [left]
    with staging_folder(tmp_path) as staging:
        assert {*tmp_path.iterdir()} == {left, staging}  # another process may have made it and not locked it yet
    os.utime(left, (0, 0))
    with staging_folder(tmp_path) as staging:
        assert [*tmp_path.iterdir()] == [staging]


def test_a_staging_folder_needs_a_writable_parent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file: cannot be written"), staging_folder(tmp_path / "file"):
        pass


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    for mode in (0o600, 0o664):
        (tmp_path / "file").touch()
        (tmp_path / "file").chmod(mode)
        with atomic_write(tmp_path / "file") as file:
            (new,) = (path for path in tmp_path.iterdir() if path.name != "file")
            assert stat.S_IMODE(new.stat().st_mode) == mode  # from the start
            file.write("secret")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_two_writers_of_a_file_do_not_share_a_temporary_one(tmp_path: Path) -> None:
    """Even with the same process id, as in two containers."""
    with atomic_write(tmp_path / "file") as one:
        one.write("one")
        with atomic_write(tmp_path / "file") as other:
            other.write("other")
        assert (tmp_path / "file").read_text() == "other"
    assert (tmp_path / "file").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_folder_that_a_link_points_to_is_made(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "purged" / "folder")
    with locked(tmp_path / "link", "prep"), staging_folder(tmp_path / "link") as staging:
        assert staging.resolve().parent == (tmp_path / "purged" / "folder").resolve()


def test_a_lock_is_held_by_one_or_shared_by_several(tmp_path: Path) -> None:
    with locked(tmp_path / "new", "baker"):
        for shared in (False, True):
            with pytest.raises(
                UserError, match=rf"new: another cook \(process {os.getpid()} on .+\) is writing there; wait"
            ):
                locked(tmp_path / "new", "cook", shared).__enter__()
    cooks = [locked(tmp_path / "new", "cook", True) for _ in range(2)]
    holder = rf"another baker \(process {os.getpid()} on {re.escape(platform.node())}\) is"  # and no earlier one
    with cooks[0], cooks[1], pytest.raises(UserError, match=holder):
        locked(tmp_path / "new", "baker").__enter__()
    locked(tmp_path / "new", "baker").__enter__()


def test_a_lock_that_went_with_its_folder_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_until_the_other_is_done(*arguments: object) -> None:
        shutil.rmtree(tmp_path / "folder")

    monkeypatch.setattr("fcntl.flock", wait_until_the_other_is_done)
    with pytest.raises(UserError, match=r"another prep \(process \?\) is writing there"):
        locked(tmp_path / "folder", "prep").__enter__()


def test_without_locks_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with locked(tmp_path, "prep"):
        assert "cannot be locked (No locks available); start no other program that writes there" in caplog.text
