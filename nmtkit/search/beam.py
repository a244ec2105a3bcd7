"""Batched beam search over a Scorer, independent of any model.

The rule is that of GroundHog, the code of Bahdanau et al. 2015: a finished hypothesis keeps its slot, so with f of K
slots finished the best K - f continuations survive, and a sentence is done when all K slots are finished, or earlier if
no living hypothesis can still enter the n best. With ``narrowing: false`` the rule is that of fairseq and
tensor2tensor: of the 2K best continuations those among the first K that end are finished, and the first K others
survive, until K are finished.

Letters: B sentences still searched, K slots, N = B * width rows (width: the most hypotheses alive in one
sentence, 1 at first and K at most), S source, V words.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.ops.best import LogProbs, whole
from nmtkit.ops.best import best as best_of
from nmtkit.ops.tree import select
from nmtkit.search.constraints import Automaton, Tracked
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import Search
from nmtkit.symbols import BOS, EOS, PAD, UNK

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

LOWEST = -1e4  # the least log P of a forced word, so that every hypothesis can be finished
ROUNDING = 1e-3  # how far rounding may lift a log-probability above 0


class Hypothesis(NamedTuple):
    """A finished translation of one sentence, in ids of target words."""

    ids: list[int]  # T words, without EOS
    score: float  # the sum of log_probs under the length and coverage penalties
    log_probs: list[float]  # (T + 1,) of the words and EOS, also where EOS was forced
    attention: Floats | None  # (T + 1, S) attention weights of each word and EOS; S counts the source's EOS


class _Candidates(NamedTuple):
    """The K best continuations of every sentence by one word, best first; arrays, because a step has B * K of them."""

    log_probs: Floats  # (B, K), -inf where there are fewer
    rows: Integers  # (B, K) the rows, of N, that they continue
    words: Integers  # (B, K)


class _Ending(NamedTuple):
    """A finished hypothesis: the place in the history from which its words are traced back."""

    score: float
    log_prob: float
    step: int
    row: int  # the one that was continued with EOS


class _Step(NamedTuple):
    """The inputs and attention weights of one step, from which any row can be traced back to the first step."""

    words: Integers  # (N,) previous words
    log_probs: Floats  # (N,) of the hypotheses up to these words
    parents: Integers  # (N,) rows of the step before
    attention: Floats | None  # (N, S)


@torch.inference_mode()
def beam_search(
    scorer: Scorer,
    src: Tensor,
    src_mask: Tensor,
    config: Search,
    *,
    n_best: int = 1,
    attention: bool = False,
    forced: Sequence[Sequence[int]] | None = None,
    automata: Sequence[Automaton] | None = None,
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses for each sentence, best first; at least one.

    src (B, S) and src_mask (B, S) are as for ``Scorer.begin``, (B, D, S) for D sources. At the longest length EOS is
    forced, at its log-probability. PAD and BOS are never produced. forced: the words with which each translation must
    begin; if EOS is the last one, they are the whole translation. automata: of the terms that translations must
    contain; the beam narrows then. Raises UserError when the scorer gives no usable probabilities, or no attention for
    the coverage penalty.
    """
    lengths: list[int] = (src_mask if src_mask.dim() == 2 else src_mask[:, 0]).sum(1).tolist()  # of the first source
    prefixes = forced or [()] * len(lengths)
    longest = [max(config.longest(n - 1), len(p)) for n, p in zip(lengths, prefixes, strict=True)]
    endings, history = [list[_Ending]() for _ in longest], list[_Step]()
    searched = list(range(len(longest)))  # (B,) the sentences still in the batch
    words, parents, alive = np.full(len(src), BOS), np.arange(len(src)), np.zeros(len(src), np.float32)  # (N,) each
    attention = attention or config.coverage_penalty > 0
    # One block, because many small arrays among large temporary ones would fragment memory.
    block = np.empty((max(longest) + 1, len(src) * config.beam_size, src.size(-1)), np.float32) if attention else None
    memory, state = scorer.begin(src, src_mask)
    terms = None if automata is None else Tracked.begin(automata, longest)
    narrowing = config.narrowing or terms is not None  # banks share the free slots

    for step in itertools.count():
        log_probs, state, weights = scorer.step(memory, state, sent(words, src.device))
        history.append(_Step(words, alive, parents, _copied(weights, block, step)))

        only = [_only(prefixes[sentence], step, longest[sentence]) for sentence in searched]
        slots = [config.beam_size - len(endings[sentence]) for sentence in searched]
        found = _candidates(log_probs, alive, only, config.beam_size * (2 - narrowing), config.unk, slots, terms)
        living, ending_places = _divided(found, slots, config.beam_size, narrowing)
        for i, column in ending_places:
            ending = float(found.log_probs[i, column]), int(found.rows[i, column])
            endings[searched[i]].append(_end(*ending, config, history, lengths[searched[i]]))
        for i, sentence in enumerate(searched):
            if len(ended := endings[sentence]) >= n_best:
                best = float(found.log_probs[i, living[i].argmax()])  # of the unfinished ones, if any
                living[i] &= not _settled(ended, best, n_best, config, config.reach(step + 1, longest[sentence]))

        (kept,) = np.nonzero(living.any(axis=1))
        if not len(kept):
            break
        if len(kept) < len(searched):  # finished sentences leave the batch
            searched = [searched[i] for i in kept]
            memory = select(memory, sent(kept, src.device))
        words, parents, alive = _rows(found, living, kept)
        terms = terms and terms.after(kept, parents, words)
        if not np.array_equal(parents, np.arange(len(history[-1].words))):  # in greedy search, rows mostly stay
            state = select(state, sent(parents, src.device))

    return _finished(endings, n_best, history, lengths, block)


