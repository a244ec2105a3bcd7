import pytest
from langcodes import Language

from nmtkit.text import scripts
from nmtkit.text.rules import broken_rule
from nmtkit.text.scripts import base_language, right_to_left, wrong_script
from nmtkit.text.settings import Cleaning, Prep, Side


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
        ("sr-Latn", "kuća", False),
        ("sr-Latn", "кућа", True),  # the code names the script
        ("zh-TW", "我们 的 房子", False),
        ("ja", "わたし の カメラ 本", False),
        ("zh", "わたし", True),
        ("ko", "우리 집", False),
        ("el", "σπίτι", False),
        ("tlh", "Hab SoSlI' Quch", False),
        ("en", "ＦＵＬＬ", False),
        ("nqo", "ߒߞߏ ߞߊ߲", False),
        ("nqo", "house", True),
        ("tzm", "ⵜⴰⵎⴰⵣⵉⵖⵜ", False),
        ("tzm", "Tamaziɣt", False),
        ("cr", "ᓀᐦᐃᔭᐍᐏᐣ", False),
        ("ckb", "کوردی", False),
        ("azb", "کوردی", False),  # langcodes lacks its script
        ("ksw", "ကညီကျိာ်", False),  # and that of these, of which nothing is said
        ("rki", "ရခိုင်", False),
        ("hch", "дом", False),
        ("grc", "λόγος", False),
        ("fuf", "𞤆𞤵𞤤𞤢𞤪", False),
        ("ku", "Kurdî", False),
        ("mww", "Nyob zoo", False),  # more often than in the script that langcodes has
        ("hnj", "𞄀𞄄𞄰𞄩", False),
        ("lad", "Buenos diyas", False),
        ("lad", "בואינוס דיאס", False),
        ("nan", "Lí hó", False),
        ("rhg", "Assalamu aláikum", False),
        ("sat", "ᱡᱚᱦᱟᱨ", False),
        ("crh", "Selâm aleyküm", False),
        ("wal", "Daawita", False),
        ("wal", "ወላይታ", False),
        ("kaa", "Qaraqalpaq", False),
        ("ctd", "Topa", False),
        ("ryu", "沖縄ぬ", False),
        ("non", "hundr", False),
        ("taq", "ⵎⴰⵜⵜⵓⵍⴰⵎ", False),
        ("ace", "اچيه", False),
        ("haw", "ʻʻʻ", False),  # a letter of no script
        ("de-Latf", "Haus", False),  # a variant of a script
        ("de-Latf", "дом", True),
        ("en-Qaaa", "дом", False),  # a script without letters
        ("x", "house", False),  # no valid code
        ("x", "дом", True),
    ],
)
def test_a_side_is_in_the_wrong_script_if_most_of_its_letters_are(language: str, text: str, wrong: bool) -> None:
    assert wrong_script(text, language) == wrong


def test_a_language_is_the_same_by_its_codes_of_two_and_three_letters() -> None:
    codes = {"pt": "pt-BR pt_BR PT por por_Latn", "th": "tha_Thai", "zh": "zho_Hans chi zh-Hant", "bo": "bod tib"}
    codes |= {"azb": "azb_Arab", "yue": "yue_Hant", "x": "x", "xxx": "xxx", "und": "und"}
    for base, each in codes.items():
        assert {*map(base_language, each.split())} == {base}


def test_pairs_without_spaces_are_compared_in_characters_by_any_code() -> None:
    prep = Prep(Side("tha_Thai", tokenizer="reversible"), Side("eng_Latn", tokenizer="reversible"))
    english = "My older brother went to the market in the morning .".split()
    assert broken_rule("", ["พี่ชายของฉันไปตลาดในตอนเช้า"], english, prep, frozenset()) is None


def test_each_side_of_a_pair_is_judged_by_its_own_language() -> None:
    prep = Prep(Side("en"), Side("ru"), cleaning=Cleaning(drop=("script",)))
    for src, tgt, rule in (("house", "дом", None), ("дом", "дом", "script"), ("house", "house", "script")):
        assert broken_rule(src + tgt, [src], [tgt], prep, frozenset()) == rule


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        ("ar he fa ur ps sd ug ckb dv yi syr nqo ks arz ary azb pnb aii pbt arc arb_Arab ff-Adlm pa-Arab", True),
        ("acm ajp hbo uzs", True),
        ("pa ff ks-Deva az ku en tr pt_BR und x", False),
    ],
)
def test_a_language_is_written_from_right_to_left_if_its_script_is(languages: str, expected: bool) -> None:
    assert {language: right_to_left(language) for language in languages.split()} == dict.fromkeys(
        languages.split(), expected
    )


@pytest.mark.parametrize("language", sorted(scripts._SCRIPTS))
def test_a_language_with_several_scripts_may_be_written_in_the_one_of_cldr(language: str) -> None:
    script = str(Language.get(language).maximize().script or "Latn")
    assert set(scripts._PARTS.get(script, script).split()) <= {*scripts._SCRIPTS[language].split()}
