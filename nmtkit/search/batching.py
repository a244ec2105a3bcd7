"""Beam search or sampling over any number of sentences, sorted by length into batches of limited tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.machine.memory import in_halves
from nmtkit.ops.padding import pad
from nmtkit.search.beam import Hypothesis, beam_search
from nmtkit.search.constraints import Constraints
from nmtkit.search.sampling import sample
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import Search
from nmtkit.search.shortlist import Shortlists
from nmtkit.symbols import PAD

SHORT = 16  # a shorter sentence counts as this many tokens, because the output layer costs the same for each row


def translate_each(
    scorer: Scorer,
    sentences: Sequence[Sequence[int]],
    config: Search,
    *,
    device: torch.device,
    n_best: int = 1,
    attention: bool = False,
    forced: Sequence[Sequence[int]] | None = None,
    seed: int | None = None,
    others: Sequence[Sequence[Sequence[int]]] = (),
    shortlists: Shortlists | None = None,
    constraints: Constraints | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each sentence's index and up to n_best hypotheses, best first, as soon as its batch is done; empty ones first.

    A generator, so that the caller need not hold the attention weights of all sentences. Sentences are source ids
    without EOS; an empty one has one hypothesis, empty. forced: see ``beam_search``. seed: sample n_best translations
    instead, see ``sample``. others: the same sentences in the other segmentations that members of an ensemble read.
    shortlists: the target words each batch may use, in addition to those of ``forced`` and ``constraints``.
    constraints: the terms that translations must contain. A batch that does not fit into memory is searched again in
    halves. Raises UserError where ``beam_search`` does, when n_best exceeds the beam size, and when one sentence alone
    does not fit into memory.
    """
    if seed is not None:
        config = replace(config, beam_size=n_best)
    if n_best > config.beam_size:
        raise UserError(f"{n_best} best translations need a beam size of at least {n_best}, not {config.beam_size}")
    yield from ((i, [Hypothesis([], 0.0, [0.0], None)]) for i, sentence in enumerate(sentences) if not sentence)

    def too_large(batch: list[int]) -> str:
        return (
            f"a sentence of {len(sentences[batch[0]])} tokens does not fit into the memory of {device} "
            f"with a beam of {config.beam_size}; use a smaller beam or the cpu"
        )

    lengths = [len(sentence) for sentence in sentences]
    # The terms constrain the search of a sentence only if its translations lack one without that.
    for constrained in (False, True):
        batches, lacking = list(token_batches(lengths, config.max_tokens // config.beam_size)), set[int]()
        # The largest first, so that running out of memory shows at once.
        for batch, attempt in in_halves(reversed(batches), too_large):
            with attempt:
                src, src_mask = (
                    tensor.to(device)
                    for tensor in stack([[source[i] for i in batch] for source in (sentences, *others)])
                )
                prefixes: Sequence[Sequence[int]] | None = None if forced is None else [forced[i] for i in batch]
                narrow, places = scorer, None
                if shortlists is not None:
                    given = () if constraints is None else constraints.words(batch)
                    shortlist = shortlists.of(batch, [*(prefixes or ()), *given])
                    narrow, places = shortlist.over(scorer, device), shortlist.places
                    prefixes = None if prefixes is None else [[places[word] for word in prefix] for prefix in prefixes]
                if seed is None:
                    automata = constraints.automata(batch, places) if constraints and constrained else None
                    best = beam_search(
                        narrow, src, src_mask, config, n_best=n_best, attention=attention, forced=prefixes,
                        automata=automata,
                    )  # fmt: skip
                else:
                    generators = [np.random.default_rng([seed, *sentences[i]]) for i in batch]
                    best = sample(narrow, src, src_mask, config, generators, n_best)
                for i, found in zip(batch, best if shortlists is None else shortlist.widened(best), strict=True):
                    if constrained or constraints is None or all(constraints.met(i, each.ids) for each in found):
                        yield i, found
                    else:
                        lacking.add(i)
        lengths = [length if i in lacking else 0 for i, length in enumerate(lengths)]


def token_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """The indices of all sentences that are not empty, shortest first, in batches of at most max_tokens.

    A sentence counts with its EOS and the padding to the longest of its batch. One that is longer than max_tokens is a
    batch by itself.
    """
    batch: list[int] = []
    for i in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: lengths[i]):
        if batch and (len(batch) + 1) * max(SHORT, lengths[i] + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def stack(sources: Sequence[Sequence[Sequence[int]]]) -> tuple[Tensor, Tensor]:
    """D sources of B sentences each as ``Scorer.begin`` takes them: ids that end with EOS, and their mask.

    Both are (B, S) for one source and (B, D, S) for several.
    """
    if len(sources) == 1:
        src = pad(sources[0])
    else:
        everything = pad([sentence for source in sources for sentence in source])  # (D * B, S)
        src = everything.view(len(sources), len(sources[0]), -1).transpose(0, 1)
    return src, src != PAD
