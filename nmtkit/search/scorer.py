"""The protocol between search and a model, an ensemble, or a table in a test."""

from typing import Protocol

from torch import Tensor

from nmtkit.ops.best import LogProbs
from nmtkit.ops.tree import Tree


class Scorer(Protocol):
    """Gives the probabilities of the next word. B sentences, K beam, N = B*K rows sentence-major, S source, V words.

    Memory is computed once per source sentence, has B rows and never changes. State has N rows and is
    passed in and returned. K is N // B and may differ from one step to the next; it is 1 at first.
    """

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        """(memory, state) for src (B, S), ids that end with EOS, and src_mask (B, S), True at real tokens.

        An ensemble whose members read D different sources takes (B, D, S).
        """

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[LogProbs, Tree, Tensor | None]:
        """(log_probs (N, V), state, attention (N, S) or None) after the previous words y (N,), BOS at first.

        Log-probabilities are float32, or logits that are not normalised yet (``best.Logits``).
        """
