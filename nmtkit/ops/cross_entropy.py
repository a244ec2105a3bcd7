"""The loss over a vocabulary: output product, softmax, cross-entropy, in chunks, so that no (R, V) tensor ever exists.

The gradient is computed with the loss: one pass over the chunks does the product, the softmax, and the products with
the softmax's gradient, softmax(logits) - target. Backward only multiplies what is there by the gradient of the loss.

Letters: R rows (sentences x target words), H hidden, V words.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def chunk_rows(words: int) -> int:
    """The number of rows whose logits are held at once: 16 MB in float32 up to 65,000 words, then 64 rows.

    Small chunks stay in the cache, but each one passes over the whole gradient of the weight.
    """
    return max(64, (1 << 22) // words)


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Summed loss and summed negative log-likelihood (nats) of ``target`` under softmax(hidden weight^T + bias).

    hidden (R, H) in float32 or bfloat16, whose dtype the products have, weight (V, H) and bias (V,) in float32, target
    (R,) in int64. With smoothing e the target word has 1 - e and the other V - 1 words share e. Both results are
    scalars in float64; only the first carries a gradient.
    """
    loss, nll = _LinearCrossEntropy.apply(hidden, weight, bias, target, label_smoothing)
    return loss, nll


@torch.no_grad()
def score(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability (R,) of each row's target, in float32 and nats, and whether it was the likeliest word (R,).

    hidden (R, H), weight (V, H), bias (V,), target (R,), as in ``linear_cross_entropy``.
    """
    log_probs, right = [], []
    for rows in _chunks(hidden, weight):
        logits = _logits(hidden[rows], weight, bias)
        chosen = logits.gather(1, target[rows].unsqueeze(1)).squeeze(1)
        log_probs.append(chosen - logits.logsumexp(dim=-1))
        right.append(logits.argmax(dim=-1) == target[rows])
    return torch.cat(log_probs), torch.cat(right)


def _chunks(hidden: Tensor, weight: Tensor) -> list[slice]:
    rows = chunk_rows(len(weight))
    return [slice(start, start + rows) for start in range(0, max(1, len(hidden)), rows)]


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A chunk's logits (R, V) in float32, with the product in the dtype of hidden."""
    if hidden.dtype == bias.dtype == weight.dtype == torch.float32:
        return torch.addmm(bias, hidden, weight.t())
    return (hidden @ weight.to(hidden.dtype).t()).float() + bias.float()


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        words = len(weight)
        needed = any(ctx.needs_input_grad[:3])
        compute = weight.to(hidden.dtype)
        # Sums over a whole batch are kept in float64, so that the size of the chunks hardly matters.
        total = torch.zeros((), dtype=torch.float64, device=hidden.device)
        total_nll = torch.zeros_like(total)
        d_hidden = torch.empty_like(hidden) if needed else None
        d_weight = torch.zeros_like(weight) if needed else None
        d_bias = torch.zeros_like(bias) if needed else None
        rest = label_smoothing / (words - 1)  # what each wrong word is given
        for rows in _chunks(hidden, weight):
            logits = _logits(hidden[rows], compute, bias)
            column = target[rows].unsqueeze(1)
            log_z = logits.logsumexp(dim=-1, keepdim=True)
            nll = (log_z - logits.gather(1, column)).sum(dtype=torch.float64)
            total_nll += nll
            total += nll
            if label_smoothing:
                # The sum of -log p over all words is V log Z less their logits; the target's own part goes.
                others = (words * log_z.squeeze(1) - logits.sum(dim=-1)).sum(dtype=torch.float64) - nll
                total += rest * others - label_smoothing * nll
            if d_hidden is not None and d_weight is not None and d_bias is not None:
                d_logits = logits.sub_(log_z).exp_()  # the softmax, in the memory of the logits
                if label_smoothing:
                    d_logits.sub_(rest)
                # The target was counted as a wrong word above: it has 1 - e instead.
                d_logits.scatter_add_(1, column, d_logits.new_full(column.shape, rest - (1 - label_smoothing)))
                d_bias += d_logits.sum(dim=0)
                low = d_logits.to(hidden.dtype)
                torch.mm(low, compute, out=d_hidden[rows])
                # In bfloat16 the chunk's product is rounded once, and the sum over chunks stays in float32.
                if low.dtype == d_weight.dtype:
                    d_weight.addmm_(low.t(), hidden[rows])
                else:
                    d_weight += low.t() @ hidden[rows]
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        ctx.mark_non_differentiable(total_nll)
        return total, total_nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        # In place where the tensor is as large as the vocabulary; autograd calls this once.
        scale = grad.to(d_weight.dtype)
        return d_hidden * scale, d_weight.mul_(scale), d_bias.mul_(scale), None, None
