"""Why an event is refused, in order of precedence: the first that applies is given."""

from dataclasses import dataclass
from enum import StrEnum


class RejectionCode(StrEnum):
    """Stable codes; a retired one keeps its name."""

    EVENT_TOO_LARGE = "event_too_large"
    MISSING_EVENT_ID = "missing_event_id"
    UNKNOWN_EVENT_TYPE = "unknown_event_type"
    UNKNOWN_EVENT_VERSION = "unknown_event_version"
    INVALID_UTF8 = "invalid_utf8"
    INVALID_JSON = "invalid_json"
    MISSING_FIELD = "missing_field"
    UNKNOWN_FIELD = "unknown_field"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    INVALID_VALUE = "invalid_value"
    UNKNOWN_TEAM = "unknown_team"
    UNKNOWN_JOB = "unknown_job"
    JOB_EXISTS = "job_exists"
    JOB_ENDED = "job_ended"
    STALE_REVISION = "stale_revision"
    TEAM_IN_TWO_POOLS = "team_in_two_pools"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal: what is wrong, where, and why."""

    code: RejectionCode
    path: str
    reason: str
