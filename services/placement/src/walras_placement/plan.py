"""The decision of a step: who keeps devices, who changes class, who leaves, who starts (design §5).

``plan`` is a pure function of the state and the market time; it changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from walras_contracts.demand import JobQueued
from walras_contracts.drains import VacateReason
from walras_contracts.quantities import PPM
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import WorkClass
from walras_placement.devices import Draft, Share, occupied_macc
from walras_placement.rooms import Room, Rooms, close, is_free, rooms_of
from walras_placement.state import Job, PlacementState, TeamJobs
from walras_placement.victims import choose_victims


@dataclass(frozen=True, slots=True)
class Reclass:
    """A running job whose work is rated otherwise from now on."""

    job: Job
    work_class: WorkClass


@dataclass(frozen=True, slots=True)
class Vacate:
    """A running job that must leave."""

    job: Job
    reason: VacateReason


@dataclass(frozen=True, slots=True)
class Grant:
    """A pending job that starts, with all its parts."""

    job: Job
    market: str
    work_class: WorkClass
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A pending job that is short of something else than before; it needs whole devices."""

    job: Job
    reason: WaitReason
    needed_macc: int
    available_macc: int


@dataclass(slots=True)
class Plan:
    """All that a step decides, in team order, then queue order."""

    reclassed: list[Reclass] = field(default_factory=list)
    vacated: list[Vacate] = field(default_factory=list)
    granted: list[Grant] = field(default_factory=list)
    waiting: list[Wait] = field(default_factory=list)


def plan(state: PlacementState, market_time_ms: int, budget_grace_ms: int) -> Plan:
    """Decide who runs where.

    Running jobs go before pending ones, bought quota of all teams before opportunistic quota, the
    queue order of a team before everything else within it; what does not fit is passed over
    (rounding policy ``backfill``). Quota is spent on what a job occupies: whole devices. An
    exhausted team begins nothing on quota that costs anything; what runs there stays for the grace.

    Parameters
    ----------
    state
        Tables, jobs and devices; not changed.
    market_time_ms
        Market time of the step.
    budget_grace_ms
        How long that grace is, from when placement was told.
    """
    result = Plan()
    withdrawn = state.devices.withdrawn()
    teams = [(name, state.teams[name]) for name in sorted(state.teams)]
    rooms = {name: rooms_of(state.quotas.get(name, {})) for name, _ in teams}
    exhausted: dict[str, None] = {}
    for name, _ in teams:
        told_ms = state.exhausted.told_ms(name)
        if told_ms is not None:
            exhausted[name] = None
            close(rooms[name], is_over=market_time_ms - told_ms >= budget_grace_ms)
    gap_ppm = state.retention.in_force_ppm(market_time_ms)
    keep = _Keeper(result, withdrawn, market_time_ms, gap_ppm)
    for name, jobs in teams:
        if jobs.running:
            keep.team(jobs, rooms[name], exhausted=name in exhausted)
    for name in exhausted:
        close(rooms[name], is_over=True)
    draft = state.devices.draft()
    short: dict[str, str] = {}
    left: list[tuple[str, list[Job]]] = []
    for name, jobs in teams:
        if jobs.pending:
            left.append((name, _start_bought(jobs, rooms[name], draft, result, short)))
    for name, pending in left:
        unplaced = _start_opportunistic(pending, rooms[name], draft, result, short)
        _say_why(unplaced, rooms[name], draft, result, short, exhausted=name in exhausted)
    return result


