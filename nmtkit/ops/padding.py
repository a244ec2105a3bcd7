"""Sentences of different lengths as one tensor."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmtkit.symbols import EOS, PAD


def pad(sentences: Sequence[Sequence[int] | np.ndarray], multiple: int = 1) -> Tensor:
    """Sentences of ids -> int64 (B, longest + 1), each followed by EOS, padded to a multiple of ``multiple``."""
    length = max(map(len, sentences)) + 1
    ids = np.full((len(sentences), length + -length % multiple), PAD, dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
        row[len(sentence)] = EOS
    return torch.from_numpy(ids)


def full_steps(mask: Tensor | None, length: int) -> list[bool]:
    """Which of ``length`` steps are known to have no padding in any row, so that they need no mask; mask (T, B).

    No step on the meta device, which has no data, and on a GPU, where finding out would need a synchronisation.
    """
    if mask is None or mask.is_meta or mask.is_cuda:
        return [mask is None] * length
    return mask.all(dim=1).tolist()
