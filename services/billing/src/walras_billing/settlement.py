"""Settlement of boundaries: incomes, charges and credits posted, wallets capped (design §6)."""

from collections.abc import Iterator, Mapping

from walras_billing.ledger import EntryWriter, post_expiry, post_totals
from walras_billing.money_payloads import balance_output
from walras_billing.running_totals import Amount, plus
from walras_billing.state import BillingState
from walras_billing.time_held_payloads import usage_settled_outputs
from walras_billing.wallets import Wallet
from walras_contracts.quantities import SETTLEMENT_MS
from walras_runtime.records import Output

Incomes = Mapping[str, Mapping[str, Amount]]
"""What was earned, by pool and team."""


def due_boundary_ms(market_time_ms: int, grace_ms: int) -> int:
    """Return the last boundary b that a step at t settles: b + grace ≤ t (step protocol §3)."""
    return (market_time_ms - grace_ms) // SETTLEMENT_MS * SETTLEMENT_MS


def settle(
    state: BillingState, market_time_ms: int, grace_ms: int, partition: int
) -> Iterator[Output]:
    """Settle what is due, all lines rated so far included.

    Charges and credits are posted at the first boundary that is due, incomes and expiries at each.

    Parameters
    ----------
    state
        Wallets and accounts of the partition.
    market_time_ms
        Market time of the step.
    grace_ms
        How long after a boundary it is settled.
    partition
        Where the outputs go.

    Yields
    ------
    Output
        The entries of each boundary by team, pool and kind; then the balance of every team, by
        team, as of the last boundary; then the time that each job held since the last settlement.
    """
    due_ms = due_boundary_ms(market_time_ms, grace_ms)
    if state.settled_ms is None:
        # Before the first step nothing was earned: documents count from its market time on.
        state.settled_ms = due_ms
    if due_ms <= state.settled_ms:
        return
    while state.settled_ms < due_ms:
        boundary_ms = state.settled_ms + SETTLEMENT_MS
        yield from _boundary(state, state.settled_ms, boundary_ms, partition)
        state.settled_ms = boundary_ms
    members = state.accounts.members(due_ms)
    for team, wallet in state.by_team().items():
        output, balance_micro = balance_output(wallet, due_ms, partition)
        yield output
        member = members.get(team)
        is_empty = balance_micro <= 0 and not (member is not None and member.has_income)
        if is_empty != wallet.is_empty:
            wallet.is_empty = is_empty
            state.touch(wallet)
    for boundary_ms, sums in state.time_held.settle(due_ms, market_time_ms):
        yield from usage_settled_outputs(boundary_ms, sums, due_ms, partition)


def _boundary(
    state: BillingState, start_ms: int, boundary_ms: int, partition: int
) -> Iterator[Output]:
    """Settle one boundary: the income of [start, boundary), and all that is not posted yet."""
    incomes = _incomes(state, start_ms, boundary_ms)
    members = state.accounts.members(boundary_ms)
    for team, member in members.items():
        wallet = state.wallet(team, member.pool)
        if wallet.pool != member.pool:
            wallet.pool = member.pool
            state.touch(wallet)
    hours = state.accounts.max_balance_hours(boundary_ms)
    writer = EntryWriter(boundary_ms, partition)
    for team, wallet in state.by_team().items():
        found = members.get(team)
        # Without income a wallet is frozen, not capped to nothing: a team that moves pools may be
        # in none for a while, and nothing can be bid from it then.
        most_micro = None if found is None else found.most_micro(hours)
        entries = _entries(wallet, incomes, most_micro, writer)
        if entries:
            yield from entries
            state.touch(wallet)


def _incomes(state: BillingState, start_ms: int, end_ms: int) -> Incomes:
    """Return what was earned in [start, end); who earns has an account, which changes."""
    incomes: dict[str, dict[str, Amount]] = {}
    for team, pool, amount in state.accounts.incomes(start_ms, end_ms):
        of_pool = incomes.get(pool)
        if of_pool is None:
            of_pool = incomes[pool] = {}
        of_pool[team] = plus(of_pool[team], amount) if team in of_pool else amount
        state.touch(state.wallet(team, pool))
    return incomes


def _entries(
    wallet: Wallet, incomes: Incomes, most_micro: int | None, writer: EntryWriter
) -> list[Output]:
    """Post a team's totals and what is above its cap; return the entries by pool and kind."""
    team, home = wallet.team, wallet.pool
    entries: list[Output] = []
    last_of_home = 0
    for pool, account in wallet.by_pool():
        of_pool = incomes.get(pool)
        income = None if of_pool is None else of_pool.get(team)
        entries += post_totals(account, team, pool, income, writer)
        if pool == home:
            last_of_home = len(entries)
    if most_micro is not None:
        excess_micro = wallet.wallet_micro - most_micro
        expiry = post_expiry(wallet.accounts[home], team, home, excess_micro, writer)
        if expiry is not None:
            entries.insert(last_of_home, expiry)
    return entries
