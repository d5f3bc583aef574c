"""What was recorded against what clearing the same market again gives: equal bit for bit."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from walras.replay.rebuilding import RebuiltMarket
from walras_clearing.arrays import ABSENT, ClearedArrays
from walras_contracts.cycle_frames import FoldedMarket
from walras_contracts.market import CycleRecorded


class Difference(NamedTuple):
    """A recorded figure that the replay does not give; units as in the field's name."""

    market: str
    cycle: int
    field: str
    recorded: int | None
    replayed: int | None

    def line(self) -> str:
        """Return it for people."""
        return (
            f"market {self.market}, cycle {self.cycle}: {self.field} was recorded as "
            f"{self.recorded}, replayed as {self.replayed}"
        )


def differences(
    head: CycleRecorded, fold: FoldedMarket, market: RebuiltMarket, result: ClearedArrays
) -> list[Difference]:
    """Return every recorded result that differs: prices, certificate, purchases, allocations.

    Parameters
    ----------
    head
        The record of the cycle: what each pool paid and got.
    fold
        What each team got.
    market
        Rebuilt of both.
    result
        Of clearing it again.
    """
    found = [*_of_prices(head, result), *_of_teams(fold, market, result)]
    return [Difference(head.market, head.cycle, *each) for each in found]


def has_results(head: CycleRecorded) -> bool:
    """Whether a record has prices or quantities, as only a cleared market does."""
    return head.reference_price_micro is not None or any(
        (pool.price_micro, pool.price_below_micro, pool.purchased_macc, pool.allocated_macc)
        != (None, None, 0, 0)
        for pool in head.pools
    )


Figures = tuple[str, int | None, int | None]


def _of_prices(head: CycleRecorded, result: ClearedArrays) -> Iterator[Figures]:
    pair = head.reference_price_micro, result.reference_price_micro
    if pair[0] != pair[1]:
        yield ("reference_price_micro", *pair)
    below = result.price_below_micro
    for number, pool in enumerate(head.pools):
        price = int(result.price_micro[number])
        replayed = {
            "price_micro": None if price == ABSENT else price,
            "price_below_micro": None if below is None else int(below[number]),
            "purchased_macc": int(result.purchased_macc[number]),
            "allocated_macc": int(result.pool_allocated_macc[number]),
        }
        for field, value in replayed.items():
            recorded = getattr(pool, field)
            if recorded != value:
                yield f"pools[{pool.pool}].{field}", recorded, value


def _of_teams(
    fold: FoldedMarket, market: RebuiltMarket, result: ClearedArrays
) -> Iterator[Figures]:
    for field in ("allocated_macc", "opportunistic_macc"):
        recorded: Any = np.array([getattr(fold.teams[t], field) for t in market.teams], np.int64)
        replayed: Any = getattr(result, field)
        for number in np.nonzero(recorded != replayed)[0].tolist():
            name = f"teams[{market.teams[number]}].{field}"
            yield name, int(recorded[number]), int(replayed[number])
