"""The specification of clearing: slow, obvious, plain integers (design §4).

Read this to learn what `clear` computes; the kernel agrees with it bit for bit. Symbols of the
design are kept in the comments: P reference price, p pool price, S shared supply, s own supply,
z purchases, x⁺ and x quantities with limits above, or at and above, the price.
"""

from collections.abc import Callable, Sequence

from walras_clearing.model import (
    Certificate,
    ClearingResult,
    Job,
    Market,
    Pool,
    PoolResult,
    Team,
    TeamResult,
)
from walras_clearing.validate import validate

MILLI = 1000
"""A budget of b µcr/h buys ⌊1000·b/p⌋ macc at p µcr per accelerator-hour."""


def clear_reference(market: Market) -> ClearingResult:
    """Clear a market by the book.

    Parameters
    ----------
    market
        The market; prices in µcr per accelerator-hour, quantities in macc.

    Returns
    -------
    ClearingResult
        Exactly what `clear` returns.

    Raises
    ------
    ClearingInputError
        When the market is outside the ranges of design §4.
    """
    validate(market)
    book = Book(market)
    price = book.reference_price()
    prices = {pool: book.pool_price(pool, price) for pool in book.pools}
    purchased = {
        pool: 0 if price is None else book.purchases(pool, price, prices[pool])
        for pool in book.pools
    }
    allocated = _allocate(book, price, prices, purchased)
    opportunistic = _leftovers(book, price, purchased, allocated)
    below = None
    if price is not None and price > market.reserve_price_micro:
        below = {pool.pool: book.pool_price(pool, price - 1) or 0 for pool in book.pools}
    totals = {pool: sum(allocated[team] for team in book.members[pool]) for pool in book.pools}
    return ClearingResult(
        reference_price_micro=price,
        pools={
            pool.pool: PoolResult(prices[pool], purchased[pool], totals[pool])
            for pool in book.pools
        },
        teams={
            team.team: TeamResult(allocated[team], opportunistic[team])
            for team in sorted(market.teams, key=lambda team: team.team.encode())
        },
        certificate=Certificate(below),
        surplus_nano_per_hour={
            pool.pool: (prices[pool] or 0) * totals[pool] - (price or 0) * purchased[pool]
            for pool in book.pools
        },
    )


