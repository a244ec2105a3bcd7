"""Ensembles: several models as one Scorer, which averages their probabilities of the next word at every step.

Zhou et al. 2016 (section 4.4.2) take the arithmetic mean of the probabilities; Wang et al. 2017 do not say which mean
they take. Members may have any architecture and read their own segmentation of the source, but they share one target
vocabulary.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from nmtkit.ops.best import whole
from nmtkit.ops.tree import Tree
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import Combine
from nmtkit.search.shortlist import Narrowing


class Ensemble:
    """A ``Scorer`` of several members, whose weights are normalised.

    Members may read different segmentations of the source. There are D of them, and member m reads ``reads[m]``.
    """

    def __init__(
        self, members: Sequence[Scorer], reads: Sequence[int], weights: Sequence[float], combine: Combine
    ) -> None:
        self.members, self.reads, self.combine = members, reads, combine
        shares = [weight / max(weights) for weight in weights]  # the weights themselves may sum to infinity
        self.weights = [share / sum(shares) for share in shares]

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        """``Scorer.begin``: src (B, D, S), or (B, S) for one source, and its mask -> memories and states."""
        if src.dim() == 2:
            src, src_mask = src.unsqueeze(1), src_mask.unsqueeze(1)
        lengths = src_mask.sum(-1).amax(0).tolist()  # (D,): trims the padding of shorter sources
        begun = [
            member.begin(src[:, d, : lengths[d]], src_mask[:, d, : lengths[d]])
            for member, d in zip(self.members, self.reads, strict=True)
        ]
        return tuple(memory for memory, _ in begun), tuple(state for _, state in begun)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        """``Scorer.step``: previous words y (N,) -> combined log-probabilities (N, V), states, attention (N, S).

        The attention weights are the mean over the members that attend and read the first source.
        """
        memories, states = cast(tuple[Tree, ...], memory), cast(tuple[Tree, ...], state)
        steps = [member.step(m, s, y) for member, m, s in zip(self.members, memories, states, strict=True)]
        seen = [weights for (_, _, weights), d in zip(steps, self.reads, strict=True) if weights is not None and d == 0]
        attention = torch.stack(seen).mean(0) if seen else None
        return self._mean(torch.stack([whole(step[0]) for step in steps])), tuple(step[1] for step in steps), attention

    def over(self, words: Tensor) -> "Ensemble":
        """``Narrowing.over``: the ensemble restricted to the target words ``words`` (C,)."""
        members = [cast(Narrowing, member).over(words) for member in self.members]
        return Ensemble(members, self.reads, self.weights, self.combine)

    def _mean(self, log_probs: Tensor) -> Tensor:
        """Combines log_probs (M, N, V) -> (N, V); where the members agree, the result equals theirs bit for bit."""
        weights = torch.tensor(self.weights, dtype=log_probs.dtype)[:, None, None]
        weights = weights.to(log_probs.device, non_blocking=True)
        if self.combine == "logprob":
            return (log_probs * weights).sum(0) / weights.sum(0)
        best = log_probs.amax(0).clamp(min=-1e30)  # a word may have the probability 0 everywhere
        return best + (((log_probs - best).exp() * weights).sum(0) / weights.sum(0)).log()
