"""``nmtkit ensemble``: several models in one folder."""

from pathlib import Path

from nmtkit.cli.options import log, say_next_of_model
from nmtkit.workflow.ensemble import EnsembleOptions, bundle


def ensemble(options: EnsembleOptions) -> None:
    """Bundle models into one folder that translates with all of them.

      nmtkit ensemble one two three
      nmtkit translate -m ensemble < in.txt

    The folder is self-contained. The models may have different architectures, source vocabularies and source
    segmentations, but must share the target vocabulary. At every step, the probability of the next word is the mean of
    the models' probabilities; --combine and --weights are kept in the folder, and nmtkit translate can override them.
    Every command that translates, scores or reports takes the folder as a model folder; nmtkit average and nmtkit
    inspect take single models only.
    """
    bundle(options)
    log.info(f"{options.output}: {', '.join(map(str, options.models))}")
    say_next_of_model(Path(options.output))
