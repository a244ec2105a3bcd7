"""The contract of every architecture with training and search, for every kind of preset at toy size.

New presets are found. Where a law is of a preset's own values, it is tried for every one.
"""

import math
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.experiment.presets import preset_names
from nmtkit.experiment.schema import Experiment
from nmtkit.models.base import Decoder, Seq2Seq, count_parameters, is_dropout
from nmtkit.ops import linear
from nmtkit.ops.tree import Tree, select
from nmtkit.search.beam import Search, beam_search
from nmtkit.search.ensemble import Ensemble
from nmtkit.symbols import BOS, EOS, PAD
from nmtkit.training import checkpoint
from nmtkit.training.optimizers import build_optimizer, initialise
from tests.laws import assert_same, gradients, tensors_of
from tests.toys import (
    LENGTHS,
    SRC_WORDS,
    TGT_WORDS,
    full_size,
    one_of_each,
    one_of_each_architecture,
    preset_experiment,
    repeat,
    simplest,
    sources,
    targets,
    toy,
    toy_model,
)

MANY = linear.FEW + len(
    LENGTHS
)  # sentences, so many that products of all their words are not done as those of a loop's step
# Nematus adds a learnt scalar to every attention score. The softmax cancels it, so its gradient is zero by nature.
CANCELLED = ".score_shift"


every_preset = pytest.mark.parametrize("preset", preset_names())
DIFFERENT_PARTS = one_of_each(switches=False)


# A preset of every kind; those that differ from another in switches alone are for ``make slow``.
KINDS = [pytest.param(preset, marks=() if preset in DIFFERENT_PARTS else pytest.mark.slow) for preset in one_of_each()]
every_kind = pytest.mark.parametrize("preset", KINDS)


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    """A model of each kind, which the tests that share it do not change."""
    return toy_model(request.param)


def after_two_words(model: Seq2Seq, beams: int = 1) -> tuple[Tree, Tree, Tensor]:
    """Memory, the state of ``beams`` different hypotheses per sentence, and their last words."""
    memory, state = model.begin(*sources())
    state = repeat(state, beams)
    rows = len(LENGTHS) * beams
    words = torch.randint(4, TGT_WORDS, (2, rows), generator=torch.Generator().manual_seed(2))
    _, state, _ = model.step(memory, state, torch.full((rows,), BOS))
    _, state, _ = model.step(memory, state, words[0])
    return memory, state, words[1]


def seen(model: Seq2Seq, memory: Tree, state: Tree, y: Tensor) -> list[Tensor | None]:
    """The results of a step and of the next one, which depends on the state of the first."""
    log_probs, state, attention = model.step(memory, state, y)
    return [log_probs, attention, model.step(memory, state, y.flip(0))[0]]


def test_unroll_is_repeated_step(model: Seq2Seq) -> None:
    results = []
    for unroll in (model.decoder.unroll, partial(Decoder.unroll, model.decoder)):
        hidden = unroll(*model.begin(*sources()), model.embedding["tgt"](targets()))
        results.append((hidden, gradients(hidden, [*model.parameters()])))
    assert_same(*results)


def test_teacher_forcing_gives_the_probabilities_of_search(model: Seq2Seq) -> None:
    tgt = targets()
    forced = model.output(model(*sources(), tgt)).log_softmax(dim=-1)
    memory, state = model.begin(*sources())
    y = torch.full((len(LENGTHS),), BOS)
    for t in range(tgt.shape[1]):
        log_probs, state, _ = model.step(memory, state, y)
        assert_same(log_probs, forced[:, t])
        y = tgt[:, t]


def test_padding_the_source_changes_nothing(model: Seq2Seq) -> None:
    (src, mask), tgt = sources(), targets()
    hidden = model(src, mask, tgt)
    assert_same(model(functional.pad(src, (0, 3), value=PAD), functional.pad(mask, (0, 3)), tgt), hidden)
    assert_same(model(src.masked_fill(~mask, 7), mask, tgt), hidden)


