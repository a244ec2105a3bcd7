"""``score``: metrics of translations, or of a model on a set of a data folder."""

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmtkit.errors import UserError
from nmtkit.folders import TextFiles
from nmtkit.options import Option, by_keyword, option, options_of
from nmtkit.text.settings import Side, Tokenizer, load_prep
from nmtkit.translation.request import REPLACE_UNK
from nmtkit.workflow.shared import CHECKPOINT, DATA, DEVICE, MAX_LENGTH, MODEL, PRECISION, SUBSET_METRIC, models_at

if TYPE_CHECKING:
    from nmtkit.evaluation.bleu import Score
    from nmtkit.evaluation.comparison import Compared, Comparison

Text = Path | str | Sequence[str]  # a file's path, or lines

FILES, OWN = "Translations in files", "A model's own translations"  # of the help
OF_A_MODEL = ("split", "max_length", "replace_unk", "checkpoint", "precision")  # without effect on files

log = logging.getLogger(__name__)


# fmt: off
@dataclass(frozen=True)
class ScoreOptions:
    """The options of ``score``, in the order of its help."""

    files: Sequence[Text] = option((), Option(
        "Translations, then the reference; - is standard input.", metavar="HYP... REF", argument=True))
    _: KW_ONLY
    references: Sequence[Text] = option((), Option(
        "Reference, instead of REF; may be repeated for several references.", FILES, names="--reference -r"))
    source: Text | None = option(None, Option(
        "Source text, to score by sentence length in words and to count names.", FILES))
    vocab: Path | str | None = option(None, Option(
        "Target vocabulary of words, to score the sentences whose references have no unknown word, and to count "
        "the names that it does not have.", FILES))
    subset_metric: str = option("multi-bleu", SUBSET_METRIC)
    paired: Literal["bs", "ar"] | None = option(None, Option(
        "Significance test against the first system: paired bootstrap (bs) or approximate randomisation (ar).", FILES))
    seeds: bool = option(False, Option(
        "Show mean and standard deviation, for translations by one system trained with several seeds.", FILES))
    language: str | None = option(None, Option(
        "Target language, for the Moses tokenizer.  [default: that of the data folder, or en]", FILES,
        names="--language -l"))
    tokenized: bool = option(False, Option(
        "The files are tokenised already; compute tokenised BLEU only.", FILES))
    data: Path | str = option("data", DATA.within(OWN))
    model: Path | str = option("run", MODEL.within(OWN))
    checkpoint: str | int | None = option(None, CHECKPOINT.within(OWN))
    split: Literal["dev", "test"] = option("test", Option("Set of the data folder to translate and score.", OWN))
    max_length: int | None = option(None, MAX_LENGTH.within(OWN))
    replace_unk: bool = option(False, REPLACE_UNK.within(OWN))
    precision: Literal["auto", "float32", "bfloat16", "int8"] = option("auto", PRECISION.within(OWN))
    device: str = option("auto", DEVICE.within(OWN))
# fmt: on


@dataclass(frozen=True)
class Scores:
    """The result of ``score``: ``scores["sacreBLEU-13a"].value`` of the first system, ``comparison`` of all."""

    comparison: "Comparison"
    references: list[str]  # the names of the reference files

    def __getitem__(self, metric: str) -> "Score":
        return next(m.score for m in self.comparison.measured[0] if m.metric == metric)

    def __str__(self) -> str:
        systems = zip(self.comparison.systems, self.comparison.measured, strict=True)
        return "\n".join(
            f"{system.name}  {m.metric} {m.score.value:.2f}  {m.score.signature}" for system, ms in systems for m in ms
        )

    __repr__ = __str__