class _Keeper:
    """Settles what running jobs keep."""

    def __init__(
        self, result: Plan, withdrawn: dict[str, None], market_time_ms: int, gap_ppm: int
    ) -> None:
        self._result = result
        self._withdrawn = withdrawn
        self._now_ms = market_time_ms
        self._gap_ppm = gap_ppm

    def team(self, jobs: TeamJobs, rooms: Rooms, *, exhausted: bool) -> None:
        """Settle the running jobs of one team; its rooms shrink by what they keep."""
        by_market: dict[str, list[Job]] = {}
        leaving: list[Vacate] = []
        for job in jobs.running.values():
            lease = job.held_lease()
            if job.queued is None:
                leaving.append(Vacate(job, VacateReason.LEFT_QUEUE))
            elif job.queued.cancelled:
                leaving.append(Vacate(job, VacateReason.CANCELLED))
            elif lease.lease in self._withdrawn:
                leaving.append(Vacate(job, VacateReason.DEVICE_WITHDRAWN))
            else:
                by_market.setdefault(lease.market, []).append(job)
        for market in sorted(by_market):
            room = rooms.setdefault(market, Room(0, 0, 0, of_exhausted=exhausted))
            self._market(by_market[market], room, leaving)
        leaving.sort(key=_by_key)
        self._result.vacated.extend(leaving)

    def _market(self, jobs: list[Job], room: Room, leaving: list[Vacate]) -> None:
        holders: list[Job] = []
        others: list[Job] = []
        held = 0
        for job in jobs:
            lease = job.held_lease()
            if lease.work_class is WorkClass.MARKET and self._pays(job, room.price_micro):
                holders.append(job)
                held += lease.size_macc
            else:
                others.append(job)
        if held > room.bought_macc:
            for victim in choose_victims(holders, held - room.bought_macc, self._now_ms):
                held -= victim.held_lease().size_macc
                others.append(victim)
        room.bought_macc -= held
        if others:
            self._others(sorted(others, key=_queue_order), room, leaving)

    def _others(self, jobs: list[Job], room: Room, leaving: list[Vacate]) -> None:
        """Settle what bought quota does not keep: promote, keep as opportunistic, or vacate."""
        staying: list[Job] = []
        total = 0
        for job in jobs:
            lease = job.held_lease()
            opportunistic = lease.work_class is WorkClass.OPPORTUNISTIC
            fits = not room.is_closed and lease.size_macc <= room.bought_macc
            if opportunistic and fits and self._pays(job, room.price_micro):
                room.bought_macc -= lease.size_macc
                self._result.reclassed.append(Reclass(job, WorkClass.MARKET))
            else:
                staying.append(job)
                total += lease.size_macc
        excess = total - room.opportunistic_macc
        victims = {job.key: None for job in choose_victims(staying, excess, self._now_ms)}
        for job in staying:
            lease = job.held_lease()
            if job.key in victims:
                leaving.append(Vacate(job, self._reason(job, room)))
                continue
            room.opportunistic_macc -= lease.size_macc
            if lease.work_class is WorkClass.MARKET:
                self._result.reclassed.append(Reclass(job, WorkClass.OPPORTUNISTIC))

    def _reason(self, job: Job, room: Room) -> VacateReason:
        """Return why a job that bought or opportunistic quota does not keep leaves."""
        if job.held_lease().work_class is not WorkClass.MARKET:
            return VacateReason.QUOTA_LOST
        if not self._pays(job, room.price_micro):
            return VacateReason.PRICE_ABOVE_LIMIT
        return VacateReason.BUDGET_EXHAUSTED if room.of_exhausted else VacateReason.QUOTA_LOST

    def _pays(self, job: Job, price_micro: int) -> bool:
        """Whether a running job's limit covers the price, raised within its minimum run time."""
        entry = job.entry()
        if _covers(entry, price_micro):
            return True
        if not entry.limit_micro:
            return False
        ran_ms = self._now_ms - job.held_lease().granted_ms
        raised = entry.limit_micro * (PPM + self._gap_ppm) // PPM
        return ran_ms < entry.minimum_run_ms and raised >= price_micro


def _covers(entry: JobQueued, price_micro: int) -> bool:
    """Whether a job may use bought quota: no limit, or one at or above the price; never with 0."""
    limit = entry.limit_micro
    return limit is None or (limit >= price_micro and limit > 0)


def _start_bought(
    jobs: TeamJobs, rooms: Rooms, draft: Draft, result: Plan, short: dict[str, str]
) -> list[Job]:
    """Start pending jobs on bought quota; return those that did not start, in queue order."""
    largest = max((room.bought_macc for room in rooms.values()), default=0)
    if not largest:
        return [job for _, job in jobs.pending]
    unplaced: list[Job] = []
    for _, job in jobs.pending:
        entry = job.entry()
        if entry.size_macc <= largest:
            grant = _first_fit(job, entry, rooms, draft, short)
            if grant is not None:
                rooms[grant.market].bought_macc -= occupied_macc(grant.shares)
                largest = max(room.bought_macc for room in rooms.values())
                result.granted.append(grant)
                continue
        unplaced.append(job)
    return unplaced


