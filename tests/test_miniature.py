"""The papers' claims in miniature: the plan builds, the runner survives a kill, the page judges rightly."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.conftest import Outcome
from tests.test_quickstart_corpus import grammar

RECIPE = Path(__file__).parents[1] / "recipes" / "miniature"
PLAN = yaml.safe_load((RECIPE / "plan.yaml").read_text())


@pytest.fixture(scope="module")
def scripts() -> Iterator[tuple[ModuleType, ModuleType]]:
    """run.py and page.py, which finds the other beside it."""
    sys.path.insert(0, str(RECIPE))
    yield importlib.import_module("run"), importlib.import_module("page")
    sys.path.remove(str(RECIPE))
    del sys.modules["run"], sys.modules["page"]


@pytest.fixture
def run(scripts: tuple[ModuleType, ModuleType]) -> ModuleType:
    return scripts[0]


@pytest.fixture
def page(scripts: tuple[ModuleType, ModuleType]) -> ModuleType:
    return scripts[1]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the raw text of the corpus "made", English and French of the quickstart's grammar, 200 pairs."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "made" / "raw").mkdir(parents=True)
    for split, pairs in grammar.make_corpus(1, 200).items():
        for language, side in zip(("en", "fr"), zip(*pairs[:200], strict=True), strict=True):
            (folder / "made" / "raw" / f"{split}.{language}").write_text("".join(f"{line}\n" for line in side))
    return folder


def tiny_plan() -> dict[str, Any]:
    """Two rows of RNNsearch that differ in width, two seeds, a claim."""
    sizes = {"model.embedding": 8, "model.attention": 8, "model.maxout": 8}
    return {
        "corpora": {"made": {"source": "en", "target": "fr", "steps": [
            ["prep", "--src-lang", "en", "--tgt-lang", "fr", "--bpe", "50"], ["vocab"],
        ]}},
        "translate": ["--beam-size", "2"],
        "common": {"training.precision": "float32", "training.batch_sentences": 50, "search.beam_size": 1},
        "budgets": {"two": {"training.max_updates": None, "training.max_epochs": 2}},
        "families": {"rnnsearch": sizes},
        "groups": {"tiny": {
            "title": "Two widths", "corpus": "made", "budget": "two", "family": "rnnsearch", "seeds": [1, 2],
            "rows": {
                "narrow": {"preset": "rnnsearch", "set": {"model.hidden": 8}},
                "wide": {"preset": "rnnsearch", "set": {"model.hidden": 16}},
            },
            "claims": [
                {"table": "1", "text": "wide beats narrow", "better": "wide", "worse": "narrow", "paper": [2, 1]},
            ],
        }},
    }  # fmt: skip


# The plan


def test_every_claim_compares_two_rows_of_its_group_that_see_the_same_words(run: ModuleType) -> None:
    planned = run.jobs(PLAN)
    pairs = run.claims(PLAN, planned)  # a row that does not exist is a KeyError
    assert len(pairs) > 80
    for better, worse in pairs:
        assert better.row != worse.row
        assert better.settings["data"] == worse.settings["data"]
        for key in PLAN["budgets"]["six"]:
            assert better.settings["set"][key] == worse.settings["set"][key]
    assert len({job.id for job in planned}) == len(planned)


def test_every_published_number_of_a_claim_says_what_the_claim_says() -> None:
    for group, content in PLAN["groups"].items():
        for claim in content.get("claims", []):
            if "paper" in claim:
                better, worse = claim["paper"]
                assert better < worse if group == "miceli" else better > worse, claim  # cross-entropies there


def test_every_comparison_has_two_seeds_at_least_and_what_chooses_settings_never_sees_the_test_set() -> None:
    for content in PLAN["groups"].values():
        assert content.get("tested", True) == (len(content["seeds"]) > 1)


@pytest.mark.slow
def test_every_row_of_the_plan_builds(
    run: ModuleType, nmtkit: Callable[..., Outcome], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work / "made")
    assert nmtkit("prep", "--src-lang", "en", "--tgt-lang", "fr", "--bpe", "50").status == 0
    assert nmtkit("vocab").status == 0
    for settings in {(job.group, job.row): job.settings for job in run.jobs(PLAN)}.values():
        values = [f"--set={key}={value}" for key, value in settings["set"].items()]
        done = nmtkit("train", "--dry-run", "--model", settings["preset"], *values)
        assert done.status == 0, done.err
        shown = yaml.safe_load(done.out.partition("\n\n")[0])
        assert float(shown["training"]["optimizer"]["lr"]) == float(settings["set"]["training.optimizer.lr"])


# The runner


@pytest.mark.slow
def test_a_runner_killed_again_and_again_writes_the_ledger_of_one_that_was_not(work: Path, tmp_path: Path) -> None:
    plan = tiny_plan()
    plan["groups"]["tiny"]["seeds"] = [1]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))

    def start(name: str) -> subprocess.Popen[bytes]:
        if not (tmp_path / name).exists():
            (tmp_path / name / "made").mkdir(parents=True)
            (tmp_path / name / "made" / "raw").symlink_to(work / "made" / "raw")
        files = [f"--plan={tmp_path / 'plan.yaml'}", f"--work={tmp_path / name}", f"--ledger={tmp_path / name}.jsonl"]
        command = [sys.executable, str(RECIPE / "run.py"), *files]
        return subprocess.Popen(command, start_new_session=True)

    def ledger(name: str) -> list[dict[str, Any]]:
        lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        return [{**json.loads(line), "seconds": 0} for line in lines]

    whole = start("whole")
    assert whole.wait(600) == 0
    seed = tmp_path / "pieces" / "tiny" / "narrow" / "seed1"
    for reached in (
        tmp_path / "pieces" / "made" / "step1.done", seed / "run" / "metrics.jsonl", seed / "averaged",
        seed / "test.hyp", tmp_path / "pieces.jsonl",
    ):  # fmt: skip
        killed = start("pieces")
        while not reached.exists():
            assert killed.poll() is None
            time.sleep(0.02)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    last = start("pieces")
    assert last.wait(600) == 0
    assert ledger("pieces") == ledger("whole")
    assert [line.get("row") for line in ledger("whole")] == ["narrow", "wide", None]  # then the paired test of the two
    for line in ledger("whole")[:2]:
        assert len(line["passes"]) == 2
        assert line["words"] > 1000
        assert line["BLEU"] >= 0

    again = start("pieces")  # nothing is left to do
    assert again.wait(60) == 0
    assert len(ledger("pieces")) == 3


def test_a_failing_command_ends_the_runner_with_its_last_words(work: Path, tmp_path: Path) -> None:
    plan = tiny_plan()
    plan["corpora"]["made"]["steps"] = [["prep", "--no-such-option"]]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    command = [
        sys.executable,
        RECIPE / "run.py",
        f"--plan={tmp_path / 'plan.yaml'}",
        f"--ledger={tmp_path / 'x.jsonl'}",
    ]
    done = subprocess.run([*command, f"--work={work}"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "made: nmtkit prep ended with status" in done.stderr
    assert "--no-such-option" in done.stderr
    assert not (tmp_path / "x.jsonl").exists()


def test_a_training_that_was_stopped_is_no_result(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: object, folder: Path, command: str, *arguments: object) -> str:
        if command == "train":  # as after SIGTERM: status 0
            (folder / "run").mkdir()
            (folder / "run" / "train.log").write_text("stopped after update 3\n")
        return ""

    (tmp_path / "made").mkdir()
    monkeypatch.setattr(run.Runner, "_nmtkit", stopped)
    runner = run.Runner(tiny_plan(), tmp_path, tmp_path / "ledger.jsonl")
    with pytest.raises(SystemExit, match="tiny/narrow/seed1: the training was stopped"):
        runner.run(run.jobs(tiny_plan())[0])
    assert not (tmp_path / "ledger.jsonl").exists()


def test_a_group_that_the_plan_does_not_have_is_refused() -> None:
    command = [sys.executable, RECIPE / "run.py", "--groups", "zhou", "zhu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has no group zhu: only zhou-search, " in done.stderr


def test_a_row_whose_settings_change_is_another_row(run: ModuleType) -> None:
    plan = tiny_plan()
    before = run.jobs(plan)
    plan["groups"]["tiny"]["rows"]["wide"]["set"]["model.hidden"] = 32
    after = run.jobs(plan)
    assert [one.id == other.id for one, other in zip(before, after, strict=True)] == [True, True, False, False]


# The page


def made_ledger(run: ModuleType, narrow: list[float], wide: list[float], p: float) -> list[dict[str, Any]]:
    """What the runner would have written had the two rows had these BLEU by seed, and every test over sentences p."""
    planned = run.jobs(tiny_plan())
    scores = {"narrow": dict(enumerate(narrow, 1)), "wide": dict(enumerate(wide, 1))}
    done = [job for job in planned if job.seed in scores[job.row]]
    lines: list[dict[str, Any]] = [
        {
            "id": job.id, "group": job.group, "row": job.row, "seed": job.seed, "commit": "abc", "parameters": 0.1,
            "precision": "float32", "machine": "a processor", "words": 1_000_000, "seconds": 60,
            "passes": [{"cross_entropy": 3.0, "bleu": 1.0}, {"cross_entropy": 2.0, "bleu": 2.0}],
            "BLEU": scores[job.row][job.seed], "chrF": 50.0, "signature": "s", "settings": job.settings,
        }
        for job in done
    ]  # fmt: skip
    for better, worse in run.claims(tiny_plan(), planned):
        if better in done and worse in done:
            lines.append({"id": f"{better.id}-{worse.id}", "p": p, "signature": "s"})
    return lines


@pytest.mark.parametrize(
    ("narrow", "wide", "p", "verdict"),
    [
        ([20.0, 20.2], [25.0, 25.3], 0.001, "seen"),
        ([25.0, 25.3], [20.0, 20.2], 0.001, "opposite"),
        ([20.0, 24.0], [23.0, 22.5], 0.001, "not seen"),  # the seeds differ more than the rows
        ([20.0, 20.2], [25.0, 25.3], 0.6, "not seen"),  # the sentences might be chance
        ([20.0, 20.0], [20.0, 20.0], 1.0, "not seen"),
        ([20.0], [25.0], 0.001, "not run yet"),
        ([20.0, 20.2], [], 0.001, "not run yet"),
        ([], [], 0.001, "not run yet"),
    ],
)
def test_the_page_says_what_the_ledger_shows(
    run: ModuleType, page: ModuleType, narrow: list[float], wide: list[float], p: float, verdict: str
) -> None:
    results = page.Results(tiny_plan(), made_ledger(run, narrow, wide, p))
    text = page.page(tiny_plan(), results)
    counts = {"seen": 0, "not seen": 0, "opposite": 0, "not run yet": 0} | {verdict: 1}
    for name, count in counts.items():
        assert f"- **{name}** ({count})" in text
    assert f"| **{verdict}** |" in text
    assert "| 2, 1 | +1.00 |" in text


def test_a_result_of_other_settings_is_not_shown(run: ModuleType, page: ModuleType) -> None:
    plan = tiny_plan()
    ledger = made_ledger(run, [20.0, 20.2], [25.0, 25.3], 0.001)
    plan["groups"]["tiny"]["rows"]["wide"]["set"]["model.hidden"] = 32
    assert page.Results(plan, ledger).finding("tiny", "wide", "narrow").verdict == "not run yet"


def test_the_page_keeps_what_stands_above_its_mark_and_draws_every_row(
    run: ModuleType, page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made_ledger(run, [20.0, 20.2], [25.0, 25.3], 0.001)
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(tiny_plan(), sort_keys=False))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ledger))
    (tmp_path / "README.md").write_text(f"# A head\n\n{page.MARK}\n\nold tables\n")
    options = [f"--{name}={tmp_path / file}" for name, file in
               [("plan", "plan.yaml"), ("ledger", "results.jsonl"), ("readme", "README.md")]]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["page.py", *options])
    page.main()
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"# A head\n\n{page.MARK}\n\n## Effect by effect")
    assert "old tables" not in text
    assert "25.15 ± 0.21, 20.10 ± 0.14 | +5.05" in text
    drawing = (tmp_path / "curves.svg").read_text()
    assert all(row in drawing for row in ("narrow", "wide", "tiny"))
    page.main()
    assert (tmp_path / "README.md").read_text() == text
    assert (tmp_path / "curves.svg").read_text() == drawing


def test_the_committed_page_is_that_of_the_committed_ledger(run: ModuleType, page: ModuleType) -> None:
    results = page.Results(PLAN, run.read_ledger(RECIPE / "results.jsonl"))
    made = (RECIPE / "README.md").read_text().partition(f"{page.MARK}\n\n")[2]
    assert made == page.page(PLAN, results)


# The statistics


@pytest.mark.parametrize(
    ("t", "freedom", "p"), [(12.706, 1, 0.05), (4.303, 2, 0.05), (2.228, 10, 0.05), (3.169, 10, 0.01)]
)
def test_the_t_test_agrees_with_the_tables(page: ModuleType, t: float, freedom: int, p: float) -> None:
    assert page.t_test(t, 1.0, (2, 2), freedom) == pytest.approx(p, rel=1e-3)  # sqrt(1/2 + 1/2) = 1
    assert page.t_test(-t, 1.0, (2, 2), freedom) == pytest.approx(p, rel=1e-3)


def test_the_t_test_without_spread_is_sure(page: ModuleType) -> None:
    assert page.t_test(1.0, 0.0, (2, 2), 2) == 0
    assert page.t_test(0.0, 0.0, (2, 2), 2) == 1


def test_fishers_method_keeps_one_p_and_strengthens_two(page: ModuleType) -> None:
    assert page.fisher([0.2]) == pytest.approx(0.2)
    assert page.fisher([0.05, 0.05]) == pytest.approx(0.01748, rel=1e-3)  # chi-squared of 11.98 with 4 degrees


def test_seeds_that_differ_in_opposite_directions_weaken_each_other(page: ModuleType) -> None:
    together = page.sentence_test([0.01, 0.01], [1.0, 1.2])
    against = page.sentence_test([0.01, 0.01], [1.0, -0.8])
    assert together < 0.01 < against
    assert page.sentence_test([0.3], [1.0]) == pytest.approx(0.3)


def test_the_pooled_deviation_is_that_within_the_rows(page: ModuleType) -> None:
    deviation, freedom = page.pooled([[1.0, 3.0], [11.0, 13.0], [7.0], []])
    assert freedom == 2
    assert deviation == pytest.approx(2**0.5)