def score_systems(options: ScoreOptions) -> Scores:
    """Score translations, or a model on a set of a data folder: ``nmtkit score``.

    files: translations, then the reference unless there are ``references``; each is a file or a list of lines. Without
    any, the ``split`` of the folder ``data`` is translated with ``model`` and scored. Raises UserError for texts that
    do not correspond, and for arguments that exclude each other.
    """
    # Options for files are refused without files, and options for a model with files.
    from nmtkit.evaluation.comparison import compare
    from nmtkit.translation.testset import text_name, translate_held_out

    files, paired, seeds, data = options.files, options.paired, options.seeds, Path(options.data)
    given = {shown.group for field, shown in options_of(ScoreOptions) if getattr(options, field.name) != field.default}
    if not files:
        if FILES in given:
            raise UserError(
                "only `data`, `model`, `checkpoint`, `split`, `max_length`, `replace_unk`, `precision` and `device` go "
                "without files; give some: nmtkit score HYP... REF"
            )
        [chosen] = models_at(options.model, options.checkpoint)
        test = translate_held_out(
            chosen, data, options.device, options.precision, split=options.split, max_length=options.max_length,
            replace_unk=options.replace_unk, keep=True,
        )  # fmt: skip
        return Scores(compare(test.compared, paired, seeds, options.subset_metric), list(map(str, test.references)))
    if any(getattr(options, name) != getattr(ScoreOptions, name) for name in OF_A_MODEL):
        raise UserError(
            "`split`, `max_length`, `replace_unk`, `checkpoint` and `precision` are for a model; leave files out"
        )
    # With references every file is a translation; without, the last one is the reference.
    texts, refs = (files, options.references) if options.references else (files[:-1], files[-1:])
    if not texts:
        raise UserError(f"{text_name(refs[0], 1)}: translations and a reference are needed: nmtkit score HYP... REF")
    if (paired or seeds) and len(texts) < 2:
        raise UserError(f"{text_name(texts[0], 1)}: `paired` and `seeds` compare translations; give at least two")
    # Seeds of one system are not to be tested against each other.
    if paired and seeds:
        raise UserError("`paired` compares systems, `seeds` has one; leave one of the two out")
    names = [text_name(text, number) for number, text in enumerate(refs, 1)]
    return Scores(compare(_read_files(texts, refs, options), paired, seeds, options.subset_metric), names)


score = by_keyword(ScoreOptions, score_systems)


def _read_files(paths: Sequence[Text], ref_paths: Sequence[Text], options: ScoreOptions) -> "Compared":
    """Translations and references as systems to compare; assumptions are logged.

    Raises UserError where they do not correspond.
    """
    from nmtkit.data.vocab import Vocabulary
    from nmtkit.evaluation.comparison import Compared, System
    from nmtkit.evaluation.names import UnknownWords, count_symbols
    from nmtkit.evaluation.subsets import unknown_free
    from nmtkit.text.pipeline import TextPipeline
    from nmtkit.translation.testset import describe, read_set, text_name

    language, tokenized, source = options.language, options.tokenized, options.source
    # In one call, which checks that all of them correspond.
    every = iter(read_set([*ref_paths, *paths, *([] if source is None else [source])]))
    refs, texts = ([next(every) for _ in group] for group in (ref_paths, paths))
    data = Path(options.data)
    prep = load_prep(data) if TextFiles(data).settings.exists() and not tokenized else None
    if not (tokenized or prep or language):
        log.info("nmtkit: tokenised BLEU assumes English; set `language` for another language")
    # If most lines end in a separate full stop, the text is tokenised already, and BLEU would tokenise it twice.
    names = [text_name(path, number) for number, path in enumerate(paths, 1)]
    for path, hyps in zip(names, texts, strict=True):
        if not tokenized and 2 * sum(line.endswith(" .") for line in hyps) > len(hyps):
            log.warning(
                f"nmtkit: {path} looks tokenised, but plain text is expected; if it is tokenised, set `tokenized`"
            )

    def pipeline(language: str, side: Side | None) -> TextPipeline:
        """Text as whole words: Moses', which papers' BLEU is computed on, or those of a reversible data folder."""
        tokenizer: Tokenizer = "none" if tokenized else "moses"
        if side is not None and side.tokenizer == "reversible":
            tokenizer = side.tokenizer
        return TextPipeline(Side(language, normalize=False, tokenizer=tokenizer, segmentation="words"))

    tgt = pipeline(language or (prep.tgt.language if prep else "en"), prep.tgt if prep else None)
    # The source is tokenised only to count its words, for which English rules suffice.
    reader = pipeline(prep.src.language if prep else "en", prep.src if prep else None)
    words = [[tgt.tokenize(line) for line in lines] for lines in (*refs, *texts)]
    ref_words, hyp_words = words[: len(refs)], words[len(refs) :]
    on = "words as given" if tokenized else describe(tgt.side)
    # Plain text allows both kinds of metrics, words only those of words.
    systems = [
        System(
            name,
            on,
            _spaced(hyps),
            list(map(_spaced, ref_words)),
            None if tokenized else text,
            None if tokenized else refs,
            unknown=UnknownWords(None, None, count_symbols(text)),
        )
        for name, hyps, text in zip(names, hyp_words, texts, strict=True)
    ]
    sources = [reader.tokenize(line) for line in next(every, [])]
    known = None if options.vocab is None else Vocabulary.load(Path(options.vocab)).known
    return Compared(systems, sources, unknown_free(ref_words, known) if known is not None else None, known)


def _spaced(sentences: list[list[str]]) -> list[str]:
    """Sentences as text with spaces between the words, for metrics of words."""
    return [" ".join(words) for words in sentences]
