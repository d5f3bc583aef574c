"""Checks a result against its market without solving it again (design §4, Certificate).

This module shares no clearing code with the kernel or the reference: whoever trusts these pages
needs to trust neither of them. One pass over the jobs reads every quantity that is compared.

Why the certificate suffices: the purchases never rise with the reference price, so a price that
fits, one tick above a price that does not, is the least price that fits. At the lower tick the
least price of a pool is the one at which it would buy most.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from walras_clearing.model import ClearingResult, Market, Pool, Team
from walras_clearing.validate import quoted, validate


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a result breaks the contract: a stable code, a JSON path, words."""

    code: str
    where: str
    message: str


def verify(market: Market, result: ClearingResult) -> tuple[Violation, ...]:
    """Compare a result with the clearing contract.

    Parameters
    ----------
    market
        What was cleared.
    result
        What is claimed about it; any integers are accepted and judged.

    Returns
    -------
    tuple of Violation
        Empty when the result is the one result of this market.

    Raises
    ------
    ClearingInputError
        When the market itself is outside the ranges of design §4.
    """
    validate(market)
    check = _Check(market, result)
    check.shape()
    if not check.found:
        check.presence()
    if not check.found:
        check.pool_prices()
        check.reference_price()
        check.quantities()
        check.leftovers()
    return tuple(check.found)


@dataclass(slots=True)
class _TeamView:
    """Quantities of one team, in macc, at the claimed price of its pool."""

    team: Team
    wanted: int
    idle: int
    open: int = 0
    closed: int = 0
    tick_below: int = 0
    allocated: int = 0


@dataclass(slots=True)
class _PoolView:
    """A pool with its claimed price and its teams in id order."""

    pool: Pool
    price: int | None
    teams: list[_TeamView] = field(default_factory=list)
    lent: int = 0
    bought: int = 0

    def total(self, figure: str) -> int:
        return sum(getattr(view, figure) for view in self.teams)


