"""The files of data folders (``TextFiles``) and model folders (``ModelFolder``), and their checksums."""

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nmtkit.config import dump_yaml
from nmtkit.errors import UserError
from nmtkit.writing import FULL, TEMPORARY, real_path, report_write_errors, staging_folder, sync, write_file

# Increased when an older nmtkit would silently misread a new folder; the new nmtkit then reads both formats. A new
# configuration key needs no increase, because older versions reject unknown keys.
FORMAT_VERSION = "1"

# CRC-32s, verified when files are loaded, to detect bad disks and truncated copies, not attacks.
CHECKSUMS = "checksums.json"
_BLOCK = 1 << 20  # bytes; reading is four times as fast if a block fits into the core's cache

_CHECKPOINT = re.compile("step-(0|[1-9][0-9]{0,17})")
_SHOWN = 20  # checkpoints listed in an error message


SideName = Literal["src", "tgt"]
SIDES: tuple[SideName, ...] = ("src", "tgt")
SetName = Literal["dev", "test"]
SPLITS: tuple[Literal["train"] | SetName, ...] = ("train", "dev", "test")


class _File:
    """An attribute of a folder: the path of the file or folder with this name in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "TextFiles | ModelFolder", owner: type) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class TextFiles:
    """Paths of the text processing files of data folders and model folders."""

    path: Path

    settings = _File("prep.yaml")  # of ``nmtkit prep``
    lexicon = _File("lexicon.tsv")  # of ``nmtkit align``, if there is one

    def merges(self, side: SideName) -> Path:
        """BPE merges in subword-nmt's format, if the side uses BPE."""
        return self.path / f"bpe.{side}"

    def sentencepieces(self, side: SideName) -> Path:
        """The SentencePiece unigram model, if the side uses SentencePiece."""
        return self.path / f"sentencepiece.{side}"

    def truecasing(self, side: SideName) -> Path:
        """The truecasing model in Moses' format, if the side is truecased."""
        return self.path / f"truecase.{side}"

    def vocabulary(self, side: SideName) -> Path:
        """The vocabulary of a side, one word per line."""
        return self.path / f"vocab.{side}"

    def learnt(self, side: SideName) -> tuple[Path, ...]:
        """The models that ``nmtkit prep`` may learn from the text of a side."""
        return self.merges(side), self.sentencepieces(side), self.truecasing(side)

    def prepared(self) -> list[Path]:
        """The settings and models that ``nmtkit prep`` may write."""
        return [self.settings, *self.learnt("src"), *self.learnt("tgt")]

    def all(self) -> list[Path]:
        """All files of text processing, existing or not."""
        return [*self.prepared(), *map(self.vocabulary, SIDES), self.lexicon]


# Written by ``nmtkit align``; prep deletes them, because they belong to one text.
ALIGN_FILES = ("dev.align", TextFiles(Path()).lexicon.name, "train.align")


