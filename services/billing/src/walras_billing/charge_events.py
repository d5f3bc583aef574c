"""Credits, pending parts, faults and gaps as events.

Charge lines are made without a model, in :mod:`walras_billing.charge_encoding`.
"""

from typing import Any

from walras_billing.credits import CreditLine
from walras_billing.decoding import said_by
from walras_billing.rating import Piece
from walras_billing.usage_faults import Fault
from walras_billing.usage_line import Terms, UsageLine
from walras_contracts.charges import (
    ChargeCredited,
    ChargePending,
    GapEnd,
    UsageGapReported,
    UsageQuarantined,
    pending_key,
)
from walras_contracts.identifiers import recorded
from walras_runtime.records import Output, Record, emit, tombstone


def _of_usage(line: UsageLine, start_ms: int, end_ms: int) -> dict[str, Any]:
    """Return the fields that all events about a part of a usage record have in common."""
    terms = line.terms
    return {
        "team": terms.team,
        "pool": terms.pool,
        "job": terms.job,
        "market": terms.market,
        "lease": terms.lease,
        "node": terms.node,
        "attempt": terms.attempt,
        "seq": line.seq,
        "quantity_macc": terms.quantity_macc,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "limit_micro": terms.limit_micro,
        "tariff_ppm": terms.tariff_ppm,
        "prices_until_ms": line.until_ms,
    }


def credit_event(line: UsageLine, credit: CreditLine) -> ChargeCredited:
    """Return a credit as it goes to ``charges``."""
    return ChargeCredited(
        **_of_usage(line, credit.start_ms, credit.end_ms),
        charge_id=credit.charge_id,
        credits=credit.credits,
        reason=credit.reason,
        session=credit.session,
        amount_numerator=str(credit.amount_numerator),
    )


def pending_outputs(
    line: UsageLine, before: tuple[Piece, ...], after: tuple[Piece, ...], partition: int
) -> list[Output]:
    """Return what changes on ``charges.pending`` when a line's pieces change.

    A part has a record for as long as its price is not known.
    """
    waited = {piece.start_ms: piece for piece in before if piece.price_micro is None}
    waiting = {piece.start_ms: piece for piece in after if piece.price_micro is None}
    outputs: list[Output] = []
    for start_ms in sorted(waited.keys() - waiting.keys()):
        ended = tombstone(
            ChargePending, pending_key(line.terms.source, line.seq, start_ms), line.terms.team
        )
        ended.partition = partition
        outputs.append(ended)
    for start_ms, piece in sorted(waiting.items()):
        if waited.get(start_ms) != piece:
            outputs.append(emit(_pending_event(line, piece), partition=partition))
    return outputs


def _pending_event(line: UsageLine, piece: Piece) -> ChargePending:
    return ChargePending(
        **_of_usage(line, piece.start_ms, piece.end_ms),
    )


def quarantined_record(record: Record, fault: Fault) -> UsageQuarantined:
    """Return that a whole record is not charged, with what it says of its size."""
    team, pool, macc_ms = said_by(record)
    return UsageQuarantined(
        code=fault.code.value,
        reason=recorded(fault.reason, 500),
        record=recorded(record.key, 500),
        team=team,
        pool=pool,
        macc_ms=None if macc_ms is None else str(macc_ms),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        start_ms=None,
        end_ms=None,
    )


def quarantined_span(
    line: UsageLine, fault: Fault, span: tuple[int, int], noticed: tuple[str, int, int]
) -> UsageQuarantined:
    """Return that a part of a line is not charged.

    ``noticed`` is the topic, partition and offset of the record that showed it; offset -1: time
    did.
    """
    topic, partition, offset = noticed
    return UsageQuarantined(
        code=fault.code.value,
        reason=fault.reason,
        record=line.key,
        team=line.terms.team,
        pool=line.terms.pool,
        macc_ms=str(line.terms.quantity_macc * (span[1] - span[0])),
        topic=topic,
        partition=partition,
        offset=offset,
        start_ms=span[0],
        end_ms=span[1],
    )


def gap_event(terms: Terms, numbers: tuple[int, int], ended: GapEnd) -> UsageGapReported:
    """Return what became of numbers that were passed over."""
    return UsageGapReported(
        team=terms.team,
        lease=terms.lease,
        node=terms.node,
        attempt=terms.attempt,
        first_seq=numbers[0],
        end_seq=numbers[1],
        ended=ended,
    )
