"""The development set of a data folder, and validation on it."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nmtkit.data import batches
from nmtkit.data.corpus import Corpus
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError, check_lines, counted
from nmtkit.evaluation.bleu import score, standard_bleu
from nmtkit.folders import TextFiles
from nmtkit.lines import read_lines
from nmtkit.search.batching import translate_each
from nmtkit.search.settings import Search
from nmtkit.text.manifest import check_there, reference_files
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.raw import NO_WORDS
from nmtkit.text.settings import in_form
from nmtkit.training import distributed
from nmtkit.training.diagnosis import remedy
from nmtkit.training.run import Run
from nmtkit.training.validation import Validation, teacher_forced

MEASURED = "BLEU and chrF2 of the development set: "  # in train.log, before how they are computed


@dataclass(frozen=True)
class DevelopmentSet:
    """The pairs for validation, and the vocabulary and pipeline that convert ids to text."""

    corpus: Corpus
    pairs: np.ndarray  # (P,) indices of the pairs with words on both sides
    references: list[list[str]]  # one or more lists of raw lines, in the normal form of the side
    vocabulary: Vocabulary
    pipeline: TextPipeline

    @property
    def metric(self) -> str:
        """The name of the BLEU that is computed."""
        standard = standard_bleu(self.pipeline.side.language)
        return "13a-lc" if self.pipeline.side.lowercase and standard == "sacreBLEU-13a" else standard

    def describe_metrics(self) -> str:
        """As logged: "BLEU and chrF2 of the development set: sacreBLEU 13a, without case, 4 references"."""
        name = "sacreBLEU 13a, without case" if self.metric == "13a-lc" else self.metric.replace("-", " ")
        return f"{MEASURED}{name}, {counted(len(self.references), 'reference')}"

    @classmethod
    def load(cls, data: Path) -> "DevelopmentSet":
        """The development set of a data folder.

        Raises UserError if there is none, if no pair has words on both sides, or if its reference is missing or has
        another length.
        """
        corpus = Corpus.open(data, "dev")
        pairs = batches.within(corpus, None)
        if not len(pairs):
            remedy = "give nmtkit prep another one, then run nmtkit vocab"
            raise UserError(f"{data}/dev.src and dev.tgt: {NO_WORDS}; {remedy}")
        files = reference_files(data, "dev")
        check_there(files[0])
        pipeline = TextPipeline.load(data, "tgt")
        references = [[in_form(pipeline.side, line) for line in read_lines(path)] for path in files]
        for path, lines in zip(files, references, strict=True):
            check_lines(path, len(lines), "the development set", len(corpus), "make the folder again with nmtkit prep")
        vocabulary = Vocabulary.load(TextFiles(data).vocabulary("tgt"))
        return cls(corpus, pairs, references, vocabulary, pipeline)


def validate(run: Run, development: DevelopmentSet, seen: np.ndarray, search: Search) -> Validation:
    """Cross-entropy and token error rate by teacher forcing, BLEU and chrF2 by beam search, on the development set.

    Both use all references, and ignore case if the data folder is lower-cased. seen: indices (P,) of the training
    pairs whose token error rate is measured. The processes share the work, and all return the result. Raises UserError
    if the cross-entropy is not finite.
    """
    dev, max_tokens = development.corpus, run.settings.pass_tokens
    cross_entropy, errors = teacher_forced(run.model, dev, development.pairs, max_tokens, run.dtype)
    if not math.isfinite(cross_entropy):  # the weights have diverged since the last gradient was checked
        diverged = f"update {run.progress.update}: the development set's cross-entropy is {cross_entropy:g}"
        raise UserError(f"{diverged}; {remedy(run.folder)}")
    # A lower error rate than on the development set shows overfitting.
    _, train_errors = teacher_forced(run.model, run.corpus, seen, max_tokens, run.dtype)
    shared = [dev.src(int(i)).tolist() for i in distributed.share(np.arange(len(dev)))]
    scorer = run.model.for_search("bfloat16" if run.dtype == torch.bfloat16 else "float32")
    found = sorted(translate_each(scorer, [shared], search, device=run.device))  # by sentence number
    translations = distributed.gather([beam[0].ids for _, beam in found])
    # Detokenised, so that the metrics, by which checkpoints are ranked, do not depend on the segmentation.
    texts = [development.pipeline.text(development.vocabulary.tokens(ids)) for ids in translations]
    names = development.metric, "chrF2-lc" if development.pipeline.side.lowercase else "chrF2"
    bleu, chrf2 = (score(name, texts, development.references).value for name in names)
    return Validation(cross_entropy, errors, bleu, chrf2, train_errors)
