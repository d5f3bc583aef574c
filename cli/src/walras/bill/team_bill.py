"""The bill of a team: per job what was used, at which prices, and what it costs.

All use in the window counts, whenever it was rated. Amounts are exact numerators (3.6·10¹⁵ make a
µcr); use is macc·ms. The base price is the reference price: what shared supply cost.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from walras.bill.charged_use import ChargedUse, ChargeFold
from walras.bill.supply_shares import SupplyShares, shared_part
from walras.bill.time_held import TimeHeld, is_within
from walras.billing_log.window import Window
from walras.prices.history import MarketPrices
from walras_contracts.charges import ChargePending, ChargeReason, CreditReason
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import WorkClass


@dataclass(slots=True)
class Figures:
    """What a job, or a team, used and what it costs."""

    paid_macc_ms: int = 0
    """Charged at a price, 0 among them."""
    overhang_macc_ms: int = 0
    """Of it, in the time of a drain that is still charged."""
    opportunistic_macc_ms: int = 0
    """At price 0 on what nobody bought."""
    unbilled_macc_ms: int = 0
    """Free of charge: behind the billing grace of a drain."""
    unpriced_macc_ms: int = 0
    """Charged before, and its price is no longer known."""
    pending_macc_ms: int = 0
    """Not charged yet: its price is not known."""
    charged_numerator: int = 0
    """At the prices known first."""
    corrections_numerator: dict[ChargeReason, int] = field(default_factory=dict)
    credits_numerator: dict[CreditReason, Fraction] = field(default_factory=dict)
    base_numerator: int = 0
    """Paid use at the reference price, where it is known."""
    base_macc_ms: int = 0
    """Paid use for which it is known."""
    base_paid_numerator: int = 0
    """What that use costs at the prices paid."""
    own_macc_ms: int = 0
    """Paid use on the pool's own supply."""
    shared_macc_ms: int = 0
    """Paid use on what all may buy."""
    unshared_macc_ms: int = 0
    """Paid use at a time for which the pool's cycle says nothing."""
    prices: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Paid macc·ms and their numerator by price."""
    time_held: TimeHeld | None = None
    """How held time was used; None: nothing settled says it."""

    @property
    def use_numerator(self) -> int:
        """What use costs now, corrections included."""
        return self.charged_numerator + sum(self.corrections_numerator.values())

    @property
    def payable_numerator(self) -> Fraction:
        """What is left to pay."""
        return self.use_numerator + sum(self.credits_numerator.values(), Fraction(0))

    def add(self, other: "Figures") -> None:
        """Add another's figures."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for reason, numerator in other.corrections_numerator.items():
            known = self.corrections_numerator.get(reason, 0)
            self.corrections_numerator[reason] = known + numerator
        for cause, amount in other.credits_numerator.items():
            self.credits_numerator[cause] = self.credits_numerator.get(cause, Fraction(0)) + amount
        for price, (macc_ms, numerator) in other.prices.items():
            self._at_price(price, macc_ms, numerator)
        if other.time_held is not None:
            self.held().add(other.time_held)

    def held(self) -> TimeHeld:
        """Return how held time was used, from now on known."""
        if self.time_held is None:
            self.time_held = TimeHeld()
        return self.time_held

    def _at_price(self, price: int, macc_ms: int, numerator: int) -> None:
        known_macc_ms, known = self.prices.get(price, (0, 0))
        self.prices[price] = (known_macc_ms + macc_ms, known + numerator)

    def pay(self, macc_ms: int, price: int, numerator: int) -> None:
        """Add paid use at a price."""
        self.paid_macc_ms += macc_ms
        self._at_price(price, macc_ms, numerator)


_SUMMED = (
    *("paid_macc_ms", "overhang_macc_ms", "opportunistic_macc_ms", "unbilled_macc_ms"),
    *("unpriced_macc_ms", "pending_macc_ms", "charged_numerator", "base_numerator"),
    *("base_macc_ms", "base_paid_numerator", "own_macc_ms", "shared_macc_ms", "unshared_macc_ms"),
)


