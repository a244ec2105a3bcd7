"""What lies where in a data folder (``TextFiles``) and in a model folder (``ModelFolder``), and its checksums."""

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nmtkit.config import dump_yaml
from nmtkit.errors import UserError
from nmtkit.lines import FULL, atomic_write, real_path, report_write_errors, sync

# Goes up when an earlier nmtkit would misread a folder instead of refusing it; nmtkit then reads both. A new setting in
# the configuration is no reason: who does not know it says so.
FORMAT_VERSION = "1"

# Damage is noticed when a file is loaded, not in the translations. CRC-32 notices every single wrong bit, and all but
# one in four thousand million other changes; it guards against worn disks and cut copies, not against deceit.
CHECKSUMS = "checksums.json"
_BLOCK = 1 << 20  # bytes: what stays in a core's cache is summed up four times as fast

_CHECKPOINT = re.compile("step-(0|[1-9][0-9]{0,17})")  # the name of a checkpoint's folder
_SHOWN = 20  # checkpoints in a message


SideName = Literal["src", "tgt"]
SIDES: tuple[SideName, ...] = ("src", "tgt")
SPLITS: tuple[Literal["train", "dev", "test"], ...] = ("train", "dev", "test")


@dataclass(frozen=True)
class TextFiles:
    """The places of the files by which text becomes numbers and back, in a data folder and in a model's alike."""

    folder: Path

    @property
    def settings(self) -> Path:
        """The settings that ``nmtkit prep`` was called with, as YAML."""
        return self.folder / "prep.yaml"

    def merges(self, side: SideName) -> Path:
        """The merges of BPE, in subword-nmt's format; not there when a side is split into words."""
        return self.folder / f"bpe.{side}"

    def sentencepieces(self, side: SideName) -> Path:
        """The unigram model of SentencePiece; not there unless a side is split by it."""
        return self.folder / f"sentencepiece.{side}"

    def truecasing(self, side: SideName) -> Path:
        """The usual case of each word, in Moses' format; not there unless a side is truecased."""
        return self.folder / f"truecase.{side}"

    def vocabulary(self, side: SideName) -> Path:
        """The words of a side by number."""
        return self.folder / f"vocab.{side}"

    @property
    def lexicon(self) -> Path:
        """Translations of single words, of ``nmtkit align``; not there unless that was run."""
        return self.folder / "lexicon.tsv"

    def learnt(self, side: SideName) -> tuple[Path, ...]:
        """What ``nmtkit prep`` learns from the text of a side, there or not."""
        return self.merges(side), self.sentencepieces(side), self.truecasing(side)

    def prepared(self) -> Iterator[Path]:
        """The files that ``nmtkit prep`` makes, there or not."""
        yield self.settings
        yield from map(self.merges, SIDES)
        yield from map(self.sentencepieces, SIDES)
        yield from map(self.truecasing, SIDES)

    def all(self) -> Iterator[Path]:
        """All of them, there or not."""
        yield from self.prepared()
        yield from map(self.vocabulary, SIDES)
        yield self.lexicon


# What ``nmtkit align`` makes; it is of one text, so that ``prep`` takes it away.
ALIGN_FILES = ("dev.align", TextFiles(Path()).lexicon.name, "train.align")


