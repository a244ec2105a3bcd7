"""Request: everything that a translator can be asked for, and every rule between these options.

The rules name fields between backquotes. From Python these are the names of arguments; the command line writes its
options instead. Torch is not imported here, so that a wrong request is refused at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nmtkit.errors import UserError, check_choice

if TYPE_CHECKING:
    from nmtkit.search.beam import Search

LengthPenalty = Literal["none", "avg", "gnmt", "power"]
Stop = Literal["all", "bound", "first"]
UnkOrigin = Literal["matched", "papers"]

MOST = 10_000  # translations of a line; as many as the widest beam of Search has
MAX_INPUT_LENGTH = 250  # tokens; the longest sentence, in words, that nmtkit prep leaves in a training text by default

# The fields of a Request that have no effect where references are scored, and where translations are sampled.
WITHOUT_SEARCH = (
    "n_best", "seed", "prefixes", "alignment", "attention", "replace_unk", "shortlist", "max_input_length", "beam_size",
    "max_len_a", "max_len_b", "stop",
)  # fmt: skip
WITHOUT_BEAM = ("prefixes", "alignment", "attention", "replace_unk", "beam_size", "coverage_penalty", "stop")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to a translator, for every line alike. ``Request()`` asks for the best translation.

    Raises UserError for a value that is out of range and for fields that exclude each other, so that none is ever
    ignored. Search settings that are None are the model's.
    """

    n_best: int | None = None  # this many translations of each line, as far as the beam has them; None: the best one
    seed: int | None = None  # draw translations at random, alike for the same seed, instead of searching for the best
    tokenized: bool = False  # lines and translations are tokens with spaces between, segmented as the model's data
    prefixes: bool = False  # each line comes with a text that its translation must begin with
    references: bool = False  # each line comes with its translation, which is scored
    alignment: bool = False  # for each target word the source word that the model looked at most
    attention: bool = False  # the attention weights of each translation
    replace_unk: bool = False  # unknown words become the lexicon's translation, else a copy, of their source words
    unk_origin: UnkOrigin | None = None  # where these are; None: matched
    shortlist: int | None = None  # only so many frequent target words, and those the lexicon has for the source words
    max_input_length: int | None = None  # a longer line, in tokens, is translated in pieces; None: MAX_INPUT_LENGTH
    beam_size: int | None = None
    length_penalty: LengthPenalty | None = None
    alpha: float | None = None
    coverage_penalty: float | None = None
    max_len_a: float | None = None
    max_len_b: int | None = None
    max_tokens: int | None = None
    stop: Stop | None = None

    def __post_init__(self) -> None:
        # The bounds of single fields; those of search settings are in Search.
        least = {"n_best": 1, "seed": 0, "shortlist": 0, "max_input_length": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise UserError(f"`{name}`: {value} is less than {bound}")
        if self.n_best is not None and self.n_best > MOST:
            raise UserError(f"`n_best`: {self.n_best} is not between 1 and {MOST}")
        check_choice("unk_origin", self.unk_origin, UnkOrigin)
        check_choice("length_penalty", self.length_penalty, LengthPenalty)
        check_choice("stop", self.stop, Stop)
        # Fields that exclude each other are refused, because nobody would notice if one were ignored.
        if self.unk_origin is not None and not self.replace_unk:
            raise UserError("`unk_origin`: is for unknown words that are replaced; add `replace_unk`")
        if self.references:
            self._exclude(WITHOUT_SEARCH, "`references` are whole translations, which are scored and not searched for")
        if self.seed is not None:
            self._exclude(WITHOUT_BEAM, "`seed`: what is drawn at random has no prefix, no beam and no attention")

    def _exclude(self, names: Sequence[str], reason: str) -> None:
        """Raise UserError if one of the fields ``names`` is asked for. A coverage penalty of 0 is none."""
        asked = [name for name in names if getattr(self, name) is not None and getattr(self, name) is not False]
        if self.coverage_penalty == 0 and "coverage_penalty" in asked:
            asked.remove("coverage_penalty")
        if asked:
            raise UserError(f"{reason}; leave {' and '.join(f'`{name}`' for name in asked)} out")

    @property
    def limit(self) -> int:
        """The most tokens that a line may have to be translated in one piece."""
        return self.max_input_length or MAX_INPUT_LENGTH

    def search(self, own: "Search") -> "Search":
        """The search settings of a model, ``own``, with those that are asked for.

        Raises UserError for values that no search can have, and for an alpha where no penalty has one.
        """
        names = "beam_size length_penalty alpha coverage_penalty max_len_a max_len_b max_tokens stop".split()
        asked = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        try:
            settings = replace(own, **asked)
        except ValueError as error:
            name, _, complaint = str(error).partition(":")
            raise UserError(f"`{name}`:{complaint}") from None
        if self.alpha is not None and settings.length_penalty not in ("gnmt", "power"):
            raise UserError(
                f"`alpha`: `length_penalty` {settings.length_penalty} has none; it belongs to gnmt and power"
            )
        return settings
