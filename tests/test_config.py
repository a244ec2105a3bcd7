"""YAML to dataclasses and back: strict, all errors together, without YAML's surprises."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.config import (
    build,
    convert,
    dump_yaml,
    flatten,
    inline_yaml,
    load_yaml,
    merge,
    nested,
    parse_settings,
    parse_yaml,
    to_dict,
)
from nmtkit.errors import UserError


@dataclass(frozen=True)
class Part:
    rate: float
    kind: Literal["linear", "deep"] = "linear"
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError(f"`rate`: {self.rate} is below 0")  # the place of a part says that it is a field


@dataclass(frozen=True)
class Whole:
    language: str
    batch_tokens: int
    tied: bool
    part: Part
    betas: tuple[float, ...] = (0.9, 0.999)
    groups: dict[str, Part] = field(default_factory=dict)
    budget: int | Literal["auto", "most"] | None = None


GOOD: dict[str, Any] = {"language": "no", "batch_tokens": 100, "tied": True, "part": {"rate": 0.5}}


def problems(values: Any) -> list[str]:
    with pytest.raises(UserError) as error:
        build(Whole, values, "run.yaml")
    where, _, text = str(error.value).partition(": ")
    assert where == "run.yaml"
    return text.split("; ")


def test_plain_values_become_the_dataclasses() -> None:
    values = {**GOOD, "betas": [0, 1], "groups": {"recurrent": {"rate": 1, "limit": 3}}}
    expected = Whole("no", 100, True, Part(0.5), (0.0, 1.0), {"recurrent": Part(1.0, limit=3)})
    assert build(Whole, values, "run.yaml") == expected


def test_of_a_long_list_the_first_problems_are_named() -> None:
    found = problems({**GOOD, "betas": ["x"] * 1_000_000})
    assert found == [f"betas[{i}]: expected a number, found str 'x'" for i in range(10)]


def test_missing_keys_have_defaults_and_null_is_a_value() -> None:
    whole = build(Whole, {**GOOD, "part": {"rate": 0, "limit": None}}, "run.yaml")
    assert whole == Whole("no", 100, True, Part(0.0, "linear", None), (0.9, 0.999), {})


@pytest.mark.parametrize("budget", [None, 5, "auto", "most"])
def test_a_value_may_be_a_number_or_one_of_a_few_words(budget: int | str | None) -> None:
    assert build(Whole, {**GOOD, "budget": budget}, "run.yaml").budget == budget


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"batch_tokns": 1}, "batch_tokns: unknown key; did you mean batch_tokens?"),
        ({"part": {"rate": 1, "kid": "deep"}}, "part.kid: unknown key; did you mean part.kind?"),
        ({"xyz": 1}, "xyz: unknown key; known keys: language, batch_tokens, tied, part, betas, groups, budget"),
        ({1: 1}, "1: unknown key; known keys: language, batch_tokens, tied, part, betas, groups, budget"),
        ({"part": {}}, "part.rate: missing"),
        ({"part": None}, "part: expected 'key: value' pairs, found nothing"),
        ({"part": 3}, "part: expected 'key: value' pairs, found int 3"),
        ({"batch_tokens": "100"}, "batch_tokens: expected a whole number, found str '100'"),
        ({"batch_tokens": 1.5}, "batch_tokens: expected a whole number, found float 1.5"),
        ({"batch_tokens": float("inf")}, "batch_tokens: expected a whole number, found float inf"),
        ({"batch_tokens": 10**30}, f"batch_tokens: expected a whole number, found int 1{'0' * 30}"),
        ({"batch_tokens": True}, "batch_tokens: expected a whole number, found bool True"),
        ({"batch_tokens": None}, "batch_tokens: expected a whole number, found nothing"),
        ({"tied": 1}, "tied: expected true or false, found int 1"),
        ({"tied": "yes"}, "tied: expected true or false, found str 'yes'"),
        ({"language": False}, "language: expected text, found bool False"),
        ({"part": {"rate": "fast"}}, "part.rate: expected a number, found str 'fast'"),
        ({"part": {"rate": 10**400}}, f"part.rate: expected a number, found int 1{'0' * 17}...{'0' * 19}"),
        ({"part": {"rate": True}}, "part.rate: expected a number, found bool True"),
        ({"part": {"rate": -1}}, "part.rate: -1.0 is below 0"),
        ({"part": {"rate": 1, "limit": "x"}}, "part.limit: expected a whole number, found str 'x'"),
        ({"part": {"rate": 1, "kind": "wide"}}, "part.kind: expected one of linear, deep; found str 'wide'"),
        ({"betas": 0.9}, "betas: expected a list, found float 0.9"),
        ({"betas": "0.9"}, "betas: expected a list, found str '0.9'"),
        ({"betas": [0.9, "x"]}, "betas[1]: expected a number, found str 'x'"),
        ({"groups": [1]}, "groups: expected 'key: value' pairs, found list [1]"),
        ({"groups": {"bias": {"rate": 1, "x": 2}}}, "groups.bias.x: unknown key; known keys: rate, kind, limit"),
        ({"budget": "atuo"}, "budget: expected a whole number or auto, most; found str 'atuo'"),
        ({"budget": 1.5}, "budget: expected a whole number, found float 1.5"),
        ({"groups": {"bias": {"rate": -1}}}, "groups.bias.rate: -1.0 is below 0"),
    ],
)
def test_an_error_names_the_place_the_value_and_the_remedy(change: dict[Any, Any], problem: str) -> None:
    assert "; ".join(problems({**GOOD, **change})) == problem


def test_true_is_not_the_number_1() -> None:
    found: list[str] = []
    assert [convert(Literal[1, 2], value, "kind", found) for value in (1, True)] == [1, None]
    assert found == ["kind: expected one of 1, 2; found bool True"]


def test_all_errors_are_reported_together() -> None:
    found = "; ".join(problems({"language": 3, "tied": "x", "part": {"rate": "y", "knd": 1}, "groups": {"a": {}}}))
    for place in ("language: ", "batch_tokens: missing", "tied: ", "part.rate: ", "part.knd: ", "groups.a.rate: "):
        assert place in found


@pytest.mark.parametrize("values", [None, [], "text", 3])
def test_a_file_without_a_mapping_is_an_error(values: Any) -> None:
    assert "; ".join(problems(values)).startswith("the file: expected 'key: value' pairs, found ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-4", 5e-4), ("1e6", 1e6), ("-2E+3", -2000.0), ("1.5e3", 1500.0), (".5", 0.5), ("5.", 5.0), ("0.1", 0.1),
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("off", "off"), ("y", "y"), ("No", "No"), ("NO", "NO"),
        ("true", True), ("false", False), ("null", None), ("~", None), ("", None), ("12", 12), ("-3", -3),
        ("e5", "e5"), ("1e", "1e"), ("normal 0.07", "normal 0.07"), ("[1, 2e0]", [1, 2.0]), ("'5e-4'", "5e-4"),
        ("010", "010"), ("0x1f", "0x1f"), ("1:30", "1:30"), ("1_000", "1_000"),
    ],
)  # fmt: skip
def test_numbers_are_numbers_and_words_are_strings(text: str, value: object) -> None:
    parsed = parse_yaml(text, "here")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "run.yaml:3: not valid YAML: key 'a' is given twice"),
        ("x:\n  a: 1\n  a: 1\n", "run.yaml:3: not valid YAML: key 'a' is given twice"),
        ("a: [1, 2\nb: 3\n", "run.yaml:2: not valid YAML: "),
        ("a: b: c", "run.yaml:1: not valid YAML: mapping values are not allowed here"),
        ("a: !!python/object/apply:os.getcwd []", "run.yaml:1: not valid YAML: could not determine a constructor"),
        ("a: \x00", "run.yaml: not valid YAML: "),
        ("[" * 1000, "run.yaml: not valid YAML: "),
        ("a: 2020-99-99", "run.yaml: not valid YAML: "),
        *(
            (f"a: {tagged}", "run.yaml: not valid YAML: a value is not of the type that its tag names")
            for tagged in ('!!float ""', '!!int ""', "!!bool maybe", "!!timestamp x", "!!map [1]")
        ),
    ],
)
def test_bad_yaml_names_the_line(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_yaml(text, "run.yaml")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_file_is_read_as_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("language: français\n", encoding="utf-8")
    assert load_yaml(path) == {"language": "français"}


def test_an_unusable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    for content, message in [
        (None, f"{path}: cannot be read: No such file or directory"),
        (b"a: caf\xe9", f"{path}: not UTF-8 at byte 6; save it as UTF-8"),
        (b"- 1\n", f"{path}: expected 'key: value' lines, found list [1]"),
        (b"", f"{path}: expected 'key: value' lines, found nothing"),
    ]:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UserError) as error:
            load_yaml(path)
        assert str(error.value) == message


def test_a_configuration_survives_writing_and_reading() -> None:
    whole = Whole("no", 10**6, False, Part(4e-05, "deep"), (0.9, 1e-9), {"bias": Part(0.0, limit=7), "on": Part(1e22)})
    assert build(Whole, to_dict(whole), "values") == whole
    assert build(Whole, parse_yaml(dump_yaml(to_dict(whole)), "text"), "text") == whole


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("write", [dump_yaml, inline_yaml])
def test_mappings_keep_their_order(write: Callable[[Any], str]) -> None:
    assert list(parse_yaml(write({"b": 1, "a": 2, "c": 3}), "text")) == ["b", "a", "c"]


def test_a_value_on_one_line_has_no_line_break() -> None:
    assert inline_yaml([*range(999)]) == str([*range(999)])


@given(plain_values)
@settings(max_examples=50)
def test_what_is_written_is_read_back(value: object) -> None:
    assert parse_yaml(dump_yaml(value), "text") == value


@pytest.mark.parametrize("word", ["5e-4", "1e5", "no", "true", "null", "12", "1_000", "2020-01-01", "", "~", "0x1f"])
def test_a_string_that_looks_like_another_type_stays_a_string(word: str) -> None:
    assert parse_yaml(dump_yaml({"init": word}), "text") == {"init": word}


def test_merging_replaces_single_values() -> None:
    base = {"a": 1, "part": {"rate": 1, "kind": "deep"}, "list": [1, 2]}
    over = {"part": {"rate": 2, "limit": 3}, "list": [3], "b": 4}
    expected = {"a": 1, "part": {"rate": 2, "kind": "deep", "limit": 3}, "list": [3], "b": 4}
    assert merge(base, over) == expected
    assert base["part"] == {"rate": 1, "kind": "deep"}
    assert merge(base, {}) == base


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(st.text("ab", min_size=1), inner, min_size=1)))
def test_flattened_values_can_be_nested_again(value: object) -> None:
    values = {"part": value}
    assert nested(flatten(values).items()) == values


def test_settings_are_dotted_keys_with_yaml_values() -> None:
    settings = ["training.lr=5e-4", "training.groups.bias.decay=0", "language=no", "training.lr=1e-3", "a=b=c", "n="]
    assert parse_settings("settings", [*settings, " seed = 3"]) == {
        "training": {"lr": 1e-3, "groups": {"bias": {"decay": 0}}}, "language": "no", "a": "b=c", "n": None, "seed": 3,
    }  # fmt: skip


@pytest.mark.parametrize("setting", ["training.lr", "=3", ".lr=3", "training..lr=3", "training.=3", ""])
def test_a_setting_without_key_or_value_is_an_error(setting: str) -> None:
    with pytest.raises(UserError) as error:
        parse_settings("settings", [setting])
    expected = f"`settings` {setting}: expected KEY=VALUE, for example training.optimizer.lr=5e-4"
    assert str(error.value) == expected


def test_a_setting_with_a_bad_value_is_an_error() -> None:
    with pytest.raises(UserError, match=r"^`settings` betas:1: not valid YAML: "):
        parse_settings("settings", ["betas=[1, 2"])
