"""Columns are those that were appended, whatever else was appended to the same ones."""

import torch
from torch import Tensor

from nmtkit.ops.columns import Columns

ROWS, WIDTH = 2, 3


def numbered(columns: int, first: int = 0) -> Tensor:
    return torch.arange(first, first + ROWS * columns * WIDTH).float().view(ROWS, columns, WIDTH)


def test_they_are_what_was_appended_in_order() -> None:
    columns, parts = Columns.none(numbered(1)), []
    for count in (1, 2, 2, 1, 2):
        parts.append(numbered(count, 100 * len(parts)))
        columns = columns.append(parts[-1])
        assert torch.equal(columns.value, torch.cat(parts, dim=1))


def test_two_things_appended_to_the_same_columns_do_not_disturb_each_other() -> None:
    start = Columns.none(numbered(1)).append(numbered(1)).append(numbered(1, 10))
    one, other = start.append(numbered(1, 100)), start.append(numbered(1, 200))
    assert torch.equal(one.value, torch.cat([numbered(1), numbered(1, 10), numbered(1, 100)], dim=1))
    assert torch.equal(other.value, torch.cat([numbered(1), numbered(1, 10), numbered(1, 200)], dim=1))
    assert torch.equal(start.value, torch.cat([numbered(1), numbered(1, 10)], dim=1))


def test_what_is_given_is_not_written_to() -> None:
    given = numbered(2)
    Columns.none(given).append(given).append(numbered(2, 50)).append(numbered(1, 90))
    assert torch.equal(given, numbered(2))


def test_nothing_is_copied_while_there_is_room() -> None:
    start = Columns.none(numbered(1)).append(numbered(2))
    columns = start.take(torch.arange(ROWS), torch.tensor([[0, 1]] * ROWS), room=3)
    places = {columns.value.data_ptr()}
    for _ in range(3):
        columns = columns.append(numbered(1))
        places.add(columns.value.data_ptr())
    assert len(places) == 1
    assert torch.equal(columns.append(numbered(1)).value[:, :2], numbered(2))


def test_gradients_go_through() -> None:
    given = [numbered(1, i).requires_grad_() for i in range(4)]
    columns, total = Columns.none(given[0]), torch.zeros(())
    for part in given:
        columns = columns.append(part)
        total = total + (columns.value**2).sum()
    for i, (part, gradient) in enumerate(zip(given, torch.autograd.grad(total, given), strict=True)):
        assert torch.equal(gradient, 2 * part * (len(given) - i))


def test_some_columns_of_some_rows_go_on_by_themselves() -> None:
    start = numbered(4)
    columns = Columns.none(start).append(start)
    taken = columns.take(torch.tensor([1, 1, 0]), torch.tensor([[0, 2], [3, 1], [1, 2]]), 1)
    assert taken.has_room(1)
    assert not taken.has_room(2)
    after = taken.append(torch.zeros(3, 1, WIDTH))
    expected = torch.stack([start[1, [0, 2]], start[1, [3, 1]], start[0, [1, 2]]])
    assert torch.equal(after.value[:, :2], expected)
    assert not after.value[:, 2].any()
    assert torch.equal(columns.value, start)
