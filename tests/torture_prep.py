"""Kill ``nmtkit prep`` at random moments, start it again with the same command, and compare the final result.

    python -m tests.torture_prep -s en -t de --train corpus.en.gz corpus.de.gz --bpe 8000     # any options of prep

Ten kill -9 of its first process, or as many as the variable KILLS says; the others have to end by themselves. Runs are
repeated until there were enough, and each has to leave the files of an undisturbed run, byte by byte, and no others.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        print(torture_prep(Path(folder), sys.argv[1:], int(os.environ.get("KILLS", "10")), random.Random(1)))


def torture_prep(folder: Path, options: list[str], kills: int, choose: random.Random) -> str:
    """A description of the runs; AssertionError if one did not end like the undisturbed one."""
    command = [sys.executable, "-m", "nmtkit", "prep", *options, "-o"]
    began = time.monotonic()
    subprocess.run([*command, str(folder / "peace")], check=True, capture_output=True)
    longest = time.monotonic() - began
    expected = files(folder / "peace")
    killed = runs = resumed = 0
    while killed < kills:
        runs += 1
        war, status = folder / f"war-{runs}", -9
        while status == -9:
            with subprocess.Popen([*command, str(war)], stderr=subprocess.PIPE, text=True) as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(choose.uniform(0, longest))
                process.kill()
                _, shown = process.communicate()
            status = process.returncode
            assert status in (0, -9), shown
            killed += status == -9
            resumed += "resuming: " in shown
        assert files(war) == expected, f"run {runs} ended otherwise"
    return (
        f"{killed} kills in {runs} runs of {longest:.0f} s; {resumed} starts resumed from shards that were done; every "
        f"run left the {len(expected)} files of the undisturbed one"
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()
