"""A bill as JSON: exact numerators as text, µcr rounded half to even, unknown means as null."""

from fractions import Fraction
from typing import Any

from walras.bill.team_bill import Figures, TeamBill
from walras.bill.time_held import PARTS, TimeHeld
from walras.billing_log.amounts import (
    NUMERATOR_PER_MICRO,
    half_even,
    mean_price_micro,
    rounded,
)
from walras_contracts.charges import ChargeReason, CreditReason

CORRECTIONS = tuple(reason for reason in ChargeReason if reason is not ChargeReason.USAGE)


def bill_document(bill: TeamBill) -> dict[str, Any]:
    """Return the bill for ``--json``."""
    return {
        "team": bill.team,
        "from_ms": bill.window.from_ms,
        "to_ms": bill.window.to_ms,
        "total": figures_document(bill.total()),
        "jobs": [
            {"job": job, "market": market, **figures_document(figures)}
            for job, market, figures in bill.ordered()
        ],
        "markets": {
            market: figures_document(figures) for market, figures in bill.by_market().items()
        },
    }


def figures_document(figures: Figures) -> dict[str, Any]:
    """Return the figures of a job, a market or a team."""
    return {
        "paid_macc_ms": figures.paid_macc_ms,
        "overhang_macc_ms": figures.overhang_macc_ms,
        "opportunistic_macc_ms": figures.opportunistic_macc_ms,
        "unbilled_macc_ms": figures.unbilled_macc_ms,
        "unpriced_macc_ms": figures.unpriced_macc_ms,
        "pending_macc_ms": figures.pending_macc_ms,
        "own_macc_ms": figures.own_macc_ms,
        "shared_macc_ms": figures.shared_macc_ms,
        "unattributed_macc_ms": figures.unshared_macc_ms,
        "mean_base_price_micro": mean_price_micro(figures.base_numerator, figures.base_macc_ms),
        "mean_paid_price_micro": mean_price_micro(paid_numerator(figures), figures.paid_macc_ms),
        "base_known_macc_ms": figures.base_macc_ms,
        "base_micro": micro(figures.base_numerator),
        "paid_where_base_is_known_micro": micro(figures.base_paid_numerator),
        "charged_micro": micro(figures.charged_numerator),
        "corrections_micro": {
            reason.value: micro(figures.corrections_numerator.get(reason, 0))
            for reason in CORRECTIONS
        },
        "credits_micro": {reason.value: credit_micro(figures, reason) for reason in CreditReason},
        "payable_micro": rounded(figures.payable_numerator / NUMERATOR_PER_MICRO),
        "use_numerator": str(figures.use_numerator),
        "prices": [
            {"price_micro": price, "macc_ms": macc_ms, "amount_numerator": str(numerator)}
            for price, (macc_ms, numerator) in sorted(figures.prices.items())
        ],
        "time_held": held_document(figures.time_held),
    }


def held_document(time_held: TimeHeld | None) -> dict[str, int | None] | None:
    """Return how held time was used, with the shares of its parts; None: it is not known."""
    if time_held is None:
        return None
    document: dict[str, int | None] = {"held_macc_ms": time_held.held_macc_ms}
    for part in PARTS:
        document[f"{part}_macc_ms"] = time_held.part_macc_ms(part)
        document[f"{part}_ppm"] = time_held.share_ppm(part)
    return document


def micro(numerator: int) -> int:
    """Return µcr of an amount numerator."""
    return half_even(numerator, NUMERATOR_PER_MICRO)


def paid_numerator(figures: Figures) -> int:
    """Return what paid use costs now."""
    return sum(numerator for _, numerator in figures.prices.values())


def credit_micro(figures: Figures, reason: CreditReason) -> int:
    """Return what was given back for a reason, not above 0."""
    return rounded(figures.credits_numerator.get(reason, Fraction(0)) / NUMERATOR_PER_MICRO)
