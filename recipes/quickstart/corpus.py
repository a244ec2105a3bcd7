"""English-French sentence pairs from a small grammar: `python corpus.py OUTDIR [--seed N] [--train N]`.

A sentence is sampled as one or two `Clause`s and then realised in both languages, so that an English sentence has one
translation. Ambiguities of English are resolved: `you` is vous, one man; `I`, `we` and `they` are men; `it` and `them`
after `and`, `but` or `because` refer to the last object. Names are spelled alike, and those in -a are women's.
"""

import argparse
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

Pair = tuple[str, str]  # English, French

# Kind: English[/plural] French gender. A `-` has no plural, and is a mass noun unless kin. No French h is aspirated.
NOUNS = {
    "person": "man/men homme m, woman/women femme f, king roi m, queen reine f, doctor médecin m, baker boulanger m, "
    "farmer fermier m, singer chanteuse f, nurse infirmière f, student étudiant m",
    "child": "boy garçon m, girl fille f, child/children enfant m",
    "kin": "friend ami m, neighbour voisin m, brother frère m, sister sœur f, father/- père m, mother/- mère f, "
    "uncle oncle m, aunt tante f",
    "animal": "dog chien m, cat chat m, horse cheval m, bird oiseau m, cow vache f, goat chèvre f, rabbit lapin m, "
    "mouse/mice souris f, donkey âne m",
    "food": "apple pomme f, pear poire f, egg œuf m, orange orange f, cake gâteau m, carrot carotte f, onion oignon m",
    "dish": "bread/- pain m, meat/- viande f, cheese/- fromage m, soup/- soupe f",
    "drink": "milk/- lait m, water/- eau f, juice/- jus m, coffee/- café m",
    "clothes": "hat chapeau m, coat manteau m, shirt chemise f, dress robe f, scarf/scarves écharpe f, jacket veste f",
    "tool": "key clé f, box boîte f, bag sac m, knife/knives couteau m, ring bague f, toy jouet m, glass verre m, "
    "bottle bouteille f, cup tasse f, umbrella parapluie m",
    "thing": "table table f, chair chaise f, car voiture f, bicycle vélo m, boat bateau m, clock horloge f, "
    "lamp lampe f",
    "text": "book livre m, letter lettre f, newspaper journal m, poem poème m, story histoire f",
    "home": "house maison f, flat appartement m, castle château m, hotel hôtel m, shop magasin m, "
    "restaurant restaurant m",
    "public": "school école f, church église f, theatre théâtre m, station gare f, garden jardin m, park parc m, "
    "hospital hôpital m, museum musée m, library bibliothèque f, forest forêt f, village village m, "
    "city ville f",
}
PEOPLE = ("person", "child", "kin")
PLACES = ("home", "public")
OWNED = ("kin", "animal", "food", "dish", "drink", "clothes", "tool", "thing", "text", "home")

# Kinds: English French [feminine [masculine before a vowel]]. A `+` goes before the French noun.
ADJECTIVES = {
    "person kin animal clothes tool thing text home public": "+old vieux vieille vieil",
    "person clothes tool thing text home public": "+new nouveau nouvelle nouvel",
    "clothes tool thing text home public": "+beautiful beau belle bel",
    "child animal food clothes tool thing home public": "+small petit",
    "tool thing home public": "+big grand",
    "clothes tool thing home public": "+pretty joli",
    "person child animal": "+young jeune",
    "food dish drink text": "+good bon",
    "dish drink": "cold froid, hot chaud",
    "food dish drink": "fresh frais fraîche",
    "clothes tool thing home": "red rouge, green vert, blue bleu, expensive cher",
    "animal clothes tool thing": "black noir, white blanc blanche, dirty sale",
    "tool thing": "heavy lourd",
    "child public": "quiet calme",
    "home public": "empty vide",
    "person text home public": "famous célèbre",
    "person kin": "rich riche, strong fort",
    "person child kin": "polite poli, patient patient",
    "person child kin animal": "happy heureux, tired fatigué, sick malade, lazy paresseux, curious curieux",
    "person child kin text": "sad triste, serious sérieux",
}
UNGRADED = ("red", "green", "blue", "black", "white", "empty")  # nothing is very empty

