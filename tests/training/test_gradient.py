"""The gradient of a batch: the same with any number of micro-batches, which always fit into memory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from nmtkit.data.batches import Batch, collate
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.linear import FEW
from nmtkit.symbols import BOS
from nmtkit.training import loop
from nmtkit.training.gradient import accumulate, clip, micro_batches, read
from nmtkit.training.loss import Gradient, drop_words, summed_loss
from nmtkit.training.optimizers import initialise
from nmtkit.training.run import Run
from tests.toys import one_of_each_architecture, preset_experiment, toy
from tests.training.conftest import metrics, small_experiment, small_run, trained


def gradient_of(run: Run, rows: np.ndarray) -> Gradient:
    """The figures of an update on these pairs, whose gradient is then in the parameters."""
    return read(accumulate(run, rows, micro_batches(run, rows)), torch.zeros(()))


def test_a_batch_in_micro_batches_has_the_same_gradient(data: Path) -> None:
    planned = small_experiment()
    corpus = Corpus.open(data, "train")
    torch.manual_seed(3)
    model = planned.build(14, 14)
    for module in model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.0  # which words are dropped depends on the pass
    rows = torch.arange(20).numpy()
    found = []
    for pass_tokens in (100_000, 30):
        planned = small_experiment(pass_tokens=pass_tokens, label_smoothing=0.1)
        loss, nll, tokens, *_ = gradient_of(small_run(planned, corpus, model=model), rows)
        found.append((loss, nll, tokens, [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    (loss, nll, tokens, gradients), (loss2, nll2, tokens2, gradients2) = found
    assert tokens == tokens2 == int(corpus.lengths(rows)[1].sum()) + 20
    assert loss == pytest.approx(loss2)
    assert nll == pytest.approx(nll2)
    for one, several in zip(gradients, gradients2, strict=True):
        torch.testing.assert_close(one, several)


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_in_bfloat16_and_micro_batches_every_architecture_has_the_gradient_of_float32(preset: str, data: Path) -> None:
    experiment = toy(preset_experiment(preset))
    without = {name: 0.0 for name in vars(experiment.model) if name.endswith("dropout")}
    corpus, rows = Corpus.open(data, "train"), np.arange(60).repeat(3)
    torch.manual_seed(3)
    model = replace(experiment, model=replace(experiment.model, **without)).build(14, 14)
    initialise(model, experiment.training.groups)
    found = []
    for dtype, passes in ((torch.float32, 1), (torch.bfloat16, 2)):
        run = replace(small_run(small_experiment(), corpus, model=model), dtype=dtype)
        micro = [collate(corpus, part) for part in np.array_split(rows, passes)]
        assert all(len(batch.words) > FEW for batch in micro)
        accumulate(run, rows, micro)
        found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert functional.cosine_similarity(*found, dim=0) > 0.99


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_with_dropout_and_in_bfloat16_every_architecture_has_a_gradient(preset: str, data: Path) -> None:
    experiment = toy(preset_experiment(preset))
    dropout = {name: 0.3 for name in vars(experiment.model) if name.endswith("dropout")}
    corpus, rows = Corpus.open(data, "train"), np.arange(60)
    model = replace(experiment, model=replace(experiment.model, **dropout)).build(14, 14)
    run = replace(small_run(small_experiment(), corpus, model=model), dtype=torch.bfloat16)
    accumulate(run, rows, micro_batches(run, rows))
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.any() for gradient in gradients)


def test_only_embeddings_of_dropped_words_get_no_gradient() -> None:
    torch.manual_seed(3)
    model = small_experiment().build(60, 60).eval()  # without other dropout
    src, tgt = torch.arange(4, 54).view(2, 25), torch.arange(4, 54).view(2, 25)
    batch = Batch(src, torch.ones_like(src, dtype=torch.bool), tgt, torch.arange(50))
    torch.manual_seed(1)
    summed_loss(model, batch, 0.0, torch.float32, word_dropout=0.5)[0].backward()
    torch.manual_seed(1)
    seen = drop_words(src, 0.5)
    previous = drop_words(tgt, 0.5)[:, :-1]
    for embedding, words in ((model.embedding["src"], seen), (model.embedding["tgt"], previous)):
        trained = embedding.weight.grad.any(dim=1).nonzero().flatten()
        assert set(trained.tolist()) == set(words[words != BOS].tolist())
        assert 10 < len(trained) < 40


def test_words_are_dropped_with_the_given_probability_and_become_bos() -> None:
    ids = torch.randint(4, 9, (200, 500))
    kept = drop_words(ids, 0.3)
    dropped = kept != ids
    assert set(kept[dropped].tolist()) == {BOS}
    assert float(dropped.float().mean()) == pytest.approx(0.3, abs=0.01)
    assert drop_words(ids, 0.0) is ids


def test_the_words_to_predict_are_never_dropped(data: Path) -> None:
    corpus, rows = Corpus.open(data, "train"), np.arange(30)
    torch.manual_seed(3)
    model = small_experiment().build(14, 14).eval()
    with torch.no_grad():
        model.embedding["src"].weight.zero_()  # so that dropping words makes no difference
        model.embedding["tgt"].weight.zero_()
    batch = collate(corpus, rows)
    losses = [summed_loss(model, batch, 0.1, torch.float32, word_dropout=p)[0].item() for p in (0.0, 0.9)]
    assert losses[0] == losses[1]


def test_an_update_has_the_label_smoothing_and_the_word_dropout_of_the_settings(data: Path) -> None:
    corpus, rows = Corpus.open(data, "train"), np.arange(12)
    model = small_experiment().build(14, 14).eval()
    model.train = lambda: model  # type: ignore[assignment, method-assign, misc]  # without other dropout
    for settings in ({"label_smoothing": 0.3}, {"word_dropout": 0.5}):
        torch.manual_seed(1)
        loss, nll, tokens, *_ = gradient_of(small_run(small_experiment(**settings), corpus, model=model), rows)
        smoothing, dropout = settings.get("label_smoothing", 0.0), settings.get("word_dropout", 0.0)
        torch.manual_seed(1)
        expected = summed_loss(model, collate(corpus, rows), smoothing, torch.float32, dropout)
        assert (loss * tokens, nll) == pytest.approx([x.item() for x in expected])


def test_the_loss_is_divided_by_words_or_by_sentences(data: Path) -> None:
    corpus, rows = Corpus.open(data, "train"), torch.arange(12).numpy()
    torch.manual_seed(3)
    model = small_experiment().build(14, 14)
    by_words, nll, tokens, *_ = gradient_of(small_run(small_experiment(), corpus, model=model), rows)
    torch.manual_seed(0)
    assert by_words == pytest.approx(nll / tokens)
    by_sentences, nll, *_ = gradient_of(small_run(small_experiment(loss="sentences"), corpus, model=model), rows)
    assert by_sentences == pytest.approx(nll / 12)


def test_clipping_scales_all_gradients_together_down_to_the_limit() -> None:
    model = small_experiment().build(14, 14)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    before = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    norm = float(torch.cat([gradient.flatten() for gradient in before]).norm())
    assert float(clip(model, None)) == pytest.approx(norm)
    assert float(clip(model, 2 * norm)) == pytest.approx(norm)
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    for larger, limit in ((norm, 0.9 * norm), (0.9 * norm, 0.5)):
        assert float(clip(model, limit)) == pytest.approx(larger)
        for parameter, gradient in zip(model.parameters(), before, strict=True):
            torch.testing.assert_close(parameter.grad, gradient * (limit / norm))


class Memory:
    """Memory for this many sentences at most; beyond, the error of the CPU allocator is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sentences: int):
        self.forward, self.passes = Seq2Seq.forward, list[int]()

        def forward(model: Seq2Seq, src: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
            self.passes.append(len(src))
            if len(src) > sentences and torch.is_grad_enabled():
                torch.empty(1 << 55)
            return self.forward(model, src, *others)

        monkeypatch.setattr(Seq2Seq, "forward", forward)


def test_a_batch_that_does_not_fit_into_memory_is_halved_with_the_same_gradient(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpus, rows = Corpus.open(data, "train"), torch.arange(20).numpy()
    model = small_experiment().build(14, 14).eval()
    model.train = lambda: model  # type: ignore[assignment, method-assign, misc]  # without dropout
    found = []
    for sentences in (20, 6):
        memory = Memory(monkeypatch, sentences)
        sums = gradient_of(small_run(small_experiment(), corpus, model=model), rows)
        found.append((*sums, [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    assert memory.passes == [20, 10, 5, 5, 5, 5]
    (*whole, gradients), (*halved, others) = found
    assert halved == pytest.approx([*whole[:3], 2, 0])
    torch.testing.assert_close(others, gradients)
    assert caplog.messages == [
        f"out of memory; repeating micro-batches ({n}) in halves: training.pass_tokens is too high" for n in (1, 2)
    ]


def test_micro_batches_before_the_one_that_does_not_fit_into_memory_count_once(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, rows = Corpus.open(data, "train"), torch.arange(20).numpy()
    model = small_experiment().build(14, 14).eval()
    model.train = lambda: model  # type: ignore[assignment, method-assign, misc]  # without dropout
    run, found = small_run(small_experiment(), corpus, model=model), []
    for sentences in (20, 12):
        memory = Memory(monkeypatch, sentences)
        sums = read(accumulate(run, rows, [collate(corpus, rows[:4]), collate(corpus, rows[4:])]), torch.zeros(()))
        found.append((*sums[:3], [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    assert memory.passes == [4, 16, 10, 10]
    (*whole, gradients), (*halved, others) = found
    assert halved == pytest.approx(whole)
    torch.testing.assert_close(others, gradients)


def test_what_is_dropped_does_not_depend_on_where_memory_ran_out(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, rows = Corpus.open(data, "train"), torch.arange(20).numpy()
    memory, run, found = Memory(monkeypatch, 12), small_run(small_experiment(), corpus), []
    for parts in ([rows], [rows[:4], rows[4:]], [rows[:10], rows[10:]]):
        run.seed_dropout()
        accumulate(run, rows, [collate(corpus, part) for part in parts])
        found.append([p.grad.clone() for p in run.model.parameters() if p.grad is not None])
    assert memory.passes == [20, 10, 10, 4, 16, 10, 10, 10, 10]
    assert all(map(torch.equal, found[0], found[2]))
    assert all(map(torch.equal, found[1], found[2]))


def test_a_single_pair_that_fits_into_memory_is_not_halved_any_further(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, corpus = Memory(monkeypatch, 1), Corpus.open(data, "train")
    assert gradient_of(small_run(small_experiment(), corpus), np.arange(3)).halvings == 2
    assert memory.passes == [3, 2, 1, 1, 1]


def test_a_pair_that_does_not_fit_into_memory_is_an_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Memory(monkeypatch, 0)
    corpus, rows = Corpus.open(data, "train"), torch.arange(2).numpy()
    with pytest.raises(UserError, match=r"a pair of \d and \d tokens does not fit into the memory of cpu; use a"):
        gradient_of(small_run(small_experiment(), corpus), rows)


def test_how_often_memory_ran_out_is_kept_and_logged(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Memory(monkeypatch, 5)
    trained(tmp_path, data, valid_every=2, max_updates=4)
    halvings = [record["memory_halvings"] for record in metrics(tmp_path) if record["kind"] == "train"]
    assert halvings == [2, 4]


def test_the_next_update_is_prepared_before_waiting_for_this_one(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no batch is prepared twice, even at the end of an epoch."""
    done: list[str] = []

    def noted(name: str) -> None:
        function = getattr(loop, name)
        monkeypatch.setattr(loop, name, lambda *arguments: done.append(name) or function(*arguments))

    for name in ("micro_batches", "accumulate", "read"):
        noted(name)
    progress = trained(tmp_path, data, max_updates=10, valid_every=5)
    assert (progress.epoch, progress.batch) == (1, 2)
    assert done.count("micro_batches") == 11  # for the eleventh update, too, which is not made
    assert done[:5] == ["micro_batches", "accumulate", "micro_batches", "read", "accumulate"]
