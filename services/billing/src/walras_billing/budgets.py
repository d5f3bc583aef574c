"""Budgets: how they stand in the running windows, alerts, and whether a team may still spend."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from walras_billing.accounts import Member
from walras_billing.money_payloads import budget_output
from walras_billing.prices import View
from walras_billing.rating import RATE_DENOMINATOR, round_half_even
from walras_billing.spending import KINDS
from walras_billing.state import BillingState
from walras_billing.wallets import NO_STOP, Wallet
from walras_contracts.accounts import BillingPeriod
from walras_contracts.money import BudgetAlerted, BudgetState, StopReason
from walras_contracts.quantities import MICRO_MAX, PPM
from walras_runtime.records import Output, emit

PriceOf = Callable[[str, str], int | None]
_PLACES: Final = {kind: place for place, kind in enumerate(KINDS)}
_REASONS: Final = {
    BillingPeriod.HOUR: StopReason.HOUR,
    BillingPeriod.DAY: StopReason.DAY,
    BillingPeriod.MONTH: StopReason.MONTH,
}
_BY_LENGTH: Final = (BillingPeriod.MONTH, BillingPeriod.DAY, BillingPeriod.HOUR)
"""Of several budgets that are used up, the one that stops the team for longest is named."""


def watch_budgets(
    state: BillingState, now_ms: int, partition: int, *, settled: bool
) -> Iterator[Output]:
    """Look at the budgets that may stand otherwise than before this step.

    Parameters
    ----------
    state
        The partition, at the end of a step.
    now_ms
        Market time of the step.
    partition
        Where the outputs go.
    settled
        Whether the step settled a boundary: then the record of every team that has budgets is
        written, and of each whose last record says something else.

    Yields
    ------
    Output
        Alerts and, where written, budgets, by team.
    """
    members = state.members
    prices = _newest_prices(state, now_ms)
    found: dict[str, tuple[BudgetState, ...]] = {}
    for team in _to_look_at(state, settled=settled):
        wallet = state.wallets.get(team)
        budgets: tuple[BudgetState, ...] = ()
        if team in state.budgeted:
            member = members[team]
            if wallet is None:
                wallet = state.wallet(team, member.pool)
            budgets = found[team] = _stand(state, wallet, member, prices)
            for alert in _alerts(state, wallet, member, budgets, now_ms):
                yield emit(alert, partition=partition)
        elif wallet is None:
            continue
        reason = _reason(wallet, budgets)
        if reason is wallet.reason:
            continue
        state.stop(wallet, reason)
        if not settled:
            yield _told(state, wallet, now_ms, budgets, partition)
    if settled:
        for team, wallet in state.by_team().items():
            budgets = found.get(team, ())
            if budgets or wallet.told != _said(wallet.pool, wallet.reason, 0):
                yield _told(state, wallet, now_ms, budgets, partition)


def _told(
    state: BillingState,
    wallet: Wallet,
    now_ms: int,
    budgets: tuple[BudgetState, ...],
    partition: int,
) -> Output:
    """Return a team's record, and remember what it says."""
    said = _said(wallet.pool, wallet.reason, len(budgets))
    if wallet.told != said:
        wallet.told = said
        state.touch(wallet)
    return budget_output(wallet, state.boundary_ms, now_ms, budgets, partition)


@lru_cache(1 << 12)
def _said(pool: str, reason: StopReason, budgets: int) -> str:
    return f"{pool}/{reason.value}/{budgets}"


def _to_look_at(state: BillingState, *, settled: bool) -> list[str]:
    """Return the teams whose budgets may stand otherwise than they did, in id order.

    Looking at more teams than these changes nothing; it only takes time.
    """
    changed, state.look_at_all = state.look_at_all, False
    touched = [*state.spent]
    state.spent.clear()
    members = state.members
    # Every change of a document or a zone makes another table, so it is known by identity.
    if members is not state.looked_by:
        state.looked_by = members
        state.budgeted = {team: None for team, member in members.items() if member.budgets}
        changed = True
    if settled:
        # Without budgets, only an empty wallet stops a team.
        found = [
            team
            for team, wallet in state.by_team().items()
            if wallet.is_empty or wallet.reason is not NO_STOP
        ]
        return sorted({*found, *state.budgeted})
    if changed:
        return sorted(state.budgeted.keys() | state.stopped.keys())
    return sorted(team for team in touched if team in state.budgeted)


def _stand(
    state: BillingState, wallet: Wallet, member: Member, prices: PriceOf
) -> tuple[BudgetState, ...]:
    state.roll(wallet)
    spending = wallet.spending
    coming = state.unrated.cost(wallet.team, spending.windows, prices)
    found = []
    for budget in sorted(member.budgets, key=lambda budget: _PLACES[budget.window]):
        place = _PLACES[budget.window]
        start_ms, end_ms = spending.windows[place]
        found.append(
            BudgetState(
                window=budget.window,
                start_ms=start_ms,
                end_ms=end_ms,
                limit_micro=budget.limit_micro,
                spent_micro=_spent_micro(spending.numerators[place] + coming[place]),
                hard_stop=budget.hard_stop,
            )
        )
    return tuple(found)


def _spent_micro(numerator: int) -> int:
    """Return what is spent; no limit is above the largest amount, and no record can say more."""
    return max(-MICRO_MAX, min(round_half_even(numerator, RATE_DENOMINATOR), MICRO_MAX))


def _alerts(
    state: BillingState,
    wallet: Wallet,
    member: Member,
    budgets: tuple[BudgetState, ...],
    now_ms: int,
) -> Iterator[BudgetAlerted]:
    """Yield an alert for each threshold that is passed for the first time in its window."""
    thresholds = {budget.window: budget.alert_ppm for budget in member.budgets}
    alerted = wallet.spending.alerted
    for budget in budgets:
        for threshold_ppm in sorted(thresholds[budget.window]):
            name = (_PLACES[budget.window], threshold_ppm)
            is_passed = budget.spent_micro * PPM >= budget.limit_micro * threshold_ppm
            if not is_passed or name in alerted:
                continue
            alerted.append(name)
            state.touch(wallet)
            yield BudgetAlerted(
                team=wallet.team,
                pool=member.pool,
                threshold_ppm=threshold_ppm,
                budget=budget,
                at_ms=now_ms,
            )


def _reason(wallet: Wallet, budgets: tuple[BudgetState, ...]) -> StopReason:
    if wallet.is_empty:
        return StopReason.WALLET
    if not budgets:
        return NO_STOP
    used_up = {
        budget.window
        for budget in budgets
        if budget.hard_stop and budget.spent_micro >= budget.limit_micro
    }
    for kind in _BY_LENGTH:
        if kind in used_up:
            return _REASONS[kind]
    return NO_STOP


def _newest_prices(state: BillingState, now_ms: int) -> PriceOf:
    """Return what looks up the newest known price of a market for a pool; None: there is none."""
    found: dict[tuple[str, str], int | None] = {}
    all_known = View(now_ms + 1, 2**62)

    def price_micro(series: str, pool: str) -> int | None:
        key = (series, pool)
        if key not in found:
            try:
                _, found[key] = state.prices.in_force(series, pool, now_ms, all_known)
            except LookupError:
                found[key] = None
        return found[key]

    return price_micro
