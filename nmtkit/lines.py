"""Lines in and out, files that are written whole or not at all, and folders into which one program at a time writes.

A line ends at \\n and nowhere else.
"""

import codecs
import errno
import gzip
import io
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TextIO, cast, overload

import zstandard

from nmtkit.errors import UserError

_BLOCK = 1 << 17
_COLUMN = re.compile(r"(.+\.tsv(?:\.gz|\.zst)?):([1-9][0-9]*)")
_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
log = logging.getLogger(__name__)

# Windows has no such locks, cannot be asked to write a folder to the disk, and waits for no pipe.
POSIX = find_spec("fcntl") is not None

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the system's errors for a disk without room


def raw_lines(path: Path | str) -> Iterator[bytes]:
    """Each line of a file as bytes, \\n included. "-" is standard input; .gz and .zst are unpacked.

    FILE.tsv:2, or FILE.tsv.gz:2, is the second column of FILE.tsv. Raises UserError for a file that cannot be read, is
    damaged, or has no such column in a line.
    """
    file, column = file_of(path)
    return _lines_of_file(file) if column is None else _column(file, column)


def check_read_once(paths: Iterable[Path | str]) -> None:
    """Raise UserError if standard input is named more than once: only its first reader would get lines."""
    if list(map(str, paths)).count("-") > 1:
        raise UserError("-: is standard input, which can be read once; name a file in the other place")


def file_of(path: Path | str) -> tuple[Path, int | None]:
    """The file of a name as ``raw_lines`` takes it, and the column, from 1, if the name has one."""
    match = _COLUMN.fullmatch(str(path))
    return (Path(match[1]), int(match[2])) if match else (Path(path), None)


def _column(path: Path, column: int) -> Iterator[bytes]:
    """One column of a table, from 1, as the lines of a file. Raises UserError for a line that has too few."""
    for number, line in enumerate(_lines_of_file(path), 1):
        columns = _content(line).split(b"\t")
        if len(columns) < column:
            raise UserError(f"{path}:{number}: no column {column} among {len(columns)}; mend the line, or name another")
        yield columns[column - 1] + b"\n"


