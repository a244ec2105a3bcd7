"""The papers' claims in miniature: the plan builds, the runner survives a kill, the page judges rightly."""

import hashlib
import importlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml

from tests.conftest import Outcome
from tests.test_quickstart_corpus import grammar

RECIPE = Path(__file__).parents[1] / "recipes" / "miniature"
PLAN = yaml.safe_load((RECIPE / "plan.yaml").read_text())
LEDGER = [json.loads(line) for line in (RECIPE / "results.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The modules of the recipe, which import each other from their folder."""
    names = ("run", "judge", "forest", "page")
    sys.path.insert(0, str(RECIPE))
    yield {name: importlib.import_module(name) for name in names}
    sys.path.remove(str(RECIPE))
    for name in names:
        del sys.modules[name]


@pytest.fixture
def run(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["run"]


@pytest.fixture
def judge(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["judge"]


@pytest.fixture
def page(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["page"]


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
        "floor": 15,
        "papers": {"tiny": {"title": "Tiny et al.", "subject": "width", "measure": "BLEU", "claims": [
            {"table": 1, "text": "wide beats narrow", "paper": [2, 1], "compare": [["tiny", "wide", "narrow"]]},
        ]}},
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
        }},
    }  # fmt: skip


# The plan


def test_every_comparison_is_of_two_rows_of_one_group_and_occurs_once(run: ModuleType) -> None:
    planned = run.jobs(PLAN)
    comparisons = run.comparisons(PLAN)
    assert len(set(comparisons)) == len(comparisons) > 69
    for group, better, worse in comparisons:
        assert better != worse
        assert {better, worse} <= PLAN["groups"][group]["rows"].keys()
        assert PLAN["groups"][group].get("tested", True)
    assert len({job.id for job in planned}) == len(planned)


def test_the_published_numbers_of_every_claim_support_it() -> None:
    for paper in PLAN["papers"].values():
        for claim in paper["claims"]:
            if "paper" in claim:
                better, worse = claim["paper"]
                assert better < worse if paper["measure"] == "cross-entropy" else better > worse, claim


def test_every_comparison_has_at_least_two_seeds_and_searches_never_use_the_test_set() -> None:
    for content in PLAN["groups"].values():
        assert content.get("tested", True) == (len(content["seeds"]) > 1)


def test_headline_claims_have_five_planned_seeds_and_a_search_of_equally_many_epochs_for_every_row(
    run: ModuleType,
) -> None:
    headline = {name: content for name, content in PLAN["groups"].items() if name.startswith("headline-")}
    compared = {group for group, *_ in run.comparisons(PLAN)}
    for name, content in headline.items():
        if content.get("tested", True):
            assert name in compared
            assert all(run.seeds(content, row) == [11, 12, 13, 14, 15] for row in content["rows"].values())
            search = PLAN["groups"][f"{name.removesuffix('-tatoeba')}-search"]
            assert search["budget"] == "eighteen"
            for row, of_row in content["rows"].items():
                tried = [other for key, other in search["rows"].items() if key.rpartition("-")[0] == row]
                assert len(tried) > 1, row
                assert {other["preset"] for other in tried} == {of_row["preset"]}
                assert {other.get("family") for other in tried} == {of_row.get("family")}


def test_a_claim_is_judged_by_the_settings_that_the_development_set_prefers(run: ModuleType, page: ModuleType) -> None:
    results = page.Results(PLAN, LEDGER)

    def settings(group: str, row: str) -> str:
        [found] = {json.dumps(line["settings"], sort_keys=True) for line in results.of(group, row).values()}
        return found

    def entropies(group: str, row: str) -> list[float]:
        return [line["passes"][-1]["cross_entropy"] for line in results.of(group, row).values()]

    def complete(group: str, row: str) -> bool:
        """Whether all seeds of a headline row were run; before, it judges nothing."""
        content = PLAN["groups"][group]
        return len(results.of(group, row)) == len(run.seeds(content, content["rows"][row]))

    def passes(group: str) -> int:
        budget = PLAN["budgets"][PLAN["groups"][group]["budget"]]
        return int(budget["training.max_epochs"])

    for claim in results.claims():
        if claim.judge.verdict == "not run":
            continue
        listed = [tuple(rows) for rows in claim.content["compare"]]
        done = [rows for rows in listed if all(results.of(rows[0], row) for row in rows[1:])]
        done = [rows for rows in done if "headline" not in rows[0] or all(complete(rows[0], row) for row in rows[1:])]
        longest = [rows for rows in done if passes(rows[0]) == max(passes(group) for group, *_ in done)]
        judging = (claim.judge.group, claim.judge.better, claim.judge.worse)
        for side in (1, 2):
            tried = dict[str, list[float]]()  # by settings, because rows that differ in seeds alone are equally good
            for row in {(rows[0], rows[side]) for rows in longest}:
                tried.setdefault(settings(*row), []).extend(entropies(*row))
            best = min(tried, key=lambda each: statistics.mean(tried[each]))
            assert settings(judging[0], judging[side]) == best, claim.content["text"]


def test_every_line_of_the_ledger_has_the_id_of_its_settings_and_old_f_f_rows_are_distinguished() -> None:
    for line in LEDGER:
        if "settings" in line:
            content = json.dumps([line[key] for key in ("group", "row", "seed", "settings")], sort_keys=True)
            assert line["id"] == hashlib.sha256(content.encode()).hexdigest()[:10]
            if line["settings"]["preset"] == "deep-gru-ff":
                parametric = "parametric" in line["row"]
                assert line["settings"]["set"].get("model.connections") == (None if parametric else "fast_forward")


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
        shown = yaml.safe_load(done.out)
        assert float(shown["training"]["optimizer"]["lr"]) == float(settings["set"]["training.optimizer.lr"])


# The runner


@pytest.mark.slow
def test_a_repeatedly_killed_runner_writes_the_ledger_of_an_undisturbed_one(work: Path, tmp_path: Path) -> None:
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


def test_a_failing_command_ends_the_runner_with_its_last_message(work: Path, tmp_path: Path) -> None:
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


def made_ledger(
    run: ModuleType, narrow: list[float], wide: list[float], plan: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """What the runner would have written had the two rows had these BLEU by seed; half of it is chrF2, and the
    cross-entropy of the last pass is 100 over it."""
    scores = {"narrow": narrow, "wide": wide}
    return [
        {
            "id": job.id, "group": job.group, "row": job.row, "seed": job.seed, "commit": "abc", "parameters": 0.1,
            "precision": "float32", "machine": "a processor", "words": 1_000_000, "seconds": 60,
            "passes": [{"cross_entropy": 9.0, "bleu": 1.0}, {"cross_entropy": 100 / bleu, "bleu": 2.0}],
            "BLEU": bleu, "chrF": bleu / 2, "signature": "s", "settings": job.settings,
        }
        for row, values in scores.items()
        for job, bleu in zip([job for job in run.jobs(plan or tiny_plan()) if job.row == row], values, strict=False)
    ]  # fmt: skip


EACH_VERDICT = [  # the paper's difference is 1 BLEU
    ([20.0, 20.2], [21.0, 21.3], "reproduced"),
    ([20.0, 20.2], [25.0, 25.3], "larger"),
    ([20.0, 20.02], [20.5, 20.52], "smaller"),
    ([20.0, 24.0], [23.0, 22.5], "undecided"),
    ([20.0, 20.2], [19.9, 20.1], "excluded"),
    ([25.0, 25.3], [20.0, 20.2], "reversed"),
    ([14.0, 14.2], [25.0, 25.3], "did not train"),
    ([20.0, 20.2], [14.9, 15.0], "did not train"),
    ([20.0], [25.0], "not run"),
    ([20.0, 20.2], [25.0], "not run"),
    ([], [], "not run"),
]


@pytest.mark.parametrize(("narrow", "wide", "expected"), EACH_VERDICT)
def test_a_claim_gets_the_verdict_of_its_interval(
    run: ModuleType, judge: ModuleType, page: ModuleType, narrow: list[float], wide: list[float], expected: str
) -> None:
    results = page.Results(tiny_plan(), made_ledger(run, narrow, wide))
    [claim] = results.claims()
    assert claim.judge.verdict == expected
    if claim.difference:
        low, high = claim.difference.interval
        assert (low > 0 or high < 0) == (expected in ("reproduced", "larger", "smaller", "reversed"))
        assert (low <= 1 <= high) == (expected in ("reproduced", "undecided"))
    row = ["Tiny et al.: width", "1", *("1" if name == expected else "" for name in judge.VERDICTS)]
    text = page.summary(results, [claim])
    assert f"| {' | '.join(row)} |" in text
    assert f"| **{expected}** |" in text


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [([20.0, 20.2], [25.0, 25.3], "reproduced"), ([20.0, 24.0], [23.0, 22.5], "undecided"),
     ([25.0, 25.3], [20.0, 20.2], "reversed")],
)  # fmt: skip
def test_a_claim_without_a_number_is_about_the_sign(
    run: ModuleType, page: ModuleType, narrow: list[float], wide: list[float], expected: str
) -> None:
    plan = tiny_plan()
    del plan["papers"]["tiny"]["claims"][0]["paper"]
    [claim] = page.Results(plan, made_ledger(run, narrow, wide)).claims()
    assert claim.judge.verdict == expected


def test_lower_cross_entropy_is_a_gain_and_the_papers_difference_is_proportional(
    run: ModuleType, page: ModuleType
) -> None:
    plan = tiny_plan()
    plan["papers"]["tiny"]["measure"] = "cross-entropy"
    plan["papers"]["tiny"]["claims"][0]["paper"] = [45.0, 50.0]  # a tenth less, in another unit
    [claim] = page.Results(plan, made_ledger(run, [25.0, 25.0], [25.0, 25.5])).claims()
    assert claim.difference.mean == pytest.approx(4 - (4 + 100 / 25.5) / 2)
    assert claim.judge.paper == pytest.approx(0.4)


def test_later_seeds_count_and_are_marked_and_the_verdict_without_them_is_shown(
    run: ModuleType, page: ModuleType
) -> None:
    plan = tiny_plan()
    narrow, wide = [20.0, 20.8, 20.1], [21.4, 21.5, 21.3]
    plan["groups"]["tiny"]["later"] = [3]
    [claim] = page.Results(plan, made_ledger(run, narrow, wide, plan)).claims()
    assert (claim.judge.verdict, claim.judge.planned, claim.judge.counts) == ("reproduced", "undecided", (3, 3))
    assert claim.judge.marks == "†"
    plan["groups"]["tiny"]["rows"]["wide"]["after"] = True
    for part in (plan["groups"]["tiny"], plan["groups"]["tiny"]["rows"]["narrow"]):
        part["defect"] = "too few words"
        [claim] = page.Results(plan, made_ledger(run, narrow, wide, plan)).claims()
        assert claim.judge.marks == "† ‡ §"
        del part["defect"]
    [claim] = page.Results(plan, made_ledger(run, narrow[:2], wide, plan)).claims()
    assert claim.judge.verdict == "not run", "two of three seeds are no result to look at"


def test_the_first_completed_comparison_decides_and_one_in_beside_never(run: ModuleType, page: ModuleType) -> None:
    plan = tiny_plan()
    plan["groups"]["better"] = {**plan["groups"]["tiny"], "seeds": [4, 5]}
    [content] = plan["papers"]["tiny"]["claims"]
    ledger = made_ledger(run, [20.0, 20.2], [25.0, 25.3])  # of the group tiny
    content["compare"] = [["better", "wide", "narrow"], ["tiny", "wide", "narrow"]]
    [claim] = page.Results(plan, ledger).claims()
    assert (claim.judge.group, claim.judge.verdict) == ("tiny", "larger")
    assert [other.verdict for other in claim.others] == ["not run"]
    content["compare"], content["beside"] = content["compare"][:1], content["compare"][1:]
    [claim] = page.Results(plan, ledger).claims()
    assert (claim.judge.group, claim.judge.verdict) == ("better", "not run")
    assert [other.verdict for other in claim.others] == ["larger"]


def test_holms_correction_removes_chance_findings_of_many_claims(run: ModuleType, page: ModuleType) -> None:
    plan, ledger = tiny_plan(), made_ledger(run, [20.0, 20.2], [21.0, 21.3])
    assert page.corrected(page.Results(plan, ledger).claims()) == ["undecided"]  # p 0.038 against 0, of two tests
    ledger = made_ledger(run, [20.0, 20.001], [21.0, 21.001])
    assert page.corrected(page.Results(plan, ledger).claims()) == ["reproduced"]
    plan["papers"]["tiny"]["claims"] *= 20
    ledger = made_ledger(run, [20.0, 20.2], [25.0, 25.3])
    assert [claim.judge.verdict for claim in page.Results(plan, ledger).claims()] == ["larger"] * 20
    assert page.corrected(page.Results(plan, ledger).claims()) == ["undecided"] * 20


def test_a_result_of_other_settings_is_not_shown(run: ModuleType, page: ModuleType) -> None:
    plan = tiny_plan()
    ledger = made_ledger(run, [20.0, 20.2], [25.0, 25.3])
    plan["groups"]["tiny"]["rows"]["wide"]["set"]["model.hidden"] = 32
    [claim] = page.Results(plan, ledger).claims()
    assert claim.judge.verdict == "not run"


def test_the_page_keeps_text_outside_its_marks_and_plots_every_claim(
    run: ModuleType, page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made_ledger(run, [20.0, 20.2], [25.0, 25.3])
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(tiny_plan(), sort_keys=False))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ledger))
    (tmp_path / "README.md").write_text(f"# A head\n\n{page.BEGIN}\n\nold tables\n{page.END}\n\n## A foot\n")
    options = [f"--{name}={tmp_path / file}" for name, file in
               [("plan", "plan.yaml"), ("ledger", "results.jsonl"), ("readme", "README.md")]]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["page.py", *options])
    page.main()
    names = ("README.md", "RESULTS.md", "forest.svg")
    readme, everything, drawing = made = [(tmp_path / name).read_text() for name in names]
    assert readme.startswith(f"# A head\n\n{page.BEGIN}\n\n| paper |")
    assert readme.endswith(f"{page.END}\n\n## A foot\n")
    assert "old tables" not in readme
    assert "25.15, 20.10 | +1.00 | +5.05 [" in everything
    assert "25.15 ± 0.21" in everything
    assert all(text in drawing for text in ("wide beats narrow", "larger", "Tiny et al."))
    page.main()
    assert [(tmp_path / name).read_text() for name in names] == made


