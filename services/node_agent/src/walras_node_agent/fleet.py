"""The fleet in market time: a step simulates one window, whole and exactly.

The window of a step at t is [end of the last window, t + interval): without gaps and overlaps even
where barriers come early or late, so every instant of a lease is metered once.
"""

from collections.abc import Sequence

from walras_contracts.quantities import SETTLEMENT_MS
from walras_contracts.work import (
    DrainState,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
    WorkClass,
)
from walras_node_agent.drains import DrainRules, drain_statuses
from walras_node_agent.metering import UsageTemplate
from walras_node_agent.state import Clock, FleetState, Lease
from walras_runtime.records import Output, emit

USAGE_INTERVAL_MS = 60_000
"""Longest usage interval (design §6)."""
FINISHED = "finished"
VACATED = "vacated"

Piece = tuple[int, int]


def pieces(start_ms: int, end_ms: int) -> list[Piece]:
    """Cut [start, end) into usage intervals: at multiples of 5 min, and every 60 s at the most."""
    cut: list[Piece] = []
    while start_ms < end_ms:
        boundary_ms = start_ms - start_ms % SETTLEMENT_MS + SETTLEMENT_MS
        piece_end_ms = min(end_ms, start_ms + USAGE_INTERVAL_MS, boundary_ms)
        cut.append((start_ms, piece_end_ms))
        start_ms = piece_end_ms
    return cut


def split(whole: Sequence[Piece], at_ms: int) -> list[Piece]:
    """Cut the piece that an instant lies inside of, so that one begins there."""
    cut: list[Piece] = []
    for start_ms, end_ms in whole:
        if start_ms < at_ms < end_ms:
            cut += [(start_ms, at_ms), (at_ms, end_ms)]
        else:
            cut.append((start_ms, end_ms))
    return cut


def simulate(state: FleetState, now_ms: int, interval_ms: int, rules: DrainRules) -> list[Output]:
    """Simulate one window.

    Parameters
    ----------
    state
        Leases and clock; moved on by the window.
    now_ms
        Market time of the step.
    interval_ms
        How far beyond it the window reaches.
    rules
        How long a lease that was asked to leave runs on, and is billed.

    Returns
    -------
    list
        Lease statuses, drain statuses and usage, by lease id, then node, then time.
    """
    before_ms = now_ms if state.clock.until_ms is None else state.clock.until_ms
    run = _Run(state, now_ms, before_ms, max(before_ms, now_ms + interval_ms), rules)
    for lease_id in sorted(state.leases):
        run.lease(state.leases[lease_id])
    state.clock = Clock(run.until_ms, state.clock.pieces + len(run.whole))
    return run.outputs


