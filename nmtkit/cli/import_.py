"""``nmtkit import``: a model of another toolkit as a model folder."""

from pathlib import Path

from nmtkit.cli.options import log, say_next_of_model
from nmtkit.workflow.import_model import ImportOptions, write_import


def import_(options: ImportOptions) -> None:
    """Convert a model trained with another toolkit to a model folder.

    nmtkit import model.npz -o uedin
    nmtkit import marian --src-lang en --tgt-lang de
    nmtkit translate -m uedin < in.txt

    Nematus: model.npz, and in the same folder its options (model.npz.json), dictionaries and any BPE codes. Marian,
    also OPUS-MT: the folder with decoder.yml, weights, vocabularies and any SentencePiece models. Hugging Face's
    MarianMTModel: its folder. fairseq's fconv: the folder with the checkpoint (.pt), dict.*.txt of both languages and
    any bpecodes. A model whose architecture nmtkit cannot represent exactly is refused, and nothing is written. Search
    settings that nmtkit lacks are not applied, and the report names them.

    Give the languages if the model does not name them: Moses' rules depend on them, and the models of an ensemble must
    have the same target language.
    """
    imported = write_import(options)
    log.info(imported)
    log.info(f"{options.output}: written")
    say_next_of_model(Path(options.output))
