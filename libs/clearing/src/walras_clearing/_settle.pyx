"""From prices to quantities: margins, ties, leftovers (design §4); the entry points of Python."""

from libc.stdint cimport int32_t, int64_t

import numpy as np

from walras_clearing._auction cimport Auction
from walras_clearing._demand cimport Demand, seek
from walras_clearing._guess cimport affordable, expect, guess_t, inverse_of
from walras_clearing._proportion cimport share_out
from walras_clearing._rows cimport ABSENT, Bag, Member, Pool, check_row, muldiv, sum_held

cdef extern from *:
    const char* WALRAS_BUILD_STAMP

BUILD_STAMP = WALRAS_BUILD_STAMP.decode("ascii")


cdef enum:
    # Below this many jobs the searches are cheaper than a guess of where to start them.
    ESTIMATED_ABOVE = 4096


# 1000·Σb of a pool (design §4).
cdef int64_t BUDGETS_MAX = 10**18


cdef class Settlement:
    """Quantities of one auction, by member: pool by pool, teams in id order."""

    cdef Demand rows
    cdef Auction auction
    cdef const int32_t[::1] order     # pools, heaviest first, ties by number
    cdef int64_t[::1] allocated, margin
    cdef int64_t[::1] idle            # opportunistic work served at price 0
    cdef int64_t[::1] rest            # funded work served at price 0
    cdef int64_t[::1] shares          # by pool

    def __cinit__(self, Auction auction, const int32_t[::1] order):
        self.auction, self.rows, self.order = auction, auction.rows, order
        cdef int64_t teams = self.rows.teams
        self.allocated, self.margin, self.idle, self.rest = (
            np.zeros(teams, np.int64) for _ in range(4)
        )
        self.shares = np.zeros(self.rows.pool_count, np.int64)

    # ---- margins ---------------------------------------------------------------------------

    cdef int64_t quantities(self, Pool* pool) noexcept nogil:
        """Set x⁺ and the margin of every team of a pool at its price; return Σx⁺."""
        cdef int64_t m, open, closed, money, total = 0, weights = 0, p = pool.now
        cdef guess_t inverse = inverse_of(max(p, 1))
        cdef Member* member
        for m in range(pool.first, pool.last):
            member = &self.rows.members[m]
            if p == 0:
                open = self.rows.bags[self.rows.team_of[m]].wanted if member.budget else 0
                closed = open
            else:
                seek(member, p)
                money = affordable(member.budget, p, inverse)
                open = min(member.here.wanted, money)
                closed = member.below.wanted if member.below.limit == p else member.here.wanted
                closed = min(closed, money)
            self.allocated[m] = open
            self.margin[m] = closed - open
            total += open
            weights += closed - open
        pool.weights = weights
        return total

    cdef int give(self, Pool* pool, int64_t amount) except -1 nogil:
        """Serve margins of the teams of a pool, by the policy of the market."""
        cdef int64_t m, served
        if amount == 0:
            return 0
        if not self.auction.strict:
            share_out(
                amount, &self.margin[pool.first], &self.allocated[pool.first],
                pool.last - pool.first,
            )
            return 0
        for m in range(pool.first, pool.last):
            served = min(amount, self.margin[m])
            self.allocated[m] += served
            amount -= served
        return 0

    cdef int settle_margins(self) except -1 nogil:
        cdef int64_t k, served, amount, bought = 0, ties = 0
        cdef int64_t price = self.auction.price
        cdef Pool* pool
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            bought += pool.purchased
            if pool.now == ABSENT or pool.first == pool.last:
                continue
            if pool.now > 0 and (pool.now > pool.high or pool.now <= pool.low):
                self.rows.open_window(pool, pool.now)
            served = self.quantities(pool)
            if pool.now == 0 or pool.weights == 0:
                continue
            if pool.supply == 0:
                ties += pool.weights
                self.shares[k] = pool.weights
                continue
            amount = pool.weights
            if price == ABSENT:
                amount = min(amount, pool.supply - served)
            elif pool.now < price:
                amount = muldiv(
                    pool.supply, price, price - pool.now, served + amount
                ) - served
            self.give(pool, amount)
        if price == ABSENT or ties == 0:
            return 0
        self.settle_ties(min(self.auction.shared - bought, ties))
        return 0

    cdef int settle_ties(self, int64_t amount) except -1 nogil:
        """Hand unsold shared supply to pools without own supply: `shares` are their ties."""
        cdef int64_t i, k, served
        cdef Pool* pool
        if self.auction.strict:
            for i in range(self.rows.pool_count):
                k = self.order[i]
                served = min(amount, self.shares[k])
                self.shares[k] = served
                amount -= served
        else:
            share_out(amount, &self.shares[0], NULL, self.rows.pool_count)
        for k in range(self.rows.pool_count):
            if self.shares[k]:
                pool = &self.rows.pools[k]
                pool.purchased += self.shares[k]
                self.give(pool, self.shares[k])
        return 0

    # ---- leftovers -------------------------------------------------------------------------

    cdef int64_t serve(self, Pool* pool, int64_t amount, bint funded) noexcept nogil:
        """Serve opportunistic work, or the unserved rest, of a pool; return what is left."""
        cdef int64_t m, wanted
        cdef Bag* bag
        for m in range(pool.first, pool.last):
            if amount == 0:
                return 0
            bag = &self.rows.bags[self.rows.team_of[m]]
            if funded:
                wanted = bag.wanted - self.allocated[m] if self.rows.members[m].budget else 0
                wanted = min(amount, wanted - self.rest[m])
                self.rest[m] += wanted
            else:
                wanted = bag.idle if self.rows.members[m].budget else bag.idle + bag.wanted
                wanted = min(amount, wanted - self.idle[m])
                self.idle[m] += wanted
            amount -= wanted
        return amount

    cdef int settle_leftovers(self) except -1 nogil:
        """Hand out at price 0 what nobody bought."""
        cdef int64_t k, i, m, used, unsold = self.auction.shared, lent = 0, returned, remaining = 0
        cdef int64_t price = self.auction.price
        cdef Pool* pool
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            unsold -= pool.purchased
            lent += pool.lent
            self.shares[k] = pool.lent
        returned = min(unsold, lent)
        if self.rows.pool_count:
            share_out(returned, &self.shares[0], NULL, self.rows.pool_count)
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            used = 0
            for m in range(pool.first, pool.last):
                used += self.allocated[m]
            used = max(0, pool.supply - pool.lent - used) + self.shares[k]
            remaining += self.serve(pool, self.serve(pool, used, False), True)
        if price <= 0 or price > self.auction.reserve:
            remaining += unsold - returned
        for i in range(self.rows.pool_count):
            remaining = self.serve(&self.rows.pools[self.order[i]], remaining, False)
        for i in range(self.rows.pool_count):
            remaining = self.serve(&self.rows.pools[self.order[i]], remaining, True)
        return 0


