"""The fleet in market time: a step simulates one window, whole and exactly.

The window of a step at t is [end of the last window, t + interval): without gaps and overlaps even
where barriers come early or late, so every instant of a lease is metered once. The end of a warning
rounds up to the next barrier, so that a cancel may come until then; what follows is exact.
"""

from collections.abc import Sequence
from dataclasses import replace

from walras_contracts.demand import Drainability
from walras_contracts.work import LeaseOutcome, LeaseState, LeaseStatusChanged, UsageMetered
from walras_node_agent.core import status_ended
from walras_node_agent.drains import (
    PROGRESS_MS,
    RULES,
    STUCK_MS,
    Behaviour,
    drain_statuses,
    ends_at_sigterm,
    has_saved,
    last_words,
    unbilled_from_ms,
    usage_class,
)
from walras_node_agent.metering import UsageTemplate
from walras_node_agent.minimum_start import MINIMUM_START_MS, owed_until, owes
from walras_node_agent.part_life import LEAVING, OVER, Happened, TellDrain, TellLease, Warn
from walras_node_agent.part_table import Effect, PartEvent, PartState
from walras_node_agent.parts import advance, due, of_command, started
from walras_node_agent.state import Clock, FleetState, Lease, Owed
from walras_node_agent.usage_pieces import Piece, pieces, split
from walras_runtime.records import Output, emit


def simulate(
    state: FleetState, now_ms: int, interval_ms: int, behaviour: Behaviour
) -> list[Output]:
    """Simulate one window.

    Parameters
    ----------
    state
        Leases and clock; moved on by the window.
    now_ms
        Market time of the step.
    interval_ms
        How far beyond it the window reaches.
    behaviour
        How jobs behave when they have to leave.

    Returns
    -------
    list
        Lease statuses, drain statuses and usage, by lease id, then node, then time; behind them
        what freed leases still pay for, in the same order.
    """
    before_ms = now_ms if state.clock.until_ms is None else state.clock.until_ms
    run = _Run(state, now_ms, before_ms, max(before_ms, now_ms + interval_ms), behaviour)
    for lease_id in sorted(state.leases):
        run.lease(state.leases[lease_id])
    run.write_owed()
    state.clock = Clock(run.until_ms, state.clock.pieces + len(run.whole))
    return run.outputs


