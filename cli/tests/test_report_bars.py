"""Bar charts: the labels of an axis can be read, however long its numbers and narrow the chart."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.report.bars import Bar, Group, bar_chart

TICK = re.compile(r'<text class="axis" x="([\d.]+)" y="[\d.]+" text-anchor="middle">([^<]*)</text>')
DIGIT_WIDTH, SIGN_WIDTH = 7.0, 3.5
"""Of a digit, and of a comma or point, in a wide sans-serif face at the axis' 11 px."""


def ticks(peak: float, width: int, name_width: int) -> list[tuple[float, str]]:
    """Return where the labels of a chart's ticks stand, and what they say."""
    groups = [Group("n", [Bar(peak, "#000000", "w")])]
    svg = bar_chart("label", "unit", groups, width=width, name_width=name_width)
    found = [(float(x), words) for x, words in TICK.findall(svg)]
    assert found.pop()[1] == "unit"
    return found


def label_width(words: str) -> float:
    return sum(DIGIT_WIDTH if sign.isdigit() else SIGN_WIDTH for sign in words)


@given(
    st.floats(min_value=1e-3, max_value=1e9),
    st.sampled_from([(352, 118), (530, 130), (530, 44)]),
)
def test_labels_of_ticks_do_not_touch(peak: float, widths: tuple[int, int]) -> None:
    found = ticks(peak, *widths)
    assert len(found) >= 2
    for (before, left), (after, right) in pairwise(found):
        assert after - before > (label_width(left) + label_width(right)) / 2, found


@pytest.mark.parametrize(
    ("peak", "labels"),
    [
        (2568, ["0", "1,000", "2,000", "3,000"]),
        (6521, ["0", "2,000", "4,000", "6,000", "8,000"]),
        (551, ["0", "100", "200", "300", "400", "500", "600"]),
        (8_011_260, ["0", "5,000,000", "10,000,000"]),
    ],
)
def test_a_narrow_chart_has_as_many_ticks_as_there_is_room_for(
    peak: float, labels: list[str]
) -> None:
    assert [words for _, words in ticks(peak, 352, 118)] == labels
