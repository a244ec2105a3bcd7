"""Reading and translating development and test sets."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nmtkit.align.posunk import UNKNOWN, Unknown
from nmtkit.errors import UserError, check_lines, counted
from nmtkit.evaluation.comparison import Compared, System
from nmtkit.evaluation.forced import CrossEntropy, cross_entropy
from nmtkit.evaluation.subsets import unknown_free
from nmtkit.folders import ModelFolder, SetName, TextFiles
from nmtkit.lines import check_read_once, given_lines, read_lines
from nmtkit.machine.progress import progress
from nmtkit.ops.precision import Precision
from nmtkit.search.ensemble import Ensemble
from nmtkit.text.manifest import reference_files
from nmtkit.text.raw import check_side
from nmtkit.text.settings import Side, in_form, load_prep
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.stream import FIRST_WINDOW, windows
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator
from nmtkit.writing import write_file

log = logging.getLogger(__name__)


class HeldOut(NamedTuple):
    """The development set or the test set of a data folder, as plain text."""

    sources: list[str]
    refs: list[list[str]]  # one or more references for all lines
    source_path: Path
    ref_paths: list[Path]

    def refs_like(self, side: Side) -> list[list[str]]:
        """The references in the Unicode normal form of a model's target side, as its translations are."""
        return [[in_form(side, line) for line in ref] for ref in self.refs]


@dataclass(frozen=True)
class Translated:
    """A held-out set and its translations by a model."""

    translator: Translator
    references: list[Path]
    sources: list[str]
    compared: Compared


def read_set(texts: Sequence[Path | str | Sequence[str]], reference: int = 0) -> list[list[str]]:
    """The lines of corresponding texts: those of files, or given lines.

    reference: the index of the text that all others must be as long as. Raises UserError if a text is empty or has
    another length, with the names and both numbers of lines, if a given line is not text, if two are standard input,
    and for a table or memory without the column or language to read.
    """
    files = [text for text in texts if isinstance(text, Path | str)]
    check_read_once(files)
    for file in files:
        check_side(Path(file))
    # In memory, because test sets are small and compared several times.
    names = [text_name(text, number) for number, text in enumerate(texts, 1)]
    read = [
        list(read_lines(Path(text)) if isinstance(text, Path | str) else given_lines(name, text))
        for name, text in zip(names, texts, strict=True)
    ]
    for name, lines in zip(names, read, strict=True):
        if not lines:
            raise UserError(f"{name} is empty: there is nothing to score")
    for name, lines in zip(names, read, strict=True):
        check_lines(name, len(lines), names[reference], len(read[reference]), "align them line by line")
    return read


def text_name(text: Path | str | Sequence[str], number: int) -> str:
    """A name for a text: its file name, or else its number among the texts."""
    return str(text) if isinstance(text, Path | str) else f"text {number}"


def describe(side: Side) -> str:
    """A description of the words of a side: "Moses words (en, truecased)"."""
    done = {"normalised": side.normalize, "lower-cased": side.lowercase, "truecased": side.truecase}
    kind = {
        "moses": "Moses words", "reversible": "reversible tokens", "characters": "Moses words, Chinese characters",
    }.get(side.tokenizer, "space-separated words")  # fmt: skip
    return f"{kind} ({', '.join([side.language, *(name for name, applied in done.items() if applied)])})"


def read_held_out(data: Path, split: SetName) -> HeldOut:
    """The raw text of a set, which ``nmtkit prep`` keeps beside the tokens.

    Raises UserError if there is no data folder or no such set, or if its sides do not correspond.
    """
    source, first, *others = data / f"{split}.raw.src", *reference_files(data, split)
    if not data.is_dir():
        raise UserError(f"{data}: no such folder; make it with nmtkit prep")
    if not first.exists():
        instead = ", score the dev set: nmtkit score --split dev, or give files: nmtkit score HYP... REF"
        raise UserError(f"{first}: not found; prepare a {split} set{instead if split == 'test' else ''}")
    # References first, so that the message names the source if its length differs.
    *refs, sources = read_set([first, *others, source])
    return HeldOut(sources, refs, source, [first, *others])


def check_languages(translator: Translator, data: Path) -> None:
    """Warn if the languages of a data folder are not those of a model, or are swapped."""
    prep = load_prep(data) if TextFiles(data).settings.exists() else None
    if prep and prep.languages != translator.languages:
        ours, theirs = map(" to ".join, (translator.languages, prep.languages))
        log.warning("%s translates %s, but %s is %s", translator.name, ours, data, theirs)


