"""What billing reads in its bench: accounts, moving prices, and use by any number of leases.

A step is a minute. All that is drawn is a function of the seed. Usage is made by the template of
the simulated fleet, so its bytes are those that billing meets.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.identifiers import partition_of
from walras_contracts.market import PoolPrice, PricePublished
from walras_contracts.quantities import PPM
from walras_contracts.work import UsageMetered, WorkClass
from walras_node_agent.metering import UsageTemplate
from walras_runtime.records import Barrier, Output

START_MS = 1_800_000_000_000
"""Market time of barrier 0: a settlement boundary."""
MINUTE_MS = 60_000
MARKETS = ("a100-80gb", "h100-80gb", "v100-32gb")
WEIGHT_MICRO_PER_HOUR = 10**12
BASE_PRICE_MICRO = 2_000_000
PRICE_STEP_MICRO = 1_000
CLASSES = {WorkClass.MARKET: 85, WorkClass.OVERHANG: 5, WorkClass.OPPORTUNISTIC: 10}
"""Classes of work: leases in a hundred."""
UNLIMITED_PERCENT = 30
LEAST_LIMIT_MICRO, MOST_LIMIT_MICRO = 1_500_000, 3_000_000
"""Around the prices, so that the limit is what is charged for some of the use."""
LARGEST_SIZE_POWER = 5
MACC_PER_ACCELERATOR = 1000
LEASES_PER_NODE = 4


@dataclass(frozen=True, slots=True)
class BillingSize:
    """How many leases are open, of how many teams in how many pools."""

    leases: int
    teams: int
    pools: int
    seed: int


class BillingWorkload:
    """The inputs of billing, minute by minute.

    Parameters
    ----------
    size
        How large they are. Lease i is of team ``i % teams``, team t of pool ``t % pools``.
    """

    def __init__(self, size: BillingSize) -> None:
        self.size = size
        self._draw = random.Random(f"{size.seed}/{size.leases}/{size.teams}/{size.pools}")
        self._templates = [UsageTemplate(self._first(index)) for index in range(size.leases)]

    def barrier(self, number: int) -> Barrier:
        """Return a barrier."""
        return Barrier(number, START_MS + number * MINUTE_MS)

    def documents(self) -> Iterator[AccountsChanged]:
        """Yield the pools."""
        size = self.size
        for pool in range(size.pools):
            teams = tuple(
                TeamAccount(team=_team(team), income_local_per_hour=1 + team % 7)
                for team in range(pool, size.teams, size.pools)
            )
            document = PoolDocument(
                pool=_pool(pool), weight_micro_per_hour=WEIGHT_MICRO_PER_HOUR, teams=teams
            )
            yield AccountsChanged(version=1, effective_ms=START_MS, document=document)

    def prices(self, number: int) -> Iterator[PricePublished]:
        """Yield the prices that count from the minute before a barrier on."""
        start_ms = self.barrier(number - 1).market_time_ms
        for market in MARKETS:
            pools = tuple(
                PoolPrice(
                    pool=_pool(pool),
                    price_micro=price_micro(market, pool, number),
                    weight_micro_per_hour=WEIGHT_MICRO_PER_HOUR,
                    local_income_per_hour=1,
                )
                for pool in range(self.size.pools)
            )
            yield PricePublished(
                market=market,
                cycle=number,
                market_time_ms=start_ms,
                reference_price_micro=price_micro(market, 0, number),
                pools=pools,
            )

    def usage(self, number: int, leases: range, seq: int | None = None) -> Iterator[Output]:
        """Yield the use of some leases in the minute before a barrier, in partition order.

        ``seq`` None: each lease has had a record a minute since barrier 0.
        """
        end_ms = self.barrier(number).market_time_ms
        count = number - 1 if seq is None else seq
        for index in leases:
            yield self._templates[index].output(count, end_ms - MINUTE_MS, end_ms)

    def _first(self, index: int) -> UsageMetered:
        draw, size = self._draw, self.size
        limit = draw.randrange(LEAST_LIMIT_MICRO, MOST_LIMIT_MICRO)
        work_class = draw.choices(list(CLASSES), list(CLASSES.values()))[0]
        team = index % size.teams
        return UsageMetered(
            lease=f"{_team(team)}-j{index:07d}.1",
            node=f"node-{index // LEASES_PER_NODE:06d}",
            attempt=1,
            seq=0,
            team=_team(team),
            pool=_pool(team % size.pools),
            job=f"j{index:07d}",
            market=draw.choice(MARKETS),
            quantity_macc=MACC_PER_ACCELERATOR << draw.randrange(LARGEST_SIZE_POWER + 1),
            start_ms=0,
            end_ms=1,
            work_class=work_class,
            billable=True,
            limit_micro=None if draw.randrange(100) < UNLIMITED_PERCENT else limit,
            tariff_ppm=PPM,
        )


def price_micro(market: str, pool: int, number: int) -> int:
    """Return the price of a pool in the minute before a barrier; another one each minute."""
    return BASE_PRICE_MICRO + PRICE_STEP_MICRO * ((7 * number + 13 * pool + len(market)) % 500)


def expected_numerator(usage: UsageMetered, number: int) -> int:
    """Return what the use of the minute before a barrier costs, in numerator units."""
    if usage.work_class is WorkClass.OPPORTUNISTIC:
        return 0
    price = price_micro(usage.market, int(usage.pool.removeprefix("pool-")), number)
    if usage.limit_micro is not None:
        price = min(price, usage.limit_micro)
    return price * usage.tariff_ppm * usage.quantity_macc * (usage.end_ms - usage.start_ms)


@cache
def partition_of_team(team: str, partitions: int) -> int:
    """Return the partition of a team; hashing it anew for every record would take long."""
    return partition_of(team, partitions)


def _team(number: int) -> str:
    return f"team-{number:06d}"


def _pool(number: int) -> str:
    return f"pool-{number:03d}"
