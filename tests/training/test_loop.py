"""Training: what a batch adds up to, when a run ends, and that a run which stopped goes on as if it had not."""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from nmtkit import experiment
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.models.base import Seq2Seq
from nmtkit.training import checkpoint, loop
from nmtkit.training.checkpoint import Progress, Window
from nmtkit.training.loop import Training, Validation
from tests.training.conftest import small_experiment

CPU = torch.device("cpu")


def trained(folder: Path, data: Path, **training: object) -> Progress:
    return experiment.run(small_experiment(**training), data, folder, CPU)


def metrics(folder: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timing = ("seconds", "tokens_per_second")
    return [{key: value for key, value in record.items() if key not in timing} for record in records]


def everything(folder: Path, update: int) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint: weights and the optimiser's state."""
    path = checkpoint.step_folder(folder, update)
    saved = torch.load(path / "trainer.pt", weights_only=True)
    state = {
        f"{number}.{name}": torch.as_tensor(value)
        for number, entries in saved["optimizer"]["state"].items()
        for name, value in entries.items()
    }
    return state | checkpoint.load_weights(path / "model.safetensors")


@pytest.mark.parametrize("stops", [[5], [1, 8, 9], [3, 7]])
def test_a_run_in_pieces_equals_a_run_in_one_go(stops: list[int], data: Path, tmp_path: Path) -> None:
    for last in [*stops, 12]:
        trained(tmp_path / "pieces", data, max_updates=last, valid_every=4)
    trained(tmp_path / "whole", data, max_updates=12, valid_every=4)
    pieces, whole = everything(tmp_path / "pieces", 12), everything(tmp_path / "whole", 12)
    assert pieces.keys() == whole.keys()
    for name, tensor in whole.items():
        assert torch.equal(pieces[name], tensor), name


def test_a_killed_run_repeats_what_was_not_saved_and_logs_it_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "whole", data, valid_every=4)
    accumulate, calls = loop.accumulate, []

    def killed(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 11:  # two updates after the checkpoint of update 8
            raise KeyboardInterrupt
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed", data, valid_every=4)
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "update": 10}\n{"kind": "tr')  # logged after the checkpoint; cut short
    trained(tmp_path / "killed", data, valid_every=4)
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "killed", 12).items())