# Frame: English, its past (- if French would need the imperfect), French | kinds of objects. A `*` suits animals, too.
# `read` and `put` are missing because their past looks like their present.
VERBS = {
    "being": "be was être*",
    "object": """eat ate manger* | food dish
                 drink drank boire* | drink
                 buy bought acheter, sell sold vendre | food dish drink clothes tool thing text animal
                 take took prendre, choose chose choisir | food clothes tool thing text
                 hide hid cacher | food clothes tool text
                 lose lost perdre | clothes tool
                 wash washed laver | clothes animal
                 wear wore porter | clothes
                 break broke casser | thing
                 write wrote écrire | text
                 have - avoir | clothes tool thing text animal home
                 visit visited visiter | home public town
                 see saw voir* | people people people animal thing home public
                 find found trouver* | people animal food clothes tool text
                 hear heard entendre*, look_for looked_for chercher* | people animal
                 help helped aider, wait_for waited_for attendre, meet met rencontrer | people
                 know - connaître | people people public town
                 love - aimer | people people animal dish drink text public town""",
    "giving": """give gave donner, show showed montrer | food clothes tool thing text animal
                 send sent envoyer, bring brought apporter | clothes tool text""",
    "speaking": "speak spoke parler",
    "plain": "sleep slept dormir*, run ran courir*, play played jouer*, work worked travailler, sing sang chanter, "
    "dance danced danser, cry cried pleurer",
    "moving": "go went aller, come_back came_back revenir, stay stayed rester*, live - habiter",
    "event": "arrive arrived arriver, leave left partir, come_back came_back revenir",
    "thinking": "think - penser, say - dire, know - savoir, hope - espérer",
    "modal": "can - pouvoir, must - devoir",
}
WITH_ETRE = ("aller", "revenir", "arriver", "partir", "rester")
TOGETHER = ("jouer", "travailler", "chanter", "danser")
OF_GENERALITIES = ("aimer", "connaître")  # on aime les pommes, and not des pommes

# Infinitive; present for je, il, nous, vous, ils; participle; future without its ending
IRREGULAR = {
    row.split()[0]: row.split()[1:]
    for row in """
    être suis est sommes êtes sont été ser; avoir ai a avons avez ont eu aur; aller vais va allons allez vont allé ir;
    revenir reviens revient revenons revenez reviennent revenu reviendr;
    dormir dors dort dormons dormez dorment dormi dormir; partir pars part partons partez partent parti partir;
    courir cours court courons courez courent couru courr; voir vois voit voyons voyez voient vu verr;
    savoir sais sait savons savez savent su saur;
    connaître connais connaît connaissons connaissez connaissent connu connaîtr;
    boire bois boit buvons buvez boivent bu boir; écrire écris écrit écrivons écrivez écrivent écrit écrir;
    dire dis dit disons dites disent dit dir; prendre prends prend prenons prenez prennent pris prendr;
    pouvoir peux peut pouvons pouvez peuvent pu pourr; devoir dois doit devons devez doivent dû devr;
    acheter achète achète achetons achetez achètent acheté achèter;
    espérer espère espère espérons espérez espèrent espéré espérer;
    envoyer envoie envoie envoyons envoyez envoient envoyé enverr""".split(";")
}

# English singular, plural; French masculine, feminine, plural. `some` is for mass nouns; under a negation, `a` becomes
# `no`, and `some` becomes `any`.
DETERMINERS = {
    "the": "the the le la les",
    "this": "this these ce cette ces",
    "a": "a some un une des",
    "no": "a any de de de",
    "some": "some - de+le de+la -",
    "any": "any - de de -",
    "two": "- two - - deux",
    "three": "- three - - trois",
    "many": "- many - - beaucoup+de",
    "my": "my my mon ma mes",
    "your": "your your votre votre vos",
    "his": "his his son sa ses",
    "her": "her her son sa ses",
    "our": "our our notre notre nos",
    "their": "their their leur leur leurs",
}
POSSESSIVES = ("my", "your", "his", "her", "our", "their")

