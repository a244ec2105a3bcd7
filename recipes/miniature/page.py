"""Writes the tables of README.md and curves.svg from the ledger: each claim of plan.yaml beside what came out here.

    python recipes/miniature/page.py

A claim is that one row is better than another. Two tests, both two-sided: over seeds, a t-test whose deviation is
pooled over all rows of the group, since two seeds say too little alone; and over sentences, the paired randomisation
test of `nmtkit score` for each seed, put together by Fisher's method. The effect is

    seen          in the paper's direction, and p < 0.05 in both tests
    opposite      in the other direction, and p < 0.05 in both
    not seen      neither of these
    not run yet   until there are two seeds of both rows, and the test over sentences
"""

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from run import HERE, Job, jobs, read_ledger

MARK = "<!-- What follows is written by page.py. -->"
LEVEL = 0.05


def t_test(difference: float, deviation: float, sizes: tuple[int, int], freedom: int) -> float:
    """Two-sided p of a difference of two means of so many values, for a deviation with so many degrees of freedom.

    With theta = atan(t / sqrt(freedom)) the density of Student's t is proportional to cos(theta)^(freedom - 1).
    """
    if not deviation:
        return 0.0 if difference else 1.0
    t = abs(difference) / (deviation * math.sqrt(1 / sizes[0] + 1 / sizes[1]))

    def area(start: float) -> float:
        step = (math.pi / 2 - start) / 10_000
        return step * math.fsum(math.cos(start + (i + 0.5) * step) ** (freedom - 1) for i in range(10_000))

    return area(math.atan(t / math.sqrt(freedom))) / area(0.0)


def fisher(ps: Sequence[float]) -> float:
    """One p of several independent ones: -2 sum log p has a chi-squared distribution of two degrees for each."""
    half = -math.fsum(math.log(p) for p in ps)
    return min(1.0, math.exp(-half) * math.fsum(half**k / math.factorial(k) for k in range(len(ps))))


def sentence_test(ps: Sequence[float], differences: Sequence[float]) -> float:
    """One two-sided p of those of every seed: one-sided in the direction of the mean, put together, doubled."""
    sign = math.copysign(1, math.fsum(differences))
    one_sided = [p / 2 if difference * sign > 0 else 1 - p / 2 for p, difference in zip(ps, differences, strict=True)]
    return min(1.0, 2 * fisher(one_sided))


def pooled(samples: Sequence[Sequence[float]]) -> tuple[float, int]:
    """The deviation within samples and its degrees of freedom."""
    several = [sample for sample in samples if len(sample) > 1]
    squares = math.fsum(statistics.variance(sample) * (len(sample) - 1) for sample in several)
    freedom = sum(len(sample) - 1 for sample in several)
    return (math.sqrt(squares / freedom) if freedom else 0.0), freedom


class Finding(NamedTuple):
    """What came out of a claim; without numbers where there are none yet."""

    verdict: str
    difference: float | None = None  # of mean BLEU, better minus worse
    p_seeds: float | None = None
    p_sentences: float | None = None


Scores = dict[int, float]  # by seed


def judge(better: Scores, worse: Scores, ps: Scores, deviation: float, freedom: int) -> Finding:
    """Of BLEU of two rows, p of the test over sentences, and the group's deviation over seeds (``pooled``)."""
    if not better or not worse:
        return Finding("not run yet")
    difference = statistics.mean(better.values()) - statistics.mean(worse.values())
    if min(len(better), len(worse)) < 2 or not ps:
        return Finding("not run yet", difference)
    p_seeds = t_test(difference, deviation, (len(better), len(worse)), freedom)
    p_sentences = sentence_test(list(ps.values()), [better[seed] - worse[seed] for seed in ps])
    sure = max(p_seeds, p_sentences) < LEVEL
    verdict = ("seen" if difference > 0 else "opposite") if sure else "not seen"
    return Finding(verdict, difference, p_seeds, p_sentences)


class Results:
    """The lines of the ledger that are of the plan as it is now."""

    def __init__(self, plan: dict[str, Any], ledger: list[dict[str, Any]]):
        self.jobs = jobs(plan)
        self.lines = {line["id"]: line for line in ledger}

    def of(self, group: str, row: str) -> dict[int, dict[str, Any]]:
        """By seed."""
        return {job.seed: self.lines[job.id] for job in self._jobs(group, row) if job.id in self.lines}

    def rows(self, group: str) -> list[str]:
        return list(dict.fromkeys(job.row for job in self.jobs if job.group == group))

    def finding(self, group: str, better: str, worse: str) -> Finding:
        scores = {row: {seed: line["BLEU"] for seed, line in self.of(group, row).items()} for row in self.rows(group)}
        others = {job.seed: job.id for job in self._jobs(group, worse)}
        pairs = {job.seed: f"{job.id}-{others[job.seed]}" for job in self._jobs(group, better) if job.seed in others}
        ps = {seed: self.lines[pair]["p"] for seed, pair in pairs.items() if pair in self.lines}
        return judge(scores[better], scores[worse], ps, *pooled([list(of_row.values()) for of_row in scores.values()]))

    def _jobs(self, group: str, row: str) -> list[Job]:
        return [job for job in self.jobs if (job.group, job.row) == (group, row)]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and deviation; the bare value of one."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def last_entropies(lines: dict[int, dict[str, Any]]) -> list[float]:
    """Dev cross-entropy after the last pass, of every seed."""
    return [line["passes"][-1]["cross_entropy"] for line in lines.values()]


