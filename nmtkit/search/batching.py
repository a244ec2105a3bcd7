"""Beam search or sampling over any number of sentences, sorted by length into batches of limited tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.machine.memory import in_halves
from nmtkit.ops.padding import pad
from nmtkit.search.beam import Hypothesis, beam_search
from nmtkit.search.constraints import Automaton, Constraints
from nmtkit.search.sampling import sample
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import Search
from nmtkit.search.shortlist import Shortlist, Shortlists
from nmtkit.symbols import PAD

SHORT = 16  # a shorter sentence counts as this many tokens, because the output layer costs the same for each row


class Targets(NamedTuple):
    """Restrictions on the target words of each sentence."""

    shortlists: Shortlists | None = None  # which words a batch may use, besides those of prefixes and terms
    constraints: Constraints | None = None  # which terms a translation must contain

    def shortlist(self, batch: list[int], prefixes: Sequence[Sequence[int]]) -> Shortlist | None:
        """The shortlist of a batch."""
        given = [] if self.constraints is None else self.constraints.words(batch)
        return None if self.shortlists is None else self.shortlists.of(batch, [*prefixes, *given])

    def automata(self, batch: list[int], shortlist: Shortlist | None) -> list[Automaton] | None:
        """The automata of the terms of a batch."""
        places = None if shortlist is None else shortlist.places
        return None if self.constraints is None else self.constraints.automata(batch, places)

    def lacking(self, i: int, best: list[Hypothesis]) -> bool:
        """Whether a translation of sentence i lacks a term."""
        return self.constraints is not None and not all(self.constraints.met(i, each.ids) for each in best)


NO_TARGETS = Targets()


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
    targets: Targets = NO_TARGETS,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each sentence's index and up to n_best hypotheses, best first, as soon as its batch is done; empty ones first.

    A generator, so that the caller need not hold the attention weights of all sentences. Sentences are source ids
    without EOS; an empty one has one hypothesis, empty. forced: see ``beam_search``. seed: sample n_best translations
    instead, see ``sample``. others: the same sentences in the other segmentations that members of an ensemble read. A
    batch that does not fit into memory is searched again in halves. Raises UserError where ``beam_search`` does, when
    n_best exceeds the beam size, and when one sentence alone does not fit into memory.
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
    # Terms constrain only the search of sentences whose unconstrained translations lack one.
    for constrained in (False, True):
        batches, lacking = list(token_batches(lengths, config.max_tokens // config.beam_size)), set[int]()
        for batch, attempt in in_halves(reversed(batches), too_large):  # largest first, so that memory runs out early
            with attempt:
                src, src_mask = (x.to(device) for x in stack([[s[i] for i in batch] for s in (sentences, *others)]))
                prefixes = [forced[i] for i in batch] if forced else None
                shortlist = targets.shortlist(batch, prefixes or [])
                narrow = scorer if shortlist is None else shortlist.over(scorer, device)
                if prefixes and shortlist:
                    prefixes = [[shortlist.places[word] for word in prefix] for prefix in prefixes]
                if seed is None:
                    automata = targets.automata(batch, shortlist) if constrained else None
                    best = beam_search(
                        narrow, src, src_mask, config, n_best=n_best, attention=attention, forced=prefixes,
                        automata=automata,
                    )  # fmt: skip
                else:
                    drawn = [np.random.default_rng([seed, *sentences[i]]) for i in batch]
                    best = sample(narrow, src, src_mask, config, drawn, n_best)
                for i, found in zip(batch, shortlist.widened(best) if shortlist else best, strict=True):
                    if not constrained and targets.lacking(i, found):
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
