"""A team's jobs by what they do, with the sums and orders that a step asks for."""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from walras_contracts.quantities import LIMIT_MICRO_MAX
from walras_contracts.work import JobState, WorkClass
from walras_placement.jobs import Job

NO_LIMIT = LIMIT_MICRO_MAX + 1
NO_DEADLINE_MS = 2**63

Rank = tuple[int, int, str]
"""Deadline where the queue goes by it, position, id."""


def limit_or_above(job: Job) -> int:
    """Return a job's limit in µcr per accelerator-hour; without one, more than any."""
    limit = job.queued.limit_micro if job.queued is not None else None
    return NO_LIMIT if limit is None else limit


@dataclass(slots=True)
class RunBook:
    """A team's running jobs in one market, by class; the limits of the paying ones in order."""

    paid: dict[str, Job] = field(default_factory=dict)
    free: dict[str, Job] = field(default_factory=dict)
    paid_macc: int = 0
    free_macc: int = 0
    limits: list[tuple[int, str]] = field(default_factory=list)

    def add(self, job: Job) -> None:
        """Take a running job."""
        lease = job.held_lease()
        if lease.work_class is WorkClass.MARKET:
            self.paid[job.key] = job
            self.paid_macc += lease.size_macc
            insort(self.limits, (limit_or_above(job), job.key))
        else:
            self.free[job.key] = job
            self.free_macc += lease.size_macc

    def remove(self, job: Job) -> None:
        """Let a running job go; it is as it was when it was added."""
        lease = job.held_lease()
        if lease.work_class is WorkClass.MARKET:
            del self.paid[job.key]
            self.paid_macc -= lease.size_macc
            del self.limits[bisect_left(self.limits, (limit_or_above(job), job.key))]
        else:
            del self.free[job.key]
            self.free_macc -= lease.size_macc

    def below(self, price_micro: int) -> list[Job]:
        """Return the paying jobs whose limits do not cover a price; 0 covers none."""
        found = []
        for limit, key in self.limits:
            if limit >= price_micro and limit > 0:
                break
            found.append(self.paid[key])
        return found


@dataclass(slots=True)
class TeamJobs:
    """A team's jobs: pending in the order in which they are to start, running, leaving."""

    by_deadline: bool = False
    pending: list[tuple[Rank, Job]] = field(default_factory=list)
    books: dict[str, RunBook] = field(default_factory=dict)
    draining: dict[str, Job] = field(default_factory=dict)
    marked: dict[str, Job] = field(default_factory=dict)
    """Running jobs that something may ask to leave, whatever the quota."""
    largest: dict[str, int] = field(default_factory=dict)
    """By type, no pending job that accepts it is larger (macc)."""
    restated: dict[str, None] = field(default_factory=dict)
    """Jobs whose queue records changed since the team was planned last."""

    def add(self, job: Job) -> None:
        """Put a job where its state belongs."""
        if job.state is JobState.PENDING:
            entry = job.queued
            if entry is not None:
                insort(self.pending, (self.rank(job), job), key=_rank)
                for kind in entry.types:
                    if entry.size_macc > self.largest.get(kind, 0):
                        self.largest[kind] = entry.size_macc
        elif job.state is JobState.RUNNING:
            self.books.setdefault(job.held_lease().market, RunBook()).add(job)
            if may_have_to_leave(job):
                self.marked[job.key] = job
        elif job.state is JobState.DRAINING:
            self.draining[job.key] = job

    def remove(self, job: Job) -> None:
        """Take a job out of the place of its state."""
        if job.state is JobState.PENDING:
            if job.queued is not None:
                rank = self.rank(job)
                at = bisect_left(self.pending, rank, key=_rank)
                if at < len(self.pending) and self.pending[at][1] is job:
                    del self.pending[at]
                if not self.pending:
                    self.largest.clear()
        elif job.state is JobState.RUNNING:
            market = job.held_lease().market
            self.books[market].remove(job)
            if not (self.books[market].paid or self.books[market].free):
                del self.books[market]
            self.marked.pop(job.key, None)
        elif job.state is JobState.DRAINING:
            self.draining.pop(job.key, None)

    def rank(self, job: Job) -> Rank:
        """Return the place of a pending job."""
        entry = job.entry()
        if not self.by_deadline:
            return (0, entry.position, job.job)
        deadline_ms = NO_DEADLINE_MS if entry.deadline_ms is None else entry.deadline_ms
        return (deadline_ms, entry.position, job.job)

    def go_by_deadline(self, by_deadline: bool) -> None:
        """Put the pending jobs into another order."""
        self.by_deadline = by_deadline
        self.pending = sorted(((self.rank(job), job) for _, job in self.pending), key=_rank)


def may_have_to_leave(job: Job) -> bool:
    """Whether a running job has to leave, or may have to, for another reason than quota."""
    lease = job.held_lease()
    return job.queued is None or job.queued.cancelled or lease.broken or lease.requested is not None


def _rank(place: tuple[Rank, Job]) -> Rank:
    return place[0]
