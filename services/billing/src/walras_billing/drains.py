"""Failed drains: of which leases' charges which time is given back, and from which step on."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from walras_billing.time_buckets import TimeBuckets
from walras_billing.usage_faults import DAY_MS, Fault, UsageFault
from walras_billing.usage_line import Span, UsageLine, subtracted
from walras_contracts.work import DrainState, DrainStatusChanged

GIVES_BACK: Final = frozenset({DrainState.FAILED})
"""How a drain has to end for its time to be given back."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A failed drain gives back [start, end) of its lease, known by the step of a barrier."""

    barrier: int
    start_ms: int
    end_ms: int
    session: str


def drain_fault(
    status: DrainStatusChanged, now_ms: int, look_back_ms: int, future_tolerance_ms: int
) -> Fault | None:
    """Return what is wrong with the times of a failed drain at a step; None: nothing."""
    warned_ms, at_ms = status.warned_ms, status.at_ms
    rules = (
        (at_ms < warned_ms, UsageFault.REVERSED_INTERVAL, "at_ms is before warned_ms"),
        (
            at_ms - warned_ms > DAY_MS,
            UsageFault.LONGER_THAN_A_DAY,
            f"at_ms is more than {DAY_MS} ms after warned_ms",
        ),
        (
            at_ms > now_ms + future_tolerance_ms,
            UsageFault.FUTURE_TIME,
            f"at_ms is more than {future_tolerance_ms} ms beyond the barrier at {now_ms}",
        ),
        (
            at_ms <= now_ms - look_back_ms,
            UsageFault.REJECTED_LATE,
            f"at_ms is {look_back_ms} ms or more before the barrier at {now_ms}",
        ),
    )
    return next((Fault(code, reason) for broken, code, reason in rules if broken), None)


class FailedDrains:
    """Claims by lease; no instant of a lease is claimed twice.

    ``changed`` names the leases whose claims changed since they were written.
    """

    def __init__(self) -> None:
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self._old: TimeBuckets[str] = TimeBuckets()
        self._overdue: dict[str, None] = {}
        self.changed: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._claims)

    def take(self, status: DrainStatusChanged, barrier: int) -> bool:
        """Take a failure in the step of a barrier; return whether it claims what none did."""
        name = lease_of(status.team, status.lease)
        held = self._claims.get(name, ())
        left: tuple[Span, ...] = ((status.warned_ms, status.at_ms),)
        for claim in held:
            left = subtracted(left, claim.start_ms, claim.end_ms)
        if not left or status.warned_ms == status.at_ms:
            return False
        self._keep(name, (*held, *(Claim(barrier, *span, status.session) for span in left)))
        self.changed[name] = None
        return True

    def of(self, line: UsageLine) -> tuple[Claim, ...]:
        """Return the claims to the charges of a line, in the order in which they came."""
        return self._claims.get(lease_of(line.terms.team, line.terms.lease), ())

    def forget(self, before_ms: int, is_remembered: Callable[[str], bool]) -> None:
        """Forget leases whose claims ended at or before an instant.

        Parameters
        ----------
        before_ms
            No use that could still be taken begins before it.
        is_remembered
            Whether use of a lease is remembered; its claims stay.
        """
        due = dict.fromkeys((*self._overdue, *self._old.take(before_ms)))
        self._overdue.clear()
        for name in due:
            claims = self._claims.get(name, ())
            if not claims or max(claim.end_ms for claim in claims) > before_ms:
                continue
            if is_remembered(name.partition("/")[2]):
                self._overdue[name] = None
            else:
                del self._claims[name]
                self.changed[name] = None

    def dump(self, name: str) -> bytes | None:
        """Return the claims of a lease as one record of the state topic; None: there are none."""
        claims = self._claims.get(name)
        if claims is None:
            return None
        fields = [[c.barrier, c.start_ms, c.end_ms, c.session] for c in claims]
        return json.dumps(fields, separators=(",", ":")).encode()

    def load(self, name: str, value: bytes) -> None:
        """Take back a record of the state topic."""
        self._keep(name, tuple(Claim(*fields) for fields in json.loads(value)))

    def _keep(self, name: str, claims: tuple[Claim, ...]) -> None:
        self._claims[name] = claims
        self._old.put(max(claim.end_ms for claim in claims), name)


def lease_of(team: str, lease: str) -> str:
    """Name of a lease of a team: another team's charges are not given back."""
    return f"{team}/{lease}"


def in_order(failures: Iterable[DrainStatusChanged]) -> Iterator[DrainStatusChanged]:
    """Yield the failures of a step in an order that does not depend on that of their records."""
    yield from sorted(failures, key=_place)


def _place(status: DrainStatusChanged) -> tuple[str, str, int, int, str, str]:
    times = (status.warned_ms, status.at_ms)
    return (status.team, status.lease, *times, status.session, status.node)
