"""All event types, and how their bytes are read.

:func:`walras_contracts.edge.decode_edge` is strict and answers with a coded rejection;
:func:`decode_inner` ignores unknown fields of a known version, in nested parts too, and raises on
everything else (design §2).
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from pydantic import ValidationError

from walras_contracts.accounts import AccountsChanged, AccountsRequested
from walras_contracts.capacity import (
    NodeHealthReported,
    NodeObserved,
    NodePublished,
    SupplyPublished,
)
from walras_contracts.charges import (
    ChargeCredited,
    ChargePending,
    ChargeRated,
    UsageGapReported,
    UsageQuarantined,
)
from walras_contracts.dead_letters import DeadLettered
from walras_contracts.demand import (
    DemandRejected,
    JobCancelled,
    JobLimitChanged,
    JobQueued,
    JobSubmitted,
)
from walras_contracts.drains import (
    DrainabilityScored,
    DrainCommanded,
    DrainOrdered,
    DrainRequested,
    DrainSessionChanged,
    NodeDrainChanged,
    NotificationIssued,
    VacateRequested,
    VacateWithdrawn,
)
from walras_contracts.event import Event
from walras_contracts.invoices import InvoicePublished, InvoiceRefused, InvoiceRequested
from walras_contracts.json_path import json_path, quoted
from walras_contracts.ledger import LedgerEntryPosted
from walras_contracts.market import (
    CycleFramed,
    CycleRecorded,
    CycleSummarised,
    PriceGapPublished,
    PricePublished,
    QuotaGranted,
)
from walras_contracts.money import BalancePublished, BudgetAlerted, BudgetPublished
from walras_contracts.placing import PlacementMeasured
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import (
    DrainStatusChanged,
    JobStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
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
    PriceGapPublished,
    QuotaGranted,
    CycleRecorded,
    CycleSummarised,
    CycleFramed,
    LeaseGranted,
    VacateRequested,
    VacateWithdrawn,
    JobStatusChanged,
    PlacementMeasured,
    LeaseStatusChanged,
    DrainOrdered,
    DrainRequested,
    DrainCommanded,
    DrainStatusChanged,
    DrainSessionChanged,
    NodeDrainChanged,
    DrainabilityScored,
    NotificationIssued,
    UsageMetered,
    BalancePublished,
    BudgetPublished,
    BudgetAlerted,
    LedgerEntryPosted,
    ChargeRated,
    ChargeCredited,
    ChargePending,
    UsageQuarantined,
    UsageGapReported,
    UsageSettled,
    InvoicePublished,
    InvoiceRequested,
    InvoiceRefused,
    DeadLettered,
)
BY_TYPE: Final[dict[str, type[Event]]] = {event.TYPE: event for event in EVENTS}


_VERSIONED = re.compile(r"(walras\.[^\s]+)\.v[0-9]+")


class UndecodableError(Exception):
    """Not an event of its topic; the record belongs on the dead-letter topic."""

    code = "undecodable"
    retriable = False


class UnknownVersionError(Exception):
    """An event of the topic in a version that this build does not know; its partition must stop."""

    code = "unknown_event_version"
    retriable = False


@cache
def types_on(topic: str) -> frozenset[str]:
    """Return the event types of the topic with this short name."""
    return frozenset(event.TYPE for event in EVENTS if topic == event.TOPIC)


def family_of(event_type: str) -> str:
    """Return the name of a type without its version; the type itself where it has none."""
    return event_type.rpartition(".")[0] or event_type


def model_of(event_type: str, accepted: Iterable[str] | None = None) -> type[Event]:
    """Return the model of an event that another service wrote.

    Parameters
    ----------
    event_type
        ``ce_type`` of the record; empty where there was none.
    accepted
        Event types of the topic that it was read from; None: all that are registered.

    Raises
    ------
    UnknownVersionError
        It is an accepted event in a version that this build does not know: a newer writer is at
        work, and deciding past what it said would be wrong.
    UndecodableError
        It is anything else: no event at all, or one of another topic. Nobody who writes this topic
        writes such a record, so nothing that was decided is lost by passing it over.
    """
    known = BY_TYPE if accepted is None else accepted
    if event_type in known and event_type in BY_TYPE:
        return BY_TYPE[event_type]
    name = _VERSIONED.fullmatch(event_type)
    if name and any(family_of(each) == name[1] for each in known):
        raise UnknownVersionError(f"event type {quoted(event_type)} is not known to this build")
    raise UndecodableError(f"event type {quoted(event_type)} does not belong on this topic")


def decode_inner(event_type: str, payload: bytes, accepted: Iterable[str] | None = None) -> Event:
    """Read an event that another service wrote.

    Raises
    ------
    UnknownVersionError
        As :func:`model_of`.
    UndecodableError
        As :func:`model_of`, or the payload is not valid for its type.
    """
    model = model_of(event_type, accepted)
    try:
        return model.model_validate_json(payload, extra="ignore")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = json_path(fault["loc"])
        raise UndecodableError(f"{event_type}: {where}: {fault['msg'][:300]}") from error
