import random
import sys
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from nmtkit.config import dump_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.machine.processes import CAN_FORK, Workers
from nmtkit.text.bpe import Segmenter, learn_merges
from nmtkit.text.moses import has_moses_rules
from nmtkit.text.pipeline import TextPipeline, copy_prep, one_line
from nmtkit.text.round_trip import round_trip
from nmtkit.text.sentencepieces import SentencePieces, learn_sentencepieces
from nmtkit.text.settings import Cleaning, Prep, Side, in_form, load_prep
from nmtkit.text.truecasing import Truecaser

CORPUS = "the lower lowest newer wider new low a@@ b@@b < / s > <s> été über" * 3
MERGES = learn_merges(Counter(CORPUS.split()), 30)
CHARACTERS = "abtsT .,'\"-@()[]<>&;:?!%$10\t\r\x00\x0b\x1c\x7f\x85\u00a0\u2028\u2029\ufeff«»’„éß中😀"

lines = st.text(st.sampled_from(CHARACTERS)) | st.text()
words = st.text(st.sampled_from("abowlnr@</>s\u00e9"), min_size=1)


def plain(language: str = "en", **settings: Any) -> Side:
    return Side(language, **{"normalize": False, "tokenizer": "none", "segmentation": "words", **settings})


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("en", "Mr. Smith's dog (3.5 kg) isn't here, is it?", "Mr. Smith 's dog ( 3.5 kg ) isn 't here , is it ?"),
        ("en", "“Wait…” he said — 1,000 times.", '" Wait ... " he said - 1,000 times .'),
        ("de", "Die Männer, z.B. Jörg, kamen am 3. Mai.", "Die Männer , z.B. Jörg , kamen am 3. Mai ."),
        ("fr", "L’homme n'est pas là : « Non ! »", "L' homme n' est pas là : \" Non ! \""),
    ],
)
def test_text_is_normalised_and_tokenised_as_moses_does(language: str, line: str, tokens: str) -> None:
    assert TextPipeline(Side(language, segmentation="words")).tokens(line) == tokens.split(" ")


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", 'He didn\'t say: "Leave (now)!"'),
        ("de", "Er sagte, dass 3,5% der Männer kamen."),
        ("fr", "L'homme n'est pas là, dit-elle ; pourquoi ?"),
        ("cs", "To je 100% pravda."),
    ],
)
def test_plain_sentences_detokenise_exactly(language: str, line: str) -> None:
    pipeline = TextPipeline(Side(language), segmenter=Segmenter(MERGES))
    assert pipeline.text(pipeline.tokens(line)) == line


@pytest.mark.parametrize("language", ["en", "de", "fr", "cs", "xx"])
@given(line=st.text(st.sampled_from(CHARACTERS.translate({0: None, 0x7F: None, 0xFEFF: None}))))
def test_the_faster_rules_replace_what_sacremoses_replaces(language: str, line: str) -> None:
    line = " ".join(line.split())
    normal = MosesPunctNormalizer(language).normalize(line + "\n")  # as Moses reads it
    expected = MosesTokenizer(language).tokenize(normal, escape=False)
    assert TextPipeline(Side(language, segmentation="words")).tokens(line) == expected


def test_a_quote_after_many_full_stops_moves_as_in_sacremoses() -> None:
    pipeline, normalizer = TextPipeline(Side("de", tokenizer="none", segmentation="words")), MosesPunctNormalizer("de")
    generator = random.Random(1)
    for _ in range(2000):
        line = "".join(generator.choices('.."<a ', k=12))
        assert pipeline.tokens(line) == normalizer.normalize(line + "\n").split()


def test_a_million_full_stops_take_linear_time() -> None:
    assert TextPipeline(Side("de", segmentation="words")).tokens("." * 1_000_000) == ["." * 1_000_000]


