"""Reads jobs as they stand from the log."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from walras.jobs.job_views import JobView, TypePrice
from walras.jobs.price_board import RECORDS_MAX, PriceBoard, read_prices
from walras.jobs.queue_places import queue_orders, queue_places
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.folding import latest, latest_of
from walras.jobs_log.items import Item, Log
from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import SupplyPublished
from walras_contracts.demand import JobQueued
from walras_contracts.drains import DrainSessionChanged
from walras_contracts.identifiers import job_key
from walras_contracts.work import JobStatusChanged, LeaseGranted, LeaseStatusChanged
from walras_runtime.records import Barrier

TOPICS: Final = (
    *("queue", "job.status", "leases", "drain.sessions", "accounts", "supply", "prices"),
    "lease.status",
)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs by team and queue, as of a barrier of ``job.status``; None: there is none yet."""

    jobs: list[JobView]
    barrier: Barrier | None

    @property
    def now_ms(self) -> int | None:
        """Market time of it."""
        return None if self.barrier is None else self.barrier.market_time_ms


def read_jobs(
    log: Log, team: str | None = None, job: str | None = None, *, ended: bool = False
) -> Jobs:
    """Read the jobs of a team, or of all, or one of them.

    Parameters
    ----------
    log
        Where from.
    team
        Only of this team; None: of all.
    job
        Only this job of the team.
    ended
        Whether jobs that have ended are listed; one that is asked for is in any case.

    Raises
    ------
    JobsLogError
        There is no such job, or the log cannot be read.
    """
    queue = latest(log, JobQueued, team)
    statuses = [*log.read(JobStatusChanged.TOPIC, JobStatusChanged, partition_key=team)]
    known = latest_of(statuses, JobStatusChanged)
    barrier = shown_barrier(statuses)
    views = [
        JobView(*named(key), queue.get(key), known.get(key))
        for key in sorted({**queue, **known})
        if team is None or key.startswith(f"{team}/")
    ]
    _put_places(log, views, team, 0 if barrier is None else barrier.market_time_ms)
    shown = [view for view in views if ended or job is not None or not view.has_ended]
    if job is not None:
        assert team is not None
        shown = [view for view in shown if view.job == job]
        if not shown:
            raise JobsLogError(
                Fault.UNKNOWN_JOB,
                f"team {team} has no job {job}",
                f"`walras jobs {team} --ended` lists its jobs",
            )
    _put_work(log, shown, is_one=job is not None)
    _put_prices(log, shown, None if job is not None else RECORDS_MAX)
    return Jobs(sorted(shown, key=_in_order), barrier)


def shown_barrier(items: Iterable[Item]) -> Barrier | None:
    """Return the last barrier that all partitions show that show any; None before the first."""
    last: dict[int, Barrier] = {}
    for item in items:
        if item.barrier is not None:
            last[item.partition] = item.barrier
    return min(last.values(), key=lambda each: each.number, default=None)


def named(key: str) -> tuple[str, str]:
    """Return team and job of a record key."""
    team, _, job = key.partition("/")
    return team, job


def _put_places(log: Log, views: list[JobView], team: str | None, now_ms: int) -> None:
    pending = [view.queued for view in views if view.is_pending and view.queued is not None]
    pools = {job.pool for job in pending}
    if not pools:
        return
    entity = f"pool/{min(pools)}" if team is not None and len(pools) == 1 else None
    changes = (
        item.event
        for item in log.read(AccountsChanged.TOPIC, AccountsChanged, partition_key=entity)
        if isinstance(item.event, AccountsChanged)
    )
    places = queue_places(pending, queue_orders(changes, now_ms))
    for view in views:
        view.place = places.get(job_key(view.team, view.job))


def _put_work(log: Log, views: list[JobView], *, is_one: bool) -> None:
    """Give jobs their leases and drain sessions."""
    leases: dict[str, list[LeaseGranted]] = {}
    for part in latest(log, LeaseGranted).values():
        leases.setdefault(part.lease, []).append(part)
    sessions = _last_sessions(log.read(DrainSessionChanged.TOPIC, DrainSessionChanged))
    wanted = {view.status.lease for view in views if view.status is not None}
    said: dict[str, LeaseStatusChanged] = {}
    if is_one and wanted - {None}:
        said = latest(log, LeaseStatusChanged)
    for view in views:
        name = None if view.status is None else view.status.lease
        if name is not None:
            view.parts = tuple(sorted(leases.get(name, ()), key=lambda part: part.part))
            view.parts_said = {each.node: each for each in said.values() if each.lease == name}
        session = sessions.get(job_key(view.team, view.job))
        if session is not None and (is_one or session.lease == name):
            view.session = session


def _last_sessions(items: Iterable[Item]) -> dict[str, DrainSessionChanged]:
    """Return the session of each job that was opened last."""
    found: dict[str, DrainSessionChanged] = {}
    for session in latest_of(items, DrainSessionChanged).values():
        key = job_key(session.team, session.job)
        known = found.get(key)
        if known is None or (known.opened_ms, known.session) < (
            session.opened_ms,
            session.session,
        ):
            found[key] = session
    return found


def _put_prices(log: Log, views: list[JobView], most: int | None) -> None:
    """Give jobs the prices of their types, and the cycle in which it was said why they wait."""
    with_entry = [view for view in views if view.queued is not None]
    # Records of before the cycle was in them.
    said_ms = [
        view.status.changed_ms
        for view in views
        if view.is_pending and view.status is not None and view.status.cycle is None
    ]
    types = {kind for view in with_entry for kind in _types(view)}
    if not types:
        return
    markets = types & latest(log, SupplyPublished).keys()
    board = read_prices(log, markets, min(said_ms, default=None), most)
    for view in with_entry:
        view.prices = _prices(view, board)
        if view.is_pending and view.status is not None:
            said = view.status.cycle
            view.cycle = board.cycle_at(view.status.changed_ms) if said is None else said


def _types(view: JobView) -> list[str]:
    """Return the acceptable types of a job, and the one that it runs on."""
    types = [] if view.queued is None else list(view.queued.types)
    market = None if view.status is None else view.status.market
    return types if market is None or market in types else [*types, market]


def _prices(view: JobView, board: PriceBoard) -> tuple[TypePrice, ...]:
    assert view.queued is not None
    pool = view.queued.pool
    return tuple(
        TypePrice(kind, board.price_micro(kind, pool), board.cycle_of(kind), view.limit_micro)
        for kind in _types(view)
    )


def _in_order(view: JobView) -> tuple[str, int, int, str]:
    """Order by team: what runs, then the queue as it goes, then what has ended."""
    if view.has_ended or view.queued is None:
        return view.team, 2, 0, view.job
    if view.place is None:
        return view.team, 0, view.queued.position, view.job
    return view.team, 1, view.place.place, view.job
