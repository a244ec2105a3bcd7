"""An option is declared once, and the command, Python and the server take it from there."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import typer

from nmtkit.cli import main
from nmtkit.cli.parameters import Without
from nmtkit.errors import UserError
from nmtkit.options import Option, as_in, by_keyword, mistake, option, options_of
from nmtkit.search.settings import Search
from nmtkit.serving.api import read
from nmtkit.serving.limits import Limits
from nmtkit.training.settings import on_resume
from nmtkit.translation.request import Request

Run = Callable[..., Any]  # the command line of tests/conftest.py


@dataclass(frozen=True)
class Orders:
    """A class of options as those of ``workflow/``, with a field of every type that they have."""

    dish: Path | str = option("soup", Option("Dish.", names="--dish -d"))
    _: KW_ONLY
    guests: int = option(2, Option("Number of guests.", "Table", at_least=1, at_most=8))
    chairs: int | None = option(None, Option("Number of chairs."))
    sides: str | Sequence[str] = option((), Option("Side; may be repeated.", names="--with"))
    spice: float | None = option(None, Option("How much.", at_least=0.0, before="dish"))
    wine: Literal["red", "white"] | None = option(None, Option("Wine."))
    tables: Sequence[int] | str = option("1,2", Option("Tables."))
    warm: bool | None = option(None, Option("Warm.", names="--warm/--cold"))
    waiter: object = None  # of Python alone


def ordered(orders: Orders) -> Orders:
    """Order a meal."""
    return orders


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Orders, bool]]:
    """The values that a command with these options, and a further one, receives."""
    got: list[tuple[Orders, bool]] = []

    def order(orders: Orders, now: Annotated[bool, Option("At once.", "Table")] = False) -> None:
        """Order."""
        got.append((orders, now))

    app = typer.Typer(callback=lambda: None, rich_markup_mode=None)
    app.command()(main.flat(order, main.in_options))
    monkeypatch.setattr(main, "app", app)
    return got


def test_a_command_gets_its_options_as_a_dataclass(nmtkit: Run, taken: list[tuple[Orders, bool]]) -> None:
    assert nmtkit("order").status == 0
    words = "order -d stew --guests 3 --with bread --with rice --spice 0.5 --wine red --tables 3 --cold --now"
    assert nmtkit(*words.split()).status == 0
    made = Orders(
        Path("stew"), guests=3, sides=["bread", "rice"], spice=0.5, wine="red", tables="3", warm=False
    )  # fmt: skip
    assert taken == [(Orders(dish=Path("soup")), False), (made, True)]


@pytest.mark.usefixtures("taken")
def test_help_has_the_bounds_of_a_number_and_no_way_to_switch_off_what_is_off(nmtkit: Run) -> None:
    screen = " ".join(nmtkit("order", "--help").out.split())
    assert "Number of guests. [1 to 8]" in screen
    assert "How much. [at least 0]" in screen
    assert "--warm / --cold" in screen
    assert "--no-now" not in screen


@pytest.mark.parametrize(
    ("orders", "complaint"),
    [
        ({"guests": 9}, "`guests`: 9 is not between 1 and 8"),
        ({"guests": 2.5}, "`guests`: expected a whole number, found float 2.5"),
        ({"guests": True}, "`guests`: expected a whole number, found bool True"),
        ({"guests": [2]}, "`guests`: expected a whole number, found list [2]"),
        ({"chairs": 2.5}, "`chairs`: expected a whole number, found float 2.5"),
        ({"chairs": "x"}, "`chairs`: expected a number, found 'x'"),
        ({"guests": np.int64(2)}, "`guests`: expected a whole number, found int64 2"),  # JSON has none
        ({"guests": None}, "`guests`: expected a whole number, found NoneType None"),
        ({"spice": -0.5}, "`spice`: -0.5 is less than 0"),
        ({"spice": [0.5]}, "`spice`: expected a number, found list [0.5]"),
        ({"spice": True}, "`spice`: expected a number, found bool True"),
        ({"wine": "rose"}, "`wine` rose: not one of red, white"),
    ],
)
def test_a_function_of_options_refuses_what_its_command_refuses(orders: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        by_keyword(Orders, ordered, "order")(**orders)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--guests 0", "--guests: 0 is not between 1 and 8"),
        ("--wine rose", "Invalid value for '--wine'"),
        ("--waiter x", "No such option: --waiter"),
    ],
)
def test_an_invalid_value_of_an_option_is_one_line(
    words: str, complaint: str, nmtkit: Run, taken: list[tuple[Orders, bool]]
) -> None:
    outcome = nmtkit("order", *words.split())
    assert outcome.status == 1
    assert complaint in outcome.err
    assert taken == []


def test_a_python_function_has_the_fields_as_its_arguments() -> None:
    order = by_keyword(Orders, ordered, "order")
    assert order("stew", guests=3) == Orders("stew", guests=3)
    assert inspect.signature(order).parameters == inspect.signature(Orders).parameters
    assert inspect.signature(order).return_annotation is Orders
    with pytest.raises(TypeError, match=r"^got an unexpected keyword argument 'guest'$"):
        order(guest=3)  # type: ignore[call-arg]


def test_a_python_function_has_the_help_of_its_options_in_its_docstring() -> None:
    lines = str(by_keyword(Orders, ordered, "order").__doc__).splitlines()
    assert lines[0] == "Order a meal."
    assert [line.strip() for line in lines[4:]] == [f"{each.name}: {shown.help}" for each, shown in options_of(Orders)]
    assert "    seed: Random seed for `sample`.  [default: 1]\n" in str(Request.__doc__)  # --sample on the command line


@pytest.mark.parametrize(
    ("orders", "complaint"),
    [
        (Orders(guests=0), "guests: 0 is not between 1 and 8"),
        (Orders(guests="3"), "guests: expected a whole number, found str '3'"),  # type: ignore[arg-type]
        (Orders(guests=2.0), "guests: expected a whole number, found float 2.0"),  # type: ignore[arg-type]
        (Orders(guests=True), "guests: expected a whole number, found bool True"),
        (Orders(spice=-1), "spice: -1 is less than 0"),
        (Orders(spice=float("nan")), "spice: nan is less than 0"),
        (Orders(wine="rose"), "wine rose: not one of red, white"),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_the_wrong_type_is_described(orders: Orders, complaint: str) -> None:
    keep = {"guests", "spice", "wine"}

    @dataclass(frozen=True)
    class Checked:
        guests: int = as_in(Orders, "guests")
        spice: float | None = as_in(Orders, "spice")
        wine: Literal["red", "white"] | None = as_in(Orders, "wine")

    checked = Checked(**{name: getattr(orders, name) for name in keep})
    assert "".join(mistake(checked) or ()) == complaint


def test_fields_declare_whether_they_may_change_when_a_run_is_resumed() -> None:
    names = {
        "free": "max_updates patience pass_tokens precision",
        "hyperparameter": "optimizer.lr optimizer.betas groups.lr.decay schedule.warmup clip_norm dropout_seed",
        "fixed": "optimizer.name groups.lr.init batch_tokens seed order_seed max_length",
    }
    assert {kind: " ".join(n for n in text.split() if on_resume(n) == kind) for kind, text in names.items()} == names


# A new setting of search, as CONTRIBUTING says: a field of Search and one of Request. What follows from it:


@pytest.mark.parametrize("name", [each.name for each in fields(Search)])
def test_a_search_setting_is_a_field_of_request_and_an_option_of_commands_that_search(name: str, nmtkit: Run) -> None:
    [shown] = [about for each, about in options_of(Search) if each.name == name]
    assert [about for each, about in options_of(Request) if each.name == name] == [shown]
    for command in ("translate", "serve"):
        if name != "max_tokens" or command == "translate":  # the server's batches are its own affair
            screen = " ".join(nmtkit(command, "--help").out.split())
            assert f"--{name.replace('_', '-')} " in screen
            assert screen.replace("- ", "-").count(" ".join(shown.help.split()[:5])) >= 1


@dataclass(frozen=True)
class NewSearch(Search):
    reward: float = option(0.0, Option("Reward for each word.", "Search", at_least=0.0, at_most=9))


@dataclass(frozen=True, kw_only=True)
class NewRequest(Request):
    reward: float | None = as_in(NewSearch, "reward")


def test_a_new_setting_needs_only_two_fields(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[NewRequest] = []

    def translate(request: Annotated[NewRequest, Without(("seed",))]) -> None:
        """Translate."""
        got.append(request)

    app = typer.Typer(callback=lambda: None, rich_markup_mode=None)
    app.command(cls=main.Command)(main.flat(translate, main.in_options))
    monkeypatch.setattr(main, "app", app)
    assert "Search:" in nmtkit("translate", "--help").out
    assert nmtkit("translate", "--reward", "0.5").status == 0
    assert got == [NewRequest(reward=0.5)]
    monkeypatch.setattr("nmtkit.serving.api.Request", NewRequest)
    assert read({"text": "a", "reward": 2}, NewRequest(), Limits())[1] == NewRequest(reward=2.0)
    with pytest.raises(UserError, match=r"^`reward`: 10 is not between 0 and 9$"):
        NewRequest(reward=10)
    monkeypatch.setattr("nmtkit.translation.request.Search", NewSearch)
    assert NewRequest(reward=3.0).search(NewSearch()).reward == 3
