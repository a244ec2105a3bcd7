"""Request: the options of a translation, and which of them cannot be combined.

Messages have field names in backquotes, which the command line replaces with its options. This module does not import
torch, so that invalid requests are refused immediately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from nmtkit.errors import UserError
from nmtkit.options import Option, as_in, documented, mistake, option
from nmtkit.search.settings import SEARCH, LengthPenalty, Search, Stop

UnkOrigin = Literal["matched", "papers"]
Terms: TypeAlias = tuple[tuple[str, str], ...]  # source terms and their translations

FORMS = "|"  # separates alternative translations of a term
EMPTY_FORM = f"has an empty form; write text on both sides of each {FORMS}"

MOST = 10_000  # the maximum number of translations of a line, which is the maximum beam size
SEED = 1  # of samples
MAX_INPUT_LENGTH = 250  # tokens; by default, nmtkit prep removes longer sentences from the training text

# The settings of search that scoring references uses, and those that sampling uses.
_OF_SCORES = ("length_penalty", "alpha", "coverage_penalty", "max_tokens")
_OF_SAMPLES = ("length_penalty", "alpha", "max_len_a", "max_len_b", "unk", "max_tokens")
# Fields that scoring references does not support, and those that sampling does not.
_WITHOUT_SEARCH = (
    "n_best", "mbr", "sample", "seed", "prefixes", "replace_unk", "shortlist", "max_input_length", "terms",
    *(each.name for each in fields(Search) if each.name not in _OF_SCORES),
)  # fmt: skip
_WITHOUT_BEAM = (
    "mbr", "prefixes", "alignment", "attention", "replace_unk", "terms",
    *(each.name for each in fields(Search) if each.name not in _OF_SAMPLES),
)  # fmt: skip
_EXCLUDED = {"references": _WITHOUT_SEARCH, "sample": _WITHOUT_BEAM, "prefixes": ("mbr",)}  # by fields that are set


# Groups of the help, and options shared with other commands.
OUTPUT, UNKNOWN, SPEED = "Output", "Unknown words and large vocabularies", "Speed and memory"
REPLACE_UNK = Option("Replace each unknown word with the lexicon's translation of its source word, or with a copy.")


# fmt: off
@documented
@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a translation, the same for all lines. ``Request()`` requests the best translation of each.

    prefixes, references: each line comes with a prefix of its translation, or with its translation, which is scored.
    terms: source terms and their translations; a line with a term must have one of the forms separated by "|" in its
    translation. attention: request the attention weights. quality: let the model's confidence use attention. Search
    settings that are None are the model's; without n_best, a translation is the best one, as text.

    Raises UserError for values out of range and for fields that cannot be combined, so that none is silently ignored.
    """

    beam_size: int | None = as_in(Search, "beam_size")
    length_penalty: LengthPenalty | None = as_in(Search, "length_penalty")
    alpha: float | None = as_in(Search, "alpha")
    coverage_penalty: float | None = as_in(Search, "coverage_penalty")
    max_len_a: float | None = as_in(Search, "max_len_a")
    max_len_b: int | None = as_in(Search, "max_len_b")
    stop: Stop | None = as_in(Search, "stop")
    unk: bool | None = as_in(Search, "unk")
    narrowing: bool | None = as_in(Search, "narrowing")

    # Fewer if the beam has fewer.
    n_best: int | None = option(None, Option(
        "Write the N best translations of each line as 'line ||| text ||| score'.", at_least=1, at_most=MOST))
    mbr: int | None = option(None, Option(
        "Minimum Bayes risk decoding: choose the hypothesis of the beam with the highest chrF2 against the mean n-gram "
        "counts of N samples from the model, drawn with seed 1.", SEARCH, metavar="N", at_least=1, at_most=MOST))
    sample: bool = option(False, Option(
        "Sample a translation from the model instead of searching for the best.", SEARCH))
    seed: int | None = option(None, Option("Random seed for --sample.  [default: 1]", SEARCH, at_least=0))
    prefixes: bool = False
    references: bool = False
    terms: Terms | None = None
    # For each target word, the source word with the highest attention weight.
    alignment: bool = option(False, Option(
        "Write the word alignment after each translation: a tab and source-target pairs.", OUTPUT))
    attention: bool = False
    quality: bool = False
    tokenized: bool = option(False, Option(
        "Read and write tokens, segmented as in the data folder, instead of plain text.", OUTPUT))
    replace_unk: bool = option(False, REPLACE_UNK.within(UNKNOWN))
    unk_origin: UnkOrigin | None = option(None, Option(
        "How to find the source word of an unknown word: by attention alone (papers), or among the source words "
        "whose translation is not in the target vocabulary (matched).  [default: matched]", UNKNOWN))
    shortlist: int | None = option(None, Option(
        "Choose only among the N most frequent target words and the lexicon's translations of the source.", UNKNOWN,
        metavar="N", at_least=0))
    max_input_length: int | None = option(None, Option(
        f"Translate a line of more tokens than this in pieces.  [default: {MAX_INPUT_LENGTH}]", SPEED, at_least=1))
    max_tokens: int | None = as_in(Search, "max_tokens")
    # fmt: on

    def __post_init__(self) -> None:
        if wrong := mistake(self):
            name, complaint = wrong
            raise UserError(f"`{name}`{complaint}")
        if self.terms is not None:
            object.__setattr__(self, "terms", tuple(map(tuple, self.terms)))  # JSON has lists
        for pair in self.terms or ():
            if len(pair) != 2 or not all(map(str.strip, pair)):
                raise UserError(f"`terms`: {list(pair)} is not a source term and its translation")
            if not all(map(str.strip, pair[1].split(FORMS))):
                raise UserError(f"`terms`: {pair[1]!r} {EMPTY_FORM}")
        for name, needed in (("unk_origin", "replace_unk"), ("seed", "sample")):
            if getattr(self, name) is not None and not getattr(self, needed):
                raise UserError(f"`{name}`: has no effect without `{needed}`; add it")
        if self.references:
            self._exclude(_WITHOUT_SEARCH, "`references`: these are scored without a search")
        if self.sample:
            self._exclude(_WITHOUT_BEAM, "`sample`: sampling does not support prefixes, beam settings or attention")
        if self.mbr is not None and self.prefixes:
            raise UserError("`mbr`: sampling does not support `prefixes`; leave one of them out")

    def _exclude(self, names: Sequence[str], reason: str) -> None:
        """Raise UserError if one of the fields ``names`` is set. A coverage penalty of 0 counts as unset."""
        asked = [each.name for each in fields(self) if each.name in names and getattr(self, each.name) != each.default]
        if self.coverage_penalty == 0 and "coverage_penalty" in asked:
            asked.remove("coverage_penalty")
        if asked:
            raise UserError(f"{reason}; leave {' and '.join(f'`{name}`' for name in asked)} out")

    @property
    def limit(self) -> int:
        """The maximum number of tokens of a line that is translated in one piece."""
        return self.max_input_length or MAX_INPUT_LENGTH

    @property
    def sample_seed(self) -> int | None:
        """The seed of the samples; None to search."""
        return (SEED if self.seed is None else self.seed) if self.sample else None

    def samples(self) -> "Request":
        """The request for the samples of minimum Bayes risk decoding."""
        return Request(**self.beside({"sample": True}) | {"n_best": self.mbr, "sample": True})

    def beside(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of this request as defaults of another one, without those that exclude the other's ``options``."""
        excluded = {name for given, names in _EXCLUDED.items() if options.get(given) for name in names}
        if options.get("replace_unk") is False or "replace_unk" in excluded:
            excluded.add("unk_origin")
        if options.get("length_penalty") in ("none", "avg"):
            excluded.add("alpha")
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in excluded}

    def search(self, own: Search) -> Search:
        """The search settings ``own`` of a model, overridden by those of the request.

        Raises UserError if ``alpha`` is given for a length penalty without one.
        """
        asked = {each.name: getattr(self, each.name) for each in fields(Search)}
        settings = replace(own, **{name: value for name, value in asked.items() if value is not None})
        if self.alpha is not None and not settings.uses_alpha:
            raise UserError(
                f"`alpha`: `length_penalty` {settings.length_penalty} does not use it; only gnmt and power do"
            )
        return settings
