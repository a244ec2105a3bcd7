"""The accuracy of markup and placeholders: the measurements in README.md, one per command.

measure.py tags MODEL SRC TGT GOLD [WORD]   two tags per pair, around phrases with contiguous translations; the model is
                                            given the translation. GOLD: a line of links per pair, sure 0-1 and possible
                                            0p1; WORD: a regular expression for the linked words. Words joined by an
                                            apostrophe or a hyphen count as one
measure.py bleu MODEL SRC TGT               BLEU of pages of SRC, one paragraph per line, with and without tags
measure.py placeholders MODEL SRC           one to three placeholders per line, instead of a word or next to one
"""

import logging
import random
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

import sacrebleu
from insert import FORMS, lines

import nmtkit
from nmtkit.documents import translate
from nmtkit.documents.alignment import Aligned, align
from nmtkit.documents.html import Html
from nmtkit.documents.marks import Part, place
from nmtkit.documents.placeholders import Hole, restore, stand_ins
from nmtkit.documents.segment import Mark, Segment
from nmtkit.translation.translator import Translator

Links = set[tuple[int, int]]  # source and target word, from 0
GREEDY = nmtkit.Request(beam_size=1)
MOST = 4, 6  # words of a tagged phrase, and of its translation
JOINED = re.compile(r"\w+(?:['’-]+\w+)*|[^\w\s]")  # l'herbe is one word, as in the model


def tags(model: Translator, src: str, tgt: str, gold: str, word: str = r"\w+|[^\w\s]") -> None:
    """Print how many tags are around exactly the right words, and how many words have the right tags."""
    draw, counts = random.Random(1), Counter[str]()
    sources, targets = lines(src), lines(tgt)
    answers = model.answer(sources, nmtkit.Request(attention=True, prefixes=True), targets)
    for source, target, row, [best] in zip(sources, targets, lines(gold), answers, strict=True):
        aligned = align(model, source, best)
        kept = [
            t for t, word in enumerate(aligned.target) if word.end <= len(target)
        ]  # further translations are not given
        part = Part(aligned.source, [aligned.target[t] for t in kept], aligned.weights[kept])
        (of_source, to_source), (of_target, to_target) = (words_of(text, word) for text in (source, target))
        links, sure = (
            {(to_source[s], to_target[t]) for s, t in read_links(row, kind)} for kind in ("[-p]", "-")
        )  # fmt: skip
        phrases = candidates([found[0] for found in of_source], links, sure)
        draw.shuffle(phrases)
        for first, last, wanted in phrases[:2]:
            mark = Mark(of_source[first].start(), of_source[last].end(), "tag", splits=False)
            placed = place([mark], source, target, [part])
            inside = {
                t for t, found in enumerate(of_target)
                if any(found.start() < tag.end and tag.start < found.end() for tag in placed)
            }  # fmt: skip
            inside &= {t for _, t in links}  # words without gold links are not counted
            counts += Counter(tags=1, exact=inside == wanted, inside=len(inside), wanted=len(wanted))
            counts["right"] += len(inside & wanted)
    print(f"{counts['tags']} tags: {counts['exact'] / counts['tags']:.1%} around exactly the right words")
    print(f"{counts['right'] / counts['inside']:.1%} of the words in a tag belong there; ", end="")
    print(f"{counts['right'] / counts['wanted']:.1%} of the words of a tag are in it")


def words_of(text: str, word: str) -> tuple[list[re.Match[str]], list[int]]:
    """The words of a text, and for each word of the gold alignment the word that contains it."""
    words = [*JOINED.finditer(text)]
    ends = [found.end() for found in words]
    return words, [bisect_right(ends, found.start()) for found in re.finditer(word, text)]


def candidates(words: list[str], links: Links, sure: Links) -> list[tuple[int, int, set[int]]]:
    """Phrases with contiguous translations: first and last source word, and the target words."""
    found = []
    for first in range(len(words)):
        for last in range(first, min(first + MOST[0], len(words))):
            own = {(s, t) for s, t in links if first <= s <= last}
            target = {t for _, t in own}
            if not {first, last} <= {s for s, _ in own} or not any(s == first for s, _ in own & sure):
                continue
            shared = any(min(target) <= t <= max(target) and not first <= s <= last for s, t in links)
            letters = all(any(map(str.isalpha, words[end])) for end in (first, last))
            if letters and not shared and max(target) - min(target) < MOST[1]:
                found.append((first, last, target))
    return found