@pytest.mark.parametrize("tokenizer", ["moses", "none"])
@given(line=lines)
def test_a_line_of_tokens_has_no_other_line_separators(tokenizer: Any, line: str) -> None:
    pipeline = TextPipeline(Side("fr", tokenizer=tokenizer), segmenter=Segmenter(MERGES))
    tokens = pipeline.tokens(line)
    joined = " ".join(tokens)
    assert joined.split() == joined.split(" ") == tokens or not tokens
    assert len(joined.splitlines()) <= 1
    assert len(pipeline.text(tokens).splitlines()) <= 1


@pytest.mark.parametrize("blank", ["", " ", "\t", "\r", "\u00a0", "\u2028", "\x00", "\ufeff", "\x85 \x0c"])
def test_a_blank_line_has_no_tokens_and_no_tokens_are_a_blank_line(blank: str) -> None:
    for side in (Side("en"), plain()):
        pipeline = TextPipeline(side, segmenter=Segmenter(MERGES))
        assert pipeline.tokens(blank) == []
        assert pipeline.text([]) == ""


def test_line_separators_become_spaces_and_control_characters_are_deleted() -> None:
    for side in (Side("en", segmentation="words"), plain()):
        assert TextPipeline(side).tokens("a\u2028b\x85c\rd\te\x0bf \ufeffg\x00h\x7fi") == "a b c d e f ghi".split()


@pytest.mark.parametrize("tokenizer", ["reversible", "moses", "none"])
def test_invisible_characters_do_not_make_another_word_but_may_separate_words_of_some_scripts(tokenizer: Any) -> None:
    side = Side("ga", tokenizer=tokenizer, segmentation="words", form="NFC")
    line = "e\u00ad\u0301ireann\u2060 bre\ufeffac\u200b \u200b"
    assert TextPipeline(side).tokens(line) == ["éireann", "breac"]
    assert round_trip(TextPipeline(side), [line]).same == 1
    for text in ("ខ្មែរ\u200bថ្មី", "ခေတ်\u200bသစ်", "ไทย\u200bใหม่"):
        assert "\u200b" in TextPipeline(side).text(TextPipeline(side).tokens(text))


@pytest.mark.parametrize("tokenizer", ["reversible", "none"])
@pytest.mark.parametrize("form", ["NFC", None])
def test_windows_1252_that_was_read_as_latin_1_comes_back_as_it_was_written(tokenizer: Any, form: Any) -> None:
    pipeline = TextPipeline(Side("de", tokenizer=tokenizer, normalize=False, segmentation="words", form=form))
    line = "„Hausräumung‘ – ‚nein‘ – 5 €“, schrieb Žižek ‰"
    broken = line.encode("cp1252").decode("latin1")
    assert not broken.isprintable()
    assert pipeline.tokens(broken) == pipeline.tokens(line)
    assert pipeline.text(pipeline.tokens(broken)) == pipeline.text(broken.split()) == line
    assert in_form(pipeline.side, broken) == line
    lowercased = TextPipeline(replace(pipeline.side, lowercase=True))
    assert round_trip(lowercased, [broken, line]).same == 2
    assert one_line("a\x81\x8d\x8f\x90\x9db") == "ab"  # which Windows-1252 lacks


def test_a_vocabulary_with_control_characters_writes_none() -> None:
    for side in (Side("en", segmentation="words"), plain(), Side("en", tokenizer="reversible", segmentation="words")):
        assert TextPipeline(side).text(["a\x1b[2J", "b\x07\u200d"]) == "a[2J b\u200d"


def test_the_first_word_gets_its_usual_case_and_a_capital_again() -> None:
    pipeline = TextPipeline(Side("en", truecase=True), Truecaser({"the": "the", "rome": "Rome"}, set()))
    tokens = pipeline.tokens('"The cat." Rome is old.')
    assert tokens == '" the cat . " Rome is old .'.split()
    assert pipeline.text(tokens) == '"The cat." Rome is old.'


