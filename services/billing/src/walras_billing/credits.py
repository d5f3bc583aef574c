"""Goodwill: charges that are given back, line by line, by lines of their own.

A failed drain gives back what its lease was charged for the time from the warning to the failure.
What was charged by the step that knows of the failure is given back charge by charge, corrections
included; each later line of that time, a late charge or a correction, is followed by a credit of
its own. So credits and charges of that time sum to zero after every step, and credits are a
function of the charge lines and of the step in which the failure became known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from walras_billing.drains import Claim
from walras_billing.rating import Rated, digest, weight
from walras_billing.usage_line import Span, UsageLine, subtracted
from walras_contracts.charges import CreditReason


@dataclass(frozen=True, slots=True)
class CreditLine:
    """What is given back of a charge line over [start, end).

    The amount is below 0, unless it follows a correction that lowered a charge.
    """

    charge_id: str
    credits: str
    reason: CreditReason
    session: str
    start_ms: int
    end_ms: int
    amount_numerator: int


def credit_id(reason: CreditReason, start_ms: int, credited: str) -> str:
    """Return the id of the credit of a charge line from an instant on.

    BLAKE2b of 16 bytes, in hex, of ``reason/start_ms/charge id``; personalised ``walras.credit``.
    """
    return digest(b"walras.credit", f"{reason.value}/{start_ms}/{credited}")


def drain_credits(
    line: UsageLine, steps: Sequence[Rated], claims: Sequence[Claim]
) -> Iterator[tuple[int, CreditLine]]:
    """Yield what failed drains give back of a line.

    Parameters
    ----------
    line
        The use.
    steps
        All that it was charged so far, as :func:`walras_billing.rating.rated` yields it.
    claims
        The time that is given back.

    Yields
    ------
    tuple
        The barrier from whose step on a credit is given, if the line was rated by then, and it.
    """
    for claim in claims:
        span = (claim.start_ms, claim.end_ms)
        known = [step for step in steps if step.barrier <= claim.barrier]
        for credit in _pieces(line, known[-1], span, CreditReason.DRAIN_FAILED, claim.session):
            yield claim.barrier, credit
        for step in steps[len(known) :]:
            for charge in step.lines:
                rate = charge.amount_numerator // (charge.end_ms - charge.start_ms)
                whole = (charge.start_ms, charge.end_ms)
                for credit in _given(
                    (charge.charge_id, CreditReason.DRAIN_FAILED, claim.session), whole, span, rate
                ):
                    yield step.barrier, credit


def gap_credits(line: UsageLine, last: Rated, claims: Sequence[Claim]) -> Iterator[CreditLine]:
    """Yield what a sequence gap behind a line gives back: all of it that no failed drain did.

    Parameters
    ----------
    line
        The last record before the gap.
    last
        What it is charged.
    claims
        The time that failed drains gave back already.
    """
    spans: tuple[Span, ...] = ((line.start_ms, line.end_ms),)
    for claim in claims:
        spans = subtracted(spans, claim.start_ms, claim.end_ms)
    for span in spans:
        yield from _pieces(line, last, span, CreditReason.HEARTBEAT_GAP, "")


def _pieces(
    line: UsageLine, step: Rated, span: Span, reason: CreditReason, session: str
) -> Iterator[CreditLine]:
    for piece in step.pieces:
        if piece.charge_id is None or piece.price_micro is None:
            continue
        rate = piece.price_micro * weight(line)
        whole = (piece.start_ms, piece.end_ms)
        yield from _given((piece.charge_id, reason, session), whole, span, rate)


def _given(
    name: tuple[str, CreditReason, str], whole: Span, span: Span, rate: int
) -> Iterator[CreditLine]:
    """Give back the part of a charge that lies in a span, at its numerator per ms."""
    start_ms, end_ms = max(whole[0], span[0]), min(whole[1], span[1])
    if start_ms < end_ms and rate:
        credited, reason, session = name
        yield CreditLine(
            credit_id(reason, start_ms, credited),
            credited,
            reason,
            session,
            start_ms,
            end_ms,
            -rate * (end_ms - start_ms),
        )