def read_links(row: str, kind: str) -> Links:
    """The links of a gold line with one of the signs in ``kind``."""
    return {(int(source), int(target)) for source, target in re.findall(rf"(\d+){kind}(\d+)", row)}


def bleu(model: Translator, src: str, tgt: str) -> None:
    """Print BLEU of the text of the pages with and without tags."""
    draw, paragraphs = random.Random(3), list[str]()
    for line in lines(src):
        words = [escape(word) for word in line.split()]
        first = draw.randrange(len(words))
        last = min(len(words) - 1, first + draw.randrange(MOST[0]))
        tag = draw.choice(["b", "i", "a href='x'", "span class='y'"])
        words[first], words[last] = f"<{tag}>{words[first]}", f"{words[last]}</{tag.split()[0]}>"
        paragraphs.append(" ".join(words))
    written = []
    for texts in (paragraphs, [escape(line) for line in lines(src)]):
        page = Html("".join(f"<p>{text}</p>\n" for text in texts).encode(), model.tgt_pipeline.side.language)
        written.append([segment.text for segment in translated(model, page.segments, nmtkit.Request())])
    scores = [sacrebleu.corpus_bleu(texts, [lines(tgt)]).score for texts in written]
    differ = sum(a != b for a, b in zip(*written, strict=True))
    print(f"BLEU with tags {scores[0]:.2f}, without {scores[1]:.2f}; {differ} of {len(written[0])} texts differ")


def translated(model: Translator, segments: Sequence[Segment], request: nmtkit.Request) -> list[Segment]:
    """The segments in the language of the model's target."""
    src, tgt = model.sources[0].pipeline.side.language, model.tgt_pipeline.side.language
    plan = translate.plan(segments, src, tgt, stand_ins(model))
    answers = model.answer(plan.sentences, replace(request, attention=plan.aligned, quality=True))
    return plan.finish(align(model, line, best) for line, [best] in zip(plan.sentences, answers, strict=True))


def placeholders(model: Translator, src: str) -> None:
    """Print how many placeholders are kept, how many stand-ins are copied, and how many placeholders are not placed."""
    draw, counts = random.Random(5), Counter[str]()

    def counted(aligned: Aligned, holes: list[Hole]) -> Aligned:
        filled = restore(aligned, holes)
        copies = [len(re.findall(rf"(?<!\w){hole.stand_in}(?!\w)", aligned.text)) for hole in holes]
        counts.update(placeholders=len(holes), once=copies.count(1), lost=len(filled.lost))
        return filled

    translate.restore = counted  # type: ignore[assignment]
    texts = [with_placeholders(line, draw) for line in lines(src)]
    found = translated(model, [Segment(text) for text in texts], GREEDY)
    kept = sum(
        all(segment.text.count(form) == text.count(form) for form in FORMS)
        for text, segment in zip(texts, found, strict=True)
    )
    print(f"{kept} of {len(texts)} lines have each of their placeholders once")
    for name in ("once", "lost"):
        what = "stand-ins copied once" if name == "once" else "placeholders without a place"
        print(f"{counts[name]} of {counts['placeholders']} {what} ({counts[name] / counts['placeholders']:.1%})")


def with_placeholders(line: str, draw: random.Random) -> str:
    """A line with placeholders instead of some words, or next to them."""
    words = line.split()
    for number in draw.sample(range(len(words)), min(len(words), draw.choice([1, 1, 1, 2, 2, 3]))):
        form, core = draw.choice(FORMS), re.fullmatch(r"(\W*)([\w'-]+)(\W*)", words[number])
        if core and draw.random() < 0.6:
            words[number] = core[1] + form + core[3]
        else:
            words[number] = f"{form} {words[number]}" if draw.random() < 0.5 else f"{words[number]} {form}"
    return " ".join(words)


MEASURES: dict[str, Callable[..., None]] = {"tags": tags, "bleu": bleu, "placeholders": placeholders}
if __name__ == "__main__":
    logging.disable(logging.WARNING)  # for placeholders that are not placed, which are counted
    MEASURES[sys.argv[1]](nmtkit.load(sys.argv[2]), *sys.argv[3:])