def test_the_committed_pages_are_those_of_the_committed_ledger(page: ModuleType) -> None:
    results = page.Results(PLAN, LEDGER)
    claims = results.claims()
    readme = (RECIPE / "README.md").read_text()
    assert readme.partition(f"{page.BEGIN}\n\n")[2].partition(f"\n{page.END}")[0] == page.summary(results, claims)
    assert (RECIPE / "RESULTS.md").read_text() == "\n".join(page.details(results, claims))
    assert len(readme.splitlines()) <= 200


def test_the_counts_of_the_page_are_those_of_independently_computed_verdicts(
    judge: ModuleType, page: ModuleType
) -> None:
    """From the rows' scores by the definitions of the README, with t from an integral and Welch's formulas in NumPy."""
    results = page.Results(PLAN, LEDGER)
    recounted: Counter[tuple[str, str]] = Counter()
    for name, paper in PLAN["papers"].items():
        for claim in paper["claims"]:
            recounted[name, recomputed(results, claim, paper["measure"])] += 1
    readme = (RECIPE / "README.md").read_text()
    for name, paper in PLAN["papers"].items():
        row = re.search(rf"^\| {re.escape(paper['title'])}: .*? \| (\d+) \| (.*) \|$", readme, re.MULTILINE)
        assert row
        assert int(row[1]) == len(paper["claims"])
        counts = [int(cell.strip() or 0) for cell in row[2].split("|")]
        assert counts == [recounted[name, verdict] for verdict in judge.VERDICTS]


