"""Parameter groups, initial values, optimizers and rates."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from nmtkit.config import build
from nmtkit.errors import UserError
from nmtkit.training.optimizers import Group, Optimizer, build_optimizer, initialise, set_rates


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(40, 50, bias=False)
        self.recurrent = nn.Linear(30, 120)
        self.output = nn.Linear(30, 30)
        self.double()


def rates_of(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    return {group["name"]: group["lr"] for group in optimizer.param_groups}


def step(model: Model, config: Optimizer, groups: dict[str, Group], gradient: float) -> torch.optim.Optimizer:
    optimizer = build_optimizer(model, config, groups)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    optimizer.step()
    return optimizer


def test_every_parameter_is_in_the_group_of_its_innermost_name() -> None:
    model = Model()
    optimizer = build_optimizer(model, Optimizer("sgd", 0.1), {"recurrent": Group(), "bias": Group()})
    found = {group["name"]: group["params"] for group in optimizer.param_groups}
    expected = {
        "recurrent": [model.recurrent.weight],
        "bias": [model.recurrent.bias, model.output.bias],
        "other": [model.embedding.weight, model.output.weight],
    }
    assert {name: list(map(id, found[name])) for name in found} == {
        name: list(map(id, expected[name])) for name in expected
    }


def test_a_group_has_its_own_rate_and_decay_or_those_of_the_run() -> None:
    groups = {"recurrent": Group(lr=0.5), "embedding": Group(decay=0.0)}
    optimizer = build_optimizer(Model(), Optimizer("adamw", 0.1, decay=2.0), groups)
    assert rates_of(optimizer) == {"recurrent": 0.5, "embedding": 0.1, "other": 0.1}
    assert {g["name"]: g["weight_decay"] for g in optimizer.param_groups} == {
        "recurrent": 2.0, "embedding": 0.0, "other": 2.0,
    }  # fmt: skip


def test_each_group_moves_at_its_own_rate() -> None:
    model = Model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    step(model, Optimizer("sgd", 0.1), {"recurrent": Group(lr=0.5)}, gradient=1.0)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(before[name] - parameter, torch.full_like(parameter, 0.5 if "rec" in name else 0.1))


def test_a_rate_of_0_freezes_a_group() -> None:
    model = Model()
    before = model.recurrent.weight.detach().clone()
    step(model, Optimizer("adamw", 0.1, decay=1.0), {"recurrent": Group(lr=0.0)}, gradient=1.0)
    assert torch.equal(model.recurrent.weight, before)


def test_the_schedule_multiplies_every_groups_own_rate() -> None:
    optimizer = build_optimizer(Model(), Optimizer("adam", 0.1), {"recurrent": Group(lr=0.5)})
    for _ in range(2):  # not the rate of the step before
        set_rates(optimizer, 0.25)
        assert rates_of(optimizer) == {"recurrent": 0.125, "other": 0.025}


@pytest.mark.parametrize(("lr", "decay"), [(5e-4, 2.0), (4e-5, 2.0), (0.1, 0.5)])
def test_adamw_with_a_zero_gradient_multiplies_by_exactly_1_minus_l_r(lr: float, decay: float) -> None:
    model = Model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step(model, Optimizer("adamw", lr, decay=decay), {}, gradient=0.0)
    assert all(torch.equal(p, old * (1 - lr * decay)) for p, old in zip(model.parameters(), before, strict=True))


def test_adamw_decays_separately_and_adam_through_the_gradient() -> None:
    for name, expected in [("adamw", 0.9 - 0.1), ("adam", 1 - 0.1)]:
        model = Model()
        for parameter in model.parameters():
            nn.init.ones_(parameter)
        step(model, Optimizer(name, 0.1, decay=1.0), {}, gradient=3.0)  # type: ignore[arg-type]
        for parameter in model.parameters():  # the first step of Adam is the sign of its gradient
            torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, expected), rtol=0, atol=1e-8)


def test_sgd_with_momentum_adds_the_previous_step() -> None:
    model, config = Model(), Optimizer("sgd", 0.1, momentum=0.9)
    start = model.output.bias.detach().clone()
    optimizer = step(model, config, {}, gradient=1.0)
    optimizer.step()
    torch.testing.assert_close(start - model.output.bias, torch.full_like(start, 0.1 * (1 + 1.9)))


def test_nag_is_its_closed_form_on_a_quadratic() -> None:
    """p <- p + mu^2 b - (1 + mu) lr g, then b <- mu b - lr g, as fairseq has it: b is scaled when the rate changes."""
    model, lr, mu = Model(), 0.01, 0.99
    optimizer = build_optimizer(model, Optimizer("nag", lr, momentum=mu), {})
    p, b = model.output.bias.detach().clone(), torch.zeros(30).double()
    for update in range(50):
        rate = 1.0 if update < 20 else 0.1
        set_rates(optimizer, rate)
        if update == 20:
            b *= 0.1
        model.zero_grad()
        (model.output.bias - 3).square().sum().backward()
        optimizer.step()
        g = 2 * (p - 3)
        p, b = p + mu**2 * b - (1 + mu) * lr * rate * g, mu * b - lr * rate * g
        torch.testing.assert_close(model.output.bias.detach(), p)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_the_first_steps_of_adam_are_the_papers(name: Any) -> None:
    (slow, slower), eps = (0.7, 0.6), 0.2
    model = Model()
    optimizer = build_optimizer(model, Optimizer(name, 1.0, betas=(slow, slower), eps=eps), {})
    bias = model.output.bias
    expected, mean, square = bias.detach().clone(), 0.0, 0.0
    for t, gradient in enumerate((0.3, -1.0, 0.1), 1):
        bias.grad = torch.full_like(bias, gradient)
        optimizer.step()
        mean, square = slow * mean + (1 - slow) * gradient, slower * square + (1 - slower) * gradient**2
        expected -= mean / (1 - slow**t) / (math.sqrt(square / (1 - slower**t)) + eps)
        torch.testing.assert_close(bias.detach(), expected)


@pytest.mark.parametrize(("rho", "eps"), [(0.95, 1e-6), (0.8, 1e-3)])
def test_the_first_step_of_adadelta_is_the_papers(rho: float, eps: float) -> None:
    model, config = Model(), Optimizer("adadelta", 1.0, rho=rho, eps=eps)
    start = model.output.bias.detach().clone()
    step(model, config, {}, gradient=0.3)
    expected = math.sqrt(eps) / math.sqrt((1 - rho) * 0.3**2 + eps) * 0.3
    torch.testing.assert_close(start - model.output.bias, torch.full_like(start, expected))


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("adam", lambda groups: torch.optim.Adam(groups, fused=True)),
        ("adamw", lambda groups: torch.optim.AdamW(groups, fused=True)),
        ("sgd", lambda groups: torch.optim.SGD(groups, lr=1, momentum=0.9, fused=True)),
        ("nag", lambda groups: torch.optim.SGD(groups, lr=1, momentum=0.9, nesterov=True, fused=True)),
        ("adadelta", lambda groups: torch.optim.Adadelta(groups, eps=1e-8)),
    ],
)
def test_a_resumed_optimizer_is_exactly_pytorchs(name: Any, theirs: Callable[..., torch.optim.Optimizer]) -> None:
    config, groups = Optimizer(name, 0.01, momentum=0.9, decay=0.1), {"recurrent": Group(lr=0.02)}
    ours, other = Model(), Model()
    other.load_state_dict(ours.state_dict())
    optimizer = build_optimizer(ours, config, groups)
    copies = dict(zip(ours.parameters(), other.parameters(), strict=True))
    same = theirs([{**group, "params": [copies[p] for p in group["params"]]} for group in optimizer.param_groups])
    for update in range(4):
        for one, two in copies.items():
            one.grad = torch.randn_like(one)
            two.grad = one.grad.clone()
        optimizer.step()
        same.step()
        assert all(torch.equal(one, two) for one, two in copies.items()), update
        state = optimizer.state_dict()
        optimizer = build_optimizer(ours, config, groups)
        optimizer.load_state_dict(state)
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        assert all(parameter.grad is None for parameter in ours.parameters())


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adadelta"])
def test_every_optimizer_goes_downhill(name: Any) -> None:
    model = Model()
    before = model.output.weight.detach().clone()
    step(model, Optimizer(name, 0.01), {}, gradient=2.0)
    assert (model.output.weight < before).all()


def initialised(init: str) -> Model:
    torch.manual_seed(0)
    model = Model()
    initialise(model, {"recurrent": Group(init=init)})
    return model


def test_initialisation_changes_only_its_group() -> None:
    torch.manual_seed(0)
    untouched, model = Model(), initialised("zeros")
    assert not model.recurrent.weight.any()
    assert not model.recurrent.bias.any()
    assert torch.equal(model.output.weight, untouched.output.weight)
    assert torch.equal(model.embedding.weight, untouched.embedding.weight)


def test_default_keeps_the_initialisation_of_the_layer() -> None:
    torch.manual_seed(0)
    untouched, model = Model(), initialised("default")
    assert torch.equal(model.recurrent.weight, untouched.recurrent.weight)


def test_normal_has_the_given_deviation() -> None:
    weight = initialised("normal 0.07").recurrent.weight
    assert weight.std().item() == pytest.approx(0.07, rel=0.05)
    assert abs(weight.mean().item()) < 0.005


def test_uniform_covers_its_interval() -> None:
    weight = initialised("uniform 0.08").recurrent.weight
    assert weight.abs().max().item() == pytest.approx(0.08, rel=0.01)
    assert weight.std().item() == pytest.approx(0.08 / math.sqrt(3), rel=0.05)


def test_orthogonal_makes_one_orthogonal_matrix_per_gate() -> None:
    weight = initialised("orthogonal").recurrent.weight  # (4 x 30, 30)
    for block in weight.split(30):
        torch.testing.assert_close(block @ block.t(), torch.eye(30, dtype=torch.float64))


def test_the_orthogonal_matrices_of_gates_may_be_side_by_side() -> None:
    model = nn.ModuleDict({"wide": nn.Linear(120, 30, dtype=torch.float64)})
    initialise(model, {"wide": Group(init="orthogonal")})
    for block in model.get_submodule("wide").get_parameter("weight").detach().split(30, dim=1):
        torch.testing.assert_close(block @ block.t(), torch.eye(30, dtype=torch.float64))


def test_the_same_seed_gives_the_same_values() -> None:
    assert torch.equal(initialised("normal 1").recurrent.weight, initialised("normal 1").recurrent.weight)


def test_the_group_of_a_module_without_parameters_is_no_error() -> None:
    model = Model()
    model.projection = nn.Identity()  # as in Deep-Att without fast-forward connections
    initialise(model, {"projection": Group()})


def test_a_group_without_parameters_is_a_user_error() -> None:
    names = {part for name, _ in Model().named_parameters() for part in name.split(".")}
    known = ", ".join(sorted(names))
    expected = f"training.groups.recurent: this model has no parameter of that name; known names: {known}"
    assert "recurrent" in names
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        initialise(Model(), {"recurent": Group()})


def test_other_may_be_a_group_even_when_nothing_is_left_over() -> None:
    groups = {name: Group() for name in ("embedding", "recurrent", "output", "other")}
    initialise(Model(), groups)
    assert "other" not in rates_of(build_optimizer(Model(), Optimizer("adam", 0.1), groups))


@pytest.mark.parametrize(
    "init", ["ones", "normal", "normal x", "normal -1", "uniform 0", "zeros 3", "", "normal nan", "uniform 1e39"]
)
def test_an_unknown_initialiser_is_an_error(init: str) -> None:
    with pytest.raises(UserError) as error:
        build(Group, {"init": init}, "groups")
    wanted = "default, zeros, orthogonal, or 'normal STD' or 'uniform BOUND' below 1e30"
    assert str(error.value) == f"groups: init: {init!r} is not {wanted}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "adam", "lr": 0.0}, "lr: 0.0 is not above 0 and below 1e+30"),
        ({"name": "adam", "lr": -1}, "lr: -1.0 is not above 0 and below 1e+30"),
        ({"name": "adam", "lr": 1, "betas": [0.9]}, "betas: two numbers, not 1"),
        ({"name": "nag", "lr": 1}, "momentum: nag needs one above 0"),
        ({"name": "adagrad", "lr": 1}, "name: expected one of adam, adamw, sgd, nag, adadelta; found str 'adagrad'"),
    ],
)
def test_an_impossible_optimizer_is_an_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(Optimizer, values, "optimizer")
    assert str(error.value) == f"optimizer: {message}"
