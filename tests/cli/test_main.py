import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

import nmtkit as package
from nmtkit.cli import main
from nmtkit.errors import UserError

Run = Callable[..., Any]  # the command line of tests/conftest.py

COMMANDS = (
    "doctor prep align vocab train average ensemble import tune translate serve posunk score contrast report inspect "
    "models"
).split()


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes a command that raises the given exception."""

    def arrange(error: BaseException) -> None:
        def fail(number: int = 0) -> None:
            raise error

        app = typer.Typer(callback=lambda: None)
        app.command("translate")(fail)
        monkeypatch.setattr(main, "app", app)

    return arrange


def test_version(nmtkit: Run) -> None:
    assert nmtkit("--version") == (0, f"nmtkit {package.__version__}\n", "")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command_with_a_summary(nmtkit: Run, flag: str) -> None:
    outcome = nmtkit(flag)
    assert outcome.status == 0
    assert re.findall(r"^  (\w+)  +[A-Z]", outcome.out.partition("Commands:")[2], re.MULTILINE) == COMMANDS
    assert "\n    nmtkit train\n" in outcome.out  # examples keep their shape


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example_on_a_line_of_its_own(nmtkit: Run, command: str) -> None:
    outcome = nmtkit(command, "-h")
    assert outcome.status == 0
    assert re.search(rf"^    .*\bnmtkit {command}\b", outcome.out, re.MULTILINE)


def test_without_a_command_there_is_help(nmtkit: Run) -> None:
    outcome = nmtkit()
    assert "Commands:" in outcome.out + outcome.err


def test_a_mistyped_command_is_corrected(nmtkit: Run) -> None:
    outcome = nmtkit("trian")
    assert outcome.status == 1
    assert "Did you mean 'train'?" in outcome.err


def test_a_mistyped_option_is_corrected(nmtkit: Run) -> None:
    outcome = nmtkit("score", "--languag", "de")
    assert outcome.status == 1
    assert "--language" in outcome.err


@pytest.mark.parametrize("command", ["score", "tune", "train"])
def test_a_command_for_one_model_refuses_several(nmtkit: Run, command: str) -> None:
    hint = "; to combine models, use nmtkit ensemble"
    said = f"Option '-m' is given twice{'' if command == 'train' else hint}"
    for second in (("--model", "b"), ("--model=b",), ("-mb",)):
        assert nmtkit(command, "-m", "a", *second).err == f"nmtkit: error: {said}; see nmtkit {command} --help\n"


def test_an_option_is_not_the_second_of_two_files(nmtkit: Run) -> None:
    result = nmtkit("prep", "--train", "one.tsv", "-s", "en", "-t", "fr")
    assert result.err == "nmtkit: error: Option '--train' requires 2 arguments: SRC TGT; see nmtkit prep --help\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("inspect deep-att --plot", "Option '--plot' requires an argument"),
        ("translate -o", "Option '-o' requires an argument"),
        ("inspect deep-att --shapes=yes", "Option '--shapes' does not take a value"),
    ],
)
def test_an_option_with_a_value_too_few_or_too_many_leads_to_the_help_of_its_command(
    nmtkit: Run, arguments: str, said: str
) -> None:
    command, *others = arguments.split()
    assert nmtkit(command, *others) == (1, "", f"nmtkit: error: {said}; see nmtkit {command} --help\n")


def test_a_value_that_an_option_does_not_have_is_answered_without_names_of_exceptions(nmtkit: Run) -> None:
    wrong = nmtkit("score", "--split", "train").err
    assert (
        wrong
        == "nmtkit: error: Invalid value for '--split': 'train' is not one of 'dev', 'test'; see nmtkit score --help\n"
    )


def test_a_users_mistake_is_one_line_and_status_1(nmtkit: Run, fail_with: Run) -> None:
    fail_with(UserError("a.txt:3: two\nlines"))
    assert nmtkit("translate") == (1, "", "nmtkit: error: a.txt:3: two lines\n")


def test_a_message_does_not_command_the_terminal(nmtkit: Run, fail_with: Run) -> None:
    fail_with(UserError("a\x1b[2J\x07b\x9bc é\u200d ക്ഷ"))
    assert nmtkit("translate") == (1, "", "nmtkit: error: a\\x1b[2J\\x07b\\x9bc é\u200d ക്ഷ\n")


def test_argument_names_in_messages_become_options_of_the_command(nmtkit: Run, fail_with: Run) -> None:
    fail_with(UserError("`number`: leave `prefixes` out; `nmtkit train` and `other` stay"))
    complaint = "nmtkit: error: --number: leave --prefix out; `nmtkit train` and `other` stay\n"
    assert nmtkit("translate") == (1, "", complaint)


def test_options_of_another_command_are_named_with_that_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["nmtkit", "train"])
    message = main.in_options("give nmtkit prep one (`dev_size` draws it)")
    assert message == "give nmtkit prep one (nmtkit prep --dev-size draws it)"


def test_ctrl_c_is_quiet(nmtkit: Run, fail_with: Run) -> None:
    fail_with(KeyboardInterrupt())
    assert nmtkit("translate") == (130, "", "")


def test_system_errors_for_files_are_one_line(nmtkit: Run, fail_with: Run) -> None:
    fail_with(PermissionError(errno.EACCES, "Permission denied", "run/config.yaml"))
    assert nmtkit("translate") == (1, "", "nmtkit: error: run/config.yaml: Permission denied\n")


def test_a_bug_shows_itself(nmtkit: Run, fail_with: Run) -> None:
    fail_with(ZeroDivisionError("oops"))
    with pytest.raises(ZeroDivisionError, match="oops"):
        nmtkit("translate")


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs ``code`` in a new process whose standard output is a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(write)


def shell(rest: str) -> tuple[int, str, str]:
    """The status, output and errors of a shell's ``python REST``."""
    done = subprocess.run(["sh", "-c", f"{shlex.quote(sys.executable)} {rest}"], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


COMMAND = """
import sys
from nmtkit.cli import main
@main.app.command()
def speak():
    {body}
sys.argv = ["nmtkit", "speak"]
main.main()
"""


@pytest.mark.parametrize("body", ["print('short')", "print('long' * 100_000)", "sys.stdout.buffer.write(b'bytes')"])
def test_a_closed_pipe_is_quiet(body: str) -> None:
    result = python(COMMAND.format(body=body))
    assert result.stderr == ""
    assert result.returncode == 1


@pytest.mark.parametrize(
    ("redirection", "complaint"), [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")]
)
def test_output_that_cannot_be_written_is_one_line(redirection: str, complaint: str) -> None:
    result = shell(f"-m nmtkit --version {redirection}")
    assert result == (1, "", f"nmtkit: error: the output cannot be written: {complaint}\n")


def test_errors_do_not_go_to_stdout_where_stderr_is_closed() -> None:
    assert shell("-m nmtkit prep --raw none 2>&-") == (1, "", "")


def test_a_name_that_is_not_utf8_can_be_printed() -> None:
    code = COMMAND.format(body="print(chr(0xDCFF))")
    assert shell(f"-c {shlex.quote(code)}") == (0, "\\udcff\n", "")


def test_a_bug_shows_a_plain_traceback() -> None:
    result = python(COMMAND.format(body="words = {}; words['missing']"))
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert result.stderr.endswith("KeyError: 'missing'\n")


def test_ctrl_c_inside_a_command_is_quiet() -> None:
    result = python(COMMAND.format(body="raise KeyboardInterrupt"))
    assert (result.returncode, result.stderr) == (130, "")


def test_the_package_is_a_program() -> None:
    result = subprocess.run([sys.executable, "-m", "nmtkit", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"nmtkit {package.__version__}\n"


def options() -> list[tuple[str, Any]]:
    """Every option and argument of every command, with the command's name."""
    commands = main.built(main.app).commands
    return [(name, parameter) for name, command in commands.items() for parameter in command.params]


def test_the_help_of_every_option_is_a_complete_sentence_or_phrase() -> None:
    for command, option in options():
        text = str(option.help).partition("  [")[0]
        assert re.match(r"(?!Of |For |What |The same)[A-Z].*\.$", text, re.DOTALL), f"{command} {option.name}: {text}"


@pytest.mark.parametrize(
    "name",
    ["--device", "--data", "--type", "--set", "--combine", "--weights", "--raw", "--subset-metric"],
)
def test_an_option_of_several_commands_has_the_same_help_and_letter(name: str) -> None:
    texts = [(tuple(option.opts), option.help) for _, option in options() if name in option.opts]
    assert len(texts) > 1
    assert len(set(texts)) == 1


def test_only_commands_with_a_device_describe_processes_on_a_gpu() -> None:
    jobs = {command: option.help for command, option in options() if "--jobs" in option.opts}
    devices = {command for command, option in options() if "--device" in option.opts}
    assert {command for command, text in jobs.items() if "GPU" in text} == devices & set(jobs)
    assert set(jobs) > devices & set(jobs)