@dataclass(frozen=True)
class ModelFolder:
    """The names of a model folder's files, and what can be said of it without reading a weight.

    A run, an average and a member of an ensemble have ``config``, ``text`` and ``checkpoint``; a run has its history
    besides. An ensemble has ``bundle`` and ``members`` instead.
    """

    path: Path
    update: int | None = None  # of the checkpoint that is meant; None: the best one

    def __str__(self) -> str:
        return str(self.named)

    @classmethod
    def at(cls, path: Path, checkpoint: str | None = None) -> "ModelFolder":
        """The model at ``path``: a model folder, or the folder of a checkpoint in one, as run/checkpoints/step-876.

        checkpoint: best, last or the number of an update. Raises UserError, with the checkpoints that there are, for
        one that is not there.
        """
        real = real_path(path)  # of a link, and of step-876 in the folder of the checkpoints
        folder = cls(path)
        match = _CHECKPOINT.fullmatch(real.name) if real.parent.name == folder.checkpoints.name else None
        if match and not folder.config.exists():
            if checkpoint is not None:
                raise UserError(f"{path}: is a checkpoint itself; leave `checkpoint` {checkpoint} out")
            # As it was typed, where that says it all.
            folder = cls(path.parent.parent if path.parent.name == real.parent.name else real.parent.parent)
            return cls(folder.path, folder._existing(int(match[1]), str(path)))
        if checkpoint is None:
            return folder
        if folder.bundle.exists():
            raise UserError(f"{path}: an ensemble, whose members have one checkpoint each; leave `checkpoint` out")
        folder.check()
        if checkpoint == "best":
            return cls(path, folder.best_update())
        if checkpoint == "last":
            return cls(path, max(folder.updates(), default=None) or folder.best_update())
        update = int(checkpoint) if re.fullmatch("[0-9]{1,18}", checkpoint) else None
        return cls(path, folder._existing(update, f"`checkpoint` {checkpoint}"))

    def _existing(self, update: int | None, wanted: str) -> int:
        """``update`` if there is a checkpoint of it; raises UserError about what was ``wanted`` if there is none."""
        updates = self.updates()
        best = self.best_update()
        if update is None or update not in updates:
            shown = ", ".join(map(str, updates[-_SHOWN:]))
            more = "..., " if len(updates) > _SHOWN else ""
            raise UserError(
                f"{wanted}: not there; the checkpoints of {self.path} are {more}{shown}, the best one {best}"
            )
        return update

    @property
    def named(self) -> Path:
        """The path by which ``at`` finds the same again."""
        return self.path if self.update is None else self.checkpoint(self.update)

    @property
    def config(self) -> Path:
        """The experiment with every value resolved, as YAML."""
        return self.path / "config.yaml"

    @property
    def format_version(self) -> Path:
        """The version of the form of the folder, see ``FORMAT_VERSION``."""
        return self.path / "format_version"

    @property
    def text(self) -> TextFiles:
        """Vocabularies, merges and whatever else the model reads and writes text by."""
        return TextFiles(self.path)

    @property
    def corpus(self) -> Path:
        """The hashes of the texts that the run is trained on, as JSON."""
        return self.path / "data.json"

    @property
    def origin(self) -> Path:
        """The checkpoint whose weights the run began with, as JSON; not there if they were random."""
        return self.path / "origin.json"

    @property
    def ranking(self) -> Path:
        """The best checkpoints with their metric, best first."""
        return self.path / "best"

    @property
    def metrics(self) -> Path:
        """The history of a run, a JSON record in each line."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """The history of a run once more, for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def log(self) -> Path:
        """The lines that a run has logged on the screen, each with its time."""
        return self.path / "train.log"

    @property
    def lock(self) -> Path:
        """Held by the process that trains here."""
        return self.path / ".lock"

    def translations(self, split: Literal["dev", "test"]) -> Path:
        """A set of the data folder as this model translates it."""
        return self.named / f"{split}.hyp"

    @property
    def bundle(self) -> Path:
        """The members of an ensemble and how they are combined, as YAML."""
        return self.path / "ensemble.yaml"

    @property
    def members(self) -> Path:
        """The folder of an ensemble's model folders."""
        return self.path / "members"

    @property
    def checkpoints(self) -> Path:
        """The folder of the folders of checkpoints."""
        return self.path / "checkpoints"

    def checkpoint(self, update: int) -> Path:
        """The folder of the checkpoint that was saved after so many updates."""
        return self.checkpoints / f"step-{update}"

    def weights(self, update: int) -> Path:
        """The weights of a checkpoint, as safetensors."""
        return self.checkpoint(update) / "model.safetensors"

    def trainer(self, update: int) -> Path:
        """The state that training needs beside the weights to go on; an average has none."""
        return self.checkpoint(update) / "trainer.pt"

    def validated(self, update: int) -> Path:
        """The progress after the validation of a checkpoint; not there before it, nor where there is none."""
        return self.checkpoint(update) / "validated.pt"

    def updates(self) -> list[int]:
        """The updates after which there is a complete checkpoint, oldest first."""
        # A folder that somebody has renamed or put there is none of the run's.
        matches = (_CHECKPOINT.fullmatch(path.name) for path in self.checkpoints.glob("step-*"))
        return sorted(int(match[1]) for match in matches if match)

    def best_updates(self) -> list[int]:
        """The updates of the checkpoints that were best when validated, as far as they were kept, best first."""
        # The ranking may name checkpoints that were deleted by hand.
        there = {f"step-{update}": update for update in self.updates()}
        names = [line.partition("\t")[0] for line in read_text(self.ranking).splitlines()]
        return [there[name] for name in names if name in there]

    def best_update(self) -> int:
        """The update of the best checkpoint, or of the last when nothing was validated. Raises UserError for none."""
        # An average has one checkpoint and no ranking.
        updates = self.best_updates() or self.updates()[::-1]
        if not updates:
            raise UserError(f"{self.path}: no checkpoint yet; nmtkit train makes one")
        return updates[0]

    def chosen_weights(self) -> Path:
        """The weights that are meant: those of the checkpoint that was named, or else of the best one."""
        self.check()
        return self.weights(self.best_update() if self.update is None else self.update)

    def check(self) -> None:
        """Raise UserError when this is not the folder of one model, whole and in a form that this version reads.

        Weights are checked when they are loaded.
        """
        if self.members.is_dir():
            raise UserError(f"{self.path}: an ensemble, where one model is needed; its members are in {self.members}")
        if not self.config.exists():
            raise UserError(f"{self.path}: not a model folder (no {self.config.name}); `nmtkit train` makes one")
        version = read_text(self.format_version).strip()[:20]
        if version != FORMAT_VERSION:
            raise UserError(
                f"{self.path}: format_version is {version or 'missing'}, this nmtkit reads {FORMAT_VERSION}"
            )
        self.check_sums()

    def check_sums(self) -> None:
        """Raise UserError when a file that translations depend on is not as it was written."""
        if changed := changed_file(self.path):
            raise UserError(
                f"{changed}: not as it was written: damaged, changed or gone; copy it again from where it came, or, if "
                f"the change is meant, delete {self.path / CHECKSUMS}"
            )

    def seal(self) -> None:
        """Keep the checksums of every file, weights left out, that translations or the way on depend on."""
        write_checksums(self.path, self._sums())

    def unseal(self) -> None:
        """Forget the checksums before files are written, so that a process that is killed leaves no wrong ones."""
        (self.path / CHECKSUMS).unlink(missing_ok=True)

    def _sums(self) -> dict[str, int]:
        """The CRC-32 of each file that ``seal`` is about, by its name."""
        files = (self.config, self.corpus, self.origin, self.bundle, *self.text.all())
        return {file.name: crc32(file) for file in files if file.is_file()}

    def write_config(self, values: Any) -> None:
        """Write the resolved values of the experiment, and the version of everything else; ``seal`` comes after it."""
        # The old checksums go first: between the two writes they would call the folder damaged.
        self.unseal()
        with atomic_write(self.config) as file:
            file.write(dump_yaml(values))
        with atomic_write(self.format_version) as file:
            file.write(FORMAT_VERSION + "\n")

    def write_ranking(self, best: Sequence[Sequence[float]]) -> None:
        """``best``: update and metric of the best checkpoints, best first."""
        with atomic_write(self.ranking) as file:
            file.writelines(f"step-{int(update)}\t{metric:.6g}\n" for update, metric, *_ in best)

    def copy_settings(self, output: "ModelFolder") -> None:
        """Copy every file but weights and history to ``output``. Raises UserError for one that cannot be copied."""
        translations = (self.translations("dev"), self.translations("test"))
        history = (self.checkpoints, self.ranking, self.metrics, self.log, *translations, self.lock)
        left_out = {CHECKSUMS, *(path.name for path in history)}
        output.path.mkdir(parents=True, exist_ok=True)
        for file in self.path.iterdir():
            # By what is left out, so that files of the user's beside the model's are copied, too. No folder is a part
            # of a model but its checkpoints: one may be TensorBoard's, or ``output`` itself.
            if file.name in left_out or file.is_dir():
                continue
            try:
                shutil.copy2(file, output.path)
            except OSError as error:
                raise UserError(f"{file}: cannot be copied: {error.strerror or error}") from None
        write_checksums(output.path, self._sums())  # of what was read: a copy that went wrong is noticed

    def copy_model(self, output: "ModelFolder") -> None:
        """Put into ``output`` what translates: everything but history, with the weights that are meant only."""
        weights = self.chosen_weights()
        self.copy_settings(output)
        target = output.checkpoints / weights.parent.name
        target.mkdir(parents=True)
        shutil.copyfile(weights, target / weights.name)
        write_checksums(target, {weights.name: crc32(weights)})

    @contextmanager
    def replaced(self) -> Iterator["ModelFolder"]:
        """A folder beside this one to write a model to, which takes this one's place when it is whole.

        What is there that no model writes stays there. An error leaves nothing of the new one, and the old one as it
        was. Raises UserError where there is no room.
        """
        # Where a link leads: the rename must stay on one disk, and the link should still point to the model.
        final = real_path(self.path)
        new = ModelFolder(final.with_name(f".{final.name}.{os.getpid()}.tmp"))
        with report_write_errors(self.path):
            new.path.mkdir(parents=True)
        try:
            # Only a full disk is surely about this folder; anything else may be about a file that is read inside.
            with report_write_errors(self.path, only=FULL):
                yield new
            with report_write_errors(self.path):
                final.mkdir(exist_ok=True)
                self.unseal()
                # What an older model has that the new one may not have: it would be taken for a part of the new one.
                for gone in (self.checkpoints, self.members):
                    shutil.rmtree(gone, ignore_errors=True)
                for file in self.text.all():
                    file.unlink(missing_ok=True)
                # Weights come last: a process that is killed here leaves a folder that says it has none.
                for entry in sorted(new.path.iterdir(), key=lambda entry: entry.name == self.checkpoints.name):
                    os.replace(entry, final / entry.name)
                sync(final)
        finally:
            shutil.rmtree(new.path, ignore_errors=True)


