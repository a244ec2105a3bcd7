"""Word embeddings and output layers, whose sizes depend on the vocabulary, and sinusoidal position embeddings."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.ops.pointwise import dropout
from nmtkit.symbols import BOS


class WordEmbedding(nn.Module):
    """A table (V, E) of word vectors with dropout. The start symbol is the zero vector ("y_0 is zero")."""

    def __init__(self, words: int, width: int, *, dropout: float):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, width))
        self.dropout = dropout
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors (..., E) in float32 for ids (...) in int64."""
        # BOS has a row in the table like any id; multiplied by zero, it has no effect and gets no gradient.
        vectors = functional.embedding(ids, self.weight) * (ids != BOS).unsqueeze(-1)
        return dropout(vectors, self.dropout, self.training)


class SharedEmbedding(nn.Module):
    """The ``WordEmbedding`` of the other side, whose vocabulary must be the same. It adds no parameters."""

    def __init__(self, embedding: WordEmbedding):
        super().__init__()
        self._embedding = (embedding,)  # hidden from PyTorch as in TiedOutputLayer

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors (..., E) in float32 for ids (...) in int64."""
        vectors: Tensor = self._embedding[0](ids)
        return vectors


class OutputLayer(nn.Module):
    """The linear map before the softmax. Loss and search read ``weight`` (V, H) and ``bias`` (V,) directly."""

    def __init__(self, width: int, words: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, width))
        self.bias = nn.Parameter(torch.zeros(words))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits (N, V) for hidden (N, H), in autocast's dtype or float32."""
        return functional.linear(hidden, self.weight, self.bias)


class TiedOutputLayer(nn.Module):
    """An ``OutputLayer`` whose weight is the table of the target embedding (Press and Wolf 2017).

    further: the number of inputs beyond the E of the table. The weight (V, H) has columns of its own for them, which
    are concatenated whenever it is read. The embedding is hidden from PyTorch in a tuple, so that it is counted and
    saved only once.
    """

    def __init__(self, embedding: WordEmbedding, further: int = 0):
        super().__init__()
        self._embedding = (embedding,)
        words = len(embedding.weight)
        self.further = nn.Parameter(torch.randn(words, further) * 0.01) if further else None
        self.bias = nn.Parameter(torch.zeros(words))

    @property
    def weight(self) -> Tensor:
        """The table (V, E) of the target embedding, or (V, H) with the further columns."""
        table = self._embedding[0].weight
        return table if self.further is None else torch.cat([table, self.further], dim=1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits (N, V) for hidden (N, H), in autocast's dtype or float32."""
        return functional.linear(hidden, self.weight, self.bias)


def sinusoid(positions: Tensor, width: int, *, formula: bool) -> Tensor:
    """Vectors (..., width) for positions (...) counted from 0: sines in the first half, cosines in the second.

    Vaswani et al. 2017, section 3.5, arranged as in their code: the wavelengths go from 2 pi to exactly
    10000 * 2 pi, so that the frequency of pair i is 10000^(-i / (width / 2 - 1)). With ``formula`` it is as
    printed, 10000^(-i / (width / 2)).
    """
    half = width // 2
    exponent = torch.arange(half, device=positions.device) / (half if formula else max(half - 1, 1))
    angle = positions.unsqueeze(-1) * torch.pow(10000.0, -exponent)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)
