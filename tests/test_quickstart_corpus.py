"""The sentences of recipes/quickstart/corpus.py are correct English and correct French."""

import importlib.util
import random
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "recipes" / "quickstart" / "corpus.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quickstart_corpus", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


grammar = load_script()
NAMES = {
    opening + middle + ending
    for opening in grammar.OPENINGS
    for middle in grammar.MIDDLES
    for endings in grammar.ENDINGS.values()
    for ending in endings
}

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def corpus() -> dict[str, Pairs]:
    made: dict[str, Pairs] = grammar.make_corpus(1, 6000)
    return made


@pytest.fixture(scope="module")
def pairs(corpus: dict[str, Pairs]) -> Pairs:
    return [pair for split in corpus.values() for pair in split]


def words(line: str) -> list[str]:
    return re.findall(r"\w+", line)


def names(line: str) -> list[str]:
    return sorted(word for word in words(line) if word in NAMES)


# The corpus


def test_the_same_seed_writes_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, list[bytes]] = {}
    for folder, seed in (("one", "5"), ("two", "5"), ("other", "6")):
        monkeypatch.setattr(sys, "argv", ["corpus.py", str(tmp_path / folder), "--seed", seed, "--train", "50"])
        grammar.main()
        written[folder] = [
            (tmp_path / folder / f"{split}.{language}").read_bytes()
            for split in ("train", "dev", "test")
            for language in ("en", "fr")
        ]
    assert written["one"] == written["two"]
    assert not set(written["one"]) & set(written["other"])
    assert [text.count(b"\n") for text in written["one"]] == [50, 50, 300, 300, 300, 300]


def test_dev_and_test_do_not_depend_on_the_size_of_the_training_set(corpus: dict[str, Pairs]) -> None:
    assert grammar.make_corpus(1, 100) == {**corpus, "train": corpus["train"][:100]}


def test_no_sentence_occurs_twice_in_either_language(pairs: Pairs) -> None:
    for lines in zip(*pairs, strict=True):
        assert len(set(lines)) == len(pairs)


def test_an_english_sentence_has_one_translation() -> None:
    few = {kind: ["Al" + ending for ending in endings] for kind, endings in grammar.ENDINGS.items()}
    speaker = grammar.Speaker(random.Random(3), few, few, 0.0)
    translations: dict[str, str] = {}
    draws = [speaker.sentence() for _ in range(4000)]
    for en, fr in draws:
        assert translations.setdefault(en, fr) == fr
    assert len(translations) < len(draws)  # or nothing would have been tested


def test_there_are_a_few_hundred_words_and_training_has_those_of_the_test_set(corpus: dict[str, Pairs]) -> None:
    for side, (fewest, most) in enumerate(((350, 450), (700, 950))):
        train, test = (
            {word.lower() for pair in corpus[split] for word in words(pair[side]) if word not in NAMES}
            for split in ("train", "test")
        )
        assert fewest < len(train) < most
        assert len(test - train) < 5


def test_sentences_have_at_most_25_words(pairs: Pairs) -> None:
    lengths = [len(line.split()) for pair in pairs for line in pair]
    assert 1 < min(lengths) < 4
    assert 20 < max(lengths) <= 25


def test_names_are_spelled_alike_in_both_languages(pairs: Pairs) -> None:
    assert all(names(en) == names(fr) for en, fr in pairs)
    assert all(4 <= len(name) <= 9 for en, _ in pairs for name in names(en))


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_sixth_of_the_sentences_has_a_name_that_training_lacks(corpus: dict[str, Pairs], split: str) -> None:
    known = {name for en, _ in corpus["train"] for name in names(en)}
    named = [set(names(en)) for en, _ in corpus[split] if names(en)]
    unseen = [some for some in named if some - known]
    assert len(known) > 950
    assert 0.12 < len(unseen) / len(corpus[split]) < 0.21
    assert 0.25 < len(unseen) / len(named) < 0.5


# Laws of both languages, over all sentences

