"""What failed drains give back: of each lease of a team, which time, and since which step."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from walras.audit.audit_rules import AuditRules
from walras.audit.log_view import AuditError, Entry
from walras.audit.rows import DAY_MS, Span, without
from walras.audit.steps import Clock
from walras.audit.usage_form import said_by
from walras.audit.usage_verdicts import Refused
from walras_contracts.registry import UndecodableError, UnknownVersionError, decode_inner
from walras_contracts.work import DrainState, DrainStatusChanged

TOPIC: Final = DrainStatusChanged.TOPIC
TYPES: Final = frozenset({DrainStatusChanged.TYPE})


class GivenBack(NamedTuple):
    """A time of a lease that is given back."""

    step: int
    span: Span
    session: str


@dataclass(slots=True)
class FailedDrains:
    """All failed drains of a partition.

    ``refused``: by offset, those whose times cannot be right.
    """

    of_lease: dict[tuple[str, str], list[GivenBack]] = field(
        default_factory=lambda: defaultdict(list)
    )
    refused: dict[int, Refused] = field(default_factory=dict)


def read_drains(
    given: Iterable[tuple[int, Entry]], partition: int, clock: Clock, rules: AuditRules
) -> FailedDrains:
    """Read a partition of ``drain.status``; of an instant, the first failure counts.

    In a step, failures count by team, lease, times, session and node.

    Raises
    ------
    AuditError
        A record is of a version that this build does not know.
    """
    found = FailedDrains()
    by_step: dict[int, list[DrainStatusChanged]] = defaultdict(list)
    for step, entry in given:
        try:
            event = decode_inner(entry.type, entry.value or b"", TYPES)
        except UnknownVersionError as error:
            raise AuditError(f"{TOPIC}/{partition}@{entry.offset}: {error}") from error
        except UndecodableError:
            # A dead letter.
            continue
        assert isinstance(event, DrainStatusChanged)
        if event.state is not DrainState.FAILED:
            continue
        code = _code(event, clock.times_ms[step], rules)
        if code is None:
            by_step[step].append(event)
        else:
            found.refused[entry.offset] = Refused(entry.key, code, step, said_by(entry))
    for step in sorted(by_step):
        for event in sorted(by_step[step], key=_order):
            held = found.of_lease[event.team, event.lease]
            left = without([(event.warned_ms, event.at_ms)], [claim.span for claim in held])
            held += [GivenBack(step, span, event.session) for span in left]
    return found


def _code(event: DrainStatusChanged, now_ms: int, rules: AuditRules) -> str | None:
    if event.at_ms < event.warned_ms:
        return "reversed_interval"
    if event.at_ms - event.warned_ms > DAY_MS:
        return "longer_than_a_day"
    if event.at_ms > now_ms + rules.future_tolerance_ms:
        return "future_time"
    return "rejected_late" if event.at_ms <= now_ms - rules.look_back_ms else None


def _order(event: DrainStatusChanged) -> tuple[str, str, int, int, str, str]:
    times = (event.warned_ms, event.at_ms)
    return event.team, event.lease, *times, event.session, event.node
