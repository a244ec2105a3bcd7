"""Forced decoding: the log-probabilities of given translations.

Log-probabilities are in nats; a translation of T words has T + 1, the last for EOS. Letters: B sources, N candidates of
all sources, T target words, V words.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmtkit.machine.memory import in_halves
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.best import whole
from nmtkit.ops.cross_entropy import score
from nmtkit.ops.padding import pad
from nmtkit.ops.tree import Tree, select
from nmtkit.search.batching import stack, token_batches
from nmtkit.search.beam import Floats
from nmtkit.search.scorer import Scorer
from nmtkit.symbols import BOS

Ids = Sequence[int]


@torch.inference_mode()
def score_candidates(
    scorer: Scorer,
    sources: Sequence[Sequence[Ids]],
    candidates: Sequence[Sequence[Ids]],
    *,
    device: torch.device,
    max_tokens: int,
) -> list[list[Floats]]:
    """The log-probabilities (T + 1,) of the tokens of each candidate of every sentence.

    sources: the ids of the sentences without EOS, once for each vocabulary of an ensemble. A sentence is encoded once
    for all its candidates, and equal candidates are scored once, so that they tie. A batch has at most
    ``max_tokens`` padded target words, or one sentence; a batch that does not fit into memory is halved. Raises
    UserError for a single sentence that does not fit into memory.
    """
    # In another batch, the scores of the same candidate may differ in the last bits, which would break a tie.
    distinct = [list(dict.fromkeys(map(tuple, group))) for group in candidates]

    def too_large(batch: list[int]) -> str:
        tokens, number = len(sources[0][batch[0]]), len(distinct[batch[0]])
        return (
            f"a sentence of {tokens} tokens does not fit into the memory of {device} with its translations ({number}); "
            "leave it out or use the cpu"
        )

    results: list[list[Floats]] = [[] for _ in candidates]
    longest = [max(map(len, group), default=-1) + 1 for group in distinct]  # 0 for a sentence without candidates
    for batch, attempt in in_halves(token_batches(longest, max_tokens, list(map(len, distinct))), too_large):
        with attempt:
            src, mask = (tensor.to(device) for tensor in stack([[source[i] for i in batch] for source in sources]))
            tgt = pad([np.array(ids) for i in batch for ids in distinct[i]]).to(device)
            owners = torch.tensor([row for row, i in enumerate(batch) for _ in distinct[i]], device=device)  # (N,)
            memory, state = select(scorer.begin(src, mask), owners)
            if isinstance(scorer, Seq2Seq):  # all words at once, but without an (N, T, V) tensor
                hidden, output = scorer.unroll(memory, state, tgt).flatten(0, 1), scorer.output
                log_probs = score(hidden, output.weight, output.bias, tgt.flatten())[0].view(tgt.shape)
            else:  # an ensemble cannot unroll, because it mixes probabilities at every step
                log_probs = _stepped(scorer, memory, state, tgt)
            rows = iter(log_probs.cpu().numpy())
            for i in batch:
                found = {ids: next(rows)[: len(ids) + 1] for ids in distinct[i]}
                results[i] = [found[tuple(ids)] for ids in candidates[i]]
    return results


def _stepped(scorer: Scorer, memory: Tree, state: Tree, tgt: Tensor) -> Tensor:
    """Log-probabilities (N, T) of tgt (N, T), step by step, as in search."""
    y, columns = torch.full_like(tgt[:, 0], BOS), []
    for word in tgt.t():
        log_probs, state, _ = scorer.step(memory, state, y)
        columns.append(whole(log_probs).gather(1, word[:, None]))
        y = word
    return torch.cat(columns, dim=1)


@dataclass(frozen=True)
class CrossEntropy:
    """The cross-entropy of a test set. Tokens include EOS.

    ``<unk>`` is a token like any other, and easy to predict, so only models with the same target vocabulary and
    segmentation can be compared.
    """

    sentences: int
    tokens: int
    nats: float  # sum
    unknown: int  # of the tokens

    def units(self) -> dict[str, float]:
        """The cross-entropy in the units of the papers."""
        per_token = self.nats / self.tokens
        return {
            "nats per sentence": self.nats / self.sentences,  # Miceli Barone et al. 2017
            "nats per token": per_token,
            "bits per token": per_token / math.log(2),  # Shen et al. 2018
            "perplexity per token": math.exp(min(per_token, 700.0)),  # a float overflows above
        }


def cross_entropy(log_probs: Iterable[npt.ArrayLike], unknown: int) -> CrossEntropy:
    """The cross-entropy of sentences, given the log-probabilities (T + 1,) of their tokens, of which some are unknown.

    Log-probabilities are in nats.
    """
    sentences = [np.asarray(sentence, np.float64) for sentence in log_probs]
    nats = -float(sum(sentence.sum() for sentence in sentences))
    return CrossEntropy(len(sentences), sum(map(len, sentences)), nats, unknown)
