"""Made events of the money topics, and a source that gives them; for tests only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from walras.billing_log.sources import E, StepTime, in_steps
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.charges import (
    ChargeCredited,
    ChargePending,
    ChargeRated,
    ChargeReason,
    CreditReason,
)
from walras_contracts.event import Event
from walras_contracts.identifiers import digest_of
from walras_contracts.invoices import InvoicePublished
from walras_contracts.market import (
    CycleRecorded,
    FrameKind,
    MarketState,
    PoolCycle,
    PoolPrice,
    PriceGapPublished,
    PricePublished,
)
from walras_contracts.quantities import PPM
from walras_contracts.work import WorkClass
from walras_runtime.records import Barrier

HOUR_MS: Final = 3_600_000
OCTOBER_MS: Final = 1_759_269_600_000
"""Midnight of 1 October 2025 in Budapest, in summer time; the next is in winter time."""
NOVEMBER_MS: Final = 1_761_951_600_000
UNITS: Final = 36 * 10**14
"""So many units of a numerator make one µcr."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Gives the events of a list; barriers stand between them."""

    log: Sequence[Event | Barrier]

    def read(
        self,
        *models: type[E],
        partition_key: str | None = None,  # noqa: ARG002 # one partition
    ) -> Iterator[E]:
        """Yield the events of these types."""
        return (event for event in self.log if isinstance(event, models))

    def read_in_steps(self, *models: type[E]) -> Iterator[tuple[E, StepTime | None]]:
        """Yield them with their steps."""
        found: list[E | Barrier | None] = []
        for each in self.log:
            if isinstance(each, Barrier) or isinstance(each, models):  # noqa: SIM101 # for mypy
                found.append(each)
        return in_steps([*found, None])

    def latest(
        self,
        model: type[E],
        partition_key: str | None = None,  # noqa: ARG002 # one partition
    ) -> dict[str, E]:
        """Return the last of each key."""
        return {event.record_key(): event for event in self.read(model)}


def charge(start_ms: int, end_ms: int, price: int | None, **more: Any) -> ChargeRated:
    """Return a charge of team ``t`` for job ``j``, by its price."""
    fields = {**_use(start_ms, end_ms), **_rated(price, None), **more}
    named = [str(fields[name]) for name in ("team", "job", "lease", "seq", "start_ms")]
    return _line({"charge_id": digest_of("charge", *named), **fields})


def correction(of: ChargeRated, start_ms: int, end_ms: int, **more: Any) -> ChargeRated:
    """Return a correction of a part of a charge; it needs both prices, and takes a reason."""
    fields = of.model_dump() | {"start_ms": start_ms, "end_ms": end_ms, "corrects": of.charge_id}
    fields |= {"reason": ChargeReason.LATE_PRICE, **more}
    prices = [
        str(fields[name]) for name in ("price_micro", "previous_price_micro", "price_barrier")
    ]
    fields["charge_id"] = digest_of("correction", of.charge_id, str(start_ms), *prices)
    return _line(fields)


def credit(of: ChargeRated, amount_numerator: int, **more: Any) -> ChargeCredited:
    """Return a credit for all of a charge."""
    shared = ChargeCredited.model_fields.keys() & ChargeRated.model_fields.keys()
    fields = {name: getattr(of, name) for name in shared}
    fields |= {
        "charge_id": digest_of("credit", of.charge_id, str(amount_numerator)),
        "credits": of.charge_id,
        "reason": CreditReason.DRAIN_FAILED,
        "session": "s-1",
        "amount_numerator": str(amount_numerator),
        **more,
    }
    return ChargeCredited.model_validate(fields)


def pending(start_ms: int, end_ms: int, **more: Any) -> ChargePending:
    """Return a part of use that waits for its price."""
    return ChargePending.model_validate({**_use(start_ms, end_ms), **more})


def prices(
    at_ms: int, reference: int | None, market: str = "m", **pools: int | None
) -> PricePublished:
    """Return the prices of a market from a time on, the pools by name."""
    return PricePublished(
        market=market,
        cycle=0,
        market_time_ms=at_ms,
        reference_price_micro=reference,
        pools=tuple(
            PoolPrice(
                pool=pool, price_micro=price, weight_micro_per_hour=1, local_income_per_hour=1
            )
            for pool, price in sorted(pools.items())
        ),
    )


