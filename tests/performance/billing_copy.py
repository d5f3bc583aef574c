"""Billing's rival: the same step loop around a stage that decodes, encodes and remembers nothing.

It reads and writes the topics of billing with the same batches and transactions, and makes of each
usage record one charge record of the same fields, by generated code (msgspec) and as fast as that
goes. What it leaves out is what billing does: the price, the amount, the name of the charge, who
had which number before, the record of its state, ranges and patterns of the fields.
"""

from dataclasses import replace
from typing import Final

import msgspec

from walras_billing.settings import Settings
from walras_billing.wiring import build
from walras_contracts.charges import ChargeRated
from walras_contracts.work import UsageMetered
from walras_runtime.records import Output, Record, Step, StepResult
from walras_runtime.service import service_main
from walras_runtime.stage import StageSpec

GRACE_MS: Final = 60_000


class Usage(msgspec.Struct, gc=False):
    """A usage record, by types alone."""

    lease: str
    node: str
    attempt: int
    seq: int
    team: str
    pool: str
    job: str
    market: str
    quantity_macc: int
    start_ms: int
    end_ms: int
    work_class: str
    billable: bool
    limit_micro: int | None
    tariff_ppm: int


class Charge(msgspec.Struct, gc=False):
    """A charge record, field by field as :class:`walras_contracts.charges.ChargeRated`."""

    team: str
    pool: str
    job: str
    market: str
    lease: str
    node: str
    attempt: int
    seq: int
    quantity_macc: int
    start_ms: int
    end_ms: int
    limit_micro: int | None
    tariff_ppm: int
    prices_until_ms: int
    charge_id: str
    corrects: str | None
    reason: str
    work_class: str
    billable: bool
    price_micro: int | None
    previous_price_micro: int | None
    price_barrier: int
    amount_numerator: str


_DECODER: Final = msgspec.json.Decoder(Usage)
_ENCODER: Final = msgspec.json.Encoder()


def copied(record: Record, partition: int) -> Output:
    """Return a charge record with the fields of a usage record."""
    usage = _DECODER.decode(record.value or b"")
    charge_id = f"{record.offset:032x}"
    charge = Charge(
        usage.team,
        usage.pool,
        usage.job,
        usage.market,
        usage.lease,
        usage.node,
        usage.attempt,
        usage.seq,
        usage.quantity_macc,
        usage.start_ms,
        usage.end_ms,
        usage.limit_micro,
        usage.tariff_ppm,
        usage.end_ms + GRACE_MS,
        charge_id,
        None,
        "usage",
        usage.work_class,
        usage.billable,
        2_000_000,
        None,
        1,
        "960000000000000000000",
    )
    payload = _ENCODER.encode(charge)
    return Output(ChargeRated.TOPIC, charge_id, usage.team, ChargeRated.TYPE, payload, partition)


class BillingCopyStage:
    """Turns each usage record into a charge record."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def fold(self, record: Record) -> None:
        """Accounts are not looked at."""

    def load(self, key: str, value: bytes) -> None:
        """There is no state."""

    def step(self, step: Step) -> StepResult:
        """Copy the usage of one interval."""
        partition = self._partition
        return StepResult(
            [copied(record, partition) for record in step.records[UsageMetered.TOPIC]]
        )


def copying(settings: Settings) -> StageSpec:
    """Return billing's wiring around the copying stage."""
    return replace(build(settings), build=BillingCopyStage)


def main() -> None:
    """Run as billing does."""
    service_main(Settings, copying)


if __name__ == "__main__":
    main()