@dataclass(slots=True)
class TeamBill:
    """The bill; rows by job and market."""

    team: str
    window: Window
    rows: dict[tuple[str, str], Figures] = field(default_factory=dict)

    def row(self, job: str, market: str) -> Figures:
        """Return the figures of a job in a market, new ones at first."""
        return self.rows.setdefault((job, market), Figures())

    def hold(self, record: UsageSettled) -> None:
        """Take how a job of the team used what it held, if its five minutes are in the window."""
        if is_within(self.window, record):
            self.row(record.job, record.market).held().take(record)

    def ordered(self) -> list[tuple[str, str, Figures]]:
        """Return the rows, the dearest first, equal ones by job and market."""
        return sorted(
            ((job, market, figures) for (job, market), figures in self.rows.items()),
            key=lambda row: (-row[2].payable_numerator, row[0], row[1]),
        )

    def total(self) -> Figures:
        """Return the sum of all rows."""
        total = Figures()
        for _, _, figures in self.ordered():
            total.add(figures)
        return total

    def by_market(self) -> dict[str, Figures]:
        """Return the sums by market, in order."""
        found: dict[str, Figures] = {}
        for _, market, figures in self.ordered():
            found.setdefault(market, Figures()).add(figures)
        return dict(sorted(found.items()))


def team_bill(
    team: str,
    fold: ChargeFold,
    pending: Iterable[ChargePending],
    prices: dict[str, MarketPrices],
    shares: SupplyShares,
) -> TeamBill:
    """Put a bill together.

    Parameters
    ----------
    team
        Whose.
    fold
        All charge lines of the team that lie in the window.
    pending
        Parts of its use without a price; what was charged meanwhile does not count.
    prices
        Of each market that it used.
    shares
        Of the pools that it was in.
    """
    bill = TeamBill(team, fold.window)
    for use, start_ms, end_ms, price in fold.priced():
        figures = bill.row(use.job, use.market)
        macc_ms = use.quantity_macc * (end_ms - start_ms)
        if use.is_opportunistic:
            figures.opportunistic_macc_ms += macc_ms
        elif not use.billable:
            figures.unbilled_macc_ms += macc_ms
        elif price is None:
            figures.unpriced_macc_ms += macc_ms
        else:
            _pay(figures, use, (start_ms, end_ms), price)
            told = prices.get(use.market, MarketPrices())
            _compare(figures, use, (start_ms, end_ms), price, told)
            _attribute(figures, use, (start_ms, end_ms), shares)
    for use in fold.uses.values():
        _account(bill.row(use.job, use.market), use, fold.window)
    for _, job, market, credit in fold.credits:
        start_ms, end_ms = fold.window.clip(credit.start_ms, credit.end_ms)
        length_ms = credit.end_ms - credit.start_ms
        amount = Fraction(credit.amount_numerator * (end_ms - start_ms), length_ms)
        known = bill.row(job, market).credits_numerator
        known[credit.reason] = known.get(credit.reason, Fraction(0)) + amount
    for part in pending:
        start_ms, end_ms = fold.window.clip(part.start_ms, part.end_ms)
        if start_ms < end_ms and not fold.was_charged(part):
            figures = bill.row(part.job, part.market)
            figures.pending_macc_ms += part.quantity_macc * (end_ms - start_ms)
    return bill


def _pay(figures: Figures, use: ChargedUse, span: tuple[int, int], price: int) -> None:
    length_ms = span[1] - span[0]
    figures.pay(use.quantity_macc * length_ms, price, price * use.weight * length_ms)
    if use.work_class is WorkClass.OVERHANG:
        figures.overhang_macc_ms += use.quantity_macc * length_ms


def _compare(
    figures: Figures, use: ChargedUse, span: tuple[int, int], price: int, market: MarketPrices
) -> None:
    for start_ms, end_ms, reference in market.pieces(None, *span):
        if reference is not None:
            length_ms = end_ms - start_ms
            figures.base_macc_ms += use.quantity_macc * length_ms
            figures.base_numerator += reference * use.weight * length_ms
            figures.base_paid_numerator += price * use.weight * length_ms


def _attribute(
    figures: Figures, use: ChargedUse, span: tuple[int, int], shares: SupplyShares
) -> None:
    for start_ms, end_ms, purchased, allocated in shares.pieces(use.market, use.pool, *span):
        macc_ms = use.quantity_macc * (end_ms - start_ms)
        if not allocated:
            figures.unshared_macc_ms += macc_ms
            continue
        shared = shared_part(macc_ms, purchased, allocated)
        figures.shared_macc_ms += shared
        figures.own_macc_ms += macc_ms - shared


def _account(figures: Figures, use: ChargedUse, window: Window) -> None:
    start_ms, end_ms = window.clip(use.start_ms, use.end_ms)
    figures.charged_numerator += (use.first_price_micro or 0) * use.weight * (end_ms - start_ms)
    known = figures.corrections_numerator
    for each in use.corrections:
        start_ms, end_ms = window.clip(each.start_ms, each.end_ms)
        amount = each.difference_micro * use.weight * (end_ms - start_ms)
        known[each.reason] = known.get(each.reason, 0) + amount
