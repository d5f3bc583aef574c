"""Horizontal bar charts as inline SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from walras.report.charts import MUTED, RULE, nice_step, plain

_TOP, _BOTTOM, _RIGHT = 6, 40, 64
_PARTS_MOST = 6
_DIGIT_WIDTH, _LABEL_GAP = 7, 4
"""Of a digit in a wide face at the size of the axis, and at least between two labels."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its value (None: no bar), colour, and the words beside it."""

    value: float | None
    color: str
    words: str


@dataclass(frozen=True, slots=True)
class Group:
    """Bars that share a name."""

    name: str
    bars: Sequence[Bar]


def bar_chart(
    label: str,
    x_label: str,
    groups: Sequence[Group],
    *,
    width: int = 530,
    name_width: int = 64,
    mark: float | None = None,
    tick: Callable[[float], str] = plain,
    bar_height: int = 9,
    pitch: int | None = None,
) -> str:
    """Return an SVG chart with one row per group.

    Parameters
    ----------
    label
        What the chart shows, for readers that do not see it.
    x_label
        Name and unit of the horizontal axis.
    groups
        Rows, from the top.
    mark
        A value at which a dashed line is drawn (what would be even).
    pitch
        Height of a row; by default as much as its bars need.
    """
    rows = max((len(group.bars) for group in groups), default=1)
    pitch = pitch or rows * (bar_height + 1) + 7
    height = _TOP + pitch * len(groups) + _BOTTOM
    known = [bar.value for group in groups for bar in group.bars if bar.value is not None]
    peak = max([*known, mark or 0.0], default=0.0) or 1.0
    span = width - name_width - _RIGHT
    step = _tick_step(peak, span, tick)
    top_value = step * -(-peak // step)
    bottom = height - _BOTTOM

    layout = _Layout(pitch, bar_height, name_width, span / top_value)
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label, quote=True)}">'
    ]
    for index in range(round(top_value / step) + 1):
        at = layout.x(index * step)
        color = MUTED if index == 0 else RULE
        parts.append(
            f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{bottom}" stroke="{color}"/>'
            f'<text class="axis" x="{at:.1f}" y="{bottom + 15}" text-anchor="middle">'
            f"{escape(tick(index * step))}</text>"
        )
    rows_drawn = [_row(group, _TOP + pitch * i, layout) for i, group in enumerate(groups)]
    parts.extend(shapes for shapes, _ in rows_drawn)
    if mark is not None:
        at = layout.x(mark)
        parts.append(
            f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{bottom}" stroke="{MUTED}" '
            f'stroke-dasharray="4 3"/>'
        )
    parts.extend(labels for _, labels in rows_drawn)
    parts.append(
        f'<text class="axis" x="{name_width + span / 2:.1f}" y="{height - 6}" '
        f'text-anchor="middle">{escape(x_label)}</text></svg>'
    )
    return "".join(parts)


def _tick_step(peak: float, span: float, tick: Callable[[float], str]) -> float:
    """Return the distance of ticks: as many as have room for their labels beside each other."""
    step = peak
    for most in range(_PARTS_MOST, 0, -1):
        step = nice_step(peak, most)
        parts = round(-(-peak // step))
        widest = max(len(tick(index * step)) for index in range(parts + 1))
        if widest * _DIGIT_WIDTH + _LABEL_GAP <= span / parts:
            break
    return step


@dataclass(frozen=True, slots=True)
class _Layout:
    pitch: int
    bar_height: int
    name_width: int
    units_per_value: float

    def x(self, value: float) -> float:
        return self.name_width + value * self.units_per_value


def _name(name: str, x: float, y: float) -> str:
    return f'<text class="axis name" x="{x}" y="{y:.1f}" text-anchor="end">{escape(name)}</text>'


def _row(group: Group, top: float, layout: _Layout) -> tuple[str, str]:
    """Return the bars of a row, and the words that lie over everything."""
    bar_height, name_width, x = layout.bar_height, layout.name_width, layout.x
    used = len(group.bars) * (bar_height + 1)
    first = top + (layout.pitch - used) / 2
    shapes: list[str] = []
    labels = [_name(group.name, layout.name_width - 6, top + layout.pitch / 2 + 3.5)]
    for index, bar in enumerate(group.bars):
        y = first + index * (bar_height + 1)
        value = bar.value or 0.0
        shapes.append(
            f'<rect x="{name_width}" y="{y:.1f}" width="{max(0.0, x(value) - name_width):.1f}" '
            f'height="{bar_height}" rx="1.5" fill="{bar.color}">'
            f"<title>{escape(group.name)}: {escape(bar.words)}</title></rect>"
        )
        labels.append(
            f'<text class="axis value" x="{x(value) + 5:.1f}" y="{y + bar_height / 2 + 3.3:.1f}">'
            f"{escape(bar.words)}</text>"
        )
    return "".join(shapes), "".join(labels)