class _Run:
    """One window over all leases: new ones start at ``now_ms`` or, if later, at ``from_ms``."""

    def __init__(
        self, state: FleetState, now_ms: int, from_ms: int, until_ms: int, rules: DrainRules
    ) -> None:
        self.until_ms = until_ms
        self.whole = pieces(from_ms, until_ms)
        self.outputs: list[Output] = []
        self._state = state
        self._now_ms = now_ms
        self._from_ms = from_ms
        self._rules = rules

    def lease(self, lease: Lease) -> None:
        """Take one lease through the window."""
        if lease.vacate_ms is not None and lease.warned_ms is None:
            self._warn(lease)
        if lease.start_ms is None and not self._start(lease):
            if self._is_due(lease):
                self._free(lease, VACATED, self._now_ms)
            return
        assert lease.start_ms is not None
        from_ms = max(self._from_ms, lease.start_ms)
        freed_ms = max(self._now_ms, from_ms)
        if self._is_due(lease) and (lease.end_ms is None or lease.end_ms > freed_ms):
            self._meter(lease, pieces(from_ms, freed_ms))
            self._free(lease, VACATED, freed_ms)
            return
        if lease.end_ms is not None and lease.end_ms <= self.until_ms:
            self._meter(lease, pieces(from_ms, lease.end_ms))
            self._free(lease, FINISHED, lease.end_ms)
            return
        cut = self.whole if from_ms == self._from_ms else pieces(from_ms, self.until_ms)
        count = self._meter(lease, cut)
        if count != len(self.whole):
            lease.seq_offset += count - len(self.whole)
            self._state.changed[lease.lease] = None

    def _warn(self, lease: Lease) -> None:
        """Begin the drain of a lease; what ran up to the end of the last window is metered."""
        lease.warned_ms = max(self._now_ms, self._from_ms)
        self._state.changed[lease.lease] = None
        self._tell_drain(lease, DrainState.WARNED, lease.warned_ms)

    def _tell_drain(self, lease: Lease, state: DrainState, at_ms: int) -> None:
        self.outputs.extend(emit(event) for event in drain_statuses(lease, state, at_ms))

    def _start(self, lease: Lease) -> bool:
        """Start a lease whose parts are all there and which was not asked to leave."""
        if len(lease.sizes_macc) < lease.parts or lease.vacate_ms is not None:
            return False
        lease.start_ms = max(self._now_ms, self._from_ms)
        if lease.remaining_run_ms is not None:
            lease.end_ms = lease.start_ms + lease.remaining_run_ms
        lease.seq_offset = -self._state.clock.pieces
        self._state.changed[lease.lease] = None
        self._tell(lease, LeaseState.RUNNING, "", lease.start_ms)
        return True

    def _is_due(self, lease: Lease) -> bool:
        return (
            lease.vacate_ms is not None
            and self._now_ms >= lease.vacate_ms + self._rules.vacate_grace_ms
        )

    def _free(self, lease: Lease, outcome: str, at_ms: int) -> None:
        if lease.warned_ms is not None:
            self._tell_drain(lease, DrainState.FREED, max(at_ms, lease.warned_ms))
        self._tell(lease, LeaseState.FREED, outcome, at_ms)
        del self._state.leases[lease.lease]
        self._state.ended[lease.lease] = dict.fromkeys(lease.sizes_macc)
        self._state.changed[lease.lease] = None

    def _tell(self, lease: Lease, state: LeaseState, outcome: str, at_ms: int) -> None:
        left_ms = lease.remaining_run_ms
        if lease.end_ms is not None:
            left_ms = lease.end_ms - at_ms
        self.outputs.extend(
            emit(
                LeaseStatusChanged(
                    lease=lease.lease,
                    node=node,
                    team=lease.team,
                    job=lease.job,
                    state=state,
                    outcome=outcome,
                    remaining_run_ms=left_ms,
                    at_ms=at_ms,
                )
            )
            for node in sorted(lease.sizes_macc)
        )

    def _meter(self, lease: Lease, cut: Sequence[Piece]) -> int:
        """Meter each part over the pieces of this window; return how many those became."""
        unbilled_ms: int | None = None
        if lease.warned_ms is not None and cut:
            unbilled_ms = lease.warned_ms + self._rules.billing_grace_ms
            if cut[0][0] <= unbilled_ms < cut[-1][1]:
                self._tell_drain(lease, DrainState.WAITING, unbilled_ms)
            cut = split(cut, unbilled_ms)
        first_seq = self._state.clock.pieces + lease.seq_offset
        for node in sorted(lease.sizes_macc):
            for seq, (start_ms, end_ms) in enumerate(cut, first_seq):
                billed = unbilled_ms is None or start_ms < unbilled_ms
                template = lease.templates.get((node, billed))
                if template is None:
                    template = UsageTemplate(_usage(lease, node, billed))
                    lease.templates[node, billed] = template
                self.outputs.append(template.output(seq, start_ms, end_ms))
        return len(cut)


def _usage(lease: Lease, node: str, billed: bool) -> UsageMetered:
    """Return the usage of a part. One that was asked to leave is overhang from then on.

    What ran at price 0 is not billed while it leaves, either: its team agreed to no price.
    """
    leaving = lease.vacate_ms is not None
    free = lease.work_class is WorkClass.OPPORTUNISTIC
    return UsageMetered(
        lease=lease.lease,
        node=node,
        attempt=lease.attempt,
        seq=0,
        team=lease.team,
        pool=lease.pool,
        job=lease.job,
        market=lease.market,
        quantity_macc=lease.sizes_macc[node],
        start_ms=0,
        end_ms=1,
        work_class=WorkClass.OVERHANG if leaving else lease.work_class,
        billable=billed and not (leaving and free),
        limit_micro=lease.limit_micro,
        tariff_ppm=lease.tariff_ppm,
    )
