"""Additive attention (Bahdanau et al. 2015, A.1.2): softmax_j( v . tanh(query + keys_j) ), and the context vector.

``additive`` computes it for any number of query rows for each sentence. ``quick_additive`` computes the same from
exponentials, for search in low precision. ``attention_loop`` is for training: one query row for each sentence in a
step, and keys, values and v shared by all steps. On a CPU, forward (without gradients) and the backward of
``attention_loop`` are kernels (``kernels/attention.py``).

Letters: B sentences, N = B x K query rows (sentence-major), S source positions, A attention width, D value width.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import attention
from nmtkit.kernels.door import kernel
from nmtkit.ops.loop import Shared, share

Additive: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # as ``additive``
MAX_EXPONENT = 40.0  # the product of two exponentials of it does not overflow float32
PART = 2**18  # float32 values, 1 MB


def additive(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The context and the attention weights of any number of query rows.

    query (N, A), keys (B, S, A), values (B, S, D), v (A,), mask (B, S) False at padding; no sentence may be all
    padding. Returns the context (N, D) in the values' dtype and the weights (N, S) in float32. Without gradients it is
    a kernel, which saves 18 % of the time of a small model's search in float32 with AVX2.
    """
    if query.dtype == keys.dtype and not torch.is_grad_enabled() and _has_kernel(keys, values):
        contiguous = (x.contiguous() for x in (query, keys, values, v.float(), mask))
        return attention.attend(*contiguous)
    sigmoid = _sigmoid(query.unflatten(0, (len(keys), -1)), keys)  # (B, K, S, A)
    # mv, because autocast would convert the whole tensor for a matmul.
    weights = _weights(sigmoid.flatten(0, 2).mv(2 * v.float()).view(sigmoid.shape[:3]), mask)
    # A sentence's K queries share its keys and values, without copies for the beam.
    return weighted(weights, values).flatten(0, 1), weights.flatten(0, 1)


def exponential(x: Tensor) -> Tensor:
    """exp(2x) of keys or queries x (..., A), clamped so that no product of two overflows float32."""
    return (2 * x.float()).clamp_(-MAX_EXPONENT, MAX_EXPONENT).exp_()


