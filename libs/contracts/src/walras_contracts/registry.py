"""All event types, and how their bytes are read.

:func:`walras_contracts.edge.decode_edge` is strict and answers with a coded rejection;
:func:`decode_inner` ignores unknown fields of a known version, in nested parts too, and raises on
everything else (design §2).
"""

from typing import Final

from pydantic import ValidationError

from walras_contracts.accounts import AccountsChanged, AccountsRequested
from walras_contracts.capacity import (
    NodeHealthReported,
    NodeObserved,
    NodePublished,
    SupplyPublished,
)
from walras_contracts.dead_letters import DeadLettered
from walras_contracts.demand import (
    DemandRejected,
    JobCancelled,
    JobLimitChanged,
    JobQueued,
    JobSubmitted,
)
from walras_contracts.event import Event
from walras_contracts.json_path import json_path
from walras_contracts.market import CycleRecorded, CycleSummarised, PricePublished, QuotaGranted
from walras_contracts.money import BalancePublished, BudgetPublished
from walras_contracts.work import (
    JobStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
    VacateRequested,
)

EVENTS: Final[tuple[type[Event], ...]] = (
    JobSubmitted,
    JobLimitChanged,
    JobCancelled,
    JobQueued,
    DemandRejected,
    AccountsRequested,
    AccountsChanged,
    NodeObserved,
    NodeHealthReported,
    SupplyPublished,
    NodePublished,
    PricePublished,
    QuotaGranted,
    CycleRecorded,
    CycleSummarised,
    LeaseGranted,
    VacateRequested,
    JobStatusChanged,
    LeaseStatusChanged,
    UsageMetered,
    BalancePublished,
    BudgetPublished,
    DeadLettered,
)
BY_TYPE: Final[dict[str, type[Event]]] = {event.TYPE: event for event in EVENTS}


class UndecodableError(Exception):
    """The bytes are not an event; the record belongs on the dead-letter topic."""

    code = "undecodable"
    retriable = False


class UnknownVersionError(Exception):
    """A type or version that this build does not know; its partition must stop."""

    code = "unknown_event_version"
    retriable = False


def decode_inner(event_type: str, payload: bytes) -> Event:
    """Read an event that another service wrote.

    Raises
    ------
    UnknownVersionError
        The type or its version is not known to this build.
    UndecodableError
        The payload is not valid for its type.
    """
    model = BY_TYPE.get(event_type)
    if model is None:
        raise UnknownVersionError(f"event type {event_type!r} is not known to this build")
    try:
        return model.model_validate_json(payload, extra="ignore")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = json_path(fault["loc"])
        raise UndecodableError(f"{event_type}: {where}: {fault['msg'][:300]}") from error