def gap(start_ms: int, end_ms: int, policy: PriceGapPolicy, market: str = "m") -> PriceGapPublished:
    """Return that a market had no prices over a time."""
    return PriceGapPublished(
        market=market, cycle=9, start_ms=start_ms, end_ms=end_ms, policy=policy
    )


def cycle(
    at_ms: int, state: MarketState = MarketState.CLEARED, **pools: tuple[int, int]
) -> CycleRecorded:
    """Return a cycle of market ``m``; of each pool what it bought and got, in macc."""
    is_cleared = state is MarketState.CLEARED
    return CycleRecorded(
        market="m",
        cycle=0,
        barrier=0,
        market_time_ms=at_ms,
        state=state,
        reason="",
        input_digest="",
        late_inputs=(),
        settlement_barrier=-1,
        shared_supply_macc=0,
        reserve_price_micro=0,
        idle_own_supply="lend",
        margin="pro_rata",
        reference_price_micro=None,
        pools=tuple(
            PoolCycle(
                pool=pool,
                own_supply_macc=0,
                weight_micro_per_hour=1,
                local_income_per_hour=1,
                price_micro=None,
                price_below_micro=None,
                purchased_macc=purchased,
                allocated_macc=allocated,
            )
            for pool, (purchased, allocated) in sorted(pools.items())
        ),
        frame=FrameKind.KEY if is_cleared else FrameKind.NONE,
        frames=int(is_cleared),
        jobs=0,
        teams=0,
    )


def _use(start_ms: int, end_ms: int) -> dict[str, Any]:
    return {
        "team": "t",
        "pool": "p",
        "job": "j",
        "market": "m",
        "lease": "l",
        "node": "n",
        "attempt": 0,
        "seq": 0,
        "quantity_macc": 1000,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "limit_micro": None,
        "tariff_ppm": PPM,
        "prices_until_ms": end_ms,
    }


def _rated(price: int | None, previous: int | None) -> dict[str, Any]:
    return {
        "corrects": None,
        "reason": ChargeReason.USAGE,
        "work_class": WorkClass.MARKET,
        "billable": True,
        "price_micro": price,
        "previous_price_micro": previous,
        "price_barrier": 0,
    }


def _line(fields: dict[str, Any]) -> ChargeRated:
    difference = (fields["price_micro"] or 0) - (fields["previous_price_micro"] or 0)
    weight = fields["tariff_ppm"] * fields["quantity_macc"]
    amount = difference * weight * (fields["end_ms"] - fields["start_ms"])
    return ChargeRated.model_validate({**fields, "amount_numerator": str(amount)})


def invoice_line(kind: str, micro: int, **more: Any) -> dict[str, Any]:
    """Return the fields of a line of whole µcr."""
    return {
        "kind": kind,
        "team": "t",
        "job": "j",
        "market": "m",
        "work_class": "market",
        "price_micro": None,
        "period_start_ms": OCTOBER_MS,
        "first_ms": OCTOBER_MS,
        "last_ms": OCTOBER_MS + HOUR_MS,
        "macc_ms": str(1000 * HOUR_MS),
        "charges": 1,
        "amount_numerator": str(micro * UNITS),
        "amount_micro": micro,
        **more,
    }


def invoice(*lines: dict[str, Any], **more: Any) -> InvoicePublished:
    """Return an issued invoice of team ``t`` for October 2025 in Budapest."""
    fields = {
        "invoice_id": digest_of("invoice", str(more.get("pool")), str(more.get("team", "t"))),
        "revision": 0,
        "scope": "team",
        "pool": "p",
        "team": "t",
        "state": "issued",
        "held": False,
        "reason": "",
        "period": "month",
        "zone": "Europe/Budapest",
        "start_ms": OCTOBER_MS,
        "end_ms": NOVEMBER_MS,
        "due_ms": NOVEMBER_MS + HOUR_MS,
        "at_ms": NOVEMBER_MS + HOUR_MS,
        "lines": lines,
        "amount_numerator": str(sum(int(line["amount_numerator"]) for line in lines)),
        "payable_micro": sum(line["amount_micro"] for line in lines),
        "rejected_late_macc_ms": "0",
        "pending_macc_ms": "0",
    }
    return InvoicePublished.model_validate(fields | more)
