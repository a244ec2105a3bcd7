"""Ancestral sampling: translations sampled word by word from a Scorer's distribution."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.ops.best import whole
from nmtkit.ops.tree import select
from nmtkit.search.beam import Hypothesis, sent
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import Search
from nmtkit.symbols import BOS, EOS, UNK


@torch.inference_mode()
def sample(
    scorer: Scorer, src: Tensor, src_mask: Tensor, config: Search, generators: Sequence[np.random.Generator], n: int
) -> list[list[Hypothesis]]:
    """n independent translations of each sentence, the most probable first; src and src_mask (B, S) or (B, D, S).

    Each sentence has its own random generator, so the other sentences of the batch affect only the rounding of its
    log-probabilities, which occasionally changes a word. PAD and BOS are never drawn; at the maximum length of
    ``config`` EOS is forced. Log-probabilities are the scorer's own. Raises UserError if they are NaN.
    """
    lengths: list[int] = (src_mask if src_mask.dim() == 2 else src_mask[:, 0]).sum(1).tolist()
    longest = np.array([config.longest(length - 1) for length in lengths for _ in range(n)])  # (N,), N = B * n
    drawn: list[list[int]] = [[] for _ in longest]
    log_probs: list[list[float]] = [[] for _ in longest]
    memory, state = scorer.begin(src, src_mask)
    state = select(state, torch.arange(len(lengths), device=src.device).repeat_interleave(n))
    words = torch.full((len(longest),), BOS, device=src.device)
    never = torch.tensor([UNK], device=src.device)
    for step in itertools.count():
        found, state, _ = scorer.step(memory, state, words)
        scores = whole(found)
        likely = scores if config.unk else scores.index_fill(1, never, -torch.inf)
        sums = likely[:, EOS:].double().softmax(dim=-1).cumsum(dim=-1)  # without PAD and BOS, the ids below EOS
        chance = sent(np.concatenate([generator.random(n) for generator in generators]), src.device)
        words = EOS + torch.searchsorted(sums, (chance * sums[:, -1])[:, None], right=True).squeeze(1)
        words.clamp_(max=scores.size(1) - 1)
        words.masked_fill_(sent(longest == step, src.device), EOS)
        chosen = scores.gather(1, words[:, None]).squeeze(1)
        # One transfer to the host per step; float64 holds ids and float32 exactly.
        results = torch.stack([words.double(), chosen.double(), sums[:, -1]], dim=1).tolist()
        for row, (word, log_prob, total) in enumerate(results):
            if math.isnan(total):
                raise UserError("the model's log-probabilities are NaN; its training has probably diverged")
            if not drawn[row] or drawn[row][-1] != EOS:
                drawn[row].append(int(word))
                log_probs[row].append(log_prob)
        if all(ids[-1] == EOS for ids in drawn):
            break
    hypotheses = [
        Hypothesis(ids[:-1], config.score(sum(each), len(ids)), each, None)
        for ids, each in zip(drawn, log_probs, strict=True)
    ]
    return [sorted(hypotheses[i : i + n], key=lambda h: -h.score) for i in range(0, len(hypotheses), n)]