def test_a_signal_stops_after_the_update_and_the_run_goes_on_as_if_nothing_had_been(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "whole", data, valid_every=5)
    accumulate, calls = loop.accumulate, []

    def signalled(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", signalled)
    progress = trained(tmp_path / "stopped", data, valid_every=5)
    assert (progress.update, progress.finished) == (3, "")
    assert checkpoint.steps(tmp_path / "stopped") == [3]
    trained(tmp_path / "stopped", data, valid_every=5)
    assert metrics(tmp_path / "stopped") == metrics(tmp_path / "whole")


def test_a_batch_in_several_passes_has_the_gradient_of_one_pass(data: Path) -> None:
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
        config = small_experiment(pass_tokens=pass_tokens, label_smoothing=0.1).training
        loss, nll, tokens = loop.accumulate(model, config, corpus, rows, CPU, torch.float32)
        found.append((loss, nll, tokens, [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    (loss, nll, tokens, gradients), (loss2, nll2, tokens2, gradients2) = found
    assert tokens == tokens2 == int(corpus.lengths(rows)[1].sum()) + 20
    assert loss == pytest.approx(loss2)
    assert nll == pytest.approx(nll2)
    for one, several in zip(gradients, gradients2, strict=True):
        torch.testing.assert_close(one, several)


def test_the_loss_is_divided_by_words_or_by_sentences(data: Path) -> None:
    corpus, rows = Corpus.open(data, "train"), torch.arange(12).numpy()
    torch.manual_seed(3)
    model = small_experiment().build(14, 14)
    by_words, nll, tokens = loop.accumulate(model, small_experiment().training, corpus, rows, CPU, torch.float32)
    torch.manual_seed(0)
    assert by_words == pytest.approx(nll / tokens)
    by_sentences, nll, _ = loop.accumulate(
        model, small_experiment(loss="sentences").training, corpus, rows, CPU, torch.float32
    )
    assert by_sentences == pytest.approx(nll / 12)


def test_clipping_scales_all_gradients_together_down_to_the_limit() -> None:
    model = small_experiment().build(14, 14)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    before = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    norm = float(torch.cat([gradient.flatten() for gradient in before]).norm())
    assert loop.clip(model, None) == pytest.approx(norm)
    assert loop.clip(model, 2 * norm) == pytest.approx(norm)
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    assert loop.clip(model, 0.5) == pytest.approx(norm)
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.grad, gradient * (0.5 / norm))


def test_cross_entropy_of_a_corpus_is_the_mean_over_its_words(data: Path) -> None:
    torch.manual_seed(3)
    model: Seq2Seq = small_experiment().build(14, 14)
    corpus = Corpus.open(data, "dev")
    together, errors = loop.teacher_forced(model, corpus, 8192, CPU, torch.float32)
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


def test_bfloat16_products_train_as_float32_ones_do(data: Path, tmp_path: Path) -> None:
    for precision in ("float32", "bfloat16"):
        trained(tmp_path / precision, data, precision=precision, max_updates=6)
    exact, rough = (metrics(tmp_path / precision)[0]["loss"] for precision in ("float32", "bfloat16"))
    assert rough == pytest.approx(exact, rel=0.02)


def validations(values: list[float]) -> object:
    found = iter(values)
    return lambda: Validation(cross_entropy=1.0, errors=0.5, bleu=next(found))


def run_with_scores(tmp_path: Path, data: Path, scores: list[float], **training: object) -> Progress:
    planned = small_experiment(valid_every=1, max_updates=len(scores), **training)
    experiment.prepare_folder(tmp_path, planned, data)
    model = planned.build(14, 14)
    optimizer = torch.optim.SGD([{"params": list(model.parameters()), "lr": 1.0, "base_lr": 1.0}])
    corpus = Corpus.open(data, "train")
    return loop.train(
        model, optimizer, planned.training, corpus, tmp_path, Progress(), validations(scores), torch.float32
    )  # type: ignore[arg-type]


def test_patience_counts_validations_without_a_better_score(data: Path, tmp_path: Path) -> None:
    progress = run_with_scores(tmp_path, data, [1, 3, 2, 3, 9], patience=2)
    assert progress.update == 4  # 2 and 3 are no better than 3
    assert progress.finished == "no better bleu in 2 validations"


def test_equal_bleu_is_ranked_by_cross_entropy(data: Path, tmp_path: Path) -> None:
    entropies = iter([3.0, 2.5, 2.8])
    planned = small_experiment(valid_every=1, max_updates=3, schedule={"kind": "plateau"})
    experiment.prepare_folder(tmp_path, planned, data)
    model = planned.build(14, 14)
    optimizer = torch.optim.SGD([{"params": list(model.parameters()), "lr": 1.0, "base_lr": 1.0}])
    corpus = Corpus.open(data, "train")
    validate = lambda: Validation(next(entropies), 0.5, 0.0)  # noqa: E731
    progress = loop.train(
        model, optimizer, planned.training, corpus, tmp_path, Progress(), validate, torch.float32
    )
    assert checkpoint.best_steps(tmp_path)[0] == 2
    assert (progress.stalled, progress.decays) == (1, 1)


def test_raising_the_limit_of_a_finished_run_equals_the_longer_run(data: Path, tmp_path: Path) -> None:
    plateau = {"valid_every": 4, "schedule": {"kind": "plateau"}, "patience": 9}
    for last in (6, 12):
        trained(tmp_path / "pieces", data, max_updates=last, **plateau)
    trained(tmp_path / "whole", data, max_updates=12, **plateau)
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "pieces", 12).items())


def test_a_run_does_not_go_on_with_another_text(data: Path, tmp_path: Path) -> None:
    trained(tmp_path / "run", data, max_updates=2)
    other = tmp_path / "other"
    shutil.copytree(data, other)
    ids = json.loads((other / "ids.json").read_text())
    manifest = json.loads((other / "manifest.json").read_text())
    for files, key in ((ids["files"], "text"), (manifest["files"], "sha256")):
        files["train.src"][key] = "of another text"
    (other / "ids.json").write_text(json.dumps(ids))
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="other: another training or dev text than the run began with"):
        trained(tmp_path / "run", other)


