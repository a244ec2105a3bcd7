"""Training: what a batch adds up to, when a run ends, and that a run which stopped goes on as if it had not."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.experiment.run import prepare_folder, run_experiment
from nmtkit.models.base import Seq2Seq
from nmtkit.training import checkpoint, loop
from nmtkit.training.diagnosis import first_offender
from nmtkit.training.folder import ModelFolder
from nmtkit.training.gradient import accumulate, clip
from nmtkit.training.progress import Progress, Window
from nmtkit.training.run import dropout_seed, sample_pairs, usable_pairs
from nmtkit.training.settings import Training
from nmtkit.training.signals import stop_signals
from nmtkit.training.validation import Validation, teacher_forced
from tests.training.conftest import make_data, small_experiment, small_run

CPU = torch.device("cpu")


def trained(folder: Path, data: Path, **training: object) -> Progress:
    return run_experiment(small_experiment(**training), data, folder, CPU)


def metrics(folder: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timing = ("seconds", "tokens_per_second")
    return [{key: value for key, value in record.items() if key not in timing} for record in records]


def everything(folder: Path, update: int) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint: weights and the optimiser's state."""
    path = ModelFolder(folder).checkpoint(update)
    saved = torch.load(path / "trainer.pt", weights_only=True)
    state = {
        f"{number}.{name}": torch.as_tensor(value)
        for number, entries in saved["optimizer"]["state"].items()
        for name, value in entries.items()
    }
    return state | checkpoint.load_weights(path / "model.safetensors")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("stops", [[5], [1, 8, 9], [3, 7]])
def test_a_run_in_pieces_equals_a_run_in_one_go(stops: list[int], precision: str, data: Path, tmp_path: Path) -> None:
    for last in [*stops, 12]:
        trained(tmp_path / "pieces", data, max_updates=last, valid_every=4, precision=precision)
    trained(tmp_path / "whole", data, max_updates=12, valid_every=4, precision=precision)
    pieces, whole = everything(tmp_path / "pieces", 12), everything(tmp_path / "whole", 12)
    assert pieces.keys() == whole.keys()
    for name, tensor in whole.items():
        assert torch.equal(pieces[name], tensor), name


def test_a_killed_run_repeats_what_was_not_saved_and_logs_it_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "whole", data, valid_every=4)
    calls = []

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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_after_the_update_and_the_run_goes_on_as_if_nothing_had_been(
    number: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)  # also where nohup runs the tests
    trained(tmp_path / "whole", data, valid_every=5)
    calls = []

    def signalled(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), number)
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", signalled)
    progress = trained(tmp_path / "stopped", data, valid_every=5)
    assert (progress.update, progress.finished) == (3, "")
    assert ModelFolder(tmp_path / "stopped").updates() == [3]
    trained(tmp_path / "stopped", data, valid_every=5)
    assert metrics(tmp_path / "stopped") == metrics(tmp_path / "whole")


def test_a_run_that_nohup_protects_goes_on_when_its_terminal_closes() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
            assert received == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_ctrl_c_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), stop_signals() as received:  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert received == [signal.SIGTERM, signal.SIGINT]
        os.kill(os.getpid(), signal.SIGINT)


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
        planned = small_experiment(pass_tokens=pass_tokens, label_smoothing=0.1)
        loss, nll, tokens, _ = accumulate(small_run(planned, corpus, model=model), rows)
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
    by_words, nll, tokens, _ = accumulate(small_run(small_experiment(), corpus, model=model), rows)
    torch.manual_seed(0)
    assert by_words == pytest.approx(nll / tokens)
    by_sentences, nll, *_ = accumulate(small_run(small_experiment(loss="sentences"), corpus, model=model), rows)
    assert by_sentences == pytest.approx(nll / 12)