class _Check:
    """The claims of one result, and the violations found so far."""

    def __init__(self, market: Market, result: ClearingResult) -> None:
        self.market = market
        self.result = result
        self.found: list[Violation] = []
        self.views: list[_PoolView] = []
        self.shared = market.shared_supply_macc

    def report(self, code: str, where: str, message: str) -> None:
        self.found.append(Violation(code, where, message))

    def expect(self, code: str, where: str, claimed: int, due: int) -> None:
        if claimed != due:
            self.report(code, where, f"was {claimed}, must be {due}")

    # Form: the right ids, and prices where there must be prices.

    def shape(self) -> None:
        """Every pool and team is named once, and nothing else is."""
        pools = [pool.pool for pool in self.market.pools]
        teams = [team.team for team in self.market.teams]
        self._names("$.pools", pools, self.result.pools)
        self._names("$.teams", teams, self.result.teams)
        self._names("$.certificate.surplus_nano_per_hour", pools, self.result.surplus_nano_per_hour)
        below = self.result.certificate.pool_prices_below_micro
        if below is not None:
            self._names("$.certificate.pool_prices_below_micro", pools, below)

    def _names(self, where: str, due: Iterable[str], claimed: Mapping[str, object]) -> None:
        expected = set(due)
        for name in sorted(expected - set(claimed)):
            self.report("missing", f"{where}[{quoted(name)}]", "must be in the result")
        for name in sorted(set(claimed) - expected):
            self.report("unknown", f"{where}[{quoted(name)}]", "is not in the market")

    def presence(self) -> None:
        """Prices exist exactly where the contract has them, within their bounds."""
        self._read_market()
        price = self.result.reference_price_micro
        where = "$.reference_price_micro"
        reserve = self.market.reserve_price_micro
        if (price is None) != (self.shared == 0):
            self.report("presence", where, "must be absent exactly where no shared supply exists")
            return
        if price is not None and price < reserve:
            self.report("below_reserve", where, f"was {price}, the reserve is {reserve}")
            return
        for view in self.views:
            self._presence_of(view, price)
        below = self.result.certificate.pool_prices_below_micro
        where = "$.certificate.pool_prices_below_micro"
        if (below is not None) != (price is not None and price > reserve):
            self.report("presence", where, "must be there exactly where the price exceeds reserve")
        elif below is not None and price is not None:
            for view in self.views:
                claimed = below[view.pool.pool]
                if not 0 <= claimed < price:
                    message = f"was {claimed}, must lie in [0, {price - 1}]"
                    self.report("range", f"{where}[{quoted(view.pool.pool)}]", message)

    def _presence_of(self, view: _PoolView, price: int | None) -> None:
        where = f"$.pools[{quoted(view.pool.pool)}].price_micro"
        own = view.pool.own_supply_macc
        if (view.price is None) != (price is None and own == 0):
            self.report("presence", where, "must be absent exactly where there is nothing to price")
        elif view.price is None:
            return
        elif view.price < 0 or (price is not None and view.price > price):
            self.report("range", where, f"was {view.price}, must lie between 0 and {price}")
        elif own == 0 and view.price != price:
            self.report(
                "pool_price", where, f"was {view.price}, must be {price} without own supply"
            )

    def _read_market(self) -> None:
        by_name: dict[str, _PoolView] = {}
        for pool in sorted(self.market.pools, key=lambda pool: pool.pool.encode()):
            view = _PoolView(pool, self.result.pools[pool.pool].price_micro)
            by_name[pool.pool] = view
            self.views.append(view)
        for team in sorted(self.market.teams, key=lambda team: team.team.encode()):
            view = by_name[team.pool]
            view.teams.append(_read_team(team, view.price))
        if self.market.idle_own_supply == "lend":
            for view in self.views:
                view.lent = max(0, view.pool.own_supply_macc - view.total("wanted"))
                self.shared += view.lent

    # Prices.

    def pool_prices(self) -> None:
        """Each price inside a pool covers its cost, and one tick less does not."""
        price = self.result.reference_price_micro
        for view in self.views:
            if view.price is None or view.pool.own_supply_macc == 0:
                continue
            where = f"$.pools[{quoted(view.pool.pool)}].price_micro"
            self._least(view.pool, price, view.price, view.teams, where)

    def _least(
        self, pool: Pool, price: int | None, claimed: int, teams: Sequence[_TeamView], where: str
    ) -> None:
        own = pool.own_supply_macc
        quantity = sum(view.open for view in teams)
        one_below = sum(view.tick_below for view in teams)
        if price is None:
            low, high = quantity > own, one_below <= own
        else:
            low = quantity * (price - claimed) > own * price
            high = one_below * (price - claimed + 1) <= own * price
        if low:
            self.report("pool_price", where, f"{claimed} is too low for its supply")
        if claimed > 0 and high:
            self.report("pool_price", where, f"{claimed} is not the least price of the pool")

    def reference_price(self) -> None:
        """Check that purchases fit at the price, and would not fit one tick below."""
        price = self.result.reference_price_micro
        if price is None:
            return
        for view in self.views:
            view.bought = _bought(view.pool, price, view.price or 0, view.teams)
        bought = sum(view.bought for view in self.views)
        where = "$.reference_price_micro"
        if bought > self.shared:
            message = f"at {price} the pools buy {bought} of {self.shared} macc"
            self.report("oversold", where, message)
        below = self.result.certificate.pool_prices_below_micro
        if below is None:
            return
        wanted = 0
        for view in self.views:
            claimed = below[view.pool.pool]
            where_pool = f"$.certificate.pool_prices_below_micro[{quoted(view.pool.pool)}]"
            teams = [_read_team(other.team, claimed) for other in view.teams]
            if view.pool.own_supply_macc > 0:
                self._least(view.pool, price - 1, claimed, teams, where_pool)
            else:
                self.expect("pool_price", where_pool, claimed, price - 1)
            wanted += _bought(view.pool, price - 1, claimed, teams)
        if wanted <= self.shared:
            message = f"{price - 1} fits too: the pools buy {wanted} of {self.shared} macc"
            self.report("not_least", where, message)

    # Quantities.

    def quantities(self) -> None:
        """Every allocation is the open quantity plus a due share of the margin."""
        price = self.result.reference_price_micro
        ties: list[_PoolView] = []
        for view in self.views:
            if view.price is None:
                continue
            for member in view.teams:
                member.allocated = member.open
            margin = view.total("closed") - view.total("open")
            if view.price == 0:
                continue
            own = view.pool.own_supply_macc
            if own == 0:
                ties.append(view)
                continue
            bound = own
            if price is not None and view.price < price:
                bound = own * price // (price - view.price)
            if price is None or view.price < price:
                margin = max(0, min(margin, bound - view.total("open")))
            self._serve_margins(view, margin)
        self._serve_ties(ties)
        for view in self.views:
            self._compare(view)

    def _serve_margins(self, view: _PoolView, amount: int) -> None:
        weights = [member.closed - member.open for member in view.teams]
        for member, share in zip(view.teams, self._share(amount, weights), strict=True):
            member.allocated += share

    def _serve_ties(self, ties: list[_PoolView]) -> None:
        left = max(0, self.shared - sum(view.bought for view in self.views))
        if self.market.margin == "strict_order":
            ties = sorted(ties, key=_by_weight)
        weights = [view.total("closed") - view.total("open") for view in ties]
        for view, share in zip(ties, self._share(left, weights), strict=True):
            view.bought += share
            self._serve_margins(view, share)

    def _share(self, amount: int, weights: Sequence[int]) -> list[int]:
        if self.market.margin == "pro_rata":
            return proportional(amount, weights)
        return first_come(amount, weights)

    def _compare(self, view: _PoolView) -> None:
        name, claimed = view.pool.pool, self.result.pools[view.pool.pool]
        where = f"$.pools[{quoted(name)}]"
        self.expect("purchased", f"{where}.purchased_macc", claimed.purchased_macc, view.bought)
        total = view.total("allocated")
        self.expect("allocated", f"{where}.allocated_macc", claimed.allocated_macc, total)
        surplus = (view.price or 0) * total
        surplus -= (self.result.reference_price_micro or 0) * view.bought
        where = f"$.certificate.surplus_nano_per_hour[{quoted(name)}]"
        self.expect("surplus", where, self.result.surplus_nano_per_hour[name], surplus)
        for member in view.teams:
            got = self.result.teams[member.team.team].allocated_macc
            where = f"$.teams[{quoted(member.team.team)}].allocated_macc"
            self.expect("allocated", where, got, member.allocated)

    # Leftovers.

    def leftovers(self) -> None:
        """Check that what nobody bought runs at price 0, in the due order."""
        price = self.result.reference_price_micro
        unsold = max(0, self.shared - sum(view.bought for view in self.views))
        returned = min(unsold, sum(view.lent for view in self.views))
        back = proportional(returned, [view.lent for view in self.views])
        withheld = price == self.market.reserve_price_micro and price > 0
        pot = 0 if withheld else unsold - returned
        due: dict[str, int] = {}
        queues: list[tuple[_PoolView, list[int]]] = []
        for view, again in zip(self.views, back, strict=True):
            used = view.total("allocated")
            idle = max(0, view.pool.own_supply_macc - view.lent - used) + again
            wants = [member.idle for member in view.teams]
            wants += [member.wanted - member.allocated for member in view.teams]
            served = first_come(idle, wants)
            pot += idle - sum(served)
            half = len(view.teams)
            for place, member in enumerate(view.teams):
                due[member.team.team] = served[place] + served[half + place]
            left = [want - got for want, got in zip(wants, served, strict=True)]
            queues.append((view, left))
        queues.sort(key=lambda entry: _by_weight(entry[0]))
        # Opportunistic work of all pools first, then the unserved rest of funded teams.
        line = [
            (member, left[place + len(view.teams) * rest])
            for rest in (0, 1)
            for view, left in queues
            for place, member in enumerate(view.teams)
        ]
        late = first_come(pot, [want for _, want in line])
        for (member, _), got in zip(line, late, strict=True):
            due[member.team.team] += got
        for name, amount in due.items():
            claimed = self.result.teams[name].opportunistic_macc
            where = f"$.teams[{quoted(name)}].opportunistic_macc"
            self.expect("opportunistic", where, claimed, amount)


