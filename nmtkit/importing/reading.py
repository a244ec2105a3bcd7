"""Reading a model of any other toolkit, and writing it as a model folder."""

import json
from pathlib import Path

from nmtkit.config import dump_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.importing import fairseq, marian, nematus, transformers
from nmtkit.importing.found import Found
from nmtkit.importing.npz import read_npz
from nmtkit.training import checkpoint
from nmtkit.writing import real_path, write_file

NO_CORPUS = json.dumps({})  # the hashes of the training data, which is unknown
READERS = (nematus, marian, fairseq, transformers)  # the first that finds a model reads it


def read(path: Path) -> Found:
    """Read the model of another toolkit at ``path``, a file or a folder.

    Raises UserError if no reader recognises it, or if nmtkit cannot represent the model exactly.
    """
    if not path.exists():
        raise UserError(f"{path}: not found; give the file or folder of a model")
    for reader in READERS:
        if reader.finds(path):
            found: Found = reader.read(path)
            return found
    for file in sorted(path.glob("*")) if path.is_dir() else [path]:
        _explain(file)
    if ModelFolder(path).config.is_file():
        raise UserError(f"{path}: is already a model of nmtkit; use it as it is")
    raise UserError(
        f"{path}: is not a model that nmtkit can import; give a folder or file of weights of Nematus or Marian (.npz), "
        "fairseq (.pt) or transformers (.safetensors, .bin)"
    )


def _explain(file: Path) -> None:
    """Raise UserError for a file that no reader recognises because it is damaged or must be converted first."""
    if not file.is_file():
        return
    if file.suffix == ".npz":
        read_npz(file, lambda name: False)  # raises UserError if it is damaged
    if file.suffix == ".bin" and file.name != "pytorch_model.bin" and not file.with_name("config.json").is_file():
        raise UserError(f"{file}: if these are weights of Marian, give the .npz file from which marian-conv made them")
    if file.name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        raise UserError(
            f"{file}: weights in several files cannot be imported; merge them with transformers: "
            "MarianMTModel.from_pretrained(FOLDER).save_pretrained(NEW, max_shard_size='100GB')"
        )


def write(found: Found, source: Path, output: ModelFolder) -> None:
    """Write the model found at ``source`` to the folder ``output``, where it atomically replaces an older model.

    Raises UserError if ``output`` contains ``source``, or if the parameters do not fit the model.
    """
    if real_path(output.path) in (real_path(source), *real_path(source).parents):
        raise UserError(f"{output}: contains {source}, the model to import; give another `output` folder")
    _check(found, source)
    with output.replaced() as new:
        for name, content in found.files.items():
            (new.path / name).write_bytes(content)
        write_file(new.text.settings, dump_yaml(to_dict(found.prep)))
        found.src.save(new.text.vocabulary("src"))
        found.tgt.save(new.text.vocabulary("tgt"))
        write_file(new.corpus, NO_CORPUS)
        new.write_config(to_dict(found.experiment))
        new.seal()
        new.checkpoint(0).mkdir(parents=True)
        checkpoint.save_weights(new.weights(0), found.parameters)


def _check(found: Found, source: Path) -> None:
    """Raise UserError unless the parameters are those of the model, and finite."""
    expected = found.experiment.empty(len(found.src), len(found.tgt)).state_dict()
    for name in [*expected, *found.parameters]:
        ours, theirs = expected.get(name), found.parameters.get(name)
        if ours is None or theirs is None or ours.shape != theirs.shape:
            shapes = [None if t is None else tuple(t.shape) for t in (ours, theirs)]
            raise UserError(f"{source}: {name}: expected shape {shapes[0]}, found {shapes[1]}")
        if not theirs.isfinite().all():
            raise UserError(f"{source}: {name}: contains values that are not finite; download the file again")
