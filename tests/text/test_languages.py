import pytest

from nmtkit.text.languages import direction, language_name


@pytest.mark.parametrize(
    "code",
    "ar he fa ur ps sd ug ckb dv yi syr nqo ks arz ary azb pnb ara heb arb_Arab ff-Adlm pa-Arab uz-Arab-AF".split(),
)
def test_these_are_written_from_right_to_left(code: str) -> None:
    assert direction(code) == "rtl"


@pytest.mark.parametrize("code", "en fr pt-BR ff bm ku az uz pa ks-Deva kas_Deva sd_Deva ar-Latn de-1901 und".split())
def test_these_are_written_from_left_to_right(code: str) -> None:
    assert direction(code) == "ltr"


def test_a_language_without_a_name_is_called_by_its_code() -> None:
    assert language_name("fr") == "French"
    assert language_name("bzd") == "bzd"
