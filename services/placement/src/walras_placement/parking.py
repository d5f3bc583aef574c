"""Jobs that fail again and again wait before they are tried once more."""

from typing import Final

from walras_contracts.work import LeaseOutcome
from walras_placement.jobs import Job
from walras_placement.leases import Lease

FAILED_STARTS: Final = 3
"""So many in a row park a job."""
FIRST_PAUSE_MS: Final = 600_000
LONGEST_PAUSE_MS: Final = 24 * 3_600_000
SETTLED_MS: Final = 300_000
"""A run that lasted so long has started: its error is not one of the start."""
NOT_STARTED: Final = frozenset({LeaseOutcome.START_FAILED, LeaseOutcome.REFUSED})


def is_failed_start(outcome: LeaseOutcome, ran_ms: int) -> bool:
    """Whether a part that is gone did not start, or ended with an error soon after its grant."""
    return outcome in NOT_STARTED or (outcome is LeaseOutcome.FAILED and ran_ms < SETTLED_MS)


def pause_ms(failures: int) -> int:
    """Return how long a job waits after so many failed starts in a row: it doubles."""
    if failures < FAILED_STARTS:
        return 0
    doubled = failures - FAILED_STARTS
    # Beyond this many doublings it is the longest pause anyway.
    return min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << min(doubled, 16))


def note_end(job: Job, lease: Lease, now_ms: int, *, is_finished: bool) -> None:
    """Count the end of a run: a failed start, or one that began well.

    A short run that was asked to leave, or whose node was lost, says nothing about its job.
    """
    if lease.failed:
        job.failures += 1
        job.parked_until_ms = now_ms + pause_ms(job.failures) if pause_ms(job.failures) else 0
    elif is_finished or now_ms - lease.granted_ms >= SETTLED_MS:
        job.failures = job.parked_until_ms = 0