def read_text(path: Path) -> str:
    """The text of a file that may be missing (then nothing) or damaged (then with U+FFFD for what is no UTF-8)."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def at_checkpoint(folders: Iterable[Path | str], checkpoint: str | None) -> list[Path]:
    """The models in ``folders``, each at that checkpoint, by the paths that stand for them; see ``ModelFolder.at``."""
    return [ModelFolder.at(Path(folder), checkpoint).named for folder in folders]


def crc32(path: Path) -> int:
    """The CRC-32 of a file, whatever its size, without holding it in memory."""
    crc, block = 0, memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(block):
            crc = zlib.crc32(block[:size], crc)
    return crc


def write_checksums(folder: Path, sums: Mapping[str, int]) -> None:
    """Keep the CRC-32 of files of ``folder`` by their name."""
    with atomic_write(folder / CHECKSUMS) as file:
        file.write(json.dumps({name: f"{crc:08x}" for name, crc in sums.items()}, indent=1) + "\n")


def changed_file(folder: Path) -> Path | None:
    """The first file of ``folder`` that is gone or not what its checksum was made of; None if all are.

    Folders without checksums, such as nmtkit 0.1 wrote, pass. Raises UserError for checksums that cannot be read.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return None
    try:
        sums = json.loads(path.read_bytes())
        # The name alone: a file from elsewhere must not lead out of its folder.
        files = {folder / Path(name).name: int(crc, 16) for name, crc in sums.items()}
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise UserError(f"{path}: damaged; copy it from where it came, or delete it to do without checks") from None
    return next((file for file, crc in files.items() if not file.is_file() or crc32(file) != crc), None)