def test_lower_casing_follows_tokenisation_which_needs_the_capitals_of_names() -> None:
    assert TextPipeline(Side("en", lowercase=True, segmentation="words")).tokens("Dr. No.") == ["dr.", "no", "."]


@given(lines)
def test_written_words_are_the_models_words_in_the_users_spelling(line: str) -> None:
    lower = TextPipeline(Side("en", lowercase=True, segmentation="words"))
    cased = TextPipeline(Side("en", truecase=True, segmentation="words"), Truecaser({"the": "the"}, set()))
    assert [word.lower() for word in lower.surface_words(line)] == lower.tokens(line)
    assert len(cased.surface_words(line)) == len(cased.tokens(line))


def test_written_words_keep_their_capitals() -> None:
    pipeline = TextPipeline(Side("en", lowercase=True, segmentation="words"))
    assert pipeline.surface_words("Is McPherson here?") == ["Is", "McPherson", "here", "?"]


def test_tokenised_text_keeps_its_words() -> None:
    line = "it &apos;s <unk> a@-@b ( @@ ) foo@@ bar"
    pipeline = TextPipeline(plain(segmentation="bpe"), segmenter=Segmenter(MERGES))
    assert pipeline.words(pipeline.tokens(line)) == line.split(" ")
    assert pipeline.text(pipeline.tokens(line)) == line


@pytest.mark.parametrize("segmentation", ["words", "bpe", "sentencepiece"])
@pytest.mark.parametrize("language", ["zh", "zho_Hans", "ja", "ko"])
def test_only_chinese_and_japanese_texts_follow_each_other_without_a_space(language: str, segmentation: Any) -> None:
    counts = Counter("我￭ ￭们 去 ￭。 他 来 GPU".split() * 9)
    learnt: dict[str, Any] = {"words": None, "bpe": Segmenter(learn_merges(counts, 9))}
    if segmentation == "sentencepiece":
        learnt[segmentation] = SentencePieces(learn_sentencepieces(counts, 40, [language]))
    for tokenizer in ("reversible", "none") if segmentation == "sentencepiece" else ("reversible",):
        side = plain(language, tokenizer=tokenizer, segmentation=segmentation)
        pipeline = TextPipeline(side, segmenter=learnt[segmentation])
        for first, second in (("我们去。", "他来。"), ("我们去。", "GPU来。"), ("我去GPU", "GPU来。"), ("", "他来。")):
            before, after = pipeline.tokens(first), pipeline.tokens(second)
            space = " " * (language == "ko" or first.endswith("GPU"))
            text = pipeline.text(before + pipeline.following(before, after))
            assert text == (first + space + second).strip()
            assert len(pipeline.following(before, after)) == len(after)


def test_regional_languages_use_the_rules_of_their_language() -> None:
    assert TextPipeline(Side("fr-CA", segmentation="words")).tokens("l'ami") == ["l'", "ami"]
    assert has_moses_rules("pt_BR")


def test_a_language_that_moses_does_not_know_has_english_abbreviations_and_split_apostrophes() -> None:
    assert not has_moses_rules("tlh")
    for language, words in (("tlh", "ma ' am Mr. x tlh ."), ("en", "ma 'am Mr. x tlh .")):
        assert TextPipeline(Side(language, segmentation="words")).tokens("ma'am Mr. x tlh.") == words.split(" ")


def write_prep(folder: Path, prep: Prep) -> None:
    (folder / "prep.yaml").write_text(dump_yaml(to_dict(prep)), encoding="utf-8")


def test_a_pipeline_needs_only_the_folder(tmp_path: Path) -> None:
    write_prep(tmp_path, Prep(Side("en", truecase=True), plain("no")))
    (tmp_path / "bpe.src").write_text(MERGES, encoding="utf-8")
    (tmp_path / "truecase.src").write_text("the (3/3)\n", encoding="utf-8")
    assert TextPipeline.load(tmp_path, "src").tokens("The new.") == ["the", "new", "."]
    assert TextPipeline.load(tmp_path, "tgt").tokens("Det nye.") == ["Det", "nye."]
    assert load_prep(tmp_path).tgt.language == "no"