def answer_each(translator: Translator, sources: Sequence[str], request: Request) -> Iterator[list[Translation]]:
    """The translations of every line, in order, with a progress bar."""
    with progress("translating", len(sources)) as advance:
        # In growing windows, so that the progress bar moves early.
        for window in windows(sources, lambda: True, FIRST_WINDOW):
            yield from translator.answer(window, request)
            advance(len(window))


def translate_held_out(
    model: Path,
    data: Path,
    device: str,
    precision: Precision,
    *,
    split: SetName,
    max_length: int | None,
    replace_unk: bool,
    keep: bool,
) -> Translated:
    """Translate a set of a data folder with a model; tokenised BLEU is computed on the model's own words.

    max_length: pairs with a longer side, in the model's tokens, are left out of the cross-entropy. replace_unk: replace
    unknown words, as in ``Request``. keep: write the translations to MODEL/test.hyp (or dev.hyp; for a checkpoint, in
    its own folder) if the folder is writable. Raises UserError as ``read_held_out``, and for a model that cannot
    replace unknown words.
    """
    held_out = read_held_out(data, split)
    sources = held_out.sources
    translator, hyp_path = loading.load(model, device, precision=precision), ModelFolder.at(model).translations(split)
    check_languages(translator, data)
    log.info(
        "translating the %s of %s with %s%s",
        counted(len(sources), "line"), held_out.source_path, model, f" into {hyp_path}" if keep else "",
    )  # fmt: skip
    # Only the best translation of each line is kept in memory.
    translations = [best for [best] in answer_each(translator, sources, Request(replace_unk=replace_unk))]
    texts = [translation.text for translation in translations]
    if long := sum(translation.pieces > 1 for translation in translations):
        log.warning("%d of the lines were too long and were translated in pieces", long)
    if keep:
        try:
            write_file(hyp_path, "".join(f"{text}\n" for text in texts))
        except UserError as error:
            log.warning("%s; the translations are not kept", error)

    # Tokenised BLEU compares the model's output with references in the model's own words, BPE undone.
    reader, writer = translator.sources[0].pipeline, translator.tgt_pipeline
    refs = held_out.refs_like(writer.side)
    ref_words = [[writer.truecase(writer.tokenize(line)) for line in ref] for ref in refs]
    system = System(
        str(hyp_path),
        describe(writer.side),
        [" ".join(writer.words([word for word in translation.written if word])) for translation in translations],
        [[" ".join(words) for words in ref] for ref in ref_words],
        texts,
        refs,
        _cross_entropy(translator, zip(sources, refs[0], ref_words[0], strict=True), max_length),
        _unknown(translations),
        writer.side.language,
    )
    known = translator.tgt_vocab.known
    # In the model's tokens; with BPE, hardly any is unknown.
    free = unknown_free([[writer.segment(words) for words in ref] for ref in ref_words], known)
    # A model of subwords can write every name.
    words = None if writer.segmenter else known
    compared = Compared([system], [reader.surface_words(line) for line in sources], free, words)
    return Translated(translator, held_out.ref_paths, sources, compared)


def _cross_entropy(
    translator: Translator, texts: Iterable[tuple[str, str, list[str]]], max_length: int | None
) -> CrossEntropy | None:
    """The cross-entropy of a reference; None if all pairs are too long, or log-probabilities are not normalised.

    Also None for unknown words and a model of ``UNKPOS``, which was never trained on ``<unk>``. texts: of each pair the
    source, the reference, and the words of the reference.
    """
    if isinstance(translator.given, Ensemble) and translator.given.combine == "logprob":
        return None
    reader, writer, known = translator.sources[0].pipeline, translator.tgt_pipeline, translator.tgt_vocab.known
    pairs, unknown = list[tuple[str, str]](), 0
    for source, ref, words in texts:
        tokens = writer.segment(words)
        lengths = len(reader.tokens(source)), len(tokens)
        if min(lengths) and (max_length is None or max(lengths) <= max_length):  # counted as in training
            pairs.append((source, ref))
            unknown += sum(token not in known for token in tokens)
    if unknown and translator.tgt_vocab.annotated:
        log.warning(
            "nmtkit: no cross-entropy of the reference: it has %s, and %s has learnt <unkpos_d> instead of <unk>",
            counted(unknown, "unknown word"), translator.name,
        )  # fmt: skip
        return None
    scored = translator.score_candidates([source for source, _ in pairs], [[ref] for _, ref in pairs])
    return cross_entropy([log_probs for [log_probs] in scored], unknown) if pairs else None


def _unknown(translations: Sequence[Translation]) -> Unknown:
    """The unknown words of the translations by kind of replacement; without replacement, all were left."""
    counts = [
        translation.unknown or (0, 0, sum(token in UNKNOWN for token in translation.tokens))
        for translation in translations
    ]
    return Unknown(*map(sum, zip(*counts, strict=True)))
