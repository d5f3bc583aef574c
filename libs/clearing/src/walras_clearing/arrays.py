"""A market and its result as NumPy columns: the forms that scale to millions of jobs.

Pools and teams are numbers: pool k is the k-th in id order, team i any number below the number of
teams. Where teams are not numbered in id order, `MarketArrays.team_order` lists them in it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walras_clearing.model import IdleOwnSupply, Margin

Column = NDArray[np.int64]
Numbers = NDArray[np.int32]

NO_LIMIT: Final = 2**63 - 1
"""Stands for "any price": above every price that a market in range can reach."""

ABSENT: Final = -1
"""Stands for a price that does not exist."""


@dataclass(frozen=True, slots=True, eq=False)
class MarketArrays:
    """One auction in columns; units as in `Market`, one row a pool, a team or a job.

    ===========================  ======  ======================================================
    column                       per     content
    ===========================  ======  ======================================================
    ``own_supply_macc``          pool    own supply s
    ``pool_weight``              pool    orders leftovers and strict margins, µcr/h
    ``pool_of_team``             team    number of its pool (int32)
    ``bid_micro_per_hour``       team    what it may spend
    ``team_of_job``              job     number of its team (int32), in any order
    ``size_macc``                job
    ``limit_micro``              job     µcr per accelerator-hour; `NO_LIMIT` for none
    ===========================  ======  ======================================================
    """

    shared_supply_macc: int
    own_supply_macc: Column
    pool_weight: Column
    pool_of_team: Numbers
    bid_micro_per_hour: Column
    team_of_job: Numbers
    size_macc: Column
    limit_micro: Column
    reserve_price_micro: int = 0
    idle_own_supply: IdleOwnSupply = "keep"
    margin: Margin = "pro_rata"
    team_order: Numbers | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ClearedArrays:
    """What `ClearingResult` says, in columns; the certificate included.

    ``reference_price_micro`` is None where no shared supply exists, a pool price `ABSENT` where
    there is nothing to price. ``price_below_micro`` holds the pool prices one tick below the
    reference price, and is None where nothing has to be shown (see `Certificate`).
    """

    reference_price_micro: int | None
    price_micro: Column
    purchased_macc: Column
    pool_allocated_macc: Column
    price_below_micro: Column | None
    allocated_macc: Column
    opportunistic_macc: Column

    def surplus_nano_per_hour(self) -> list[int]:
        """Return per pool what its teams pay beyond its purchases, in exact integers."""
        reference = self.reference_price_micro or 0
        return [
            max(price, 0) * allocated - reference * purchased
            for price, allocated, purchased in zip(
                self.price_micro.tolist(),
                self.pool_allocated_macc.tolist(),
                self.purchased_macc.tolist(),
                strict=True,
            )
        ]
