from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nmtkit.ops.tree import Tree, select


class Layer(NamedTuple):
    hidden: Tensor
    cell: Tensor | None


def flat(tree: Tree) -> list[Tensor]:
    if tree is None:
        return []
    return [tree] if isinstance(tree, Tensor) else [tensor for branch in tree for tensor in flat(branch)]


def equal(a: Tree, b: Tree) -> bool:
    return all(torch.equal(x, y) for x, y in zip(flat(a), flat(b), strict=True))


def trees(rows: int) -> st.SearchStrategy[Tree]:
    tensor = st.integers(0, 99).map(lambda seed: torch.arange(rows * 3).view(rows, 3) + seed)
    leaf = tensor | st.none() | st.builds(Layer, tensor, tensor | st.none())
    return st.recursive(leaf, lambda branch: st.lists(branch, max_size=3).map(tuple), max_leaves=5)


@pytest.fixture
def tree() -> tuple[Layer, Tensor, None]:
    return (Layer(torch.arange(6).view(3, 2), None), torch.arange(3), None)


def test_select_takes_rows_in_the_order_asked_for(tree: tuple[Layer, Tensor, None]) -> None:
    layer, vector, nothing = select(tree, torch.tensor([2, 0, 0]))
    assert layer.hidden.tolist() == [[4, 5], [0, 1], [0, 1]]
    assert vector.tolist() == [2, 0, 0]
    assert layer.cell is None
    assert nothing is None


def test_named_tuples_keep_their_type(tree: tuple[Layer, Tensor, None]) -> None:
    assert type(select(tree, torch.tensor([1]))[0]) is Layer


def test_the_given_tree_is_not_changed(tree: tuple[Layer, Tensor, None]) -> None:
    chosen = select(tree, torch.arange(3))
    chosen[1].zero_()
    assert tree[1].tolist() == [0, 1, 2]


@given(trees(4), st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_selecting_twice_is_selecting_once(tree: Tree, first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.integers(0, len(first) - 1), max_size=6))
    twice = select(select(tree, torch.tensor(first)), torch.tensor(second, dtype=torch.long))
    assert equal(twice, select(tree, torch.tensor([first[i] for i in second], dtype=torch.long)))
