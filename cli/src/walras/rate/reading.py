"""Usage and prices from JSON lines: what is not of the form is refused, bad use is quarantined."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from walras_billing.prices import PriceHistory, Version
from walras_billing.usage_faults import UsageFault, amounts_fault, interval_fault
from walras_billing.usage_line import Terms, UsageLine
from walras_contracts.json_path import json_path
from walras_contracts.quantities import PPM, MarketTimeMs, PriceMicro
from walras_contracts.strict_json import StrictJsonError, parse
from walras_contracts.work import WorkClass

ALL_KNOWN: Final = Version(0, -1, {})
"""As of a record that was known before the first barrier."""
_REASONS: Final = {"extra_forbidden": "unknown field", "missing": "the field is required"}
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]
Whole = Annotated[int, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]


class LineError(Exception):
    """A line is not of the form; the text names file, line, JSON path and reason."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PriceRow(_Line):
    """From when on a pool has a price in a market; null: unknown from then on."""

    market: Name
    pool: Name
    effective_ms: MarketTimeMs
    price_micro: PriceMicro | None


class UsageRow(_Line):
    """One usage interval, of the right types; whether its values are right is judged later."""

    lease: Name
    team: Name
    pool: Name
    market: Name
    quantity_macc: Whole
    start_ms: Whole | None = None
    end_ms: Whole | None = None
    source: Name
    seq: Whole
    work_class: Annotated[str, Field(alias="class", strict=True)] = WorkClass.MARKET.value
    billable: Flag = True
    tariff_ppm: Whole = PPM
    limit_micro: Whole | None = None

    def fault(self) -> UsageFault | None:
        """Return why it is not charged, if its own values say so."""
        found = interval_fault(self.start_ms, self.end_ms)
        if found is None:
            assert self.start_ms is not None
            assert self.end_ms is not None
            amounts = (self.quantity_macc, self.seq, self.limit_micro, self.tariff_ppm)
            found = amounts_fault(*amounts, self.end_ms - self.start_ms)
        if found is not None:
            return found.code
        known = {each.value for each in WorkClass}
        return None if self.work_class in known else UsageFault.UNKNOWN_CLASS

    def line(self, max_age_ms: int | None) -> UsageLine:
        """Return it as rating takes it, where it has no fault."""
        assert self.start_ms is not None
        assert self.end_ms is not None
        terms = Terms(
            source=self.source,
            series=series_of(self.market, self.pool),
            lease=self.lease,
            node="",
            attempt=0,
            team=self.team,
            pool=self.pool,
            job="",
            market=self.market,
            quantity_macc=self.quantity_macc,
            work_class=WorkClass(self.work_class),
            billable=self.billable,
            limit_micro=self.limit_micro,
            tariff_ppm=self.tariff_ppm,
        )
        return UsageLine(terms, self.seq, self.start_ms, self.end_ms, 0, max_age_ms)


@dataclass(slots=True)
class Prices:
    """The history of a price file; ``pools`` names the market and pool of each of its series."""

    history: PriceHistory = field(default_factory=PriceHistory)
    pools: dict[str, tuple[str, str]] = field(default_factory=dict)


R = TypeVar("R", bound=_Line)


def series_of(market: str, pool: str) -> str:
    """Name of the price history of a pool in a market: here each pool has its own."""
    return f"{market}/{pool}"


def rows(name: str, data: bytes, row: type[R]) -> Iterator[tuple[int, R]]:
    """Yield the lines of a file with their numbers; empty ones are passed over.

    Raises
    ------
    LineError
        For the first line that is not of the form.
    """
    for number, text in enumerate(data.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            document = parse(text)
            if not isinstance(document, dict):
                raise LineError(f"{name}: line {number}: $: must be an object")
            yield number, row.model_validate(document)
        except StrictJsonError as error:
            raise LineError(
                f"{name}: line {number}: {error.path or '$'}: {error.reason}"
            ) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            reason = _REASONS.get(first["type"]) or first["msg"].replace("Input should", "must")
            raise LineError(
                f"{name}: line {number}: {json_path(first['loc'])}: {reason}"
            ) from error


def read_prices(name: str, data: bytes) -> Prices:
    """Read a price file.

    Raises
    ------
    LineError
        For the first line that is not of the form, or gives another price for the same time.
    """
    found = Prices()
    told: dict[tuple[str, str, int], int | None] = {}
    for number, row in rows(name, data, PriceRow):
        key = (row.market, row.pool, row.effective_ms)
        if told.setdefault(key, row.price_micro) != row.price_micro:
            raise LineError(
                f"{name}: line {number}: $.price_micro: another line has another price of the "
                "pool at this time"
            )
        series = series_of(row.market, row.pool)
        found.pools[series] = (row.market, row.pool)
        version = Version(ALL_KNOWN.barrier, ALL_KNOWN.known_after_ms, {row.pool: row.price_micro})
        found.history.put(series, row.effective_ms, version)
    return found


Quarantine = Callable[[int, UsageFault], None]


def read_usage(
    name: str, data: bytes, max_age_ms: int | None, quarantine: Quarantine
) -> list[tuple[int, UsageLine]]:
    """Read a usage file: its lines by number, save those that ``quarantine`` is called with.

    An exact repetition of a line that is quarantined is passed over, as any repetition is.

    Raises
    ------
    LineError
        For the first line that is not of the form.
    """
    found: list[tuple[int, UsageLine]] = []
    refused: set[UsageRow] = set()
    for number, row in rows(name, data, UsageRow):
        fault = row.fault()
        if fault is None:
            found.append((number, row.line(max_age_ms)))
        elif row not in refused:
            refused.add(row)
            quarantine(number, fault)
    return found
