"""Balances and budgets as records, made without building a model each.

They are the bytes of the models of ``walras_contracts.money`` (a test compares them); a settlement
writes one of each for every team. Names need no escaping by their pattern.
"""

from walras_billing.wallets import Wallet
from walras_contracts.money import BalancePublished, BudgetPublished, BudgetState, StopReason
from walras_runtime.records import Output


def balance_output(wallet: Wallet, boundary_ms: int, partition: int) -> tuple[Output, int]:
    """Return a wallet as of a settled boundary, as a record, and what is in it."""
    earned = spent = credited = expired = 0
    for account in wallet.accounts.values():
        earned += account.earned.rounded
        spent += account.spent_posted.rounded
        credited += account.credited_posted.rounded
        expired += account.expired_micro
    left = earned - spent + credited - expired
    payload = (
        f'{{"team":"{wallet.team}","pool":"{wallet.pool}","boundary_ms":{boundary_ms},'
        f'"wallet_micro":{left},"earned_micro":{earned},"spent_micro":{spent},'
        f'"credited_micro":{credited},"expired_micro":{expired}}}'
    )
    return _output(BalancePublished.TOPIC, BalancePublished.TYPE, wallet, payload, partition), left


def budget_output(
    wallet: Wallet, boundary_ms: int, at_ms: int, budgets: tuple[BudgetState, ...], partition: int
) -> Output:
    """Return whether a team may spend, and how its budgets stand, as a record."""
    exhausted = "false" if wallet.reason is StopReason.NONE else "true"
    states = ",".join([budget.model_dump_json() for budget in budgets])
    payload = (
        f'{{"team":"{wallet.team}","pool":"{wallet.pool}","boundary_ms":{boundary_ms},'
        f'"at_ms":{at_ms},"exhausted":{exhausted},"reason":"{wallet.reason.value}",'
        f'"budgets":[{states}]}}'
    )
    return _output(BudgetPublished.TOPIC, BudgetPublished.TYPE, wallet, payload, partition)


def _output(topic: str, kind: str, wallet: Wallet, payload: str, partition: int) -> Output:
    return Output(topic, wallet.team, wallet.team, kind, payload.encode(), partition)
