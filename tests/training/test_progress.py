"""Decisions by validation: the best checkpoints, reductions of the learning rate, and early stopping."""

from pathlib import Path

import pytest

from nmtkit.data.corpus import Corpus
from nmtkit.experiment.run import prepare_folder
from nmtkit.folders import ModelFolder
from nmtkit.training import loop
from nmtkit.training.gradient import clip
from nmtkit.training.loss import Gradient
from nmtkit.training.progress import Progress
from nmtkit.training.validation import Validation
from tests.training.conftest import metrics, small_experiment, small_run, trained, validations


def run_with_scores(tmp_path: Path, data: Path, scores: list[float], **training: object) -> Progress:
    return run_with(tmp_path, data, [(1.0, bleu) for bleu in scores], **training)


def run_with(tmp_path: Path, data: Path, measured: list[tuple[float, float]], **training: object) -> Progress:
    """A run with these pairs of cross-entropy and BLEU in its validations, one after every update."""
    planned = small_experiment(valid_every=1, max_updates=len(measured), **training)
    run = small_run(planned, Corpus.open(data, "train"), tmp_path)
    prepare_folder(run.folder, planned, data, None)
    loop.train(run, validations(measured))
    return run.progress


def test_below_one_bleu_cross_entropy_ranks_checkpoints(data: Path, tmp_path: Path) -> None:
    measured = [(6.2, 0.9), (5.6, 0.1), (5.5, 0.4), (5.8, 1.2), (5.4, 1.1)]
    assert [update for update, *_ in run_with(tmp_path, data, measured, keep_best=5).best] == [4, 5, 3, 2, 1]


def test_the_best_value_shown_is_that_of_the_metric_that_ranks_it() -> None:
    settings = small_experiment().training
    shown = [Progress(best=[[1, bleu, 5.5]]).best_shown(settings) for bleu in (0.4, 20.31)]
    assert shown == ["best cross-entropy 5.50", "best BLEU 20.31"]


def test_patience_counts_validations_without_a_better_score(data: Path, tmp_path: Path) -> None:
    progress = run_with_scores(tmp_path, data, [1, 3, 2, 3, 9], patience=2)
    assert progress.update == 4  # 2 and 3 are no better than 3
    assert progress.finished == "no BLEU improvement in 2 validations"


def test_equal_bleu_is_ranked_by_cross_entropy(data: Path, tmp_path: Path) -> None:
    progress = run_with(tmp_path, data, [(3.0, 0.0), (2.5, 0.0), (2.8, 0.0)], schedule={"kind": "plateau"})
    assert ModelFolder(tmp_path).best_updates()[0] == 2
    assert (progress.stalled, progress.decays) == (1, 1)


def test_chrf2_ranks_checkpoints_where_bleu_is_zero() -> None:
    settings = small_experiment(best_metric="chrf2", stop_metric="chrf2", patience=2, keep_best=3).training
    progress = Progress()
    for update, (cross_entropy, chrf2) in enumerate([(3.0, 20.0), (2.5, 25.0), (2.0, 22.0), (1.9, 25.0)], 1):
        progress.update = update
        progress.judge(Validation(cross_entropy, 0.5, 0.0, chrf2, 0.5), settings, regular=True)
    assert [update for update, *_ in progress.best] == [4, 2, 3]  # the lower cross-entropy decides a tie
    assert (progress.stalled, progress.best_shown(settings)) == (0, "best chrF2 25.00")


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


def test_the_best_and_the_last_checkpoints_are_kept(data: Path, tmp_path: Path) -> None:
    run_with_scores(tmp_path, data, [5, 9, 7, 1, 2, 3], keep_best=2, keep_last=1)
    assert ModelFolder(tmp_path).updates() == [2, 3, 6]
    assert ModelFolder(tmp_path).best_updates() == [2, 3]
    assert ModelFolder(tmp_path).chosen_weights() == ModelFolder(tmp_path).weights(2)


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


def test_a_plateau_schedule_chosen_later_begins_with_the_full_rate() -> None:
    progress, rates = Progress(), []
    for progress.update, kind in enumerate(["constant"] * 3 + ["plateau"] * 2, 1):
        settings = small_experiment(schedule={"kind": kind, "factor": 0.5}).training
        progress.judge(Validation(1.0, 0.5, 5.0, 10.0, 0.5), settings, regular=True)
        rates.append(settings.schedule.multiplier(progress.update, progress.decays))
    assert rates == [1, 1, 1, 0.5, 0.25]


