"""Carrying out: what a queue record and a plan do to jobs, and what is written about it.

Each function takes the state and a :class:`Writer`, which collects the outputs of the step.
"""

from typing import Final

from walras_contracts.drains import VacateReason, VacateRequested, VacateWithdrawn
from walras_contracts.identifiers import digest_of
from walras_contracts.work import JobState
from walras_placement.decisions import Grant, Plan, Reclass, Reserve, Stay, Vacate, Wait
from walras_placement.jobs import Job
from walras_placement.leases import Lease
from walras_placement.lifecycle import JobEvent, next_state
from walras_placement.moves import clear_reason, evict, forget, move, release, stay, withdraw
from walras_placement.reservations import Reservation
from walras_placement.shares import occupied_macc
from walras_placement.state import PlacementState
from walras_placement.writer import Writer
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import emit

EVICTIONS: Final = frozenset(
    {
        VacateReason.QUOTA_LOST,
        VacateReason.PRICE_ABOVE_LIMIT,
        VacateReason.PRESSURE,
        VacateReason.LOW_USE,
        VacateReason.ORDERED,
    }
)
"""A job that leaves for one of these is evicted; after others it may start again at once."""


def lease_id(team: str, job: str, position: int, attempt: int) -> str:
    """Return the id of a job's lease: readable, unique over teams and later namesakes."""
    return f"{job[:30]}.{digest_of(team, job, str(position))[:12]}.{attempt}"


def reconcile(state: PlacementState, writer: Writer, key: str) -> None:
    """Bring a job in line with its queue record; without a change nothing happens."""
    entry = state.queue.get(key)
    job = state.jobs.get(key)
    if job is None:
        if entry is None:
            return
        since_ms = min(entry.submitted_ms, writer.moment.now_ms)
        first = next_state(None, JobEvent.QUEUED)
        assert first is not None
        job = Job(
            entry.team,
            entry.job,
            first,
            writer.moment.now_ms,
            since_ms,
            writer.moment.step,
            entry.expected_run_ms,
            queued=entry,
        )
        state.jobs[key] = job
        state.index(job)
        state.watch_deadline(job)
        writer.changed[key] = None
    elif job.queued is not entry:
        before = job.queued
        state.team(job.team).restated[key] = None
        state.unindex(job)
        job.queued = entry
        state.index(job)
        if entry is not None and (before is None or before.deadline_ms != entry.deadline_ms):
            if job.missed:
                job.missed = False
                writer.changed[key] = None
            state.watch_deadline(job)
    if entry is None:
        if job.lease is None:
            forget(state, writer, job)
        return
    if entry.cancelled and job.state is JobState.PENDING:
        withdraw(state, writer, job, writer.moment.now_ms)
    lease = job.lease
    if lease is not None and (lease.limit_micro, lease.pool) != (entry.limit_micro, entry.pool):
        # From now on it pays at most the new limit, at the price of the pool its team is in.
        lease.limit_micro = entry.limit_micro
        lease.pool = entry.pool
        writer.rewrite(job, lease)


def carry_out(state: PlacementState, writer: Writer, plan: Plan) -> None:
    """Turn a plan into leases, vacates and statuses."""
    for key in sorted(plan.released):
        # The quota that was set aside for it may keep something else now.
        state.later[plan.released[key].team] = None
        release(state, writer, key)
    for vacate in plan.vacated:
        _vacate(state, writer, vacate)
    for lease in sorted(plan.stays):
        _stay(state, writer, plan.stays[lease])
    for reclass in plan.reclassed:
        _reclass(state, writer, reclass)
    for grant in plan.granted:
        release(state, writer, grant.job.key)
    for reserve in plan.reserved:
        _reserve(state, writer, reserve)
    for grant in plan.granted:
        _grant(state, writer, grant)
    state.devices.check_started({grant.market: None for grant in plan.granted})
    for wait in plan.waiting:
        _wait(writer, wait)
    # A plan made at once would be empty: only what `later` says is to be looked at again.
    state.dirty.clear()
    for team in sorted(plan.outcomes):
        state.outcomes.put(team, plan.outcomes[team])
        state.teams[team].restated.clear()
        wake = plan.wakes[team]
        state.wake(team, wake.at_ms, wake.at_step)
    state.outcomes.open_macc.update(plan.open_macc)
    state.later.update(plan.again)


