"""Presets: complete, with sources in their papers, and good messages for unknown names."""

import re
from importlib import resources
from typing import Any

import pytest
import torch

from nmtkit.config import build, dump_yaml, flatten, parse_yaml, places, to_dict
from nmtkit.errors import UserError
from nmtkit.experiment.presets import (
    SMALL,
    TRAINED,
    UNTRAINED,
    describe_preset,
    find_preset,
    load_preset,
    preset_names,
    read_presets,
)  # fmt: skip
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.models.base import count_parameters, groups
from tests.toys import full_size

every_preset = pytest.mark.parametrize("preset", preset_names())
# The system of each file with the most changes of the base.
by_changes = sorted(preset_names(), key=lambda name: len(flatten(find_preset(name).changes)))
most_changed = pytest.mark.parametrize("preset", {find_preset(name).file: name for name in by_changes}.values())

FILES = {
    file.name: file.read_text(encoding="utf-8")
    for file in resources.files("nmtkit.presets").iterdir()
    if file.name.endswith(".yaml")
}
every_file = pytest.mark.parametrize("file", sorted(FILES))


@every_file
def test_a_file_of_presets_belongs_to_a_file_of_models(file: str) -> None:
    assert parse_yaml(FILES[file], file)["base"]["architecture"] == file.removesuffix(".yaml")


def test_no_two_systems_have_one_name() -> None:
    names = [name for file, text in FILES.items() for name in parse_yaml(text, file)["systems"]]
    assert sorted(names) == sorted(set(names)) == sorted(preset_names())


@every_file
def test_the_values_of_a_base_say_where_they_come_from(file: str) -> None:
    text = FILES[file]
    for key, place in places(text).items():
        if key.startswith("base.") and key not in ("base.task", "base.architecture"):
            line = text[place.start : text.index("\n", place.stop)]
            assert "# " in line, f"{key} has no comment"


@every_file
def test_every_task_of_a_file_is_one_of_its_systems(file: str) -> None:
    content = parse_yaml(FILES[file], file)
    named = {system.get("task", content["base"]["task"]) for system in content["systems"].values()}
    named |= {system["small"]["task"] for system in content["systems"].values() if "task" in system.get("small", {})}
    assert named == set(content["tasks"])


@every_preset
def test_a_system_differs_from_its_base_only_in_its_own_keys(preset: str) -> None:
    found = find_preset(preset)
    base, values = flatten(found.base), flatten({**load_preset(preset)})
    differing = {key for key in base if values[key] != base[key]}
    assert differing == set(flatten(found.changes))
    assert {key for key in values if not key.startswith("paper.")} == set(base)


def test_changing_the_values_of_a_preset_changes_only_the_callers_copy() -> None:
    load_preset("convs2s-4l")["model"]["stages"][0]["layers"] = 99
    assert load_preset("densenmt-4l-1")["model"]["stages"][0]["layers"] == 4


@every_preset
def test_a_preset_survives_writing_to_a_model_folder(preset: str) -> None:
    experiment = build_experiment(load_preset(preset), preset)
    assert build_experiment(parse_yaml(dump_yaml(to_dict(experiment)), "config.yaml"), "config.yaml") == experiment


@most_changed
def test_a_preset_is_shown_in_full(preset: str) -> None:
    shown = describe_preset(preset)
    assert parse_yaml(shown, "shown") == load_preset(preset)
    assert shown.count("# (base: ") == len(flatten(find_preset(preset).changes))


@every_preset
def test_every_system_has_a_small_version_of_a_size_for_small_corpora(preset: str) -> None:
    experiment = build_experiment(load_preset(preset + SMALL), preset)
    model = full_size(preset + SMALL)
    assert 5 < count_parameters(model) / 1e6 < 16
    unmatched = [name for name, found in groups(model, experiment.training.groups).items() if not found]
    assert set(unmatched) <= {"other"}  # or training would refuse the group
    training = experiment.training
    assert (training.max_epochs, training.patience) == ((100, 10) if "low-resource" in preset else (30, 5))
    assert training.valid_every is None
    assert training.batch_sentences in (32, 80)


