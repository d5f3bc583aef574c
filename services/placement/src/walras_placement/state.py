"""What placement knows: the tables of others, its own jobs and leases, and indices over them.

The indices say what a plan has to look at: `dirty` teams, for which something is not as it was when
they were last planned. A restart rebuilds all of them, and plans all teams.
"""

import heapq
from collections.abc import Iterable

from walras_contracts.demand import JobQueued
from walras_contracts.market import MarketQuota
from walras_contracts.work import JobState
from walras_placement.budgets import TOLD, ExhaustedTeams
from walras_placement.devices import DevicePool, Shape
from walras_placement.jobs import Job
from walras_placement.outcomes import Outcomes
from walras_placement.policies import Policies
from walras_placement.remnants import REMNANT, Remnant, Remnants
from walras_placement.reservations import RESERVED, Reservation
from walras_placement.takeovers import LEFT, PAIR, Takeovers
from walras_placement.tally import TALLY, Tally
from walras_placement.teams import TeamJobs

ENDED = frozenset({JobState.FINISHED, JobState.CANCELLED})


class PlacementState:
    """Tables of accounts, nodes, quotas, queue, scores; own jobs; indices."""

    def __init__(self) -> None:
        self.policies = Policies()
        self.exhausted = ExhaustedTeams()
        self.devices = DevicePool()
        self.quotas: dict[str, dict[str, MarketQuota]] = {}
        self.scores_ppm: dict[str, int] = {}
        self.queue: dict[str, JobQueued] = {}
        self.jobs: dict[str, Job] = {}
        self.teams: dict[str, TeamJobs] = {}
        self.by_lease: dict[str, Job] = {}
        self.draining: dict[str, Job] = {}
        self.remnants = Remnants()
        self.reservations: dict[str, Reservation] = {}
        self.takeovers = Takeovers()
        self.tally = Tally()
        self.outcomes = Outcomes()
        self.frozen: dict[str, dict[str, None]] = {}
        """By job, those that wait until it has ended."""
        self.turns: dict[str, None] = {}
        """Jobs of which a turn began (rounding ``release``); it may be over."""
        self.touched: dict[str, None] = {}
        """Jobs whose queue record came since the last step (all of them after a restart)."""
        self.dirty: dict[str, None] = {}
        """Teams to be planned in this step."""
        self.later: dict[str, None] = {}
        """Teams to be planned in the next step, whatever this one's plan says."""
        self.all_dirty = True
        self._wakes_ms: list[tuple[int, str]] = []
        self._wakes_step: list[tuple[int, str]] = []
        self._deadlines: list[tuple[int, str]] = []
        self._shapes: dict[str, Shape] = {}
        self.reshapings = 0
        """How often what may be used of a type has changed."""

    def load(self, key: str, value: bytes) -> None:
        """Take back one own record; the tables have been folded already."""
        if key.startswith(TOLD):
            self.exhausted.load(key, value)
        elif key.startswith(REMNANT):
            remnant = Remnant.parse(value)
            self.remnants.add(remnant)
            self.devices.hold(remnant.lease, remnant.market, [remnant.share], is_remnant=True)
        elif key.startswith(RESERVED):
            reservation = Reservation.parse(value)
            self.reservations[key.removeprefix(RESERVED)] = reservation
        elif key.startswith((LEFT, PAIR)):
            self.takeovers.load(key, value)
        elif key == TALLY:
            self.tally = Tally.parse(value)
        else:
            self._load_job(key, value)

    def settle_restored(self) -> None:
        """Take up what depends on all records: reservations, after all that is held."""
        for key, reservation in self.reservations.items():
            self.devices.reserve(key, reservation.shares)

    def index(self, job: Job) -> None:
        """Put a job where its state belongs; its team is to be planned."""
        self.team(job.team).add(job)
        self.dirty[job.team] = None
        if job.state is JobState.DRAINING:
            self.draining[job.key] = job

    def unindex(self, job: Job) -> None:
        """Take a job out of the place of its state; its team is to be planned."""
        self.team(job.team).remove(job)
        self.dirty[job.team] = None
        if job.state is JobState.DRAINING:
            self.draining.pop(job.key, None)

    def team(self, name: str) -> TeamJobs:
        """Return the jobs of a team."""
        found = self.teams.get(name)
        if found is None:
            found = self.teams[name] = TeamJobs(name in self.policies.by_deadline)
        return found

    def follow_policies(self) -> None:
        """Take up the policies that are in force now; everything is to be planned."""
        self.all_dirty = True
        for name, team in self.teams.items():
            by_deadline = name in self.policies.by_deadline
            if team.by_deadline != by_deadline:
                team.go_by_deadline(by_deadline)

    def watch_deadline(self, job: Job) -> None:
        """Look at a job again at its deadline."""
        deadline_ms = job.entry().deadline_ms
        if deadline_ms is not None and not job.missed:
            heapq.heappush(self._deadlines, (deadline_ms, job.key))

    def take_missed(self, now_ms: int) -> list[Job]:
        """Return the jobs that have not ended by their deadline, which has come."""
        missed: dict[str, Job] = {}
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            deadline_ms, key = heapq.heappop(self._deadlines)
            job = self.jobs.get(key)
            if job is None or job.missed or job.state in ENDED or job.queued is None:
                continue
            if job.queued.deadline_ms == deadline_ms:
                missed[key] = job
        return [missed[key] for key in sorted(missed)]

    def wake(self, team: str, at_ms: int | None, at_step: int | None) -> None:
        """Plan a team again at a market time and a step."""
        if at_ms is not None:
            heapq.heappush(self._wakes_ms, (at_ms, team))
        if at_step is not None:
            heapq.heappush(self._wakes_step, (at_step, team))

    def take_scope(self, step: int, now_ms: int) -> list[str]:
        """Return the teams to be planned in this step, by name."""
        for wakes, now in ((self._wakes_ms, now_ms), (self._wakes_step, step)):
            while wakes and wakes[0][0] <= now:
                self.dirty[heapq.heappop(wakes)[1]] = None
        self.dirty.update(self.later)
        self._follow_devices()
        scope: Iterable[str] = self.teams if self.all_dirty else self.dirty
        names = sorted(name for name in scope if name in self.teams)
        self.dirty.clear()
        self.later.clear()
        self.all_dirty = False
        return names

    def note_leaving(self, market: str) -> None:
        """Plan those again that could wait for devices of a market which are to become free."""
        self.dirty.update(self.outcomes.short_of(market))

    def _follow_devices(self) -> None:
        """Mark the teams for which it matters what became of devices."""
        for kind in self.devices.take_opened():
            self.dirty.update(self.outcomes.short_of(kind))
        for job in self.devices.take_awaited():
            self.dirty[job.partition("/")[0]] = None
        for kind in self.devices.take_reshaped():
            before, now = self._shapes.get(kind), self.devices.shape(kind)
            if before == now:
                continue
            self._shapes[kind] = now
            self.reshapings += 1
            least = -1
            if before is not None and before[2] == now[2]:
                # Only jobs that are larger than one of the two are judged otherwise now.
                changed = [min(pair) for pair in zip(before[:2], now[:2], strict=True)]
                least = min(changed)
            for name, team in self.teams.items():
                if team.largest.get(kind, -1) > least:
                    self.dirty[name] = None

    def _load_job(self, key: str, value: bytes) -> None:
        job = Job.parse(key, value)
        job.queued = self.queue.get(key)
        self.jobs[key] = job
        if job.lease is not None:
            self.by_lease[job.lease.lease] = job
            self.devices.hold(job.lease.lease, job.lease.market, job.lease.open_shares())
        if job.frozen_by:
            self.frozen.setdefault(job.frozen_by, {})[key] = None
        if job.turn_since_step is not None:
            self.turns[key] = None
        if job.queued is not None and job.state not in ENDED:
            self.watch_deadline(job)
        self.index(job)