def least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Smallest value in [low, high] where a predicate that stays true once true holds."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def split(amount: int, weights: Sequence[int]) -> list[int]:
    """Share `amount` by `weights`: never more than the weight, monotone in the amount.

    Callers pass the weights in id order, which decides who gets the last units.
    """
    total = sum(weights)
    if total == 0:
        return [0] * len(weights)
    amount = min(amount, total)

    def shares(height: int) -> list[int]:
        return [weight * height // total for weight in weights]

    height = least(0, total, lambda h: h == total or sum(shares(h + 1)) > amount)
    given = shares(height)
    left = amount - sum(given)
    for index, larger in enumerate(shares(height + 1)):
        if left > 0 and larger > given[index]:
            given[index] += 1
            left -= 1
    return given


class Book:
    """A market with its pools and teams in id order, and the curves of design §4."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.pools = sorted(market.pools, key=lambda pool: pool.pool.encode())
        teams = sorted(market.teams, key=lambda team: team.team.encode())
        self.members = {
            pool: [team for team in teams if team.pool == pool.pool] for pool in self.pools
        }
        # F: what the funded teams of a pool want at price 0.
        self.funded = {pool: self.open(pool, 0) for pool in self.pools}
        lends = market.idle_own_supply == "lend"
        self.lent = {
            pool: max(0, pool.own_supply_macc - self.funded[pool]) if lends else 0
            for pool in self.pools
        }
        self.shared = market.shared_supply_macc + sum(self.lent.values())

    def open(self, pool: Pool, price: int) -> int:
        """X⁺ of a pool."""
        return sum(team_open(team, price) for team in self.members[pool])

    def closed(self, pool: Pool, price: int) -> int:
        """X of a pool."""
        return sum(team_closed(team, price) for team in self.members[pool])

    def ceiling(self, pool: Pool) -> int:
        """Return a price at which the pool's teams can afford nothing."""
        return MILLI * sum(team.bid_micro_per_hour for team in self.members[pool]) + 1

    def pool_price(self, pool: Pool, price: int | None) -> int | None:
        """Price inside a pool at a reference price, or alone where there is none."""
        own = pool.own_supply_macc
        if price is None:
            if own == 0:
                return None
            return least(0, self.ceiling(pool), lambda p: self.open(pool, p) <= own)
        if own == 0:
            return price
        return least(0, price, lambda p: self.open(pool, p) * (price - p) <= own * price)

    def bound(self, pool: Pool, price: int, pool_price: int) -> int | None:
        """⌊s·P/(P−p)⌋: how much the pool can hold when its teams pay p; None: no bound."""
        if pool_price == price:
            return None
        return pool.own_supply_macc * price // (price - pool_price)

    def purchases(self, pool: Pool, price: int, pool_price: int | None) -> int:
        """Z of a pool: what it takes from the shared supply before ties at s = 0."""
        own = pool.own_supply_macc
        if price == 0:
            return max(0, self.funded[pool] - own)
        if own == 0 or pool_price is None:
            return self.open(pool, price)
        bound = self.bound(pool, price, pool_price)
        quantity = self.closed(pool, pool_price)
        return max(0, (quantity if bound is None else min(quantity, bound)) - own)

    def reference_price(self) -> int | None:
        """Least tick at which the purchases fit into the shared supply."""
        if self.shared == 0:
            return None

        def fits(price: int) -> bool:
            bought = (
                self.purchases(pool, price, self.pool_price(pool, price)) for pool in self.pools
            )
            return sum(bought) <= self.shared

        reserve = self.market.reserve_price_micro
        high = max([reserve, *(self.ceiling(pool) for pool in self.pools)])
        return least(reserve, high, fits)

    def order(self) -> list[Pool]:
        """Pools by weight, heaviest first, then by id."""
        return sorted(self.pools, key=lambda pool: (-pool.weight, pool.pool.encode()))


def _takes_part(team: Team, job: Job) -> bool:
    return team.bid_micro_per_hour > 0 and job.limit_micro != 0


def _demand(team: Team, accepts: Callable[[int], bool]) -> int:
    return sum(
        job.size_macc
        for job in team.jobs
        if _takes_part(team, job) and (job.limit_micro is None or accepts(job.limit_micro))
    )


def team_open(team: Team, price: int) -> int:
    """x⁺ of a team: what it takes of jobs whose limit lies above the price."""
    wanted = _demand(team, lambda limit: limit > price)
    return wanted if price == 0 else min(wanted, MILLI * team.bid_micro_per_hour // price)


def team_closed(team: Team, price: int) -> int:
    """X of a team: what it takes of jobs whose limit lies at or above the price."""
    wanted = _demand(team, lambda limit: limit >= price)
    return wanted if price == 0 else min(wanted, MILLI * team.bid_micro_per_hour // price)


def _allocate(
    book: Book,
    price: int | None,
    prices: dict[Pool, int | None],
    purchased: dict[Pool, int],
) -> dict[Team, int]:
    """Find x of every team; adds the shares of step (2) of the margin to `purchased`."""
    allocated = {team: 0 for pool in book.pools for team in book.members[pool]}
    margins: dict[Team, int] = {}
    bare: list[Pool] = []
    for pool in book.pools:
        pool_price = prices[pool]
        if pool_price is None:
            continue
        for team in book.members[pool]:
            allocated[team] = team_open(team, pool_price)
            margins[team] = team_closed(team, pool_price) - allocated[team]
        if pool_price == 0:
            continue
        if pool.own_supply_macc == 0:
            bare.append(pool)
            continue
        amount = sum(margins[team] for team in book.members[pool])
        if price is None:
            bound: int | None = pool.own_supply_macc
        else:
            bound = book.bound(pool, price, pool_price)
        if bound is not None:
            amount = min(amount, bound - book.open(pool, pool_price))
        _hand_out(book, amount, book.members[pool], margins, allocated)
    if bare:
        _hand_out_shared(book, bare, margins, allocated, purchased)
    return allocated


def _hand_out(
    book: Book,
    amount: int,
    teams: Sequence[Team],
    margins: dict[Team, int],
    allocated: dict[Team, int],
) -> None:
    """Give an amount to the margins of teams, by the policy of the market."""
    if book.market.margin == "pro_rata":
        shares = split(amount, [margins[team] for team in teams])
    else:
        shares = []
        for team in teams:
            shares.append(min(margins[team], amount))
            amount -= shares[-1]
    for team, share in zip(teams, shares, strict=True):
        allocated[team] += share


def _hand_out_shared(
    book: Book,
    bare: list[Pool],
    margins: dict[Team, int],
    allocated: dict[Team, int],
    purchased: dict[Pool, int],
) -> None:
    """Step (2) of the margin: unsold shared supply to the pools without own supply."""
    weights = {pool: sum(margins[team] for team in book.members[pool]) for pool in bare}
    amount = min(book.shared - sum(purchased.values()), sum(weights.values()))
    if book.market.margin == "pro_rata":
        order = bare
        shares = split(amount, [weights[pool] for pool in bare])
    else:
        order = [pool for pool in book.order() if pool in weights]
        shares = []
        for pool in order:
            shares.append(min(weights[pool], amount))
            amount -= shares[-1]
    for pool, share in zip(order, shares, strict=True):
        purchased[pool] += share
        _hand_out(book, share, book.members[pool], margins, allocated)


def _leftovers(
    book: Book,
    price: int | None,
    purchased: dict[Pool, int],
    allocated: dict[Team, int],
) -> dict[Team, int]:
    """Serve at price 0 what fits on what nobody bought."""
    unsold = book.shared - sum(purchased.values())
    returned = min(unsold, sum(book.lent.values()))
    back = split(returned, [book.lent[pool] for pool in book.pools])
    given = dict.fromkeys(allocated, 0)
    opportunistic = {
        team: sum(job.size_macc for job in team.jobs if not _takes_part(team, job))
        for team in allocated
    }
    rest = {team: team_open(team, 0) - allocated[team] for team in allocated}

    def serve(amount: int, teams: Sequence[Team]) -> int:
        for wants in (opportunistic, rest):
            for team in teams:
                taken = min(amount, wants[team])
                wants[team] -= taken
                given[team] += taken
                amount -= taken
        return amount

    remaining = 0
    for pool, returned_to_pool in zip(book.pools, back, strict=True):
        used = sum(allocated[team] for team in book.members[pool])
        idle = max(0, pool.own_supply_macc - book.lent[pool] - used) + returned_to_pool
        remaining += serve(idle, book.members[pool])
    if price is None or price == 0 or price > book.market.reserve_price_micro:
        remaining += unsold - returned
    serve(remaining, [team for pool in book.order() for team in book.members[pool]])
    return given
