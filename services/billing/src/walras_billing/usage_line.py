"""A usage record as rating remembers it: what it says, where it lies, what overlaps took away."""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from walras_billing.term_texts import NULL, TermTexts, texts_of
from walras_billing.time_split import Split, split_of
from walras_contracts.work import UsageMetered, WorkClass

# Making an encoder takes as long as encoding a line.
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_one_text = lru_cache(1 << 16)(str)
_one_number = lru_cache(1 << 12)(int)
"""The same object for equal values: what very many leases have in common is found in the
processor's caches, and needs memory once."""
Span = tuple[int, int]
"""A half-open interval of market time, ms."""
Holder = tuple[str, str, str, str]
"""Team, job, market and pool: for whom devices are held, whatever the lease."""


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
    is_free: bool = field(init=False, compare=False)
    """Whether use costs nothing whatever the price, even without one."""
    holder: Holder = field(init=False, compare=False, repr=False)
    _texts: TermTexts | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        is_free = self.work_class is WorkClass.OPPORTUNISTIC or not self.billable
        object.__setattr__(self, "is_free", is_free)
        object.__setattr__(self, "holder", (self.team, self.job, self.market, self.pool))

    @property
    def texts(self) -> TermTexts:
        """The constant texts of its records, made when they are first needed."""
        texts = self._texts
        if texts is None:
            texts = texts_of(self)
            object.__setattr__(self, "_texts", texts)
        return texts


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
    ``pending``: a part of it waits for a price. ``split``: how its time was used; None: nobody
    measured that, or it lost a part. No charge depends on it.
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
    split: Split | None = None

    @property
    def key(self) -> str:
        """Key of the record: its source and sequence number."""
        return f"{self.terms.source}/{self.seq}"

    def spans(self) -> tuple[Span, ...]:
        """Return what is to be charged of it when it is rated first."""
        return ((self.start_ms, self.end_ms),) if self.net is None else self.net

    @property
    def kept_ms(self) -> int:
        """How long it is without what it lost."""
        if self.net is None and not self.cuts:
            return self.end_ms - self.start_ms
        kept_ms = sum(end_ms - start_ms for start_ms, end_ms in self.spans())
        return kept_ms - sum(cut.end_ms - cut.start_ms for cut in self.cuts)

    def says_the_same(self, other: "UsageLine") -> bool:
        """Whether two records are of the same use; how it was measured makes no other use of it."""
        return (self.seq, self.start_ms, self.end_ms, self.terms) == (
            other.seq,
            other.start_ms,
            other.end_ms,
            other.terms,
        )

    def dump(self) -> bytes:
        """Return it as one record of the state topic."""
        age = NULL if self.max_age_ms is None else self.max_age_ms
        net = NULL if self.net is None else _ENCODE(self.net)
        cuts = (
            _ENCODE([(c.barrier, c.start_ms, c.end_ms) for c in self.cuts]) if self.cuts else "[]"
        )
        end = "]" if self.split is None else f",{_ENCODE(self.split)}]"
        return (
            f"{self.terms.texts.kept_head}{self.seq},{self.start_ms},{self.end_ms},{self.until_ms},"
            f"{age},{net},{cuts},{'true' if self.pending else 'false'}{end}"
        ).encode()

    @staticmethod
    def parse(value: bytes, neighbour: "UsageLine | None" = None) -> "UsageLine":
        """Read a record of the state topic.

        Where the terms are those of ``neighbour``, its terms are shared.
        """
        kept = _KEPT.decode(value)
        if neighbour is not None and kept.is_on(neighbour.terms):
            terms = neighbour.terms
        else:
            terms = terms_of(kept)
        return UsageLine(
            terms,
            *(kept.seq, kept.start_ms, kept.end_ms, kept.until_ms, kept.max_age_ms),
            net=kept.net,
            cuts=tuple([Cut(*cut) for cut in kept.cuts]) if kept.cuts else (),
            pending=kept.pending,
            split=kept.split,
        )


class SaidTerms(msgspec.Struct, gc=False):
    """The terms of a usage record as its bytes say them, which many others say too."""

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

    def is_on(self, terms: Terms) -> bool:
        """Whether they are these terms."""
        return (
            self.lease == terms.lease
            and self.node == terms.node
            and self.attempt == terms.attempt
            and self.team == terms.team
            and self.pool == terms.pool
            and self.job == terms.job
            and self.market == terms.market
            and self.quantity_macc == terms.quantity_macc
            and self.work_class is terms.work_class
            and self.billable is terms.billable
            and self.limit_micro == terms.limit_micro
            and self.tariff_ppm == terms.tariff_ppm
        )


class _Kept(SaidTerms, array_like=True, gc=False):
    """A record of the state topic, in the order of :meth:`UsageLine.dump`."""

    seq: int
    start_ms: int
    end_ms: int
    until_ms: int
    max_age_ms: int | None
    net: tuple[Span, ...] | None
    cuts: tuple[tuple[int, int, int], ...]
    pending: bool
    split: Split | None = None


_KEPT: Final = msgspec.json.Decoder(_Kept)


def source_of(lease: str, node: str, attempt: int) -> str:
    """Name of what numbers usage records: a lease's part in one attempt."""
    return f"{lease}/{node}/{attempt}"


def terms_of(said: SaidTerms | UsageMetered) -> Terms:
    """Return the terms of a record as terms of their own."""
    return Terms(
        source=source_of(said.lease, said.node, said.attempt),
        series=_one_text(said.market),
        lease=said.lease,
        node=said.node,
        attempt=said.attempt,
        team=_one_text(said.team),
        pool=_one_text(said.pool),
        job=said.job,
        market=_one_text(said.market),
        quantity_macc=_one_number(said.quantity_macc),
        work_class=said.work_class,
        billable=said.billable,
        limit_micro=said.limit_micro,
        tariff_ppm=_one_number(said.tariff_ppm),
    )


def line_of(usage: UsageMetered, grace_ms: int, max_age_ms: int | None = None) -> UsageLine:
    """Return the line of a usage record."""
    return UsageLine(
        terms_of(usage),
        *(usage.seq, usage.start_ms, usage.end_ms, usage.end_ms + grace_ms, max_age_ms),
        split=split_of(usage.end_ms - usage.start_ms, usage.running_ms, usage.busy_ms),
    )


def subtracted(spans: tuple[Span, ...], start_ms: int, end_ms: int) -> tuple[Span, ...]:
    """Return the spans without [start, end)."""
    left: list[Span] = []
    for begin_ms, finish_ms in spans:
        before, after = (begin_ms, min(finish_ms, start_ms)), (max(begin_ms, end_ms), finish_ms)
        left += [span for span in (before, after) if span[0] < span[1]]
    return tuple(left)
