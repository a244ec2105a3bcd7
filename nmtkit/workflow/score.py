"""``score``: metrics of translations, or of a model on a test set."""

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from unicodedata import is_normalized

from nmtkit.errors import UserError, counted
from nmtkit.folders import SetName, TextFiles
from nmtkit.options import Option, by_keyword, option, options_of
from nmtkit.text.settings import Side, Tokenizer, load_prep
from nmtkit.translation.request import REPLACE_UNK
from nmtkit.workflow.shared import (
    CHECKPOINT,
    DATA,
    DEVICE,
    MAX_LENGTH,
    MODEL,
    PAIRED,
    PRECISION,
    SUBSET_METRIC,
    Precision,
    model_at,
    several,
)

if TYPE_CHECKING:
    from nmtkit.evaluation.bleu import Score
    from nmtkit.evaluation.comparison import Compared, Comparison

Text = Path | str | Sequence[str]  # a file's path, or lines

FILES, OWN = "Translations in files", "A model's own translations"  # groups of the help
OF_A_MODEL = ("split", "max_length", "replace_unk", "checkpoint", "precision", "model", "device")  # refused with files

log = logging.getLogger(__name__)


# fmt: off
@dataclass(frozen=True)
class ScoreOptions:
    """The options of ``score``, in the order of its help."""

    files: Path | str | Sequence[Text] = option((), Option(
        "Translations, then the reference; - is standard input.", metavar="HYP... REF", argument=True))
    _: KW_ONLY
    references: Path | str | Sequence[Text] = option((), Option(
        "Reference, instead of REF; may be repeated for several references.", FILES, names="--reference -r"))
    source: Text | None = option(None, Option(
        "Source text, to score by sentence length in words and to count names.", FILES))
    vocab: Path | str | None = option(None, Option(
        "Target vocabulary of words, to score the sentences whose references have no unknown word, and to count "
        "the names that it lacks.", FILES))
    subset_metric: str = option("multi-bleu", SUBSET_METRIC)
    paired: Literal["bs", "ar"] | None = option(None, PAIRED.within(FILES))
    seeds: bool = option(False, Option(
        "Show mean and standard deviation, for translations by one system trained with several seeds.", FILES))
    language: str | None = option(None, Option(
        "Target language, for the Moses tokenizer, and for character-level BLEU if it has no spaces between words.  "
        "[default: the data folder's, or en]", FILES,
        names="--language -l"))
    tokenized: bool = option(False, Option(
        "The files are already tokenised; compute tokenised BLEU only.", FILES))
    data: Path | str = option("data", DATA.within(OWN))
    model: Path | str = option("run", MODEL.within(OWN))
    checkpoint: str | int | None = option(None, CHECKPOINT.within(OWN))
    split: SetName = option("test", Option("Set of the data folder to translate and score.", OWN))
    max_length: int | None = option(None, MAX_LENGTH.within(OWN))
    replace_unk: bool = option(False, REPLACE_UNK.within(OWN))
    precision: Precision = option("auto", PRECISION.within(OWN))
    device: str = option("auto", DEVICE.within(OWN))
# fmt: on


@dataclass(frozen=True)
class Scores:
    """The result of ``score``; ``scores["sacreBLEU-13a"]`` is a score of the first system."""

    comparison: "Comparison"
    references: list[str]  # the names of the reference files

    def __getitem__(self, metric: str) -> "Score":
        return {m.metric: m.score for m in self.comparison.measured[0]}[metric]

    def __str__(self) -> str:
        systems = zip(self.comparison.systems, self.comparison.measured, strict=True)
        return "\n".join(
            f"{system.name}  {m.metric} {m.score.value:.2f}  {m.score.signature}" for system, ms in systems for m in ms
        )

    __repr__ = __str__


def score_systems(options: ScoreOptions) -> Scores:
    """Score translations, or a model on a test set: ``nmtkit score``.

    files: translations and, unless there are ``references``, the reference; each is a file or a list of lines. Without
    files, the ``split`` of the folder ``data`` is translated with ``model`` and scored. Raises UserError for texts that
    do not correspond, and for arguments that cannot be combined.
    """
    from nmtkit.evaluation.comparison import compare
    from nmtkit.translation.testset import text_name, translate_held_out

    files, references = several(options.files), several(options.references)
    paired, seeds, data = options.paired, options.seeds, Path(options.data)
    if not files:
        given = {shown.group for each, shown in options_of(ScoreOptions) if getattr(options, each.name) != each.default}
        if FILES in given:
            raise UserError(
                "`references`, `source`, `vocab`, `paired`, `seeds`, `language` and `tokenized` are for translations "
                "in files; give some: nmtkit score HYP... REF"
            )
        chosen = model_at(options.model, options.checkpoint)
        test = translate_held_out(
            chosen, data, options.device, options.precision, split=options.split, max_length=options.max_length,
            replace_unk=options.replace_unk, keep=True,
        )  # fmt: skip
        return Scores(compare(test.compared, paired, seeds, options.subset_metric), list(map(str, test.references)))
    if any(str(getattr(options, name)) != str(getattr(ScoreOptions, name)) for name in OF_A_MODEL):
        raise UserError(
            "`model`, `checkpoint`, `split`, `max_length`, `replace_unk`, `precision` and `device` are for a model; "
            "leave files out"
        )
    texts, refs = (files, references) if references else (files[:-1], files[-1:])
    if not texts:
        raise UserError(f"{text_name(refs[0], 1)}: translations and a reference are needed: nmtkit score HYP... REF")
    if (paired or seeds) and len(texts) < 2:
        raise UserError(f"{text_name(texts[0], 1)}: `paired` and `seeds` compare translations; give at least two")
    if paired and seeds:
        raise UserError("`paired` compares systems, and `seeds` is for one; leave one of them out")
    names = [text_name(text, number) for number, text in enumerate(refs, 1)]
    return Scores(compare(_read_files(texts, refs, options), paired, seeds, options.subset_metric), names)


