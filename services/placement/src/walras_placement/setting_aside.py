"""Quota that is set aside for pending jobs, and how large a job can be at all."""

from collections.abc import Mapping

from walras_contracts.demand import JobQueued
from walras_placement.devices import DevicePool
from walras_placement.keeping import covers
from walras_placement.policies import Policies
from walras_placement.reservations import Reservation
from walras_placement.rooms import Room, Rooms
from walras_placement.rules import Moment, Rules
from walras_placement.shares import occupied_macc
from walras_placement.teams import TeamJobs


def fitting_macc(pool: DevicePool, kind: str, entry: JobQueued) -> int:
    """Return the largest job of its kind that could ever be placed: a gang stays in one domain."""
    usable_macc, largest_domain_macc, _ = pool.shape(kind)
    return largest_domain_macc if entry.gang else usable_macc


def head_macc(pool: DevicePool, entry: JobQueued, kind: str, room: Room) -> int:
    """Return the quota to keep for the first job of a queue in a market; 0: it cannot use it."""
    if entry.size_macc > fitting_macc(pool, kind, entry) or not covers(entry, room.price_micro):
        return 0
    needed_macc = pool.whole_macc(kind, entry.size_macc)
    return needed_macc if needed_macc <= room.allocated_macc else 0


def set_aside(
    team: TeamJobs,
    rooms: Rooms,
    pool: DevicePool,
    *,
    reservations: Mapping[str, Reservation],
    policies: Policies,
    moment: Moment,
    rules: Rules,
) -> None:
    """Set quota aside for pending jobs that must not lose it to what runs for nothing or leaves.

    Those are jobs with reservations and, in markets with rounding ``reserve``, the first job of the
    queue that waits long and could use it.
    """
    wanted = {
        m for m, room in rooms.items() if room.bought_macc and (m in team.books or team.draining)
    }
    reserving = {m: None for m in rooms if policies.keeps_devices(m) and m in wanted}
    if not wanted or not (reserving or reservations):
        return
    due_step = moment.step - rules.steps(rules.reserve_after_cycles)
    for _, job in team.pending:
        own = reservations.get(job.key)
        if own is not None and own.market in wanted:
            room = rooms[own.market]
            needed_macc = pool.whole_macc(own.market, job.entry().size_macc)
            room.aside_macc += max(needed_macc, occupied_macc(own.shares))
        if not reserving or job.parked_until_ms > moment.now_ms or job.is_held_back(moment.step):
            continue
        if job.pending_since_step > due_step:
            continue
        for kind in job.entry().types:
            if kind in reserving:
                needed_macc = head_macc(pool, job.entry(), kind, rooms[kind])
                if needed_macc:
                    del reserving[kind]
                    if own is None or own.market != kind:
                        rooms[kind].aside_macc += needed_macc
                    break