def test_clipping_scales_all_gradients_together_down_to_the_limit() -> None:
    model = small_experiment().build(14, 14)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    before = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    norm = float(torch.cat([gradient.flatten() for gradient in before]).norm())
    assert clip(model, None) == pytest.approx(norm)
    assert clip(model, 2 * norm) == pytest.approx(norm)
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    assert clip(model, 0.5) == pytest.approx(norm)
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.grad, gradient * (0.5 / norm))


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


def test_bfloat16_products_train_as_float32_ones_do(data: Path, tmp_path: Path) -> None:
    for precision in ("float32", "bfloat16"):
        trained(tmp_path / precision, data, precision=precision, max_updates=6)
    exact, rough = (metrics(tmp_path / precision)[0]["loss"] for precision in ("float32", "bfloat16"))
    assert rough == pytest.approx(exact, rel=0.02)


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


def validations(measured: list[tuple[float, float]]) -> Callable[[], Validation]:
    coming = (Validation(cross_entropy, 0.5, bleu, 0.5) for cross_entropy, bleu in measured)
    return lambda: next(coming)


def run_with_scores(tmp_path: Path, data: Path, scores: list[float], **training: object) -> Progress:
    return run_with(tmp_path, data, [(1.0, bleu) for bleu in scores], **training)


def run_with(tmp_path: Path, data: Path, measured: list[tuple[float, float]], **training: object) -> Progress:
    """A run whose validations measure these pairs of cross-entropy and BLEU, one after every update."""
    planned = small_experiment(valid_every=1, max_updates=len(measured), **training)
    run = small_run(planned, Corpus.open(data, "train"), tmp_path)
    prepare_folder(run.folder, planned, data)
    loop.train(run, validations(measured))
    return run.progress


def test_patience_counts_validations_without_a_better_score(data: Path, tmp_path: Path) -> None:
    progress = run_with_scores(tmp_path, data, [1, 3, 2, 3, 9], patience=2)
    assert progress.update == 4  # 2 and 3 are no better than 3
    assert progress.finished == "no better bleu in 2 validations"


def test_equal_bleu_is_ranked_by_cross_entropy(data: Path, tmp_path: Path) -> None:
    progress = run_with(tmp_path, data, [(3.0, 0.0), (2.5, 0.0), (2.8, 0.0)], schedule={"kind": "plateau"})
    assert ModelFolder(tmp_path).best_updates()[0] == 2
    assert (progress.stalled, progress.decays) == (1, 1)


BETTER_BLEU_THAN_ENTROPY = [(3.0, 5.0), (2.0, 4.0), (2.5, 9.0), (2.6, 7.0), (1.0, 1.0)]  # of five validations


@pytest.mark.parametrize(
    ("metrics", "ranked", "updates"),
    [
        ({"stop_metric": "cross_entropy", "best_metric": "bleu"}, [3, 4], 4),  # no lower entropy after the second
        ({"stop_metric": "bleu", "best_metric": "cross_entropy"}, [5, 2], 5),
        ({"stop_metric": "cross_entropy"}, [2, 3], 4),
        ({"stop_metric": "bleu"}, [3, 4], 5),
    ],
)
def test_one_metric_stops_the_run_and_another_ranks_its_checkpoints(
    metrics: dict[str, str], ranked: list[int], updates: int, data: Path, tmp_path: Path
) -> None:
    progress = run_with(tmp_path, data, BETTER_BLEU_THAN_ENTROPY, patience=2, keep_best=2, keep_last=1, **metrics)
    assert ModelFolder(tmp_path).best_updates() == ranked
    assert ModelFolder(tmp_path).updates() == sorted({*ranked, updates})
    assert progress.update == updates
    assert [metric for _, metric, _ in progress.best] == [
        BETTER_BLEU_THAN_ENTROPY[update - 1][metrics.get("best_metric", metrics["stop_metric"]) == "bleu"]
        for update in ranked
    ]


