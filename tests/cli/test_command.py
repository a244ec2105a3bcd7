"""Common to all commands: the amount of log messages, options in groups, and consistent names."""

import inspect
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

import nmtkit
from nmtkit.cli import main
from nmtkit.cli.command import COMMON
from nmtkit.errors import UserError
from nmtkit.options import Option

Run = Callable[..., Any]  # the command line of tests/conftest.py

PARAMETERS: dict[str, Any] = {name: command.params for name, command in main.built(main.app).commands.items()}


def speak(name: Annotated[str, Option("Name.")] = "x") -> None:
    """Log a note, a warning and a detail."""
    log = logging.getLogger("nmtkit.mouth")
    log.info(f"note {name}")
    log.warning("warning")
    log.debug("detail")


@pytest.fixture
def speaker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command line with the commands ``speak``, and ``fail``, which raises a UserError."""

    def fail() -> None:
        logging.getLogger("nmtkit").info("note")
        raise UserError("mistake")

    app = typer.Typer(callback=lambda: None)
    for function in (speak, fail):
        app.command()(main.flat(function, main.in_options))
    monkeypatch.setattr(main, "app", app)
    logger = logging.getLogger("nmtkit")
    before = logger.level, [*logger.handlers]
    yield
    assert (logger.level, logger.handlers) == before  # the logger is reset for the next command
    assert not logging.getLogger("nmtkit.progress").disabled


@pytest.mark.usefixtures("speaker")
def test_notes_and_warnings_are_shown_on_stderr(nmtkit: Run) -> None:
    assert nmtkit("speak", "--name", "y") == (0, "", "note y\nwarning\n")


@pytest.mark.usefixtures("speaker")
@pytest.mark.parametrize("volume", [[], ["--verbose"]])
def test_log_messages_name_options_like_errors(nmtkit: Run, volume: list[str]) -> None:
    said = nmtkit("speak", "--name", "`name` and `model`", *volume).err
    assert "note --name and `model`\n" in said  # the command has no option --model


@pytest.mark.usefixtures("speaker")
def test_log_messages_do_not_command_the_terminal(nmtkit: Run) -> None:
    assert nmtkit("speak", "--name", "a\x1b[2J").err == "note a\\x1b[2J\nwarning\n"


@pytest.mark.usefixtures("speaker")
@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_a_quiet_command_prints_only_warnings_and_errors(nmtkit: Run, option: str) -> None:
    assert nmtkit("speak", option) == (0, "", "warning\n")
    assert nmtkit("fail", option) == (1, "", "nmtkit: error: mistake\n")


def test_only_a_quiet_command_hides_its_progress(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[bool] = []

    def work() -> None:
        """Work."""
        hidden.append(logging.getLogger("nmtkit.progress").disabled)

    app = typer.Typer(callback=lambda: None)
    app.command()(main.flat(work, main.in_options))
    monkeypatch.setattr(main, "app", app)
    assert [nmtkit("work", *options).status for options in ([], ["--quiet"], ["--verbose"])] == [0, 0, 0]
    assert hidden == [False, True, False]


@pytest.mark.usefixtures("speaker")
@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_a_verbose_command_gives_details_with_time_and_place(nmtkit: Run, option: str) -> None:
    about, *lines = nmtkit("speak", option).err.splitlines()
    assert re.search(
        rf" nmtkit\.cli\.command: nmtkit \S+, Python 3\.\S+: speak {option}$", about
    )  # what a report needs
    assert [line.split(": ")[1] for line in lines] == ["note x", "warning", "detail"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ nmtkit\.mouth: note x", lines[0])


@pytest.mark.usefixtures("speaker")
def test_a_command_cannot_be_both_quiet_and_verbose(nmtkit: Run) -> None:
    assert nmtkit("speak", "-q", "-v") == (1, "", "nmtkit: error: --quiet and --verbose: leave one of the two out\n")


@pytest.mark.parametrize("command", PARAMETERS)
def test_every_command_can_be_quiet_or_verbose(command: str) -> None:
    options = {name for parameter in PARAMETERS[command] for name in parameter.opts}
    assert {"--quiet", "--verbose"} <= options


@pytest.mark.parametrize(
    "words",
    [
        "prep --output", "prep --train x", "prep --keep-rejected", "train -o", "report", "average", "import", "score x",
        "align --gold", "inspect --plot", "translate -m", "translate --terms", "translate -o", "translate -i",
        "translate",
    ],
)  # fmt: skip
def test_an_empty_path_is_not_the_current_folder(nmtkit: Run, words: str) -> None:
    status, out, err = nmtkit(*words.split(), "")
    assert (status, out) == (1, "")
    assert re.fullmatch(r"nmtkit: error: .* is empty; name a file.*\n", err)


@pytest.mark.parametrize(
    ("command", "first", "groups"),
    [
        (
            "translate", "--model --checkpoint --input --output --beam-size --n-best",
            "Search, Output, Unknown words and large vocabularies, Ensembles, Speed and memory, Documents",
        ),
        (
            "serve", "--model --host --port --api-key --cors --split --beam-size",
            "Search, Unknown words and large vocabularies, Ensembles, Speed and memory, Limits",
        ),
        (
            "train", "--model --from --config --set --data --output --seed --dry-run",
            "Stopping, Speed and memory, History",
        ),
        (
            "prep", "--src-lang --tgt-lang --raw --output --json",
            "Data sets, Tokenisation, Segmentation, Cleaning, Large text",
        ),
        ("score", "--subset-metric --json", "Translations in files, A model's own translations"),
    ],
)  # fmt: skip
def test_help_begins_with_the_most_needed_options_and_ends_with_the_common_ones(
    nmtkit: Run, command: str, first: str, groups: str
) -> None:
    sections = re.split(r"\n(?=\S.*:\n)", nmtkit(command, "--help").out)
    headings = [section.partition(":\n")[0] for section in sections[1:]]
    headings = [heading for heading in headings if heading != "Arguments"]
    assert headings == ["Options", *groups.split(", "), COMMON]
    sections = [section for section in sections if not section.startswith("Arguments")]
    named = [re.findall(r"^  (?:-\w, )?(--[a-z-]+)", section, re.MULTILINE) for section in sections[1:]]
    assert named[0] == first.split()
    assert named[-1] == ["--quiet", "--verbose", "--help"]


def test_a_letter_means_one_thing_in_every_command() -> None:
    letters: dict[str, set[str]] = {}
    for parameters in PARAMETERS.values():
        for parameter in parameters:
            long = [name for name in parameter.opts if name.startswith("--")]
            for short in set(parameter.opts) - set(long) - {parameter.name}:
                letters.setdefault(short, set()).update(long)
    assert all(len(names) == 1 for names in letters.values()), letters
    expected = {"-s": "--src-lang", "-t": "--tgt-lang", "-d": "--data", "-m": "--model", "-i": "--input"}
    expected |= {"-o": "--output", "-j": "--jobs"}
    assert {short: names.pop() for short, names in letters.items() if short in expected} == expected


@pytest.mark.parametrize("name", ["src-lang", "tgt-lang", "data", "model", "input", "output", "jobs"])
def test_an_option_has_the_same_letter_in_every_command(name: str) -> None:
    found = [set(p.opts) for parameters in PARAMETERS.values() for p in parameters if f"--{name}" in p.opts]
    assert len(found) > 1
    assert all(options == found[0] and len(options) == 2 for options in found)


@pytest.mark.parametrize("name", sorted(PARAMETERS.keys() & set(nmtkit.__all__)))
def test_the_function_of_a_command_takes_its_options_as_arguments(name: str) -> None:
    arguments = inspect.signature(getattr(nmtkit, name)).parameters.keys()
    of_python = {"train": {"records"}, "translate": {"lines", "request", "ready"}, "posunk": {"lines", "place"}}
    assert arguments - of_python.get(name, set()) <= {parameter.name for parameter in PARAMETERS[name]}
    assert len(arguments) > 1


def test_a_message_of_the_library_still_finds_the_options_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["nmtkit", "vocab"])
    assert main.in_options("`data`: no") == "--data: no"


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with raw text of each split in English and French."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    for split in ("train", "dev", "test"):
        for language, text in (("en", "the cat\na dog\n"), ("fr", "le chat\nun chien\n")):
            (tmp_path / "raw" / f"{split}.{language}").write_text(text * (9 if split == "train" else 3))
    return tmp_path


@pytest.mark.usefixtures("raw")
def test_each_command_names_the_next_one_with_its_folder(nmtkit: Run) -> None:
    last = [
        nmtkit(*command.split()).err.splitlines()[-1]
        for command in (
            "doctor -s en",
            "prep -s en --words -o my_data -j1",
            "align -d my_data --pharaoh raw/none --threshold 0",
            "vocab -d my_data -j1",
        )
    ]
    assert last[0] == "next: nmtkit prep -s en -t fr"
    assert last[1] == "next: nmtkit vocab -d my_data"
    assert last[2].startswith("nmtkit: error: ")  # after a mistake nothing comes next
    assert nmtkit("prep", "-s", "en", "--words", "-o", "my_data", "-j1", "--quiet").err == ""


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("nmtkit train --model deep-lau-8x6-", ["deep-lau-8x6-w256", "deep-lau-8x6-small", "deep-lau-8x6-w256-small"]),
        ("nmtkit models dtmt4-pl", ["dtmt4-plain", "dtmt4-plain-small"]),
        ("nmtkit ave", ["average"]),
    ],
)
def test_the_shell_completes_commands_and_presets(line: str, completed: list[str]) -> None:
    asked = {"_NMTKIT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "nmtkit"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (completed, "")


def test_verbose_training_logs_every_update_and_verbose_translation_the_model(raw: Path, nmtkit: Run) -> None:
    assert nmtkit("prep", "-s", "en", "--words", "-q", "-j1").status == nmtkit("vocab", "-q", "-j1").status == 0
    small = [f"--set=model.{size}=4" for size in ("embedding", "hidden", "attention", "maxout")]
    trained = nmtkit("train", "-m", "rnnsearch-small", *small, "--max-updates", 2, "-v", "--device", "cpu")
    assert re.search(r"nmtkit\.training\.loop: update 2: 18 sentences, loss \d", trained.err)
    (raw / "in").write_text("the cat\n")
    translated = nmtkit("translate", "-i", "in", "-v", "-j1", "--device", "cpu").err
    assert re.search(r"nmtkit\.experiment\.model: run/\S+: rnnsearch, 0\.\d M parameters", translated)