@dataclass(frozen=True)
class ModelFolder:
    """The files of a model folder, and operations that need no loaded weights.

    A run, an average and a member of an ensemble have ``config``, ``text`` and ``checkpoint``; a run also has a
    history. An ensemble has ``bundle`` and ``members`` instead.
    """

    path: Path
    update: int | None = None  # of the selected checkpoint; None: the best one

    def __str__(self) -> str:
        return str(self.named)

    @classmethod
    def at(cls, path: Path, checkpoint: str | int | None = None) -> "ModelFolder":
        """The model at ``path``: a model folder, or a checkpoint folder in it, such as run/checkpoints/step-876.

        checkpoint: best, last or an update. Raises UserError that lists the existing checkpoints if it does not exist.
        """
        folder = cls.of(path)
        if folder.update is not None:
            if checkpoint is not None:
                raise UserError(f"{path}: is a checkpoint itself; leave `checkpoint` {checkpoint} out")
            return cls(folder.path, folder._existing(folder.update, str(path)))
        if checkpoint is None:
            return folder
        if folder.bundle.exists():
            raise UserError(f"{path}: an ensemble, whose members have one checkpoint each; leave `checkpoint` out")
        folder.check()
        if checkpoint == "best":
            return cls(path, folder.best_update())
        if checkpoint == "last":
            return cls(path, max(folder.updates(), default=None) or folder.best_update())
        update = int(checkpoint) if re.fullmatch("[0-9]{1,18}", str(checkpoint)) else None
        return cls(path, folder._existing(update, f"`checkpoint` {checkpoint}"))

    @classmethod
    def of(cls, path: Path) -> "ModelFolder":
        """The model or checkpoint at ``path``, which need not exist."""
        real = real_path(path)  # resolves links and a relative step-876
        match = _CHECKPOINT.fullmatch(real.name) if real.parent.name == cls(path).checkpoints.name else None
        if not match or cls(path).config.exists():
            return cls(path)
        # Keeps the path as typed if it contains the model folder.
        return cls(path.parent.parent if path.parent.name == real.parent.name else real.parent.parent, int(match[1]))

    def _existing(self, update: int | None, wanted: str) -> int:
        """``update`` if it has a checkpoint; otherwise raises a UserError that begins with ``wanted``."""
        updates = self.updates()
        best = self.best_update()
        if update in updates:
            return update
        names = list(map(str, updates))
        shown = ", ".join(names if len(names) <= _SHOWN else ["...", *names[-_SHOWN:]])
        raise UserError(f"{wanted}: does not exist; the checkpoints of {self.path} are {shown}, the best is {best}")

    config = _File("config.yaml")  # the experiment with all values resolved
    format_version = _File("format_version")
    corpus = _File("data.json")  # hashes of the training data
    origin = _File("origin.json")  # the checkpoint that the weights were initialised with, if any
    ranking = _File("best")  # the best checkpoints with their metric, best first
    metrics = _File("metrics.jsonl")  # the history of a run, one JSON record per line
    tensorboard = _File("tensorboard")  # the same for TensorBoard
    log = _File("train.log")
    lock = _File(".lock")  # held by the training process
    bundle = _File("ensemble.yaml")  # the members of an ensemble and how they are combined
    members = _File("members")  # the model folders of an ensemble
    checkpoints = _File("checkpoints")

    @property
    def named(self) -> Path:
        """The path for which ``at`` returns this ModelFolder."""
        return self.path if self.update is None else self.checkpoint(self.update)

    @property
    def text(self) -> TextFiles:
        """Vocabularies, merges and the other files of text processing."""
        return TextFiles(self.path)

    def translations(self, split: SetName) -> Path:
        """This model's translation of a set of the data folder."""
        return self.named / f"{split}.hyp"

    def checkpoint(self, update: int) -> Path:
        """The folder of the checkpoint saved after ``update`` updates."""
        return self.checkpoints / f"step-{update}"

    def weights(self, update: int) -> Path:
        """The weights of a checkpoint (safetensors)."""
        return self.checkpoint(update) / "model.safetensors"

    def trainer(self, update: int) -> Path:
        """The state of optimizer and training loop in a checkpoint; an average has none."""
        return self.checkpoint(update) / "trainer.pt"

    def validated(self, update: int) -> Path:
        """The progress after the validation of a checkpoint, if it was validated."""
        return self.checkpoint(update) / "validated.pt"

    def updates(self) -> list[int]:
        """The updates that have a complete checkpoint, in ascending order."""
        matches = (_CHECKPOINT.fullmatch(path.name) for path in self.checkpoints.glob("step-*"))
        return sorted(int(match[1]) for match in matches if match)

    def best_updates(self) -> list[int]:
        """The updates of the best checkpoints kept, best first."""
        # The ranking may contain checkpoints that were deleted by hand.
        existing = {f"step-{update}": update for update in self.updates()}
        names = [line.partition("\t")[0] for line in read_text(self.ranking).splitlines()]
        return [existing[name] for name in names if name in existing]

    def best_update(self) -> int:
        """The update of the best checkpoint, or the last if none was validated. Raises UserError if there is none."""
        # An average has one checkpoint and no ranking.
        updates = self.best_updates() or self.updates()[::-1]
        if not updates:
            raise UserError(f"{self.path}: has no checkpoint yet; nmtkit train makes one")
        return updates[0]

    def chosen_weights(self) -> Path:
        """The weights of the selected checkpoint, by default the best one."""
        self.check()
        return self.weights(self.best_update() if self.update is None else self.update)

    def check(self) -> None:
        """Raise UserError unless this is an undamaged folder of a single model in the format of this version.

        Weights are verified when they are loaded.
        """
        if self.members.is_dir():
            raise UserError(f"{self.path}: an ensemble, not a single model; its members are in {self.members}")
        if not self.config.exists():
            raise UserError(
                f"{self.path}: not a model folder (no {self.config.name}); `nmtkit train` or `nmtkit import` makes one"
            )
        version = read_text(self.format_version).strip()[:20]
        if version != FORMAT_VERSION:
            raise UserError(f"{self.path}: format_version is {version or 'missing'}, but nmtkit reads {FORMAT_VERSION}")
        self.check_sums()

    def check_sums(self) -> None:
        """Raise UserError if a file has changed since its checksum was written."""
        if changed := changed_file(self.path):
            remedy = f"copy it again or, if the change is intended, delete {self.path / CHECKSUMS}"
            raise UserError(f"{changed}: does not match its checksum: damaged, changed or missing; {remedy}")

    def check_replaceable(self) -> None:
        """Raise UserError if this folder is a run or has other files, which must not be replaced by a model."""
        foreign = any(self.path.glob("*")) and not self.config.exists()
        if foreign or any(self.checkpoints.glob(f"*/{self.trainer(0).name}")):
            raise UserError(f"{self}: holds a run or other files; give another `output` folder")

    def seal(self) -> None:
        """Write the checksums of all files that translating or resuming needs, except weights."""
        write_checksums(self.path, self._sums())

    def unseal(self) -> None:
        """Delete the checksums before files are rewritten, so that a killed process leaves no wrong ones."""
        (self.path / CHECKSUMS).unlink(missing_ok=True)

    def _sums(self) -> dict[str, int]:
        """The CRC-32 of each file that ``seal`` covers, by name."""
        files = (self.config, self.corpus, self.origin, self.bundle, *self.text.all())
        return {file.name: crc32(file) for file in files if file.is_file()}

    def write_config(self, values: Any) -> None:
        """Write the resolved configuration and the format version; call ``seal`` afterwards."""
        self.unseal()
        write_file(self.config, dump_yaml(values))
        write_file(self.format_version, FORMAT_VERSION + "\n")

    def write_ranking(self, best: Sequence[Sequence[float]]) -> None:
        """Write the ranking; ``best`` has the update and metric of each checkpoint, best first."""
        write_file(self.ranking, "".join(f"step-{int(update)}\t{metric:.6g}\n" for update, metric, *_ in best))

    def copy_settings(self, output: "ModelFolder") -> None:
        """Copy all files except weights and history to ``output``. Raises UserError if one cannot be copied."""
        translations = (self.translations("dev"), self.translations("test"))
        history = (self.checkpoints, self.ranking, self.metrics, self.log, *translations, self.lock)
        left_out = {CHECKSUMS, *(path.name for path in history)}
        output.path.mkdir(parents=True, exist_ok=True)
        for file in self.path.iterdir():
            # The user's own files are copied, too, but not folders, such as TensorBoard's or ``output`` itself.
            if file.name in left_out or file.is_dir() or file.match(TEMPORARY):
                continue
            try:
                shutil.copy2(file, output.path)
            except OSError as error:
                raise UserError(f"{file}: cannot be copied: {error.strerror or error}") from None
        write_checksums(output.path, self._sums())  # those of the source, so that a damaged copy is detected

    def copy_model(self, output: "ModelFolder") -> None:
        """Copy all files that translation needs to ``output``, with only the weights of the selected checkpoint."""
        weights = self.chosen_weights()
        self.copy_settings(output)
        target = output.checkpoints / weights.parent.name
        target.mkdir(parents=True)
        shutil.copyfile(weights, target / weights.name)
        write_checksums(target, {weights.name: crc32(weights)})

    @contextmanager
    def replaced(self) -> Iterator["ModelFolder"]:
        """A temporary folder for a model, which replaces this model when the block ends.

        Other files are kept. After an error the old model is unchanged. Raises UserError if the disk is full.
        """
        # Links are followed, because a link must be kept and a rename must not cross disks.
        final = real_path(self.path)
        with staging_folder(final.parent) as staging:
            new = ModelFolder(staging / final.name)
            new.path.mkdir()
            # Other errors may concern files that the caller reads.
            with report_write_errors(self.path, only=FULL):
                yield new
            with report_write_errors(self.path):
                if not any(final.glob("*")):  # in one step, so that a killed process leaves no part of a model
                    os.replace(new.path, final)
                    sync(final.parent)
                    return
                self.unseal()
                # Delete files of the old model that the new one may lack.
                for old in (self.checkpoints, self.members):
                    shutil.rmtree(old, ignore_errors=True)
                for file in self.text.all():
                    file.unlink(missing_ok=True)
                # Weights last, so that a killed process leaves no checkpoint without its other files.
                for entry in sorted(new.path.iterdir(), key=lambda entry: entry.name == self.checkpoints.name):
                    os.replace(entry, final / entry.name)
                sync(final)


