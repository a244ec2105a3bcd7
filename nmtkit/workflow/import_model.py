"""``import``: a model of another toolkit as a model folder."""

from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.config import flatten, to_dict
from nmtkit.errors import UserError, printable
from nmtkit.folders import ModelFolder, read_text
from nmtkit.options import Option, by_keyword, option
from nmtkit.workflow.shared import OUTPUT, SOURCE_LANGUAGE, TARGET_LANGUAGE

if TYPE_CHECKING:
    from nmtkit.importing.found import Found


# fmt: off
@dataclass(frozen=True)
class ImportOptions:
    """The options of ``import``, in the order of its help."""

    source: Path | str = field(metadata={"option": Option(
        "File or folder of the model.", metavar="FILE|FOLDER", argument=True)})
    _: KW_ONLY
    output: Path | str = option("imported", OUTPUT)
    src_lang: str | None = option(None, replace(
        SOURCE_LANGUAGE, help="Source language: en, de, ...  [default: from the model's files or folder name]"))
    tgt_lang: str | None = option(None, replace(
        TARGET_LANGUAGE, help="Target language: en, de, ...  [default: from the model's files or folder name]"))
# fmt: on


@dataclass(frozen=True)
class Imported:
    """The result of ``import_model``; ``str`` says what was found."""

    found: "Found"
    parameters: int  # of our model

    def __str__(self) -> str:
        found, model = self.found, to_dict(self.found.experiment.model)
        sizes = ", ".join(f"{name} {value}" for name, value in flatten(model).items() if value is not None)
        languages = found.prep.languages
        unknown = "; und is unknown: import again with `src_lang` and `tgt_lang`" if "und" in languages else ""
        return "\n".join([
            f"{found.toolkit}: {found.experiment.architecture} ({sizes})",
            f"languages: {' to '.join(languages)}{unknown}",
            f"vocabularies: {len(found.src):,} + {len(found.tgt):,} words with the four symbols",
            *map(printable, found.notes),
            f"parameters of the model here: {self.parameters:,}",
        ])  # fmt: skip

    __repr__ = __str__


def write_import(options: ImportOptions) -> Imported:
    """Write the model of another toolkit at ``source`` to the model folder ``output``: ``nmtkit import``.

    Raises UserError for a file of another kind, for a model that nmtkit cannot represent exactly, and for an ``output``
    that holds a run, a model that ``import`` did not write, or other files; nothing is written then.
    """
    from nmtkit.importing import reading

    output = ModelFolder(Path(options.output))
    output.check_replaceable()
    # Only an imported model has no hashes of training data.
    if output.config.exists() and read_text(output.corpus) != reading.NO_CORPUS:
        raise UserError(f"{output}: holds a model that nmtkit import did not write; give another `output` folder")
    found = reading.read(Path(options.source)).between(options.src_lang, options.tgt_lang)
    reading.write(found, Path(options.source), output)
    return Imported(found, sum(tensor.numel() for tensor in found.parameters.values()))


import_model = by_keyword(ImportOptions, write_import, "import_model")