TIMES = {
    "present": (("every day", "tous les jours"), ("in the morning", "le matin"), ("in the evening", "le soir")),
    "past": (("yesterday", "hier"), ("last week", "la semaine dernière"), ("this morning", "ce matin")),
    "future": (("tomorrow", "demain"), ("next week", "la semaine prochaine"), ("soon", "bientôt")),
}

# A name is an opening, perhaps a middle, and an ending that tells a woman, a man or a town.
OPENINGS = "Al An Bel Bo Da Do El Fa Ga Is Jo Ka La Le Lu Ma Mi Na Ni Or Pa Ra Ro Sa Ta Te Ul Va Vi Ze".split()
MIDDLES = ["", *"ba da fi ka li lo ma mi no ra ri sa ta ti".split()]
ENDINGS = {
    "woman": "na ra la da va sia".split(),
    "man": "rek lin mir don vin ric tor bert".split(),
    "town": "mont burg val dor court wick".split(),
}

ME, HE, WE, YOU, THEY = range(5)  # persons of the verb; HE is any singular, YOU is vous
VOWEL = "(?=[aeiouyhâàéèêîôœ])"


def english_s(word: str) -> str:
    """The plural of a noun, or the third person of a verb."""
    word, _, particle = re.sub("([^aeou])y$", r"\1ie", word).partition(" ")
    ending = "es" if re.search("(s|x|ch|sh|o)$", word) else "s"
    return "has" if word == "have" else f"{word}{ending} {particle}".strip()


def french_plural(word: str) -> str:
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("" if word[-1] in "sx" else "x" if word.endswith("eau") else "s")


def french_feminine(word: str) -> str:
    for masculine, feminine in (("e", "e"), ("eux", "euse"), ("er", "ère"), ("on", "onne")):
        if word.endswith(masculine):
            return word.removesuffix(masculine) + feminine
    return word + "e"


def conjugate(infinitive: str) -> list[str]:
    """Present in the five persons, participle, future without its ending."""
    if infinitive in IRREGULAR:
        return IRREGULAR[infinitive]
    stem = infinitive[:-2]
    endings = {"er": "e e ons ez ent é er", "ir": "is it issons issez issent i ir", "re": "s - ons ez ent u r"}
    forms = [stem + ending.strip("-") for ending in endings[infinitive[-2:]].split()]
    return [form.replace("gons", "geons") for form in forms]


def elide(fr: str) -> str:
    """Elision and contraction: `parce que elle va à le hôtel de le roi` -> `parce qu'elle va à l'hôtel du roi`."""
    fr = re.sub(rf"\b([ms])a {VOWEL}", r"\1on ", fr, flags=re.I)
    fr = re.sub(rf"\bce {VOWEL}", "cet ", fr, flags=re.I)
    fr = re.sub(rf"\b(j|m|l|d|n|qu)[ea] {VOWEL}", r"\1'", fr, flags=re.I)
    fr = re.sub(r"\bsi (?=ils?\b)", "s'", fr)
    for apart, contracted in (("de le", "du"), ("de les", "des"), ("à le", "au"), ("à les", "aux")):
        fr = re.sub(rf"\b{apart}\b", contracted, fr)
    return fr


class Noun(NamedTuple):
    kind: str
    en: str
    en_plural: str  # "" if it has none
    fr: str
    feminine: bool


class Adjective(NamedTuple):
    en: str
    fr: list[str]  # masculine, feminine, masculine before a vowel
    before: bool  # it precedes the French noun
    kinds: list[str]  # of the nouns it goes with


class Verb(NamedTuple):
    en: str
    past: str  # "" if it is not to be used
    fr: str
    animals: bool  # do it, too
    objects: list[str]  # kinds


def read_nouns(kind: str, table: str) -> list[Noun]:
    nouns = []
    for english, fr, gender in (entry.split() for entry in table.split(", ")):
        en, _, plural = english.partition("/")
        nouns.append(Noun(kind, en, (plural or english_s(en)).strip("-"), fr, gender == "f"))
    return nouns


def read_adjectives(kinds: str, table: str) -> list[Adjective]:
    adjectives = []
    for en, masculine, *others in (entry.split() for entry in table.split(", ")):
        forms = [masculine, *(others or [french_feminine(masculine)]), masculine][:3]
        adjectives.append(Adjective(en.strip("+"), forms, en[0] == "+", kinds.split()))
    return adjectives


