import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.evaluation.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Series, heat_map, line_chart, short, ticks


def chart(title: str, x_label: str, y_label: str, series: list[Series], x_names: Sequence[str] = ()) -> str:
    return line_chart(title, x_label, y_label, series, x_names=x_names, from_zero=False)


values = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-9)


@given(values, values)
def test_ticks_enclose_the_values_and_are_few(a: float, b: float) -> None:
    low, high = sorted((a, b))
    found = ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), high - low)
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert 2 <= len(found) <= 8
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.30000000000000004, "0.3"), (1200, "1.2k"), (2.5e6, "2.5M"), (0.0005, "5e-4"), (-40.0, "-40")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_a_chart_draws_every_series_inside_its_axes_and_names_them() -> None:
    series = [Series("one & two", [(0, 3.5), (4000, 1.25)], 0), Series("<b>", [(100, 2)], 1, dashed=True)]
    figure = ElementTree.fromstring(chart("a < b", "updates", "nats", series))
    assert figure.findtext("figcaption") == "a < b"
    assert ["".join(item.itertext()) for item in figure.iter("li")] == ["one & two", "<b>"]
    texts = [text.text for text in figure.iter("text")]
    assert {"updates", "nats", "4k", "3.5"} <= set(texts)
    lines = [line.get("points", "").split() for line in figure.iter("polyline")]
    assert [len(points) for points in lines] == [2, 1]
    for x, y in (map(float, point.split(",")) for points in lines for point in points):
        assert LEFT <= x <= WIDTH - RIGHT
        assert TOP <= y <= HEIGHT - BOTTOM
    (first_x, first_y), (last_x, last_y) = (map(float, point.split(",")) for point in lines[0])
    assert first_x < last_x
    assert first_y < last_y  # down the page, so lower


def test_a_chart_of_a_single_point_or_of_equal_values_can_be_drawn() -> None:
    assert "polyline" in chart("t", "x", "y", [Series("s", [(5, 0.0)], 0)])
    assert "polyline" in chart("t", "x", "y", [Series("s", [(5, 2.0), (5, 2.0)], 0)])
    for value in (0.0002, 0.1, 27.3, 36.9):  # a learning rate or BLEU, up to rounding
        for other in (math.nextafter(value, 1e9), value * (1 + 1e-15)):
            assert "polyline" in chart("t", "x", "y", [Series("s", [(5, value), (6, other)], 0)])


def test_an_axis_can_begin_at_zero_before_the_first_point() -> None:
    late = [Series("s", [(3000, 1.0), (4000, 2.0)], 0)]
    for from_zero, left in ((True, "0"), (False, "3k")):
        figure = ElementTree.fromstring(line_chart("t", "x", "y", late, x_names=(), from_zero=from_zero))
        assert next(text.text for text in figure.iter("text") if text.get("text-anchor") == "middle") == left


def test_without_points_there_is_no_figure() -> None:
    assert chart("t", "x", "y", [Series("s", [], 0)]) == ""


def test_a_point_with_nan_is_left_out() -> None:
    points = [(1.0, 2.0), (2.0, math.nan), (3.0, math.inf), (4.0, 1.0)]
    drawn = [(1.0, 2.0), (4.0, 1.0)]
    assert chart("t", "x", "y", [Series("s", points, 0)]) == chart("t", "x", "y", [Series("s", drawn, 0)])
    assert chart("t", "x", "y", [Series("s", points[1:3], 0)]) == ""


def test_names_are_below_their_points() -> None:
    figure = ElementTree.fromstring(chart("t", "x", "y", [Series("s", [(0, 1), (1, 2)], 0)], ["≤10", ">10"]))
    [points] = [line.get("points", "").split() for line in figure.iter("polyline")]
    places = {text.text: text.get("x") for text in figure.iter("text")}
    assert [point.split(",")[0] for point in points] == [places["≤10"], places[">10"]]


def test_a_heat_map_has_a_square_for_every_pair_as_dark_as_its_weight() -> None:
    weights = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]], dtype=np.float32)
    figure = ElementTree.fromstring(heat_map("m", ["<unk>", "b"], ["x", "y", "z"], weights))
    assert [float(cell.get("fill-opacity", "")) for cell in figure.iter("rect")] == weights.flatten().tolist()
    assert [text.text for text in figure.iter("text")] == ["<unk>", "b", "x", "y", "z"]
    [svg] = figure.iter("svg")
    assert svg.get("class") == "map"  # of fixed-width letters, for which there is room
    for cell in figure.iter("rect"):
        assert float(cell.get("x", "")) < float(svg.get("width", ""))
        assert float(cell.get("y", "")) < float(svg.get("height", ""))
    wide, narrow = (ElementTree.fromstring(heat_map("m", ["a"], [word], weights[:1, :1])) for word in ("猫猫", "ab"))
    assert [float(svg.get("width", "")) for svg in wide.iter("svg")] > [
        float(svg.get("width", "")) for svg in narrow.iter("svg")
    ]
    assert not re.search(r"http|<script", heat_map("m", ["a"], ["x"], weights[:1, :1]))
