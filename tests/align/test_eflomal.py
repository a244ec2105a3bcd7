import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nmtkit.align.eflomal import align_with_eflomal
from nmtkit.errors import UserError


@pytest.fixture
def align(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Aligns with a program that replaces eflomal, the only one on the PATH, and runs the given line of Python."""

    python = sys.executable

    def run(code: str) -> None:
        (tmp_path / "bin").mkdir()
        if code:
            program = tmp_path / "bin" / "eflomal-align"
            program.write_text(f"#!{python}\n{code}\n")
            program.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
        monkeypatch.setenv("PATH", f"{tmp_path / 'elsewhere'}:/usr/bin:/bin")
        (tmp_path / "src").write_text("a\nb\n")
        (tmp_path / "tgt").write_text("x\ny\n")
        align_with_eflomal(*(tmp_path / name for name in ("src", "tgt", "forward", "reverse")))

    return run


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_eflomal_gets_both_files_and_writes_both_directions(align: Callable[[str], None], tmp_path: Path) -> None:
    align(
        "import sys; value = dict(zip(sys.argv[2::2], sys.argv[3::2])); "
        "[open(value[flag], 'w').write(open(value[text]).read()) for flag, text in (('-f', '-s'), ('-r', '-t'))]"
    )
    assert (tmp_path / "forward").read_text() == "a\nb\n"
    assert (tmp_path / "reverse").read_text() == "x\ny\n"


def test_the_eflomal_that_pip_installed_here_has_precedence(align: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "eflomal-align"
    other.write_text(f"#!{sys.executable}\nimport sys; sys.exit('another environment')\n")
    other.chmod(0o755)
    with pytest.raises(UserError, match="bin/eflomal-align failed with status 3: this environment"):
        align("import sys; print('this environment'); sys.exit(3)")


def test_without_eflomal_the_message_gives_both_remedies(align: Callable[[str], None]) -> None:
    with pytest.raises(UserError, match=r"eflomal-align is not installed; .*nmtkit\[align\].*`pharaoh`"):
        align("")


def test_the_error_of_eflomal_is_passed_on(align: Callable[[str], None]) -> None:
    with pytest.raises(UserError, match=r"failed with status 3: out of luck; fix that, or pass .* `pharaoh`"):
        align("import sys; print('Traceback\\nout of luck', file=sys.stderr); sys.exit(3)")


def test_an_error_of_eflomal_need_not_be_utf_8(align: Callable[[str], None]) -> None:
    with pytest.raises(UserError, match="failed with status 1: pas de m\ufffdmoire; fix that"):
        align("import sys; sys.stderr.buffer.write(b'pas de m\\xe9moire\\n'); sys.exit(1)")


def test_an_aligner_that_fails_after_its_last_line_is_an_error(align: Callable[[str], None]) -> None:
    with pytest.raises(UserError, match="failed with status 1: disk full"):
        align("import sys; [open(path, 'w').write('0-0\\n' * 2) for path in sys.argv[7::2]]; sys.exit('disk full')")


@pytest.mark.parametrize("code", ["pass", "import sys; [open(path, 'w').write('0-0\\n') for path in sys.argv[7::2]]"])
def test_an_aligner_that_omits_lines_is_an_error(align: Callable[[str], None], code: str) -> None:
    with pytest.raises(UserError, match="failed with status 0: no message"):
        align(code)


def test_the_program_that_eflomal_runs_itself_ends_with_the_command(
    align: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"

    def terminate() -> None:
        deadline = time.monotonic() + 30
        while not (child.exists() and child.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # as the command line does
    threading.Thread(target=terminate).start()
    try:
        with pytest.raises(SystemExit):
            align(
                "import signal, subprocess; signal.signal(signal.SIGINT, signal.default_int_handler); "
                f"subprocess.run(['sh', '-c', 'echo $$ > {child}; exec sleep 60'])"
            )
    finally:
        signal.signal(signal.SIGTERM, before)
    deadline = time.monotonic() + 30  # seconds, for the system to remove the killed process
    while exists(int(child.read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not exists(int(child.read_text()))
