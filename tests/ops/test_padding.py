import numpy as np
import torch

from nmtkit.ops.padding import full_steps, pad
from nmtkit.symbols import EOS, PAD


def test_a_sentence_is_followed_by_eos_and_padding() -> None:
    ids = pad([np.array([7, 8, 9]), np.array([5]), np.array([], dtype=np.int64)])
    assert ids.tolist() == [[7, 8, 9, EOS], [5, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]]
    assert ids.dtype == torch.int64


def test_lists_are_padded_as_arrays_are() -> None:
    assert torch.equal(pad([[7, 8], []]), pad([np.array([7, 8]), np.array([], dtype=np.uint16)]))


def test_steps_without_padding_are_known_where_there_is_data() -> None:
    mask = torch.tensor([[True, True], [True, False], [False, True]])
    assert full_steps(mask, 3) == [True, False, False]
    assert full_steps(None, 3) == [True] * 3
    assert full_steps(mask.to("meta"), 3) == [False] * 3
