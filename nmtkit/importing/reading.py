"""Recognising the toolkit of a model, reading the model, and writing it as a model folder."""

import json
from pathlib import Path

import torch

from nmtkit.config import dump_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.importing import fairseq, marian, nematus
from nmtkit.importing.found import Found
from nmtkit.lines import atomic_write, real_path
from nmtkit.training import checkpoint

READERS = (nematus, marian, fairseq)  # each is asked in turn


def read(path: Path) -> Found:
    """The model of another toolkit at ``path``, a file or a folder.

    Raises UserError if no reader knows it, and for what nmtkit cannot represent exactly.
    """
    if not path.exists():
        raise UserError(f"{path}: not found; name the file or folder of a model")
    for reader in READERS:
        if reader.finds(path):
            found: Found = reader.read(path)
            return found
    raise UserError(
        f"{path}: not a model that nmtkit can import; name a folder or file of weights of Nematus or Marian (.npz) "
        "or of fairseq (.pt)"
    )


def write(found: Found, source: Path, output: ModelFolder) -> None:
    """Write the model found at ``source`` to the folder ``output``, all of it or nothing.

    An older model there is replaced. Raises UserError if ``output`` holds ``source``, and for unfit parameters.
    """
    if real_path(output.path) in (real_path(source), *real_path(source).parents):
        raise UserError(f"{output}: holds {source}, which is imported; give another `output` folder")
    _check(found, source)
    with output.replaced() as new:
        for name, content in found.files.items():
            (new.path / name).write_bytes(content)
        with atomic_write(new.text.settings) as file:
            file.write(dump_yaml(to_dict(found.prep)))
        found.src.save(new.text.vocabulary("src"))
        found.tgt.save(new.text.vocabulary("tgt"))
        with atomic_write(new.corpus) as file:
            file.write(json.dumps({}))  # the training data is unknown
        new.write_config(to_dict(found.experiment))
        new.seal()
        new.checkpoint(0).mkdir(parents=True)
        checkpoint.save_weights(new.weights(0), found.parameters)


def _check(found: Found, source: Path) -> None:
    """Raise UserError unless the parameters are those of the model, and finite."""
    with torch.device("meta"):
        expected = found.experiment.build(len(found.src), len(found.tgt)).state_dict()
    for name in [*expected, *found.parameters]:
        ours, theirs = expected.get(name), found.parameters.get(name)
        if ours is None or theirs is None or ours.shape != theirs.shape:
            shapes = [None if t is None else tuple(t.shape) for t in (ours, theirs)]
            raise UserError(f"{source}: {name}: the model wants shape {shapes[0]}, the file gives {shapes[1]}")
        if not theirs.isfinite().all():
            raise UserError(f"{source}: {name}: has values that are not finite; download the file again")