def _vacate(state: PlacementState, writer: Writer, vacate: Vacate) -> None:
    job = vacate.job
    lease = job.held_lease()
    if vacate.reason in EVICTIONS:
        evict(writer, job)
    lease.withdrawn = False
    move(state, writer, job, JobEvent.VACATED)
    job.changed_ms = writer.moment.now_ms
    writer.changed[job.key] = writer.told[job.key] = None
    state.tally.of(lease.market).vacated_jobs += 1
    writer.outputs.append(
        emit(
            VacateRequested(
                lease=lease.lease,
                job=job.job,
                team=job.team,
                reason=vacate.reason,
                requested_ms=writer.moment.now_ms,
            )
        )
    )


def _stay(state: PlacementState, writer: Writer, decided: Stay) -> None:
    """Take back that a lease must leave; where its drain has begun, its agents have to agree."""
    job = decided.job
    lease = job.held_lease()
    state.tally.of(lease.market).kept_jobs += 1
    writer.changed[job.key] = None
    writer.outputs.append(
        emit(
            VacateWithdrawn(
                lease=lease.lease,
                job=job.job,
                team=job.team,
                withdrawn_ms=writer.moment.now_ms,
            )
        )
    )
    if lease.drain_said:
        lease.withdrawn = True
    else:
        stay(state, writer, job)
        # What runs for nothing may be promoted now.
        state.later[job.team] = None


def _reclass(state: PlacementState, writer: Writer, reclass: Reclass) -> None:
    job = reclass.job
    lease = job.held_lease()
    state.unindex(job)
    lease.work_class = reclass.work_class
    state.index(job)
    job.changed_ms = writer.moment.now_ms
    writer.told[job.key] = None
    writer.rewrite(job, lease)


def _reserve(state: PlacementState, writer: Writer, reserve: Reserve) -> None:
    key = reserve.job.key
    release(state, writer, key)
    state.devices.reserve(key, reserve.shares)
    state.reservations[key] = Reservation(reserve.market, reserve.shares, reserve.standing)
    writer.reserved[key] = None


def _grant(state: PlacementState, writer: Writer, grant: Grant) -> None:
    job = grant.job
    entry = job.entry()
    now_ms, step = writer.moment.now_ms, writer.moment.step
    job.waited_ms += max(0, now_ms - job.pending_since_ms)
    job.attempt += 1
    lease = Lease(
        lease_id(job.team, job.job, entry.position, job.attempt),
        grant.market,
        grant.work_class,
        entry.pool,
        occupied_macc(grant.shares),
        entry.limit_micro,
        now_ms,
        job.remaining_run_ms,
        grant.shares,
        {share.node: "" for share in grant.shares},
        may_start=len(grant.shares) == 1,
    )
    if lease.size_macc < entry.size_macc:
        raise InvariantBrokenError(f"the parts of {lease.lease} are not the whole job")
    state.devices.hold(lease.lease, lease.market, grant.shares)
    state.by_lease[lease.lease] = job
    state.unindex(job)
    job.lease = lease
    following = next_state(job.state, JobEvent.GRANTED)
    assert following is not None
    job.state = following
    state.index(job)
    job.changed_ms = now_ms
    clear_reason(job)
    # What it holds is what it needs to go on: the auction counts it so.
    job.needed_macc = lease.size_macc
    writer.changed[job.key] = writer.told[job.key] = None
    writer.outputs.extend(emit(part) for part in lease.grants(entry, job.attempt))
    counted = state.tally.of(lease.market)
    counted.started_jobs += 1
    counted.started_wait_ms += max(0, now_ms - job.pending_since_ms)
    frozen_steps = writer.rules.steps(writer.rules.frozen_cycles)
    for other in state.takeovers.take(job.key, grant.shares, step, frozen_steps):
        _freeze(state, writer, lease, other, by=job.key)


def _freeze(state: PlacementState, writer: Writer, lease: Lease, other: str, *, by: str) -> None:
    """Hold one of two jobs that take each other's devices, as long as the other has not ended."""
    state.tally.of(lease.market).detect(other, by)
    frozen = state.jobs.get(other)
    if frozen is not None:
        steps = writer.rules.steps(writer.rules.frozen_cycles)
        frozen.frozen_until_step, frozen.frozen_by = writer.moment.step + steps, by
        state.frozen.setdefault(by, {})[other] = None
        state.later[frozen.team] = None
        writer.changed[other] = None


def _wait(writer: Writer, wait: Wait) -> None:
    job = wait.job
    job.reason = wait.reason.value
    job.needed_macc = wait.needed_macc
    job.available_macc = wait.available_macc
    job.waits_since_cycle = writer.rules.cycle_of(writer.moment.step)
    job.changed_ms = max(job.changed_ms, writer.moment.now_ms)
    writer.changed[job.key] = writer.told[job.key] = None