def test_a_model_folder_gets_needed_files_and_loses_others(tmp_path: Path) -> None:
    data, model = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    model.mkdir()
    write_prep(data, Prep(Side("en"), plain()))
    (data / "bpe.src").write_text(MERGES, encoding="utf-8")
    (model / "bpe.tgt").write_text("old", encoding="utf-8")
    copy_prep(data, model)
    assert sorted(path.name for path in model.iterdir()) == ["bpe.src", "prep.yaml"]
    line = "The newest, lowest."
    assert TextPipeline.load(model, "src").tokens(line) == TextPipeline.load(data, "src").tokens(line)


def test_a_folder_without_settings_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"prep.yaml: not found; make the folder with nmtkit prep"):
        TextPipeline.load(tmp_path, "src")


def test_a_folder_without_its_merges_names_the_file(tmp_path: Path) -> None:
    write_prep(tmp_path, Prep(Side("en"), Side("fr")))
    with pytest.raises(UserError, match=r"bpe.tgt: cannot be read: No such file"):
        TextPipeline.load(tmp_path, "tgt")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Side("en", lowercase=True, truecase=True), "`lowercase` and `truecase` cannot be combined"),
        (lambda: Cleaning(max_length=-1), "`max_length` must be 0 or more, not -1"),
        (lambda: Cleaning(max_ratio=0.5), r"`max_ratio` must be 0 or at least 1, not 0\.5"),
        (lambda: Cleaning(max_ratio=-1), r"`max_ratio` must be 0 or at least 1, not -1"),
        (lambda: plain(escape=True), "`protect` and `escape` are options of `tokenizer` moses or characters, not none"),
        (lambda: Side("en", protected=("(",)), r"`protect`: '\(' is not a regular expression: missing \)"),
        (lambda: Side("en", protected=("a{99999999999999}",)), "is not a regular expression: the repetition number is"),
        (lambda: Prep(Side("en"), Side("fr"), merges=0), "merges: 0 is not at least 1"),
        (lambda: Prep(Side("en"), Side("fr"), pieces=0), "pieces: 0 is not at least 1"),
    ],
)
def test_impossible_settings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_wrong_setting_is_reported_with_its_file(tmp_path: Path) -> None:
    settings = to_dict(Prep(Side("en"), Side("fr")))
    settings["src"] |= {"lowercase": True, "truecase": True}
    (tmp_path / "prep.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    with pytest.raises(UserError, match=r"prep.yaml: src\.lowercase and truecase cannot be"):
        load_prep(tmp_path)


def test_a_translation_that_the_detokenizer_fails_on_is_not_lost() -> None:
    pipeline = TextPipeline(Side("cs", segmentation="words"))
    assert pipeline.text(["x'", "-", "li"]) == "x' - li"


# What Moses' own normalize-punctuation.perl and tokenizer.perl 1.1 (-no-escape) make of our sentences.
MOSES = {
    "en": [
        ("Mr. Brown paid $3.50 for 1,000 apples.", "Mr. Brown paid $ 3.50 for 1,000 apples ."),
        ('He said (quietly): "No!"', 'He said ( quietly ) : " No ! "'),
        ("It's John's; they're the dogs' bowls.", "It 's John 's ; they 're the dogs ' bowls ."),
        ("The U.S. agreed, e.g. on No. 5 of Dr. Who.", "The U.S. agreed , e.g. on No. 5 of Dr. Who ."),
        ("Wait... what?! Really.", "Wait ... what ? ! Really ."),
        ("A state-of-the-art, 50-year-old.", "A state-of-the-art , 50-year-old ."),
        ("www.example.com/a?b=1 or mail me@example.com.", "www.example.com / a ? b = 1 or mail me @ example.com."),
        ("<b>5 > 3 & [x|y]</b>", "< b > 5 > 3 & [ x | y ] < / b >"),
        ("In the 1990's rock'n'roll", "In the 1990 's rock 'n'roll"),
        ("No. He left at 5 p.m. on Jan. 3.", "No . He left at 5 p.m. on Jan. 3 ."),
        ("100% of it, 50°C, §5", "100 % of it , 50 ° C , § 5"),
        ("3,5 is 3 , 5", "3,5 is 3 , 5"),
        ('The end."', 'The end . "'),
    ],
    "de": [
        ("Am 3. Oktober kamen ca. 5.000 Leute, d.h. viele.", "Am 3. Oktober kamen ca. 5.000 Leute , d.h. viele ."),
        ("Dr. Müller sagte: „Nein!“", 'Dr. Müller sagte : " Nein ! "'),
        ("Das war's, Peter's Auto.", "Das war ' s , Peter ' s Auto ."),
        ("z.B. 3,5 Mio. Euro bzw. 20% mehr.", "z.B. 3,5 Mio. Euro bzw. 20 % mehr ."),
        ('Er kam nicht." Sie schon.', 'Er kam nicht " . Sie schon .'),
        ('Er sagte "Ja."', 'Er sagte " Ja " .'),
        ("Nr. 5 und Art. 3 Abs. 2", "Nr. 5 und Art. 3 Abs . 2"),
        ("Ost-West-Dialog", "Ost-West-Dialog"),
    ],
    "fr": [
        ("L'homme qu'il n'a pas vu aujourd'hui.", "L' homme qu' il n' a pas vu aujourd' hui ."),
        ("C'est-à-dire : « oui » !", 'C\' est-à-dire : " oui " !'),
        ("M. Dupont et Mme. Durand, etc.", "M. Dupont et Mme . Durand , etc."),
        ("Il y a 3,5 % de 1 000 €.", "Il y a 3,5 % de 1 000 € ."),
        ("J’ai l’eau.", "J' ai l' eau ."),
        ("5 h 30 min.", "5 h 30 min ."),
        ("L' ami d' Anne", "L ' ami d ' Anne"),
        ('Il a dit "oui."', 'Il a dit " oui " .'),
        ("art. 3 et p. 5", "art. 3 et p. 5"),
    ],
}


@pytest.mark.parametrize(
    ("language", "line", "tokens"), [(language, *case) for language, cases in MOSES.items() for case in cases]
)
def test_tokens_are_those_of_moses_own_scripts(language: str, line: str, tokens: str) -> None:
    assert " ".join(TextPipeline(Side(language, segmentation="words")).tokens(line)) == tokens


@pytest.mark.parametrize(
    ("settings", "language", "line", "tokens"),
    [
        ({"aggressive_hyphens": True}, "en", "A well-known 50-year-old.", "A well @-@ known 50 @-@ year @-@ old ."),
        ({"aggressive_hyphens": True}, "de", "Ost-West-Dialog", "Ost @-@ West @-@ Dialog"),
        ({"aggressive_hyphens": True}, "fr", "C'est-à-dire", "C' est @-@ à @-@ dire"),
        ({"escape": True}, "en", "It's <5> & 6 [x|y]", "It &apos;s &lt; 5 &gt; &amp; 6 &#91; x &#124; y &#93;"),
        ({"protected": (r"https?://\S+",)}, "en", "See http://a.com/b?c=1, now.", "See http://a.com/b?c=1, now ."),
        ({"protected": ("</?[a-z]+>",)}, "en", "x<b>y</b>z <B>", "x <b> y </b> z < B >"),
        ({"protected": ("</?[a-z]+>",), "escape": True}, "en", "<b>x</b>", "&lt;b&gt; x &lt;/b&gt;"),
        ({"protected": ("a b", "b c")}, "en", "a b c, b c", "a b c , b c"),
        ({"protected": ("b c", "a b")}, "en", "a b c, b c", "a b c , b c"),
        ({"protected": ("(?i)<B>", "X-Y")}, "en", "<b>1<B> x-y X-Y", "<b> 1 <B> x-y X-Y"),
        ({"protected": (r"(<)b\1", r"(,)c\1", "(?P<a>/)", r"(?P<a>\+)")}, "en", "x<b<,c,1/2+3", "x <b< ,c, 1 / 2 + 3"),
    ],
)
def test_the_tokenizer_options_equal_those_of_moses(
    settings: dict[str, Any], language: str, line: str, tokens: str
) -> None:
    assert " ".join(TextPipeline(Side(language, segmentation="words", **settings)).tokens(line)) == tokens


def test_a_protected_pattern_may_match_the_empty_string() -> None:
    empty, plus = (TextPipeline(Side("en", protected=(digits,), segmentation="words")) for digits in (r"\d*", r"\d+"))
    line = "Born in 1987, of course."
    assert empty.tokens(line) == plus.tokens(line) == ["Born", "in", "1987", ",", "of", "course", "."]


@pytest.mark.parametrize("line", ["A well-known man's <b> & [x | y].", "THISISPROTECTED <b>"])
def test_escapes_hyphens_and_protected_text_detokenise_exactly(line: str) -> None:
    side = Side("en", aggressive_hyphens=True, escape=True, protected=("<b>",))
    pipeline = TextPipeline(side, segmenter=Segmenter(MERGES))
    assert pipeline.text(pipeline.tokens(line)) in (line, line.replace("<b>", "< b >"))


def test_only_tokens_that_were_escaped_are_unescaped() -> None:
    for escape, text in ((True, "Write < here"), (False, "Write &lt; here")):
        pipeline = TextPipeline(Side("en", escape=escape, segmentation="words"))
        assert pipeline.text(["Write", "&lt;", "here"]) == text


@pytest.mark.parametrize(
    ("language", "line", "tokens", "text"),
    [
        ("zh", "我们有3个iPhone 手机。", "我 们 有 3 个 iPhone 手 机 。", "我们有3个iPhone手机。"),
        pytest.param(
            "zh", "ＡＢＣ公司（中国）", "Ａ Ｂ Ｃ 公 司 （ 中 国 ）", "ＡＢＣ公司（中国）", marks=pytest.mark.slow
        ),
        ("ja", "カメラを買った。", "カ メ ラ を 買 っ た 。", "カメラを買った。"),
    ],
)
def test_every_chinese_or_japanese_character_can_be_a_word(language: str, line: str, tokens: str, text: str) -> None:
    pipeline = TextPipeline(Side(language, tokenizer="characters", segmentation="words"))
    assert " ".join(pipeline.tokens(line)) == tokens
    assert pipeline.text(tokens.split(" ")) == text


def program(tmp_path: Path, body: str) -> str:
    """A command that runs ``body`` for each ``line`` that it reads."""
    (tmp_path / "segment.py").write_text(f"import sys\nfor line in sys.stdin:\n    {body}\n", encoding="utf-8")
    return f"{sys.executable} -u {tmp_path / 'segment.py'}"


def test_a_program_may_separate_the_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.text.command._PAUSE", 0.01)
    command = program(tmp_path, "print(line.strip().replace('-', ' '))")
    pipeline = TextPipeline(plain(command=command))
    for line in ("ev-ler-de é", "x-y"):
        assert pipeline.tokens(line) == line.replace("-", " ").split()
    assert pipeline.tokens("") == []
    assert TextPipeline(Side("tr", command=command, segmentation="words")).tokens("ev-de.") == ["ev", "de", "."]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit(3)", r"segment\.py: exited with status 3 instead of answering a line"),
        ("print('a\\nb')", r"segment\.py: wrote more lines than it read \(a greeting\?\); it must answer line by line"),
        ("pass", r"segment\.py: no answer within 1 seconds; it must answer each line at once, unbuffered \(for"),
    ],
)
def test_a_program_that_does_not_answer_line_by_line_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str
) -> None:
    monkeypatch.setattr("nmtkit.text.command._SECONDS", 1.0)
    with pytest.raises(UserError, match=message):
        TextPipeline(plain(command=program(tmp_path, body))).tokens("a")