def test_the_sentences_of_the_page_have_the_counts_of_its_table(page: ModuleType) -> None:
    claims = page.Results(PLAN, LEDGER).claims()
    counts = Counter(claim.judge.verdict for claim in claims)
    left = Counter(page.corrected(claims))
    readme = " ".join((RECIPE / "README.md").read_text().partition(page.BEGIN)[0].split())
    words = "no one two three four five six seven eight nine ten eleven twelve".split()
    assert f"{sum('settings' in line for line in LEDGER)} training runs" in readme
    is_or_are = "is" if counts["reproduced"] == 1 else "are"
    assert f"Of {len(claims)} distinct claims {words[counts['reproduced']]} {is_or_are} reproduced" in readme
    reversed_, excluded = words[counts["reversed"]].capitalize(), words[counts["excluded"]]
    assert f"{reversed_} claims are reversed and {excluded} exclude the paper's effect" in readme
    reversals = words[left["reversed"]] + (" reversal" if left["reversed"] == 1 else " reversals")
    remaining = f"only {reversals} and {words[left['excluded']]} exclusions survive Holm"
    assert remaining in readme
    assert left["reproduced"] == 0
    defects = sum("§" in claim.judge.marks for claim in claims)
    assert f"For {defects} of the {len(claims)} claims a side has a known defect" in readme


