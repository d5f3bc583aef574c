"""Balances and budgets as records, made without building a model each.

They are the bytes of the models of ``walras_contracts.money`` (a test compares them); a settlement
writes one of each for every team. Names need no escaping by their pattern.
"""

from typing import Final

from walras_billing.wallets import NO_STOP, Sums, Wallet
from walras_contracts.money import BalancePublished, BudgetPublished, BudgetState
from walras_runtime.records import Output

_BALANCES: Final = BalancePublished.TOPIC
_BALANCE: Final = BalancePublished.TYPE
_BUDGETS: Final = BudgetPublished.TOPIC
_BUDGET: Final = BudgetPublished.TYPE


def balance_output(wallet: Wallet, sums: Sums, boundary_ms: int, partition: int) -> Output:
    """Return a wallet as of a settled boundary, with what its entries sum to, as a record."""
    left, earned, spent, credited, expired = sums
    payload = (
        f'{{"team":"{wallet.team}","pool":"{wallet.pool}","boundary_ms":{boundary_ms},'
        f'"wallet_micro":{left},"earned_micro":{earned},"spent_micro":{spent},'
        f'"credited_micro":{credited},"expired_micro":{expired}}}'
    )
    team = wallet.team
    return Output(_BALANCES, team, team, _BALANCE, payload.encode(), partition)


def budget_output(
    wallet: Wallet, boundary_ms: int, at_ms: int, budgets: tuple[BudgetState, ...], partition: int
) -> Output:
    """Return whether a team may spend, and how its budgets stand, as a record."""
    reason = wallet.reason
    exhausted = "false" if reason is NO_STOP else "true"
    states = ",".join([budget.model_dump_json() for budget in budgets])
    payload = (
        f'{{"team":"{wallet.team}","pool":"{wallet.pool}","boundary_ms":{boundary_ms},'
        f'"at_ms":{at_ms},"exhausted":{exhausted},"reason":"{reason}",'
        f'"budgets":[{states}]}}'
    )
    team = wallet.team
    return Output(_BUDGETS, team, team, _BUDGET, payload.encode(), partition)
