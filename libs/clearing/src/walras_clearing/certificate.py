"""Checks a result in columns against its market, in array code of its own (design §4, Certificate).

The same checks as `verify`, for markets of millions of jobs: one compiled pass reads what every
team wants at the four prices that the certificate needs, all else is NumPy on teams and plain
integers on pools. Neither the kernel nor `verify` is called. docs/certificate.md has the proof.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import ABSENT, ClearedArrays, Column, MarketArrays
from walras_clearing.columns import checked
from walras_clearing.errors import ClearingInputError
from walras_clearing.kernel import faults_of_jobs, read_demand
from walras_clearing.validate import PRICE_MAX_MICRO, QUANTITY_MAX_MACC
from walras_clearing.verify import Violation, first_come, proportional

REPORTED_MAX = 50
"""A broken result breaks the contract for many teams; the first ones say enough."""
NOTHING_ABOVE = 2**63 - 1


def verify_arrays(market: MarketArrays, result: ClearedArrays) -> tuple[Violation, ...]:
    """Compare a result in columns with the clearing contract.

    Parameters
    ----------
    market
        What was cleared.
    result
        What is claimed about it.

    Returns
    -------
    tuple of Violation
        Empty when the result is the one result of this market; else the first violations found.

    Raises
    ------
    ClearingInputError
        When the market itself is outside the ranges of design §4.
    """
    market = checked(market)
    _check_jobs(market)
    check = _Check(market, result)
    for stage in (check.shape, check.presence, check.prices, check.quantities, check.leftovers):
        stage()
        if check.found:
            break
    return tuple(check.found[:REPORTED_MAX])


def _check_jobs(market: MarketArrays) -> None:
    teams = len(market.pool_of_team)
    unknown, negative, large, sum_is_large = faults_of_jobs(
        *(market.team_of_job, market.size_macc, market.limit_micro, teams),
        *(QUANTITY_MAX_MACC, PRICE_MAX_MICRO, NOTHING_ABOVE),
    )
    if unknown:
        raise ClearingInputError("unknown_team", "team_of_job", f"numbers must be below {teams}")
    if negative:
        raise ClearingInputError("negative", "size_macc or limit_micro", "must not be negative")
    if large:
        raise ClearingInputError("above_maximum", "size_macc or limit_micro", "is out of range")
    if sum_is_large:
        message = f"the sum in this market exceeds {QUANTITY_MAX_MACC} macc"
        raise ClearingInputError("sum_above_maximum", "size_macc", message)


@dataclass(slots=True)
class _Quantities:
    """Macc per team at one price of its pool: above it, and at or above it; b = 0 wants nothing."""

    open: Column
    closed: Column


class _Check:
    """The claims of one result, and the violations found so far."""

    def __init__(self, market: MarketArrays, result: ClearedArrays) -> None:
        self.market = market
        self.result = result
        self.found: list[Violation] = []

    def report(self, code: str, where: str, message: str) -> None:
        self.found.append(Violation(code, where, message))

    def compare(self, code: str, where: str, claimed: Column, due: Column) -> None:
        """Report rows of a column that are not what is due."""
        for i in np.flatnonzero(claimed != due)[:REPORTED_MAX].tolist():
            self.report(code, f"{where}[{i}]", f"was {claimed[i]}, must be {due[i]}")

    # Form.

    def shape(self) -> None:
        """Every column is one of int64, with a row per pool or team; the price is an integer."""
        pools, teams = len(self.market.own_supply_macc), len(self.market.pool_of_team)
        due = {
            "price_micro": pools,
            "purchased_macc": pools,
            "pool_allocated_macc": pools,
            "allocated_macc": teams,
            "opportunistic_macc": teams,
        }
        if self.result.price_below_micro is not None:
            due["price_below_micro"] = pools
        for name, rows in due.items():
            claimed: object = getattr(self.result, name)
            if not (
                isinstance(claimed, np.ndarray)
                and claimed.shape == (rows,)
                and claimed.dtype == np.int64
            ):
                self.report("shape", name, f"must be a column of {rows} rows of int64")
        price: object = self.result.reference_price_micro
        if price is not None and (type(price) is not int or abs(price) > NOTHING_ABOVE):
            self.report("shape", "reference_price_micro", "must be absent or fit 64 bits")

    def presence(self) -> None:
        """Prices exist exactly where the contract has them, within their bounds."""
        market, result = self.market, self.result
        self._read()
        price, p, own = result.reference_price_micro, result.price_micro, market.own_supply_macc
        reserve, below = market.reserve_price_micro, result.price_below_micro
        where = "reference_price_micro"
        if (price is None) != (self.shared == 0):
            self.report("presence", where, "must be absent exactly where no shared supply exists")
            return
        if price is None:
            due = np.where(own == 0, ABSENT, np.maximum(p, 0))
        elif price < reserve:
            self.report("below_reserve", where, f"was {price}, the reserve is {reserve}")
            return
        else:
            due = np.where(own == 0, price, np.clip(p, 0, price))
        self.compare("pool_price", "price_micro", p, due)
        if (below is not None) != (price is not None and price > reserve):
            message = "must be there exactly where the price exceeds the reserve"
            self.report("presence", "price_below_micro", message)
        elif below is not None and price is not None:
            due = np.where(own == 0, price - 1, np.clip(below, 0, price - 1))
            self.compare("pool_price", "price_below_micro", below, due)

    def _read(self) -> None:
        market, result = self.market, self.result
        # At a price that does not exist nothing is above it.
        p = np.where(result.price_micro == ABSENT, NOTHING_ABOVE, result.price_micro)
        below = p if result.price_below_micro is None else result.price_below_micro
        # Limits are integers: at or above a price is above the tick below it.
        levels = np.stack([p, p - (p < NOTHING_ABOVE), below, below - (below < NOTHING_ABOVE)])
        prices = np.ascontiguousarray(levels[:, market.pool_of_team])
        demand = read_demand(market.team_of_job, market.size_macc, market.limit_micro, prices)
        funded = market.bid_micro_per_hour > 0
        self.wanted = np.where(funded, demand[4], 0)
        self.idle = np.where(funded, demand[5], demand[4] + demand[5])
        budget = 1000 * market.bid_micro_per_hour
        # At p, one tick below p, and the same for the certificate's prices.
        self.at = self._quantities(demand[0], demand[1], prices[0], budget)
        self.tick_below = self._open(demand[1], prices[1], budget)
        self.proof = self._quantities(demand[2], demand[3], prices[2], budget)
        self.proof_tick_below = self._open(demand[3], prices[3], budget)
        own = market.own_supply_macc
        lends = market.idle_own_supply == "lend"
        spare = np.maximum(own - self._sums(self.wanted), 0)
        self.lent: Column = spare if lends else np.zeros_like(own)
        self.shared = market.shared_supply_macc + sum(self.lent.tolist())

    def _open(self, demand: Column, price: Column, budget: Column) -> Column:
        money = budget // np.maximum(price, 1)
        return np.where(price <= 0, self.wanted, np.minimum(demand, money))

    def _quantities(
        self, above: Column, at_or_above: Column, price: Column, budget: Column
    ) -> _Quantities:
        return _Quantities(self._open(above, price, budget), self._open(at_or_above, price, budget))

    def _sums(self, by_team: Column) -> Column:
        sums = np.zeros(len(self.market.own_supply_macc), np.int64)
        np.add.at(sums, self.market.pool_of_team, by_team)
        return sums

    # Prices.

    def prices(self) -> None:
        """Check that every price is the least that the contract allows."""
        price = self.result.reference_price_micro
        p = self.result.price_micro
        self._least("price_micro", price, p, self.at, self.tick_below)
        if price is None:
            self.bought = np.zeros(len(p), np.int64)
            return
        self.bought = self._purchases(price, p, self.at)
        bought = sum(self.bought.tolist())
        where = "reference_price_micro"
        if bought > self.shared:
            message = f"at {price} the pools buy {bought} of {self.shared} macc"
            self.report("oversold", where, message)
        below = self.result.price_below_micro
        if below is None:
            return
        name = "price_below_micro"
        self._least(name, price - 1, below, self.proof, self.proof_tick_below)
        wanted = sum(self._purchases(price - 1, below, self.proof).tolist())
        if wanted <= self.shared:
            message = f"{price - 1} fits too: the pools buy {wanted} of {self.shared} macc"
            self.report("not_least", where, message)

    def _least(
        self, where: str, price: int | None, p: Column, at: _Quantities, tick_below: Column
    ) -> None:
        """Check that each pool's price covers its cost, and that one tick less does not."""
        rows = zip(
            self.market.own_supply_macc.tolist(),
            p.tolist(),
            self._sums(at.open).tolist(),
            self._sums(tick_below).tolist(),
            strict=True,
        )
        for k, (own, claimed, quantity, more) in enumerate(rows):
            if own == 0:
                continue
            if price is None:
                low, high = quantity > own, more <= own
            else:
                low = quantity * (price - claimed) > own * price
                high = more * (price - claimed + 1) <= own * price
            if low:
                self.report("pool_price", f"{where}[{k}]", f"{claimed} is too low for its supply")
            elif claimed > 0 and high:
                message = f"{claimed} is not the least price of the pool"
                self.report("pool_price", f"{where}[{k}]", message)

    def _purchases(self, price: int, p: Column, at: _Quantities) -> Column:
        """Compute z of every pool at a reference price."""
        bought = []
        rows = zip(
            self.market.own_supply_macc.tolist(),
            p.tolist(),
            self._sums(at.open).tolist(),
            self._sums(at.closed).tolist(),
            self._sums(self.wanted).tolist(),
            strict=True,
        )
        for own, claimed, quantity, closed, funded in rows:
            if price == 0:
                bought.append(max(0, funded - own))
            elif own == 0:
                bought.append(quantity)
            elif claimed == price:
                bought.append(max(0, closed - own))
            else:
                bought.append(max(0, min(closed, own * price // (price - claimed)) - own))
        return np.array(bought, dtype=np.int64)

    # Quantities.

    def quantities(self) -> None:
        """Every allocation is the open quantity plus a due share of the margin."""
        market, price = self.market, self.result.reference_price_micro
        open_sums, p = self._sums(self.at.open).tolist(), self.result.price_micro.tolist()
        margins = self.at.closed - self.at.open
        weights = self._sums(margins).tolist()
        amounts = [0] * len(p)
        ties = []
        for k, own in enumerate(market.own_supply_macc.tolist()):
            if p[k] <= 0:
                continue
            if own == 0:
                ties.append(k)
            elif price is None:
                amounts[k] = max(0, min(weights[k], own - open_sums[k]))
            elif p[k] == price:
                amounts[k] = weights[k]
            else:
                bound = own * price // (price - p[k]) - open_sums[k]
                amounts[k] = max(0, min(weights[k], bound))
        left = max(0, self.shared - sum(self.bought.tolist())) if price is not None else 0
        if market.margin == "strict_order":
            ties.sort(key=lambda k: (-int(market.pool_weight[k]), k))
        for k, share in zip(ties, self._share(left, [weights[k] for k in ties]), strict=True):
            amounts[k] = share
            self.bought[k] += share
        self.allocated = self.at.open.copy()
        for k, members in self._members(margins > 0).items():
            due = self._share(amounts[k], margins[members].tolist())
            self.allocated[members] += np.array(due, dtype=np.int64)
        self.compare("purchased", "purchased_macc", self.result.purchased_macc, self.bought)
        totals = self._sums(self.allocated)
        self.compare("allocated", "pool_allocated_macc", self.result.pool_allocated_macc, totals)
        self.compare("allocated", "allocated_macc", self.result.allocated_macc, self.allocated)

    def _share(self, amount: int, weights: list[int]) -> list[int]:
        if self.market.margin == "pro_rata":
            return proportional(amount, weights)
        return first_come(amount, weights)

    def _members(self, chosen: NDArray[np.bool_]) -> dict[int, NDArray[np.int64]]:
        """Teams that are chosen, by pool, in id order."""
        order = self._id_order()
        order = order[chosen[order]]
        if not len(order):
            return {}
        order = order[np.argsort(self.market.pool_of_team[order], kind="stable")]
        pools, first = np.unique(self.market.pool_of_team[order], return_index=True)
        ends = [*first[1:].tolist(), len(order)]
        return {
            k: order[start:end]
            for k, start, end in zip(pools.tolist(), first.tolist(), ends, strict=True)
        }

    def _id_order(self) -> Column:
        order = self.market.team_order
        if order is None:
            return np.arange(len(self.market.pool_of_team))
        return order.astype(np.int64)

    # Leftovers.

    def leftovers(self) -> None:
        """Check that what nobody bought runs at price 0, in the due order."""
        market, price = self.market, self.result.reference_price_micro
        unsold = max(0, self.shared - sum(self.bought.tolist()))
        returned = min(unsold, sum(self.lent.tolist()))
        back = proportional(returned, self.lent.tolist())
        withheld = price is not None and 0 < price == market.reserve_price_micro
        pot = 0 if withheld else unsold - returned
        used = self._sums(self.allocated).tolist()
        rest = self.wanted - self.allocated
        due = np.zeros(len(rest), np.int64)
        wants = np.stack([self.idle, rest])
        everybody = self._members(np.ones(len(rest), dtype=bool))
        for k, own in enumerate(market.own_supply_macc.tolist()):
            idle = max(0, own - int(self.lent[k]) - used[k]) + back[k]
            pot += idle
            if k in everybody:
                pot -= _serve(idle, wants, everybody[k], due)
        heaviest = np.lexsort((np.arange(len(used)), -market.pool_weight)).tolist()
        line = [everybody[k] for k in heaviest if k in everybody]
        if line:
            _serve(pot, wants, np.concatenate(line), due)
        self.compare("opportunistic", "opportunistic_macc", self.result.opportunistic_macc, due)


def _serve(amount: int, wants: NDArray[np.int64], line: Column, due: Column) -> int:
    """Serve what a line of teams wants, first row first, as far as the amount goes."""
    if amount == 0:
        return 0
    served_in_all = 0
    for row in wants:
        asked = row[line]
        before = np.cumsum(asked) - asked
        served = np.clip(amount - served_in_all - before, 0, asked)
        row[line] -= served
        due[line] += served
        served_in_all += int(served.sum())
    return served_in_all