cdef class Kernel:
    """The rows of a market and its auction, for `book` and `clear`: contiguous columns only."""

    cdef Demand rows
    cdef Auction auction
    cdef object order
    cdef bint started        # the pools hold prices to start from

    def __cinit__(self, int64_t pools):
        self.rows = Demand(pools)
        self.auction = Auction(self.rows)
        self.order = np.arange(pools, dtype=np.int32)

    def set_policies(self, int64_t reserve, bint lends, bint strict):
        self.auction.reserve, self.auction.lends, self.auction.strict = reserve, lends, strict

    def set_supply(self, int64_t shared, const int64_t[::1] own):
        cdef int64_t k
        self.auction.supplied = shared
        for k in range(self.rows.pool_count):
            self.rows.pools[k].supply = own[k]

    def set_order(self, const int32_t[::1] order):
        """Take the pools from the heaviest to the lightest."""
        self.order = np.array(order, dtype=np.int32)

    def set_teams(self, const int32_t[::1] pool_of, const int32_t[::1] order):
        cdef const int32_t* pools = NULL
        cdef const int32_t* line = NULL
        if pool_of.shape[0]:
            pools = &pool_of[0]
            if order is not None:
                line = &order[0]
        self.rows.arrange(pools, line, pool_of.shape[0])

    def set_bids(self, const int64_t[::1] bids):
        cdef int64_t i
        for i in range(bids.shape[0]):
            self.rows.set_bid(<int32_t>i, bids[i])

    def set_bid(self, int32_t team, int64_t bid):
        """Set one bid; False, with nothing set, where its pool's sum would be out of range."""
        cdef int64_t others = self.rows.pools[self.rows.pool_of[team]].budgets
        others -= 1000 * self.rows.bid[team]
        if others + 1000 * bid > BUDGETS_MAX:
            return False
        self.rows.set_bid(team, bid)
        return True

    def load(
        self, const int32_t[::1] team, const int64_t[::1] size, const int64_t[::1] limit,
        const int32_t[::1] keys, int64_t key_bound,
    ):
        """Take all jobs of an empty market at once; False where a key occurs twice."""
        cdef int64_t count = team.shape[0]
        if count == 0:
            return True
        cdef const int32_t* key = NULL
        cdef int twice
        if keys is not None:
            key = &keys[0]
        with nogil:
            if key != NULL:
                self.rows.know(key_bound)
            twice = self.rows.load(&team[0], &size[0], &limit[0], key, count)
        return twice == 0

    def check_rows(
        self, const int32_t[::1] team, const int64_t[::1] size, const int64_t[::1] limit
    ):
        """Refuse jobs out of range, before any is taken."""
        cdef int64_t i, held = self.rows.quantity
        for i in range(team.shape[0]):
            check_row(i, team[i], self.rows.teams, size[i], limit[i])
            held = sum_held(i, held, size[i])

    def put(self, int32_t key, int32_t team, int64_t size, int64_t limit):
        self.rows.put(key, team, size, limit)

    def put_all(
        self, const int32_t[::1] keys, const int32_t[::1] team, const int64_t[::1] size,
        const int64_t[::1] limit,
    ):
        cdef int64_t i
        with nogil:
            for i in range(keys.shape[0]):
                self.rows.put(keys[i], team[i], size[i], limit[i])

    def take_all(self, const int32_t[::1] keys):
        """Let go of jobs by different keys; all must be known, or none goes."""
        cdef int64_t i
        for i in range(keys.shape[0]):
            self.rows.find(keys[i])
        with nogil:
            for i in range(keys.shape[0]):
                self.rows.take(keys[i])

    @property
    def jobs(self):
        return self.rows.total

    @property
    def quantity(self):
        return self.rows.quantity

    @property
    def price(self):
        return self.auction.price

    @property
    def effort(self):
        """How many sweeps over a pool, and how many windows, all clearings took."""
        return self.rows.readings, self.rows.windows

    def jobs_by_team(self):
        """Return team, size and limit of every job, and its key where jobs have keys."""
        cdef int64_t i, j, at = 0, total = self.rows.total
        cdef Bag* bag
        team = np.empty(total, np.int32)
        size, limit = np.empty(total, np.int64), np.empty(total, np.int64)
        key = np.empty(total if self.rows.keyed else 0, np.int32)
        cdef int32_t[::1] teams = team, keys = key
        cdef int64_t[::1] sizes = size, limits = limit
        for i in range(self.rows.teams):
            bag = &self.rows.bags[i]
            for j in range(bag.first, bag.first + bag.count):
                teams[at] = <int32_t>i
                sizes[at] = self.rows.rows[j].size
                limits[at] = self.rows.rows[j].limit
                if self.rows.keyed:
                    keys[at] = self.rows.keys[j]
                at += 1
        return team, size, limit, key

    def hint(self, int64_t price, const int64_t[::1] pools):
        """Say where to start the search: prices near the expected ones."""
        cdef int64_t k
        self.auction.start = price
        self.started = True
        for k in range(self.rows.pool_count):
            expect(&self.rows.pools[k].curve, self.rows.pools[k].supply, price, pools[k])

    def clear(self):
        """Clear; return the columns of `ClearedArrays` in its order, prices as integers."""
        cdef int64_t k, m, i
        cdef Demand rows = self.rows
        cdef Settlement settlement
        if not self.started and rows.total > ESTIMATED_ABOVE:
            self._estimate()
        # An empty market says nothing about where prices are.
        self.started = self.started or rows.total > 0
        with nogil:
            self.auction.solve()
        settlement = Settlement(self.auction, self.order)
        with nogil:
            settlement.settle_margins()
            settlement.settle_leftovers()
        pools = np.empty((4, rows.pool_count), np.int64)
        teams = np.empty((2, rows.teams), np.int64)
        cdef int64_t[:, ::1] by_pool = pools, by_team = teams
        cdef Pool* pool
        with nogil:
            for k in range(rows.pool_count):
                pool = &rows.pools[k]
                by_pool[0, k] = pool.now
                by_pool[1, k] = pool.purchased
                by_pool[2, k] = 0
                by_pool[3, k] = pool.below
                for m in range(pool.first, pool.last):
                    i = rows.team_of[m]
                    by_pool[2, k] += settlement.allocated[m]
                    by_team[0, i] = settlement.allocated[m]
                    by_team[1, i] = settlement.idle[m] + settlement.rest[m]
        return self.auction.price, pools, teams

    def _estimate(self):
        """Find prices of a sample of the jobs, and start there.

        A sample of a few jobs a team says where prices are to a few per cent; without it the first
        windows would stand where nothing is decided.
        """
        cdef Demand rows = self.rows, some
        cdef Auction rough
        cdef int64_t k
        some = rows.sampled()
        rough = Auction(some)
        rough.rough = True
        rough.supplied, rough.reserve = self.auction.supplied, self.auction.reserve
        rough.lends = self.auction.lends
        with nogil:
            rough.solve()
        self.auction.start = rough.price
        self.auction.bracket = rough.bracket
        for k in range(rows.pool_count):
            rows.pools[k].curve = some.pools[k].curve
            rows.pools[k].bracket = some.pools[k].bracket