def test_a_run_with_two_metrics_goes_on_as_if_it_had_never_stopped(data: Path, tmp_path: Path) -> None:
    two = {"stop_metric": "cross_entropy", "best_metric": "bleu", "valid_every": 2}
    trained(tmp_path / "whole", data, **two)
    trained(tmp_path / "pieces", data, **two, max_updates=5)
    trained(tmp_path / "pieces", data, **two)
    assert (tmp_path / "pieces" / "best").read_bytes() == (tmp_path / "whole" / "best").read_bytes()
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "pieces", 12).items())


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
    with pytest.raises(UserError, match=r"other settings, see above: text train\.src; put them back"):
        trained(tmp_path / "run", other)


def test_ctrl_c_saves_and_then_ends_the_script_too(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return accumulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "accumulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, data)
    assert ModelFolder(tmp_path).updates() == [1]


def test_the_best_and_the_last_checkpoints_are_kept(data: Path, tmp_path: Path) -> None:
    run_with_scores(tmp_path, data, [5, 9, 7, 1, 2, 3], keep_best=2, keep_last=1)
    assert ModelFolder(tmp_path).updates() == [2, 3, 6]
    assert ModelFolder(tmp_path).best_updates() == [2, 3]
    assert ModelFolder(tmp_path).best_weights() == ModelFolder(tmp_path).weights(2)


def test_the_clipping_threshold_shrinks_at_each_validation_without_improvement(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []
    monkeypatch.setattr(loop, "clip", lambda model, limit: limits.append(limit) or clip(model, limit))
    run_with_scores(tmp_path, data, [5, 4, 3, 6, 5], clip_norm=1.0, clip_factor=0.5)
    assert limits == [1, 1, 0.5, 0.25, 0.25]


def test_the_plateau_schedule_reduces_the_rate_at_each_validation_without_improvement(
    data: Path, tmp_path: Path
) -> None:
    run_with_scores(tmp_path, data, [5, 4, 3, 6, 5], schedule={"kind": "plateau", "factor": 0.5})
    rates = [record["lr_factor"] for record in metrics(tmp_path) if record["kind"] == "train"]
    assert rates == [1, 1, 0.5, 0.25, 0.25]


def test_a_falling_plateau_reduces_the_rate_at_every_validation_after_the_first_rise(
    data: Path, tmp_path: Path
) -> None:
    run_with_scores(tmp_path, data, [4, 5, 3, 6, 7], schedule={"kind": "plateau", "factor": 0.1, "falling": True})
    rates = [record["lr_factor"] for record in metrics(tmp_path) if record["kind"] == "train"]
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.01])


def test_the_run_ends_below_the_least_learning_rate(data: Path, tmp_path: Path) -> None:
    plateau = {"kind": "plateau", "factor": 0.1, "warmup": 3}  # a rate that has yet to rise ends nothing
    progress = run_with_scores(tmp_path, data, [5, 6, 4, 3, 2, 1], schedule=plateau, min_lr=5e-4)
    assert progress.update == 4  # from 0.01 to 1e-4
    assert progress.finished == "a learning rate below 0.0005"


def test_a_loss_that_is_no_number_stops_the_run_with_the_place(data: Path, tmp_path: Path) -> None:
    planned = small_experiment()
    run = small_run(planned, Corpus.open(data, "train"), tmp_path)
    prepare_folder(run.folder, planned, data)
    with torch.no_grad():
        run.model.output.bias[5] = float("nan")
    place = r"update 1 \(epoch 1, batch 1\): loss nan, gradient norm nan, first in the weights output.bias; "
    with pytest.raises(UserError, match=place + r"corpus lines \d+, .* of 8 in the batch; start again"):
        loop.train(run, validations([]))
    assert run.folder.updates() == []


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
        loop.train(small_run(empty, Long(), tmp_path), validations([]))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.pt"])
