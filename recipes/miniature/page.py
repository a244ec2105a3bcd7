"""Judges the claims in plan.yaml by the ledger: writes the tables of README.md, RESULTS.md and forest.svg.

    python recipes/miniature/page.py

The difference of two rows is that of their means over seeds, with Welch's 95 % interval, positive in the direction of
the claim. It is compared with 0 and with the paper's difference (for cross-entropy, as a ratio):

    reproduced      excludes 0 and contains the paper's; if the paper has no number: excludes 0
    larger          excludes 0 and lies above the paper's
    smaller         excludes 0 and lies below the paper's
    undecided       contains 0 and the paper's
    excluded        contains 0 and lies below the paper's
    reversed        excludes 0 in the other direction
    did not train   a side is below the plan's floor, so the difference does not measure the effect
    not run         a seed of the plan is missing
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import forest
import yaml
from judge import LEVEL, VERDICTS, Difference, holm, verdict, welch
from run import HERE, jobs, read_ledger, seeds

BEGIN, END = "<!-- Written by page.py from here ... -->", "<!-- ... to here. -->"
Line = dict[str, Any]  # a line of the ledger


class Measure(NamedTuple):
    """A metric of a line of the ledger; `sign` is -1 if lower is better."""

    of: Callable[[Line], float]
    digits: int = 2
    sign: int = 1


MEASURES = {
    "BLEU": Measure(lambda line: line["BLEU"]),
    "chrF2": Measure(lambda line: line["chrF"]),
    "cross-entropy": Measure(lambda line: min(record["cross_entropy"] for record in line["passes"]), 3, -1),
    "dev BLEU": Measure(lambda line: line["passes"][-1]["bleu"]),
}


class Comparison(NamedTuple):
    """Two rows of a group and their results; without differences if a seed is missing."""

    group: str
    better: str
    worse: str
    counts: tuple[int, int]  # seeds of each side in the ledger
    differences: dict[str, Difference]  # by metric
    means: tuple[float, float]  # of the paper's metric
    paper: float | None  # the paper's difference in this metric
    verdict: str
    planned: str  # the verdict with only the seeds that were fixed before any run
    marks: str
    p_sentences: float | None  # the largest p, over seeds, of the paired test over sentences


class Claim(NamedTuple):
    """A claim of a paper, and the comparisons that test it; the first that has been run decides the verdict."""

    paper: str
    measure: str
    content: dict[str, Any]  # from the plan
    judge: Comparison
    others: list[Comparison]

    @property
    def difference(self) -> Difference | None:
        """None if there is no measurement: not run, or did not train."""
        return None if self.judge.verdict in ("not run", "did not train") else self.judge.differences[self.measure]


class Results:
    """The plan, and the lines of the ledger with its present settings."""

    def __init__(self, plan: dict[str, Any], ledger: list[Line]):
        self.plan = plan
        self.jobs = {(job.group, job.row, job.seed): job for job in jobs(plan)}
        self.lines = {line["id"]: line for line in ledger}

    def of(self, group: str, row: str) -> dict[int, Line]:
        """The lines of a row by seed, in the order of the plan."""
        wanted = [job for job in self.jobs.values() if (job.group, job.row) == (group, row)]
        return {job.seed: self.lines[job.id] for job in wanted if job.id in self.lines}

    def claims(self) -> list[Claim]:
        found = []
        for name, paper in self.plan["papers"].items():
            for content in paper["claims"]:
                judges, beside = (
                    [self.compare(rows, content, paper["measure"]) for rows in content.get(key, [])]
                    for key in ("compare", "beside")
                )
                judge = next((comparison for comparison in judges if comparison.verdict != "not run"), judges[0])
                others = [comparison for comparison in judges + beside if comparison is not judge]
                found.append(Claim(name, paper["measure"], content, judge, others))
        return found

    def compare(self, rows: Sequence[str], claim: dict[str, Any], measure: str) -> Comparison:
        group, better, worse = rows
        content = self.plan["groups"][group]
        lines = [self.of(group, row) for row in (better, worse)]
        planned = [seeds(content, content["rows"][row]) for row in (better, worse)]
        counts = (len(lines[0]), len(lines[1]))
        if [len(of_row) for of_row in planned] != list(counts):
            return Comparison(group, better, worse, counts, {}, (0, 0), None, "not run", "not run", "", None)
        differences = {name: difference(name, lines) for name in MEASURES}
        sides = [statistics.mean(map(MEASURES[measure].of, of_row.values())) for of_row in lines]
        effect = printed(claim, measure, sides[1])
        first = [{seed: of_row[seed] for seed in of_row if seed not in later(content, row)}
                 for of_row, row in zip(lines, (better, worse), strict=True)]  # fmt: skip
        return Comparison(
            group, better, worse, counts, differences, (sides[0], sides[1]), effect,
            self.judge(lines, differences[measure], effect), self.judge(first, difference(measure, first), effect),
            self.marks(group, better, worse), self.p_sentences(group, better, worse),
        )  # fmt: skip

    def judge(self, lines: list[dict[int, Line]], found: Difference, effect: float | None) -> str:
        if min(statistics.mean(line["BLEU"] for line in of_row.values()) for of_row in lines) < self.plan["floor"]:
            return "did not train"
        not_paper = effect is not None and found.p(effect) < LEVEL
        return verdict(found.mean, effect, not_zero=found.p(0) < LEVEL, not_paper=not_paper)

    def marks(self, group: str, better: str, worse: str) -> str:
        content = self.plan["groups"][group]
        rows = [content["rows"][row] for row in (better, worse)]
        return " ".join([
            *["†"] * any(later(content, row) for row in (better, worse)),
            *["‡"] * any(row.get("after", content.get("after", False)) for row in rows),
            *["§"] * any("defect" in part for part in (content, *rows)),
        ])  # fmt: skip

    def p_sentences(self, group: str, better: str, worse: str) -> float | None:
        both = self.of(group, better).keys() & self.of(group, worse).keys()
        ids = ["-".join(self.jobs[group, row, seed].id for row in (better, worse)) for seed in both]
        return max((self.lines[pair]["p"] for pair in ids if pair in self.lines), default=None)


def later(content: dict[str, Any], row: str) -> list[int]:
    """The seeds of a row that were added after results were known."""
    found: list[int] = content["rows"][row].get("later", content.get("later", []))
    return found


def difference(measure: str, lines: list[dict[int, Line]]) -> Difference:
    """The difference of a better and a worse row in a metric, positive if the claim holds."""
    of, sign = MEASURES[measure].of, MEASURES[measure].sign
    better, worse = ([sign * of(line) for line in of_row.values()] for of_row in lines)
    return welch(better, worse)


def printed(claim: dict[str, Any], measure: str, worse: float) -> float | None:
    """The paper's difference; for cross-entropy in proportion, since the paper has another unit and text."""
    if "paper" not in claim:
        return None
    first, second = claim["paper"]
    return (second - first) / second * worse if MEASURES[measure].sign < 0 else first - second