@every_preset
def test_no_size_of_a_small_version_exceeds_that_of_its_system(preset: str) -> None:
    system, small = load_preset(preset)["model"], load_preset(preset + SMALL)["model"]
    sizes = [name for name, value in system.items() if type(value) is int and "dropout" not in name]
    assert [name for name in sizes if small[name] > system[name]] == []
    # Parts that the system lacks and its defining values are kept.
    words = [name for name, value in system.items() if type(value) in (bool, str, type(None)) and name != "tied"]
    assert [name for name in words if small[name] != system[name]] == []


@most_changed
def test_a_small_version_is_shown_in_full_with_changed_and_new_values_marked(preset: str) -> None:
    shown, small = describe_preset(preset + SMALL), find_preset(preset + SMALL)
    assert parse_yaml(shown, "shown") == load_preset(preset + SMALL)
    base, changes = flatten(small.base), flatten(small.changes)
    assert shown.count("# (base: ") == len(set(changes) & set(base)) > 0
    assert ("# (new)" in shown) == bool(set(changes) - set(base))


@every_preset
def test_changes_of_a_small_version_differ_from_the_base(preset: str) -> None:
    small = find_preset(preset + SMALL)
    base, changes = flatten(small.base), flatten(small.changes)
    assert [key for key in changes if key in base and changes[key] == base[key]] == []


def test_a_small_version_says_whether_it_was_trained() -> None:
    trained, untrained = find_preset("bideep-small").paper, find_preset("bideep-large-small").paper
    assert (trained["task"], trained["score"], trained["parameters"]) == (TRAINED, 38.49, None)
    assert (untrained["task"], untrained["score"]) == (UNTRAINED, None)
    assert trained["section"] == "small version of bideep, Table 4, BiDeep"
    assert sum(find_preset(name + SMALL).paper["task"] == TRAINED for name in preset_names()) == 16
    small = [find_preset(name + SMALL).paper for name in preset_names()]
    assert all(("recipes/" in paper["task"]) == (paper["score"] is not None) for paper in small)  # says where
    scores = {name: find_preset(name + SMALL).paper["score"] for name in preset_names() if "low-resource" in name}
    assert scores == {"nematus-low-resource": 17.5, "nematus-low-resource-250k": 23.0}  # recipes/low-resource/README.md


def test_a_small_version_keeps_the_changes_of_its_system_and_may_have_its_own() -> None:
    assert load_preset("deep-att-small")["model"]["encoder_layers"] == 3
    assert load_preset("deep-att-2x2-small")["model"]["encoder_layers"] == 2  # a size in ``small`` is a limit
    assert load_preset("deep-ed-small")["model"]["attention"] is None
    assert load_preset("dtmt4-plain-small")["model"]["dropout"] == 0  # its row takes dropout away
    assert load_preset("rnnsearch-30-small")["training"]["max_length"] == 30


@pytest.mark.parametrize(("name", "near"), [("rnnsaerch-small", "rnnsearch-small"), ("rnnsearch-small-small", "rnn")])
def test_an_unknown_small_version_is_an_error_with_similar_names(name: str, near: str) -> None:
    with pytest.raises(UserError, match=rf"^`model` {name}: no such preset; did you mean {near}"):
        load_preset(name)


def rounding(parameters: float, architecture: str) -> float:
    """By how many million a size may differ from the printed one."""
    if architecture == "densenmt":
        return 1.07  # printed as 8, 11 and 17, "plus or minus one"
    if parameters in (65, 213):
        return 2.0  # the Transformer's vocabulary is "about 37000"
    return 0.055  # printed to a decimal; one of DTMT's is 0.003 over the edge


