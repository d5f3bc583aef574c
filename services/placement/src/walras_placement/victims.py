"""Who leaves when quota is lost (design §5): lowest limit, then fewest jobs, then youngest."""

from collections.abc import Sequence

from walras_contracts.quantities import LIMIT_MICRO_MAX
from walras_placement.state import Job

NO_LIMIT = LIMIT_MICRO_MAX + 1


def choose_victims(jobs: Sequence[Job], excess_macc: int) -> list[Job]:
    """Return whole jobs whose leaving frees at least ``excess_macc``, in queue order.

    Among jobs of one limit, one that covers the rest alone goes before several: the smallest such
    job; without one, the largest. Ties leave the longest runner in place. A job that turns out not
    to be needed stays, highest limit first.
    """
    waiting = sorted(jobs, key=_limit)
    chosen: list[Job] = []
    while excess_macc > 0 and waiting:
        lowest = _limit(waiting[0])
        group = [job for job in waiting if _limit(job) == lowest]
        covering = [job for job in group if _size(job) >= excess_macc]
        victim = min(covering, key=_tightest) if covering else min(group, key=_largest)
        waiting.remove(victim)
        chosen.append(victim)
        excess_macc -= _size(victim)
    slack = -excess_macc
    kept: list[Job] = []
    for victim in reversed(chosen):
        if _size(victim) <= slack:
            slack -= _size(victim)
            kept.append(victim)
    return sorted((v for v in chosen if not any(v is k for k in kept)), key=_queue_order)


def _limit(job: Job) -> int:
    limit = job.entry().limit_micro
    return NO_LIMIT if limit is None else limit


def _size(job: Job) -> int:
    return job.held_lease().size_macc


def _youth(job: Job) -> tuple[int, int, str]:
    """Sort the youngest first, then the last in the queue."""
    return (-job.held_lease().granted_ms, -job.entry().position, job.job)


def _tightest(job: Job) -> tuple[int, tuple[int, int, str]]:
    return _size(job), _youth(job)


def _largest(job: Job) -> tuple[int, tuple[int, int, str]]:
    return -_size(job), _youth(job)


def _queue_order(job: Job) -> tuple[int, str]:
    return job.order