def claims_table(group: str, content: dict[str, Any], results: Results) -> str:
    lines = []
    for claim in content["claims"]:
        paper = claim.get("paper")
        better, worse = (results.of(group, claim[side]) for side in ("better", "worse"))
        finding = results.finding(group, claim["better"], claim["worse"])
        both = bool(better and worse)
        entropies = statistics.mean(last_entropies(better)) - statistics.mean(last_entropies(worse)) if both else None
        lines.append([
            claim["table"], claim["text"], f"`{claim['better']}`, `{claim['worse']}`",
            f"{paper[0]}, {paper[1]}" if paper else "no number", f"{paper[0] - paper[1]:+.2f}" if paper else "",
            ", ".join(spread([line["BLEU"] for line in row.values()]) for row in (better, worse)) if both else "",
            number(finding.difference, "+.2f"), number(finding.p_seeds, ".2g"), number(finding.p_sentences, ".2g"),
            number(entropies, "+.3f"), f"**{finding.verdict}**",
        ])  # fmt: skip
    header = ["table", "claim", "better, worse", "paper", "difference", "BLEU here", "difference", "p, seeds",
              "p, sentences", "difference of dev cross-entropy", "effect"]  # fmt: skip
    return table(header, lines)


def rows_table(group: str, results: Results) -> str:
    lines = []
    for row in results.rows(group):
        of_row = results.of(group, row)
        first = next(iter(of_row.values()), None)
        if first is None:
            lines.append([f"`{row}`", "not run yet", *[""] * 8])
            continue
        scores = [
            spread([line[name] for line in of_row.values()]) if name in first else "not tested"
            for name in ("BLEU", "chrF")
        ]
        lines.append([
            f"`{row}`", f"`{first['settings']['preset']}`", f"{first['parameters']} M", ", ".join(map(str, of_row)),
            f"{first['words'] / 1e6:.2f} M", f"{statistics.mean(x['seconds'] for x in of_row.values()) / 60:.0f}",
            spread(last_entropies(of_row), 3), *scores, ", ".join(sorted({x["commit"] for x in of_row.values()})),
        ])  # fmt: skip
    header = ["row", "preset", "parameters", "seeds", "words seen", "minutes", "dev cross-entropy", "BLEU", "chrF2",
              "commit"]  # fmt: skip
    return table(header, lines)


def draw(plan: dict[str, Any], results: Results, path: Path) -> None:
    """Dev cross-entropy over words seen, a panel for each group that has results, mean over seeds."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "nmtkit", "svg.fonttype": "none", "font.size": 8}
    from matplotlib import pyplot

    drawn = [group for group in plan["groups"] if any(results.of(group, row) for row in results.rows(group))]
    figure, axes = pyplot.subplots(1, len(drawn) or 1, figsize=(4.5 * (len(drawn) or 1), 3.5), squeeze=False)
    for group, axis in zip(drawn, axes[0], strict=False):
        for row in results.rows(group):
            lines = list(results.of(group, row).values())
            if lines:
                curves = [[record["cross_entropy"] for record in line["passes"]] for line in lines]
                mean = [statistics.mean(values) for values in zip(*curves, strict=True)]
                words = [lines[0]["words"] * (i + 1) / len(mean) / 1e6 for i in range(len(mean))]
                axis.plot(words, mean, marker="o", markersize=3, linewidth=1, label=row)
        axis.set(title=group, xlabel="million target words seen", ylabel="dev cross-entropy, nats a token")
        axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def page(plan: dict[str, Any], results: Results) -> str:
    findings = [
        (results.finding(group, claim["better"], claim["worse"]).verdict, claim["text"], group)
        for group, content in plan["groups"].items() for claim in content.get("claims", [])
    ]  # fmt: skip
    parts = ["## Effect by effect\n"]
    for verdict in ("seen", "not seen", "opposite", "not run yet"):
        texts = [f"{text} (`{group}`)" for other, text, group in findings if other == verdict]
        parts.append(f"- **{verdict}** ({len(texts)}): {'; '.join(texts) or 'none'}.")
    parts.append("\n![Dev cross-entropy over words seen](curves.svg)\n")
    trained = [line for line in results.lines.values() if "machine" in line]
    machines = sorted({f"{line['machine']}, {line['precision']}" for line in trained}) or ["nothing yet"]
    signatures = sorted({line["signature"] for line in trained if "signature" in line}) or ["nothing yet"]
    parts.append(f"Trained on: {'; '.join(machines)}. BLEU: {'; '.join(signatures)}.\n")
    for group, content in plan["groups"].items():
        parts.append(f"## {content['title']}\n")
        if content.get("claims"):
            parts.append(claims_table(group, content, results))
        parts.append(rows_table(group, results))
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.yaml")
    parser.add_argument("--ledger", type=Path, default=HERE / "results.jsonl")
    parser.add_argument("--readme", type=Path, default=HERE / "README.md", help="its text above the mark stays")
    options = parser.parse_args()
    plan = yaml.safe_load(options.plan.read_text())
    results = Results(plan, read_ledger(options.ledger))
    kept = options.readme.read_text().partition(MARK)[0]
    draw(plan, results, options.readme.parent / "curves.svg")
    options.readme.write_text(f"{kept}{MARK}\n\n{page(plan, results)}")


if __name__ == "__main__":
    main()