def corrected(claims: Sequence[Claim]) -> list[str]:
    """The verdicts after Holm's correction over all tests, against 0 and the paper's effect, of claims that trained."""
    tested = [(claim, value) for claim in claims if claim.difference for value in (0.0, claim.judge.paper)]
    tests = [(claim, value) for claim, value in tested if value is not None]
    ps = [claim.difference.p(value) for claim, value in tests if claim.difference]
    adjusted = {(id(claim), value): p for (claim, value), p in zip(tests, holm(ps), strict=True)}
    return [
        verdict(
            claim.difference.mean, claim.judge.paper,
            not_zero=adjusted[id(claim), 0.0] < LEVEL,
            not_paper=claim.judge.paper is not None and adjusted[id(claim), claim.judge.paper] < LEVEL,
        ) if claim.difference else claim.judge.verdict
        for claim in claims
    ]  # fmt: skip


# Tables


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation; a single value alone."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def interval(found: Difference, digits: int) -> str:
    low, high = found.interval
    return f"{found.mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def sign(found: Difference) -> str:
    """The sign of the interval; 0 if it contains 0."""
    low, high = found.interval
    return "+" if low > 0 else "−" if high < 0 else "0"


def counts_table(plan: dict[str, Any], claims: Sequence[Claim]) -> str:
    """Distinct claims by paper and verdict."""
    lines = []

    def add(label: str, verdicts: Sequence[str]) -> None:
        counted = Counter(verdicts)
        lines.append([label, str(len(verdicts)), *(str(counted[name] or "") for name in VERDICTS)])

    for name, paper in plan["papers"].items():
        add(f"{paper['title']}: {paper['subject']}", [c.judge.verdict for c in claims if c.paper == name])
    add("**all claims**", [claim.judge.verdict for claim in claims])
    add("**without a known defect (no §)**", [c.judge.verdict for c in claims if "§" not in c.judge.marks])
    add("**all, after Holm's correction**", corrected(claims))
    return table(["paper", "claims", *VERDICTS], lines)


