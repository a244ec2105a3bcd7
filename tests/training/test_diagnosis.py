"""An exploding or NaN gradient is reported with its batch and its origin."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.experiment.run import prepare_folder
from nmtkit.training import loop
from nmtkit.training.diagnosis import first_offender
from tests.training.conftest import metrics, small_experiment, small_run, trained, validations


def test_a_nan_loss_stops_the_run_and_its_origin_is_named(data: Path, tmp_path: Path) -> None:
    planned = small_experiment()
    run = small_run(planned, Corpus.open(data, "train"), tmp_path)
    prepare_folder(run.folder, planned, data, None)
    with torch.no_grad():
        run.model.output.bias[5] = float("nan")
    place = r"update 1 \(epoch 1, batch 1\): loss nan, gradient norm nan, first in the weights output.bias; "
    with pytest.raises(UserError, match=place + r"corpus lines \d+, .* of 8 in the batch; start again"):
        loop.train(run, validations([]))
    assert run.folder.updates() == []
    for update in (1, 2):
        run.folder.checkpoint(update).mkdir(parents=True)
    remedy = f"or delete {run.folder.checkpoint(2)} and continue from step-1"
    with pytest.raises(UserError, match=remedy):
        loop.train(run, validations([]))


def test_the_origin_of_a_nan_that_depends_on_dropout_is_found(data: Path, tmp_path: Path) -> None:
    run, first = small_run(small_experiment(), Corpus.open(data, "train"), tmp_path), list[Tensor]()

    def broken(module: nn.Module, given: object, output: Tensor) -> Tensor:
        first.append(output.detach())
        return output * float("nan") if torch.equal(output, first[0]) else output

    run.model.get_submodule("encoder.columns.0.recurrent.1").register_forward_hook(broken)
    with pytest.raises(UserError, match=r"first in the output of encoder\.columns\.0\.recurrent\.1; "):
        loop.train(run, validations([]))
    assert len(first) == 2


def test_weights_that_diverged_in_the_last_update_before_a_validation_get_a_remedy(data: Path, tmp_path: Path) -> None:
    """The gradient of that update was finite, and its checkpoint is written: every later start begins with it."""
    trained(tmp_path, data, max_updates=1)
    remedy = rf"update 2: .*cross-entropy is nan; .* or delete {tmp_path}/checkpoints/step-2 and continue from step-1"
    for lr in (1e30, 0.01):
        with pytest.raises(UserError, match=remedy):
            trained(tmp_path, data, max_updates=2, optimizer={"lr": lr * 0.99}, groups={})


def test_the_lines_of_a_bad_batch_are_those_of_the_text_in_concatenations_too(data: Path, tmp_path: Path) -> None:
    corpus, planned = Corpus.open(data, "train"), small_experiment(concatenations=1.0)
    run = small_run(planned, corpus, tmp_path).with_concatenations()
    with torch.no_grad():
        run.model.output.bias[5] = float("nan")
    with pytest.raises(UserError, match=r"corpus lines \d.* of 8 in the batch") as error:
        loop.train(run, validations([]))
    named = re.findall(r"\d+", str(error.value).partition("corpus lines ")[2].partition(" of 8")[0])
    assert len(named) > 4  # at least one concatenation
    assert all(1 <= int(line) <= len(corpus) for line in named)


def test_the_first_module_with_nan_output_is_named() -> None:
    torch.manual_seed(1)
    planned = small_experiment()
    model = planned.build(14, 14)
    src = torch.tensor([[5, 6, 2]])

    def run() -> None:
        model.zero_grad()
        (model(src, src != 0, src) * model.output.weight[:1].sum()).sum().backward()

    assert first_offender(model, run) == "the loss"
    broken = model.get_submodule("encoder.columns.0.recurrent.1")
    broken.register_forward_hook(lambda module, given, output: output * float("inf"))
    assert first_offender(model, run) == "the output of encoder.columns.0.recurrent.1"


def test_the_first_nan_gradient_from_the_loss_backwards_is_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))

    def run() -> None:
        model.zero_grad()
        (model(torch.ones(1, 2)) * 0).square().sqrt().sum().backward()  # the slope of a root is infinite at 0

    assert first_offender(model, run) == "the gradient of 1.bias"


def test_an_exploding_gradient_is_logged_with_its_batch(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    norms = iter([1.0] * 11 + [50.0])
    monkeypatch.setattr(loop, "clip", lambda model, limit: torch.tensor(next(norms)))
    trained(tmp_path, data, valid_every=20)
    found = [message for message in caplog.messages if "gradient norm" in message]
    assert len(found) == 1
    assert re.match(
        r"update 12 \(epoch 2, batch 4\): gradient norm 50, mean so far 1; corpus lines (\d+, ){3}\d+ of ", found[0]
    )
    assert [record.get("gradient_norm_max") for record in metrics(tmp_path)][-2:] == [50.0, None]
