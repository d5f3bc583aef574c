"""Settlement of boundaries: incomes, charges and credits posted, wallets capped (design §6)."""

from collections.abc import Iterator, Mapping

from walras_billing.ledger import SIDES, Entry, EntryWriter, post_expiry, post_totals
from walras_billing.money_payloads import balance_output
from walras_billing.running_totals import Amount, plus
from walras_billing.state import BillingState
from walras_billing.time_held_payloads import usage_settled_outputs
from walras_billing.wallets import Wallet
from walras_contracts.quantities import SETTLEMENT_MS
from walras_runtime.records import Output

_PLACES = {kind: place for place, kind in enumerate(SIDES)}


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
    for team in sorted(state.wallets):
        wallet = state.wallets[team]
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
    for team in sorted(state.wallets):
        wallet, found, earned = state.wallets[team], members.get(team), incomes.get(team, {})
        # Without income a wallet is frozen, not capped to nothing: a team that moves pools may be
        # in none for a while, and nothing can be bid from it then.
        most_micro = found.most_micro(hours) if found is not None and found.has_income else None
        entries = _entries(wallet, earned, most_micro)
        for entry in entries:
            yield writer.output(entry, team)
        if entries or earned:
            state.touch(wallet)


def _incomes(state: BillingState, start_ms: int, end_ms: int) -> dict[str, dict[str, Amount]]:
    """Return what was earned in [start, end) by team and pool; each has an account then."""
    incomes: dict[str, dict[str, Amount]] = {}
    for team, pool, amount in state.accounts.incomes(start_ms, end_ms):
        of_team = incomes.get(team)
        if of_team is None:
            incomes[team] = {pool: amount}
        else:
            of_team[pool] = plus(of_team[pool], amount) if pool in of_team else amount
        state.wallet(team, pool)
    return incomes


def _entries(wallet: Wallet, incomes: Mapping[str, Amount], most_micro: int | None) -> list[Entry]:
    """Post a team's totals, then what its wallet has above its cap; return the entries in order."""
    team = wallet.team
    entries: list[Entry] = []
    for pool, account in wallet.by_pool():
        entries += post_totals(account, team, pool, incomes.get(pool))
    if most_micro is not None:
        excess_micro = wallet.wallet_micro - most_micro
        if excess_micro > 0:
            expiry = post_expiry(wallet.account(wallet.pool), team, wallet.pool, excess_micro)
            if expiry is not None:
                entries.append(expiry)
                entries.sort(key=_by_pool_and_kind)
    return entries


def _by_pool_and_kind(entry: Entry) -> tuple[str, int]:
    return entry.pool, _PLACES[entry.kind]
