"""``tune``: the best length and coverage penalties for a model."""

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmtkit.config import to_dict
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.options import Option, by_keyword, option
from nmtkit.search.settings import Search
from nmtkit.translation.request import Request
from nmtkit.workflow.shared import CHECKPOINT, DATA, DEVICE, MODEL, PRECISION, Precision, model_at, numbers
from nmtkit.writing import locked

if TYPE_CHECKING:
    from nmtkit.evaluation.tuning import Candidate
    from nmtkit.translation.translation import Translation
    from nmtkit.translation.translator import Translator

log = logging.getLogger(__name__)


# fmt: off
@dataclass(frozen=True)
class TuneOptions:
    """The options of ``tune``, in the order of its help."""

    model: Path | str = option("run", MODEL)
    _: KW_ONLY
    checkpoint: str | int | None = option(None, CHECKPOINT)
    data: Path | str = option("data", DATA)
    beam_size: int | None = option(None, Option(
        "Beam size, and the length of the n-best lists.  [default: the model's]", names="--beam-size -b", at_least=1))
    alphas: str | Sequence[float] = option("0.2,0.4,0.6,0.8,1,1.2,1.4,1.7", Option(
        "Exponents to try with the length penalties gnmt and power."))
    betas: str | Sequence[float] = option("0,0.1,0.2,0.4", Option("Coverage penalties to try."))
    metric: Literal[
        "sacreBLEU-13a", "13a-lc", "mteval-lc", "sacreBLEU-zh", "sacreBLEU-char", "chrF2", "chrF2-lc"
    ] | None = option(
        None, Option(
            "Metric to maximise; those with -lc ignore case, for models that output lower case.  [default: "
            "sacreBLEU-13a, or -zh or -char in languages without spaces between words]"))
    save: bool = option(False, Option(
        "Save the best penalties, but not the beam size, as the model's defaults in its config.yaml."))
    precision: Precision = option("auto", PRECISION)
    device: str = option("auto", DEVICE)
# fmt: on


@dataclass(frozen=True)
class Tuned:
    """The result of ``tune``; ``tuned.best`` are the best settings."""

    settings: list[Search]  # the model's own first
    values: list[float]  # the metric's value for each of the settings
    sentences: int  # of the development set
    metric: str
    beam_size: int  # of the model; that of ``settings`` may be another

    @property
    def best(self) -> Search:
        """The settings with the highest value; the first ones of a tie."""
        return self.settings[self.values.index(max(self.values))]


def search_penalties(options: TuneOptions) -> Tuned:
    """Find the best length and coverage penalties on the development set: ``nmtkit tune``.

    The set is translated once, and its n-best lists are re-ranked with every penalty. Raises UserError for a folder
    without a development set, for invalid penalties, and for ``save`` with an ensemble or a model in training.
    """
    chosen = model_at(options.model, options.checkpoint)
    if not options.save:
        return _tuned(options, chosen)
    folder = ModelFolder.at(chosen)
    if folder.bundle.exists():
        raise UserError(f"`save`: {chosen} is an ensemble, which has no settings of its own; leave `save` out")
    folder.check()  # locking would create a missing folder
    with locked(folder.path, "training or tuning"):  # before the search, so that its result is not lost
        tuned = _tuned(options, chosen)
        _save(folder, tuned.best)
    return tuned


tune = by_keyword(TuneOptions, search_penalties, "tune")


def _tuned(options: TuneOptions, chosen: Path) -> Tuned:
    """The values of all settings for the model ``chosen``."""
    from nmtkit.evaluation import tuning
    from nmtkit.evaluation.bleu import standard_bleu
    from nmtkit.translation import loading
    from nmtkit.translation.testset import check_languages, read_held_out

    held_out = read_held_out(Path(options.data), "dev")
    translator = loading.load(chosen, options.device, precision=options.precision)
    check_languages(translator, Path(options.data))
    own = translator.search.beam_size
    search = Request(beam_size=options.beam_size).search(translator.search)
    if search.beam_size == 1:
        raise UserError("`beam_size` 1: a single translation cannot be re-ranked; use a larger beam")
    translator = replace(translator, search=search)
    expected = "numbers separated by commas, such as 0.2,0.4"
    alphas, betas = numbers("alphas", options.alphas, expected), numbers("betas", options.betas, expected)
    try:
        settings = tuning.grid(search, alphas, betas)
    except ValueError as error:
        raise UserError(f"`alphas` {options.alphas}, `betas` {options.betas}: {error}") from None
    if not translator.has_attention:
        settings = [setting for setting in settings if not setting.coverage_penalty]
        if not settings:
            raise UserError(f"`betas` {options.betas}: the model has no attention, so only 0 can be tried")
    n_best = _n_best(translator, held_out.sources)
    tried = [search, *settings]  # the model's own first, so that they win ties
    side = translator.tgt_pipeline.side
    metric = options.metric or standard_bleu(side.language)
    values = tuning.tune(n_best, held_out.refs_like(side), metric, tried)
    return Tuned(tried, values, len(held_out.sources), metric, own)


def _save(folder: ModelFolder, best: Search) -> None:
    """Make the penalties of ``best`` the defaults of a model, which keeps its beam size."""
    from nmtkit.experiment.schema import load_experiment

    experiment = load_experiment(folder)
    search = replace(best, beam_size=experiment.search.beam_size)
    folder.write_config(to_dict(replace(experiment, search=search)))
    folder.seal()
    log.info(f"nmtkit: saved the best penalties in {folder.config}; restart a server that uses the model")


def _n_best(translator: "Translator", sources: list[str]) -> "list[list[Candidate]]":
    """The n-best list of every line, as long as the beam; without attention, coverage is 0."""
    from nmtkit.evaluation.tuning import Candidate
    from nmtkit.search.beam import coverage
    from nmtkit.translation.testset import answer_each

    def candidate(t: "Translation") -> Candidate:
        looked = 0.0 if t.attention is None else coverage(t.attention[::-1, :-1])
        return Candidate(t.text, t.log_prob, len(t.log_probs), looked)

    request = Request(n_best=translator.search.beam_size, attention=translator.has_attention)
    return [list(map(candidate, translations)) for translations in answer_each(translator, sources, request)]
