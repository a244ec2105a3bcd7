"""Language codes: English names and writing directions."""

import re
from typing import Literal

_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "ha": "Hausa", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "ko": "Korean", "lt": "Lithuanian",
    "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay",
    "my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch", "no": "Norwegian", "pa": "Punjabi",
    "pl": "Polish", "ps": "Pashto", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "si": "Sinhala",
    "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "ug": "Uyghur", "uk": "Ukrainian",
    "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
}  # fmt: skip
# Scripts (ISO 15924), and languages that are written in one of them unless their code names another script.
_RIGHT_TO_LEFT = frozenset(
    "adlm arab hebr mand nkoo rohg samr syrc thaa "
    "acm acq aeb aii ajp apc ar ara arb arc ars ary arz azb bal bgn bqi brh ckb div dv fa fas glk he heb kas "
    "khw ks lki lrc mzn nqo pbt per pes pnb prs ps pus sd sdh skr snd syr ug uig ur urd yi yid".split()
)


def language_name(code: str) -> str:
    """The English name of a language, or the code if it is not in the list."""
    return _NAMES.get(code, code)


def direction(code: str) -> Literal["ltr", "rtl"]:
    """The writing direction of a language, or of the script that its code names, as in ``pa-Arab`` and ``arb_Arab``."""
    language, *others = re.split("[-_]", code.lower())
    script = next((other for other in others if len(other) == 4 and other.isalpha()), language)
    return "rtl" if script in _RIGHT_TO_LEFT else "ltr"
