"""Line and area charts over market time as inline SVG, drawn without any library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Values = Sequence[float | None]

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 40
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b8860b",
    "#56b4e9",
    "#7b4fb5",
    "#8c564b",
    "#5f9e3a",
    "#e377c2",
    "#17807e",
    "#7f7f7f",
)
INK, MUTED, RULE = "#1d2733", "#5b6875", "#e3e8ed"
_TICK_STEPS = (1, 2, 2.5, 5, 10)
_HOUR_STEPS = (0.25, 0.5, 1, 2, 3, 4, 6, 12, 24, 48)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a value per bin, None where there is none."""

    name: str
    color: str
    values: Values
    width: float = 1.5
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """One layer of a stack, from the bottom up."""

    name: str
    color: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis: the width of a bin, and the whole length."""

    bin_hours: float
    hours: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting rectangle: hours on x, a value from 0, or from the lowest below it, on y."""

    width: int
    height: int
    hours: float
    top_value: float
    low_value: float = 0.0

    def x(self, hour: float) -> float:
        """Return the abscissa of an hour."""
        return LEFT + (self.width - LEFT - RIGHT) * hour / self.hours

    def y(self, value: float) -> float:
        """Return the ordinate of a value."""
        part = (value - self.low_value) / (self.top_value - self.low_value)
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * part


def nice_step(span: float, most: int) -> float:
    """Return a round step that cuts the span into at most ``most`` parts."""
    magnitude = 1.0
    while magnitude * 10 * most < span:
        magnitude *= 10
    while magnitude * most > span:
        magnitude /= 10
    for step in _TICK_STEPS:
        if step * magnitude * most >= span:
            return step * magnitude
    return 10 * magnitude


def plain(value: float) -> str:
    """Return a tick label: thousands with commas, decimals only where needed."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3f}".rstrip("0").rstrip(".")


def line_chart(
    label: str,
    y_label: str,
    axis: Axis,
    lines: Sequence[Line],
    areas: Sequence[Area] = (),
    *,
    width: int = 1080,
    height: int = 260,
    tick: Callable[[float], str] = plain,
    steps: bool = False,
) -> str:
    """Return an SVG chart.

    Parameters
    ----------
    label
        What the chart shows, for readers that do not see it.
    y_label
        Name and unit of the vertical axis.
    lines, areas
        What is drawn; areas are stacked and lie below the lines.
    steps
        Draw lines as steps (a value holds for its whole bin) rather than through bin centres.
    """
    stacked = (
        [sum(layer) for layer in zip(*(a.values for a in areas), strict=True)] if areas else []
    )
    known = [v for line in lines for v in line.values if v is not None] + stacked
    lowest = min(0.0, min(known, default=0.0))
    peak = max(0.0, max(known, default=0.0))
    peak = peak if peak or lowest else 1.0
    step = nice_step((peak - lowest) * 1.04, 5)
    top_value = step * -(-peak * 1.04 // step)
    low_value = step * (lowest * 1.04 // step)
    frame = Frame(width, height, axis.hours, top_value, low_value)
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label, quote=True)}">',
        *_grid(frame, step, y_label, tick),
        *_stack(frame, axis.bin_hours, areas),
    ]
    for line in lines:
        for points in _runs(frame, axis.bin_hours, line.values, steps=steps):
            dash = ' stroke-dasharray="5 4"' if line.dashed else ""
            parts.append(
                f'<polyline fill="none" stroke="{line.color}" stroke-width="{line.width}"'
                f'{dash} stroke-linejoin="round" points="{points}"/>'
            )
    parts.append("</svg>")
    return "".join(parts)


def _grid(frame: Frame, step: float, y_label: str, tick: Callable[[float], str]) -> list[str]:
    right, bottom = frame.width - RIGHT, frame.height - BOTTOM
    parts: list[str] = []
    lowest, highest = round(frame.low_value / step), round(frame.top_value / step)
    for index in range(lowest, highest + 1):
        value = index * step
        y = frame.y(value)
        color = MUTED if index == 0 else RULE
        parts.append(_rule(LEFT, y, right, y, color))
        parts.append(_text(LEFT - 6, y + 3.5, tick(value), "end"))
    hour_step = next(
        (s for s in _HOUR_STEPS if frame.hours / s <= (12 if frame.width > 600 else 7)),
        _HOUR_STEPS[-1],
    )
    hour = 0.0
    while hour <= frame.hours + 1e-9:
        x = frame.x(hour)
        parts.append(_rule(x, bottom, x, bottom + 4, MUTED))
        parts.append(_text(x, bottom + 16, plain(hour), "middle"))
        hour += hour_step
    parts.append(
        _text((LEFT + right) / 2, frame.height - 6, "market time since the start (h)", "middle")
    )
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text class="axis" text-anchor="middle" transform="translate(11 {middle:.1f}) '
        f'rotate(-90)">{escape(y_label)}</text>'
    )
    return parts


def _stack(frame: Frame, bin_hours: float, areas: Sequence[Area]) -> list[str]:
    parts: list[str] = []
    if not areas:
        return parts
    below = [0.0] * len(areas[0].values)
    for area in areas:
        above = [b + v for b, v in zip(below, area.values, strict=True)]
        forth = _step_points(frame, bin_hours, list(enumerate(above)))
        back = _step_points(frame, bin_hours, list(enumerate(below)))[::-1]
        points = " ".join(forth + back)
        parts.append(f'<polygon fill="{area.color}" fill-opacity="0.75" points="{points}"/>')
        below = above
    return parts


def _runs(frame: Frame, bin_hours: float, values: Values, *, steps: bool) -> list[str]:
    """Return the points of each unbroken run of values."""
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index, value))
    found = []
    for run in runs:
        if not run:
            continue
        if steps or len(run) == 1:
            points = _step_points(frame, bin_hours, run)
        else:
            points = [
                f"{frame.x(min(frame.hours, (i + 0.5) * bin_hours)):.1f},{frame.y(v):.1f}"
                for i, v in run
            ]
        found.append(" ".join(points))
    return found


def _step_points(frame: Frame, bin_hours: float, run: Sequence[tuple[int, float]]) -> list[str]:
    points = []
    for index, value in run:
        y = frame.y(value)
        points.append(f"{frame.x(index * bin_hours):.1f},{y:.1f}")
        points.append(f"{frame.x(min(frame.hours, (index + 1) * bin_hours)):.1f},{y:.1f}")
    return points


def _rule(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{color}" stroke-width="1"/>'
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return (
        f'<text class="axis" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return a legend of (name, colour) as HTML."""
    items = "".join(
        f'<span><i style="background:{color}"></i>{escape(name)}</span>' for name, color in entries
    )
    return f'<div class="legend">{items}</div>'
