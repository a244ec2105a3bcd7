"""The word aligner eflomal (Östling & Tiedemann 2016), run as a separate program."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.lines import count_lines

_PROGRAM = "eflomal-align"


def align_with_eflomal(src: Path, tgt: Path, forward: Path, reverse: Path) -> None:
    """Align two parallel tokenised files, and write a Pharaoh file for each direction.

    eflomal samples, so results vary slightly between runs; it ignores case and skips lines of more than 1,024 words.
    Raises UserError if it is not installed or fails.
    """
    beside_python = str(Path(sys.executable).parent)  # pip's folder, even if the environment is not activated
    program = shutil.which(_PROGRAM, path=os.pathsep.join([beside_python, os.environ.get("PATH", os.defpath)]))
    if program is None:
        remedy = "pip install 'nmtkit[align]' (needs a C compiler), or pass another aligner's output as `pharaoh`"
        raise UserError(f"the aligner {_PROGRAM} is not installed; {remedy}")
    command = [program, "--overwrite", *map(str, ("-s", src, "-t", tgt, "-f", forward, "-r", reverse))]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace"
    ) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            # As on Ctrl-C, so that it ends its own child process, which would survive a kill of this one.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            process.kill()
            raise
    lines = count_lines(src)
    if process.returncode or any(not path.exists() or count_lines(path) != lines for path in (forward, reverse)):
        last = (out + err).strip().rpartition("\n")[2]
        reason = f"status {process.returncode}: {last or 'no message'}"
        raise UserError(f"{program} failed with {reason}; fix that, or pass another aligner's output as `pharaoh`")
