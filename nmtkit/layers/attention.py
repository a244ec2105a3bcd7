"""Attention with parameters."""

import torch
from torch import Tensor, nn

from nmtkit.ops import attention


class AdditiveAttention(nn.Module):
    """v . tanh(query W_a + key U_a + b) (Bahdanau et al. 2015, A.1.2); the values are the annotations themselves."""

    def __init__(self, query: int, key: int, width: int, *, bias: bool):
        super().__init__()
        self.query = nn.Linear(query, width, bias=False)  # W_a
        self.key = nn.Linear(key, width, bias=bias)  # U_a
        self.v = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.v, std=width**-0.5)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """query (N, Q), keys (B, S, A) already through ``key``, values (B, S, D) -> context (N, D), weights (N, S)."""
        return attention.additive(self.query(query), keys, values, self.v, mask)