def test_a_run_whose_newest_checkpoint_is_damaged_goes_on_from_the_one_before_as_its_message_says(
    name: str, data: Path, tmp_path: Path
) -> None:
    trained(tmp_path / "whole", data, valid_every=4)
    trained(tmp_path / "run", data, valid_every=4, max_updates=8)
    newest = ModelFolder(tmp_path / "run").checkpoint(8)
    content = bytearray((newest / name).read_bytes())
    number = everything(tmp_path / "run", 8)["0.exp_avg" if name == "trainer.pt" else "output.bias"]
    content[content.find(number.numpy())] ^= 1  # a single bit
    (newest / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        trained(tmp_path / "run", data, valid_every=4)
    assert re.fullmatch(rf"{newest}/.*delete {newest} to (use|go on from) another checkpoint", str(error.value))
    shutil.rmtree(newest)
    trained(tmp_path / "run", data, valid_every=4)
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[key]) for key, tensor in everything(tmp_path / "run", 12).items())


def test_two_runs_in_one_folder_are_refused_until_the_first_has_ended(data: Path, tmp_path: Path) -> None:
    hold = "import pathlib, sys; from nmtkit.lines import locked\n"
    hold += "with locked(pathlib.Path(sys.argv[1]), 'training'): print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(UserError, match=rf"another training \(process {other.pid}\) is at work there; wait"):
            trained(tmp_path, data)
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
        other.kill()
    trained(tmp_path, data, max_updates=1)  # what a dead process held is free