def test_a_falling_plateau_reduces_the_rate_at_every_validation_after_the_first_rise(
    data: Path, tmp_path: Path
) -> None:
    run_with_scores(tmp_path, data, [4, 5, 3, 6, 7], schedule={"kind": "plateau", "factor": 0.1, "falling": True})
    rates = [record["lr_factor"] for record in metrics(tmp_path) if record["kind"] == "train"]
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.01])


def test_the_run_ends_below_the_minimum_learning_rate(data: Path, tmp_path: Path) -> None:
    plateau = {"kind": "plateau", "factor": 0.1, "warmup": 3}  # a rate that has yet to rise ends nothing
    progress = run_with_scores(tmp_path, data, [5, 6, 4, 3, 2, 1], schedule=plateau, min_lr=5e-4)
    assert progress.update == 4  # from 0.01 to 1e-4
    assert progress.finished == "a learning rate below 0.0005"


def test_a_rate_that_begins_below_the_minimum_ends_the_run_when_it_is_reduced(data: Path, tmp_path: Path) -> None:
    progress = run_with_scores(tmp_path, data, [5, 6, 4, 3], schedule={"kind": "plateau"}, min_lr=0.02)
    assert (progress.update, progress.finished) == (3, "a learning rate below 0.02")


def update(nll: float = 1.0, tokens: int = 1, halvings: int = 0, norm: float = 1.0) -> Gradient:
    return Gradient(1.0, nll, tokens, halvings, norm)


def test_speed_and_loss_are_means_since_the_last_validation() -> None:
    progress = Progress()
    for tokens, seconds in ((100, 1.0), (300, 1.0)):
        progress.add(update(nll=tokens * 2.0, tokens=tokens, norm=300 / tokens), seconds)
    window = progress.window
    assert (window.speed, window.loss) == (200, 2)
    assert (window.mean_norm, window.norm_max) == (2, 3)


def test_the_extra_validation_at_the_end_of_a_run_ranks_its_checkpoint_and_decides_nothing_else() -> None:
    settings = small_experiment(keep_best=3, patience=2, schedule={"kind": "plateau"}).training
    progress = Progress()

    def judge(update: int, bleu: float, *, regular: bool) -> tuple[object, ...]:
        progress.update = update
        progress.judge(Validation(1.0, 0.5, bleu, 2 * bleu, 0.5), settings, regular=regular)
        return progress.stalled, progress.decays, list(progress.peak)

    before = judge(2, 5.0, regular=True)
    assert judge(3, 4.0, regular=False) == judge(5, 9.0, regular=False) == before
    assert [update for update, *_ in progress.best] == [5, 2, 3]
    assert judge(6, 8.0, regular=True)[:2] == (0, 0)  # better than the last regular one


def test_the_figures_of_training_are_those_since_the_last_validation(data: Path, tmp_path: Path) -> None:
    for every in (1, 2):
        trained(tmp_path / str(every), data, valid_every=every, max_updates=4)
    each, pairs = (
        [record["gradient_norm"] for record in metrics(tmp_path / str(every)) if record["kind"] == "train"]
        for every in (1, 2)
    )
    assert pairs == pytest.approx([sum(each[:2]) / 2, sum(each[2:]) / 2])


def test_a_gradient_explodes_if_it_is_twenty_times_the_mean_of_ten_others() -> None:
    progress = Progress()
    for _ in range(9):
        progress.add(update(norm=2.0), seconds=1.0)
    assert not progress.window.exploded(1000.0)
    progress.add(update(norm=2.0), seconds=1.0)
    assert progress.window.exploded(40.1)
    assert not progress.window.exploded(39.9)


def test_the_words_and_the_halvings_of_a_run_are_summed() -> None:
    progress = Progress()
    for halvings in (0, 2):
        progress.add(update(nll=5.0, tokens=10, halvings=halvings), seconds=1.0)
    assert (progress.tokens, progress.halvings) == (20, 2)
    assert (progress.window.tokens, progress.window.nll) == (20, 10.0)
