"""Prices too coarse to share supply by: a tick then moves more than anybody would notice to buy."""

from typing import Final

import numpy as np

from walras_clearing.arrays import ClearedArrays
from walras_clearing.model import ClearingResult

COARSE_BELOW_MICRO: Final = 1000
"""Pool prices above 0 and below it waste supply (design §4; measured in market theory §11: at 4 µcr
a quarter of the supply stayed unsold)."""


def coarse_pools(result: ClearingResult) -> tuple[str, ...]:
    """Return the pools whose price is coarse, in id order."""
    return tuple(
        name
        for name, pool in result.pools.items()
        if pool.price_micro is not None and 0 < pool.price_micro < COARSE_BELOW_MICRO
    )


def coarse_pool_numbers(result: ClearedArrays) -> tuple[int, ...]:
    """Return the numbers of the pools whose price is coarse."""
    price = result.price_micro
    return tuple(np.flatnonzero((price > 0) & (price < COARSE_BELOW_MICRO)).tolist())