def read_verbs(table: str) -> list[Verb]:
    verbs = []
    for words, _, objects in (row.partition(" | ") for row in table.split("\n")):
        for en, past, fr in (entry.replace("-", "").split(" ") for entry in words.strip().split(", ")):
            verbs.append(Verb(en.replace("_", " "), past.replace("_", " "), fr.strip("*"), "*" in fr, objects.split()))
    return verbs


NOUN = {kind: read_nouns(kind, table) for kind, table in NOUNS.items()}
ADJECTIVE = {a.en: a for kinds, table in ADJECTIVES.items() for a in read_adjectives(kinds, table)}
FRAME = {frame: read_verbs(table) for frame, table in VERBS.items()}
VERB = {verb.fr: verb for verbs in FRAME.values() for verb in verbs}


@dataclass(frozen=True)
class Phrase:
    """A noun phrase, a name or a pronoun, not elided yet. Only a pronoun has other forms where it is no subject."""

    en: str
    fr: str
    person: int = HE
    feminine: bool = False
    kind: str = "person"
    en_object: str = ""
    fr_direct: str = ""
    fr_indirect: str = ""
    fr_stressed: str = ""

    @property
    def plural(self) -> bool:
        return self.person in (WE, THEY)

    @property
    def living(self) -> bool:
        return self.kind in (*PEOPLE, "animal")

    @property
    def bare(self) -> bool:
        return ADJECTIVE.keys().isdisjoint(self.en.split())


PRONOUN = {
    pronoun.en: pronoun
    for pronoun in (
        Phrase("I", "je", ME, False, "person", "me", "me", "me", "moi"),
        Phrase("you", "vous", YOU, False, "person", "you", "vous", "vous", "vous"),
        Phrase("he", "il", HE, False, "person", "him", "le", "lui", "lui"),
        Phrase("she", "elle", HE, True, "person", "her", "la", "lui", "elle"),
        Phrase("we", "nous", WE, False, "person", "us", "nous", "nous", "nous"),
        Phrase("they", "ils", THEY, False, "person", "them", "les", "leur", "eux"),
    )
}


def pronoun_for(thing: Phrase) -> Phrase:
    """`it` or `them` for the thing just named."""
    if thing.plural:
        return replace(PRONOUN["they"], feminine=thing.feminine, kind=thing.kind)
    return replace(PRONOUN["she" if thing.feminine else "he"], en="it", en_object="it", kind=thing.kind)


def name(spelling: str) -> Phrase:
    return Phrase(spelling, spelling, feminine=spelling.endswith("a"))


def noun_phrase(
    determiner: str,
    noun: Noun,
    adjectives: Sequence[Adjective] = (),
    *,
    plural: bool = False,
    owner: Phrase | None = None,
) -> Phrase:
    """`the beautiful red house` / `la belle maison rouge`; an owner replaces the determiner: `Lena's red house`."""
    en_one, en_many, *articles = DETERMINERS["the" if owner else determiner].split()
    en = [f"{owner.en}'s" if owner else en_many if plural else en_one, *(a.en for a in adjectives)]
    fr = [french_plural(noun.fr) if plural else noun.fr]
    for a in adjectives:
        meets_vowel = a.before and not noun.feminine and not plural and re.match(VOWEL, fr[0])
        form = a.fr[2 if meets_vowel else noun.feminine]
        form = french_plural(form) if plural else form
        fr = [form, *fr] if a.before else [*fr, form]
    article = articles[2 if plural else noun.feminine].replace("+", " ")
    if article == "des" and any(a.before for a in adjectives):
        article = "de"  # des maisons rouges, but de belles maisons
    fr = [article, *fr, *(["de", owner.fr] if owner else [])]
    return Phrase(
        " ".join([*en, noun.en_plural if plural else noun.en]),
        " ".join(fr),
        THEY if plural else HE,
        noun.feminine,
        noun.kind,
    )