def test_ctrl_c_saves_and_then_ends_the_script_too(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accumulate = loop.accumulate

    def interrupted(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, data)
    assert checkpoint.steps(tmp_path) == [1]


def test_the_best_and_the_last_checkpoints_are_kept(data: Path, tmp_path: Path) -> None:
    run_with_scores(tmp_path, data, [5, 9, 7, 1, 2, 3], keep_best=2, keep_last=1)
    assert checkpoint.steps(tmp_path) == [2, 3, 6]
    assert checkpoint.best_steps(tmp_path) == [2, 3]
    assert checkpoint.best_weights(tmp_path) == checkpoint.step_folder(tmp_path, 2) / "model.safetensors"


def test_the_clipping_threshold_shrinks_at_each_validation_without_improvement(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []
    clip = loop.clip
    monkeypatch.setattr(loop, "clip", lambda model, limit: limits.append(limit) or clip(model, limit))
    run_with_scores(tmp_path, data, [5, 4, 3, 6, 5], clip_norm=1.0, clip_factor=0.5)
    assert limits == [1, 1, 0.5, 0.25, 0.25]


def test_the_plateau_schedule_reduces_the_rate_at_each_validation_without_improvement(
    data: Path, tmp_path: Path
) -> None:
    run_with_scores(tmp_path, data, [5, 4, 3, 6, 5], schedule={"kind": "plateau", "factor": 0.5})
    rates = [record["lr_factor"] for record in metrics(tmp_path) if record["kind"] == "train"]
    assert rates == [1, 1, 0.5, 0.25, 0.25]


def test_a_loss_that_is_no_number_stops_the_run_with_the_place(data: Path, tmp_path: Path) -> None:
    planned = small_experiment()
    experiment.prepare_folder(tmp_path, planned, data)
    model = planned.build(14, 14)
    with torch.no_grad():
        model.output.bias[5] = float("nan")
    optimizer = torch.optim.SGD([{"params": list(model.parameters()), "lr": 1.0, "base_lr": 1.0}])
    corpus = Corpus.open(data, "train")
    with pytest.raises(UserError, match=r"update 1: loss nan.*corpus lines \[\d+, .*start again in another folder"):
        loop.train(
            model, optimizer, planned.training, corpus, tmp_path, Progress(), validations([]), torch.float32
        )  # type: ignore[arg-type]
    assert checkpoint.steps(tmp_path) == []


def test_a_corpus_without_a_pair_that_is_short_enough_is_an_error(data: Path, tmp_path: Path) -> None:
    trained(tmp_path / "enough", data, max_length=3, max_updates=1)
    empty = small_experiment(max_length=1)
    corpus = Corpus.open(data, "train")
    long = np.flatnonzero(corpus.lengths(np.arange(len(corpus)))[0] > 1)

    class Long:
        def __len__(self) -> int:
            return len(long)

        def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return corpus.lengths(long[rows])

    with pytest.raises(UserError, match=r"no pair to train on: all \d+ are empty or longer than training.max_length 1"):
        loop.train(empty.build(14, 14), None, empty.training, Long(), tmp_path, Progress(), None, torch.float32)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_sentences": None}, "batch_sentences, batch_tokens: give one of the two"),
        ({"batch_tokens": 100}, "batch_sentences, batch_tokens: give one of the two"),
        ({"patience": 0}, "patience: 0 is not at least 1"),
        ({"label_smoothing": 1}, r"label_smoothing: 1.0 is not in \[0, 1\)"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small_experiment(**values)


def test_speed_and_loss_are_means_since_the_last_validation() -> None:
    window = Window()
    for tokens, seconds in ((100, 1.0), (300, 1.0)):
        window.add(nll=tokens * 2.0, tokens=tokens, seconds=seconds, norm=1.0)
    assert (window.speed, window.loss) == (200, 2)


def test_every_default_of_training_is_valid() -> None:
    assert Training(small_experiment().training.optimizer, batch_tokens=1000).loss == "tokens"
