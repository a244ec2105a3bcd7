"""Additive attention (Bahdanau et al. 2015, A.1.2) for one or many query rows per sentence.

Letters: B sentences, N = B x K query rows (sentence-major), S source positions, A attention width, D value width.
``loop.Loop.additive`` is the same for the many steps of training.
"""

from torch import Tensor


def additive(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """softmax_j( v . tanh(query + keys_j) ) over real positions, and the mean of the values under it.

    query (N, A), keys (B, S, A), values (B, S, D), v (A,), mask (B, S) True = real.
    Gives context (N, D) and weights (N, S) in float32. Every sentence needs one real position.
    """
    grouped = query.unflatten(0, (len(keys), -1)).unsqueeze(2)  # (B, K, 1, A)
    # tanh x = 2 sigmoid(2x) - 1, which a CPU has in a third of the time; the softmax cancels what the 1 adds up to.
    scores = (2 * grouped.float() + 2 * keys.float().unsqueeze(1)).sigmoid_() @ (2 * v.float())  # (B, K, S)
    weights = scores.masked_fill(~mask.unsqueeze(1), float("-inf")).softmax(dim=-1)
    context = weights.to(values.dtype) @ values  # (B, K, D)
    return context.flatten(0, 1), weights.flatten(0, 1)