def _finished(
    endings: list[list[_Ending]], n_best: int, history: list[_Step], lengths: list[int], block: Floats | None
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses for each sentence, best first. block: attention weights of all steps, if requested."""
    if not all(endings):
        raise UserError("every continuation has probability zero; is the model trained?")
    ranked = [sorted(ended, key=lambda ending: -ending.score)[:n_best] for ended in endings]
    looks = None if history[0].attention is None else block
    return [[_trace(history, e, length, looks) for e in ended] for ended, length in zip(ranked, lengths, strict=True)]


def _divided(
    found: _Candidates, slots: list[int], beam_size: int, narrowing: bool
) -> tuple[npt.NDArray[np.bool_], list[tuple[int, int]]]:
    """Which candidates survive (B, k), and the places (sentence, column) of those that are finished.

    slots (B,): the number of hypotheses of each sentence that are not finished yet.
    """
    left = np.array(slots)[:, None]
    possible, ends = found.log_probs > -np.inf, found.words == EOS
    columns = np.arange(found.words.shape[1])
    if narrowing:
        fitting = possible & (columns < left)
        ending, living = fitting & ends, fitting & ~ends
    else:
        ending = possible & ends & (columns < beam_size)
        ending &= ending.cumsum(axis=1) <= left
        living = possible & ~ends & (ending.sum(axis=1, keepdims=True) < left)
        living &= living.cumsum(axis=1) <= beam_size
    sentences, places = ending.nonzero()
    return living, list(zip(sentences.tolist(), places.tolist(), strict=True))


def _only(prefix: Sequence[int], step: int, longest: int) -> int | None:
    """The forced word of this step: the prefix's, or EOS at the maximum length; None if the model chooses."""
    if step < len(prefix):
        return prefix[step]
    return EOS if step == longest else None


def sent(numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
    """These numbers (of any shape) copied to the device asynchronously."""
    return torch.from_numpy(numbers).to(device, non_blocking=True)


def _candidates(
    log_probs: LogProbs, alive: Floats, only: list[int | None], k: int, unk: bool, slots: list[int],
    terms: Tracked | None,
) -> _Candidates:  # fmt: skip
    """The k best continuations of every sentence, or those to which its banks give its slots (B,).

    UNK is among the best only if ``unk``. log_probs (N, V), alive (N,) log P, only (B,).
    """
    width = len(alive) // len(only)
    # PAD and BOS, the ids below EOS, are never candidates. K words of each row are enough to find K of all its rows,
    # and one more for each word that may be excluded: UNK, and EOS where terms are missing.
    best, words = best_of(log_probs, k + (not unk) + (terms is not None), EOS)  # sorted; NaN comes first
    if not unk:
        best = best.masked_fill(words == UNK, -torch.inf)
    own = best.size(1)
    if terms is not None or any(word is not None for word in only):  # in extra columns
        must = np.repeat([PAD if word is None else word for word in only], width)[:, None]  # (N, 1)
        more = sent(must if terms is None else np.hstack([terms.proposed(), must]), words.device)
        best, words = torch.cat([best, whole(log_probs).gather(1, more)], dim=1), torch.cat([words, more], dim=1)
    if best.device.type != "cpu":
        # One transfer to the host; float64 holds ids and float32 exactly.
        best, words = torch.stack([best.double(), words.double()]).cpu()
        best, words = best.float(), words.long()
    if not bool((best[:, 0] <= ROUNDING).all()):
        raise UserError(
            "the model's log-probabilities are NaN or above zero; "
            "its training has probably diverged: use an earlier checkpoint"
        )
    if best.size(1) > own:
        more = words[:, own:]
        # A proposed word that is also among the best counts only once.
        best[:, :own].masked_fill_((words[:, :own, None] == more[:, None]).any(dim=2), -torch.inf)
        best[:, own:].clamp_(min=LOWEST).masked_fill_(more == PAD, -torch.inf)
        for of_it, word in zip(best.split(width), only, strict=True):  # the rows of a sentence
            if word is not None:
                of_it[:, :-1] = -torch.inf
    total = torch.from_numpy(alive).float()[:, None] + best
    found = _best_of_sentences(total, words, len(only), k)
    if terms is not None:
        _allocate(found, total, words, terms, only, slots, k)
    return found


def _best_of_sentences(total: Tensor, words: Tensor, sentences: int, k: int) -> _Candidates:
    """The k best candidates of every sentence; total and words: (N, C) of all."""
    # A stable sort, so that ties do not depend on the width, which other sentences of the batch determine.
    best, chosen = (x[:, :k] for x in total.view(sentences, -1).sort(stable=True, descending=True))  # (B, k)
    firsts = torch.arange(0, len(total), len(total) // sentences)[:, None]  # rows (B, 1)
    rows = chosen // total.size(1) + firsts
    return _Candidates(best.numpy(), rows.numpy(), words.view(sentences, -1).gather(1, chosen).numpy())


def _allocate(
    found: _Candidates, total: Tensor, words: Tensor, terms: Tracked, only: list[int | None], slots: list[int], k: int
) -> None:
    """Replace the candidates of every sentence by those that have a slot in its banks; forced words have no banks.

    total and words: (N, C) of all. only and slots: (B,). A hypothesis is finished where slots are fewer than k.
    """
    width = len(total) // len(only)
    for i in (i for i, word in enumerate(only) if word is None):
        own = slice(i * width, (i + 1) * width)
        log_probs, choices = total[own].numpy(), words[own].numpy()
        chosen = np.array(terms.allocate(i, log_probs, choices, slots[i], ended=slots[i] < k), np.int64)
        found.log_probs[i] = -np.inf
        found.log_probs[i, : len(chosen)] = log_probs.ravel()[chosen]
        found.rows[i, : len(chosen)] = own.start + chosen // total.size(1)
        found.words[i, : len(chosen)] = choices.ravel()[chosen]


def _rows(found: _Candidates, living: npt.NDArray[np.bool_], kept: Integers) -> tuple[Integers, Integers, Floats]:
    """Words, the rows they continue, and log P, (N,) each, of the survivors; living (B, K), kept (B',).

    All sentences have the same number of rows, so missing rows are copies of the best one with log P -inf.
    """
    living = living[kept]
    counts = living.sum(axis=1)
    width = counts.max()
    order = (~living).argsort(axis=1, kind="stable")[:, :width]  # (B', width), survivors first
    dead = np.arange(width) >= counts[:, None]
    places = kept[:, None], np.where(dead, order[:, :1], order)
    alive = np.where(dead, np.float32(-np.inf), found.log_probs[places])
    return found.words[places].ravel(), found.rows[places].ravel(), alive.ravel()


def _copied(weights: Tensor | None, block: Floats | None, step: int) -> Floats | None:
    """The attention weights (N, S) of a step, copied into ``block`` (steps, rows, S); None if either is missing."""
    if weights is None or block is None:
        return None
    place = block[step, : len(weights), : weights.size(1)]  # S of the first source; an ensemble's others may be longer
    place[:] = weights.float().cpu().numpy()
    return place


def _end(log_prob: float, row: int, config: Search, history: list[_Step], length: int) -> _Ending:
    """The hypothesis that continues this row of the last step with EOS. length: S of its source."""
    score = config.score(log_prob, len(history))
    if config.coverage_penalty:
        score += config.coverage_penalty * _coverage(history, row, length)
    return _Ending(score, log_prob, len(history) - 1, row)


def _settled(ended: list[_Ending], best: float, n_best: int, config: Search, reach: int) -> bool:
    """True if no living hypothesis, with log P ``best`` at most, can still enter the n best finished ones.

    log P only falls, and no length scores higher than ``reach``.
    """
    scores = sorted((ending.score for ending in ended), reverse=True)
    return scores[n_best - 1] >= config.score(best, reach)


def _path(history: list[_Step], row: int) -> Iterator[tuple[_Step, int]]:
    """Every step with its row, from this row of the last one back to the first."""
    for step in reversed(history):
        yield step, row
        row = int(step.parents[row])


def coverage(attention: Iterable[Floats]) -> float:
    """sum_j log min(sum_t attention_tj, 1) over the source words (Wu et al. 2016, eq. 14): 0 if all were covered.

    attention: (S,) for each target word and EOS, the last one first (rounding depends on the order), without the
    source's EOS.
    """
    return float(np.log(np.clip(sum(attention), 1e-10, 1)).sum())


def _coverage(history: list[_Step], row: int, length: int) -> float:
    """The coverage of the hypothesis that ends with this row of the last step; length: S of its source."""
    if history[-1].attention is None:
        raise UserError("the coverage penalty needs attention, and this model has none")
    path = [(step.attention, row) for step, row in _path(history, row)]
    return coverage([attention[row, : length - 1] for attention, row in path if attention is not None])


def _trace(history: list[_Step], ending: _Ending, length: int, block: Floats | None) -> Hypothesis:
    """The hypothesis of an ending, by following the back-pointers to the first step.

    length: S of its source. block: attention weights (steps, rows, S) of all steps, if the scorer gives some.
    """
    ids, sums, rows = list[int](), [ending.log_prob], list[int]()
    for step, row in _path(history[: ending.step + 1], ending.row):
        ids.append(int(step.words[row]))
        sums.append(float(step.log_probs[row]))
        rows.append(row)
    # One indexing operation, because row by row would take longer than the rest of replacing unknown words.
    attention = None if block is None else block[np.arange(len(rows)), rows[::-1], :length]
    log_probs = [after - before for before, after in itertools.pairwise(sums[::-1])]
    return Hypothesis(ids[-2::-1], ending.score, log_probs, attention)  # without BOS, the last one found
