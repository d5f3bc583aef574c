"""Times for which a market has no prices though it should have had them (step protocol §2).

A price is meant for one cycle. Where more than two cycles in a row brought none, be it that nothing
ran, that they were skipped or that the market was halted, the cycle that clears it next says so,
and by which policy use in that time is charged. A market whose gate is not on has no prices on
purpose.
"""

from collections.abc import Iterator
from typing import Final

from walras_clearing_service.cycle import MarketOutcome
from walras_clearing_service.model import CycleInput
from walras_clearing_service.state import ClearingState
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.market import MarketState, PriceGapPublished
from walras_runtime.records import StateChange

CYCLES_WITHOUT_A_GAP: Final = 2
"""So many cycles without prices the last ones stand for."""


def price_gap(
    state: ClearingState, cycle_input: CycleInput, market: str, cycle_ms: int
) -> PriceGapPublished | None:
    """Return the gap that ends with a cycle that clears a market; None: there is none.

    Parameters
    ----------
    state
        Knows when the market last had prices, and its policy.
    cycle_ms
        Market time between two cycles.
    """
    last_ms = state.priced_ms.get(market)
    if last_ms is None:
        return None
    start_ms, end_ms = last_ms + cycle_ms, cycle_input.market_time_ms
    if end_ms - start_ms <= CYCLES_WITHOUT_A_GAP * cycle_ms:
        return None
    document = state.accounts.in_effect(end_ms).markets.get(market)
    policy = document.price_gap if document is not None else PriceGapPolicy.UNBILLED
    return PriceGapPublished(
        market=market, cycle=cycle_input.cycle, start_ms=start_ms, end_ms=end_ms, policy=policy
    )


def remember_priced(
    state: ClearingState, cycle_input: CycleInput, outcomes: tuple[MarketOutcome, ...]
) -> Iterator[StateChange]:
    """Remember which markets need no prices from before this cycle on."""
    for outcome in outcomes:
        if outcome.state in (MarketState.CLEARED, MarketState.OFF):
            yield state.remember_priced(outcome.market.market, cycle_input.market_time_ms)
    for market in sorted(state.priced_ms.keys() - state.supply.keys()):
        yield state.remember_priced(market, None)