def _lines_of_file(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked by its suffix. Raises UserError for a file that cannot be read, or is damaged."""
    suffix = path.suffix
    try:
        if str(path) == "-":
            if sys.stdin is None:
                raise UserError("standard input is closed; name a file")
            yield from sys.stdin.buffer
        elif suffix == ".zst":
            yield from _zstd_lines(path)
        elif suffix == ".gz":
            with gzip.open(path) as unpacked, io.BufferedReader(cast(io.RawIOBase, unpacked), _BLOCK) as file:
                yield from file
        else:
            with open(path, "rb") as file:
                yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise UserError(f"{path}: damaged or cut short ({error}); fetch or pack it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _zstd_lines(path: Path) -> Iterator[bytes]:
    """Reads frame by frame, because zstandard's own file object takes a file that is cut short for a whole one."""
    rest, frame = b"", None  # the beginning of a line that goes on in the next block
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            while block:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                *lines, rest = (rest + frame.decompress(block)).split(b"\n")
                yield from (line + b"\n" for line in lines)
                block = frame.unused_data
                if frame.eof:
                    frame = None
    if frame is not None:
        raise EOFError("the last frame has no end")
    if rest:
        yield rest


def read_lines(path: Path | str) -> Iterator[str]:
    """Each line of a UTF-8 file without its \\n or \\r\\n; the last one counts even without \\n.

    A byte order mark at the start is left out. Raises UserError for a file that cannot be read, and with file and line
    for bytes that are not UTF-8.
    """
    for number, raw in enumerate(raw_lines(path), 1):
        yield parse_line(raw, path, number)


def parse_line(raw: bytes, path: Path | str, number: int) -> str:
    """Line ``number`` of ``path`` as text; raises UserError where it is not UTF-8."""
    content = _content(raw)
    try:
        line = content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = "standard input" if str(path) == "-" else path
        raise UserError(
            f"{place}:{number}: byte 0x{content[error.start]:02X} is not UTF-8; {conversion(content)}"
        ) from None
    return _without_mark(line, number)


def conversion(line: bytes) -> str:
    """Advice on how to convert a file with this line, best its first, to UTF-8.

    UTF-16 begins with a byte order mark, and in Latin script half of its bytes are zeros; all else counts as Latin-1.
    """
    utf16 = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or 4 * line.count(0) > len(line)
    return f"convert the file, for example with: iconv -f {'utf-16' if utf16 else 'latin1'} -t utf-8"


def decode_line(raw: bytes, number: int) -> str:
    """Line ``number`` for a filter, which has to answer every one: bytes that are not UTF-8 become U+FFFD."""
    return _without_mark(_content(raw).decode("utf-8", errors="replace"), number)


def _without_mark(line: str, number: int) -> str:
    """Line ``number`` without a byte order mark, which only the first line of a file can have."""
    return line.removeprefix("\ufeff") if number == 1 else line


def _content(raw: bytes) -> bytes:
    """A line without its end."""
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def count_lines(path: Path | str) -> int:
    """The number of lines in a file; the last one counts even without \\n."""
    return sum(1 for _ in raw_lines(path))


@overload
def atomic_write(path: Path | str, mode: Literal["w"] = "w") -> AbstractContextManager[TextIO]: ...
@overload
def atomic_write(path: Path | str, mode: Literal["wb"]) -> AbstractContextManager[BinaryIO]: ...
def atomic_write(path: Path | str, mode: Literal["w", "wb"] = "w") -> AbstractContextManager[IO[Any]]:
    """A file that appears under its name only when it is complete and on disk; an error leaves no trace of it.

    Text is UTF-8 with \\n, compressed if the name ends in .gz or .zst. A link stays, and its target is replaced. The
    mode of an existing file is kept. A device or a named pipe is written to directly. Raises UserError where the file
    cannot be written.
    """
    path = Path(path)
    # /dev/stdout may be a file, and only the shell knows whether it meant to replace it.
    streams = path.parent in _DEVICES or (path.exists() and not path.is_file() and not path.is_dir())
    return _stream(path, mode) if streams else _atomic_write(real_path(path) if path.is_symlink() else path, mode)


def copy_file(source: Path, copy: Path) -> None:
    """Write the content of ``source`` to ``copy`` as ``atomic_write`` does. Raises UserError where it cannot."""
    with atomic_write(copy, "wb") as file:
        file.write(source.read_bytes())


def real_path(path: Path) -> Path:
    """Where a path leads, links followed. Unlike ``resolve`` it does not raise for links that form a cycle."""
    return Path(os.path.realpath(path))


@contextmanager
def _stream(path: Path, mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """A device or pipe, written to directly; opened to append, since /dev/stdout may hold output of other programs."""
    with report_write_errors(path):
        opened = open(path, "ab") if mode == "wb" else _open_text(path, path.suffix, "at")  # noqa: SIM115
    with report_write_errors(path, only=FULL), opened as file:
        yield file


@contextmanager
def _atomic_write(path: Path, mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """A file beside ``path`` that takes its place in the end: a rename in one folder is done whole or not at all."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"  # of "." too, which has no name
    with report_write_errors(path):
        opened = open(temporary, "wb") if mode == "wb" else _open_text(temporary, path.suffix, "wt")  # noqa: SIM115
    try:
        if path.exists():  # before anything is in it: who may read the old file may read the new one, and nobody else
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        with report_write_errors(path, only=FULL), opened as file:
            yield file
        with report_write_errors(path):
            # The content first, then the name: after a power cut the name must not stand for an empty file.
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open_text(path: Path, suffix: str, mode: Literal["wt", "at"]) -> TextIO:
    """A text file in UTF-8 with \\n, compressed according to ``suffix``, which is that of the final name."""
    if suffix == ".gz":
        return cast(TextIO, gzip.open(path, mode, encoding="utf-8", newline="\n"))
    if suffix == ".zst":
        return cast(TextIO, zstandard.open(path, mode, encoding="utf-8", newline="\n"))
    return open(path, mode, encoding="utf-8", newline="\n")


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on disk; where a system can be asked for it."""
    if not POSIX:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def report_write_errors(path: Path, only: tuple[int, ...] = ()) -> Iterator[None]:
    """Turns an OSError in writing ``path`` into a UserError (``only`` those with these error numbers, if given)."""
    try:
        yield
    except OSError as error:
        if only and error.errno not in only:
            raise
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """A new temporary folder inside ``folder``, which is created if need be.

    The folders of processes that were killed are deleted first.
    """
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(".new-*") if POSIX else ():
            with suppress(UserError), locked(old, "program"):  # which a living process holds
                shutil.rmtree(old, ignore_errors=True)
        staging = tempfile.TemporaryDirectory(prefix=".new-", dir=folder)
    with locked(Path(staging.name), "program"), staging, report_write_errors(folder, only=FULL):
        yield Path(staging.name)


def move_into_place(staging: Path, folder: Path, names: Sequence[str]) -> None:
    """Move the finished files ``names`` of ``staging`` into ``folder``; those that were not made are removed there.

    The last of them marks a complete folder: it is removed first and moved last, so that a folder left half-way counts
    as unfinished instead of mixing old and new files.
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
    """Keep other programs out of ``folder``, which is created if need be, while this one writes there.

    With ``shared``, other processes may hold the lock as well if they share it, too. The lock is on the file ``.lock``,
    which its holder may delete together with the folder; the system releases the lock of a dead process. Raises
    UserError naming the ``program`` and its process where the lock is taken.
    """
    path = folder / ".lock"
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not POSIX:
        yield
        return
    import fcntl

    with report_write_errors(folder):
        file = path.open("ab+", buffering=0)
    with file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            # Its last holder may have deleted the file since it was opened here.
            free = path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))
        except BlockingIOError:
            free = False
        except OSError as error:  # some network file systems have no locks
            log.warning("%s: cannot be locked (%s); start nothing else that writes there", folder, error.strerror)
            free = True
        if not free:
            file.seek(0)
            raise UserError(
                f"{folder}: another {program} (process {file.read().decode() or '?'}) is at work there; wait for its "
                "end, stop it, or choose another folder"
            )
        with suppress(OSError):  # the process number only serves the message, and the disk may be full
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield
