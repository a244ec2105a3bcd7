"""Masks replace the placeholders that both sides of a pair have, and no text is lost."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.text.placeholders import MASK, MASKS, masked

PLACEHOLDERS = [
    "{name}",
    "%1$s",
    "%(count)d",
    "{{ x }}",
    '<x id="1"/>',
    "&nbsp;",
    "https://a.org/b?c=d",
    "a@b.org",
    "%s",
]
LINES = st.lists(st.sampled_from([*PLACEHOLDERS, "a", "é", ".", "100%s", " ", "  "]), max_size=30).map("".join)


@given(LINES, LINES)
def test_masks_are_the_same_on_both_sides_and_replace_the_same_text(src: str, tgt: str) -> None:
    pair = masked(src, tgt)
    found = [MASK.findall(line) for line in pair]
    assert found[0] == [*MASKS[: len(found[0])]]  # in the order of the source
    assert sorted(found[1]) == found[0]
    texts = dict[str, str]()
    for line, original in zip(pair, (src, tgt), strict=True):
        kept = MASK.split(line)
        matched = re.fullmatch("(.+?)".join(map(re.escape, kept)), original)
        assert matched is not None
        assert all(
            texts.setdefault(mask, text) == text
            for mask, text in zip(MASK.findall(line), matched.groups(), strict=True)
        )


@given(st.lists(st.sampled_from(PLACEHOLDERS), max_size=20), st.randoms(use_true_random=False))
def test_separate_placeholders_on_both_sides_are_all_masked_up_to_nine(texts: list[str], random: Random) -> None:
    shuffled = random.sample(texts, len(texts))
    src, tgt = masked(" ".join(["a", *texts]), " ".join([*shuffled, "b"]))
    assert len(MASK.findall(src)) == min(len(texts), len(MASKS))
    assert Counter(MASK.sub("", src).split()) - Counter("a") == Counter(MASK.sub("", tgt).split()) - Counter("b")


@pytest.mark.parametrize(
    ("src", "tgt", "of_src", "of_tgt"),
    [
        ("Hello {name}, %d files", "%d fichiers, {name}", "Hello ǁ1ǁ, ǁ2ǁ files", "ǁ2ǁ fichiers, ǁ1ǁ"),
        ("%s and %s", "%s", "%s and %s", "%s"),  # not as often
        ("%s%d of {x}", "{x} : %s%d", "ǁ1ǁ of ǁ2ǁ", "ǁ2ǁ : ǁ1ǁ"),  # several that touch are one
        ("un%done {x}", "un%done {x}", "un%done ǁ1ǁ", "un%done ǁ1ǁ"),  # a part of a word is none
        ("the {file}", "l'{file}", "the ǁ1ǁ", "l'ǁ1ǁ"),
        ("欢迎{name}光临", "Welcome {name}!", "欢迎 ǁ1ǁ 光临", "Welcome ǁ1ǁ!"),  # Chinese has no spaces
        ("メールa@b.jpへ。", "to a@b.jp.", "メール ǁ1ǁ へ。", "to ǁ1ǁ."),
    ],
)
def test_pairs_are_masked(src: str, tgt: str, of_src: str, of_tgt: str) -> None:
    assert masked(src, tgt) == (of_src, of_tgt)
