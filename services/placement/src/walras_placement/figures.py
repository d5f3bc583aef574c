"""What is published of each market in every cycle: where whole jobs and quota disagree."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from walras_contracts.placing import (
    CELLS_MAX,
    UNPLACED_MAX,
    CellRoom,
    PlacementMeasured,
    PreemptionCycle,
    StuckHead,
    UnplacedQuota,
)
from walras_contracts.wait_reasons import WaitReason
from walras_placement.devices import Counts
from walras_placement.outcomes import Short
from walras_placement.rules import Moment, Rules
from walras_placement.state import PlacementState
from walras_placement.stuck_heads import stuck_heads
from walras_placement.topology import Places


@dataclass(slots=True)
class _Shape:
    """Unplaced jobs of as many devices, nearest to a start in one cell."""

    jobs: int = 0
    needed_macc: int = 0
    longest_wait_ms: int = 0


@dataclass(slots=True)
class _Unplaced:
    """Jobs with quota and without devices in one market."""

    shapes: dict[tuple[str, int], _Shape] = field(default_factory=dict)
    jobs: int = 0
    needed_macc: int = 0
    gangs: int = 0
    gang_wait_ms: int = 0


def measure(state: PlacementState, moment: Moment, rules: Rules) -> list[PlacementMeasured]:
    """Return the figures of all markets, by market.

    A market is a type of which there are nodes, of which something is held, or that a team's
    quota names.
    """
    short: dict[str, list[Short]] = {}
    for _, outcome in state.outcomes.each():
        for each in outcome.short.values():
            if each.bought:
                short.setdefault(each.market, []).append(each)
    heads = stuck_heads(state, moment, rules)
    waiting = _waiting_jobs(state)
    bought = _bought(state)
    unspent = {market for market, macc in state.outcomes.unspent_macc.items() if macc}
    markets = {*state.devices.kinds(), *bought, *unspent}
    return [
        _of_market(
            state,
            moment,
            rules,
            market,
            short=short.get(market, ()),
            heads=heads.get(market, ()),
            waiting=waiting.get(market, {}),
            bought_macc=bought.get(market, 0),
        )
        for market in sorted(markets)
    ]


def _of_market(
    state: PlacementState,
    moment: Moment,
    rules: Rules,
    market: str,
    *,
    short: Iterable[Short],
    heads: tuple[StuckHead, ...],
    waiting: dict[str, int],
    bought_macc: int,
) -> PlacementMeasured:
    places = state.devices.places.get(market) or Places()
    counts = state.devices.counts.get(market) or Counts()
    counted = state.tally.of(market)
    cells = _cells(places)
    unplaced = _unplaced(state, moment, market, short, cells)
    shapes = sorted(unplaced.shapes.items(), key=lambda item: (-item[1].needed_macc, item[0]))
    return PlacementMeasured(
        market=market,
        cycle=rules.cycle_of(moment.step),
        market_time_ms=moment.now_ms,
        rounding=state.policies.rounding(market),
        usable_macc=places.usable_macc,
        held_macc=counts.held,
        remnant_macc=counts.remnant,
        reserved_macc=counts.reserved_usable,
        bought_macc=bought_macc,
        unspent_macc=state.outcomes.unspent_macc.get(market, 0),
        opportunistic_macc=_for_nothing(state, market),
        pending_jobs=sum(waiting.values()),
        parked_jobs=waiting.get(WaitReason.PARKED, 0),
        held_back_jobs=waiting.get(WaitReason.HELD_BACK, 0),
        cells=tuple(sorted(cells, key=_most_open)[:CELLS_MAX]),
        unplaced=tuple(
            UnplacedQuota(
                cell=cell,
                devices=devices,
                jobs=shape.jobs,
                needed_macc=shape.needed_macc,
                longest_wait_ms=shape.longest_wait_ms,
            )
            for (cell, devices), shape in shapes[:UNPLACED_MAX]
        ),
        unplaced_jobs=unplaced.jobs,
        unplaced_macc=unplaced.needed_macc,
        gangs_waiting=unplaced.gangs,
        gang_wait_ms=unplaced.gang_wait_ms,
        started_jobs=counted.started_jobs,
        started_wait_ms=counted.started_wait_ms,
        vacated_jobs=counted.vacated_jobs,
        kept_jobs=counted.kept_jobs,
        deadline_misses=counted.deadline_misses,
        preemption_cycles=tuple(
            PreemptionCycle(evicted=evicted, by=by) for evicted, by in counted.cycles
        ),
        preemption_cycles_detected=counted.cycles_detected,
        stuck=heads,
    )


def _cells(places: Places) -> list[CellRoom]:
    """Return what is open in each cell, and the largest gang that it would hold."""
    open_macc: dict[str, int] = {}
    largest_macc: dict[str, int] = {}
    for (cell, _), domain in places.domains.items():
        open_macc[cell] = open_macc.get(cell, 0) + domain.open_macc
        largest_macc[cell] = max(largest_macc.get(cell, 0), domain.open_macc)
    return [
        CellRoom(cell=cell, open_macc=open_macc[cell], largest_macc=largest_macc[cell])
        for cell in sorted(open_macc)
    ]


def _unplaced(
    state: PlacementState,
    moment: Moment,
    market: str,
    short: Iterable[Short],
    cells: list[CellRoom],
) -> _Unplaced:
    found = _Unplaced()
    sizes = state.devices.shape(market)[2]
    if not cells or not sizes:
        return found
    nearest = min(cells, key=_most_open).cell
    for each in short:
        job = each.job
        needed_macc = state.devices.whole_macc(market, job.entry().size_macc)
        devices = -(-needed_macc // sizes[-1])
        waited_ms = max(0, moment.now_ms - job.pending_since_ms)
        shape = found.shapes.setdefault((nearest, devices), _Shape())
        shape.jobs += 1
        shape.needed_macc += needed_macc
        shape.longest_wait_ms = max(shape.longest_wait_ms, waited_ms)
        found.jobs += 1
        found.needed_macc += needed_macc
        if devices > 1 and job.entry().gang:
            found.gangs += 1
            found.gang_wait_ms = max(found.gang_wait_ms, waited_ms)
    return found


def _waiting_jobs(state: PlacementState) -> dict[str, dict[str, int]]:
    """Return how many pending jobs would take each market first, by reason."""
    found: dict[str, dict[str, int]] = {}
    for team in state.teams.values():
        for _, job in team.pending:
            reasons = found.setdefault(job.entry().types[0], {})
            reasons[job.reason] = reasons.get(job.reason, 0) + 1
    return found


def _bought(state: PlacementState) -> dict[str, int]:
    found: dict[str, int] = {}
    for quotas in state.quotas.values():
        for market, quota in quotas.items():
            found[market] = found.get(market, 0) + quota.allocated_macc
    return found


def _for_nothing(state: PlacementState, market: str) -> int:
    """Return what is occupied by what runs at price 0."""
    books = (team.books.get(market) for team in state.teams.values())
    return sum(book.free_macc for book in books if book is not None)


def _most_open(cell: CellRoom) -> tuple[int, str]:
    return -cell.open_macc, cell.cell
