"""Terms satisfied, BLEU and CPU seconds for plain lines, for marked lines, and for constrained search.

measure.py MODEL FOLDER KIND     FOLDER: made by mark.py draw; KIND: that of the model's training text
"""

import sys
import time
from pathlib import Path

import sacrebleu
from mark import WORD, lines, marked, read_terms

import nmtkit
from nmtkit.translation.terms import read_terms as read_for_search


def main(model: str, folder: str, kind: str) -> None:
    """Print a row for each method."""
    files = {name: f"{folder}/{name}.tsv" for name in ("one", "forms")}
    sources, references = (lines(f"{folder}/in.{side}") for side in ("src", "tgt"))
    terms = {name: read_terms(path) for name, path in files.items()}
    first = {word: forms[0] for word, forms in terms["one"].items()}
    with_marks = [marked(kind, source, first) for source in sources]
    translator = nmtkit.load(model)
    translator.answer(sources[:50], nmtkit.Request())  # warm-up, not timed
    rows = [
        ("plain lines", sources, nmtkit.Request()),
        ("plain lines, --terms one.tsv", sources, nmtkit.Request(terms=read_for_search(Path(files["one"])))),
        ("plain lines, --terms forms.tsv", sources, nmtkit.Request(terms=read_for_search(Path(files["forms"])))),
        (f"marked lines ({kind})", with_marks, nmtkit.Request()),
    ]
    print("| | met, one form | met, any form | BLEU | seconds |\n| --- | --- | --- | --- | --- |")
    print(f"| references | {met(sources, references, terms['one'])} | {met(sources, references, terms['forms'])} | | |")
    for name, texts, request in rows:
        seconds = []
        for _ in range(2):
            begin = time.process_time()
            found = [best.text for [best] in translator.answer(texts, request)]
            seconds.append(time.process_time() - begin)
        counts = [met(sources, found, of_term) for of_term in terms.values()]
        bleu = sacrebleu.corpus_bleu(found, [references]).score
        print(f"| {name} | {' | '.join(counts)} | {bleu:.2f} | {min(seconds):.2f} |")


def met(sources: list[str], translations: list[str], terms: dict[str, list[str]]) -> str:
    """How many of the terms in the sources have a form in the translations, ignoring case."""
    hits, total = 0, 0
    for source, translation in zip(sources, translations, strict=True):
        words = {word.lower() for word in WORD.findall(translation)}
        for term in set(WORD.findall(source)) & terms.keys():
            hits += any(form.lower() in words for form in terms[term])
            total += 1
    return f"{hits} of {total}"


main(*sys.argv[1:])
