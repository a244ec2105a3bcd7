"""``nmtkit tune``: the best length and coverage penalties for a model."""

from dataclasses import replace
from typing import Annotated

from nmtkit.cli.options import AS_JSON, print_json
from nmtkit.cli.tables import print_table
from nmtkit.errors import counted
from nmtkit.search.settings import Search
from nmtkit.workflow.tune import Tuned, TuneOptions, search_penalties


def tune(options: TuneOptions, as_json: Annotated[bool, replace(AS_JSON, before="precision")] = False) -> None:
    """Find the best length and coverage penalties for a model on the development set.

    The development set is translated once with the model's own settings, and its n-best lists are reranked with every
    combination of penalties. A larger beam (-b 20) gives more to choose from. Models without attention have no coverage
    penalty. The result is a table of all combinations, and the best options for nmtkit translate. The best of so many
    combinations is partly a matter of luck: confirm it on other text, such as the test set. With --save, all commands
    use the best penalties by default, and so does validation when the run is resumed; train --model restores the
    preset's penalties.

      nmtkit tune
      nmtkit tune -b 20 --alphas 0.5,1,1.5 --betas 0
      nmtkit tune -m averaged --metric chrF2 --save
      nmtkit translate --length-penalty power --alpha 0.8 --coverage-penalty 0.2 < in.txt
    """
    tuned = search_penalties(options)
    if as_json:
        shown = ("beam_size", "length_penalty", "alpha", "coverage_penalty")
        pairs = zip(tuned.settings, tuned.values, strict=True)
        tried = [{**{name: getattr(s, name) for name in shown}, "value": value} for s, value in pairs]
        best = tried[tuned.settings.index(tuned.best)]
        print_json({"metric": tuned.metric, "settings": tried, "best": best})
    else:
        sizes = f"{counted(tuned.sentences, 'sentence')}, the best {tuned.settings[0].beam_size} translations of each"
        _print(f"{tuned.metric}: {sizes}; by length penalty, alpha and coverage penalty", tuned)


def _print(title: str, tuned: Tuned) -> None:
    """Print the values by length penalty (rows) and coverage penalty (columns), then the best options."""
    (own, *settings), (value, *values) = tuned.settings, tuned.values
    betas = dict.fromkeys(setting.coverage_penalty for setting in settings)
    rows: dict[tuple[str, float], list[str]] = {}
    for setting, found in zip(settings, values, strict=True):
        alpha = f"{setting.alpha:g}" if setting.uses_alpha else ""
        # ``tuning.grid`` has the coverage penalties of each length penalty in one order.
        rows.setdefault((setting.length_penalty, setting.alpha), [setting.length_penalty, alpha]).append(f"{found:.2f}")
    print_table(title, ["", "alpha", *(f"{beta:g}" for beta in betas)], list(rows.values()))
    print()
    best = max(tuned.values)
    beam = "" if own.beam_size == tuned.beam_size else f"--beam-size {own.beam_size} "
    named = [["as it is", beam + _options(own), f"{value:.2f}"], ["best", beam + _options(tuned.best), f"{best:.2f}"]]
    print_table("for nmtkit translate", ["", "options", "value"], named)


def _options(search: Search) -> str:
    """The options of ``nmtkit translate`` for these penalties."""
    alpha = f" --alpha {search.alpha:g}" if search.uses_alpha else ""
    return f"--length-penalty {search.length_penalty}{alpha} --coverage-penalty {search.coverage_penalty:g}"