def test_nothing_is_made_before_the_configuration_is_found_good(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no parameter of that name"):
        trained(tmp_path / "run", data, groups={"recurent": {"lr": 1.0}})
    assert not (tmp_path / "run").exists()


def test_a_full_disk_stops_the_run_which_goes_on_when_there_is_room(data: Path, tmp_path: Path) -> None:
    """The limit on the size of files stands for the disk: what is written beyond it fails in the same way."""
    trained(tmp_path / "whole", data, valid_every=4)
    trained(tmp_path / "run", data, valid_every=4, max_updates=4)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (0, 500, 5_000):  # nothing at all, the configuration, the weights without the optimiser
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
            with pytest.raises(UserError, match=r"cannot be written: File too large"):
                trained(tmp_path / "run", data, valid_every=4)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert {path.name for path in before} >= {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
        assert ModelFolder(tmp_path / "run").updates() == [4]
    trained(tmp_path / "run", data, valid_every=4)
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")


class Memory:
    """Too little for more than so many sentences at once: raises what the processor's allocator raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sentences: int):
        self.forward, self.passes = Seq2Seq.forward, list[int]()

        def forward(model: Seq2Seq, src: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
            self.passes.append(len(src))
            if len(src) > sentences and torch.is_grad_enabled():
                torch.empty(1 << 55)
            return self.forward(model, src, *others)

        monkeypatch.setattr(Seq2Seq, "forward", forward)


def test_a_batch_that_memory_does_not_hold_is_done_in_halves_with_the_same_gradient(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpus, rows = Corpus.open(data, "train"), torch.arange(20).numpy()
    model = small_experiment().build(14, 14).eval()
    model.train = lambda: model  # type: ignore[assignment, method-assign, misc]  # without dropout
    found = []
    for sentences in (20, 6):
        memory = Memory(monkeypatch, sentences)
        sums = accumulate(small_run(small_experiment(), corpus, model=model), rows)
        found.append((*sums, [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    assert memory.passes == [20, 10, 5, 5, 5, 5]
    (*whole, gradients), (*halved, others) = found
    assert halved == pytest.approx([*whole[:3], 2])
    torch.testing.assert_close(others, gradients)
    assert caplog.messages == [
        f"out of memory in {n} passes; again in halves: training.pass_tokens is too high" for n in (1, 2)
    ]


def test_a_pair_that_memory_does_not_hold_is_an_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Memory(monkeypatch, 0)
    corpus, rows = Corpus.open(data, "train"), torch.arange(2).numpy()
    with pytest.raises(UserError, match=r"a pair of \d and \d tokens does not fit into the memory of cpu: take a"):
        accumulate(small_run(small_experiment(), corpus), rows)


def test_how_often_memory_ran_out_is_kept_and_logged(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Memory(monkeypatch, 5)
    trained(tmp_path, data, valid_every=2, max_updates=4)
    halvings = [record["memory_halvings"] for record in metrics(tmp_path) if record["kind"] == "train"]
    assert halvings == [2, 4]


def test_the_padding_of_every_epoch_is_logged_once_however_often_the_run_stops(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for last in (5, 8, 11, 16):  # 60 pairs: an epoch has 8 batches
        trained(tmp_path, data, max_updates=last, valid_every=100)
    found = [record for record in metrics(tmp_path) if record["kind"] == "epoch"]
    assert [(r["update"], r["epoch"], r["batches"]) for r in found] == [(8, 1, 8), (16, 2, 8)]
    assert all(0 < r["padding"] < 0.5 for r in found)
    assert f"epoch 2: 8 batches, {100 * found[1]['padding']:.1f} % of them padding" in caplog.text


def test_the_first_module_whose_output_is_no_number_is_named() -> None:
    torch.manual_seed(1)
    planned = small_experiment()
    model = planned.build(14, 14)
    src = torch.tensor([[5, 6, 2]])

    def run() -> None:
        model.zero_grad()
        (model(src, src != 0, src) * model.output.weight[:1].sum()).sum().backward()

    assert first_offender(model, run) == "the loss"
    broken = model.get_submodule("encoder.columns.0.recurrent.1")
    broken.register_forward_hook(lambda module, given, output: (output[0] * float("inf"), output[1]))
    assert first_offender(model, run) == "the output of encoder.columns.0.recurrent.1"


def test_a_gradient_that_is_no_number_is_named_from_the_loss_backwards() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))

    def run() -> None:
        model.zero_grad()
        (model(torch.ones(1, 2)) * 0).square().sqrt().sum().backward()  # the slope of a root is infinite at 0

    assert first_offender(model, run) == "the gradient of 1.bias"


def test_a_gradient_that_explodes_is_logged_with_its_batch(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    norms = iter([1.0] * 11 + [50.0])
    monkeypatch.setattr(loop, "clip", lambda model, limit: next(norms))
    trained(tmp_path, data, valid_every=20)
    found = [message for message in caplog.messages if "gradient norm" in message]
    assert len(found) == 1
    assert re.match(r"update 12 \(epoch 2, batch 4\): gradient norm 50, mean so far 1; corpus lines \d+, ", found[0])
    assert [record.get("gradient_norm_max") for record in metrics(tmp_path)][-2:] == [50.0, None]


def test_checkpoints_by_the_clock_replace_each_other_and_change_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "whole", data, valid_every=5, save_every=None)
    save, saved = checkpoint.save, []

    def killed(folder: ModelFolder, model: object, optimizer: object, progress: Progress) -> None:
        save(folder, model, optimizer, progress)  # type: ignore[arg-type]
        saved.append(folder.updates())
        if progress.update == 8:
            raise KeyboardInterrupt  # before older ones are deleted

    monkeypatch.setattr(checkpoint, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "often", data, valid_every=5, save_every=1e-9)
    assert saved == [[1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [5, 6, 7], [5, 7, 8]]
    monkeypatch.undo()
    trained(tmp_path / "often", data, valid_every=5, save_every=1e-9)
    assert metrics(tmp_path / "often") == metrics(tmp_path / "whole")
    assert ModelFolder(tmp_path / "often").updates() == ModelFolder(tmp_path / "whole").updates()
    whole = everything(tmp_path / "whole", 12)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in everything(tmp_path / "often", 12).items())


@pytest.mark.parametrize("name", ["init_seed", "order_seed", "dropout_seed"])
def test_each_seed_changes_its_own_random_numbers_and_no_others(name: str, data: Path, tmp_path: Path) -> None:
    corpus = Corpus.open(data, "train")

    def numbers(folder: Path, **seeds: int) -> tuple[object, ...]:
        run = small_run(small_experiment(max_updates=1, **seeds), corpus)
        trained(folder, data, max_updates=1, optimizer={"lr": 1e-30, "decay": 0.0}, **seeds)
        order = [rows.tolist() for rows in run.epoch(usable_pairs(corpus, None))]
        weights = checkpoint.load_weights(ModelFolder(folder).weights(1))
        return float(weights["output.weight"].sum()), order, dropout_seed(run.settings, 1)

    plain = numbers(tmp_path / "plain", seed=1)
    assert numbers(tmp_path / "same", seed=9, init_seed=1, order_seed=1, dropout_seed=1) == plain
    other = numbers(tmp_path / "other", seed=1, **{name: 9})
    changed = [ours != theirs for ours, theirs in zip(plain, other, strict=True)]
    assert changed == [name == "init_seed", name == "order_seed", name == "dropout_seed"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_sentences": None}, "batch_sentences, batch_tokens: give one of the two"),
        ({"batch_tokens": 100}, "batch_sentences, batch_tokens: give one of the two"),
        ({"batch_tokens": "auto"}, "batch_sentences, batch_tokens: give one of the two"),
        ({"batch_sentences": None, "batch_tokens": "atuo"}, "expected a whole number or auto; found str 'atuo'"),
        ({"batch_sentences": None, "batch_tokens": 0}, "batch_tokens: 0 is not at least 1"),
        ({"patience": 0}, "patience: 0 is not at least 1"),
        ({"min_lr": 1e-4}, "min_lr: 0.0001 is not above 0, or the schedule is no plateau"),
        ({"seed": 1 << 31}, r"seed: 2147483648 is not in \[0, 2147483648\)"),
        ({"dropout_seed": -1}, r"dropout_seed: -1 is not in"),
        ({"save_every": 0}, "save_every: 0.0 is not above 0; null: at validations only"),
        ({"label_smoothing": 1}, r"label_smoothing: 1.0 is not in \[0, 1\)"),
        ({"clip_norm": 0}, "clip_norm: 0.0 is not above 0; null: no clipping"),
        ({"clip_factor": 0}, r"clip_factor: 0.0 is not in \(0, 1\]"),
        ({"optimizer": {"lr": 1e300}}, r"lr: 1e\+300 is not above 0 and below 1e\+30"),
        ({"optimizer": {"decay": -1}}, "decay: -1.0 is not 0 or above"),
        ({"optimizer": {"momentum": 1}}, r"momentum: 1.0 is not in \[0, 1\)"),
        ({"groups": {"other": {"lr": -1}}}, "lr: -1.0 is not 0 or above"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small_experiment(**values)


@pytest.mark.parametrize(
    ("src", "tgt"), [(["", "", ""], ["ba", "be", "bi"]), (["ba", "be"], ["", ""]), (["", "ba"], ["ba", ""]), ([], [])]
)
def test_a_development_set_without_a_pair_of_words_is_refused_before_anything_is_made(
    src: list[str], tgt: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("raw.has_words", "encoding._has_words"):  # which version 0.1 did not look for
        monkeypatch.setattr(f"nmtkit.data.{place}", lambda *paths: True)
    folder = make_data(tmp_path, dev=(src, tgt))
    with pytest.raises(UserError, match=r"data/dev.src and dev.tgt: no pair .* has words on both sides.* prep a"):
        trained(tmp_path / "run", folder)
    assert not (tmp_path / "run").exists()


def test_speed_and_loss_are_means_since_the_last_validation() -> None:
    window = Window()
    for tokens, seconds in ((100, 1.0), (300, 1.0)):
        window.add(nll=tokens * 2.0, tokens=tokens, seconds=seconds, norm=1.0)
    assert (window.speed, window.loss) == (200, 2)


def test_every_default_of_training_is_valid() -> None:
    assert Training(small_experiment().training.optimizer, batch_tokens=1000).loss == "tokens"
