"""Request alone decides which options cannot be combined, for Python and the command line."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.search.beam import Search
from nmtkit.translation.request import MAX_INPUT_LENGTH, Request


@pytest.mark.parametrize(
    ("wishes", "complaint"),
    [
        ({"n_best": 0}, "`n_best`: 0 is not between 1 and 10000"),
        ({"seed": -1}, "`seed`: -1 is less than 0"),
        ({"unk_origin": "paper", "replace_unk": True}, "`unk_origin` paper: not one of matched, papers"),
        ({"length_penalty": "gnnt"}, "`length_penalty` gnnt: not one of none, avg, gnmt, power"),
        ({"stop": "last"}, "`stop` last: not one of all, bound, first"),
        ({"shortlist": -1}, "`shortlist`: -1 is less than 0"),
        ({"max_input_length": 0}, "`max_input_length`: 0 is less than 1"),
        ({"sample": True, "prefixes": True}, "or attention; leave `prefixes` out"),
        ({"sample": True, "alignment": True, "attention": True}, "or attention; leave `alignment` and `attention` out"),
        ({"sample": True, "beam_size": 2, "coverage_penalty": 0.1}, "leave `beam_size` and `coverage_penalty` out"),
        ({"references": True, "n_best": 1}, "scored without a search; leave `n_best` out"),
        ({"references": True, "sample": True, "shortlist": 0}, "leave `sample` and `shortlist` out"),
        ({"references": True, "prefixes": True}, "leave `prefixes` out"),
        ({"sample": True, "stop": "first"}, "or attention; leave `stop` out"),
        ({"references": True, "stop": "all"}, "scored without a search; leave `stop` out"),
        ({"references": True, "unk": False}, "scored without a search; leave `unk` out"),
        ({"sample": True, "narrowing": True}, "or attention; leave `narrowing` out"),
        ({"unk_origin": "papers"}, "has no effect without `replace_unk`; add it"),
        ({"seed": 1}, "`seed`: has no effect without `sample`; add it"),
        ({"references": True, "max_input_length": 9}, "leave `max_input_length` out"),
    ],
)
def test_options_that_exclude_each_other_are_refused_by_name(wishes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=f"{complaint}$"):
        Request(**wishes)


@given(n=st.integers(1, 9_000) | st.integers(9_990, 10_010) | st.integers(11_000))
def test_the_maximum_number_of_translations_is_the_maximum_beam_size(n: int) -> None:
    try:
        Search(beam_size=n)
    except ValueError as error:
        complaint = str(error).replace("beam_size", "`n_best`")
        for sample in (False, True):
            with pytest.raises(UserError, match=f"^{complaint}$"):
                Request(n_best=n, sample=sample)
    else:
        assert Request(n_best=n).n_best == Request(n_best=n, sample=True).n_best == n


def test_a_coverage_penalty_of_0_is_unset() -> None:
    assert Request(sample=True, coverage_penalty=0.0).sample


def test_search_settings_are_the_models_unless_requested() -> None:
    own = Search(beam_size=7, alpha=0.3)
    assert Request().search(own) == own
    assert Request(beam_size=2, max_len_b=9).search(own) == Search(beam_size=2, alpha=0.3, max_len_b=9)
    settings = {field.name for field in fields(Search)}
    assert settings <= {field.name for field in fields(Request)}  # all can be requested
    for name, value in {"beam_size": 2, "length_penalty": "avg", "alpha": 0.1, "coverage_penalty": 0.2,
                        "max_len_a": 2.0, "max_len_b": 3, "max_tokens": 4, "stop": "first",
                        "unk": False, "narrowing": False}.items():  # fmt: skip
        settings.remove(name)
        assert getattr(Request(**{name: value}).search(own), name) == value
    assert not settings


def test_impossible_search_settings_are_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"^`beam_size`: 0 is not between 1 and 10000$"):
        Request(beam_size=0).search(Search())
    with pytest.raises(UserError, match=r"^`alpha`: `length_penalty` avg does not use it; only gnmt and power do$"):
        Request(alpha=0.5).search(Search(length_penalty="avg"))


def test_max_input_length_limits_the_length_of_a_line() -> None:
    assert Request().limit == MAX_INPUT_LENGTH
    assert Request(max_input_length=3).limit == 3


def test_samples_of_minimum_bayes_risk_have_the_settings_that_sampling_supports() -> None:
    asked = Request(mbr=5, n_best=2, beam_size=9, max_input_length=4, max_len_b=3, tokenized=True, shortlist=7)
    sampled = Request(n_best=5, sample=True, max_input_length=4, max_len_b=3, tokenized=True, shortlist=7)
    assert asked.samples() == sampled
