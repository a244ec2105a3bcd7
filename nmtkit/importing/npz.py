"""Arrays of an ``.npz`` file, read without pickle and without more memory than the file's size suggests."""

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmtkit.errors import UserError

Array = npt.NDArray[np.generic]

_MOST = 100  # times the size of the file: floating-point weights hardly compress


def names(path: Path) -> list[str]:
    """The names of the arrays in a file; [] if it is no ``.npz`` file."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as file:
        return [name.removesuffix(".npy") for name in file.namelist()]


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of a file by name. Raises UserError for a damaged file, and for one that expands to far more."""
    try:
        with zipfile.ZipFile(path) as file:
            if sum(entry.file_size for entry in file.infolist()) > _MOST * path.stat().st_size:
                raise UserError(f"{path}: its arrays are more than {_MOST} times as large as the file: refused")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, SyntaxError, MemoryError, NotImplementedError) as error:
        raise UserError(f"{path}: not a whole .npz file ({str(error)[:100]}); download it again") from None