class _Run:
    """One window over all leases: new ones start at ``now_ms`` or, if later, at ``from_ms``."""

    def __init__(
        self, state: FleetState, now_ms: int, from_ms: int, until_ms: int, behaviour: Behaviour
    ) -> None:
        self.until_ms = until_ms
        self.whole = pieces(from_ms, until_ms)
        self.outputs: list[Output] = []
        self._state = state
        self._now_ms = now_ms
        self._from_ms = from_ms
        self._at_ms = max(now_ms, from_ms)
        """What this step takes happens then: what ran before is metered."""
        self._behaviour = behaviour
        self._told: list[tuple[TellDrain, int]] = []
        self._metered_ms: int | None = None
        """When the present lease was freed; None: not in this window."""
        self._owing: UsageMetered | None = None
        """Its use as it was then, if its start owes: what is said later changes nothing."""

    def lease(self, lease: Lease) -> None:
        """Take one lease through the window."""
        if lease.settled and (lease.end_ms is None or lease.end_ms > self.until_ms):
            self._write_usage(lease, self.whole, None)
            return
        # Where barriers were missing, what came before this step comes first, as it was then.
        self._go_on(lease, self._at_ms - 1)
        from_ms, cut = self._from_ms, 0
        if lease.commands or lease.records_ended or lease.restated is not None:
            cut, from_ms = self._meter(lease, from_ms, self._at_ms), self._at_ms
            lease.take_terms()
            self._take_what_was_said(lease)
        if lease.start_ms is None and lease.life.state is PartState.ACCEPTED:
            self._start(lease)
        self._live(lease)
        cut += self._meter(lease, from_ms, self.until_ms)
        if lease.start_ms is not None:
            # The clock counts the whole pieces of the window for everybody.
            lease.seq_offset -= len(self.whole)
            if cut != len(self.whole):
                self._state.changed[lease.lease] = None
        self._tell_drain(lease)
        if lease.life.state in OVER:
            self._forget(lease)
        lease.settled = lease.life.state is PartState.RUNNING and not lease.leaving

    def _take_what_was_said(self, lease: Lease) -> None:
        for command in lease.commands:
            if command is None:
                self._happens(lease, Happened(PartEvent.SESSION_ENDED), self._at_ms)
                continue
            happened = of_command(lease.life, command)
            if happened is not None:
                self._happens(lease, happened, self._at_ms)
        lease.commands.clear()
        if lease.records_ended and not lease.life.ended:
            self._happens(lease, Happened(PartEvent.LEASE_ENDED), self._at_ms)

    def _start(self, lease: Lease) -> None:
        """Start a lease whose parts are all there."""
        if len(lease.sizes_macc) < lease.parts:
            return
        lease.start_ms = self._at_ms
        if lease.remaining_run_ms is not None:
            lease.end_ms = lease.start_ms + lease.remaining_run_ms
        lease.seq_offset = -self._state.clock.pieces
        lease.life, told = started(lease.life, RULES)
        self._state.changed[lease.lease] = None
        self._tell_lease(lease, told, self._at_ms)

    def _live(self, lease: Lease) -> None:
        """Let happen what happens to a lease up to the end of the window."""
        leaves_ms = self._behaviour.leaves_ms(lease)
        if lease.life.state in LEAVING and leaves_ms is not None and leaves_ms <= self._now_ms:
            session = "" if lease.life.drain is None else lease.life.drain.session
            self._happens(lease, Happened(PartEvent.SAVED, session), self._at_ms)
            self._end(lease, LeaseOutcome.VACATED, self._at_ms)
        elif lease.life.leave_ms is not None and lease.life.leave_ms <= self._now_ms:
            self._happens(lease, Happened(PartEvent.WARNING_OVER), self._at_ms)
        self._go_on(lease, self.until_ms)

    def _go_on(self, lease: Lease, until_ms: int) -> None:
        """Let happen what a lease does by itself up to a time."""
        while (next_one := self._next(lease)) is not None and next_one[0] <= until_ms:
            at_ms, event = next_one
            if event is PartEvent.GROUP_GONE:
                self._end(lease, LeaseOutcome.FINISHED, at_ms)
            elif event is PartEvent.DEVICE_FREE:
                self._free(lease, at_ms)
            else:
                self._happens(lease, Happened(event), at_ms)

    def _next(self, lease: Lease) -> tuple[int, PartEvent] | None:
        """Return what happens next to a lease inside this window."""
        coming: list[tuple[int, PartEvent]] = []
        if lease.end_ms is not None:
            coming.append((lease.end_ms, PartEvent.GROUP_GONE))
        if lease.free_ms is not None:
            coming.append((lease.free_ms, PartEvent.DEVICE_FREE))
        runs_out = due(lease.life)
        if runs_out is not None and lease.life.state not in LEAVING:
            coming.append(runs_out)
        first = min(coming, default=None)
        return first if first is not None and first[0] <= self.until_ms else None

    def _end(self, lease: Lease, outcome: LeaseOutcome, at_ms: int) -> None:
        """End all that runs of a lease; its devices are free at once, or stuck for a while."""
        if lease.end_ms is not None:
            if outcome is LeaseOutcome.FINISHED or has_saved(lease):
                lease.remaining_run_ms = lease.end_ms - at_ms
            lease.end_ms = None
        fails = self._behaviour.fails(lease)
        self._happens(lease, Happened(PartEvent.GROUP_GONE, outcome=outcome), at_ms)
        if not fails:
            self._free(lease, at_ms)

    def _free(self, lease: Lease, at_ms: int) -> None:
        lease.free_ms = None
        for _ in range(2):
            self._happens(lease, Happened(PartEvent.DEVICE_FREE), at_ms)

    def _happens(self, lease: Lease, happened: Happened, at_ms: int) -> None:
        """Take an event of a lease, tell what is to be told, and let its job react."""
        before, leaving = lease.life, lease.leaving
        life, deeds = advance(before, happened, at_ms, RULES)
        lease.life = replace(before, state=PartState.FREED) if life is None else life
        self._state.changed[lease.lease] = None
        if lease.leaving is not leaving:
            lease.templates.clear()
        if lease.life.state is PartState.STUCK and lease.free_ms is None:
            lease.free_ms = at_ms + STUCK_MS
        for deed in deeds:
            if isinstance(deed, TellDrain):
                self._told.append((deed, at_ms))
            elif isinstance(deed, TellLease):
                self._tell_lease(lease, deed, at_ms)
        if Effect.KILL in deeds or (Effect.TERMINATE in deeds and ends_at_sigterm(lease)):
            self._end(lease, LeaseOutcome.VACATED, at_ms)
        elif Effect.READ_DEVICES in deeds and before.state is PartState.ACCEPTED:
            self._free(lease, at_ms)
        elif lease.life.drainability is Drainability.CHECKPOINT:
            for warning in [deed for deed in deeds if isinstance(deed, Warn)]:
                answer = Happened(PartEvent.HOOK_ACCEPTED, warning.timeline.session)
                self._happens(lease, answer, at_ms)

    def _tell_lease(self, lease: Lease, told: TellLease, at_ms: int) -> None:
        if told.state is LeaseState.FREED:
            self._metered_ms, self._owing = at_ms, _owing(lease)
        self.outputs.extend(
            emit(
                LeaseStatusChanged(
                    lease=lease.lease,
                    node=node,
                    team=lease.team,
                    job=lease.job,
                    state=told.state,
                    outcome=told.outcome,
                    remaining_run_ms=lease.remaining_run_ms,
                    at_ms=at_ms,
                )
            )
            for node in sorted(lease.sizes_macc)
        )

    def _tell_drain(self, lease: Lease) -> None:
        """Tell how the drain of a lease goes on; where it does not, at least that it does."""
        told = last_words(self._told)
        self._told.clear()
        if not told and self._at_ms >= lease.told_ms + PROGRESS_MS:
            _, deeds = advance(lease.life, Happened(PartEvent.PROGRESS_DUE), self._at_ms, RULES)
            told = [(deed, self._at_ms) for deed in deeds if isinstance(deed, TellDrain)]
        for deed, at_ms in told:
            lease.told_ms = at_ms
            self._state.changed[lease.lease] = None
            self.outputs.extend(emit(event) for event in drain_statuses(lease, deed, at_ms))

    def _forget(self, lease: Lease) -> None:
        """Forget a freed lease, but for what it owes and what keeps it from being started again."""
        if lease.start_ms is not None and self._metered_ms is not None:
            billed_ms = self._metered_ms - lease.start_ms - lease.unbilled_ms
            self._note_owed(lease, billed_ms, self._metered_ms)
        self._metered_ms, self._owing = None, None
        del self._state.leases[lease.lease]
        left = {node: None for node in lease.sizes_macc if node not in lease.records_ended}
        if left:
            self._state.ended[lease.lease] = left
        self.outputs.extend(status_ended(lease.lease, node) for node in lease.records_ended)
        self._state.changed[lease.lease] = None

    def _note_owed(self, lease: Lease, billed_ms: int, freed_ms: int) -> None:
        rest_ms = MINIMUM_START_MS - billed_ms
        if self._owing is None or rest_ms <= 0:
            return
        rest = {
            "seq": self._state.clock.pieces + len(self.whole) + lease.seq_offset,
            "start_ms": freed_ms,
            "end_ms": freed_ms + rest_ms,
            "running_ms": 0,
        }
        usage = self._owing.model_copy(update=rest)
        self._state.owed[lease.lease] = Owed(usage, lease.sizes_macc)

    def write_owed(self) -> None:
        """Write the use that is owed up to the end of the window."""
        for lease_id, owed in sorted(self._state.owed.items()):
            told, rest = owed_until(owed.usage, self.until_ms)
            for node, size_macc in sorted(owed.sizes_macc.items()):
                place = {"node": node, "quantity_macc": size_macc}
                self.outputs.extend(emit(each.model_copy(update=place)) for each in told)
            if told:
                self._state.changed[lease_id] = None
            if rest is None:
                del self._state.owed[lease_id]
            else:
                self._state.owed[lease_id] = Owed(rest, owed.sizes_macc)

    def _meter(self, lease: Lease, from_ms: int, until_ms: int) -> int:
        """Meter each part over a time, by what it is now; return into how many pieces it was cut.

        Nothing is metered before the lease started, nor after it was freed.
        """
        if lease.start_ms is None:
            return 0
        from_ms = max(from_ms, lease.start_ms)
        until_ms = until_ms if self._metered_ms is None else min(until_ms, self._metered_ms)
        whole = from_ms == self._from_ms and until_ms == self.until_ms
        cut = self.whole if whole else pieces(from_ms, until_ms)
        unbilled_ms = unbilled_from_ms(lease)
        if unbilled_ms is not None:
            cut = split(cut, unbilled_ms)
        if lease.leaving:
            _, billable = usage_class(lease)
            free_ms = unbilled_ms if billable else 0
            free = [] if free_ms is None else [piece for piece in cut if piece[0] >= free_ms]
            lease.unbilled_ms += sum(end_ms - start_ms for start_ms, end_ms in free)
            self._state.changed[lease.lease] = None
        self._write_usage(lease, cut, unbilled_ms)
        lease.seq_offset += len(cut)
        return len(cut)

    def _write_usage(self, lease: Lease, cut: Sequence[Piece], unbilled_ms: int | None) -> None:
        first_seq = self._state.clock.pieces + lease.seq_offset
        for node in sorted(lease.sizes_macc):
            for seq, (start_ms, end_ms) in enumerate(cut, first_seq):
                billed = unbilled_ms is None or start_ms < unbilled_ms
                template = lease.templates.get((node, billed))
                if template is None:
                    template = UsageTemplate(_usage(lease, node, billed))
                    lease.templates[node, billed] = template
                self.outputs.append(template.output(seq, start_ms, end_ms))


def _owing(lease: Lease) -> UsageMetered | None:
    """Return the use of a part of a lease that is freed now, if its start owes."""
    life = lease.life
    left_for = life.drain.reason if life.draining and life.drain is not None else None
    if life.ended or not owes(lease.work_class, life.outcome, left_for):
        return None
    used = _usage(lease, min(lease.sizes_macc), billed=True)
    return used.model_copy(update={"work_class": lease.work_class, "billable": True})


def _usage(lease: Lease, node: str, billed: bool) -> UsageMetered:
    """Return the usage of a part."""
    work_class, billable = usage_class(lease)
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
        work_class=work_class,
        billable=billed and billable,
        limit_micro=lease.limit_micro,
        tariff_ppm=lease.tariff_ppm,
    )