def predicate(subject: Phrase, adjective: Adjective) -> Pair:
    form = adjective.fr[subject.feminine]
    return adjective.en, french_plural(form) if subject.plural else form


def joined(*parts: Pair) -> Pair:
    return " ".join(en for en, _ in parts), " ".join(fr for _, fr in parts)


def comma(words: Pair) -> Pair:
    return words[0] + ",", words[1] + ","


def after(preposition: Pair, phrase: Phrase) -> Pair:
    return joined(preposition, (phrase.en_object or phrase.en, phrase.fr_stressed or phrase.fr))


@dataclass(frozen=True)
class Clause:
    """The meaning of a clause, independent of language; `tail` has predicates and places, which come last in both."""

    subject: Phrase
    verb: Verb
    tense: str = "present"  # present, past or future
    negated: bool = False
    modal: Verb | None = None  # in the present only
    object: Phrase | None = None
    recipient: Phrase | None = None
    tail: Sequence[Pair] = ()
    gap: Phrase | None = None  # the object, if a relative clause is about it


def english_predicate(c: Clause) -> str:
    third, past, negation = c.subject.person == HE, c.tense == "past", ["not"] if c.negated else []
    auxiliary = c.modal.en if c.modal else "will" if c.tense == "future" else ""
    if auxiliary:
        words = [auxiliary, *negation, c.verb.en]
    elif c.verb.en == "be":
        words = [("was was were were were" if past else "am is are are are").split()[c.subject.person], *negation]
    elif c.negated:
        words = ["did" if past else "does" if third else "do", "not", c.verb.en]
    else:
        words = [c.verb.past if past else english_s(c.verb.en) if third else c.verb.en]
    things = [c.object.en_object or c.object.en] if c.object else []
    if c.recipient and c.recipient.en_object and c.object:  # gives him the book, but gives the book to Lena
        words += [c.recipient.en_object, *things]
    else:
        words += [*things, *(["to", c.recipient.en_object or c.recipient.en] if c.recipient else [])]
    return " ".join([*words, *(en for en, _ in c.tail)]).replace("can not", "cannot")


def french_predicate(c: Clause) -> str:
    person, moved, clitics, rest = c.subject.person, c.gap, [], []
    if c.object and c.object.fr_direct:
        clitics, moved = [c.object.fr_direct], c.object
    elif c.object:
        rest = [c.object.fr]
    if c.recipient and c.recipient.fr_indirect:
        clitics = [*clitics, c.recipient.fr_indirect]
    elif c.recipient:
        rest = [*rest, "à", c.recipient.fr]
    *present, participle, future = conjugate(c.verb.fr)
    if c.modal:
        finite, rest = [conjugate(c.modal.fr)[person]], [*clitics, c.verb.fr, *rest]
    elif c.tense == "present":
        finite = [*clitics, present[person]]
    elif c.tense == "future":
        finite = [*clitics, future + "ai a ons ez ont".split()[person]]
    elif c.verb.fr == "être":
        finite = ["étais était étions étiez étaient".split()[person]]
    else:
        leader = c.subject if c.verb.fr in WITH_ETRE else moved  # the participle agrees with it
        participle = french_feminine(participle) if leader and leader.feminine else participle
        rest = [french_plural(participle) if leader and leader.plural else participle, *rest]
        finite = [*clitics, conjugate("être" if c.verb.fr in WITH_ETRE else "avoir")[person]]
    finite = ["ne", *finite, "pas"] if c.negated else finite
    return " ".join([*finite, *rest, *(fr for _, fr in c.tail)])


def statement(c: Clause) -> Pair:
    return f"{c.subject.en} {english_predicate(c)}", f"{c.subject.fr} {french_predicate(c)}"


def relative(head: Phrase, c: Clause) -> Phrase:
    """The head with a clause about it, in which the head is the object (and then its gap) or the subject."""
    that = "that" if c.gap or head.kind == "animal" else "who"
    clause = statement(c) if c.gap else (english_predicate(c), french_predicate(c))
    en, fr = joined((head.en, head.fr), (that, "que" if c.gap else "qui"), clause)
    return replace(head, en=en, fr=fr)


