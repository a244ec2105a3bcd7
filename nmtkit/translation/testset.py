"""Test sets, as several commands read and translate them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmtkit.data.progress import progress
from nmtkit.data.settings import Side
from nmtkit.errors import UserError
from nmtkit.evaluation.comparison import Read, System
from nmtkit.evaluation.forced import cross_entropy
from nmtkit.evaluation.subsets import unknown_free
from nmtkit.lines import atomic_write, read_lines
from nmtkit.training.folder import ModelFolder
from nmtkit.translation import loading
from nmtkit.translation.stream import windows
from nmtkit.translation.translator import Translator

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translated:
    """The test set of a data folder, and what a model made of it."""

    translator: Translator
    reference: Path
    sources: list[str]
    read: Read


def read_set(paths: Sequence[Path]) -> list[list[str]]:
    """The lines of files that correspond. Raises UserError where one is empty or as long as no other."""
    read = [list(read_lines(path)) for path in paths]
    for path, lines in zip(paths, read, strict=True):
        if not lines:
            raise UserError(f"{path} is empty: there is nothing to score")
        if len(lines) != len(read[0]):
            raise UserError(f"{path} has {len(lines)} lines but {paths[0]} has {len(read[0])}; make them correspond")
    return read


def describe(side: Side) -> str:
    """What the words of a side are: "Moses words (en, truecased)"."""
    done = {"normalised": side.normalize, "lower-cased": side.lowercase, "truecased": side.truecase}
    kind = "Moses words" if side.tokenizer == "moses" else "words as spaced"
    return f"{kind} ({', '.join([side.language, *(name for name, applied in done.items() if applied)])})"


def translate_test_set(model: Path, data: Path, device: str) -> Translated:
    """Translate the test set of a data folder into MODEL/test.hyp; tokenised BLEU is counted on the model's own words.

    Raises UserError if there is no test set, or none that corresponds.
    """
    src_path, ref_path = data / "test.raw.src", data / "test.raw.tgt"
    if not ref_path.exists():
        raise UserError(f"{ref_path}: not there; prepare a test set, or give files: nmtkit score HYP... REF")
    refs, sources = read_set([ref_path, src_path])
    translator, hyp_path = loading.load(model, device), ModelFolder(model).translations
    log.info("translating the %d lines of %s with %s into %s", len(sources), src_path, model, hyp_path)
    translations = []
    with progress("translating", len(sources)) as advance:
        for window in windows(sources, lambda: True):
            translations += [best[0] for best in translator.n_best(window, 1)]
            advance(len(window))
    texts = [translation.text for translation in translations]
    with atomic_write(hyp_path) as file:
        file.writelines(f"{text}\n" for text in texts)

    reader, writer = translator.sources[0].pipeline, translator.tgt_pipeline
    ref_words = [writer.truecase(writer.tokenize(ref)) for ref in refs]
    pairs = [(src, ref) for src, ref in zip(sources, refs, strict=True) if src.strip() and ref.strip()]
    scored = translator.score_candidates([src for src, _ in pairs], [[ref] for _, ref in pairs])
    system = System(
        str(hyp_path),
        describe(writer.side),
        [" ".join(writer.words(translation.tokens)) for translation in translations],
        [[" ".join(words) for words in ref_words]],
        texts,
        [refs],
        cross_entropy([log_probs for [log_probs] in scored]) if pairs else None,
    )
    lengths = [len(reader.tokenize(line)) for line in sources]  # before BPE
    free = unknown_free([[writer.segment(words) for words in ref_words]], translator.tgt_vocab.known)
    return Translated(translator, ref_path, sources, Read([system], lengths, free))