@pytest.mark.parametrize("greeting", ["print(1)\nfor line in sys.stdin:", "for line in sys.stdin: print(1);"])
def test_a_program_with_output_before_its_first_answer_is_an_error_and_does_not_shift_the_corpus(
    tmp_path: Path, greeting: str
) -> None:
    """Also if it answers after 3 ms, when the greeting has been read."""
    (tmp_path / "greet.py").write_text(f"import sys, time\n{greeting} time.sleep(0.003); print(line.strip())\n")
    pipeline = TextPipeline(plain(command=f"{sys.executable} -u {tmp_path / 'greet.py'}"))
    with pytest.raises(UserError, match=r"wrote more lines than it read \(a greeting\?\)"):
        pipeline.tokens("a")


def test_a_program_that_warns_at_a_later_line_is_an_error(tmp_path: Path) -> None:
    pipeline = TextPipeline(plain(command=program(tmp_path, "print(line.strip()); line == 'c\\n' and print('w')")))
    assert [pipeline.tokens(line) for line in "ab"] == [["a"], ["b"]]
    with pytest.raises(UserError, match="wrote more lines than it read"):
        [pipeline.tokens(line) for line in "cdef"]


@pytest.mark.parametrize("letters", [1, 100_000])
def test_a_program_may_answer_a_long_line_while_reading_it(letters: int) -> None:
    assert TextPipeline(plain(command="cat")).tokens("ä" * letters) == ["ä" * letters]