def recomputed(results: Any, claim: dict[str, Any], measure: str) -> str:
    for group, *rows in claim["compare"]:
        content = PLAN["groups"][group]
        lines = [list(results.of(group, row).values()) for row in rows]
        wanted = [
            len(of_row.get("seeds", content["seeds"])) + len(of_row.get("later", content.get("later", [])))
            for of_row in (content["rows"][row] for row in rows)
        ]
        if [len(of_row) for of_row in lines] != wanted:
            continue
        if min(np.mean([line["BLEU"] for line in of_row]) for of_row in lines) < 15:
            return "did not train"
        effect = claim["paper"][0] - claim["paper"][1] if "paper" in claim else None
        if measure == "BLEU":
            better, worse = (np.array([line["BLEU"] for line in of_row]) for of_row in lines)
        else:
            better, worse = (
                -np.array([min(one["cross_entropy"] for one in line["passes"]) for line in of_row]) for of_row in lines
            )
            effect = worse.mean() * effect / claim["paper"][1] if effect else None
        low, high = welch_interval(better, worse)
        if high < 0:
            return "reversed"
        if low <= 0:
            return "excluded" if effect is not None and effect > high else "undecided"
        if effect is None or low <= effect <= high:
            return "reproduced"
        return "larger" if effect < low else "smaller"
    return "not run"


