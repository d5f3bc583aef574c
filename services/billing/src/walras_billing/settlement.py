"""Settlement of boundaries: incomes, charges and credits posted, wallets capped (design §6)."""

from collections.abc import Mapping

from walras_billing.accounts import Incomes
from walras_billing.ledger import EntryWriter, post_expiry, post_totals
from walras_billing.money_payloads import balance_output
from walras_billing.state import BillingState
from walras_billing.time_held_payloads import usage_settled_outputs
from walras_billing.wallets import Sums, Wallet
from walras_contracts.identifiers import bordered
from walras_contracts.quantities import SETTLEMENT_MS
from walras_runtime.records import Output


def due_boundary_ms(market_time_ms: int, grace_ms: int) -> int:
    """Return the last boundary b that a step at t settles: b + grace ≤ t (step protocol §3)."""
    return (market_time_ms - grace_ms) // SETTLEMENT_MS * SETTLEMENT_MS


def settle(state: BillingState, market_time_ms: int, grace_ms: int, partition: int) -> list[Output]:
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

    Returns
    -------
    list
        The entries of each boundary by team, pool and kind; then the balance of every team, by
        team, as of the last boundary; then the time that each job held since the last settlement.
    """
    due_ms = due_boundary_ms(market_time_ms, grace_ms)
    if state.settled_ms is None:
        # Before the first step nothing was earned: documents count from its market time on.
        state.settled_ms = due_ms
    outputs: list[Output] = []
    if due_ms <= state.settled_ms:
        return outputs
    balances: list[Output] = []
    while state.settled_ms < due_ms:
        boundary_ms = state.settled_ms + SETTLEMENT_MS
        writer = EntryWriter(boundary_ms, partition, outputs)
        balances += _boundary(state, boundary_ms, writer, closes=boundary_ms == due_ms)
        state.settled_ms = boundary_ms
    outputs += balances
    for boundary_ms, sums in state.time_held.settle(due_ms, market_time_ms):
        outputs += usage_settled_outputs(boundary_ms, sums, due_ms, partition)
    return outputs


def _boundary(
    state: BillingState, boundary_ms: int, writer: EntryWriter, *, closes: bool
) -> list[Output]:
    """Settle one boundary: the income of the interval before it, and all that is not posted yet.

    Its entries are written; if it ``closes`` the settlement the wallets are, too, and the balances
    are returned. All of that is done in one walk, since wallets lie far apart in memory.
    """
    incomes = state.accounts.incomes(boundary_ms - SETTLEMENT_MS, boundary_ms)
    members = state.accounts.members(boundary_ms)
    state.open_wallets(incomes, members)
    hours = state.accounts.max_balance_hours(boundary_ms)
    balances: list[Output] = []
    for team, wallet in state.by_team().items():
        member = members.get(team)
        # Without income a wallet is frozen, not capped to nothing: a team that moves pools may be
        # in none for a while, and nothing can be bid from it then.
        most_micro = None if member is None else member.most_micro(hours)
        is_changed, sums = _post(wallet, incomes, most_micro, writer)
        if closes:
            balances.append(balance_output(wallet, sums, boundary_ms, writer.partition))
            is_empty = sums[0] <= 0 and most_micro is None
            if is_empty != wallet.is_empty:
                wallet.is_empty = is_empty
                is_changed = True
        if is_changed and closes:
            state.write(wallet)
        elif is_changed:
            state.touch(wallet)
    return balances


def _post(
    wallet: Wallet, incomes: Mapping[str, Incomes], most_micro: int | None, writer: EntryWriter
) -> tuple[bool, Sums]:
    """Post a team's totals and what is above its cap, by pool and kind.

    Return whether anything of the wallet changed, and what all its entries sum to.
    """
    team, home, written = wallet.team, wallet.pool, writer.written
    whose = (team, bordered(team))
    last_of_home = len(written)
    is_changed = False
    for pool, account in wallet.by_pool():
        of_pool = incomes.get(pool)
        income = None if of_pool is None else of_pool.get(team)
        is_changed |= post_totals(account, whose, income, writer.words_of(pool), writer)
        if pool == home:
            last_of_home = len(written)
    sums = wallet.sums()
    if most_micro is not None and sums[0] > most_micro:
        account, excess_micro = wallet.accounts[home], sums[0] - most_micro
        post_expiry(account, whose, excess_micro, writer.words_of(home), writer)
        # Entries are in order by pool, and there may be some of pools behind its home.
        written.insert(last_of_home, written.pop())
        is_changed, sums = True, wallet.sums()
    return is_changed, sums
