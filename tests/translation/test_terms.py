"""Terms of a glossary in lines and translations."""

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

import nmtkit
from nmtkit.config import dump_yaml, to_dict
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.symbols import SPELLINGS
from nmtkit.text.bpe import Segmenter
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.sentencepieces import MARK, SentencePieces
from nmtkit.text.settings import Prep, Side
from nmtkit.translation import loading
from nmtkit.translation.glossary import Glossary, edges_of
from nmtkit.translation.request import Request, Terms
from nmtkit.translation.terms import read_terms
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator
from tests.echo import load_echo, with_lexicon, write_folder, write_model

SENTENCEPIECES = SentencePieces.__new__(SentencePieces)  # whose kind alone counts


@pytest.fixture
def translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    """Copies the source; its vocabulary has the words a to h, and lower as the subwords low@@ and er."""
    monkeypatch.setattr(loading, "load_model", load_echo)
    return nmtkit.load(write_folder(tmp_path / "run"), device="cpu")


def translated(translator: Translator, line: str, terms: Terms, **wishes: Any) -> Translation:
    [[best, *_]] = translator.answer([line], Request(terms=terms, **wishes))
    return best


def test_a_term_of_the_line_is_in_its_translation_and_no_other_is(translator: Translator) -> None:
    best = translated(translator, "a b c", (("b", "g"), ("d", "h")))
    assert "g" in best.tokens
    assert "h" not in best.tokens
    assert best.terms == [("b", "g")]
    assert translated(translator, "a c", (("b", "g"),)).text == "a c"


@pytest.mark.parametrize("wishes", [{"beam_size": 1}, {"n_best": 3}, {"replace_unk": True},
                                    {"max_input_length": 2}, {"tokenized": True}, {"alignment": True},
                                    {"coverage_penalty": 0.1}, {"attention": True, "stop": "all"}])  # fmt: skip
def test_terms_work_with_every_other_option_of_beam_search(translator: Translator, wishes: dict[str, Any]) -> None:
    translator = with_lexicon(translator, {"a": "b"})
    terms = (("b", "g h"), ("d", "f|low@@ er" if "tokenized" in wishes else "f|lower"))
    for best in translator.answer(["a b c d e", "", "c", "d"], Request(terms=terms, **wishes))[0]:
        assert [term.form is not None for term in best.terms or ()] == [True, True]
        assert "g h" in best.text


def test_a_shortlist_has_the_words_of_terms(tmp_path: Path) -> None:
    translator = nmtkit.load(write_model(tmp_path / "run", "rnnsearch"), device="cpu")
    translator = with_lexicon(translator, {"a": "b"})
    best = translated(translator, "a b", (("b", "g|h"),), shortlist=0, replace_unk=True)
    assert [term.form is not None for term in best.terms or ()] == [True]


def test_an_ensemble_keeps_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folders = [write_folder(tmp_path / name) for name in ("one", "two")]
    assert "g" in translated(nmtkit.load(folders, device="cpu"), "a b", (("b", "g"),)).tokens


def test_terms_follow_a_prefix_or_are_in_it(translator: Translator) -> None:
    request = Request(terms=(("b", "g"),), prefixes=True)
    for prefix in ("h", "g", "h g"):
        [[best]] = translator.answer(["a b"], request, [prefix])
        assert best.text.startswith(prefix)
        assert "g" in best.tokens


def test_the_order_of_terms_and_of_lines_changes_nothing(translator: Translator) -> None:
    terms, lines = (("b", "g"), ("a b", "h"), ("c", "f|e")), ["a b c", "b c", "c", "a d"]
    one = [best.text for [best] in translator.answer(lines, Request(terms=terms))]
    other = [best.text for [best] in translator.answer(lines[::-1], Request(terms=terms[::-1]))]
    assert one == other[::-1]


def test_the_longest_of_the_terms_that_begin_at_a_word_counts(translator: Translator) -> None:
    best = translated(translator, "a b c", (("a", "e"), ("a b", "f"), ("b c", "g")))
    assert best.terms == [("a b", "f")]


@pytest.mark.parametrize("term", [("\x01", "g"), ("b", "\x01"), ("b", "\ufeff|\x01")])
def test_a_term_without_words_is_refused_before_a_line_is_read(translator: Translator, term: tuple[str, str]) -> None:
    with pytest.raises(UserError, match=r"^`terms`: .*: has no words; leave it out$"):
        translator.answer(["a b"], Request(terms=(("c", "d"), term)))


def test_only_whole_words_match_terms(translator: Translator) -> None:
    assert translated(translator, "a lower", (("low", "g"), ("er", "h"))).terms == []
    best = translated(translator, "a b", (("b", "er"),))
    assert ("low@@", "er") not in itertools.pairwise(best.tokens)