def welch_interval(first: Any, second: Any) -> tuple[float, float]:
    a, b = first.var(ddof=1) / len(first), second.var(ddof=1) / len(second)
    freedom = (a + b) ** 2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
    low, high = 0.0, 1.0  # of the angle whose tangent is t / sqrt(freedom), in right angles
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if integrated_tail(middle * math.pi / 2, freedom) > 0.05 else (low, middle)
    half = math.tan(low * math.pi / 2) * math.sqrt(freedom * (a + b))
    return first.mean() - second.mean() - half, first.mean() - second.mean() + half


def integrated_tail(angle: float, freedom: float) -> float:
    """Two-sided p of t = sqrt(freedom) tan(angle), whose density in the angle is proportional to cos^(freedom - 1)."""

    def area(start: float) -> float:
        # The substitution angle = pi/2 - u^4 makes the integrand smooth at its end.
        steps = (np.arange(4000) + 0.5) / 4000 * (math.pi / 2 - start) ** 0.25
        return float(np.mean(np.sin(steps**4) ** (freedom - 1) * 4 * steps**3) * (math.pi / 2 - start) ** 0.25)

    return area(angle) / area(0.0)


# The statistics


@pytest.mark.parametrize("t", [0.0, 1e-9, 0.3, 1.0, 4.303, 12.706, 1e6])
def test_students_t_with_one_or_two_degrees_of_freedom_has_its_closed_form(judge: ModuleType, t: float) -> None:
    assert judge.t_tail(t, 1) == pytest.approx(2 / math.pi * math.atan2(1, t), rel=1e-9)
    assert judge.t_tail(-t, 2) == pytest.approx(2 / (math.sqrt(2 + t * t) * (math.sqrt(2 + t * t) + t)), rel=1e-9)