def _by_weight(view: _PoolView) -> tuple[int, bytes]:
    return -view.pool.weight, view.pool.pool.encode()


def _read_team(team: Team, price: int | None) -> _TeamView:
    """One pass over the jobs of a team; without a price only what it wants is read."""
    everything = sum(job.size_macc for job in team.jobs)
    if team.bid_micro_per_hour == 0:
        return _TeamView(team, wanted=0, idle=everything)
    level = 0 if price is None else price
    above = at_price = idle = 0
    for job in team.jobs:
        limit = job.limit_micro
        if limit == 0:
            idle += job.size_macc
        elif limit is None or limit > level:
            above += job.size_macc
        elif limit == level:
            at_price += job.size_macc
    view = _TeamView(team, wanted=everything - idle, idle=idle)
    if price is None:
        return view
    view.open = _affordable(team, price, above)
    view.closed = _affordable(team, price, above + at_price)
    if price > 0:
        view.tick_below = _affordable(team, price - 1, above + at_price)
    return view


def _affordable(team: Team, price: int, wanted: int) -> int:
    return wanted if price == 0 else min(wanted, 1000 * team.bid_micro_per_hour // price)


def _bought(pool: Pool, price: int, pool_price: int, teams: Sequence[_TeamView]) -> int:
    """Purchases of a pool before ties; an understated pool price overstates nothing."""
    own = pool.own_supply_macc
    if price == 0:
        return max(0, sum(view.wanted for view in teams) - own)
    if own == 0:
        return sum(view.open for view in teams)
    quantity = sum(view.closed for view in teams)
    if pool_price < price:
        quantity = min(quantity, own * price // (price - pool_price))
    return max(0, quantity - own)


def first_come(amount: int, wants: Sequence[int]) -> list[int]:
    """Serve wants in their order as far as the amount goes."""
    served = []
    for want in wants:
        got = min(want, amount)
        served.append(got)
        amount -= got
    return served


def proportional(amount: int, weights: Sequence[int]) -> list[int]:
    """`split` of design §4."""
    total = sum(weights)
    if amount >= total:
        return list(weights)
    # Rounding down loses less than one per member: the height is sought in that window.
    window = range(amount, amount + len(weights) + 1)

    def filled(height: int) -> int:
        return sum(weight * height // total for weight in weights)

    height = window[bisect_right(window, amount, key=filled) - 1]
    due = [weight * height // total for weight in weights]
    left = amount - sum(due)
    growing = [i for i, w in enumerate(weights) if w * (height + 1) // total > due[i]]
    for i in growing[:left]:
        due[i] += 1
    return due
