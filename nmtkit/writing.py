"""Writing files: atomic writes, folders that are complete or missing, and locks."""

import errno
import gzip
import io
import logging
import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TextIO, overload
from uuid import uuid4

import zstandard

from nmtkit.errors import UserError

_YOUNG = 5  # seconds within which the creator of a staging folder surely locks it
_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))

# Windows has no flock, no fsync of folders and no select on pipes.
POSIX = find_spec("fcntl") is not None

TEMPORARY = ".*.tmp"  # pattern of files that are being written
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk full

log = logging.getLogger(__name__)


@overload
def atomic_write(path: Path | str, mode: Literal["w"] = "w") -> AbstractContextManager[TextIO]: ...
@overload
def atomic_write(path: Path | str, mode: Literal["wb"]) -> AbstractContextManager[BinaryIO]: ...
def atomic_write(path: Path | str, mode: Literal["w", "wb"] = "w") -> AbstractContextManager[IO[Any]]:
    """A temporary file that is renamed to ``path`` when it is complete and on disk, or deleted after an error.

    Text is UTF-8 with \\n; .gz and .zst are compressed. The target of a symbolic link is replaced, and the mode of an
    existing file is kept. Devices and named pipes are written directly. Raises UserError if it cannot be written.
    """
    path = Path(path)
    # /dev/stdout may be a file, which must not be replaced.
    streams = path.parent in _DEVICES or (path.exists() and not path.is_file() and not path.is_dir())
    return _stream(path, mode) if streams else _atomic_write(real_path(path) if path.is_symlink() else path, mode)


def write_file(path: Path | str, content: str | bytes | memoryview) -> None:
    """Write a file with ``atomic_write``. Raises UserError if it cannot be written."""
    mode: Any = "w" if isinstance(content, str) else "wb"
    with atomic_write(path, mode) as file:
        file.write(content)


def copy_file(source: Path, copy: Path) -> None:
    """Copy a file with ``atomic_write``. Raises UserError if it cannot be written."""
    write_file(copy, source.read_bytes())


def real_path(path: Path) -> Path:
    """The path with links resolved; unlike ``Path.resolve`` it does not raise on a cycle of links."""
    return Path(os.path.realpath(path))


@contextmanager
def _stream(path: Path, mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """A device or pipe, opened for appending because /dev/stdout may be a file with other output."""
    with report_write_errors(path):
        opened = open(path, "ab")  # noqa: SIM115
    with report_write_errors(path, only=FULL), opened, _written(opened, path.suffix, mode) as file:
        yield file


@contextmanager
def _atomic_write(path: Path, mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """A temporary file beside ``path`` that replaces it at the end, by a rename within one folder."""
    # Not the process id, which may be the same in another container; with_name fails for ".".
    temporary = path.parent / TEMPORARY.replace("*", f"{path.name}.{uuid4().hex[:12]}")
    with report_write_errors(path):
        if path.is_dir():  # before the work whose results would be lost
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        opened = open(temporary, "wb")  # noqa: SIM115
    try:
        if path.exists():  # before writing: no user may read the new file who could not read the old one
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        with report_write_errors(path, only=FULL), opened, _written(opened, path.suffix, mode) as file:
            yield file
        with report_write_errors(path):
            # Content before name, so that a power failure leaves no empty file.
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _written(file: BinaryIO, suffix: str, mode: Literal["w", "wb"]) -> IO[Any]:
    """The file, or UTF-8 text with \\n in it, compressed according to ``suffix``."""
    if mode == "wb":
        return file
    packed: Any = file
    if suffix == ".gz":
        packed = gzip.GzipFile("", "wb", fileobj=file)  # without a name, which would be that of the temporary file
    elif suffix == ".zst":
        packed = zstandard.ZstdCompressor().stream_writer(file)
    return io.TextIOWrapper(packed, encoding="utf-8", newline="\n")


def sync(path: Path) -> None:
    """Flush a file, or a folder's list of names, to disk (fsync)."""
    if not POSIX:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def report_write_errors(path: Path, only: tuple[int, ...] = ()) -> Iterator[None]:
    """Turn an OSError while writing ``path`` into a UserError; ``only``: only with these error numbers."""
    try:
        yield
    except OSError as error:
        if only and error.errno not in only:
            raise
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def make_folder(folder: Path) -> None:
    """Make a folder with its parents, or that to which a link points. Raises UserError if it cannot be made."""
    with report_write_errors(folder):
        real_path(folder).mkdir(parents=True, exist_ok=True)


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder in ``folder``, which is created if needed; those of killed processes are deleted."""
    make_folder(folder)
    with report_write_errors(folder):
        # Not a folder that another process has made and not locked yet.
        for old in [old for old in folder.glob(".new-*") if POSIX and time.time() - old.stat().st_mtime > _YOUNG]:
            with suppress(UserError), locked(old, "program"):  # fails while its process is alive
                shutil.rmtree(old, ignore_errors=True)
        staging = tempfile.TemporaryDirectory(prefix=".new-", dir=folder)
    with locked(Path(staging.name), "program"), staging, report_write_errors(folder, only=FULL):
        yield Path(staging.name)


def move_into_place(staging: Path, folder: Path, names: Sequence[str]) -> None:
    """Move the files ``names`` from ``staging`` to ``folder``, and delete those that ``staging`` lacks.

    The last name marks a complete folder: it is deleted first and moved last, so an interrupted move can be detected.
    """
    (folder / names[-1]).unlink(missing_ok=True)
    for name in names:
        if (staging / name).exists():
            sync(staging / name)
            os.replace(staging / name, folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    sync(folder)


@contextmanager
def locked(folder: Path, program: str, shared: bool = False) -> Iterator[None]:
    """Lock ``folder``, which is created if needed, against other programs that write there.

    shared: several processes may hold a shared lock. It is an flock on the file ``.lock``, which the holder may delete
    with the folder, and is released when the process ends. Raises UserError with ``program`` and its process id if the
    lock is taken.
    """
    path = folder / ".lock"
    make_folder(folder)
    if not POSIX:
        yield
        return
    import fcntl

    with report_write_errors(folder):
        file = path.open("ab+", buffering=0)
    with file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            # The previous holder may have deleted the file that was opened here.
            free = path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))
        except BlockingIOError:
            free = False
        except OSError as error:  # some network file systems have no locks
            log.warning("%s: cannot be locked (%s); start no other program that writes there", folder, error.strerror)
            free = True
        if not free:
            file.seek(0)
            other = f"another {program} (process {file.read().decode() or '?'})"
            raise UserError(f"{folder}: {other} is writing there; wait, stop it or choose another folder")
        with suppress(OSError):  # the process id is only for the message, and the disk may be full
            file.truncate(0)
            file.write(f"{os.getpid()} on {platform.node()}".encode())
        yield