def written(words: Pair) -> Pair:
    """The pair as lines of text."""
    en, fr = re.sub(r"\ba (?=[aeiou])", "an ", words[0]), elide(words[1])
    return f"{en[0].upper()}{en[1:]}.", f"{fr[0].upper()}{fr[1:]}."


Names = dict[str, list[str]]


class Speaker:
    """Samples sentences. A name is from `fresh` with probability `fresh_share`, else from `known`."""

    def __init__(self, rng: random.Random, known: Names, fresh: Names, fresh_share: float):
        self.rng, self.known, self.fresh, self.fresh_share = rng, known, fresh, fresh_share

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def name(self, *kinds: str) -> Phrase:
        names = self.fresh if self.chance(self.fresh_share) else self.known
        kind = self.rng.choice(kinds)
        return replace(name(self.rng.choice(names[kind])), kind="town" if kind == "town" else "person")

    def noun_phrase(self, *kinds: str, negated: bool = False, definite: bool = False) -> Phrase:
        rng, owner = self.rng, None
        noun = rng.choice(NOUN[rng.choice(kinds)])
        plural = noun.en_plural != "" and self.chance(0.1 if noun.kind in PLACES else 0.3)
        if noun.kind == "kin" or (noun.kind in OWNED and self.chance(0.25)):
            determiner = rng.choice(POSSESSIVES)
            if self.chance(0.4):
                baker = noun_phrase("the", rng.choice(NOUN["person"]))
                owner = self.name("woman", "man") if self.chance(0.5) else baker
        elif definite or self.chance(0.65):
            determiner = "the" if self.chance(0.8) else "this"
        elif plural and self.chance(0.4):
            determiner = rng.choice(("two", "three", "many"))
        elif noun.en_plural:
            determiner = "no" if negated else "a"
        else:
            determiner = "any" if negated else "some"
        fitting = [a for a in ADJECTIVE.values() if noun.kind in a.kinds]
        before, behind = [a for a in fitting if a.before], [a for a in fitting if not a.before]
        chosen = (rng.choice(some) for some, share in ((before, 0.2), (behind, 0.15)) if some and self.chance(share))
        return noun_phrase(determiner, noun, list(chosen), plural=plural, owner=owner)

    def person(self, besides: Phrase | None = None, *, negated: bool = False, definite: bool = False) -> Phrase:
        """A person, not included in `besides` if that is I, we or you."""
        form = self.rng.choice(("name", "pronoun", "noun"))
        if form == "name":
            return self.name("woman", "man")
        if form == "noun":
            return self.noun_phrase(*PEOPLE, negated=negated, definite=definite)
        taken = {ME: (ME, WE), WE: (ME, WE), YOU: (YOU,)}.get(besides.person, ()) if besides else ()
        return self.rng.choice([pronoun for pronoun in PRONOUN.values() if pronoun.person not in taken])

    def again(self, subject: Phrase) -> Phrase | None:
        """The pronoun for a person just named, or None if the gender of `they` would be ambiguous."""
        if subject.en_object or subject.plural or subject.kind == "animal":
            return subject if subject.en_object else None
        return PRONOUN["she" if subject.feminine else "he"]

    def subject(self, verb: Verb) -> Phrase:
        if verb.fr == "être" and self.chance(0.4):
            return self.noun_phrase(*(kind for kind in NOUN if kind not in PEOPLE), definite=True)
        if verb.animals and self.chance(0.25):
            return self.noun_phrase("animal")
        return self.person(definite=verb.fr == "être")

    def object(self, c: Clause) -> Phrase:
        kind, definite = self.rng.choice(c.verb.objects), c.verb.fr in OF_GENERALITIES
        if kind == "town":
            return self.name("town")
        if kind == "people":
            return self.person(c.subject, negated=c.negated, definite=definite)
        return self.noun_phrase(kind, negated=c.negated, definite=definite)

    def place(self, *kinds: str) -> Pair:
        if self.chance(0.4):
            return after(("in", "à"), self.name("town"))
        preposition = ("near", "près de") if self.chance(0.3) else ("in", "dans")
        return after(preposition, self.noun_phrase(*kinds, definite=True))

    def description(self, subject: Phrase) -> Pair:
        """A predicate for a person or thing."""
        if not subject.bare and subject.kind not in PLACES:  # so that the old man is not young
            return self.place(*PLACES)
        fitting = [a for a in ADJECTIVE.values() if subject.kind in a.kinds]
        adjective = self.rng.choice([a for a in fitting if a.en != "new"])  # what is new is neuf
        words = predicate(subject, adjective)
        if adjective.en in UNGRADED or self.chance(0.4):
            return words
        if subject.living and self.chance(0.3):
            return joined(("as", "aussi"), words, after(("as", "que"), self.person(subject, definite=True)))
        return joined(self.rng.choice((("very", "très"), ("too", "trop"))), words)

    def tail(self, c: Clause) -> list[Pair]:
        """The place, company or state of the subject."""
        if c.verb.fr == "être":
            return [self.description(c.subject)]
        if c.verb.fr in ("aller", "revenir"):
            there = self.name("town") if self.chance(0.5) else self.noun_phrase(*PLACES, definite=True)
            return [after(("to", "à") if c.verb.fr == "aller" else ("from", "de"), there)]
        if c.verb.fr in TOGETHER and self.chance(0.2):
            return [after(("with", "avec"), self.person(c.subject, definite=True))]
        somewhere = c.verb.past and not c.recipient and not (c.object and c.object.kind in (*PLACES, "town"))
        if c.verb in FRAME["moving"] or (somewhere and self.chance(0.15)):
            return [self.place(*(PLACES if c.verb.past else ("home",)))]
        return []

    def clause(self, tense: str, subject: Phrase | None = None) -> Clause:
        def suits(verb: Verb) -> bool:
            able = not subject or subject.kind in PEOPLE or verb.fr == "être" or (verb.animals and subject.living)
            return able and (verb.past != "" or tense != "past")

        weights = {"object": 9, "being": 4, "plain": 3, "moving": 3, "giving": 3, "speaking": 1}
        verbs = {frame: verbs for frame in weights if (verbs := [verb for verb in FRAME[frame] if suits(verb)])}
        frame = self.rng.choices(list(verbs), [weights[frame] for frame in verbs])[0]
        verb = self.rng.choice(verbs[frame])
        c = Clause(subject or self.subject(verb), verb, tense, negated=self.chance(0.2))
        if tense == "present" and verb.past and c.subject.living and self.chance(0.2):
            c = replace(c, modal=self.rng.choice(FRAME["modal"]))
        if verb.objects:
            c = replace(c, object=self.object(c))
        if frame in ("giving", "speaking"):
            c = replace(c, recipient=self.person(c.subject, definite=True))
        return replace(c, tail=self.tail(c))

    def described(self, head: Phrase, tense: str) -> Phrase:
        """The head, sometimes with a relative clause."""
        if not head.en.startswith("the ") or "'s" in head.en or self.chance(0.5):
            return head
        if head.living and self.chance(0.6):
            return relative(head, self.clause(tense, head))
        kind = "people" if head.kind in PEOPLE else head.kind
        verbs = [verb for verb in FRAME["object"] if kind in verb.objects and (verb.past or tense != "past")]
        return relative(head, Clause(self.person(head), self.rng.choice(verbs), tense, self.chance(0.15), gap=head))

    def simple(self, tense: str) -> Pair:
        c, time = self.clause(tense), self.rng.choice(TIMES[tense])
        if c.verb.past and c.verb.fr != "être" and self.chance(0.4):
            return joined(statement(c), time) if self.chance(0.6) else joined(comma(time), statement(c))
        c = replace(c, subject=self.described(c.subject, tense))
        if c.object and not c.tail:
            c = replace(c, object=self.described(c.object, self.rng.choice((tense, "past"))))
        return statement(c)

    def because(self, tense: str) -> Pair:
        c = self.clause(tense)
        subject, thing = self.again(c.subject) if self.chance(0.5) else None, c.object
        if thing and thing.bare and not (thing.plural or thing.living or thing.kind == "town" or c.negated):
            c, subject = replace(c, tail=()), pronoun_for(thing)
        reason = self.clause("past" if tense == "past" else "present", subject)
        return joined(statement(c), ("because", "parce que"), statement(reason))

    def condition(self, tense: str) -> Pair:
        """A main clause with a `when` clause or, in the future, an `if` clause."""
        main, side = statement(self.clause(tense)), Clause(self.person(), self.rng.choice(FRAME["event"]), tense)
        if tense == "future":  # English has the present after both, French only after si
            now = statement(replace(side, tense="present"))
            links = ((("if", "si"), now), (("when", "quand"), (now[0], statement(side)[1])))
            link, words = self.rng.choice(links)
        else:
            link, words = ("when", "quand"), statement(side)
        return joined(main, link, words) if self.chance(0.5) else joined(link, comma(words), main)

    def thought(self, tense: str) -> Pair:
        thinker, verb = self.person(), self.rng.choice(FRAME["thinking"])
        tense = "future" if verb.en == "hope" else tense
        content = self.clause(tense, self.again(thinker) if self.chance(0.3) else None)
        return joined(statement(Clause(thinker, verb)), ("that", "que"), statement(content))

    def chain(self, tense: str) -> Pair:
        """Two actions on one object: `buys the apple and eats it`."""
        verb = VERB[self.rng.choice(("acheter", "trouver", "choisir", "prendre"))]
        thing = self.noun_phrase(*(kind for kind in verb.objects if kind not in ("people", "animal")))
        uses = [VERB[fr] for fr in ("manger", "boire", "cacher", "laver", "perdre", "vendre", "porter")]
        uses = [use for use in uses + FRAME["giving"] if thing.kind in use.objects]
        c = Clause(self.person(), verb, tense, object=thing)
        then = replace(c, verb=self.rng.choice(uses), negated=self.chance(0.4), object=pronoun_for(thing))
        if then.verb in FRAME["giving"]:
            then = replace(then, recipient=self.name("woman", "man"))
        link = ("but", "mais") if then.negated else ("and", "et")
        return joined(statement(c), link, (english_predicate(then), french_predicate(then)))

    def sentence(self) -> Pair:
        """One line of the corpus."""
        weights = {self.simple: 9, self.because: 2, self.condition: 2, self.thought: 2, self.chain: 2}
        make = self.rng.choices(list(weights), list(weights.values()))[0]
        return written(make(self.rng.choices(("present", "past", "future"), (5, 3, 2))[0]))


