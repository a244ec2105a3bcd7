"""Shared by tests of several parts: random tensors and models, gradients, and comparisons."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def drawn(*shape: int) -> Tensor:
    """Normal numbers in float32, the same in every call with equally many dimensions."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def factors(rows: int, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    """Both factors of a product: x (N, D) and a weight (D, E)."""
    x, weight = leaves((rows, inputs), (inputs, outputs))
    return x.detach(), weight.detach()


def representable(*shapes: tuple[int, ...], seed: int = 0, scale: float = 1.0) -> list[Tensor]:
    """Normal numbers in float64 that bfloat16 represents exactly, so that errors exclude the rounding of inputs."""
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=random).mul(scale).bfloat16().double() for shape in shapes]


def leaves(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, scale: float = 1.0) -> list[Tensor]:
    """Normal numbers that require gradients, different in every tensor."""
    random = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=random).mul(scale).to(dtype).requires_grad_() for shape in shapes]


def randomised(module: Module, std: float = 0.4) -> Module:
    """The module with random values in all parameters, even those initialised to zero or one."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        parameter.data.normal_(std=std)
    return module


def one_at_a_time(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """For ``parametrize``: the first value of each, then every other value with the first ones of the rest.

    A product of all values says no more where a wrong answer to one of them does not depend on the others.
    """
    first = [choices[0] for choices in values]
    others = [(*first[:i], other, *first[i + 1 :]) for i, choices in enumerate(values) for other in choices[1:]]
    return [tuple(first), *others]


def gradients(
    results: Tensor | Sequence[Tensor], of: Sequence[Tensor], *, retain_graph: bool = False
) -> tuple[Tensor, ...]:
    """The gradients of a weighted sum of all results, with different weights; zeros for unused tensors."""
    random = torch.Generator().manual_seed(1)
    tensors = [results] if isinstance(results, Tensor) else results
    weights = [torch.randn(x.shape, generator=random).bfloat16().to(x.device) for x in tensors]
    loss = sum((weight * x.double()).sum() for weight, x in zip(weights, tensors, strict=True))
    return torch.autograd.grad(loss, of, retain_graph=retain_graph, allow_unused=True, materialize_grads=True)


def tensors_of(tree: Any) -> list[Tensor]:
    """All tensors of a tree, in order; None has none."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def assert_near(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """No element differs by more than ``tolerance`` times the largest of theirs, or times 1 where all are smaller."""
    atol = tolerance * max(1.0, theirs.abs().max().item())
    torch.testing.assert_close(ours.double(), theirs.double(), rtol=0, atol=atol)


def assert_same(ours: Any, theirs: Any) -> None:
    """Trees of tensors are equal up to the order in which float32 numbers were added.

    What is added may cancel: the gradient of attention over annotations that are nearly alike is a small difference
    of the model's largest numbers.
    """
    assert len(tensors_of(ours)) == len(tensors_of(theirs))
    sizes = [x.abs().max().item() if x.is_floating_point() and x.numel() else 0.0 for x in tensors_of(theirs)]
    for mine, other, size in zip(tensors_of(ours), tensors_of(theirs), sizes, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-4 * size + 1e-7 * max(sizes))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) of every element."""
    return 1 / (1 + np.exp(-x))