def claims_table(plan: dict[str, Any], claims: Sequence[Claim]) -> str:
    """Every distinct claim with the comparison that decides its verdict."""
    lines = []
    for claim, after in zip(claims, corrected(claims), strict=True):
        judge, digits = claim.judge, MEASURES[claim.measure].digits
        ran = judge.verdict != "not run"
        paper = "{} for {}".format(*claim.content["paper"]) if "paper" in claim.content else "sign only"
        if judge.paper is not None:
            paper = f"{judge.paper:+.{digits}f}"
        others = [judge.differences[name] for name in MEASURES if name != claim.measure] if ran else []
        lines.append([
            f"{plan['papers'][claim.paper]['title'].split()[0]} {claim.content['table']}", claim.content["text"],
            f"`{judge.group}`: `{judge.better}`, `{judge.worse}`",
            "{}, {}".format(*judge.counts) if ran else "",
            paper, interval(judge.differences[claim.measure], digits) if ran else "",
            f"**{judge.verdict}**", after, " ".join(sign(found) for found in others), judge.marks,
        ])  # fmt: skip
    header = ["table", "claim", "better, worse", "seeds", "paper", "measured", "verdict", "after Holm", "others"]
    return table([*header, "marks"], lines)


def headline_table(claims: Sequence[Claim]) -> str:
    """The claims that have a headline group in the plan."""
    lines = []
    for claim in claims:
        headline = [c for c in [claim.judge, *claim.others] if c.group.startswith("headline-")]
        for comparison in headline:
            verdicts = comparison.verdict
            if comparison.verdict == "not run" and sum(comparison.counts):
                verdicts += " ({} and {} seeds so far)".format(*comparison.counts)
            rows = f"`{comparison.better}`, `{comparison.worse}`"
            lines.append([f"`{comparison.group}`", claim.content["text"], rows, verdicts])
    return table(["group", "claim", "better, worse", "verdict"], lines)


def comparisons_table(claims: Sequence[Claim]) -> str:
    lines = []
    for claim in claims:
        for comparison in (claim.judge, *claim.others):
            if comparison.verdict == "not run":
                continue
            digits = MEASURES[claim.measure].digits
            means = (f"{mean:.{digits}f}" for mean in comparison.means)
            lines.append([
                claim.content["text"] if comparison is claim.judge else "",
                f"`{comparison.group}`: `{comparison.better}`, `{comparison.worse}`",
                "{}, {}".format(*comparison.counts), ", ".join(means),
                f"{comparison.paper:+.{digits}f}" if comparison.paper is not None else "",
                *(interval(comparison.differences[name], of.digits) for name, of in MEASURES.items()),
                f"{comparison.p_sentences:.2g}" if comparison.p_sentences is not None else "",
                comparison.planned,
                f"**{comparison.verdict}**" if comparison is claim.judge else comparison.verdict, comparison.marks,
            ])  # fmt: skip
    header = ["claim", "better, worse", "seeds", "means", "paper", *MEASURES, "p, sentences", "planned seeds"]
    header += ["verdict", "marks"]
    return table(header, lines)


