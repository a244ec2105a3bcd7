"""The results of a validation, and unusable development sets."""

from pathlib import Path

import numpy as np
import pytest
import torch

from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.models.base import Seq2Seq
from nmtkit.training import checkpoint
from nmtkit.training.run import sample_pairs
from nmtkit.training.validation import teacher_forced
from tests.training.conftest import make_data, metrics, small_experiment, trained


def test_cross_entropy_of_a_corpus_is_the_mean_over_its_words(data: Path) -> None:
    torch.manual_seed(3)
    model: Seq2Seq = small_experiment().build(14, 14)
    corpus = Corpus.open(data, "dev")
    together, errors = teacher_forced(model, corpus, np.arange(len(corpus)), 8192, torch.float32)
    nll = tokens = wrong = 0.0
    for i in range(len(corpus)):
        src = torch.tensor([[*corpus.src(i).tolist(), 2]])
        tgt = torch.tensor([[*corpus.tgt(i).tolist(), 2]])
        with torch.no_grad():
            log_probs = model.output(model(src, src != 0, tgt)).log_softmax(-1)[0]
        nll -= float(log_probs[torch.arange(tgt.shape[1]), tgt[0]].sum())
        wrong += float((log_probs.argmax(-1) != tgt[0]).sum())
        tokens += tgt.shape[1]
    assert together == pytest.approx(nll / tokens, rel=1e-5)
    assert errors == pytest.approx(wrong / tokens)


def test_a_batch_that_does_not_fit_into_memory_is_measured_in_halves(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)
    model, corpus, sizes, most = small_experiment().build(14, 14), Corpus.open(data, "dev"), list[int](), 100
    forward = Seq2Seq.forward

    def scarce(self: Seq2Seq, src: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        sizes.append(len(src))
        if len(src) > most:
            torch.empty(1 << 55)  # raises the error of the CPU allocator
        return forward(self, src, *others)

    monkeypatch.setattr(Seq2Seq, "forward", scarce)
    plenty = teacher_forced(model, corpus, np.arange(len(corpus)), 8192, torch.float32)
    most = 3
    assert teacher_forced(model, corpus, np.arange(len(corpus)), 8192, torch.float32) == pytest.approx(plenty)
    assert sizes == [10, 10, 5, 2, 3, 5, 2, 3]
    most = 0
    with pytest.raises(UserError, match=r"a pair of \d and \d tokens to validate on does not fit"):
        teacher_forced(model, corpus, np.arange(len(corpus)), 8192, torch.float32)


def test_every_validation_measures_the_token_errors_of_the_same_training_pairs(data: Path, tmp_path: Path) -> None:
    trained(tmp_path, data, max_updates=4, valid_every=2, keep_best=4, precision="float32")
    corpus, planned = Corpus.open(data, "train"), small_experiment()
    rows = sample_pairs(corpus, planned.training.max_length, len(Corpus.open(data, "dev")))
    assert len(set(rows.tolist())) == len(rows) <= len(corpus)
    for record in metrics(tmp_path):
        if record["kind"] == "valid":
            model = planned.build(14, 14)
            checkpoint.load_into(model, ModelFolder(tmp_path).weights(int(record["update"])))
            _, errors = teacher_forced(model, corpus, rows, 8192, torch.float32)
            assert record["train_token_error_rate"] == errors


@pytest.mark.parametrize(
    ("src", "tgt"), [(["", "", ""], ["ba", "be", "bi"]), (["ba", "be"], ["", ""]), (["", "ba"], ["ba", ""]), ([], [])]
)
def test_a_development_set_without_words_is_refused_before_anything_is_written(
    src: list[str], tgt: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("text.raw.has_words", "data.encoding.has_words"):  # not checked by version 0.1
        monkeypatch.setattr(f"nmtkit.{place}", lambda *paths: True)
    folder = make_data(tmp_path, dev=(src, tgt))
    with pytest.raises(UserError, match=r"data/dev.src and dev.tgt: no pair .* has words on both sides.* prep a"):
        trained(tmp_path / "run", folder)
    assert not (tmp_path / "run").exists()
