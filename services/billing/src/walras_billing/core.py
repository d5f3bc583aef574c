"""What happens to usage and prices in a step."""

from collections.abc import Iterable

from walras_billing.prices import PriceHistory
from walras_billing.rating import charge_numerator, is_free
from walras_billing.sequences import Sequence
from walras_billing.state import PRICE, BillingState
from walras_contracts.market import PricePublished
from walras_contracts.work import UsageMetered


def take_price(state: BillingState, price: PricePublished) -> None:
    """Take a price into the history."""
    state.prices.put(price)
    state.changed[f"{PRICE}{price.market}/{price.market_time_ms}"] = None


def take_usage(state: BillingState, usage: UsageMetered, now_ms: int) -> bool:
    """Charge a usage record, or keep it until its price is known.

    Returns
    -------
    bool
        False for a repetition: the same source and number was taken before.
    """
    wallet = state.wallet(usage.team, usage.pool)
    source = f"{usage.lease}/{usage.node}/{usage.attempt}"
    sequence = wallet.sequences.get(source)
    if sequence is None:
        sequence = wallet.sequences[source] = Sequence()
    if not sequence.take(usage.seq, usage.end_ms):
        return False
    numerator = _rate(state.prices, usage, now_ms)
    if numerator is None:
        state.hold(usage)
    else:
        wallet.spent_numerator += numerator
    return True


def retry_pending(state: BillingState, markets: Iterable[str], now_ms: int) -> None:
    """Charge what waited for the prices of these markets, where they are known now."""
    for market in markets:
        for usage in list(state.pending.get(market, {}).values()):
            numerator = _rate(state.prices, usage, now_ms)
            if numerator is not None:
                state.wallet(usage.team, usage.pool).spent_numerator += numerator
                state.let_go(usage)


def _rate(prices: PriceHistory, usage: UsageMetered, now_ms: int) -> int | None:
    """Return the charge, None while a price is unknown or may still change: never a guess."""
    if is_free(usage):
        return 0
    if usage.end_ms > now_ms:
        return None
    spans = prices.spans(usage.market, usage.pool, usage.start_ms, usage.end_ms)
    return None if spans is None else charge_numerator(usage, spans)