@lru_cache(maxsize=1)
def by_cat() -> TextPipeline:
    return TextPipeline(plain(command="cat"))


def tokens_by_cat(line: str) -> list[str]:
    return by_cat().tokens(line)


@pytest.mark.skipif(not CAN_FORK, reason="only forked processes inherit a program")
def test_forked_processes_do_not_read_each_others_answers() -> None:
    """As in translation, whose workers are forked when a first, small window has been tokenised already."""
    lines = [f"line {number}" for number in range(300)]
    expected = [line.split() for line in lines]
    assert tokens_by_cat(lines[0]) == expected[0]
    with Workers(3, helping=True, fork=True) as workers:
        assert list(workers.map(tokens_by_cat, lines)) == expected
    assert tokens_by_cat(lines[1]) == expected[1]


def test_a_program_that_does_not_read_a_long_line_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.text.command._SECONDS", 0.1)
    with pytest.raises(UserError, match="sleep 60: no answer within 0 seconds"):
        TextPipeline(plain(command="sleep 60")).tokens("ä" * 100_000)


def test_a_missing_program_is_reported() -> None:
    with pytest.raises(UserError, match=r"no-such-program: cannot be started: .*No such file"):
        TextPipeline(plain(command="no-such-program")).tokens("a")


def test_a_folder_does_not_run_programs_unless_it_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side = plain("tr", command=program(tmp_path, "print('answer')"))
    write_prep(tmp_path, Prep(side, side))
    monkeypatch.setattr("nmtkit.text.command._PAUSE", 0.01)
    with pytest.raises(UserError, match=r"prep\.yaml: would run .*set NMTKIT_RUN_COMMANDS=1 in the env"):
        TextPipeline.load(tmp_path, "src")
    assert TextPipeline.load(tmp_path, "src", trusted=True).tokens("a") == ["answer"]
    monkeypatch.setenv("NMTKIT_RUN_COMMANDS", "1")
    assert TextPipeline.load(tmp_path, "src").tokens("a") == ["answer"]
