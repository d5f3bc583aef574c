"""What an audit keeps of each record: as few fields as it compares, read without the services.

Numbers of amounts are text on the log and integers here. A record that does not have the form of
its contract is a finding, not an error (:class:`UnreadableError`).
"""

from dataclasses import dataclass
from fractions import Fraction
from sys import intern
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from walras.audit.log_view import Entry
from walras_contracts.event import Event
from walras_contracts.registry import UndecodableError, UnknownVersionError, decode_inner

RATE_DENOMINATOR: Final = 3_600_000_000_000_000
"""So many units of an ``amount_numerator`` are one µcr: an hour of 1000 macc at 10⁶ ppm."""
SETTLEMENT_MS: Final = 300_000
DAY_MS: Final = 86_400_000

USE_FIELDS: Final = (
    *("team", "pool", "job", "market", "lease", "node", "attempt", "seq", "quantity_macc"),
    *("start_ms", "end_ms", "limit_micro", "tariff_ppm", "prices_until_ms", "charge_id"),
)
"""What every line that is about a part of a usage record says."""
RATED_FIELDS: Final = (
    *USE_FIELDS,
    *("corrects", "reason", "work_class", "billable", "price_micro", "previous_price_micro"),
    *("price_barrier", "amount_numerator"),
)
CREDITED_FIELDS: Final = (*USE_FIELDS, "credits", "reason", "session", "amount_numerator")
PENDING_FIELDS: Final = USE_FIELDS[:-1]
RATED: Final = "walras.charge.rated.v1"
CREDITED: Final = "walras.charge.credited.v1"
Document = dict[str, Any]
Span = tuple[int, int]


class UnreadableError(ValueError):
    """A record is not of the form that its contract gives it."""


@dataclass(slots=True, eq=False)
class Use:
    """One usage record over ``[start_ms, end_ms)`` that counts.

    ``arrival`` is the step in which it was first on the log.
    """

    source: str
    lease: str
    node: str
    attempt: int
    seq: int
    team: str
    pool: str
    job: str
    market: str
    macc: int
    start_ms: int
    end_ms: int
    work_class: str
    billable: bool
    limit_micro: int | None
    tariff_ppm: int
    arrival: int
    offset: int

    @property
    def key(self) -> str:
        """Key of the record."""
        return f"{self.source}/{self.seq}"

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing whatever the price."""
        return self.work_class == "opportunistic" or not self.billable

    @property
    def body(self) -> tuple[object, ...]:
        """Return what a repetition has to say again."""
        return (
            *(self.team, self.pool, self.job, self.market, self.macc, self.start_ms, self.end_ms),
            *(self.work_class, self.billable, self.limit_micro, self.tariff_ppm),
        )


class Line(NamedTuple):
    """A line of ``charges``, on the log or as it must be: its fields, step and offset.

    ``fields`` are those of `RATED_FIELDS` or `CREDITED_FIELDS`, by ``kind``.
    """

    kind: str
    fields: tuple[Any, ...]
    step: int
    offset: int = -1

    def get(self, name: str) -> Any:
        """Return a field."""
        return self.fields[names_of(self.kind).index(name)]

    @property
    def charge_id(self) -> str:
        """Id of the line."""
        return str(self.fields[_ID])

    @property
    def key(self) -> str:
        """Key of the usage record that it is about."""
        lease, node, attempt, seq = self.fields[4:8]
        return f"{lease}/{node}/{attempt}/{seq}"

    @property
    def span(self) -> Span:
        """Its time."""
        return self.fields[_START], self.fields[_START + 1]

    @property
    def numerator(self) -> int:
        """Its amount, in units of 1/`RATE_DENOMINATOR` µcr."""
        return int(self.fields[-1])

    @property
    def account(self) -> tuple[str, str]:
        """Team and pool."""
        return self.fields[0], self.fields[1]


_ID: Final = USE_FIELDS.index("charge_id")
_START: Final = USE_FIELDS.index("start_ms")
_FIELDS_OF: Final = {RATED: RATED_FIELDS, CREDITED: CREDITED_FIELDS}
_NUMBERS: Final = frozenset(
    {"attempt", "seq", "quantity_macc", "start_ms", "end_ms", "tariff_ppm", "prices_until_ms"}
)


def names_of(kind: str) -> tuple[str, ...]:
    """Return the fields of a kind of line."""
    return _FIELDS_OF[kind]


def document_of(entry: Entry) -> Document:
    """Return the payload of a record as an object.

    Raises
    ------
    UnreadableError
        It is none.
    """
    try:
        document = from_json(entry.value or b"", cache_strings="keys")
    except ValueError as error:
        raise UnreadableError(str(error)) from error
    if not isinstance(document, dict):
        raise UnreadableError("it is not a JSON object")
    return document


def contract_document(entry: Entry, *models: type[Event]) -> Document:
    """Return the payload of a record that its contract admits, as an object.

    Raises
    ------
    UnreadableError
        It is none.
    """
    try:
        decode_inner(entry.type, entry.value or b"", frozenset(model.TYPE for model in models))
    except (UndecodableError, UnknownVersionError) as error:
        raise UnreadableError(str(error)) from error
    return document_of(entry)


def line_of(entry: Entry, step: int) -> Line:
    """Read a line of ``charges``.

    Raises
    ------
    UnreadableError
        It is none.
    """
    if entry.type not in _FIELDS_OF:
        raise UnreadableError(f"its type is {entry.type!r}")
    document = document_of(entry)
    names = _FIELDS_OF[entry.type]
    found = []
    for name in names:
        if name not in document:
            raise UnreadableError(f"{name} is not there")
        value = document[name]
        if name in _NUMBERS and type(value) is not int:
            raise UnreadableError(f"{name} is {value!r}")
        if isinstance(value, dict | list):
            raise UnreadableError(f"{name} is {value!r}")
        found.append(intern(value) if type(value) is str and name != "charge_id" else value)
    found[-1] = whole(document, "amount_numerator")
    return Line(entry.type, tuple(found), step, entry.offset)


def whole(document: Document, name: str) -> int:
    """Return a whole number that is text on the log.

    Raises
    ------
    UnreadableError
        It is not one.
    """
    text = document.get(name)
    try:
        number = int(text) if isinstance(text, str) else None
    except ValueError:
        number = None
    if number is None or str(number) != text:
        raise UnreadableError(f"{name} is {text!r}, not a whole number in digits")
    return number


def exact_text(total: Fraction) -> str:
    """Return an exact amount as the ledger writes it."""
    return f"{total.numerator}/{total.denominator}"


def half_even(total: Fraction) -> int:
    """Return the nearest whole number, of two the even one."""
    return round(total)


def towards_zero(total: Fraction) -> int:
    """Return the whole part."""
    return int(total)


def without(spans: list[Span], taken: list[Span]) -> list[Span]:
    """Return the spans less what is taken from them."""
    left = spans
    for start_ms, end_ms in taken:
        parts = [
            part
            for span in left
            for part in (
                (span[0], min(span[1], start_ms)),
                (max(span[0], end_ms), span[1]),
            )
        ]
        left = [part for part in parts if part[0] < part[1]]
    return left


def joined(spans: list[Span]) -> list[Span]:
    """Return the spans in order, those that touch or overlap as one."""
    found: list[Span] = []
    for start_ms, end_ms in sorted(spans):
        if found and start_ms <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_ms))
        else:
            found.append((start_ms, end_ms))
    return found


def length_ms(spans: list[Span]) -> int:
    """Return how long the spans are together."""
    return sum(end_ms - start_ms for start_ms, end_ms in spans)
