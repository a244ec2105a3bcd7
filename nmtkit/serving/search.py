"""What a worker does: batches of sentences in, answers out, with its own translators.

A worker is a process, or the only thread that searches. What it hands back is made ready for the client, so that the
event loop only puts pieces together.
"""

import json
import math
import multiprocessing
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from nmtkit.errors import UserError
from nmtkit.search.ensemble import Ensemble
from nmtkit.translation import loading
from nmtkit.translation.jobs import Models
from nmtkit.translation.request import Request
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator


class Offer(NamedTuple):
    """A translator that is offered: the name that clients know it by, and the models to load."""

    name: str
    models: Models


class Description(NamedTuple):
    """What clients are told of a translator."""

    name: str
    source: str  # language, as in ISO 639-1
    target: str
    members: int  # models of an ensemble
    megabytes: float  # of weights
    attention: bool  # whether it says which source words it looks at
    beam_size: int
    lexicon: bool  # for unknown words


class Batch(NamedTuple):
    """Sentences that are searched together."""

    model: str
    request: Request
    full: bool  # whether everything about each translation is asked for, or its text alone
    sentences: Sequence[str]
    beside: Sequence[str] | None  # a prefix or reference of each


class Answer(NamedTuple):
    """The translations of a sentence."""

    texts: list[str]  # best first
    fields: str  # JSON of all about the sentence but its place: `"tokens": [...], "translations": [...]`; or empty


@lru_cache(maxsize=1)
def translators_of(offers: tuple[Offer, ...]) -> dict[str, Translator]:
    """The translators of this process by their names, loaded once, so that their folders may go afterwards.

    Raises UserError for models that cannot be used.
    """
    if multiprocessing.parent_process():  # a worker, which has a core of its own
        torch.set_num_threads(1)
    translators = {offer.name: loading.load(*offer.models) for offer in offers}
    for translator in translators.values():
        if translator.lexicon is not None:
            _ = translator.lexicon.best  # read now: it would be read when it is first needed
    return translators


def describe(offers: tuple[Offer, ...], request: Request) -> list[Description]:
    """A description of each translator, after it has translated a word.

    Raises UserError for models that cannot be used, or not for what ``request``, the server's own, asks.
    """
    descriptions = []
    for name, translator in translators_of(offers).items():
        try:
            translator.answer(["a"], request)
        except UserError as error:
            raise UserError(f"{translator.name}: {error}") from None
        model = translator.model
        descriptions.append(
            Description(
                name,
                translator.sources[0].pipeline.side.language,
                translator.tgt_pipeline.side.language,
                len(model.members) if isinstance(model, Ensemble) else 1,
                round(translator.model_bytes / 1e6, 1),
                _looks(translator),
                request.search(translator.search).beam_size,
                translator.lexicon is not None,
            )
        )
    return descriptions


def search(offers: tuple[Offer, ...], batch: Batch) -> list[Answer]:
    """The answer to each sentence of a batch. Raises UserError as ``Translator.answer`` does."""
    translator = translators_of(offers)[batch.model]
    return [
        Answer([each.text for each in best], _fields(best) if batch.full else "")
        for best in translator.answer(batch.sentences, batch.request, batch.beside)
    ]


def _looks(translator: Translator) -> bool:
    """Whether the model has attention weights, which only a translation shows."""
    try:
        [[best]] = translator.answer(["a"], Request(attention=True))
    except UserError:
        return False
    return best.looks is not None


def _fields(best: list[Translation]) -> str:
    """The tokens and the translations of a sentence as the inside of a JSON object."""
    values = {"tokens": best[0].source, "translations": [_values(translation) for translation in best]}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))[1:-1]


def _values(translation: Translation) -> dict[str, Any]:
    """Everything about a translation. What was not asked for is not there; JSON has no infinity, which is null."""
    values: dict[str, Any] = {
        "text": translation.text,
        "score": _finite(translation.score),
        "tokens": translation.tokens,
        "log_probs": [_finite(each) for each in translation.log_probs],
        "pieces": translation.pieces,
    }
    if translation.alignment is not None:
        values["alignment"] = translation.alignment
    weights = translation.attention  # made anew each time that it is asked for
    if weights is not None:
        values["attention"] = [[round(each, 3) for each in row] for row in weights.tolist()]
    if translation.unknown is not None:
        values["unknown"] = translation.unknown._asdict()
    if translation.replaced is not None:
        values["replaced"] = [
            {
                "token": token,
                "by": translation.written[token],
                "how": "translated" if translated else "copied",
                "source": source,
            }
            for token, source, translated in translation.replaced
            if source is not None
        ]
    return values


def _finite(score: float) -> float | None:
    """A score with four decimals, None for an infinite one."""
    return round(score, 4) if math.isfinite(score) else None