def rows_table(group: str, results: Results) -> str:
    lines = []
    for row in results.plan["groups"][group]["rows"]:
        of_row = results.of(group, row)
        if not of_row:
            lines.append([f"`{row}`", "not run", *[""] * 8])
            continue
        first = next(iter(of_row.values()))
        scores = [
            spread([line[name] for line in of_row.values()]) if name in first else "not tested"
            for name in ("BLEU", "chrF")
        ]
        entropies = [MEASURES["cross-entropy"].of(line) for line in of_row.values()]
        lines.append([
            f"`{row}`", f"`{first['settings']['preset']}`", f"{first['parameters']} M", ", ".join(map(str, of_row)),
            f"{first['words'] / 1e6:.2f} M", f"{statistics.mean(x['seconds'] for x in of_row.values()) / 60:.0f}",
            spread(entropies, 3), *scores, ", ".join(sorted({line["commit"] for line in of_row.values()})),
        ])  # fmt: skip
    header = ["row", "preset", "parameters", "seeds", "words", "minutes", "cross-entropy", "BLEU", "chrF2", "commit"]
    return table(header, lines)


# Pages


def summary(results: Results, claims: Sequence[Claim]) -> str:
    """The text between the marks of README.md."""
    return "\n".join([
        counts_table(results.plan, claims), "![The interval of each claim, and the paper's effect](forest.svg)\n",
        "## All claims\n", claims_table(results.plan, claims),
        "## Headline claims, five seeds\n", headline_table(claims),
    ])  # fmt: skip


def details(results: Results, claims: Sequence[Claim]) -> Iterator[str]:
    """The parts of RESULTS.md."""
    yield "# The papers' claims in miniature: every comparison and every row\n"
    yield (
        "Written by `page.py` from `plan.yaml` and `results.jsonl`; [README.md](README.md) has the verdicts and marks. "
        "Differences are positive in the direction of the claim, with 95 % intervals; cross-entropy is the lowest of "
        "all epochs, in nats per token. The first comparison of a claim decides its verdict, by the paper's metric. "
        "The column `p, sentences` is the maximum p over seeds of paired approximate randomisation over test "
        "sentences (BLEU); `planned seeds` is the verdict without seeds that were added later.\n"
    )
    trained = [line for line in results.lines.values() if "machine" in line]
    machines = sorted({f"{line['machine']}, {line['precision']}" for line in trained}) or ["none yet"]
    signatures = sorted({line["signature"] for line in trained if "signature" in line}) or ["none yet"]
    yield f"Trained on: {'; '.join(machines)}. BLEU: {'; '.join(signatures)}.\n"
    for name, paper in results.plan["papers"].items():
        yield f"## {paper['title']}: {paper['subject']}, by {paper['measure']}\n"
        yield comparisons_table([claim for claim in claims if claim.paper == name])
    for group, content in results.plan["groups"].items():
        yield f"## `{group}`. {content['title']}\n"
        if "defect" in content:
            yield f"§ Known defect: {content['defect']}.\n"
        for defect in dict.fromkeys(row["defect"] for row in content["rows"].values() if "defect" in row):
            rows = (f"`{name}`" for name, row in content["rows"].items() if row.get("defect") == defect)
            yield f"§ Known defect of {', '.join(rows)}: {defect}.\n"
        yield rows_table(group, results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.yaml")
    parser.add_argument("--ledger", type=Path, default=HERE / "results.jsonl")
    parser.add_argument("--readme", type=Path, default=HERE / "README.md", help="text outside the marks is kept")
    options = parser.parse_args()
    results = Results(yaml.safe_load(options.plan.read_text()), read_ledger(options.ledger))
    claims = results.claims()
    above, _, rest = options.readme.read_text().partition(BEGIN)
    below = rest.partition(END)[2]
    options.readme.write_text(f"{above}{BEGIN}\n\n{summary(results, claims)}\n{END}{below}")
    forest.draw(results.plan["papers"], claims, options.readme.with_name("forest.svg"))
    options.readme.with_name("RESULTS.md").write_text("\n".join(details(results, claims)))


if __name__ == "__main__":
    main()
