"""Unknown words: where in the source they come from, and what to say instead (PosUnk, Luong et al. 2015).

An unknown target word at place j that is aligned to the source word at place i is ``unkpos_d`` with d = j - i, if
that is at most 7 places away; else ``unkpos_null``. Places are those of words, counted over the sentence.
"""

from collections.abc import Iterable, Mapping, Sequence

from nmtkit.align.pharaoh import Link
from nmtkit.symbols import FARTHEST, SPELLINGS, UNK, UNKPOS

UNKNOWN = frozenset((SPELLINGS[UNK], *UNKPOS))  # every spelling of an unknown word

_DISTANCES = {spelling: d for d, spelling in enumerate(UNKPOS[:-1], -FARTHEST)}
_NULL = UNKPOS[-1]


def nearest(links: Iterable[Link]) -> dict[int, int]:
    """For each linked target word one source word: the nearest place, of two as near the left one (our ruling)."""
    # Of equal keys the last one stays in a dictionary, so the nearest comes last.
    return dict(sorted(((t, s) for s, t in links), key=lambda link: (-abs(link[0] - link[1]), -link[1])))


def annotate(ids: Sequence[int], links: Iterable[Link]) -> list[int]:
    """The ids of a target sentence in which every UNK says where it comes from."""
    source = nearest(links)
    return [_annotation(t, source.get(t)) if id == UNK else id for t, id in enumerate(ids)]


def _annotation(t: int, s: int | None) -> int:
    """The id of the symbol for an unknown word at place t that comes from the source word at place s, if from any."""
    if s is None or abs(t - s) > FARTHEST:
        return len(SPELLINGS) + UNKPOS.index(_NULL)
    return len(SPELLINGS) + FARTHEST + t - s


def replace_unknown(
    target: Sequence[str],
    links: Iterable[Link],
    read: Sequence[str],
    written: Sequence[str],
    lexicon: Mapping[str, str],
) -> list[str]:
    """``target`` with its unknown words replaced by the translation, else by a copy, of the source word of each.

    An ``unkpos_d`` says itself where that is, a plain ``<unk>`` has it from ``links``. ``read`` are the source words
    as the lexicon spells them, ``written`` as the user did. Where there is no such place, ``<unk>`` stays.
    """
    source = nearest(links)
    result = list(target)
    for t, word in enumerate(target):
        if word in UNKNOWN:
            s = source.get(t, -1) if word == SPELLINGS[UNK] else _place(word, t)
            result[t] = lexicon.get(read[s], written[s]) if 0 <= s < len(read) else SPELLINGS[UNK]
    return result


def _place(symbol: str, t: int) -> int:
    """The place in the source that a symbol of ``UNKPOS`` at place t names; it may be outside the sentence."""
    return -1 if symbol == _NULL else t - _DISTANCES[symbol]
