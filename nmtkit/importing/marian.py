"""Models of Marian: a folder with ``decoder.yml``, weights (``.npz``), vocabularies and optionally subword models.

Transformers, such as those of OPUS-MT, become models of ``models/transformer.py``, and recurrent models (types s2s and
nematus) models of ``models/bideep.py``.
"""

from pathlib import Path
from typing import Any

from nmtkit.config import load_yaml
from nmtkit.errors import UserError
from nmtkit.importing.found import Found, Options, beside, found, only
from nmtkit.importing.marian_rnn import recurrent
from nmtkit.importing.marian_text import read_words, segmentation
from nmtkit.importing.marian_transformer import transformer
from nmtkit.importing.marian_weights import OPTIONS, Weights
from nmtkit.importing.npz import names
from nmtkit.importing.words import Words

# Options with one value that can be imported. Files of older versions lack some of them.
_ALWAYS: dict[str, Any] = {
    "factors-dim-emb": 0, "input-types": [], "lemma-dim-emb": 0, "output-omit-bias": False, "right-left": False,
    "tied-embeddings-src": False, "ulr": False,
}  # fmt: skip
# Settings of search that nmtkit lacks, with the values that have no effect.
_NEUTRAL: dict[str, Any] = {"word-penalty": 0, "shortlist": [], "output-sampling": [], "force-decode": False}
_DECODER = "decoder.yml"
_TIED = {"all": "tied-embeddings-all", "target": "tied-embeddings"}


def finds(path: Path) -> bool:
    """Whether a file has weights of Marian, or a folder has such a file."""
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    return any(OPTIONS in names(file) for file in files)


def read(path: Path) -> Found:
    """Read a folder or its file of weights. Raises UserError if nmtkit cannot represent the model exactly."""
    decoder = Decoder(path)
    [file], vocabularies = decoder.files("models", 1), decoder.files("vocabs", 2)
    weights = Weights(file)
    src, tgt = map(read_words, vocabularies, weights.words())
    preset, model = _architecture(weights, src, tgt)
    text, notes = segmentation(decoder.path.parent, vocabularies), decoder.not_applied(_NEUTRAL)
    toolkit = f"Marian {str(weights.options.values.get('version', '')).partition(' ')[0]}".strip()  # Marian v1.12.43
    where = weights.path, decoder.path
    return found(toolkit, preset, model, decoder.search(), where, weights, src, tgt, text, notes)


def _architecture(weights: Weights, src: Words, tgt: Words) -> tuple[str, dict[str, Any]]:
    """The preset of the model, and its Config as plain values; the parameters are added to ``weights.found``."""
    options = weights.options
    kind = options.require("type", "transformer", "s2s", "nematus")
    for option, value in _ALWAYS.items():
        options.require(option, value, default=value)
    sizes = options.values.get("dim-vocabs")
    if sizes != [len(src.theirs), len(tgt.theirs)]:
        raise UserError(
            f"{weights.path}: option dim-vocabs: {str(sizes)[:80]}, but {src.path} and {tgt.path} have "
            f"{len(src.theirs)} and {len(tgt.theirs)} words; give the vocabularies of this model"
        )
    tied = next((t for t, option in _TIED.items() if options.require(option, True, False, default=False)), "none")
    if tied == "all" and src.theirs != tgt.theirs:
        raise UserError(f"{tgt.path}: differs from {src.path}, but the model has tied-embeddings-all")
    preset, read_model = ("transformer-base", transformer) if kind == "transformer" else ("bideep", recurrent)
    model = read_model(weights, tied, src, tgt)
    weights.check_all_used()
    return preset, model


class Decoder(Options):
    """The decoder.yml of a folder, or FILE.npz.decoder.yml of a file of weights: the model's files and search settings.

    A folder without decoder.yml may have the one FILE.npz.decoder.yml of a training. Raises UserError if there is none.
    """

    def __init__(self, path: Path):
        folder = path if path.is_dir() else path.parent
        self.path, weights = folder / _DECODER, [path]
        if path.is_dir():
            own = [] if self.path.is_file() else folder.glob(f"*.npz.{_DECODER}")
            weights = sorted(file.with_name(file.name.removesuffix(f".{_DECODER}")) for file in own)
        if weights and (file := folder / f"{only(weights, path, 'models').name}.{_DECODER}").is_file():
            self.path = file
        if not self.path.is_file():
            raise UserError(
                f"{self.path}: not found; write it: `models: [FILE.npz]` and below it "
                "`vocabs: [SOURCE.yml, TARGET.yml]`"
            )
        super().__init__(f"{self.path}:", load_yaml(self.path) | ({} if path.is_dir() else {"models": [path.name]}))

    def files(self, key: str, count: int) -> list[Path]:
        """The ``count`` files in the list of ``key``, looked up by name in the folder of the decoder.yml."""
        listed = self.values.get(key)
        if key == "models" and isinstance(listed, list) and len(listed) > count:
            names = ", ".join(Path(str(file)).name for file in listed)[:80]
            raise UserError(f"{self.path}: models: has several, {names}; import each file, then use nmtkit ensemble")
        if not isinstance(listed, list) or len(listed) != count:
            raise UserError(f"{self.path}: {key}: expected a list of {count}, found {str(listed)[:80]}")
        files = beside(self.path, listed, f"{self.path}: {key}")
        for file in files:
            if not file.is_file():
                raise UserError(f"{file}: not found, but {self.path} names it")
        return files

    def search(self) -> dict[str, Any]:
        """The search settings."""
        power, longest = float(self.number("normalize", 0)), float(self.number("max-length-factor", 3))
        return {
            "beam_size": self.values.get("beam-size", 12),
            **({"length_penalty": "power", "alpha": power} if power else {"length_penalty": "none"}),
            "max_len_a": longest,  # times the source words and </s>
            "max_len_b": max(1, int(longest)),
            "unk": self.values.get("allow-unk", False),
        }
