"""``doctor``: problems with the text and with a planned training run."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nmtkit.folders import TextFiles
from nmtkit.options import Option, by_keyword, option
from nmtkit.workflow.shared import DATA, RAW, SOURCE_LANGUAGE, TARGET_LANGUAGE, presets
from nmtkit.workflow.texts import DEV, TEST, TRAIN, TwoFiles, raw_texts

if TYPE_CHECKING:
    from nmtkit.data.doctor import Finding


# fmt: off
@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """The options of ``doctor``, in the order of its help."""

    src_lang: str | None = option(None, SOURCE_LANGUAGE)
    tgt_lang: str | None = option(None, TARGET_LANGUAGE)
    raw: Path | str = option("raw", RAW)
    data: Path | str = option("data", DATA)
    model: str | None = option(None, Option(
        "Also check whether this preset suits the text and fits into memory.", names="--model -m", complete=presets))
    train: TwoFiles | None = option(None, TRAIN)
    dev: TwoFiles | None = option(None, DEV)
    test: TwoFiles | None = option(None, TEST)
# fmt: on


class Diagnosis(NamedTuple):
    """The result of ``doctor``: its findings, and the languages of the text."""

    findings: "list[Finding]"
    src: str
    tgt: str


def diagnose(options: DoctorOptions) -> Diagnosis:
    """Check raw text, the coverage of the vocabularies, and whether a preset fits into memory: ``nmtkit doctor``.

    A finding is ``fatal`` if ``prep`` or ``train`` would fail. Raises UserError if there is no raw text.
    """
    from nmtkit.data.doctor import Finding, examine_ids, examine_round_trip, examine_text
    from nmtkit.experiment.plan import examine_memory, examine_plan
    from nmtkit.experiment.presets import load_preset
    from nmtkit.experiment.schema import build_experiment
    from nmtkit.text.settings import load_prep

    data, model = Path(options.data), options.model
    languages: tuple[str | None, str | None] = options.src_lang, options.tgt_lang
    if languages == (None, None) and TextFiles(data).settings.is_file():
        languages = load_prep(data).languages
    # A missing development set is reported below; prep may have sampled a test set.
    sampled = ["dev", *(["test"] if (data / "test.src").exists() else [])]
    named = {"train": options.train, "dev": options.dev, "test": options.test}
    asked = bool(options.src_lang or options.tgt_lang)
    files, src, tgt = raw_texts(options.raw, named, languages, sampled, asked=asked)
    findings = examine_text(files, src, tgt)
    if "dev" not in files and not (data / "dev.src").exists():  # prep may have sampled one from the training text
        remedy = "nmtkit prep --dev-size samples one from the training text"
        place = Path(options.raw) if options.train is None else files["train"].src
        findings.append(Finding(place, f"no development set, without which nmtkit train fails; {remedy}", fatal=True))
    if (data / "manifest.json").exists():
        findings += examine_round_trip(data)
    if (data / "ids.json").exists():
        findings += examine_ids(data)
    if model is not None:
        planned = build_experiment(load_preset(model), model)
        findings += examine_memory(planned, data, model)
        if (data / "ids.json").exists():
            findings += [Finding(data, f"{model}: {what}") for what in examine_plan(planned, data)]
    return Diagnosis(findings, src, tgt)


doctor = by_keyword(DoctorOptions, diagnose, "doctor")