def read_text(path: Path) -> str:
    """The text of a file, with U+FFFD for invalid UTF-8; empty if the file does not exist."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def crc32(path: Path) -> int:
    """The CRC-32 of a file, read in blocks."""
    crc, block = 0, memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(block):
            crc = zlib.crc32(block[:size], crc)
    return crc


def write_checksums(folder: Path, sums: Mapping[str, int]) -> None:
    """Write the CRC-32 of files in ``folder``, by name."""
    write_file(folder / CHECKSUMS, json.dumps({name: f"{crc:08x}" for name, crc in sums.items()}, indent=1) + "\n")


def check_regular(folder: Path) -> None:
    """Raise UserError if ``folder`` has a pipe, a device or a link to one, because reading it might never end."""
    try:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_fifo() or path.is_char_device() or path.is_block_device():
                raise UserError(f"{path}: a pipe or a device, not a file; replace it with a file, or delete it")
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None


def changed_file(folder: Path) -> Path | None:
    """The first file of ``folder`` that is missing or differs from its checksum, or None.

    nmtkit 0.1 wrote no checksums. Raises UserError if they cannot be read, and for a pipe or device among the files.
    """
    check_regular(folder)
    path = folder / CHECKSUMS
    if not path.exists():
        return None
    try:
        sums = json.loads(path.read_bytes())
        # Only the base name, because a path in a downloaded file must not leave the folder.
        files = {folder / Path(name).name: int(crc, 16) for name, crc in sums.items()}
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise UserError(f"{path}: damaged; copy it again, or delete it to skip the checks") from None
    return next((file for file, crc in files.items() if not file.is_file() or crc32(file) != crc), None)
