"""The scripts of languages, from Unicode's CLDR (langcodes) and the properties of letters (regex)."""

import re
from functools import cache
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from langcodes import Language  # imported when needed, because it takes 0.05 s, like its tables

# Languages in which the reversible tokenizer makes each character a token, and all that are written without spaces
# between words. Tibetan and Dzongkha have none either, but a mark after each syllable, which is a token.
CHARACTERS = ("zh", "cmn", "gan", "hsn", "lzh", "wuu", "yue", "ja")
WITHOUT_SPACES = (*CHARACTERS, "bo", "dz", "khb", "km", "lo", "mnw", "my", "nod", "shn", "th", "tts")
SYLLABLES = ("bo", "dz")
# Han, kana, bopomofo, and the punctuation and full-width forms that go with them, for a set of a regular expression.
WIDE = "\u2e80-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
# Scripts from Tibet to Java, most of which have no spaces between words, for a set as well.
INDOCHINESE = "\u0e00-\u109f\u1780-\u17ff\u1950-\u1bff\ua980-\uaadf"
# The end of a sentence in any script. The Ethiopic full stop is often written as two word spaces; ၊ is a comma.
TERMINAL = r"(?:(?!၊)[\p{Sentence_Terminal}…]|፡፡)"

# Codes of ISO 15924. CLDR names one script for each language; some are combinations, some are historical or rare, and
# some languages use several.
_PARTS = {
    "Jpan": "Hani Hira Kana", "Kore": "Hang Hani", "Hans": "Hani", "Hant": "Hani", "Hanb": "Bopo Hani", "Aran": "Arab",
    "Cyrs": "Cyrl", "Geok": "Geor", "Jamo": "Hang", "Latf": "Latn", "Latg": "Latn", "Syre": "Syrc",
}  # fmt: skip
_SEVERAL = {
    "az kaa kk ky tg tk tt ug uz": "Arab Cyrl Latn", "bs crh sh sr": "Cyrl Latn", "mn": "Cyrl Mong",
    "ber kab rif shi taq tmh ttq tzm zgh": "Arab Latn Tfng",
    "ace bal bjn brh ckb ha kmr ku ms sdh swb wni wo zdj": "Arab Latn", "cja": "Arab Cham Latn", "cjm": "Cham Latn",
    "har": "Arab Ethi Latn", "udi": "Aghb Cyrl Latn", "hoc": "Deva Latn Orya", "unr": "Beng Deva Latn Orya",
    "bcq bji bst byn drs gmv gof hdy kqy ktb kxc mdx mym wal": "Ethi Latn",
    "cr crj crk crl crm csw iu nsk oj": "Cans Latn", "bm dyu man mnk": "Adlm Arab Latn Nkoo", "ks": "Arab Deva",
    "ff fub fuc fuf fuh fuv": "Adlm Arab Latn", "kyu": "Kali Latn Mymr", "mni": "Beng Mtei", "ccp": "Beng Cakm",
    "cdo hak nan": "Hani Latn", "ryu": "Hani Hira Kana", "hnj mww": "Hmng Hmnp Latn", "lad": "Hebr Latn",
    "rhg": "Arab Latn Rohg", "pa sd": "Arab Deva Guru", "sat": "Beng Deva Latn Olck", "gom kok": "Deva Knda Latn",
    "gon": "Deva Gong Gonm Telu", "lif": "Deva Limb", "nnp": "Deva Latn Wcho", "grt": "Beng Latn",
    "srb": "Latn Orya Sora Telu", "nst": "Latn Tnsa", "ctd": "Latn Pauc", "mro": "Latn Mroo",
    "hmd": "Latn Plrd", "lis": "Latn Lisu", "blt": "Latn Tavt", "kjg": "Laoo Latn", "osa": "Latn Osge",
    "bax": "Bamu Latn", "bsq": "Bass Latn", "vai": "Latn Vaii", "got": "Goth Latn", "non": "Latn Runr",
    "sga": "Latn Ogam",
}  # fmt: skip
_SCRIPTS = {language: scripts for group, scripts in _SEVERAL.items() for language in group.split()}
# Languages whose script langcodes lacks, each with another in that script.
_WRITTEN_AS = {"aii": "syr", "azb": "az-Arab", "grc": "el", "hbo": "he", "jrb": "he", "pbt": "ps", "uzs": "uz-Arab"}
_WRITTEN_AS |= dict.fromkeys(
    "abv acm acq acw acx aeb afb ajp apc apd ars ary arz auz avl ayh ayl ayn ayp shu".split(), "ar"
)
_RIGHT_TO_LEFT = frozenset("Adlm Arab Aran Armi Hebr Mand Nkoo Rohg Samr Syrc Thaa".split())
_COMMON = r"\p{sc=Zyyy}\p{sc=Zinh}"  # letters of no script, such as a modifier apostrophe
_LETTER = regex.compile(rf"(?V1)[\p{{L}}--[{_COMMON}]]")


def base_language(language: str) -> str:
    """The code of a language without its script and region, of two letters if there is one: pt for pt-BR and por."""
    code = re.split("[-_]", language)[0].lower()
    if len(code) != 3:
        return code
    from langcodes.data_dicts import LANGUAGE_REPLACEMENTS

    return LANGUAGE_REPLACEMENTS.get(code, code).split("-")[0]


def right_to_left(language: str) -> bool:
    """True if the language (ar, pa-Arab) is usually written from right to left; of an unknown one, False."""
    return _tag(language).maximize().script in _RIGHT_TO_LEFT


def wrong_script(text: str, language: str) -> bool:
    """True if more than half of the letters are in scripts that the language does not use."""
    return 2 * len(_foreign(language).findall(text)) > len(_LETTER.findall(text))


def _tag(language: str) -> "Language":
    """The language of a code; an invalid one is taken for a language in Latin script."""
    from langcodes import Language

    try:
        return Language.get(_WRITTEN_AS.get(language, language))
    except ValueError:
        return Language.get("und-Latn")


@cache
def _foreign(language: str) -> regex.Pattern[str]:
    """Matches a letter that is in none of the language's scripts; a script in the code (sr-Cyrl) is the only one.

    For a language whose scripts are not known, it matches nothing.
    """
    from langcodes.data_dicts import LIKELY_SUBTAGS

    tag = _tag(language)
    if not (tag.script or str(tag.language) in _SCRIPTS or str(tag.language) in LIKELY_SUBTAGS):
        return regex.compile("(?!)")
    usual = str(tag.maximize().script)
    scripts = _PARTS.get(usual, usual) if tag.script else _SCRIPTS.get(str(tag.language), _PARTS.get(usual, usual))
    own = "".join(rf"\p{{sc={script}}}" for script in scripts.split())
    try:
        return regex.compile(rf"(?V1)[\p{{L}}--[{_COMMON}{own}]]")
    except regex.error:  # a script that has no letters of its own, or does not exist: nothing can be said
        return regex.compile("(?!)")