@pytest.mark.parametrize("preset", [name for name in preset_names() if find_preset(name).paper["parameters"]])
def test_a_model_has_the_printed_size(preset: str) -> None:
    printed = find_preset(preset).paper["parameters"]
    millions = count_parameters(full_size(preset)) / 1e6
    assert millions == pytest.approx(printed, abs=rounding(printed, find_preset(preset).base["architecture"]))


@every_preset
def test_a_system_keeps_the_checkpoints_that_its_paper_averages(preset: str) -> None:
    experiment = build_experiment(load_preset(preset), preset)
    named = re.search(r"mean of the last (\d+) checkpoints", experiment.paper.task)
    if named:
        assert experiment.training.keep_last == int(named[1])
        # Written every 10 minutes: 0.4 s an update of the base model, 1 s of the big one (Vaswani et al., section 5.2).
        assert experiment.training.valid_every == (600 if "-big" in preset else 1500)
    small = build_experiment(load_preset(preset + SMALL), preset)
    assert small.training.keep_last == 1


def test_changed_values_are_shown_with_those_of_the_base() -> None:
    lines = describe_preset("dtmt2").splitlines()
    assert '  transitions: 2               # (base: 4) T-GRUs in each module, "System Description"' in lines
    # Of several values on one line, the changed one is named.
    assert "{lr: 0.001, init: zeros}  # (base: lr: 5e-4) " in describe_preset("deep-att-small")


def test_the_comments_of_a_system_replace_those_of_its_file() -> None:
    shown = describe_preset("nematus-low-resource-small")
    assert "  batch_sentences: 32          # (base: 80) small batches learn more from little data\n" in shown
    assert describe_preset("small") == shown
    # A comment beside several values says nothing about a single one.
    assert "max_updates: 300000          # (base: 100000) Table 3\n" in describe_preset("transformer-big")


@every_preset
def test_the_model_of_a_preset_is_written_out_in_full(preset: str) -> None:
    values = load_preset(preset)
    assert to_dict(build_experiment(values, preset))["model"] == values["model"]


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("{section: x, modle: {}}", "modle: unknown key; did you mean model?"),
        ("{section: x, model: {widht: 3}}", "model.widht: unknown key; did you mean model.width?"),
        (
            "{section: x, training: {optimizer: {xyz: 3}}}",
            "training.optimizer.xyz: unknown key; known keys: name, lr, ",
        ),
        ("{section: x, architecture: dtmt}", "architecture: unknown key; known keys: section, task, score, "),
    ],
)
def test_a_key_that_the_base_does_not_have_is_named_with_its_file_and_system(system: str, message: str) -> None:
    text = FILES["deep_att.yaml"].partition("systems:")[0] + f"systems:\n  mine: {system}\n"
    with pytest.raises(UserError) as error:
        dict(read_presets("mine.yaml", text))
    assert str(error.value).startswith(f"mine.yaml: mine: {message}")


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("tasks:", "task:", "tasks: missing; every preset file has paper, tasks, base, small, systems"),
        ("systems:", "system:", "systems: missing; every preset file has paper, tasks, base, small, systems"),
        ("  search:", "  find:", "base.search: missing; every preset file has paper, tasks, base, small, systems"),
        (
            "    embedding: 256\n",
            "    embeding: 256\n",
            "small.model.embeding: unknown key; did you mean small.model.embedding?",
        ),
        ("  task: en-fr", "  task: fr-en", "rnnsearch-30: task: fr-en-12m is not one of en-fr-12m"),
        (
            "  rnnsearch: {",
            "  new:\n  rnnsearch: {",
            "new: expected differences from the base, as in {section: Table 1}",
        ),
        (
            '  rnnsearch: {section: "Table 1, RNNsearch-50", ',
            "  rnnsearch: {",
            "rnnsearch: section: missing; name the table or the section of the paper",
        ),
    ],
)
def test_parts_missing_in_a_preset_file_are_named(line: str, instead: str, message: str) -> None:
    text = FILES["rnnsearch.yaml"].replace(f"\n{line}", f"\n{instead}", 1)
    with pytest.raises(UserError) as error:
        dict(read_presets("mine.yaml", text))
    assert str(error.value) == f"mine.yaml: {message}"


