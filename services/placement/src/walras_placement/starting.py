"""Which pending jobs start, and which have devices kept for them (design §5)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from walras_contracts.demand import JobQueued
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import WorkClass
from walras_placement.decisions import Grant, Plan, Reserve, Wake
from walras_placement.devices import DevicePool
from walras_placement.draft import Draft
from walras_placement.jobs import Job
from walras_placement.keeping import covers
from walras_placement.outcomes import Short
from walras_placement.policies import Policies
from walras_placement.reservations import Reservation
from walras_placement.reserving import Reserver, together
from walras_placement.rooms import Room, Rooms
from walras_placement.rules import Moment, Rules
from walras_placement.setting_aside import fitting_macc, head_macc
from walras_placement.shares import Share, occupied_macc
from walras_placement.teams import Rank, TeamJobs
from walras_placement.turns import held_up, is_in_turn, turn_ends_step


@dataclass(slots=True)
class Pending:
    """What became of a team's pending jobs while a plan is made."""

    rooms: Rooms
    wake: Wake
    unplaced: list[Job] = field(default_factory=list)
    """In the order of the queue."""
    barred: dict[str, WaitReason] = field(default_factory=dict)
    """Jobs that must not start now, whatever there is."""
    lacking: dict[str, list[Short]] = field(default_factory=dict)
    """By job, where its team's quota sufficed when its turn came and devices did not."""
    waits_for: dict[str, None] = field(default_factory=dict)
    """Types of which other open devices might have let a job start."""
    kept: dict[str, str] = field(default_factory=dict)
    """Jobs that keep their reservations, or have new ones, with the market."""
    heads: dict[str, str] = field(default_factory=dict)
    """By market, the job for which quota is kept."""
    in_turn: dict[str, str] = field(default_factory=dict)
    """By market, the job behind which nothing starts (rounding ``release``)."""

    def short(self, pool: DevicePool) -> dict[str, Short]:
        """Return the jobs that lack devices, and no quota even now that the plan is made."""
        found: dict[str, Short] = {}
        for key, lacking in self.lacking.items():
            for each in lacking:
                room = self.rooms[each.market]
                macc = room.bought_macc if each.bought else room.opportunistic_macc
                needed_macc = pool.whole_macc(each.market, each.job.entry().size_macc)
                if needed_macc <= macc or self.kept.get(key) == each.market:
                    found[key] = each
                    break
        return found


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A job for which devices could be kept for as long as it takes; the first one goes first."""

    since_step: int
    team: str
    rank: Rank
    job: Job
    needed_macc: int
    pending: Pending


class Starter:
    """Starts pending jobs, team by team.

    Parameters
    ----------
    draft, reserver
        What is open, and what will be.
    reservations
        Those in force.
    policies
        Rounding, by market.
    """

    def __init__(
        self,
        draft: Draft,
        reserver: Reserver,
        result: Plan,
        *,
        reservations: Mapping[str, Reservation],
        policies: Policies,
        moment: Moment,
        rules: Rules,
    ) -> None:
        self._draft = draft
        self._reserver = reserver
        self._reservations = reservations
        self._policies = policies
        self._moment = moment
        self._rules = rules
        self._result = result
        self._had_standing = {r.market: None for r in reservations.values() if r.standing}
        self._candidates: dict[str, list[_Candidate]] = {}
        self._grown: dict[str, Reserve] = {}

    def grow(self, jobs: Iterable[Job]) -> None:
        """Keep what became free for the jobs that wait for as long as it takes; before all else."""
        for job in jobs:
            own = self._own(job)
            if own is None or not own.standing:
                continue
            needed_macc = self._draft.pool.whole_macc(own.market, job.entry().size_macc)
            more = self._reserver.standing(own.market, needed_macc, own.shares)
            if more:
                self._reserver.take(own.market, more)
                shares = together(own.shares, more)
                self._grown[job.key] = Reserve(job, own.market, shares, standing=True)

    def bought(self, team: TeamJobs, found: Pending) -> None:
        """Start what bought quota and open devices allow; keep devices for what has the quota."""
        rooms = found.rooms
        largest_macc = max((room.bought_macc for room in rooms.values()), default=0)
        reserving = self._reserving(rooms)
        step, now_ms = self._moment.step, self._moment.now_ms
        for rank, job in team.pending:
            if job.parked_until_ms > now_ms:
                found.barred[job.key] = WaitReason.PARKED
                found.wake.by_ms(job.parked_until_ms)
            elif job.is_held_back(step):
                found.barred[job.key] = WaitReason.HELD_BACK
                found.wake.by_step(max(job.held_until_step, job.frozen_until_step))
            else:
                entry = job.queued
                assert entry is not None
                if entry.size_macc <= largest_macc:
                    grant = self._first_fit(job, rank, entry, found)
                    if grant is not None:
                        self._result.granted.append(grant)
                    if grant is not None or job.key in found.kept:
                        largest_macc = max(room.bought_macc for room in rooms.values())
                    if grant is not None:
                        continue
                if reserving:
                    self._keep_room(job, entry, reserving, found)
                    largest_macc = max(room.bought_macc for room in rooms.values())
                if is_in_turn(job, self._moment, self._rules):
                    found.wake.by_step(turn_ends_step(job, self._rules))
                    for kind in held_up(job, rooms, self._draft.pool, self._policies):
                        found.in_turn.setdefault(kind, job.key)
            found.unplaced.append(job)

    def opportunistic(self, name: str, found: Pending) -> None:
        """Start what is left on what nobody bought."""
        rooms = found.rooms
        largest_macc = max((room.opportunistic_macc for room in rooms.values()), default=0)
        if not largest_macc:
            return
        unplaced: list[Job] = []
        for job in found.unplaced:
            entry = job.entry()
            grant: Grant | None = None
            is_out = job.key in found.barred or job.key in found.kept
            if entry.size_macc <= largest_macc and not is_out:
                grant = self._first_free(job, entry, found)
            if grant is None:
                unplaced.append(job)
            else:
                self._result.granted.append(grant)
                found.lacking.pop(job.key, None)
                largest_macc = max(room.opportunistic_macc for room in rooms.values())
                if job.key in found.heads.values():
                    # The quota that was kept for it is of use to others now.
                    self._result.again[name] = None
        found.unplaced = unplaced

    def standing(self) -> None:
        """Keep devices for the job of each market that has waited longest, if there is none yet."""
        # One that nobody bought devices for here may have started for nothing elsewhere.
        started = {grant.job.key: None for grant in self._result.granted}
        for market in sorted(self._candidates):
            waiting = [each for each in self._candidates[market] if each.job.key not in started]
            if market in self._had_standing or not waiting:
                continue
            first = min(waiting, key=_first)
            found = first.pending
            # To begin with, perhaps nothing.
            shares = self._reserver.standing(market, first.needed_macc, ())
            self._reserve(first.job, market, shares, found, standing=True)
            if found.heads.get(market) != first.job.key:
                room = found.rooms[market]
                room.bought_macc = max(0, room.bought_macc - first.needed_macc)
            self._result.again[first.team] = None

    def _first_fit(self, job: Job, rank: Rank, entry: JobQueued, found: Pending) -> Grant | None:
        lacking: list[str] = []
        for kind in entry.types:
            room = found.rooms.get(kind)
            if room is None or entry.size_macc > room.bought_macc or kind in found.in_turn:
                continue
            if not covers(entry, room.price_micro):
                continue
            shares = self._take(job, kind, room.bought_macc, found, lacking)
            if shares is not None:
                room.spend(occupied_macc(shares))
                return Grant(job, kind, WorkClass.MARKET, shares)
        if lacking:
            found.lacking[job.key] = [Short(job, kind, bought=True) for kind in lacking]
            self._wait_for_devices(job, rank, entry, lacking, found)
        return None

    def _first_free(self, job: Job, entry: JobQueued, found: Pending) -> Grant | None:
        lacking: list[str] = []
        for kind in entry.types:
            room = found.rooms.get(kind)
            if room is None or entry.size_macc > room.opportunistic_macc:
                continue
            if found.in_turn.get(kind, job.key) != job.key:
                continue
            shares = self._take(job, kind, room.opportunistic_macc, found, lacking)
            if shares is not None:
                room.opportunistic_macc -= occupied_macc(shares)
                return Grant(job, kind, WorkClass.OPPORTUNISTIC, shares)
        if lacking:
            shorts = [Short(job, kind, bought=False) for kind in lacking]
            found.lacking.setdefault(job.key, []).extend(shorts)
        return None

    def _take(
        self, job: Job, kind: str, room_macc: int, found: Pending, lacking: list[str]
    ) -> tuple[Share, ...] | None:
        """Take devices for a job if the room covers all that they hold; note a lack of devices."""
        entry = job.entry()
        own = self._own(job)
        opened = None
        if own is not None and own.market == kind:
            opened = self._draft.unlock(kind, own.shares)
        shares = self._draft.take(kind, entry.size_macc, gang=entry.gang)
        if shares is not None and occupied_macc(shares) > room_macc:
            self._draft.put_back(kind, shares)
            shares = None
        if shares is None and entry.size_macc <= fitting_macc(self._draft.pool, kind, entry):
            found.waits_for[kind] = None
            # Where quota covers some devices of the type and not others, it is quota that lacks.
            if self._draft.pool.whole_macc(kind, entry.size_macc) <= room_macc:
                lacking.append(kind)
        if opened is not None:
            self._draft.lock(kind, opened)
        return shares

    def _own(self, job: Job) -> Reservation | None:
        """Return the reservation of a job as it is by now, unless it ends in this step."""
        if job.key in self._result.released:
            return None
        grown = self._grown.get(job.key)
        if grown is not None:
            return Reservation(grown.market, grown.shares, standing=True)
        return self._reservations.get(job.key)

    def _wait_for_devices(
        self, job: Job, rank: Rank, entry: JobQueued, lacking: list[str], found: Pending
    ) -> None:
        """Keep a reservation, or make one of what is open and what leaves."""
        own = self._own(job)
        if own is not None and own.market in lacking:
            self._keep(job, entry, own, found)
            return
        for kind in lacking:
            room = found.rooms[kind]
            shares = self._reserver.whole(kind, entry.size_macc, gang=entry.gang)
            if shares is None and self._result.stays:
                shares = self._reserver.whole(
                    kind, entry.size_macc, gang=entry.gang, with_returning=True
                )
            if shares is not None and occupied_macc(shares) <= room.bought_macc:
                for lease in self._reserver.needed_of(shares):
                    stay = self._result.stays.pop(lease, None)
                    if stay is not None:
                        self._reserver.leaves_after_all(stay.job.held_lease())
                        self._result.again[stay.job.team] = None
                self._reserve(job, kind, shares, found, standing=False)
                room.bought_macc -= occupied_macc(shares)
                return
        for kind in lacking:
            if self._policies.keeps_devices(kind) and self._waits_long(job, found):
                needed_macc = self._draft.pool.whole_macc(kind, entry.size_macc)
                candidate = _Candidate(
                    job.pending_since_step, job.team, rank, job, needed_macc, found
                )
                self._candidates.setdefault(kind, []).append(candidate)
                return

    def _keep(self, job: Job, entry: JobQueued, own: Reservation, found: Pending) -> None:
        """Let a job go on waiting for what it has reserved; its quota is set aside, too."""
        found.kept[job.key] = own.market
        if job.key in self._grown:
            self._result.reserved.append(self._grown[job.key])
        room = found.rooms[own.market]
        needed_macc = self._draft.pool.whole_macc(own.market, entry.size_macc)
        room.bought_macc = max(0, room.bought_macc - max(needed_macc, occupied_macc(own.shares)))

    def _reserve(
        self, job: Job, kind: str, shares: tuple[Share, ...], found: Pending, *, standing: bool
    ) -> None:
        self._reserver.take(kind, shares)
        self._result.reserved.append(Reserve(job, kind, shares, standing))
        found.kept[job.key] = kind

    def _reserving(self, rooms: Rooms) -> dict[str, Room]:
        """Return the rooms whose quota is kept for jobs that wait long."""
        if not self._policies.roundings:
            return {}
        return {m: room for m, room in rooms.items() if self._policies.keeps_devices(m)}

    def _keep_room(
        self, job: Job, entry: JobQueued, reserving: dict[str, Room], found: Pending
    ) -> None:
        """Keep quota for the first job of the queue that waits long and could use all it needs."""
        for kind in entry.types:
            room = reserving.get(kind)
            if room is None or not self._waits_long(job, found):
                continue
            needed_macc = head_macc(self._draft.pool, entry, kind, room)
            if needed_macc:
                del reserving[kind]
                found.heads[kind] = job.key
                if job.key not in found.kept:
                    room.bought_macc = max(0, room.bought_macc - needed_macc)
                return

    def _waits_long(self, job: Job, found: Pending) -> bool:
        due_step = job.pending_since_step + self._rules.steps(self._rules.reserve_after_cycles)
        if self._moment.step < due_step:
            found.wake.by_step(due_step)
            return False
        return True


def _first(candidate: _Candidate) -> tuple[int, str, Rank]:
    return candidate.since_step, candidate.team, candidate.rank
