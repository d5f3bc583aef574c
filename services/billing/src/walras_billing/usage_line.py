"""A usage record as rating remembers it: what it says, where it lies, what overlaps took away."""

import json
from dataclasses import dataclass

from walras_contracts.work import UsageMetered, WorkClass

# Making an encoder takes as long as encoding a line.
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
Span = tuple[int, int]
"""A half-open interval of market time, ms."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What one record of a source usually has in common with the next; shared between them.

    ``source`` numbers its records; ``series`` is the price history that counts.
    """

    source: str
    series: str
    lease: str
    node: str
    attempt: int
    team: str
    pool: str
    job: str
    market: str
    quantity_macc: int
    work_class: WorkClass
    billable: bool
    limit_micro: int | None
    tariff_ppm: int

    @property
    def is_free(self) -> bool:
        """Whether use costs nothing whatever the price, even without one."""
        return self.work_class is WorkClass.OPPORTUNISTIC or not self.billable


@dataclass(frozen=True, slots=True)
class Cut:
    """A span that a lower sequence number claimed when the line had been rated already."""

    barrier: int
    start_ms: int
    end_ms: int


@dataclass(slots=True, eq=False)
class UsageLine:
    """One accepted usage record over [start_ms, end_ms).

    ``until_ms``: its first price is what is known by the first barrier at or after it. A price
    counts for ``max_age_ms`` from its market time (None: until the next). ``net`` is what overlaps
    left of it before it was rated (None: all of it); what they took later is in ``cuts``.
    ``pending``: a part of it waits for a price.
    """

    terms: Terms
    seq: int
    start_ms: int
    end_ms: int
    until_ms: int
    max_age_ms: int | None = None
    net: tuple[Span, ...] | None = None
    cuts: tuple[Cut, ...] = ()
    pending: bool = False

    @property
    def key(self) -> str:
        """Key of the record: its source and sequence number."""
        return f"{self.terms.source}/{self.seq}"

    def spans(self) -> tuple[Span, ...]:
        """Return what is to be charged of it when it is rated first."""
        return ((self.start_ms, self.end_ms),) if self.net is None else self.net

    def says_the_same(self, other: "UsageLine") -> bool:
        """Whether two records have the same body."""
        return (self.seq, self.start_ms, self.end_ms, self.terms) == (
            other.seq,
            other.start_ms,
            other.end_ms,
            other.terms,
        )

    def dump(self) -> bytes:
        """Return it as one record of the state topic."""
        terms = self.terms
        fields = [
            *(terms.lease, terms.node, terms.attempt, terms.team, terms.pool, terms.job),
            *(terms.market, terms.quantity_macc, terms.work_class.value, terms.billable),
            *(terms.limit_micro, terms.tariff_ppm),
            *(self.seq, self.start_ms, self.end_ms, self.until_ms, self.max_age_ms),
            self.net,
            [(cut.barrier, cut.start_ms, cut.end_ms) for cut in self.cuts],
            self.pending,
        ]
        return _ENCODE(fields).encode()

    @staticmethod
    def parse(value: bytes) -> "UsageLine":
        """Read a record of the state topic."""
        fields = json.loads(value)
        lease, node, attempt, team, pool, job, market, quantity, work_class, billable = fields[:10]
        limit, tariff, seq, start, end, until, age, net, cuts, pending = fields[10:]
        return UsageLine(
            Terms(
                *(source_of(lease, node, attempt), market, lease, node, attempt, team, pool, job),
                *(market, quantity, WorkClass(work_class), billable, limit, tariff),
            ),
            *(seq, start, end, until, age),
            net=None if net is None else tuple((a, b) for a, b in net),
            cuts=tuple(Cut(*cut) for cut in cuts),
            pending=pending,
        )


def source_of(lease: str, node: str, attempt: int) -> str:
    """Name of what numbers usage records: a lease's part in one attempt."""
    return f"{lease}/{node}/{attempt}"


def line_of(usage: UsageMetered, grace_ms: int, max_age_ms: int | None = None) -> UsageLine:
    """Return the line of a usage record."""
    terms = Terms(
        source=source_of(usage.lease, usage.node, usage.attempt),
        series=usage.market,
        lease=usage.lease,
        node=usage.node,
        attempt=usage.attempt,
        team=usage.team,
        pool=usage.pool,
        job=usage.job,
        market=usage.market,
        quantity_macc=usage.quantity_macc,
        work_class=usage.work_class,
        billable=usage.billable,
        limit_micro=usage.limit_micro,
        tariff_ppm=usage.tariff_ppm,
    )
    return UsageLine(
        terms,
        *(usage.seq, usage.start_ms, usage.end_ms, usage.end_ms + grace_ms, max_age_ms),
    )


def subtracted(spans: tuple[Span, ...], start_ms: int, end_ms: int) -> tuple[Span, ...]:
    """Return the spans without [start, end)."""
    left: list[Span] = []
    for begin_ms, finish_ms in spans:
        before, after = (begin_ms, min(finish_ms, start_ms)), (max(begin_ms, end_ms), finish_ms)
        left += [span for span in (before, after) if span[0] < span[1]]
    return tuple(left)
