"""The GRU of Nematus (Miceli Barone et al. 2017, as in their code).

    r, u = sigma(x_ru + LN(h U_ru + b))         one normalisation spans both gates
    p = tanh(x_p + r * LN(h U_p + b))           the reset gate is applied after the product
    h' = u * h + (1 - u) * p                    u keeps the old state

s = h [U_ru, U_p] is the product with the state. Marian's GRU has one normalisation for gates and candidate.

Letters: N rows, H hidden.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.kernels.door import kernel
from nmtkit.ops.loop import advance
from nmtkit.ops.matrix import Matrix, product

EPSILON = 1e-5  # of both layer normalisations
EPSILON_OF_ALL = 1e-9  # of Marian's single one (src/graph/expression_operators.h)


def step(x: Tensor | None, h: Tensor, u: Matrix, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
    """The next state (N, H) from the state h (N, H) and u, [U_ru, U_p] (H, 3H).

    x: the terms of [r, u, p] from the input, (N, 3H), or (3H,) for every row, or None for zeros. bias (3H,) or None.
    ``norms``: gain and bias of the normalisations of both gates (2H,) and of the candidate (H,), or of a single
    normalisation (3H,); empty without it.
    """
    if len(norms) == 2:
        s = product(h, u).to(h.dtype)
        s = functional.layer_norm(s if bias is None else s + bias, norms[0].shape, norms[0], norms[1], EPSILON_OF_ALL)
        return kernel("nematus", plain, s if x is None else x, s)(x, s, h, None, *(None,) * 4)
    return advance("nematus", plain, x, h, u, h, bias, *(norms or (None,) * 4))


def plain(x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, *norms: Tensor | None) -> Tensor:
    """``step`` after its product, s (N, 3H): x (N, 3H) or (3H,), h (N, H), bias (3H,), four norms or None for each."""
    sizes = [2 * h.shape[-1], h.shape[-1]]
    s = s.to(h.dtype) if bias is None else s.to(h.dtype) + bias
    gates, state = s.split_with_sizes(sizes, dim=-1)
    if norms[0] is not None:
        gates = functional.layer_norm(gates, sizes[:1], norms[0], norms[1], EPSILON)
        state = functional.layer_norm(state, sizes[1:], norms[2], norms[3], EPSILON)
    x_gates, x_p = (0, 0) if x is None else x.split_with_sizes(sizes, dim=-1)
    r, u = (x_gates + gates).sigmoid().chunk(2, dim=-1)
    p = (x_p + r * state).tanh()
    return torch.lerp(p, h, u)