def test_a_sentence_alone_is_a_sentence_in_a_batch(model: Seq2Seq) -> None:
    (src, mask), tgt = sources(), targets()
    together = model(src, mask, tgt)
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        assert_same(model(src[one, :length], mask[one, :length], tgt[one]), together[one])


def test_reordering_the_batch_reorders_the_results(model: Seq2Seq) -> None:
    (src, mask), tgt = sources(), targets()
    order = torch.tensor([2, 0, 3, 1])
    assert_same(model(src[order], mask[order], tgt[order]), model(src, mask, tgt)[order])


def test_a_target_word_changes_later_steps_only(model: Seq2Seq) -> None:
    tgt = targets()
    before = model(*sources(), tgt)
    for position in (0, 3):
        changed = tgt.clone()
        changed[:, position] = (tgt[:, position] - 4 + 1) % (TGT_WORDS - 4) + 4
        after = model(*sources(), changed)
        assert torch.equal(before[:, : position + 1], after[:, : position + 1])
        later = (before != after)[:, position + 1 :].any(dim=-1)  # (B, T): small differences may round away for a while
        assert later.any(dim=0).all()
        assert later.any(dim=1).all()


def test_every_source_word_matters(model: Seq2Seq) -> None:
    (src, mask), tgt = sources(), targets()
    # The longest sentence, as it is and then with each of its words changed.
    sentences = src[:1].repeat(1 + LENGTHS[0], 1)
    for position in range(LENGTHS[0]):
        sentences[1 + position, position] = 4 if src[0, position] != 4 else 5
    rows = torch.zeros(len(sentences), dtype=torch.long)
    hidden, *others = model(sentences, mask[rows], tgt[rows])
    assert all((other != hidden).any() for other in others)


def test_select_then_step_is_step_then_select(model: Seq2Seq) -> None:
    beams = 3
    memory, state, y = after_two_words(model, beams)
    sentences = torch.tensor([3, 0])
    rows = torch.tensor([11, 9, 9, 0, 2, 1])  # hypotheses are reordered, and one is selected twice
    log_probs, after, attention = model.step(memory, state, y)
    ours = seen(model, select(memory, sentences), select(state, rows), y[rows])
    next_ones, _, _ = model.step(select(memory, sentences), select(after, rows), y[rows].flip(0))
    assert_same(ours, [*select((log_probs, attention), rows), next_ones])


def test_several_hypotheses_of_a_sentence_are_as_many_sentences(model: Seq2Seq) -> None:
    beams = 3
    memory, state, y = after_two_words(model, beams)
    assert_same(seen(model, memory, state, y), seen(model, repeat(memory, beams), state, y))


def test_a_step_does_not_change_its_arguments(model: Seq2Seq) -> None:
    memory, state, y = after_two_words(model, beams=2)
    before = [leaf.clone() for leaf in tensors_of((memory, state, y))]
    first = model.step(memory, state, y)
    torch.testing.assert_close(tensors_of((memory, state, y)), before, rtol=0, atol=0)
    torch.testing.assert_close(tensors_of(model.step(memory, state, y)), tensors_of(first), rtol=0, atol=0)


def test_two_continuations_of_a_state_are_independent(model: Seq2Seq) -> None:
    memory, state, y = after_two_words(model, beams=2)
    alone = seen(model, memory, state, y)
    _, one, _ = model.step(memory, state, y)
    model.step(memory, state, y.roll(1))
    assert_same(model.step(memory, one, y.flip(0))[0], alone[2])


def test_every_tensor_of_memory_and_state_is_batch_first(model: Seq2Seq) -> None:
    memory, state, _ = after_two_words(model, beams=3)
    assert {len(leaf) for leaf in tensors_of(memory)} == {len(LENGTHS)}
    assert {len(leaf) for leaf in tensors_of(state)} == {3 * len(LENGTHS)}


