"""A picture of the story: who held which device when, and below it the price."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from walras.billing_log.amounts import scaled_text
from walras.demo_nodes.device_facts import Holding, held_by_leases
from walras.demo_nodes.evidence import Evidence
from walras_contracts.quantities import PPM
from walras_contracts.work import DrainState, LeaseState

WIDTH: Final = 1000
LEFT: Final = 96
RIGHT: Final = 24
TOP: Final = 44
ROW: Final = 9
NODE_GAP: Final = 12
PRICE_GAP: Final = 44
PRICE_HEIGHT: Final = 130
BOTTOM: Final = 56
TICKS: Final = 12
"""At the most so many marks on the time axis."""
TICK_STEPS_MS: Final = (1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000)
SUBJECT_COLOUR: Final = "#1f6feb"
COLOURS: Final = ("#d1690e", "#8250df", "#2da44e", "#bf3989", "#57606a", "#9a6700")
STYLE: Final = """\
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #57606a }
.held { fill: #ffffff; font-weight: 600 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d0d7de } .price { fill: none; stroke: #cf222e; stroke-width: 2 }
.limit { stroke: #1f6feb; stroke-dasharray: 5 4 }
.moment { stroke: #1f2328; stroke-dasharray: 2 3 }"""
HATCH: Final = """\
<defs><pattern id="drain" width="6" height="6" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><rect width="3" height="6" fill="#ffffff" fill-opacity="0.65"/>
</pattern></defs>"""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a time stands in the picture."""

    start_ms: int
    end_ms: int

    def x(self, at_ms: int) -> int:
        """Return the place of a time, in pixels."""
        span = max(1, self.end_ms - self.start_ms)
        inside = min(max(at_ms, self.start_ms), self.end_ms) - self.start_ms
        return LEFT + (WIDTH - LEFT - RIGHT) * inside // span


def timeline_svg(evidence: Evidence) -> str:
    """Return the picture as SVG."""
    held = held_by_leases(evidence)
    scale = _scale(evidence, held)
    tops = _node_tops(evidence)
    nodes = evidence.scenario.nodes
    rows_end = max(tops.values()) + nodes.devices * ROW
    price_top = rows_end + PRICE_GAP
    height = price_top + PRICE_HEIGHT + BOTTOM
    body = [
        f'<text class="title" x="{LEFT}" y="20">{escape(evidence.scenario.title)}</text>',
        *_axis(scale, TOP - 6, price_top + PRICE_HEIGHT),
        *_devices(evidence, held, scale, tops),
        *_drain(evidence, scale, tops),
        *_prices(evidence, scale, price_top),
        *_moments(evidence, scale, rows_end, price_top + PRICE_HEIGHT),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="devices of {len(nodes.names)} nodes over time, and the price">'
    )
    return "\n".join(
        (
            head,
            f"<style>{STYLE}</style>",
            HATCH,
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        )
    )


def _scale(evidence: Evidence, held: list[Holding]) -> Scale:
    times = [h.start_ms for h in held] + [h.end_ms for h in held if h.end_ms is not None]
    if not times:
        times = [price.market_time_ms for price in evidence.prices] or [0]
    return Scale(min(times), max(times))


def _node_tops(evidence: Evidence) -> dict[str, int]:
    nodes = evidence.scenario.nodes
    step = nodes.devices * ROW + NODE_GAP
    return {name: TOP + number * step for number, name in enumerate(nodes.names)}


def _axis(scale: Scale, top: int, bottom: int) -> Iterable[str]:
    span = scale.end_ms - scale.start_ms
    step = next((s for s in TICK_STEPS_MS if span <= s * TICKS), max(1, span))
    for at_ms in range(0, span + 1, step):
        x = scale.x(scale.start_ms + at_ms)
        yield f'<line class="grid" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'
        yield (
            f'<text class="small" text-anchor="middle" x="{x}" y="{bottom + 16}">'
            f"{at_ms // 1000} s</text>"
        )


def _devices(
    evidence: Evidence, held: list[Holding], scale: Scale, tops: dict[str, int]
) -> Iterable[str]:
    jobs = {g.lease: f"{g.team}/{g.job}" for g in evidence.grants}
    colours = _colours(evidence)
    for name, node_top in tops.items():
        middle = node_top + evidence.scenario.nodes.devices * ROW // 2 + 4
        yield f'<text text-anchor="end" x="{LEFT - 10}" y="{middle}">{escape(name)}</text>'
    named: set[str] = set()
    for each in held:
        if each.node not in tops:
            continue
        top = tops[each.node]
        job = jobs[each.holder]
        x, end = scale.x(each.start_ms), scale.x(each.end_ms or scale.end_ms)
        y = top + each.device * ROW
        yield (
            f'<rect x="{x}" y="{y}" width="{max(1, end - x)}" height="{ROW - 1}" '
            f'fill="{colours[job]}"><title>{escape(job)}, {escape(each.node)} device '
            f"{each.device}, {escape(each.holder)}</title></rect>"
        )
    for each in held:
        if each.holder not in named and each.node in tops:
            named.add(each.holder)
            y = tops[each.node] + evidence.scenario.nodes.devices * ROW // 2 + 4
            x = scale.x(each.start_ms) + 8
            yield f'<text class="held" x="{x}" y="{y}">{escape(jobs[each.holder])}</text>'


def _colours(evidence: Evidence) -> dict[str, str]:
    keys = [job.key for job in evidence.scenario.jobs]
    others = {key: COLOURS[n % len(COLOURS)] for n, key in enumerate(keys[1:])}
    return {keys[0]: SUBJECT_COLOUR, **others}


def _drain(evidence: Evidence, scale: Scale, tops: dict[str, int]) -> Iterable[str]:
    """Hatch the time from the warning to the devices' being free."""
    for each in evidence.drains:
        freed = evidence.status(each.lease, LeaseState.FREED)
        if each.state is DrainState.WARNED and each.node in tops and freed is not None:
            x, end = scale.x(each.at_ms), scale.x(freed.at_ms)
            height = evidence.scenario.nodes.devices * ROW
            yield (
                f'<rect x="{x}" y="{tops[each.node]}" width="{max(1, end - x)}" '
                f'height="{height}" fill="url(#drain)"/>'
            )


def _prices(evidence: Evidence, scale: Scale, top: int) -> Iterable[str]:
    history = evidence.price_history()
    limit = evidence.scenario.subject.limit
    highest = max([limit, *(price for _, price in history.points)]) or 1
    bottom = top + PRICE_HEIGHT

    def y(price: int) -> int:
        return bottom - (PRICE_HEIGHT - 12) * price // highest

    right = WIDTH - RIGHT
    yield f'<line class="grid" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    yield f'<text text-anchor="end" x="{LEFT - 10}" y="{top + 4}">price</text>'
    yield (f'<text class="small" text-anchor="end" x="{LEFT - 10}" y="{top + 20}">cr/acc·h</text>')
    yield f'<line class="limit" x1="{LEFT}" y1="{y(limit)}" x2="{right}" y2="{y(limit)}"/>'
    subject = escape(evidence.scenario.subject.key)
    yield (
        f'<text class="small" x="{LEFT + 4}" y="{y(limit) - 5}">limit of {subject}: '
        f"{scaled_text(limit // 10_000, 2)}</text>"
    )
    path: list[str] = []
    last: int | None = None
    for start_ms, end_ms, price in history.segments(scale.start_ms, scale.end_ms):
        if price is None:
            continue
        x, end = scale.x(start_ms), scale.x(end_ms)
        path.append(f"{'L' if path else 'M'}{x},{y(price)} L{end},{y(price)}")
        if price != last:
            last = price
            words = scaled_text((price * 100 + PPM // 2) // PPM, 2)
            yield f'<text class="small" x="{x + 4}" y="{y(price) - 5}">{words}</text>'
    if path:
        yield f'<path class="price" d="{" ".join(path)}"/>'


def _moments(evidence: Evidence, scale: Scale, top: int, bottom: int) -> Iterable[str]:
    """Name what happened to the job."""
    words = {
        DrainState.WARNED: "warned",
        DrainState.WAITING: "saved",
        DrainState.FREED: "freed",
    }
    moments: dict[str, int] = {}
    for each in evidence.drains:
        if (each.team, each.job) == evidence.subject and each.state in words:
            moments.setdefault(words[each.state], each.at_ms)
    for number, grant in enumerate(evidence.leases()):
        running = evidence.status(grant.lease, LeaseState.RUNNING)
        if running is not None and number:
            moments[f"goes on, on {grant.node}"] = running.at_ms
    for row, (name, at_ms) in enumerate(sorted(moments.items(), key=lambda m: m[1])):
        x = scale.x(at_ms)
        yield f'<line class="moment" x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{bottom}"/>'
        seconds = scaled_text((at_ms - scale.start_ms) // 100, 1)
        yield (
            f'<text class="small" x="{x + 3}" y="{top + 13 + 12 * (row % 3)}">'
            f"{escape(name)} {seconds} s</text>"
        )