@pytest.mark.parametrize("freedom", [1.0, 1.03, 1.7, 2.38, 3.9, 11.5])
def test_students_t_with_fractional_degrees_of_freedom_is_the_integral_of_its_density(
    judge: ModuleType, freedom: float
) -> None:
    for angle in (0.1, 0.7, 1.2, 1.5):
        t = math.sqrt(freedom) * math.tan(angle)
        assert judge.t_tail(t, freedom) == pytest.approx(integrated_tail(angle, freedom), rel=1e-4)


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.706), (2, 4.303), (3, 3.182), (10, 2.228), (30, 2.042)])
def test_quantiles_are_those_of_the_tables(judge: ModuleType, freedom: int, t: float) -> None:
    assert judge.t_quantile(freedom) == pytest.approx(t, abs=5e-4)


def test_welchs_interval_of_unequal_variances_is_that_computed_by_hand(judge: ModuleType) -> None:
    # Variances 4 and 0.625 of 3 and 5 values: 4/3 + 1/8 = 1.458333, whose root is 1.207615; freedom
    # 1.458333^2 / ((4/3)^2 / 2 + (1/8)^2 / 4) = 2.382110. Pooled, they would have six degrees.
    found = judge.welch([10.0, 12.0, 14.0], [7.0, 7.5, 8.0, 8.5, 9.0])
    assert found.mean == pytest.approx(4)
    assert found.error == pytest.approx(1.207615, rel=1e-6)
    assert found.freedom == pytest.approx(2.382110, rel=1e-6)
    low, high = found.interval
    assert low == pytest.approx(8 - high)
    assert found.p(low) == pytest.approx(0.05)
    assert found.p(8) == pytest.approx(found.p(0))
    assert found.p(-1) < 0.05 < found.p(0)


def test_welchs_test_of_equal_variances_and_sizes_is_students(judge: ModuleType) -> None:
    found = judge.welch([1.0, 3.0], [11.0, 13.0])
    assert (found.freedom, found.error) == (2, pytest.approx(2**0.5))


def test_a_difference_without_variance_is_certain(judge: ModuleType) -> None:
    assert judge.welch([21.0, 21.0], [20.0, 20.0]).interval == (1, 1)
    assert [judge.welch([21.0, 21.0], [20.0, 20.0]).p(value) for value in (0, 1)] == [0, 1]


def test_holms_correction_is_that_computed_by_hand(judge: ModuleType) -> None:
    # In order: 0.005 * 4, 0.01 * 3, 0.03 * 2, and 0.04 * 1, which may not be smaller than the one before.
    assert judge.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert judge.holm([0.6, 0.7]) == [1, 1]
    assert judge.holm([]) == []
