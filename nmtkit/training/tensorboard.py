"""The history of a run (``metrics.jsonl``) as curves in TensorBoard."""

import json
import logging
import shutil
from typing import TYPE_CHECKING, Any, cast

from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder, read_text

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(logging.Handler):
    """A handler of ``metrics.RECORDS`` that writes all records of a run to its folder ``tensorboard``.

    Raises UserError if TensorBoard is not installed.
    """

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError("TensorBoard is not installed: pip install 'nmtkit[tensorboard]'") from None
        self._folder, self._make = folder, SummaryWriter
        self._writer: SummaryWriter | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, and before the first one since this start all earlier records."""
        if self._writer is None:
            self.complete()  # the history contains this record
        else:
            _write(self._writer, cast(dict[str, Any], record.msg))  # passed by log_metrics

    def complete(self) -> None:
        """Write all records of the history, unless this was done since this start."""
        if self._writer is not None:
            return
        # Rewritten, because a resumed run repeats some updates.
        shutil.rmtree(self._folder.tensorboard, ignore_errors=True)
        self._writer = self._make(str(self._folder.tensorboard))
        for line in read_text(self._folder.metrics).splitlines():
            _write(self._writer, json.loads(line))

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
        super().close()


def _write(writer: "SummaryWriter", record: dict[str, Any]) -> None:
    """Write each number of a record as a point of a curve: valid/bleu, train/loss, epoch/padding, ..."""
    for name, value in record.items():
        if name not in ("kind", "update"):
            writer.add_scalar(f"{record['kind']}/{name}", value, record["update"])
    writer.flush()
