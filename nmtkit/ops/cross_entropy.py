"""Output layer, softmax and cross-entropy in chunks of rows, so that no (R, V) tensor is ever allocated.

The gradient is computed with the loss: each chunk takes the product, the softmax, and the products with the gradient
of the softmax, softmax(logits) - target. Backward only scales the result by the gradient of the loss.

A chunk has many rows, because each chunk updates the whole gradient of the weight. The pointwise operations between the
three products read the logits some eight times, so they run on blocks of a chunk that fit into the cache.

Letters: R rows (sentences x target words), H hidden, V words.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops.linear import extended, times, with_zeros

EVEN = 32  # words


def chunk_rows(words: int, gpu: bool = False) -> int:
    """The number of rows in a chunk: 64 MB of logits in float32 up to 262,000 words, then 64 rows; on a GPU 4 times.

    A GPU needs more rows to be busy.
    """
    return max(64, (1 << (26 if gpu else 24)) // words)


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Summed loss and summed negative log-likelihood (nats) of ``target`` under softmax(hidden weight^T + bias).

    hidden (R, H) in float32 or bfloat16, the dtype of the products, weight (V, H) and bias (V,) in float32, target
    (R,) in int64. With label smoothing e, the target word has probability 1 - e, the other V - 1 words share e. Both
    results are scalars in float64; only the first has a gradient.
    """
    loss, nll = _LinearCrossEntropy.apply(hidden, weight, bias, target, label_smoothing)
    return loss, nll


@torch.no_grad()
def score(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability (R,) of each target word, in float32 and nats, and whether it is the most probable word (R,).

    hidden (R, H), weight (V, H), bias (V,), target (R,), as in ``linear_cross_entropy``.
    """
    compute = _even(weight, hidden.dtype)
    log_probs, right = [], []
    for rows in _chunks(hidden, weight):
        for block, words in _blocks((hidden[rows] @ compute.t())[:, : len(weight)], target[rows]):
            logits = block + bias  # in float32, as the bias is
            chosen = logits.gather(1, words.unsqueeze(1)).squeeze(1)
            log_probs.append(chosen - logits.logsumexp(dim=-1))
            right.append(logits.argmax(dim=-1) == words)
    return torch.cat(log_probs), torch.cat(right)


def _even(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The weight (V, H) in ``dtype``; in bfloat16 on a CPU, zero rows pad it to a multiple of ``EVEN`` words, (V', H).

    Products are up to twice as fast if rows of logits are aligned to 64 bytes.
    """
    matters = dtype == torch.bfloat16 and not weight.is_cuda
    return extended(weight, -len(weight) % EVEN if matters else 0, dtype)


def _chunks(hidden: Tensor, weight: Tensor) -> list[slice]:
    rows = chunk_rows(len(weight), weight.is_cuda)
    return [slice(start, start + rows) for start in range(0, max(1, len(hidden)), rows)]


def _blocks(logits: Tensor, target: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """A chunk's logits (R, V) and target (R,), in blocks of about 1 MB of logits in float32.

    On a GPU, whose cost is in kernel launches, the whole chunk is one block.
    """
    rows = max(1, len(logits) if logits.is_cuda else (1 << 18) // logits.shape[1])
    return zip(logits.split(rows), target.split(rows), strict=True)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        needed = any(ctx.needs_input_grad[:3])
        compute = _even(weight, hidden.dtype)
        # Sums over a batch are in float64, so that they hardly depend on the size of the chunks.
        total, total_nll = torch.zeros(2, dtype=torch.float64, device=hidden.device)
        d_hidden = torch.empty_like(hidden) if needed else None
        d_weight: Tensor | None = None
        d_bias = torch.zeros_like(bias) if needed else None
        for rows in _chunks(hidden, weight):
            targets, inputs = target[rows], with_zeros(hidden[rows], hidden.dtype)
            logits = times(inputs, compute.t(), len(inputs))
            for block, words in _blocks(logits[: len(targets), : len(weight)], targets):
                # The gradient overwrites the logits.
                loss, nll = losses(block, bias, words, label_smoothing, d_bias)
                total += loss
                total_nll += nll
            if d_hidden is not None:
                # The padding, below the rows of the chunk and right of the words, is still zero.
                d_hidden[rows] = times(logits, compute, len(targets))
                # In bfloat16 the product of a chunk is rounded once; the sum over chunks is in float32.
                if d_weight is None:
                    d_weight = (logits.t() @ inputs)[: len(weight)].to(weight.dtype)
                elif logits.dtype == d_weight.dtype:
                    d_weight.addmm_(logits.t(), inputs)
                else:
                    d_weight += (logits.t() @ inputs)[: len(weight)]
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        ctx.mark_non_differentiable(total_nll)
        return total, total_nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        # In place for tensors of the size of the vocabulary; autograd calls this once.
        scale = grad.to(d_weight.dtype)
        return d_hidden * scale, d_weight.mul_(scale), d_bias.mul_(scale), None, None


def losses(
    logits: Tensor, bias: Tensor, target: Tensor, label_smoothing: float, d_bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Summed loss and negative log-likelihood, float64, of a block: logits (R, V) without bias (V,), target (R,).

    With ``d_bias`` (V,), the bias gradient is added to it and the logits are replaced by their gradient.
    """
    column, others = target.unsqueeze(1), len(bias) - 1
    z = logits + bias  # in float32, as the bias is
    p = z.softmax(dim=-1)
    # The largest p is 1 / sum(exp(z - max z)), so log(sum(exp z)) needs no second round of exponentials.
    total = z.amax(dim=-1) - p.amax(dim=-1).log()
    loss = nll = (total - z.gather(1, column).squeeze(1)).sum(dtype=torch.float64)
    rest = label_smoothing / others  # the target probability of each wrong word
    if label_smoothing:
        # The sum of -log p over all words except the target.
        wrong = (len(bias) * total - z.sum(dim=-1)).sum(dtype=torch.float64) - nll
        loss = (1 - label_smoothing) * nll + rest * wrong
    if d_bias is not None:
        d_logits = p.sub_(rest) if rest else p  # minus the smoothed target distribution
        # The line above treats the target as a wrong word; its target probability is 1 - e.
        d_logits.scatter_add_(1, column, d_logits.new_full(column.shape, rest - (1 - label_smoothing)))
        d_bias += d_logits.sum(dim=0)
        logits.copy_(d_logits)
    return loss, nll
