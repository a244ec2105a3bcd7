"""SVG charts for an HTML page, in the colours of its style sheet, which has a light and a dark mode."""

import math
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

COLOURS = 8  # --c0 to --c7 of the style sheet
WIDTH, HEIGHT = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 10, 48  # margins of the plot, with room for the longest tick, such as 2.5e-14
MAX_DRAWN = 1e100  # larger values, which would make the axis overflow, and NaN are not drawn
CELL, LETTER = 18, 7.4  # the size of a square in a heat map, and the width of a letter of its fixed-width font


class Series(NamedTuple):
    """A line of a chart."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int  # from 0; a number above those of the style sheet is one of its colours, with dots between dashes
    dashed: bool = False


def line_chart(
    title: str, x_label: str, y_label: str, series: Sequence[Series], *, x_names: Sequence[str], from_zero: bool
) -> str:
    """A figure with axes, labels and a legend, or an empty string without points. Points with NaN are left out.

    x_names: labels for x = 0, 1, ... instead of numbers. from_zero: the x axis begins at 0, not at the first point.
    """
    finite = [[point for point in s.points if all(abs(value) < MAX_DRAWN for value in point)] for s in series]
    series = [s._replace(points=points) for s, points in zip(series, finite, strict=True) if points]
    if not series:
        return ""
    xs, ys = ([point[axis] for s in series for point in s.points] for axis in (0, 1))
    if from_zero:
        xs = [0.0, *xs]
    x_ticks = list(map(float, range(len(x_names)))) if x_names else ticks(min(xs), max(xs))
    y_ticks = ticks(min(ys), max(ys))
    # Names are centred in equal sections of the axis.
    x_ends = (-0.4, len(x_names) - 0.6) if x_names else (min(x_ticks[0], min(xs)), max(x_ticks[-1], max(xs)))
    plot = _Plot(x_ends, (y_ticks[0], y_ticks[-1]))
    parts = [_axes(plot, x_ticks, y_ticks, x_names), *(_line(plot, s) for s in series)]
    middle, centre = (TOP + HEIGHT - BOTTOM) / 2, (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{centre}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    frame = f'class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"'
    return (
        f"<figure><figcaption>{escape(title)}</figcaption><svg {frame}>{''.join(parts)}</svg>"
        f'<ul class="legend">{"".join(map(_key, series))}</ul></figure>'
    )


class _Plot(NamedTuple):
    """The scales of a chart."""

    x_ends: tuple[float, float]  # the values at the left and right edge
    y_ends: tuple[float, float]  # the values at the bottom and top

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The point (x, y) in units of the picture, from its upper left corner."""
        across = (x - self.x_ends[0]) / ((self.x_ends[1] - self.x_ends[0]) or 1)
        up = (y - self.y_ends[0]) / (self.y_ends[1] - self.y_ends[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def _axes(plot: _Plot, x_ticks: Sequence[float], y_ticks: Sequence[float], x_names: Sequence[str]) -> str:
    """Grid lines at the y ticks, and the labels of both axes."""
    parts = []
    for tick in y_ticks:
        _, y = plot.place(plot.x_ends[0], tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    for number, tick in enumerate(x_ticks):
        x, bottom = plot.place(tick, y_ticks[0])
        name = x_names[number] if x_names else short(tick)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 21:.1f}" text-anchor="middle">{escape(name)}</text>')
    return "".join(parts)


def _line(plot: _Plot, series: Series) -> str:
    """A line through the points, and a dot at each of up to 40 points."""
    places = [plot.place(*point) for point in series.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = places if len(places) <= 40 else []  # a single point would be invisible without one
    return f'<polyline {_drawn("line", series)} points="{line}"/>' + "".join(
        f'<circle {_drawn("dot", series)} cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in dots
    )


def _key(series: Series) -> str:
    """The legend entry of a series."""
    line = f'<line {_drawn("line", series)} x1="1" x2="25" y1="5" y2="5"/>'
    return f'<li><svg width="26" height="10" aria-hidden="true">{line}</svg>{escape(series.name)}</li>'


def _drawn(what: str, series: Series) -> str:
    """The attributes of a line or a dot of a series; lines of the same colour differ in the dots between dashes."""
    dashed = " dashed" if series.dashed else ""
    dots, colour = divmod(series.colour, COLOURS)
    style = f"; stroke-dasharray: {'5 4' if series.dashed else '12 3'}{' 2 3' * dots}" if dots else ""
    return f'class="{what}{dashed}" style="color: var(--c{colour}){style}"'


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from at most ``low`` to at least ``high``; from or to 0 if they are nearly equal."""
    if math.isclose(low, high):
        low, high = min(low, 0.0), max(high, 0.0) or 1.0
    # The step is 1, 2, 2.5, 5 or 10 times a power of ten; the tolerance is for rounding.
    raw = (high - low) / 5
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if raw <= factor * magnitude * (1 + 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * number for number in range(first, max(last, first + 1) + 1)]


def short(value: float) -> str:
    """A short form of a number: 1.2k for 1200, 5e-4 for 0.0005, 0.3 for 0.30000000000000004."""
    if value and abs(value) < 0.001:
        digits, _, power = f"{value:.1e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def heat_map(title: str, source: Sequence[str], target: Sequence[str], weights: npt.NDArray[np.float32]) -> str:
    """A heat map of attention weights (T, S), with stronger colours for higher weights."""
    left, top = (10 + LETTER * max(map(_letters, words)) for words in (target, source))
    width, height = left + CELL * len(source) + 6, top + CELL * len(target) + 6
    parts = []
    for column, word in enumerate(source):
        x = left + CELL * (column + 0.5) + 4
        parts.append(f'<text transform="translate({x:.1f} {top - 5:.1f}) rotate(-90)">{escape(word)}</text>')
    for row, word in enumerate(target):
        y = top + CELL * row
        parts.append(f'<text x="{left - 5:.1f}" y="{y + 13:.1f}" text-anchor="end">{escape(word)}</text>')
        for column, weight in enumerate(weights[row]):
            parts.append(
                f'<rect class="cell" x="{left + CELL * column:.1f}" y="{y:.1f}" width="{CELL - 1}" height="{CELL - 1}" '
                f'fill-opacity="{weight:.3f}"/>'
            )
    frame = f'class="map" width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(title)}"'
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="scroll">'
        f"<svg {frame}>{''.join(parts)}</svg></div></figure>"
    )


def _letters(word: str) -> int:
    """The width of a word in letters; a Chinese character is two letters wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in word)