VOWEL = "[aeiouyhâàéèêîôœ]"
NOUNS = [noun for nouns in grammar.NOUN.values() for noun in nouns]
MASCULINE = "|".join(noun.fr for noun in NOUNS if not noun.feminine)
FEMININE = "|".join(noun.fr for noun in NOUNS if noun.feminine)
VERBS = [verb for verb in grammar.VERB.values() if verb not in grammar.FRAME["modal"]]
INFINITIVES = "|".join(verb.en for verb in VERBS)
THIRD_PERSONS = "|".join(grammar.english_s(verb.en) for verb in VERBS)


def first_with(pattern: str, lines: Iterable[str]) -> str:
    """The first line that has the pattern, or nothing."""
    text = "\n".join(lines)
    found = re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
    return text[text.rfind("\n", 0, found.start()) + 1 : text.find("\n", found.end())] if found else ""


@pytest.mark.parametrize("mistake", [
    pytest.param(rf"\b(je|me|le|la|de|ne|que|ma|sa|ce|beau|nouveau) {VOWEL}", id="no elision before a vowel"),
    pytest.param(rf"\b(un|le|ce|notre|votre|leur|son|mon) vieux {VOWEL}", id="vieux before a vowel"),
    pytest.param(rf"\b((j|m|l|d|n|qu)'|(bel|nouvel|vieil|cet) )(?!{VOWEL})", id="elision before a consonant"),
    pytest.param(r"\b(de|à) les?\b|\bde (du|des)\b", id="no contraction"),
    pytest.param(r"\bsi ils?\b|\bs'(?!ils?\b)", id="si and il"),
    pytest.param(rf"\b(la|une|ma|sa|cette|belle|nouvelle|vieille|petite|grande|bonne|jolie) ({MASCULINE})\b",
                 id="a masculine noun as a feminine one"),
    pytest.param(rf"\b(le|un|ce|cet|beau|bel|nouveau|nouvel|vieux|vieil|petit|grand|bon|joli) ({FEMININE})\b",
                 id="a feminine noun as a masculine one"),
    pytest.param(r"\b(des|ces|mes|ses|nos|vos|leurs|aux|deux|trois|beaucoup de) \w*[^\Wsx]\b", id="a plural without s"),
    pytest.param(r"\best (parti|allé|resté|revenu|arrivé)s", id="a plural participle after est"),
    pytest.param(r"  | [.,]|,[^ ]|\W\.|[^.]$", id="bad spacing"),
])  # fmt: skip
def test_french_never_has(mistake: str, pairs: Pairs) -> None:
    assert first_with(mistake, (fr for _, fr in pairs)) == ""


@pytest.mark.parametrize("mistake", [
    pytest.param(r"\ba [aeiou]|\ban [^aeiou]", id="the wrong one of a and an"),
    pytest.param(rf"\b(he|she) (am|are|were|do|{INFINITIVES})\b", id="he or she with a plural verb"),
    pytest.param(rf"\b(I|we|they) (is|does|{THIRD_PERSONS})\b", id="I, we or they with a verb in the third person"),
    pytest.param(rf"\b(do|does|did|can|cannot|must|will)( not)? (?!not\b|({INFINITIVES})\b)",
                 id="no infinitive after an auxiliary"),
    pytest.param(r"\bnot (\w+ )?(some|two some)\b", id="some under a negation"),
    pytest.param(r"(x|ch|sh|[^aeou]y)s\b|uies\b", id="a bad ending"),
    pytest.param(r"  | [.,]|,[^ ]|\W\.|[^.]$", id="bad spacing"),
])  # fmt: skip
def test_english_never_has(mistake: str, pairs: Pairs) -> None:
    assert first_with(mistake, (en for en, _ in pairs)) == ""


def test_lines_begin_with_a_capital(pairs: Pairs) -> None:
    assert all(line[0].isupper() for pair in pairs for line in pair)


def test_every_ne_has_its_pas_and_every_not_its_ne(pairs: Pairs) -> None:
    for en, fr in pairs:
        negations = len(re.findall(r"\bne\b|\bn'", fr, re.IGNORECASE))
        assert len(re.findall(r"\bpas\b", fr)) == negations == len(re.findall(r"\bnot\b|\bcannot\b", en)), fr