def quick_additive(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """``additive`` with the same arguments, except that keys are ``exponential``, computed once for each sentence.

    tanh x = 1 - 2 / (1 + exp(2x)), and exp(2 (query + keys)) is a product of two exponentials: for every query,
    position and unit, ``additive`` computes an exponential, this a product and a reciprocal. The softmax cancels the 1.
    The scores are equal to within rounding unless a query or a key exceeds 20 in magnitude. From values in bfloat16 a
    kernel computes a context in float32.
    """
    queries, factors = exponential(query).unflatten(0, (len(keys), -1)), -2 * v.float()  # (B, K, A), (A,)
    weights = _weights(kernel("scores", quick_scores, queries, keys)(queries, keys, factors), mask)
    context = kernel("weighted", weighted, values)(weights, values)  # (B, K, D)
    return context.flatten(0, 1), weights.flatten(0, 1)


def quick_scores(queries: Tensor, keys: Tensor, factors: Tensor) -> Tensor:
    """The sum over a of factors_a / (1 + query_a key_a): queries (B, K, A), keys (B, S, A), factors (A,) -> (B, K, S).

    All are float32. A CPU computes them in parts that fit into its cache, which on a GPU would be hundreds of launches.
    """
    queries = queries.unsqueeze(2)
    scores = queries.new_empty(*queries.shape[:2], keys.shape[1])  # (B, K, S)
    on_cpu = queries.device.type == "cpu"
    part = max(1, PART // scores[0].numel() // len(factors) if on_cpu else len(scores))  # sentences
    one = scores.new_ones(())
    for q, k, out in zip(queries.split(part), keys.unsqueeze(1).split(part), scores.split(part), strict=True):
        torch.matmul(torch.addcmul(one, q, k).reciprocal_(), factors, out=out)
    return scores


def weighted(weights: Tensor, values: Tensor) -> Tensor:
    """The sums (B, K, D) of values (B, S, D) with weights (B, K, S), in the dtype of the values."""
    return weights.to(values.dtype) @ values


def _weights(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax of scores (B, K, S) where mask (B, S) is True."""
    return scores.masked_fill(~mask.unsqueeze(1), float("-inf")).softmax(dim=-1)


def attention_loop(
    first: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor, *weights: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor], list[Shared]]:
    """Set up a training loop with attention; returns its first state (any shape), ``attend`` and the shared weights.

    ``attend`` maps a query (B, A) to the context (B, D) over keys (B, S, A), values (B, S, D), v (A,) and mask (B, S),
    as in ``additive``. The weights, of any shapes, are shared by ``loop.share``.
    """
    # Kernels need contiguous tensors.
    given = keys.contiguous(), values.contiguous(), v, *weights
    state, (shared_keys, shared_values, shared_v, *shared) = share(first, *given)
    mask = mask.contiguous()

    def attend(query: Tensor) -> Tensor:
        context: Tensor = _Additive.apply(query, shared_keys, shared_values, shared_v, mask)
        return context

    return state, attend, shared


def _sigmoid(query: Tensor, keys: Tensor) -> Tensor:
    """sigmoid(2 (query + keys)) for query (B, K, A) and keys (B, S, A): (B, K, S, A) in float32.

    tanh x = 2 sigmoid(2x) - 1, which takes a CPU a third of the time; the softmax cancels the 1.
    """
    return torch.add(2 * query.float().unsqueeze(2), keys.unsqueeze(1), alpha=2).sigmoid_()


def _has_kernel(keys: Tensor, values: Tensor) -> bool:
    """Whether keys and values (B, S, ...) have a kernel."""
    return keys.dtype == values.dtype and kernel("attention", there_and_back, keys) is not there_and_back


class _Additive(torch.autograd.Function):
    """Backward recomputes the sigmoid instead of storing (B, S, A) for every step."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Shared, values: Shared, v: Shared, mask: Tensor) -> Tensor:
        ctx.shared = keys, values, v
        ctx.quick = _has_kernel(keys.value, values.value)
        if ctx.quick:
            query = query.to(keys.value.dtype).contiguous()
            context, weights = attention.attend(query, keys.value, values.value, v.wide(), mask)
        else:
            context, weights = additive(query, keys.wide(), values.value, v.value, mask)
        ctx.save_for_backward(query, weights)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_context: Tensor) -> tuple[Any, ...]:
        query, weights = ctx.saved_tensors
        keys, values, v = ctx.shared
        if ctx.quick:
            shared = keys.value, values.value, v.wide()
            d_query, d_v = attention.attend_back(grad_context.contiguous(), query, *shared, weights, keys.sum())
            v.sum().add_(d_v)
        else:
            d_query = _back(grad_context, query, keys, values, v, weights)
        # The gradient of the values is one product after the loop.
        values.note(weights.to(values.value.dtype).unsqueeze(1), grad_context.unsqueeze(1))
        return d_query, None, None, None, None


def _back(d_context: Tensor, query: Tensor, keys: Shared, values: Shared, v: Shared, weights: Tensor) -> Tensor:
    """The gradient of the query (B, A) from that of the context (B, D); adds to the gradients of the keys and v.

    query (B, A), weights (B, S).
    """
    d_weights = torch.bmm(values.value, d_context.unsqueeze(-1)).squeeze(-1).float()
    # The backward of softmax; padding has weight 0 and thus no gradient.
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
    sigmoid = _sigmoid(query.unsqueeze(1), keys.wide()).squeeze(1)
    v.sum().add_(2 * (d_scores.flatten() @ sigmoid.flatten(0, 1)))  # of the sigmoid alone, because d_scores sums to 0
    slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1)  # sigmoid (1 - sigmoid), a quarter of the slope of tanh
    four_v = 4 * v.value.float()
    d_query = torch.bmm(d_scores.unsqueeze(1), slope).squeeze(1) * four_v
    keys.sum().addcmul_(slope, d_scores.unsqueeze(-1))
    keys.factor = four_v
    return d_query


def there_and_back(
    query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor, d_context: Tensor
) -> tuple[Tensor | None, ...]:
    """Context (B, D), weights (B, S) and the gradients of query, keys and v, to compare the kernels with."""
    of_keys, of_values, of_v = Shared(keys), Shared(values), Shared(v)
    context, weights = additive(query, of_keys.wide(), values, v, mask)
    d_query = _back(d_context, query, of_keys, of_values, of_v, weights)
    return context, weights, d_query, of_keys.gradient(), of_v.gradient()
