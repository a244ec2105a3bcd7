"""Arrays of an ``.npz`` file (a zip of NumPy's ``.npy`` files), read without pickle and within limits."""

import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from nmtkit.errors import UserError
from nmtkit.machine.memory import free_memory

Array = npt.NDArray[np.generic]

_MOST = 100  # maximum size of the arrays over that of the file: weights hardly compress
_BROKEN = (OSError, ValueError, EOFError, SyntaxError, OverflowError, RuntimeError, MemoryError, zlib.error,
           zipfile.BadZipFile, tokenize.TokenError)  # fmt: skip


def names(path: Path) -> list[str]:
    """The names of the arrays in a file; [] if it is not an ``.npz`` file."""
    try:
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file:
                return [name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy")]
    except _BROKEN:
        pass
    return []


def read_npz(path: Path, wanted: Callable[[str], bool]) -> dict[str, Array]:
    """The ``wanted`` arrays of a file by name.

    Raises UserError for a damaged file, for arrays of Python objects, and for arrays that do not fit into memory or
    are far larger than the file.
    """
    try:
        with zipfile.ZipFile(path) as file:
            entries = {each.filename.removesuffix(".npy"): each for each in file.infolist()}
            if len(entries) < len(file.infolist()):
                raise ValueError("two arrays have the same name")
            wanted_ones = {name: entry for name, entry in entries.items() if wanted(name)}
            size = sum(entry.file_size for entry in wanted_ones.values())
            if size > _MOST * path.stat().st_size:
                raise UserError(f"{path}: its arrays are more than {_MOST} times as large as the file; refused")
            if size > (free := free_memory(torch.device("cpu"))):
                raise UserError(f"{path}: its arrays need {size >> 20:,} MiB of memory, {free >> 20:,} are free")
            return {name: _array(file, entry) for name, entry in wanted_ones.items()}
    except _BROKEN as error:
        reason = str(error).partition("\n")[0][:100] or type(error).__name__
        raise UserError(f"{path}: is damaged or not an .npz file ({reason}); download it again") from None


def _array(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    """The array of an entry. Raises ValueError if its size contradicts its header, or it has Python objects."""
    try:
        with file.open(entry) as content:
            array: Array = np.lib.format.read_array(content, allow_pickle=False)
            if content.read(1):
                raise ValueError("is longer than its header says")
            return array
    except ValueError as error:
        raise ValueError(f"{entry.filename}: {error}") from None
