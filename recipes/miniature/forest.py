"""The forest plot: the interval of each distinct claim, with the paper's difference as a mark."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judge import VERDICTS

UNITS = {"BLEU": ("BLEU", 1.0), "cross-entropy": ("nats per token", 0.1)}  # unit, and the step of the axis
LONGEST = 6  # maximum steps from 0 to the edge of a panel; longer intervals end in an arrow
GREEN, GREY, ORANGE, RED, PALE = "#1b7837", "#777777", "#b35806", "#b2182b", "#909090"
COLOURS = dict(zip(VERDICTS, [GREEN, GREEN, GREEN, GREY, ORANGE, RED, PALE, PALE], strict=True))
PAPER: dict[str, Any] = {"marker": "D", "linestyle": "", "color": "black", "fillstyle": "none", "zorder": 3}
ROW = 0.2  # inches


def draw(papers: dict[str, Any], claims: Sequence[Any], path: Path) -> None:
    """A panel for each paper, a row for each of its claims (`page.Claim`)."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "nmtkit", "svg.fonttype": "none", "font.size": 8, "axes.titlesize": 9}
    from matplotlib import pyplot

    panels = [[claim for claim in claims if claim.paper == name] for name in papers]
    heights = [len(panel) + 1 for panel in panels]
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(9, ROW * sum(heights) + 0.45 * len(panels) + 0.4), squeeze=False,
        gridspec_kw={"height_ratios": heights}, layout="constrained",
    )  # fmt: skip
    for paper, panel, axis in zip(papers.values(), panels, axes[:, 0], strict=True):
        unit, step = UNITS[paper["measure"]]
        ends = [end for claim in panel if claim.difference for end in claim.difference.interval]
        effects = [claim.judge.paper for claim in panel if claim.judge.paper is not None]
        limit = step * min(LONGEST, math.ceil(max(map(abs, [*ends, *effects, step])) / step))
        axis.set(xlim=(-limit, limit), ylim=(len(panel) - 0.3, -0.7), yticks=range(len(panel)))
        axis.set_yticklabels([claim.content["text"] for claim in panel])
        axis.set_title(f"{paper['title']}, difference in {unit}", fontweight="bold", loc="left", pad=3)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title("as claimed →", fontsize=7, loc="right", pad=3)
        axis.tick_params(length=0, pad=7, axis="y")
        axis.grid(axis="x", linewidth=0.3)
        axis.spines[["left", "right", "top"]].set_visible(False)
        for row, claim in enumerate(panel):
            colour = COLOURS[claim.judge.verdict]
            if claim.difference:
                interval(axis, row, claim.difference.mean, claim.difference.interval, colour, limit)
            effect = claim.judge.paper
            if effect is not None:
                axis.plot(effect, row, markersize=5, **PAPER)
            axis.annotate(
                f"{claim.judge.verdict} {claim.judge.marks}",
                (1.02, row),
                xycoords=("axes fraction", "data"),
                va="center",
                color=colour,
            )
    keys = [
        axes[0, 0].plot([], [], "o-", color="#777777", markersize=4, label="measured, 95 % interval")[0],
        axes[0, 0].plot([], [], markersize=5, label="the paper", **PAPER)[0],
    ]
    figure.legend(handles=keys, loc="outside upper right", ncols=2, frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
    pyplot.close(figure)


def interval(axis: Any, row: int, mean: float, ends: tuple[float, float], colour: str, limit: float) -> None:
    """A line with a dot; ends outside the axis become arrows at its edge."""
    low, high = (max(-limit, min(limit, end)) for end in ends)
    axis.plot([low, high], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
    for end, edge, arrow in ((ends[0], -limit, "<"), (ends[1], limit, ">")):
        if abs(end) > limit:
            axis.plot(edge, row, arrow, color=colour, markersize=5, clip_on=False)
    if abs(mean) <= limit:
        axis.plot(mean, row, "o", color=colour, markersize=4.5)
