"""``nmtkit import``: a model of another toolkit as a model folder."""

from pathlib import Path

from nmtkit.cli.options import log, say_next_of_model
from nmtkit.workflow.import_model import ImportOptions, write_import


def import_(options: ImportOptions) -> None:
    """Make a model folder of a model that another toolkit trained.

    nmtkit import model.npz -o uedin
    nmtkit translate -m uedin < in.txt

    Nematus: the weights model.npz, beside which its options (model.npz.json), its dictionaries and perhaps BPE codes
    lie. Marian, also OPUS-MT: the folder with decoder.yml, the weights, and the vocabularies and SentencePiece models
    that it names. fairseq's fconv: the folder with the checkpoint (.pt), dict.*.txt of both languages and perhaps
    bpecodes. What nmtkit cannot compute exactly as the toolkit does is refused, and nothing is written.
    """
    imported = write_import(options)
    for line in str(imported).splitlines():
        log.info(line)
    log.info(f"{options.output}: written")
    say_next_of_model(Path(options.output))