def _first_fit(
    job: Job, entry: JobQueued, rooms: Rooms, draft: Draft, short: dict[str, str]
) -> Grant | None:
    for kind in entry.types:
        room = rooms.get(kind)
        if room is None or entry.size_macc > room.bought_macc:
            continue
        if not _covers(entry, room.price_micro):
            continue
        shares = _take_within(job, kind, room.bought_macc, draft, short)
        if shares is not None:
            return Grant(job, kind, WorkClass.MARKET, shares)
    return None


def _take_within(
    job: Job, kind: str, room_macc: int, draft: Draft, short: dict[str, str]
) -> tuple[Share, ...] | None:
    """Take devices for a job if the room covers all that they hold; note a lack of devices."""
    size_macc = job.entry().size_macc
    shares = draft.take(kind, size_macc)
    if shares is None:
        if size_macc <= draft.present_macc.get(kind, 0):
            short.setdefault(job.key, kind)
    elif occupied_macc(shares) > room_macc:
        draft.put_back(shares)
        return None
    return shares


def _start_opportunistic(
    pending: list[Job], rooms: Rooms, draft: Draft, result: Plan, short: dict[str, str]
) -> list[Job]:
    """Start pending jobs on what nobody bought; return those that did not start."""
    largest = max((room.opportunistic_macc for room in rooms.values()), default=0)
    if not largest:
        return pending
    unplaced: list[Job] = []
    for job in pending:
        entry = job.entry()
        grant: Grant | None = None
        if entry.size_macc <= largest:
            for kind in entry.types:
                room = rooms.get(kind)
                if room is None or entry.size_macc > room.opportunistic_macc:
                    continue
                shares = _take_within(job, kind, room.opportunistic_macc, draft, short)
                if shares is not None:
                    grant = Grant(job, kind, WorkClass.OPPORTUNISTIC, shares)
                    room.opportunistic_macc -= occupied_macc(shares)
                    largest = max(room.opportunistic_macc for room in rooms.values())
                    break
        if grant is None:
            unplaced.append(job)
        else:
            result.granted.append(grant)
    return unplaced


def _say_why(
    unplaced: Iterable[Job],
    rooms: Rooms,
    draft: Draft,
    result: Plan,
    short: dict[str, str],
    *,
    exhausted: bool,
) -> None:
    """Name what each unplaced job is short of, where that changed."""
    for job in unplaced:
        entry = job.entry()
        kind = short.get(job.key) if short else None
        if kind is not None:
            reason = WaitReason.WAITING_FOR_DEVICES
        else:
            reason, kind = _shortage(entry, rooms, draft)
            if exhausted and reason is WaitReason.WAITING_FOR_QUOTA and not is_free(rooms, kind):
                reason = WaitReason.BUDGET_EXHAUSTED
        needed = draft.whole_macc(kind, entry.size_macc)
        if (reason, needed) != (job.reason, job.needed_macc):
            available = _available(reason, kind, rooms, draft)
            result.waiting.append(Wait(job, reason, needed, available))


def _shortage(entry: JobQueued, rooms: Rooms, draft: Draft) -> tuple[WaitReason, str]:
    """Return the reason that is closest to a start over the acceptable types, and its type."""
    found, at = WaitReason.NO_SUCH_TYPE, entry.types[0]
    for kind in entry.types:
        present = draft.present_macc.get(kind, 0)
        if not present:
            continue
        if entry.size_macc > present:
            if found == WaitReason.NO_SUCH_TYPE:
                found, at = WaitReason.EXCEEDS_SUPPLY, kind
            continue
        room = rooms.get(kind)
        limit = entry.limit_micro
        if room is None or limit is None or limit == 0 or limit >= room.price_micro:
            return WaitReason.WAITING_FOR_QUOTA, kind
        if found != WaitReason.PRICE_ABOVE_LIMIT:
            found, at = WaitReason.PRICE_ABOVE_LIMIT, kind
    return found, at


def _available(reason: WaitReason, kind: str, rooms: Rooms, draft: Draft) -> int:
    if reason == WaitReason.WAITING_FOR_DEVICES:
        return draft.free_macc.get(kind, 0)
    if reason == WaitReason.EXCEEDS_SUPPLY:
        return draft.present_macc.get(kind, 0)
    room = rooms.get(kind)
    if room is None or reason == WaitReason.NO_SUCH_TYPE:
        return 0
    return max(room.bought_macc, room.opportunistic_macc)


def _queue_order(job: Job) -> tuple[int, str]:
    return job.order


def _by_key(vacate: Vacate) -> str:
    return vacate.job.key