def mistake(name: str = "deep-att", **changes: Any) -> str:
    with pytest.raises(UserError) as error:
        build_experiment({**load_preset(name), **changes}, "run.yaml")
    return str(error.value)


def test_an_unknown_preset_is_an_error_with_similar_names() -> None:
    with pytest.raises(UserError) as error:
        load_preset("rnnsaerch")
    near = "rnnsearch, rnnsearch-30, rnnsearch-small"
    expected = f"`model` rnnsaerch: no such preset; did you mean {near}? `nmtkit models` lists them"
    assert str(error.value) == expected
    with pytest.raises(UserError, match="did you mean dtmt2-small, "):
        load_preset("dtmt2-smal")


@pytest.mark.parametrize(("name", "near"), [("rnn", "rnnsearch"), ("ende", "deep-att-ende")])
def test_a_part_of_names_is_an_error_with_some_of_them(name: str, near: str) -> None:
    with pytest.raises(UserError, match=rf"^`model` {name}: no such preset; did you mean .*\b{near}\b") as error:
        load_preset(name)
    assert str(error.value).count(",") <= 2


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "x"])
def test_a_name_unlike_any_preset_is_an_error_with_the_command_that_lists_them(name: str) -> None:
    with pytest.raises(UserError) as error:
        load_preset(name)
    assert str(error.value) == f"`model` {name}: no such preset; `nmtkit models` lists them"


def test_an_unknown_architecture_is_an_error_with_the_known_ones() -> None:
    known = sorted({load_preset(name)["architecture"] for name in preset_names()})
    assert mistake(architecture="deepatt") == f"architecture: 'deepatt' is not one of {', '.join(known)}"
    assert mistake(architecture=["base"]).startswith("architecture: ['base'] is not one of ")


def test_a_configuration_without_architecture_is_an_error() -> None:
    assert (
        mistake(architecture=None) == "run.yaml: architecture: missing; name a preset as `model`, or copy it from one"
    )


def test_a_base_in_a_configuration_is_an_error_that_names_the_remedy() -> None:
    assert mistake(base="bideep-small") == (
        "run.yaml: base: not a key of a configuration; name the preset as `model`, and keep in the file only the "
        "values that differ from it"
    )


def test_mistakes_in_the_model_and_elsewhere_are_reported_together() -> None:
    model = {**load_preset("deep-att")["model"], "widht": 3, "dropout": "x"}
    assert mistake(model=model, trainig={}) == (
        "run.yaml: trainig: unknown key; did you mean training?; "
        "model.widht: unknown key; did you mean model.width?; model.dropout: expected a number, found str 'x'"
    )


def test_a_part_annotated_as_any_has_the_given_schema() -> None:
    values = load_preset("rnnsearch")
    with pytest.raises(UserError, match="model: missing"):
        build(Experiment, {key: value for key, value in values.items() if key != "model"}, "run.yaml", {"model": dict})


ARCHITECTURES = sorted({(values := load_preset(name))["architecture"]: name for name in preset_names()}.items())


@pytest.mark.parametrize("preset", [preset for _, preset in ARCHITECTURES])
@pytest.mark.parametrize("value", [0, -1])
def test_an_impossible_size_is_refused_by_name(preset: str, value: int) -> None:
    values = load_preset(preset)
    for name in [name for name, size in values["model"].items() if type(size) is int]:
        changed = {**values, "model": {**values["model"], name: value}}
        try:
            with torch.device("meta"):
                model = build_experiment(changed, preset).build(8, 9)
        except UserError as error:
            assert f"model.{name}: " in str(error)  # noqa: PT017
        else:
            assert value == 0
            assert all(parameter.numel() for parameter in model.parameters()), name
