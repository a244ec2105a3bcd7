"""``nmtkit tune``: the best length and coverage penalties for a model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nmtkit.cli.options import AsJson, Checkpoint, DataFolder, Device, OneModel, Precision
from nmtkit.cli.tables import print_table
from nmtkit.errors import UserError
from nmtkit.folders import at_checkpoint

if TYPE_CHECKING:
    from nmtkit.evaluation.tuning import Candidate
    from nmtkit.search.settings import Search
    from nmtkit.translation.translator import Translator


def tune(
    model: OneModel = Path("run"),
    checkpoint: Checkpoint = None,
    data: DataFolder = Path("data"),
    beam_size: Annotated[int | None, typer.Option("--beam-size", "-b", min=1, show_default=False,
        help="Beam size, and the length of the n-best lists.  [default: the model's]")] = None,
    alphas: Annotated[str, typer.Option(
        help="Exponents to try with the length penalties gnmt and power.")] = "0.2,0.4,0.6,0.8,1,1.2,1.4",
    betas: Annotated[str, typer.Option(help="Coverage penalties to try.")] = "0,0.1,0.2,0.4",
    metric: Annotated[Literal["sacreBLEU-13a", "13a-lc", "mteval-lc", "chrF2"], typer.Option(
        help="Metric to maximise; those with -lc ignore case, for models that write lower case.")] = "sacreBLEU-13a",
    as_json: AsJson = False,
    precision: Precision = "auto",
    device: Device = "auto",
) -> None:  # fmt: skip
    """Find the best length and coverage penalties for a model on the development set.

    The development set is translated once with the model's own settings, and its n-best lists are ranked again under
    every penalty. A larger beam (-b 20) leaves more to choose from. Models without attention have no coverage penalty.
    The result is a table of all the penalties tried, and the options for nmtkit translate.

      nmtkit tune
      nmtkit tune -b 20 --alphas 0.5,1,1.5 --betas 0
      nmtkit translate --length-penalty power --alpha 0.8 --coverage-penalty 0.2 < in.txt
    """
    from nmtkit.evaluation import tuning
    from nmtkit.translation import loading
    from nmtkit.translation.request import Request
    from nmtkit.translation.testset import read_held_out

    held_out = read_held_out(data, "dev")
    [chosen] = at_checkpoint([model], checkpoint)
    translator = loading.load(chosen, device, precision=precision)
    search = Request(beam_size=beam_size).search(translator.search)
    translator = replace(translator, search=search)  # a copy with other settings: a translator is never changed
    try:
        settings = tuning.grid(search, _numbers("--alphas", alphas), _numbers("--betas", betas))
    except ValueError as error:
        raise UserError(f"--alphas {alphas}, --betas {betas}: {error}") from None
    # A model without attention says so at the first lines for which it is asked for some.
    try:
        n_best = _n_best(translator, held_out.sources, attention=True)
    except UserError:  # it has no attention
        settings = [setting for setting in settings if not setting.coverage_penalty]
        if not settings:
            raise UserError(f"--betas {betas}: the model has no attention, so 0 is all there is to try") from None
        n_best = _n_best(translator, held_out.sources, attention=False)
    # The settings that the model has now come first: they stay, where no other is better.
    values = tuning.tune(n_best, held_out.refs, metric, [search, *settings])
    if as_json:
        print(json.dumps(_json(metric, [search, *settings], values), indent=2))
    else:
        sizes = f"{len(held_out.sources)} sentences, the best {search.beam_size} translations of each"
        _print(f"{metric}: {sizes}; by length penalty, alpha and coverage penalty", search, settings, values)


def _numbers(option: str, text: str) -> list[float]:
    """``0.2,0.4`` as numbers; raises UserError, which names the option, for anything else."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text}: expected numbers with commas, as 0.2,0.4") from None


def _n_best(translator: "Translator", sources: list[str], attention: bool) -> "list[list[Candidate]]":
    """The n-best list of every line, as long as the beam is wide; without ``attention`` their coverage is 0."""
    from nmtkit.evaluation.tuning import Candidate
    from nmtkit.search.beam import coverage
    from nmtkit.translation.request import Request
    from nmtkit.translation.testset import translate_each

    n_best = []
    request = Request(n_best=translator.search.beam_size, attention=attention)
    for translations in translate_each(translator, sources, request):
        candidates = []
        for t in translations:
            looked = 0.0 if t.attention is None else coverage(t.attention[::-1, :-1])
            candidates.append(Candidate(t.text, t.log_prob, len(t.log_probs), looked))
        n_best.append(candidates)
    return n_best


def _print(title: str, search: "Search", settings: "list[Search]", values: list[float]) -> None:
    """Print the values by length penalty (down) and coverage penalty (across), then the options to take.

    The first of ``values`` is that of ``search``, the model's own settings, the others are those of ``settings``.
    """
    betas = dict.fromkeys(setting.coverage_penalty for setting in settings)
    rows: dict[tuple[str, str], list[str]] = {}
    for setting, value in zip(settings, values[1:], strict=True):
        # The other penalties have no exponent.
        alpha = f"{setting.alpha:g}" if setting.length_penalty in ("gnmt", "power") else ""
        # The settings come in the order of the grid, so that the coverage penalties of a row are in theirs.
        rows.setdefault((setting.length_penalty, alpha), []).append(f"{value:.2f}")
    print_table(title, ["", "alpha", *(f"{beta:g}" for beta in betas)], [[*key, *row] for key, row in rows.items()])
    print()
    chosen = [search, *settings][values.index(max(values))]
    # The settings as they are stand beside the best, to show what there is to be gained.
    named = [["as it is", _options(search), f"{values[0]:.2f}"], ["best", _options(chosen), f"{max(values):.2f}"]]
    print_table("for nmtkit translate", ["", "options", "value"], named)


def _options(search: "Search") -> str:
    """The options of ``nmtkit translate`` for these penalties."""
    alpha = f" --alpha {search.alpha:g}" if search.length_penalty in ("gnmt", "power") else ""
    return f"--length-penalty {search.length_penalty}{alpha} --coverage-penalty {search.coverage_penalty:g}"


def _json(metric: str, settings: "list[Search]", values: list[float]) -> dict[str, Any]:
    """The values of all settings for scripts, the model's own first; ``best`` is the first of the best."""
    tried = [
        {
            "length_penalty": setting.length_penalty,
            "alpha": setting.alpha,
            "coverage_penalty": setting.coverage_penalty,
            "value": value,
        }
        for setting, value in zip(settings, values, strict=True)
    ]
    return {"metric": metric, "settings": tried, "best": tried[values.index(max(values))]}
