import numpy as np
import torch

from nmtkit.ops.padding import pad
from nmtkit.symbols import EOS, PAD


def test_a_sentence_is_followed_by_eos_and_padding() -> None:
    ids = pad([np.array([7, 8, 9]), np.array([5]), np.array([], dtype=np.int64)])
    assert ids.tolist() == [[7, 8, 9, EOS], [5, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]]
    assert ids.dtype == torch.int64


def test_lists_are_padded_as_arrays_are() -> None:
    assert torch.equal(pad([[7, 8], []]), pad([np.array([7, 8]), np.array([], dtype=np.uint16)]))
