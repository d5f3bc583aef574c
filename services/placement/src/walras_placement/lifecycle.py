"""The life of a job as a table: every pair of state and event has one answer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from walras_contracts.work import JobState
from walras_runtime.errors import InvariantBrokenError

State = JobState | None
"""None: placement does not know the job (yet, or any more)."""


class JobEvent(StrEnum):
    """What happens to a job."""

    QUEUED = "queued"
    """Intake accepted it."""
    GRANTED = "granted"
    """It was given devices."""
    VACATED = "vacated"
    """Its lease was asked to leave; again, where it was about to stay after all."""
    STAYED = "stayed"
    """Its lease may stay after all, and nothing of it has begun to leave."""
    WENT_ON = "went_on"
    """Its drain was to be cancelled, and goes on all the same."""
    COMPLETED = "completed"
    """None of its parts is left, and its work is done."""
    RETURNED = "returned"
    """None of its parts is left that an agent answers for, and work is left."""
    WITHDRAWN = "withdrawn"
    """Its team cancelled it, and none of its parts is left."""
    FORGOTTEN = "forgotten"
    """It left the queue, and none of its parts is left."""


NEXT: Final[Mapping[tuple[State, JobEvent], State]] = {
    (None, JobEvent.QUEUED): JobState.PENDING,
    (JobState.PENDING, JobEvent.GRANTED): JobState.RUNNING,
    (JobState.PENDING, JobEvent.WITHDRAWN): JobState.CANCELLED,
    (JobState.PENDING, JobEvent.FORGOTTEN): None,
    (JobState.RUNNING, JobEvent.VACATED): JobState.DRAINING,
    (JobState.RUNNING, JobEvent.WENT_ON): JobState.DRAINING,
    (JobState.RUNNING, JobEvent.COMPLETED): JobState.FINISHED,
    (JobState.RUNNING, JobEvent.RETURNED): JobState.PENDING,
    (JobState.RUNNING, JobEvent.WITHDRAWN): JobState.CANCELLED,
    (JobState.DRAINING, JobEvent.VACATED): JobState.DRAINING,
    (JobState.DRAINING, JobEvent.STAYED): JobState.RUNNING,
    (JobState.DRAINING, JobEvent.WENT_ON): JobState.DRAINING,
    (JobState.DRAINING, JobEvent.COMPLETED): JobState.FINISHED,
    (JobState.DRAINING, JobEvent.RETURNED): JobState.PENDING,
    (JobState.DRAINING, JobEvent.WITHDRAWN): JobState.CANCELLED,
    (JobState.FINISHED, JobEvent.FORGOTTEN): None,
    (JobState.CANCELLED, JobEvent.FORGOTTEN): None,
}
"""Pairs that are not here cannot be: they break an invariant."""


def next_state(state: State, event: JobEvent) -> State:
    """Return the state after an event.

    Raises
    ------
    InvariantBrokenError
        The event cannot happen in this state.
    """
    try:
        return NEXT[state, event]
    except KeyError:
        raise InvariantBrokenError(f"a job that is {state} cannot be {event}") from None