NAMES, HELD_OUT = 500, 150  # names of women, of men, of towns; those that are not in the training text
FRESH_SHARE = 0.27  # share of held-out names in dev and test


def spell_names(rng: random.Random, kind: str) -> list[str]:
    spellings = [first + middle + last for first in OPENINGS for middle in MIDDLES for last in ENDINGS[kind]]
    return rng.sample([spelling for spelling in spellings if 4 <= len(spelling) <= 9], NAMES)


def make_corpus(seed: int, train: int) -> dict[str, list[Pair]]:
    """The pairs of test, dev and train. No sentence occurs twice in either language."""
    rng = random.Random(seed)
    names = {kind: spell_names(rng, kind) for kind in ENDINGS}
    known = {kind: spellings[HELD_OUT:] for kind, spellings in names.items()}
    fresh = {kind: spellings[:HELD_OUT] for kind, spellings in names.items()}
    corpus: dict[str, list[Pair]] = {}
    seen: set[str] = set()
    for split, size, fresh_share in (("test", 300, FRESH_SHARE), ("dev", 300, FRESH_SHARE), ("train", train, 0.0)):
        speaker = Speaker(rng, known, fresh, fresh_share)
        pairs = corpus[split] = []
        while len(pairs) < size:
            pair = speaker.sentence()
            if seen.isdisjoint(pair) and max(len(line.split()) for line in pair) <= 25:
                seen.update(pair)
                pairs.append(pair)
    return corpus


def main() -> None:
    parser = argparse.ArgumentParser(description="Write an English-French corpus made by a small grammar.")
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=int, default=14000, help="training pairs")
    options = parser.parse_args()
    options.outdir.mkdir(parents=True, exist_ok=True)
    for split, pairs in make_corpus(options.seed, options.train).items():
        for side, language in enumerate(("en", "fr")):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (options.outdir / f"{split}.{language}").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
