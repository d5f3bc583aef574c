"""Markets for tests: one generator for seeded runs and for property-based drawing.

The generator asks a `Pick` for every choice. Give it ``random.Random(seed).randint`` or a function
that draws from a shrinking strategy; both then explore the same markets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import Final, get_args

from walras_clearing.model import IdleOwnSupply, Job, Margin, Market, Pool, Team

Pick = Callable[[int, int], int]
"""Returns an integer between two bounds, both included."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Bounds of what `draw_market` draws.

    `size_macc`, `supply_macc`, `limit_micro`, `bid_micro_per_hour` and `reserve_micro` are largest
    values, money counted in units of `money`; about one value in five is 0 or, for a limit, none.
    """

    pools: int = 3
    teams: int = 5
    jobs: int = 3
    size_macc: int = 500
    supply_macc: int = 500
    limit_micro: int = 12
    bid_micro_per_hour: int = 4
    reserve_micro: int = 6
    money: int = 1


COARSE: Final = Shape()
"""Prices of a few ticks: ties and rounding everywhere."""

MEDIUM: Final = Shape(
    size_macc=8_000, supply_macc=8_000, limit_micro=900, bid_micro_per_hour=4_000, reserve_micro=300
)
"""Prices of hundreds of ticks, whole accelerators."""

FINE: Final = Shape(
    size_macc=64_000,
    supply_macc=40_000,
    limit_micro=40_000_000,
    bid_micro_per_hour=900_000_000,
    reserve_micro=2_000_000,
)
"""Prices above 10⁵ ticks, as real markets should have."""

FINE_TICKS: Final = Shape(money=10**8)
"""COARSE with a tick a hundred million times smaller: one tick moves less than one macc."""

EDGE: Final = Shape(
    pools=2,
    teams=4,
    jobs=2,
    size_macc=10**14,
    supply_macc=10**14,
    limit_micro=10**12,
    bid_micro_per_hour=2 * 10**14,
    reserve_micro=10**12,
)
"""The edges of the ranges of design §4."""

SHAPES: Final = (COARSE, COARSE, MEDIUM, MEDIUM, FINE, EDGE)
"""What `draw_market` chooses from when no shape is given."""


def draw_market(
    pick: Pick,
    shape: Shape | None = None,
    *,
    idle_own_supply: IdleOwnSupply | None = None,
    margin: Margin | None = None,
) -> Market:
    """Draw a small market with zeros, ties, empty pools and repeated limits."""
    shape = shape or SHAPES[pick(0, len(SHAPES) - 1)]
    # A few shared limits make ties inside a team, between teams and at the pool price.
    common = [pick(1, shape.limit_micro) * shape.money for _ in range(2)]
    pools = tuple(
        Pool(f"p{k}", _often_zero(pick, shape.supply_macc), pick(0, 2))
        for k in range(pick(1, shape.pools))
    )
    teams = tuple(
        Team(
            f"t{i}",
            pools[pick(0, len(pools) - 1)].pool,
            _often_zero(pick, shape.bid_micro_per_hour) * shape.money,
            tuple(
                Job(f"j{j}", _often_zero(pick, shape.size_macc), _limit(pick, shape, common))
                for j in range(pick(0, shape.jobs))
            ),
        )
        for i in range(pick(0, shape.teams))
    )
    return Market(
        shared_supply_macc=_often_zero(pick, shape.supply_macc),
        pools=pools,
        teams=teams,
        reserve_price_micro=pick(1, shape.reserve_micro) * shape.money if pick(0, 3) == 3 else 0,
        idle_own_supply=idle_own_supply or ("lend" if pick(0, 1) else "keep"),
        margin=margin or ("strict_order" if pick(0, 2) == 2 else "pro_rata"),
    )


def draw_scaled(pick: Pick) -> Market:
    """Draw a market whose quantities, money and limits are each of any scale in range."""

    def scale(decades: int) -> int:
        power: int = 10 ** pick(0, decades)
        return power

    shape = Shape(
        pools=pick(1, 4),
        teams=pick(1, 6),
        jobs=pick(1, 4),
        size_macc=scale(13),
        supply_macc=scale(14),
        limit_micro=scale(12),
        bid_micro_per_hour=scale(14),
        reserve_micro=scale(12),
    )
    return draw_market(pick, shape)


TINY_JOBS: Final = ((1050, 0), (350, 1), (700, 1), (1050, 2), (700, None))
"""Jobs of `tiny_markets`, as (size, limit): opportunistic, ties, larger, without limit."""

TINY_SUPPLIES: Final = tuple(
    product(((0, 0), (350, 0), (350, 1050), (1050, 350)), (0, 350, 1400), (0, 1))
)
"""Own supplies of both pools, shared supply and reserve price of `tiny_markets`."""

MOST_TINY_JOBS: Final = 4


def tiny_markets(own: tuple[int, int], shared: int, reserve: int) -> Iterator[Market]:
    """Every market of at most 4 jobs on 3 teams of 2 pools, over a small grid.

    One µcr per hour buys 1000 macc at the first tick and 500 at the second, so that budgets bind.
    The order of a queue is left out: no figure depends on it (property 14).
    """
    pools = (Pool("p0", own[0]), Pool("p1", own[1], 1))
    placed = tuple(product(TINY_JOBS, range(3)))
    for count in range(MOST_TINY_JOBS + 1):
        for chosen in combinations_with_replacement(placed, count):
            queues: tuple[list[Job], ...] = ([], [], [])
            for number, (job, team) in enumerate(chosen):
                queues[team].append(Job(f"j{number}", *job))
            for (lends, bids), margin in product(
                ((False, (1, 1, 1)), (True, (2, 0, 1))), get_args(Margin)
            ):
                yield Market(
                    shared_supply_macc=shared,
                    pools=pools,
                    teams=tuple(
                        Team(f"t{i}", "p1" if i == 2 else "p0", bids[i], tuple(queues[i]))
                        for i in range(3)
                    ),
                    reserve_price_micro=reserve,
                    idle_own_supply="lend" if lends else "keep",
                    margin=margin,
                )


def _often_zero(pick: Pick, high: int) -> int:
    return 0 if pick(0, 4) == 0 else pick(1, high)


def _limit(pick: Pick, shape: Shape, common: list[int]) -> int | None:
    kind = pick(0, 5)
    if kind == 0:
        return None
    if kind == 1:
        return 0
    return common[kind - 2] if kind < 4 else pick(1, shape.limit_micro) * shape.money
