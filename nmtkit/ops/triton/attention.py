"""The scores of additive attention for a GPU, the twin of ``ops/attention.py``'s ``Plain``."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmtkit.ops.triton.common import load, tanh


@triton.jit
def _scores(
    query, keys, v, mask, scores, sources, width, sentence_stride, source_stride, BLOCK: tl.constexpr
):  # fmt: skip
    """A program does the score of one source position of one sentence; BLOCK is at least the width."""
    at = tl.program_id(0)  # of B x S, sentence by sentence
    sentence = (at // sources).to(tl.int64)
    column = tl.arange(0, BLOCK)
    exists = column < width
    key = load(keys, sentence * sentence_stride + (at % sources).to(tl.int64) * source_stride + column, exists)
    energy = tanh(load(query, sentence * width + column, exists) + key)
    score = tl.sum(load(v, column, exists) * energy, axis=0)
    tl.store(scores + at, tl.where(tl.load(mask + at) != 0, score, float("-inf")))


def scores(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """See ``Scores``: query (B, A), keys (B, S, A), v (A,), mask (B, S) -> (B, S)."""
    sentences, sources, width = keys.shape
    # Keys may be a view with time or heads before the sentence: only their last dimension has to be in one block.
    keys = keys if keys.stride(2) == 1 else keys.contiguous()
    out = torch.empty(sentences, sources, device=keys.device)
    with torch.cuda.device_of(out):
        _scores[(out.numel(),)](
            query.contiguous(), keys, v.contiguous(), mask.contiguous().view(torch.uint8), out,
            sources, width, keys.stride(0), keys.stride(1), BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
    return out
