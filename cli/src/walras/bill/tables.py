"""A bill for the terminal: a summary, a table of jobs, a table of prices."""

from collections.abc import Sequence

from rich.table import Table

from walras.bill.document import CORRECTIONS, credit_micro, micro, paid_numerator
from walras.bill.team_bill import Figures, TeamBill
from walras.billing_log.amounts import (
    NUMERATOR_PER_MICRO,
    accelerator_hours_text,
    credits_text,
    half_even,
    mean_price_micro,
    rounded,
    scaled_text,
    share_text,
)
from walras_contracts.charges import CreditReason

NONE = "–"
QUANTILES = (("lowest", 0), ("quarter", 25), ("median", 50), ("three quarters", 75))
CORRECTION_WORDS = {"late_price": "late prices", "overlap": "overlaps"}
CREDIT_WORDS = {"drain_failed": "failed drains", "heartbeat_gap": "heartbeat gaps"}


def summary_lines(bill: TeamBill) -> list[str]:
    """Return the bill in words."""
    total = bill.total()
    rows = [
        ("charged", credits_text(micro(total.charged_numerator))),
        *(
            (
                f"corrected, {CORRECTION_WORDS[reason.value]}",
                credits_text(micro(total.corrections_numerator.get(reason, 0))),
            )
            for reason in CORRECTIONS
        ),
        *(
            (
                f"given back, {CREDIT_WORDS[reason.value]}",
                credits_text(credit_micro(total, reason)),
            )
            for reason in CreditReason
        ),
        ("to pay", credits_text(payable_micro(total))),
        ("paid use at the base price", credits_text(micro(total.base_numerator))),
    ]
    width = max(len(amount) for _, amount in rows)
    found = [f"team {bill.team}, {bill.window.words()}; amounts in credits", ""]
    found += [f"  {name:<28} {amount:>{width}}" for name, amount in rows]
    if total.base_macc_ms < total.paid_macc_ms:
        hours = accelerator_hours_text(total.paid_macc_ms - total.base_macc_ms)
        found.append(f"  (no base price is known for {hours} accelerator-hours of it)")
    attributed = total.own_macc_ms + total.shared_macc_ms
    shares = [share_text(part, attributed) for part in (total.own_macc_ms, total.shared_macc_ms)]
    words = "of the paid use that a cycle accounts for"
    found += ["", f"  own supply {shares[0]}, shared {shares[1]} {words}"]
    for name, macc_ms in (
        ("paid", total.paid_macc_ms),
        ("of it leaving (overhang)", total.overhang_macc_ms),
        ("opportunistic, price 0", total.opportunistic_macc_ms),
        ("unbilled (drain grace over)", total.unbilled_macc_ms),
        ("price no longer known", total.unpriced_macc_ms),
        ("price not known yet", total.pending_macc_ms),
    ):
        found.append(f"  {name:<28} {accelerator_hours_text(macc_ms):>{width}} accelerator-hours")
    return found


def payable_micro(figures: Figures) -> int:
    """Return what is left to pay, in µcr."""
    return rounded(figures.payable_numerator / NUMERATOR_PER_MICRO)


def jobs_table(bill: TeamBill) -> Table:
    """Return one row a job and market, the dearest first."""
    table = _table(
        f"jobs of {bill.team}: accelerator-hours, credits per accelerator-hour, credits",
        ("job", "market"),
        (
            *("paid h", "free h", "unbilled h", "pending h", "base price", "price paid"),
            *("at base", "charged", "corrected", "given back", "to pay", "own", "shared"),
        ),
    )
    for job, market, figures in bill.ordered():
        attributed = figures.own_macc_ms + figures.shared_macc_ms
        table.add_row(
            job,
            market,
            accelerator_hours_text(figures.paid_macc_ms),
            accelerator_hours_text(figures.opportunistic_macc_ms),
            accelerator_hours_text(figures.unbilled_macc_ms),
            accelerator_hours_text(figures.pending_macc_ms),
            _price(mean_price_micro(figures.base_numerator, figures.base_macc_ms)),
            _price(mean_price_micro(paid_numerator(figures), figures.paid_macc_ms)),
            _cents(micro(figures.base_numerator)),
            _cents(micro(figures.charged_numerator)),
            _cents(micro(sum(figures.corrections_numerator.values()))),
            _cents(sum(credit_micro(figures, reason) for reason in CreditReason)),
            _cents(payable_micro(figures)),
            share_text(figures.own_macc_ms, attributed) if attributed else NONE,
            share_text(figures.shared_macc_ms, attributed) if attributed else NONE,
        )
    return table


def prices_table(bill: TeamBill) -> Table:
    """Return how the prices paid spread over the time paid for, by market."""
    names = tuple(name for name, _ in QUANTILES)
    table = _table(
        "prices paid, by accelerator-time at each: credits per accelerator-hour",
        ("market",),
        ("prices", *names, "highest", "paid h"),
    )
    for market, figures in bill.by_market().items():
        if figures.paid_macc_ms:
            prices = sorted(figures.prices)
            table.add_row(
                market,
                str(len(prices)),
                *(_price(_price_at(figures, percent)) for _, percent in QUANTILES),
                _price(prices[-1]),
                accelerator_hours_text(figures.paid_macc_ms),
            )
    return table


def each_price_table(bill: TeamBill) -> Table:
    """Return the time at each price, by market."""
    table = _table(
        "time at each price",
        ("market",),
        ("credits per accelerator-hour", "accelerator-hours", "of the market's", "credits"),
    )
    for market, figures in bill.by_market().items():
        for price, (macc_ms, numerator) in sorted(figures.prices.items()):
            table.add_row(
                market,
                credits_text(price),
                accelerator_hours_text(macc_ms),
                share_text(macc_ms, figures.paid_macc_ms),
                credits_text(micro(numerator)),
            )
    return table


def _price_at(figures: Figures, percent: int) -> int:
    """Return the least price at or below which so much of the paid time lies."""
    reached = 0
    prices = sorted(figures.prices)
    for price in prices:
        reached += figures.prices[price][0]
        if 100 * reached >= percent * figures.paid_macc_ms:
            return price
    return prices[-1]


def _price(price_micro: int | None) -> str:
    return NONE if price_micro is None else scaled_text(_scaled_down(price_micro, 4), 4)


def _cents(amount_micro: int) -> str:
    return scaled_text(_scaled_down(amount_micro, 2), 2, commas=True)


def _scaled_down(amount_micro: int, places: int) -> int:
    return half_even(amount_micro, 10 ** (6 - places))


def _table(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="")
    for word in words:
        table.add_column(word)
    for number in numbers:
        table.add_column(number, justify="right")
    return table