@pytest.mark.parametrize(("subject", "ending"), [
    ("je ", "s|x|e|ai"), ("j'", "s|e|ai"), ("il ", "e|t|d|a"), ("elle ", "e|t|d|a"), ("nous ", "ons|sommes"),
    ("vous ", "ez|êtes|dites"), ("ils ", "nt"),
])  # fmt: skip
def test_a_french_verb_agrees_with_a_pronoun_before_it(subject: str, ending: str, pairs: Pairs) -> None:
    clitics = "(?:(?:ne|me|le|la|les|lui|leur|nous|vous) |n'|m'|l')*"
    opening = re.compile(rf"{subject}{clitics}(\w+)", re.IGNORECASE)
    verbs = [found[1] for _, fr in pairs if (found := opening.match(fr))]
    assert len(set(verbs)) > 10
    assert [verb for verb in verbs if not re.search(f"({ending})$", verb)] == []


# Pairs checked by hand


def noun_phrase(words: str, *, plural: bool = False, owner: Any = None) -> Any:
    determiner, *adjectives, noun = words.split()
    return grammar.noun_phrase(
        determiner,
        next(n for n in NOUNS if noun in (n.en, n.en_plural)),
        [grammar.ADJECTIVE[adjective] for adjective in adjectives],
        plural=plural,
        owner=owner,
    )


ALINA, MAREK = grammar.name("Alina"), grammar.name("Marek")
ME, YOU, HE, SHE, WE, THEY = grammar.PRONOUN.values()
THE_APPLES = noun_phrase("the apples", plural=True)


@pytest.mark.parametrize(("phrase", "en", "fr"), [
    (noun_phrase("the beautiful house"), "the beautiful house", "la belle maison"),
    (noun_phrase("the red house"), "the red house", "la maison rouge"),
    (noun_phrase("the beautiful red houses", plural=True), "the beautiful red houses", "les belles maisons rouges"),
    (noun_phrase("a beautiful umbrella"), "a beautiful umbrella", "un beau parapluie"),
    (noun_phrase("a new flat"), "a new flat", "un nouvel appartement"),
    (noun_phrase("the old friends", plural=True), "the old friends", "les vieux amis"),
    (noun_phrase("this old uncle"), "this old uncle", "ce vieil oncle"),
    (noun_phrase("this uncle"), "this uncle", "cet oncle"),
    (noun_phrase("a old aunt"), "an old aunt", "une vieille tante"),
    (noun_phrase("a white horses", plural=True), "some white horses", "des chevaux blancs"),
    (noun_phrase("a small birds", plural=True), "some small birds", "de petits oiseaux"),
    (noun_phrase("his jacket"), "his jacket", "sa veste"),
    (noun_phrase("her scarf"), "her scarf", "son écharpe"),
    (noun_phrase("my old scarf"), "my old scarf", "ma vieille écharpe"),
    (noun_phrase("their knives", plural=True), "their knives", "leurs couteaux"),
    (noun_phrase("some water"), "some water", "de l'eau"),
    (noun_phrase("some fresh bread"), "some fresh bread", "du pain frais"),
    (noun_phrase("many eggs", plural=True), "many eggs", "beaucoup d'œufs"),
    (noun_phrase("the red car", owner=ALINA), "Alina's red car", "la voiture rouge d'Alina"),
    (noun_phrase("the book", owner=noun_phrase("the doctor")), "the doctor's book", "le livre du médecin"),
])  # fmt: skip
def test_a_noun_phrase_in_both_languages(phrase: Any, en: str, fr: str) -> None:
    assert grammar.written((phrase.en, phrase.fr)) == (en[0].upper() + en[1:] + ".", fr[0].upper() + fr[1:] + ".")


def clause(subject: Any, infinitive: str, **rest: Any) -> Any:
    return grammar.Clause(subject, grammar.VERB[infinitive], **rest)


