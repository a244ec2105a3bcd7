"""The loss of logits and its gradient in one kernel; ``ops/cross_entropy.py`` has the plain version."""

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run


def losses(
    logits: Tensor, bias: Tensor, target: Tensor, label_smoothing: float, d_bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Summed loss and negative log-likelihood, float64, of logits (R, V) without bias (V,), target (R,).

    With ``d_bias`` (V,), the bias gradient is added to it and the logits are replaced by their gradient. Rows of
    the logits may be strided.
    """
    rows, words = logits.shape
    wrong, count = label_smoothing / (words - 1), parts(rows, logits.numel())
    sums = torch.empty(rows, 2, dtype=torch.float64)
    d_biases = None if d_bias is None else bias.new_zeros(count, words)
    run(
        "cross_entropy", rows, count, logits=logits, bias=bias.contiguous(), target=target.contiguous(),
        wanted=bias.new_tensor([wrong, 1 - label_smoothing]), sums=sums, d_bias=d_biases,
        scratch=bias.new_empty(count, words), words=words, stride=logits.stride(0),
    )  # fmt: skip
    if d_bias is not None and d_biases is not None:
        d_bias += d_biases.sum(dim=0)
    nll, log_probs = sums.sum(dim=0)
    return (1 - label_smoothing) * nll + wrong * (-log_probs - nll), nll
