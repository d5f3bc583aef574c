"""`clear`: validate, pack, run the kernel, unpack."""

import numpy as np

from walras_clearing.guess import curves
from walras_clearing.kernel import kernel
from walras_clearing.model import ClearingResult, Market, PriceHint
from walras_clearing.pack import Column, Columns, pack, unpack
from walras_clearing.validate import validate

GUESS_MIN_ROWS = 256
"""Below this many jobs the searches are cheaper than the estimate of where to start them."""


def clear(market: Market, *, hint: PriceHint | None = None) -> ClearingResult:
    """Clear one market exactly (design §4).

    Parameters
    ----------
    market
        The market; prices in µcr per accelerator-hour, quantities in macc, bids in µcr per hour.
    hint
        Prices near the expected ones, such as those of the last cycle. It saves time and changes
        nothing else.

    Returns
    -------
    ClearingResult
        Prices, quantities and the certificate; a function of `market` alone, bit for bit.

    Raises
    ------
    ClearingInputError
        When the market is outside the ranges of design §4.
    """
    validate(market)
    columns = pack(market)
    price, pools = _start(columns, hint)
    return unpack(columns, kernel.clear_columns(columns, price, pools))


def _start(columns: Columns, hint: PriceHint | None) -> tuple[int, Column]:
    """Choose the reference price and pool prices to start the searches from."""
    if hint is not None:
        known = hint.pool_prices_micro
        prices = [_in_range(known.get(pool, 0)) for pool in columns.pool_ids]
        return _in_range(hint.reference_price_micro), np.array(prices, dtype=np.int64)
    if len(columns.limit) < GUESS_MIN_ROWS:
        return 0, np.zeros(len(columns.pool_ids), dtype=np.int64)
    return kernel.guess_prices(columns, curves(columns))


def _in_range(price: int) -> int:
    return max(0, min(price, 10**18))