THE_BOYS = noun_phrase("the boys", plural=True)
THE_BAKER = noun_phrase("the baker")
THE_BAKER_WHO_SLEEPS = grammar.relative(THE_BAKER, clause(THE_BAKER, "dormir"))
THE_APPLES_THAT_ALINA_BOUGHT = grammar.relative(THE_APPLES, clause(ALINA, "acheter", tense="past", gap=THE_APPLES))


@pytest.mark.parametrize(("said", "en", "fr"), [
    (clause(ME, "voir", object=SHE), "I see her.", "Je la vois."),
    (clause(ME, "aimer", object=HE), "I love him.", "Je l'aime."),
    (clause(HE, "chercher", object=THEY, negated=True), "He does not look for them.", "Il ne les cherche pas."),
    (clause(SHE, "attendre", object=ME, tense="past"), "She waited for me.", "Elle m'a attendu."),
    (clause(ME, "voir", object=SHE, tense="past", negated=True), "I did not see her.", "Je ne l'ai pas vue."),
    (clause(THEY, "voir", object=WE, tense="past"), "They saw us.", "Ils nous ont vus."),
    (clause(WE, "manger", object=THE_APPLES), "We eat the apples.", "Nous mangeons les pommes."),
    (clause(WE, "acheter", object=grammar.pronoun_for(THE_APPLES), tense="past"), "We bought them.",
     "Nous les avons achetées."),
    (clause(HE, "manger", object=noun_phrase("no apple"), negated=True), "He does not eat an apple.",
     "Il ne mange pas de pomme."),
    (clause(HE, "boire", object=noun_phrase("any water"), negated=True), "He does not drink any water.",
     "Il ne boit pas d'eau."),
    (clause(ALINA, "aller", tense="past"), "Alina went.", "Alina est allée."),
    (clause(MAREK, "aller", tense="past", negated=True), "Marek did not go.", "Marek n'est pas allé."),
    (clause(YOU, "partir", tense="past"), "You left.", "Vous êtes parti."),
    (clause(YOU, "donner", object=noun_phrase("a egg"), recipient=SHE), "You give her an egg.",
     "Vous lui donnez un œuf."),
    (clause(SHE, "montrer", object=noun_phrase("the boat"), recipient=THE_BOYS, tense="past"),
     "She showed the boat to the boys.", "Elle a montré le bateau aux garçons."),
    (clause(HE, "parler", recipient=THEY, tense="future"), "He will speak to them.", "Il leur parlera."),
    (clause(ME, "envoyer", object=noun_phrase("the letter"), recipient=YOU, tense="future"),
     "I will send you the letter.", "Je vous enverrai la lettre."),
    (clause(SHE, "aider", object=HE, modal=grammar.VERB["pouvoir"], negated=True), "She cannot help him.",
     "Elle ne peut pas l'aider."),
    (clause(ME, "avoir", object=noun_phrase("two dogs", plural=True)), "I have two dogs.", "J'ai deux chiens."),
    (clause(SHE, "avoir", object=noun_phrase("a clock")), "She has a clock.", "Elle a une horloge."),
    (clause(ALINA, "être", tail=[grammar.predicate(ALINA, grammar.ADJECTIVE["happy"])], tense="past"),
     "Alina was happy.", "Alina était heureuse."),
    (clause(ALINA, "travailler", tail=[grammar.after(("with", "avec"), THEY)]), "Alina works with them.",
     "Alina travaille avec eux."),
    (clause(WE, "revenir", tail=[grammar.after(("from", "de"), noun_phrase("the theatre"))]),
     "We come back from the theatre.", "Nous revenons du théâtre."),
    (clause(THE_BAKER_WHO_SLEEPS, "être", tail=[grammar.predicate(THE_BAKER_WHO_SLEEPS, grammar.ADJECTIVE["tired"])]),
     "The baker who sleeps is tired.", "Le boulanger qui dort est fatigué."),
    (clause(MAREK, "vendre", object=THE_APPLES_THAT_ALINA_BOUGHT), "Marek sells the apples that Alina bought.",
     "Marek vend les pommes qu'Alina a achetées."),
])  # fmt: skip
def test_a_clause_in_both_languages(said: Any, en: str, fr: str) -> None:
    assert grammar.written(grammar.statement(said)) == (en, fr)
