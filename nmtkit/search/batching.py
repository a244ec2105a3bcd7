"""Any number of sentences through beam search: sorted into batches of a token budget, handed back in order."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.search.beam import Hypothesis, Search, beam_search
from nmtkit.search.scorer import Scorer
from nmtkit.symbols import EOS, PAD

SHORT = 16  # a shorter sentence counts as this many tokens: each of its rows costs a whole output layer all the same


def translate_ids(
    scorer: Scorer,
    sentences: Sequence[Sequence[int]],
    config: Search,
    *,
    device: torch.device,
    n_best: int = 1,
    attention: bool = False,
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses for each sentence, best first; sentences are source ids without an end mark.

    An empty sentence has one hypothesis, empty, without asking the scorer. A batch that does not fit into
    memory is searched again in halves. Raises UserError where ``beam_search`` does, when n_best is more
    than the beam holds, and when one sentence alone does not fit into memory.
    """
    if n_best > config.beam_size:
        raise UserError(f"{n_best} best translations need a beam size of at least {n_best}, not {config.beam_size}")
    results = [[Hypothesis([], 0.0, 0.0, None)] for _ in sentences]
    batches = list(token_batches([len(sentence) for sentence in sentences], config.max_tokens // config.beam_size))
    while batches:
        batch = batches.pop()
        src, src_mask = _pad([sentences[i] for i in batch])
        try:
            found = beam_search(scorer, src.to(device), src_mask.to(device), config, n_best=n_best, attention=attention)
        except (torch.OutOfMemoryError, MemoryError):
            found = []
        if found:
            for i, hypotheses in zip(batch, found, strict=True):
                results[i] = hypotheses
        elif len(batch) > 1:  # outside the handler, whose traceback would keep the tensors alive
            batches += [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
        else:
            raise UserError(
                f"a sentence of {len(sentences[batch[0]])} tokens does not fit into the memory of {device} "
                f"with a beam of {config.beam_size}; use a smaller beam or the cpu"
            )
    return results


def token_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """The indices of all sentences that are not empty, shortest first, in batches of at most max_tokens.

    A sentence counts with its end mark and the padding to the longest of its batch. One that is longer
    than max_tokens is a batch of its own.
    """
    batch: list[int] = []
    for i in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: lengths[i]):
        if batch and (len(batch) + 1) * max(SHORT, lengths[i] + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _pad(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """src (B, S), every sentence closed with EOS, and its mask (B, S)."""
    longest = max(len(sentence) for sentence in sentences) + 1
    src = torch.tensor([[*sentence, EOS] + [PAD] * (longest - 1 - len(sentence)) for sentence in sentences])
    lengths = torch.tensor([len(sentence) + 1 for sentence in sentences])
    return src, torch.arange(longest) < lengths[:, None]
