"""Settlement of boundaries: income minted, wallets capped, balances and budgets published."""

from collections.abc import Callable, Iterator
from typing import Final

from walras_billing.state import BillingState
from walras_contracts.event import Event

SETTLEMENT_MS: Final = 300_000
"""Distance of settlement boundaries: multiples of it (design §6)."""


def due_boundary_ms(market_time_ms: int, grace_ms: int) -> int:
    """Return the last boundary b that a step at t settles: b + grace ≤ t (step protocol §3)."""
    return (market_time_ms - grace_ms) // SETTLEMENT_MS * SETTLEMENT_MS


def settle(
    state: BillingState, market_time_ms: int, grace_ms: int, mine: Callable[[str], bool]
) -> Iterator[Event]:
    """Settle what is due, all lines rated so far included.

    Parameters
    ----------
    state
        Wallets and accounts of the partition.
    market_time_ms
        Market time of the step.
    grace_ms
        How long after a boundary it is settled.
    mine
        Whether a team belongs to this partition.

    Yields
    ------
    Event
        The balance and the budget of every team of the partition, by team, as of the last
        boundary settled.
    """
    due_ms = due_boundary_ms(market_time_ms, grace_ms)
    if state.settled_ms is None:
        # Before the first step nothing was earned: documents count from its market time on.
        state.settled_ms = due_ms
    if due_ms <= state.settled_ms:
        return
    while state.settled_ms < due_ms:
        _mint(state, state.settled_ms, state.settled_ms + SETTLEMENT_MS, mine)
        state.settled_ms += SETTLEMENT_MS
    hourly = state.accounts.hourly(due_ms)
    for team in sorted(state.wallets):
        wallet = state.wallets[team]
        income = hourly.get(team)
        yield wallet.balance(due_ms)
        yield wallet.budget(due_ms, market_time_ms, income is not None and income.amount_micro > 0)


def _mint(state: BillingState, start_ms: int, end_ms: int, mine: Callable[[str], bool]) -> None:
    """Credit the income of [start, end), then cap the wallets by the income at its end.

    A wallet without income at that instant is frozen, not capped to nothing: a team that moves
    pools may be in none for a while. Without income nothing can be bid from it.
    """
    for income in state.accounts.incomes(start_ms, end_ms):
        if mine(income.team):
            state.wallet(income.team, income.pool).earned += income.amount_micro
    hours = state.accounts.max_balance_hours(end_ms)
    hourly = state.accounts.hourly(end_ms)
    for team, current in hourly.items():
        if mine(team):
            state.wallet(team, current.pool).pool = current.pool
    for team in sorted(state.wallets):
        known = hourly.get(team)
        if known is not None and known.amount_micro > 0:
            state.wallet(team, known.pool).cap(int(known.amount_micro * hours))