score = by_keyword(ScoreOptions, score_systems, "score")


def _read_files(paths: Sequence[Text], ref_paths: Sequence[Text], options: ScoreOptions) -> "Compared":
    """The input of a comparison of texts; logs what it assumes. Raises UserError if the texts do not correspond."""
    from nmtkit.align.posunk import Unknown
    from nmtkit.data.vocab import Vocabulary
    from nmtkit.evaluation.comparison import Compared, System
    from nmtkit.evaluation.names import count_symbols
    from nmtkit.evaluation.subsets import unknown_free
    from nmtkit.text.moses import has_moses_rules
    from nmtkit.text.pipeline import TextPipeline, is_subword
    from nmtkit.text.processed import is_tokenized, segmented
    from nmtkit.translation.testset import describe, read_set, text_name

    language, tokenized, source = options.language, options.tokenized, options.source
    given = [*paths, *ref_paths, *([] if source is None else [source])]
    every = iter(read_set(given, reference=len(paths)))
    texts, refs = ([next(every) for _ in group] for group in (paths, ref_paths))
    data = Path(options.data)
    prep = load_prep(data) if TextFiles(data).settings.exists() and not tokenized else None
    if not (tokenized or prep or language):
        log.info("nmtkit: tokenised BLEU assumes English; set `language` for another language")
    names = [text_name(path, number) for number, path in enumerate(paths, 1)]
    ref_names = [text_name(path, number) for number, path in enumerate(ref_paths, len(paths) + 1)]
    forms = [_form(lines) for lines in (*texts, *refs)]
    subwords = [segmented(lines) for lines in (*texts, *refs)]
    for name, lines, form, what in zip((*names, *ref_names), (*texts, *refs), forms, subwords, strict=True):
        if what:
            log.warning(f"nmtkit: {name} {what}")
        main = form or "NFC"
        if others := sum(not is_normalized(main, line) for line in lines):
            log.warning(
                f"nmtkit: {name} has {counted(others, 'line')} not in Unicode's normal form {main}, unlike the rest: "
                "identical letters count as different; convert the file"
            )
    expected = forms[len(texts)]
    for name, hyps, form, what in zip(names, texts, forms, subwords, strict=False):
        if not (tokenized or what) and is_tokenized(hyps):
            log.warning(
                f"nmtkit: {name} looks tokenised, but plain text is expected; if it is tokenised, set `tokenized`"
            )
        if form and expected and form != expected:
            log.warning(
                f"nmtkit: {name} is in Unicode's normal form {form}, and {ref_names[0]} in {expected}: "
                "identical letters count as different; convert one of the two"
            )

    def pipeline(side: Side, language: str) -> TextPipeline:
        """The tokenizer of the data folder, without BPE; if it has none, that of Moses, as for BLEU in papers."""
        tokenizer: Tokenizer = "none" if tokenized else "moses" if side.tokenizer == "none" else side.tokenizer
        return TextPipeline(Side(language, normalize=False, tokenizer=tokenizer, segmentation="words"))

    src_side, tgt_side = (prep.src, prep.tgt) if prep else (Side("en"), Side("en"))
    # English rules suffice to count the words of any source.
    reader, tgt = pipeline(src_side, src_side.language), pipeline(tgt_side, language or tgt_side.language)
    if tgt.side.tokenizer == "moses" and not has_moses_rules(tgt.side.language):
        log.info(
            f"nmtkit: language {tgt.side.language}: Moses has no rules for it; tokenised BLEU uses English "
            "abbreviations and splits at every apostrophe"
        )
    words = [[tgt.tokenize(line) for line in lines] for lines in (*refs, *texts)]
    ref_words, hyp_words = words[: len(refs)], words[len(refs) :]
    on = "words as given" if tokenized else describe(tgt.side)
    spaced_refs = list(map(_spaced, ref_words))
    systems = [
        System(name, on, _spaced(hyps), spaced_refs, None if tokenized else text, None if tokenized else refs,
               unknown=Unknown(None, None, count_symbols(text)), language=tgt.side.language)
        for name, hyps, text in zip(names, hyp_words, texts, strict=True)
    ]  # fmt: skip
    sources = [reader.tokenize(line) for line in next(every, [])]
    known = None if options.vocab is None else Vocabulary.load(Path(options.vocab)).known
    if known and any(map(is_subword, known)):
        raise UserError(f"{options.vocab}: a vocabulary of subwords; `vocab` needs one of words")
    return Compared(systems, sources, unknown_free(ref_words, known) if known is not None else None, known)


def _form(lines: list[str]) -> Literal["NFC", "NFD"] | None:
    """The Unicode normal form of most lines; None if as many lines are in the other, such as text without accents."""
    nfc, nfd = (sum(is_normalized(form, line) for line in lines) for form in ("NFC", "NFD"))
    return None if nfc == nfd else "NFC" if nfc > nfd else "NFD"


def _spaced(sentences: list[list[str]]) -> list[str]:
    """Sentences as text, with spaces between the words."""
    return [" ".join(words) for words in sentences]
