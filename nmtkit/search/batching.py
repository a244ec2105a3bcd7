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
    sources: Sequence[Sequence[Sequence[int]]],
    config: Search,
    *,
    device: torch.device,
    n_best: int = 1,
    attention: bool = False,
    forced: Sequence[Sequence[int]] | None = None,
    seed: int | None = None,
    shortlists: Shortlists | None = None,
    constraints: Constraints | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each sentence's index and up to n_best hypotheses, best first, as soon as its batch is done; empty ones first.

    A generator, so that the caller need not hold the attention weights of all sentences. sources: ids without EOS, once
    for each segmentation that members of an ensemble read; an empty sentence has one hypothesis, empty. forced: see
    ``beam_search``. seed: sample n_best translations instead, see ``sample``. shortlists: with the words of terms, but
    not of prefixes. constraints: the terms. A batch that does not fit into memory is searched again in halves. Raises
    UserError where ``beam_search`` does, for n_best above the beam size, and for a sentence that alone does not fit.
    """
    sentences = sources[0]
    if seed is not None:
        config = replace(config, beam_size=n_best)
    if n_best > config.beam_size:
        raise UserError(f"{n_best} best translations need a beam size of at least {n_best}, not {config.beam_size}")
    yield from ((i, [Hypothesis([], 0.0, [0.0], None)]) for i, sentence in enumerate(sentences) if not sentence)

    def too_large(batch: list[int]) -> str:
        sentence = f"a sentence of {len(sentences[batch[0]])} tokens does not fit into the memory of {device}"
        return f"{sentence} with a beam of {config.beam_size}; use a smaller beam or the cpu"

    lengths = [len(sentence) for sentence in sentences]
    # Terms constrain only the search of sentences whose unconstrained translations lack one.
    for terms in (None, constraints):
        batches, lacking = list(token_batches(lengths, config.max_tokens // config.beam_size)), set[int]()
        for batch, attempt in in_halves(reversed(batches), too_large):  # largest first, so that memory runs out early
            with attempt:
                src, src_mask = (x.to(device) for x in stack([[source[i] for i in batch] for source in sources]))
                prefixes = [forced[i] for i in batch] if forced else []
                narrow, shortlist = scorer, None
                if shortlists:
                    shortlist = shortlists.of(batch, prefixes)
                    narrow = shortlist.over(scorer, device)
                    prefixes = [[shortlist.places[word] for word in prefix] for prefix in prefixes]
                if seed is None:
                    automata = terms.automata(batch, shortlist.places if shortlist else None) if terms else None
                    best = beam_search(
                        narrow, src, src_mask, config, n_best=n_best, attention=attention, forced=prefixes,
                        automata=automata,
                    )  # fmt: skip
                else:
                    drawn = [np.random.default_rng([seed, *sentences[i]]) for i in batch]
                    best = sample(narrow, src, src_mask, config, drawn, n_best)
                for i, found in zip(batch, shortlist.widened(best) if shortlist else best, strict=True):
                    if constraints and not terms and not all(constraints.met(i, each.ids) for each in found):
                        lacking.add(i)
                    else:
                        yield i, found
        lengths = [length if i in lacking else 0 for i, length in enumerate(lengths)]


def token_batches(lengths: Sequence[int], max_tokens: int, rows: Sequence[int] | None = None) -> Iterator[list[int]]:
    """The indices of all sentences that are not empty, shortest first, in batches of at most max_tokens.

    A sentence counts with its EOS and the padding to the longest of its batch. One that is longer than max_tokens is
    alone in its batch. rows: how often each sentence counts; then lengths include EOS.
    """
    batch, count = list[int](), 0
    for i in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: lengths[i]):
        more, length = (rows[i], lengths[i]) if rows else (1, max(SHORT, lengths[i] + 1))
        if batch and (count + more) * length > max_tokens:
            yield batch
            batch, count = [], 0
        batch.append(i)
        count += more
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
