"""Trees of tensors: the memory and state of a decoder, which search reorders without knowing their content."""

from typing import Any, TypeAlias, TypeVar, cast

from torch import Tensor

# Every tensor in a tree has the batch as its first dimension. A named tuple is a tuple that keeps its type.
Tree: TypeAlias = "Tensor | tuple[Tree, ...] | None"

T = TypeVar("T", bound=Tree)


def select(tree: T, rows: Tensor) -> T:
    """The rows (R,) of every tensor, in this order; rows may be dropped or repeated."""
    if tree is None:
        return tree
    if isinstance(tree, Tensor):
        return cast(T, tree.index_select(0, rows))
    branches = [select(branch, rows) for branch in tree]
    kind: Any = type(tree)
    return cast(T, kind(branches) if kind is tuple else kind(*branches))