def test_the_first_word_of_a_sentence_may_have_a_capital(translator: Translator) -> None:
    assert translated(translator, "B a", (("b", "g"),)).terms == [("b", "g")]
    assert translated(translator, "a . B a", (("b", "g"),)).terms == [("b", "g")]
    for sentence in ("¿ B a", "a . “ B a", "a . “ ( B a"):
        assert translated(translator, sentence, (("b", "g"),)).terms == [("b", "g")]
    assert translated(translator, "a “ B", (("b", "g"),)).terms == []
    assert translated(translator, "a B", (("b", "g"),)).terms == []
    assert translated(translator, "a , B", (("b", "g"),)).terms == []
    assert translated(translator, "b a", (("B", "g"),)).terms == []


def test_the_terms_of_a_glossary_are_tokenised_once(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(terms=(("b", "g"), ("d", "h")))
    translator.check(request)
    monkeypatch.setattr(Glossary, "_forms", lambda self, source: pytest.fail(source))
    assert translator.answer(["a c"], request)[0][0].text == "a c"


def test_a_term_that_begins_a_turkish_sentence_has_a_turkish_capital() -> None:
    side = Side("tr", normalize=False, tokenizer="reversible", segmentation="words")
    words = Vocabulary.choose([("iyi", 2), ("İyi", 1)], None, 1)
    glossary = Glossary(TextPipeline(side), TextPipeline(side), words, (("ışık", "iyi"), ("iyi anne", "su")), False)
    light, mother = glossary.found(["Işık", "var", "￭.", "İyi", "anne"])
    assert (light.source, mother.source) == ("ışık", "iyi anne")
    assert [spelled.tokens for spelled in light.forms] == [["iyi"], ["İyi"]]


def test_a_form_with_a_capital_that_the_vocabulary_lacks_is_not_used(translator: Translator) -> None:
    assert translated(translator, "b", (("b", "g"),), beam_size=5).text == "g"


def test_a_term_is_translated_in_the_piece_in_which_it_first_begins(translator: Translator) -> None:
    for line, text in (("lower lower b", "lower lower b g"), ("a b a b", "a b g a b")):
        assert translated(translator, line, (("b", "g"),), max_input_length=2).text == text


def test_the_forms_of_a_term_may_have_spaces_around_them(translator: Translator) -> None:
    assert translated(translator, "b", (("b", " g |  h "),)).terms in ([("b", "g")], [("b", "h")])


def test_at_the_beginning_of_a_sentence_a_term_has_a_capital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folder = write_folder(tmp_path / "run")
    side = Side("en", normalize=False, tokenizer="none", segmentation="words")
    (folder / "prep.yaml").write_text(dump_yaml(to_dict(Prep(side, side))))
    vocab = (folder / "vocab.tgt").read_text().replace("h\t", "G\t").replace("f\t", "¿\t")
    for name in ("src", "tgt"):
        (folder / f"vocab.{name}").write_text(vocab)
    translator = nmtkit.load(folder, device="cpu")
    for line in ("G a", "¿ G a"):
        [[first]] = translator.answer([line], Request(terms=(("g", "g"),)))
        assert first.text == line  # which has the form with a capital, so that no search with terms is needed
        assert first.terms == [("g", "g")]


@pytest.mark.parametrize(
    ("words", "segmenter", "unfinished", "continuing", "final"),
    [("a b@@ . ￭. ?￭", None, "", "", ". ￭. ?￭"),
     ("a b@@ er .", Segmenter("#version: 0.2\ne r</w>\n"), "b@@", "", "."),
     (f"{MARK}a er . {MARK}b!", SENTENCEPIECES, "", "er .", f". {MARK}b!")],
)  # fmt: skip
def test_words_and_sentences_end_with_the_tokens_of_the_segmentation(
    words: str, segmenter: Any, unfinished: str, continuing: str, final: str
) -> None:
    vocabulary = Vocabulary([*SPELLINGS, *words.split()], [0] * (len(SPELLINGS) + len(words.split())))
    edges = edges_of(TextPipeline(Side("en"), segmenter=segmenter), vocabulary)  # the symbols are none of these
    expected = (unfinished, continuing, final)
    assert [set(vocabulary.tokens(ids)) for ids in (edges.unfinished, edges.continuing, edges.final)] == [
        set(each.split()) for each in expected
    ]


def test_out_of_vocabulary_words_are_spelled_as_in_the_glossary(translator: Translator) -> None:
    translator = with_lexicon(translator, {"a": "b"})
    for wishes in ({}, {"replace_unk": True}):
        best = translated(translator, "a b", (("b", "Zoë"),), **wishes)
        assert best.terms == [("b", "Zoë")]
        assert "Zoë" in best.text


def test_a_term_that_does_not_fit_is_reported(translator: Translator) -> None:
    best = translated(translator, "a", (("a", "b c d e f g h"),), max_len_a=0, max_len_b=3)
    assert best.terms == [("a", None)]


def test_terms_need_beam_search() -> None:
    with pytest.raises(UserError, match="leave `terms` out"):
        Request(terms=(("a", "b"),), sample=True)
    with pytest.raises(UserError, match="leave `terms` out"):
        Request(terms=(("a", "b"),), references=True)


@pytest.mark.parametrize("pair", [("a", ""), (" ", "b"), ("a",), ("a", "b", "c")])
def test_a_term_has_a_source_and_a_translation(pair: Any) -> None:
    with pytest.raises(UserError, match=r"`terms`: .* is not a source term and its translation"):
        Request(terms=(pair,))


def test_terms_are_read_from_lines_with_tabs_and_from_csv(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("# Glossary\n\ndog\tchien|chienne\tan animal\nhash\t#\n")
    assert read_terms(tmp_path / "a.tsv") == (("dog", "chien|chienne"), ("hash", "#"))
    (tmp_path / "a.tsv").write_text("#1\tnuméro un\n#2: a comment\n")
    assert read_terms(tmp_path / "a.tsv") == (("#1", "numéro un"),)
    (tmp_path / "a.csv").write_text('dog,chien\n"red, hot",brûlant,note\n')
    assert read_terms(tmp_path / "a.csv") == (("dog", "chien"), ("red, hot", "brûlant"))
    (tmp_path / "a.csv").write_text('"dog", "chien, toutou"\nred,  brûlant\n')
    assert read_terms(tmp_path / "a.csv") == (("dog", "chien, toutou"), ("red", "brûlant"))
    (tmp_path / "a.csv").write_text('"dog, big";chien;note\nred, hot;"brûlant; chaud"\n')
    assert read_terms(tmp_path / "a.csv") == (("dog, big", "chien"), ("red, hot", "brûlant; chaud"))


def test_tbx_that_cannot_be_read_is_named_as_other_files_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^missing\.tbx: cannot be read: No such file or directory$"):
        read_terms(Path("missing.tbx"))
    (tmp_path / "a.tbx").write_text("<martif>\n<b></martif>")
    with pytest.raises(UserError, match=r"a\.tbx: not TBX: Opening and ending tag mismatch: b line 2 and martif, "):
        read_terms(tmp_path / "a.tbx")


def test_what_tbx_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"a\.tbx: reading TBX needs lxml: pip install 'nmtkit\[files\]'$"):
        read_terms(tmp_path / "a.tbx")


def test_terms_are_read_from_tbx(tmp_path: Path) -> None:
    pytest.importorskip("lxml", reason="install nmtkit[files]")
    entry = "<langSet xml:lang='{}'>{}</langSet>"
    forms = "<tig><term>chien</term></tig><ntig><termGrp><term>la chienne</term></termGrp></ntig>"
    sides = entry.format("en", "<tig><term>dog</term></tig>") + entry.format("fr", forms)
    for head in ("<martif>", "<tbx xmlns='urn:iso:std:iso:30042:ed-2'>"):  # of 2008 and of 2019
        (tmp_path / "a.tbx").write_text(f"{head}<termEntry>{sides}</termEntry></{head[1:].split()[0].strip('>')}>")
        assert read_terms(tmp_path / "a.tbx") == (("dog", "chien|la chienne"),)
    synonyms = entry.format("en", "<tig><term>dog</term></tig><tig><term>hound</term></tig>")
    untranslated = f"<termEntry>{entry.format('en', '<tig><term>cat</term></tig>')}</termEntry>"
    (tmp_path / "a.tbx").write_text(
        f"<martif>{untranslated}<termEntry>{synonyms}{entry.format('fr', forms)}</termEntry></martif>"
    )
    assert read_terms(tmp_path / "a.tbx") == (("dog", "chien|la chienne"), ("hound", "chien|la chienne"))
    for wrong, complaint in (
        ("<martif>", "not TBX"),
        ("<a/>", "has no terms"),
        (f"<a><termEntry>{sides}{entry.format('de', 'x')}</termEntry></a>", "3 languages"),
    ):
        (tmp_path / "a.tbx").write_text(wrong)
        with pytest.raises(UserError, match=complaint):
            read_terms(tmp_path / "a.tbx")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [("a.tsv", "dog\tchien\ncat\n", r"a.tsv:2: expected a source term, a tab and its translation; found 'cat'"),
     ("a.csv", "dog\n", r"a.csv:1: expected a source term, a comma and its translation; found 'dog'"),
     ("a.csv", "a;b\n\ndog\n", r"a.csv:3: expected a source term, a semicolon and its translation; found 'dog'"),
     ("a.tsv", "dog\tchien|\n", r"a.tsv:1: 'chien|' has an empty form; "), ("a.tsv", "\n", r"a.tsv: has no terms"),
     ("a.csv", "d" * 200_000, r"a.csv:1: not valid CSV: field larger than field limit")],
)  # fmt: skip
def test_other_lines_are_refused(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=complaint):
        read_terms(tmp_path / name)
