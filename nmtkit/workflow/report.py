"""``report``: an HTML page about trained systems."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmtkit.errors import UserError, counted
from nmtkit.folders import ModelFolder, read_text
from nmtkit.options import Option, by_keyword, option
from nmtkit.translation.request import REPLACE_UNK, Request
from nmtkit.version import __version__
from nmtkit.workflow.contrast import measure, read_entries
from nmtkit.workflow.shared import DATA, DEVICE, MAX_LENGTH, PAIRED, SUBSET_METRIC, TYPES, model_paths, paths
from nmtkit.writing import atomic_write

if TYPE_CHECKING:
    from nmtkit.evaluation.report import History, Sentence
    from nmtkit.translation.testset import Translated


# fmt: off
@dataclass(frozen=True)
class ReportOptions:
    """The options of ``report``, in the order of its help."""

    models: Path | str | Sequence[Path | str] = option("run", Option(
        "Model folders, or checkpoint folders such as run/checkpoints/step-876.  [default: run]", metavar="MODEL",
        argument=True))
    _: KW_ONLY
    output: Path | str = option("report.html", Option("HTML file to write.", names="--output -o"))
    data: Path | str = option("data", DATA)
    lines: str | Sequence[int] | None = option(None, Option(
        "Line numbers in the test set whose attention is drawn, such as 1,17.  [default: the three whose "
        "translations differ most]"))
    count: int = option(10, Option(
        "How many of the worst sentences, and of the most different ones, to show.", at_least=0))
    paired: Literal["bs", "ar"] = option("bs", PAIRED)
    contrast: Path | str | Sequence[Path | str] = option((), Option(
        "Contrastive test set, as for nmtkit contrast; may be repeated."))
    types: Sequence[str] = option((), TYPES)
    checkpoints: bool = option(False, Option("Also evaluate every kept checkpoint on the test set."))
    subset_metric: str = option("multi-bleu", SUBSET_METRIC)
    max_length: int | None = option(None, MAX_LENGTH)
    replace_unk: bool = option(False, REPLACE_UNK)
    device: str = option("auto", DEVICE)
# fmt: on


def write_report(options: ReportOptions) -> Path:
    """Write a report about models as one self-contained HTML page, and return its path: ``nmtkit report``.

    Every model translates the test set of the folder ``data``, and is compared with the first model. Raises UserError
    for models that do not match the data folder, and for arguments without effect.
    """
    folders = model_paths(options.models)
    if len(set(folders)) < len(folders):
        raise UserError("a model is named twice; name each once")
    if Path(options.output).suffix not in (".html", ".htm"):
        raise UserError(f"`output` {options.output}: is written as HTML; choose a name that ends in .html")
    if options.types and not options.contrast:
        raise UserError("`types` needs `contrast`")
    with atomic_write(options.output) as file:  # before the systems translate, so that their work is not lost
        file.write(_page(options, folders))
    return Path(options.output)


report = by_keyword(ReportOptions, write_report, "report")


def _page(options: ReportOptions, folders: Sequence[Path]) -> str:
    entries = read_entries(paths(options.contrast), options.types) if options.contrast else []
    data = Path(options.data)

    from nmtkit.evaluation.comparison import Compared, compare
    from nmtkit.evaluation.report import most_different, render, sentences
    from nmtkit.ops.precision import resolve
    from nmtkit.translation.loading import choose_device
    from nmtkit.translation.testset import read_held_out, translate_held_out

    # Before translating, so that wrong numbers and damaged metrics are reported at once.
    numbers = []
    if options.lines is not None:
        numbers = _numbers(options.lines, len(read_held_out(data, "test").sources))
    histories = [_history(ModelFolder.at(folder)) for folder in folders]
    translated = [
        translate_held_out(
            folder, data, options.device, "auto", split="test", max_length=options.max_length,
            replace_unk=options.replace_unk, keep=False,
        )
        for folder in folders
    ]  # fmt: skip
    # After translating, which checks that the models match the data folder.
    histories = [
        replace(
            history,
            test=_test_history(ModelFolder.at(folder), data, t) if options.checkpoints else [],
            contrast=measure(t.translator, entries) if entries else {},
        )
        for history, folder, t in zip(histories, folders, translated, strict=True)
    ]
    named = zip(translated, histories, strict=True)
    systems = [replace(t.compared.systems[0], name=history.name) for t, history in named]
    paired = options.paired if len(systems) > 1 else None
    comparison = compare(Compared(systems, *translated[0].compared[1:]), paired, False, options.subset_metric)
    said = sentences(translated[0].sources, comparison)
    chosen = [said[i - 1] for i in numbers] or most_different(said, 3)
    looks = [(sentence, _heat_maps(sentence, translated, histories)) for sentence in chosen]
    device = choose_device(options.device)
    searched = f"translated in {resolve('auto', device)} on {device}"
    subtitle = f"{counted(len(said), 'sentence')} of {data}; {searched}; nmtkit {__version__}"
    return render(histories, comparison, looks, said, options.count, subtitle)


def _history(folder: ModelFolder) -> "History":
    """The history of a model, or of an ensemble (its parameters are those of its members, and its log is empty).

    Raises UserError for any other folder.
    """
    from nmtkit.evaluation.report import History, read_metrics
    from nmtkit.experiment.development import MEASURED
    from nmtkit.experiment.plan import parameters_by_part, vocabulary_sizes
    from nmtkit.experiment.schema import load_experiment

    if folder.bundle.exists():
        members = [_history(ModelFolder(path)) for path in sorted(folder.members.iterdir())]
        folder.check_sums()
        configs = [folder.bundle.read_text("utf-8"), *(f"# {member.name}\n{member.config}" for member in members)]
        kind, parameters = f"ensemble of {len(members)}", sum(member.parameters for member in members)
        return History(str(folder), kind, None, "\n".join(configs), parameters, [], [], [], {})
    folder.check()
    planned = load_experiment(folder)
    parameters = parameters_by_part(planned, *vocabulary_sizes(planned, folder.path))["total"]
    config, rate = folder.config.read_text("utf-8"), planned.training.optimizer.lr
    train, valid = read_metrics(folder.metrics)
    measured = ["-", *re.findall(f"{MEASURED}(.*)", read_text(folder.log))][-1]  # a resumed run says it again
    return History(str(folder), planned.architecture, rate, config, parameters, train, valid, [], {}, measured)


def _test_history(folder: ModelFolder, data: Path, translated: "Translated") -> list[dict[str, float]]:
    """Cross-entropy and token errors of all kept checkpoints on the test set (Zhou et al. 2016, Fig. 4).

    Empty for an ensemble. Raises UserError as ``check_vocabularies`` does.
    """
    import torch

    from nmtkit.data import batches
    from nmtkit.data.corpus import Corpus
    from nmtkit.experiment.model import check_vocabularies, load_model
    from nmtkit.training.checkpoint import load_into
    from nmtkit.training.validation import teacher_forced

    if folder.bundle.exists():
        return []
    check_vocabularies(folder, data)
    corpus = Corpus.open(data, "test")
    pairs = batches.within(corpus, None)
    model, experiment = load_model(folder.path, translated.translator.device)
    records: list[dict[str, float]] = []
    for update in folder.updates() if len(pairs) else ():
        load_into(model, folder.weights(update))
        loss, errors = teacher_forced(model, corpus, pairs, experiment.training.pass_tokens, torch.float32)
        records.append({"update": update, "cross_entropy": loss, "token_error_rate": errors})
    return records


def _numbers(lines: str | Sequence[int], sentences: int) -> list[int]:
    """Numbers of sentences, which may be comma-separated text. Raises UserError for anything else."""
    lines = lines if isinstance(lines, str) else ",".join(map(str, lines))
    numbers = [int(part) if re.fullmatch(" *[0-9]{1,9} *", part) else 0 for part in lines.split(",")]
    if not all(1 <= number <= sentences for number in numbers):
        raise UserError(f"`lines` {lines}: expected numbers from 1 to {sentences}, separated by commas")
    return numbers


def _heat_maps(sentence: "Sentence", translated: "list[Translated]", histories: "list[History]") -> str:
    """Heat maps of the attention weights, EOS included, of the systems that have them; a blank translation has none."""
    from nmtkit.evaluation.charts import heat_map

    maps = ""
    for t, history in zip(translated, histories, strict=True):
        if not t.translator.has_attention:
            continue
        [[best]] = t.translator.answer([sentence.source], Request(attention=True))
        if best.attention is not None:
            source, target = ([*tokens, "</s>"] for tokens in (best.source, best.tokens))
            maps += heat_map(history.name, source, target, best.attention)
    return maps
