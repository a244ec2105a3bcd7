"""``nmtkit train``: train a preset; the same command resumes a run."""

import json
import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from nmtkit.cli.options import forget_output, say_next
from nmtkit.config import dump_yaml, to_dict
from nmtkit.options import Option
from nmtkit.workflow import train as workflow
from nmtkit.workflow.train import HISTORY, TrainOptions

if TYPE_CHECKING:
    from nmtkit.experiment.schema import Experiment


def train(
    options: TrainOptions,
    dry_run: Annotated[bool, Option("Print the configuration and parameter counts, then exit.")] = False,
    as_json: Annotated[bool, Option(
        "Print the history on stdout while training, one JSON object per line.", HISTORY, names="--json")] = False,
) -> None:  # fmt: skip
    """Train a model on a data folder. Ctrl-C stops after the current update, and the same command continues the run.

    The configuration is the preset's, overridden by --config and then by the command line. Options without a default
    take the preset's value.

      nmtkit train
      nmtkit train --model bideep-small
      nmtkit train --model rnnsearch --config mine.yaml --set training.optimizer.lr=5e-4
      nmtkit train --model deep-att --dry-run
      nmtkit train --from run --data data-news --output run-news --set training.optimizer.lr=1e-4
      torchrun --nproc-per-node 4 -m nmtkit train --model deep-att

    --from fine-tunes a model, or a checkpoint such as run/checkpoints/step-876, on other text: words that the model
    knows keep their weights, and the optimizer and learning rate start afresh. The log and origin.json say which
    weights were used. nmtkit prep --like prepares the text in the same way as the model's.

    With --set, a resumed run may change the optimizer's settings, the schedule, dropout and the stopping criteria; its
    text, the sizes of model and batches, and the order of the data must stay the same.

    torchrun splits every batch among its processes: here 4, on 4 GPUs or, without a GPU, on the processor's cores.
    """
    if dry_run:
        planned = workflow.plan(options)
        sizes = _sizes(planned, Path(options.data))
        print(dump_yaml(to_dict(planned)))  # can be used with --config
        print(sizes)
        return
    progress = workflow.run(replace(options, records=_JsonLines()) if as_json else options)
    if not progress.finished:
        sys.exit(128 + signal.SIGTERM)  # so that a script does not continue with a half-trained model
    # In torchrun, only the first process.
    if not as_json and os.environ.get("RANK", "0") == "0":
        say_next("average", ("-m", Path(options.output), "run"))


class _JsonLines(logging.Handler):
    """Prints each record of a run as a line of JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record at once. If stdout is closed, stop the run."""
        try:
            print(json.dumps(record.msg), flush=True)
        except BrokenPipeError:
            forget_output()
            if cast(dict[str, Any], record.msg)["kind"] != "end":
                signal.raise_signal(signal.SIGTERM)  # saves a checkpoint


def _sizes(planned: "Experiment", data: Path) -> str:
    """The number of parameters of each part with the user's vocabularies, and the paper's total, as YAML comments."""
    from nmtkit.experiment.plan import parameters_by_part, vocabulary_sizes

    words, paper_words = vocabulary_sizes(planned, data), planned.data.words
    counts = parameters_by_part(planned, *words)
    counts["total with the preset's words"] = parameters_by_part(planned, *paper_words)["total"]
    stated = planned.paper.parameters
    lines = ["# {:<30}{:,} source, {:,} target; the preset's are {:,} and {:,}".format("words", *words, *paper_words)]
    lines += [f"# {part:<30}{count / 1e6:>10.2f} M" for part, count in counts.items()]
    lines += [f"# {'the paper says':<30}" + ("nothing" if stated is None else f"{stated:>10g} M")]
    return "\n".join(lines)
