"""The work of a search worker: batches of sentences in, answers out.

A worker is a process, or the only search thread. It also serialises the answers, to keep the event loop responsive.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from nmtkit.documents.alignment import Aligned, align
from nmtkit.documents.placeholders import stand_ins
from nmtkit.errors import UserError
from nmtkit.search.ensemble import Ensemble
from nmtkit.translation.formats import json_values
from nmtkit.translation.jobs import Models, load_here
from nmtkit.translation.request import Request
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator


class Offer(NamedTuple):
    """A translator to serve: its public name, and the models to load, ``resolved`` at the start."""

    name: str
    models: Models


class ModelLost(UserError):
    """A process that replaces a killed worker cannot load the same models."""


class Description(NamedTuple):
    """What clients see of a translator."""

    name: str
    source: str  # language, as in ISO 639-1
    target: str
    members: int  # models of an ensemble
    megabytes: float  # of weights
    attention: bool  # whether it has attention weights
    beam_size: int
    lexicon: bool  # for unknown words
    stand_ins: tuple[str, ...]  # for placeholders


class Kind(NamedTuple):
    """What sentences of one batch must have in common."""

    model: str
    request: Request
    full: bool  # with tokens, scores, attention ..., or text only


class Batch(NamedTuple):
    """Sentences that are searched together."""

    kind: Kind
    sentences: Sequence[str]
    targets: Sequence[str] | None  # a prefix or reference of each


class Answer(NamedTuple):
    """The translations of a sentence."""

    texts: list[str]  # best first
    aligned: list[Aligned]  # the same, with words only if attention was requested; none if ``full``
    fields: str  # JSON fields `"tokens": [...], "translations": [...]` if ``full``, else empty


@lru_cache(maxsize=1)
def translators_of(offers: tuple[Offer, ...]) -> dict[str, Translator]:
    """The translators of this process by name, loaded once.

    Raises UserError for models that cannot be used, or that were replaced since the start.
    """
    translators = {}
    for name, models in offers:
        translators[name] = translator = load_here(models)
        if models.checksum() != models.sums:
            raise UserError(f"{translator.name}: has changed since the server was started; restart it")
        if translator.lexicon is not None:
            _ = translator.lexicon.best  # load it now; it is lazy, and the folder may be deleted
    return translators


def describe(offers: tuple[Offer, ...], request: Request) -> list[Description]:
    """A description of each translator, after a test translation.

    Raises UserError for models that cannot be used, or not with the server's ``request``.
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
                *translator.languages,
                len(model.members) if isinstance(model, Ensemble) else 1,
                round(translator.model_bytes / 1e6, 1),
                translator.has_attention,
                request.search(translator.search).beam_size,
                translator.lexicon is not None,
                stand_ins(translator),
            )
        )
    return descriptions


def search(offers: tuple[Offer, ...], batch: Batch) -> list[Answer]:
    """The answer to each sentence of a batch. Raises UserError like ``Translator.answer``, and ModelLost."""
    kind = batch.kind
    try:
        translator = translators_of(offers)[kind.model]
    except UserError as error:
        raise ModelLost(str(error)) from None
    found = translator.answer(batch.sentences, kind.request, batch.targets)
    return [
        Answer(
            [each.text for each in best],
            [] if kind.full else [align(translator, sentence, each) for each in best],
            _fields(best) if kind.full else "",
        )
        for sentence, best in zip(batch.sentences, found, strict=True)
    ]


def _fields(best: list[Translation]) -> str:
    """The tokens and translations of a sentence as JSON fields."""
    values = {"tokens": best[0].source, "translations": [_values(translation) for translation in best]}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))[1:-1]


def _values(translation: Translation) -> dict[str, Any]:
    """A translation with everything that was requested."""
    values, weights = json_values(translation), translation.attention  # a property that computes it
    if weights is not None:
        values["attention"] = [[round(each, 3) for each in row] for row in weights.tolist()]
    return values