def test_a_step_gives_probabilities_and_does_not_attend_to_padding(model: Seq2Seq) -> None:
    (_, mask) = sources()
    log_probs, _, attention = model.step(*after_two_words(model))
    assert log_probs.dtype == torch.float32
    assert_same(log_probs.exp().sum(dim=1), torch.ones(len(LENGTHS)))
    if attention is not None:
        assert attention.shape == mask.shape
        assert_same(attention.sum(dim=1), torch.ones(len(LENGTHS)))
        assert not attention[~mask].any()


@every_kind
def test_every_parameter_receives_a_gradient(preset: str) -> None:
    model = toy_model(preset).train()
    model(*sources(), targets()).square().sum().backward()
    model.output(torch.ones(1, model.output.weight.shape[1])).logsumexp(dim=-1).sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert [name for name in without if not name.endswith(CANCELLED)] == []
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# The state of a Transformer is a cache of keys and values.
@pytest.mark.parametrize("preset", [preset for preset in one_of_each() if "transformer" not in preset])
def test_the_first_state_is_float32_in_mixed_precision(preset: str) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, state = toy_model(preset).begin(*sources())
    assert {each.dtype for each in tensors_of(state) if each.is_floating_point()} <= {torch.float32}


def gradients_in(model: Seq2Seq, sentences: int, *, low: bool) -> tuple[Tensor, ...]:
    """The gradient of each parameter for this many sentences, in bfloat16 or float32."""
    src, mask, tgt = (x.repeat(sentences // len(LENGTHS), 1) for x in (*sources(), targets()))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        hidden = model(src, mask, tgt)
    return gradients(hidden, [*model.parameters()])


@pytest.mark.parametrize(
    ("preset", "sentences"),
    [
        *(pytest.param(preset, len(LENGTHS), marks=pytest.mark.slow) for preset in one_of_each()),
        *((preset, MANY) for preset in one_of_each_architecture()),
    ],
)
def test_bfloat16_points_the_gradient_the_same_way(preset: str, sentences: int) -> None:
    model = toy_model(preset)
    whole = [torch.cat([part.flatten() for part in gradients_in(model, sentences, low=low)]) for low in (False, True)]
    assert functional.cosine_similarity(*whole, dim=0) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_at_the_width_of_a_small_version_bfloat16_is_as_close_to_float32_as_pytorchs(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = preset_experiment(f"{preset}-small")
    torch.manual_seed(0)
    model = experiment.build(SRC_WORDS, TGT_WORDS).eval()
    initialise(model, experiment.training.groups)
    sentences = len(LENGTHS) * (1 + linear.FEW // sum(LENGTHS))  # whose words are enough, in less time
    exact, ours = (gradients_in(model, sentences, low=low) for low in (False, True))
    monkeypatch.setattr(linear, "FEW", 10**9)  # for any number of rows
    theirs = gradients_in(model, sentences, low=True)
    least = 0.01 * max(float(part.norm()) for part in exact)
    for mine, other, wanted in zip(ours, theirs, exact, strict=True):
        size = max(float(wanted.norm()), least)
        assert float((mine - wanted).norm()) <= 2 * float((other - wanted).norm()) + 0.05 * size


def with_value(experiment: Experiment, name: str, value: float) -> Experiment | None:
    """The experiment with another value of one of the model's settings; None if it is refused by name."""
    try:
        return replace(experiment, model=replace(experiment.model, **{name: value}))
    except ValueError as error:
        if name not in str(error):
            raise
        return None


@pytest.mark.parametrize("size", [-1, 0, 1, 5, 7])
@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_every_size_is_refused_by_name_or_works_in_training_and_search(preset: str, size: int) -> None:
    experiment = toy(preset_experiment(preset))
    sizes = [field.name for field in fields(experiment.model) if type(getattr(experiment.model, field.name)) is int]
    for other in filter(None, (with_value(experiment, name, size) for name in sizes)):
        model = other.build(SRC_WORDS, TGT_WORDS)
        assert all(part.isfinite().all() for part in gradients(model(*sources(), targets()), [*model.parameters()]))
        found = beam_search(model.eval(), *sources(), Search(beam_size=2, max_len_a=0, max_len_b=3))
        assert len(found) == len(LENGTHS)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_an_impossible_rate_of_dropout_is_refused_by_name(preset: str, rate: float) -> None:
    experiment = toy(preset_experiment(preset))
    names = [field.name for field in fields(experiment.model) if is_dropout(field.name)]
    assert names == [name for name in vars(experiment.model) if "dropout" in name]
    assert [name for name in names if with_value(experiment, name, rate)] == []


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_saved_and_loaded_weights_give_the_same_numbers(preset: str, tmp_path: Path) -> None:
    model = toy_model(preset)
    checkpoint.save_weights(tmp_path / "model.safetensors", model.state_dict())
    other = toy(preset_experiment(preset)).build(SRC_WORDS, TGT_WORDS).eval()
    checkpoint.load_into(other, tmp_path / "model.safetensors")
    assert torch.equal(other(*sources(), targets()), model(*sources(), targets()))


def test_weights_are_named_after_the_parts_and_nothing_but_parameters_is_saved(model: Seq2Seq) -> None:
    assert list(model.state_dict()) == [name for name, _ in model.named_parameters()]
    assert {name.split(".")[0] for name in model.state_dict()} == {"embedding", "encoder", "decoder", "output"}


@every_preset
def test_the_groups_of_a_preset_name_parts_of_its_model(preset: str) -> None:
    experiment = toy(preset_experiment(preset))
    model = experiment.build(SRC_WORDS, TGT_WORDS)
    initialise(model, experiment.training.groups)
    optimizer = build_optimizer(model, experiment.training.optimizer, experiment.training.groups)
    ours = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(map(id, ours)) == sorted(map(id, model.parameters()))


@pytest.mark.slow
@every_preset
def test_a_preset_builds_at_full_size(preset: str) -> None:
    millions = count_parameters(full_size(preset)) / 1e6
    assert millions > 1


def copies(random: torch.Generator, sentences: int = 64) -> tuple[Tensor, Tensor]:
    """Source (B, S) and mask; the target is the same ids."""
    src = torch.randint(4, SRC_WORDS, (sentences, 4), generator=random)
    ends = torch.randint(1, 4, (sentences, 1), generator=random)
    place = torch.arange(4)
    src = src.masked_fill(place == ends, EOS).masked_fill(place > ends, PAD)
    return src, src != PAD


@pytest.mark.slow
@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_copying_is_learned(preset: str) -> None:
    torch.manual_seed(0)
    model = simplest(preset_experiment(preset)).build(SRC_WORDS, SRC_WORDS).eval()  # eval: without dropout
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    random = torch.Generator().manual_seed(0)
    right = 0.0
    for _ in range(1000):
        src, mask = copies(random)
        logits = model.output(model(src, mask, src))
        right = (logits.argmax(dim=-1) == src)[mask].float().mean().item()
        if right > 0.99:
            break
        optimizer.zero_grad()
        functional.cross_entropy(logits[mask], src[mask]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert right > 0.99


FIRST, *OTHERS = one_of_each_architecture()
PAIRS = list(pairwise([FIRST, *OTHERS, FIRST]))  # a ring, in which each has two neighbours


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_architectures_make_an_ensemble(first: str, second: str) -> None:
    """Searched together, their hypotheses have the scores that the mean of their probabilities gives."""
    members, (src, mask) = [toy_model(first), toy_model(second)], sources()
    ensemble = Ensemble(members, [0, 0], [1.0, 1.0], "prob")
    config = Search(beam_size=3, length_penalty="none", max_len_a=0, max_len_b=4)
    found = beam_search(ensemble, src, mask, config, n_best=3)
    for i, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            ids = torch.tensor([[*hypothesis.ids, EOS]])
            one, length = src[i : i + 1, : LENGTHS[i]], ids.shape[1]
            log_probs = torch.stack([m.output(m(one, one != PAD, ids)).float().log_softmax(-1)[0] for m in members])
            mean = log_probs.logsumexp(0) - math.log(2)
            torch.testing.assert_close(
                torch.tensor(hypothesis.log_probs), mean[torch.arange(length), ids[0]], rtol=1e-4, atol=1e-4
            )
