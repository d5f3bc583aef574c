"""Places in the queues of teams: how many jobs go before, and how much they ask for."""

from collections.abc import Iterable
from dataclasses import dataclass

from walras_contracts.accounts import AccountsChanged, PoolDocument, QueueOrder
from walras_contracts.demand import JobQueued


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place, from 1, among the pending jobs of a team; ``before_macc``: what goes before."""

    place: int
    waiting: int
    before_macc: int
    order: QueueOrder


def queue_orders(changes: Iterable[AccountsChanged], market_time_ms: int) -> dict[str, QueueOrder]:
    """Return the teams' queue orders in force at a market time: of the newest version in effect."""
    newest: dict[str, AccountsChanged] = {}
    for change in changes:
        entity = change.document.entity()
        known = newest.get(entity)
        if change.effective_ms <= market_time_ms and (
            known is None or known.version < change.version
        ):
            newest[entity] = change
    found: dict[str, QueueOrder] = {}
    for change in newest.values():
        if isinstance(change.document, PoolDocument):
            found |= {account.team: account.queue_order for account in change.document.teams}
    return found


def queue_places(
    pending: Iterable[JobQueued], orders: dict[str, QueueOrder]
) -> dict[str, QueuePlace]:
    """Return the place of each pending job by its key."""
    of_team: dict[str, list[JobQueued]] = {}
    for job in pending:
        of_team.setdefault(job.team, []).append(job)
    found: dict[str, QueuePlace] = {}
    for team, jobs in of_team.items():
        order = orders.get(team, QueueOrder.POSITION)
        jobs.sort(key=_by_deadline if order is QueueOrder.DEADLINE else _by_position)
        before_macc = 0
        for place, job in enumerate(jobs, start=1):
            found[job.record_key()] = QueuePlace(place, len(jobs), before_macc, order)
            before_macc += job.size_macc
    return found


def _by_position(job: JobQueued) -> tuple[int, str]:
    return job.position, job.job


def _by_deadline(job: JobQueued) -> tuple[bool, int, int, str]:
    return job.deadline_ms is None, job.deadline_ms or 0, job.position, job.job
