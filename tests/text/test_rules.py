import pytest

from nmtkit.text.rules import script, wrong_script


@pytest.mark.parametrize(
    ("language", "text", "wrong"),
    [
        ("en", "A house, a garden.", False),
        ("en", "дом", True),
        ("en", "a дом", True),
        ("en", "abc дом", False),  # half of the letters is not more than half
        ("en", "1984 – 50% 😀", False),
        ("en", "", False),
        ("ru", "дом", False),
        ("ru", "house", True),
        ("sr", "kuća кућа", False),
        ("zh-TW", "我们 的 房子", False),
        ("ja", "わたし の カメラ 本", False),
        ("zh", "わたし", True),
        ("ko", "우리 집", False),
        ("el", "σπίτι", False),
        ("tlh", "Hab SoSlI' Quch", False),  # a language that is not listed
        ("en", "ＦＵＬＬ", False),
    ],
)
def test_a_side_is_in_the_wrong_script_if_most_of_its_letters_are(language: str, text: str, wrong: bool) -> None:
    assert wrong_script(text.split(), language) == wrong


@pytest.mark.parametrize(("letter", "name"), [("a", "LATIN"), ("ß", "LATIN"), ("ж", "CYRILLIC"), ("中", "CJK")])
def test_the_script_of_a_letter_is_unicodes(letter: str, name: str) -> None:
    assert script(letter) == name
