"""Parameter groups, initialisers and optimizers."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import torch
from torch import nn

from nmtkit.config import FIXED
from nmtkit.errors import UserError
from nmtkit.models import base

Kind = TypeVar("Kind", bound=torch.optim.Optimizer)
UPPER_LIMIT = 1e30  # settings are smaller, so that products with them do not overflow float32


@dataclass(frozen=True)
class Group:
    """Settings of a parameter group; None: the optimizer's.

    ``init``: ``default`` (the layer's own), ``zeros``, ``normal STD``, ``uniform BOUND``, ``orthogonal``.
    ``decay``: weight decay; in adamw v <- v - lr (step + decay v), else added to the gradient: g + decay v.
    """

    lr: float | None = None
    decay: float | None = None
    init: str = field(default="default", metadata=FIXED)

    def __post_init__(self) -> None:
        _parse_init(self.init)
        for name, value in (("lr", self.lr), ("decay", self.decay)):
            if value is not None and not 0 <= value < UPPER_LIMIT:
                raise ValueError(f"{name}: {value} is not 0 or above, and below {UPPER_LIMIT:g}")


@dataclass(frozen=True)
class Optimizer:
    """The update rule and its hyperparameters. ``lr`` and ``decay`` apply to groups without their own."""

    # nag: sgd with Nesterov's momentum
    name: Literal["adam", "adamw", "sgd", "nag", "adadelta"] = field(metadata=FIXED)
    lr: float
    decay: float = 0.0
    betas: tuple[float, ...] = (0.9, 0.999)
    eps: float = 1e-8
    momentum: float = 0.0
    rho: float = 0.95

    def __post_init__(self) -> None:
        for name, value in (("lr", self.lr), ("eps", self.eps)):
            if not 0 < value < UPPER_LIMIT:
                raise ValueError(f"{name}: {value} is not above 0 and below {UPPER_LIMIT:g}")
        if len(self.betas) != 2:
            raise ValueError(f"betas: two numbers, not {len(self.betas)}")
        # Decay factors of moving averages; with 1, these would never change.
        shares = [("betas", beta) for beta in self.betas] + [("momentum", self.momentum), ("rho", self.rho)]
        for name, value in shares:
            if not 0 <= value < 1:
                raise ValueError(f"{name}: {value} is not in [0, 1)")
        if not 0 <= self.decay < UPPER_LIMIT:
            raise ValueError(f"decay: {self.decay} is not 0 or above, and below {UPPER_LIMIT:g}")
        if self.name == "nag" and not self.momentum:
            raise ValueError("momentum: nag needs one above 0")


def _parse_init(init: str) -> tuple[str, float]:
    """The name of an initialiser and its number, or 0. Raises ValueError for an invalid one."""
    kind, _, number = init.partition(" ")
    if kind in ("default", "zeros", "orthogonal") and not number:
        return kind, 0.0
    try:
        if kind in ("normal", "uniform") and 0 < float(number) < UPPER_LIMIT:
            return kind, float(number)
    except ValueError:
        pass
    raise ValueError(f"init: {init!r} is not default, zeros, orthogonal, or 'normal STD' or 'uniform BOUND' below 1e30")


def check_groups(model: nn.Module, settings: Mapping[str, Group]) -> None:
    """Raise UserError for a group without parameters; those of a misspelled group are in ``other``."""
    # A part without parameters is not a mistake: Deep-Att without fast-forward connections has no W_p.
    parts = {part for name, _ in model.named_modules() for part in name.split(".")}
    for group, parameters in base.groups(model, settings).items():
        if group in settings and not parameters and group != "other" and group not in parts:
            names = {part for name, _ in model.named_parameters() for part in name.split(".") if not part.isdigit()}
            raise UserError(
                f"training.groups.{group}: this model has no parameter of that name; known names: "
                f"{', '.join(sorted(names))}"
            )


@torch.no_grad()
def initialise(model: nn.Module, settings: Mapping[str, Group]) -> None:
    """Initialise every group from torch's random state. Raises UserError like ``check_groups``."""
    check_groups(model, settings)
    for group, parameters in base.groups(model, settings).items():
        kind, number = _parse_init(settings[group].init if group in settings else "default")
        for _, parameter in parameters:
            if kind == "zeros":
                parameter.zero_()
            elif kind == "normal":
                parameter.normal_(0.0, number)
            elif kind == "uniform":
                parameter.uniform_(-number, number)
            elif kind == "orthogonal" and parameter.ndim == 2:
                side = min(parameter.shape)  # gates are concatenated: one orthogonal block each
                for block in parameter.split(side, dim=parameter.shape.index(max(parameter.shape))):
                    nn.init.orthogonal_(block)


def build_optimizer(model: nn.Module, config: Optimizer, settings: Mapping[str, Group]) -> torch.optim.Optimizer:
    """The optimizer with a parameter group for each group of the settings; ``base_lr`` is its rate at factor 1."""
    grouped = []
    for name, parameters in base.groups(model, settings).items():
        group = settings.get(name, Group())
        # Not ``or``, because a rate of 0 freezes a group.
        lr = config.lr if group.lr is None else group.lr
        decay = config.decay if group.decay is None else group.decay
        # PyTorch refuses empty groups; ``other`` may be empty.
        if parameters:
            grouped.append(
                {"params": [p for _, p in parameters], "name": name, "lr": lr, "base_lr": lr, "weight_decay": decay}
            )
    betas = (config.betas[0], config.betas[1])  # for the type checker
    if config.name == "adam":
        return _light(torch.optim.Adam)(grouped, betas=betas, eps=config.eps, fused=True)
    if config.name == "adamw":
        return _light(torch.optim.AdamW)(grouped, betas=betas, eps=config.eps, fused=True)
    if config.name in ("sgd", "nag"):
        nesterov = config.name == "nag"
        return _light(torch.optim.SGD)(grouped, lr=config.lr, momentum=config.momentum, nesterov=nesterov, fused=True)
    return _light(torch.optim.Adadelta)(grouped, rho=config.rho, eps=config.eps)


def _light(kind: type[Kind]) -> type[Kind]:
    """``kind`` without the decorators of its methods, which import PyTorch's compiler: 2.5 s of every start."""
    decorated = [(n, f) for n, f in inspect.getmembers(kind, inspect.isfunction) if hasattr(f, "__wrapped__")]
    return type(kind.__name__, (kind,), {name: torch.no_grad()(inspect.unwrap(f)) for name, f in decorated})


def set_rates(optimizer: torch.optim.Optimizer, multiplier: float) -> None:
    """Set the rate of every group to its base rate times ``multiplier``."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * multiplier
