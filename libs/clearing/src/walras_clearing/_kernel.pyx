"""The exact clearing of a market in 64-bit integers, with 128-bit products (design §4).

Columns and their order: see `pack`. Symbols: P reference price, p pool price, S shared supply
after lending, s own supply, x⁺ = open and x = closed quantities, z purchases.

Ranges (checked by `validate`) keep every sum below 10¹⁵ macc and every price at or below
10¹⁸ + 1, so sums fit 64 bits and each product of two of them fits 128. Floats occur in
`guess_prices` alone; every price is decided by integer predicates.
"""

from libc.math cimport ceil, sqrt
from libc.stdint cimport INT64_MAX, int64_t

import numpy as np

from walras_clearing.errors import InvariantBroken
from walras_clearing.pack import Cleared

cdef extern from *:
    """
    #include <stdint.h>
    /* quantity·(P−p) <= supply·P: what the teams pay covers the cost of the shared part. */
    static inline int walras_covers(int64_t quantity, int64_t supply, int64_t price, int64_t p) {
        return (__int128)quantity * (price - p) <= (__int128)supply * price;
    }
    /* min(limit, ⌊a·b/c⌋) for c > 0; the quotient alone may exceed 64 bits. */
    static inline int64_t walras_muldiv(int64_t a, int64_t b, int64_t c, int64_t limit) {
        __int128 quotient = (__int128)a * b / c;
        return quotient < limit ? (int64_t)quotient : limit;
    }
    """
    bint covers "walras_covers"(int64_t quantity, int64_t supply, int64_t price, int64_t p) nogil
    int64_t muldiv "walras_muldiv"(int64_t a, int64_t b, int64_t c, int64_t limit) nogil
    const char* WALRAS_BUILD_STAMP

BUILD_STAMP = WALRAS_BUILD_STAMP.decode("ascii")

cdef enum:
    # As a reference price: there is none. As a pool price: nothing to price.
    ABSENT = -1


cdef class _Book:
    """A market in columns, and the search state shared by the steps."""

    # The market.
    cdef const int64_t[::1] supply, order, first_team, budget, first_row, limit, wanted
    cdef Py_ssize_t pools, teams
    cdef int64_t shared      # S
    cdef int64_t reserve
    cdef int64_t price       # P, or ABSENT
    cdef bint strict
    # Per pool.
    cdef int64_t[::1] funded     # F = X⁺(0)
    cdef int64_t[::1] lent       # L
    cdef int64_t[::1] low        # its price at the highest P known not to fit
    cdef int64_t[::1] high       # its price at the lowest P known to fit
    cdef int64_t[::1] now        # its price at the P looked at last: where the next search starts
    cdef int64_t[::1] purchased  # z
    cdef int64_t[::1] weight     # Σm
    # Per team.
    cdef int64_t[::1] allocated, leftover, margin
    cdef int64_t[::1] idle       # opportunistic work not served yet
    cdef int64_t[::1] rest       # funded work not served yet

    def __init__(self, columns, pool_hints):
        self.supply, self.order = columns.supply, columns.pool_order
        self.first_team, self.first_row = columns.first_team, columns.first_row
        self.budget, self.idle = columns.budget, np.array(columns.opportunistic)
        self.limit, self.wanted = columns.limit, columns.wanted
        self.pools, self.teams = len(columns.supply), len(columns.budget)
        self.shared, self.reserve = columns.shared, columns.reserve
        self.strict = columns.strict
        self.price = ABSENT
        self.funded, self.lent, self.low = (np.zeros(self.pools, np.int64) for _ in range(3))
        self.purchased, self.weight = (np.zeros(self.pools, np.int64) for _ in range(2))
        self.high = np.full(self.pools, INT64_MAX, np.int64)
        self.now = np.array(pool_hints, np.int64)
        self.allocated, self.leftover, self.margin, self.rest = (
            np.zeros(self.teams, np.int64) for _ in range(4)
        )
        cdef Py_ssize_t k
        for k in range(self.pools):
            self.funded[k] = self.open(k, 0)
            if columns.lends and self.supply[k] > self.funded[k]:
                self.lent[k] = self.supply[k] - self.funded[k]
                self.shared += self.lent[k]

    # ---- the curves ------------------------------------------------------------------------

    cdef int64_t demand(self, Py_ssize_t team, int64_t price) noexcept nogil:
        """Macc of the team's rows with limit > price; rows stand by falling limit."""
        cdef int64_t first = self.first_row[team]
        cdef int64_t low = first, high = self.first_row[team + 1], middle
        # Invariant: rows before low have limit > price, rows from high on have not.
        while low < high:
            middle = (low + high) >> 1
            if self.limit[middle] > price:
                low = middle + 1
            else:
                high = middle
        return self.wanted[low - 1] if low > first else 0

    cdef int64_t team_open(self, Py_ssize_t team, int64_t price) noexcept nogil:
        cdef int64_t wanted = self.demand(team, price)
        if price == 0 or wanted == 0:
            return wanted
        return min(wanted, self.budget[team] // price)

    cdef int64_t team_closed(self, Py_ssize_t team, int64_t price) noexcept nogil:
        # Limits are integers: at or above price is above price − 1.
        cdef int64_t wanted = self.demand(team, price - 1 if price > 0 else 0)
        if price == 0 or wanted == 0:
            return wanted
        return min(wanted, self.budget[team] // price)

    cdef int64_t open(self, Py_ssize_t k, int64_t price) noexcept nogil:
        cdef int64_t team, total = 0
        for team in range(self.first_team[k], self.first_team[k + 1]):
            total += self.team_open(team, price)
        return total

    cdef int64_t closed(self, Py_ssize_t k, int64_t price) noexcept nogil:
        cdef int64_t team, total = 0
        for team in range(self.first_team[k], self.first_team[k + 1]):
            total += self.team_closed(team, price)
        return total

    cdef int64_t ceiling(self, Py_ssize_t k) noexcept nogil:
        """A price at which no team of the pool can afford anything."""
        cdef int64_t team, total = 1
        for team in range(self.first_team[k], self.first_team[k + 1]):
            total += self.budget[team]
        return total

    # ---- the price of a pool ---------------------------------------------------------------

    cdef bint holds(self, Py_ssize_t k, int64_t price, int64_t p) noexcept nogil:
        """The predicate whose least tick is the pool price; once true it stays true in p."""
        cdef int64_t quantity = self.open(k, p)
        if price == ABSENT:
            return quantity <= self.supply[k]
        return covers(quantity, self.supply[k], price, p)

    cdef int64_t pool_price(
        self, Py_ssize_t k, int64_t price, int64_t low, int64_t high
    ) noexcept nogil:
        """Least p in [low, high] that holds; it is known to hold at high."""
        cdef int64_t step = 1, probe = min(max(self.now[k], low), high)
        # Gallop away from the last answer. Invariant: no p below low holds, high does.
        if probe < high and not self.holds(k, price, probe):
            low = probe + 1
            while low < high:
                probe = low + min(step, high - low) - 1
                if self.holds(k, price, probe):
                    high = probe
                    break
                low = probe + 1
                step *= 2
        else:
            high = probe
            while low < high:
                probe = high - min(step, high - low)
                if not self.holds(k, price, probe):
                    low = probe + 1
                    break
                high = probe
                step *= 2
        while low < high:
            probe = low + ((high - low) >> 1)
            if self.holds(k, price, probe):
                high = probe
            else:
                low = probe + 1
        return low

    cdef int64_t purchases(self, Py_ssize_t k, int64_t price, int64_t p) noexcept nogil:
        """Macc bought by pool k at P = price, its own price being p."""
        cdef int64_t quantity, own = self.supply[k]
        if price == 0:
            return max(0, self.funded[k] - own)
        if own == 0:
            return self.open(k, price)
        quantity = self.closed(k, p)
        if p < price:
            quantity = muldiv(own, price, price - p, quantity)
        return max(0, quantity - own)

    # ---- the reference price ---------------------------------------------------------------

    cdef bint fits(self, int64_t price) noexcept nogil:
        """Does the shared supply suffice at this P? Narrows the bracket of every pool price."""
        cdef Py_ssize_t k
        cdef int64_t total = 0
        cdef bint fit
        for k in range(self.pools):
            if self.supply[k] == 0:
                self.now[k] = price
            else:
                # Pool prices do not fall when P rises, and what holds at a P holds below it.
                self.now[k] = self.pool_price(k, price, self.low[k], min(price, self.high[k]))
            self.purchased[k] = self.purchases(k, price, self.now[k])
            total += self.purchased[k]
        fit = total <= self.shared
        for k in range(self.pools):
            if fit:
                self.high[k] = self.now[k]
            else:
                self.low[k] = self.now[k]
        return fit

    cdef void find_price(self, int64_t hint) noexcept nogil:
        """Set P to the least price from the reserve on that fits.

        Afterwards `low` holds the pool prices at P−1 (where P exceeds the reserve), since the
        search has seen P−1 fail.
        """
        cdef Py_ssize_t k
        cdef int64_t low = self.reserve, high = self.reserve, step = 1, probe
        for k in range(self.pools):
            high = max(high, self.ceiling(k))
        probe = min(max(hint, low), high)
        # Invariant: no P below low fits, high does.
        if probe < high and not self.fits(probe):
            low = probe + 1
            while low < high:
                probe = low + min(step, high - low) - 1
                if self.fits(probe):
                    high = probe
                    break
                low = probe + 1
                step *= 2
        else:
            high = probe
            while low < high:
                probe = high - min(step, high - low)
                if not self.fits(probe):
                    low = probe + 1
                    break
                high = probe
                step *= 2
        while low < high:
            probe = low + ((high - low) >> 1)
            if self.fits(probe):
                high = probe
            else:
                low = probe + 1
        self.price = low

    cdef bint settle_prices(self, int64_t hint) noexcept nogil:
        """Find all prices and purchases; false if the final price does not fit."""
        cdef Py_ssize_t k
        if self.shared > 0:
            self.find_price(hint)
            # Once more at P itself: the search may have ended on a neighbour.
            return self.fits(self.price)
        for k in range(self.pools):
            self.purchased[k] = 0
            if self.supply[k] == 0:
                self.now[k] = ABSENT
            else:
                self.now[k] = self.pool_price(k, ABSENT, 0, self.ceiling(k))
        return True

    # ---- ties at the margin ----------------------------------------------------------------

    cdef void hand_out(
        self, int64_t amount, const int64_t[:] weight, int64_t[:] target
    ) noexcept nogil:
        """Add the shares of an amount to target, by weights in id order."""
        cdef Py_ssize_t i, count = weight.shape[0]
        cdef int64_t total = 0, low, high, middle, share, left
        for i in range(count):
            total += weight[i]
        if total == 0:
            return
        amount = min(amount, total)
        # ⌊·⌋ loses less than one per member, so the height lies in [amount, amount + count].
        # Invariant: the shares at low sum to at most the amount, at high + 1 they exceed it.
        low, high = amount, min(total, amount + count)
        while low < high:
            middle = high - ((high - low) >> 1)
            share = 0
            for i in range(count):
                share += muldiv(weight[i], middle, total, weight[i])
            if share <= amount:
                low = middle
            else:
                high = middle - 1
        left = amount
        for i in range(count):
            share = muldiv(weight[i], low, total, weight[i])
            target[i] += share
            left -= share
        for i in range(count):
            if left == 0:
                break
            share = muldiv(weight[i], low, total, weight[i])
            if muldiv(weight[i], low + 1, total, weight[i]) > share:
                target[i] += 1
                left -= 1

    cdef void give(self, Py_ssize_t k, int64_t amount) noexcept nogil:
        """Serve margins of the teams of a pool, by the policy of the market."""
        cdef int64_t team, first = self.first_team[k], last = self.first_team[k + 1], share
        if not self.strict:
            self.hand_out(amount, self.margin[first:last], self.allocated[first:last])
            return
        for team in range(first, last):
            share = min(amount, self.margin[team])
            self.allocated[team] += share
            amount -= share

    cdef void settle_margins(self, int64_t[::1] shares) noexcept nogil:
        """Allocate at the pool prices and serve the margins; `shares` is scratch, all 0."""
        cdef Py_ssize_t k, position
        cdef int64_t team, p, amount, served, bought = 0, ties = 0
        for k in range(self.pools):
            p = self.now[k]
            if p == ABSENT:
                continue
            amount = served = 0
            for team in range(self.first_team[k], self.first_team[k + 1]):
                self.allocated[team] = self.team_open(team, p)
                self.margin[team] = self.team_closed(team, p) - self.allocated[team]
                served += self.allocated[team]
                amount += self.margin[team]
            bought += self.purchased[k]
            if p == 0:
                continue
            if self.supply[k] == 0:
                self.weight[k] = amount
                ties += amount
                continue
            if self.price == ABSENT:
                amount = min(amount, self.supply[k] - served)
            elif p < self.price:
                amount = muldiv(
                    self.supply[k], self.price, self.price - p, served + amount
                ) - served
            self.give(k, amount)
        amount = min(self.shared - bought, ties)
        if amount == 0 or self.price == ABSENT:
            return
        if not self.strict:
            self.hand_out(amount, self.weight, shares)
        for position in range(self.pools):
            k = self.order[position]
            if self.strict:
                shares[k] = min(amount, self.weight[k])
                amount -= shares[k]
            self.purchased[k] += shares[k]
            self.give(k, shares[k])

    # ---- leftovers -------------------------------------------------------------------------

    cdef int64_t serve(self, Py_ssize_t k, int64_t amount, bint funded) noexcept nogil:
        """Serve opportunistic work, or the unserved rest, of a pool; return what is left."""
        cdef int64_t team, taken
        for team in range(self.first_team[k], self.first_team[k + 1]):
            if funded:
                taken = min(amount, self.rest[team])
                self.rest[team] -= taken
            else:
                taken = min(amount, self.idle[team])
                self.idle[team] -= taken
            self.leftover[team] += taken
            amount -= taken
        return amount

    cdef void settle_leftovers(self, int64_t[::1] back) noexcept nogil:
        """Hand out at price 0 what nobody bought; `back` is scratch, all 0."""
        cdef Py_ssize_t k, position
        cdef int64_t team, used, unsold = self.shared, lent = 0, returned, remaining = 0
        for k in range(self.pools):
            unsold -= self.purchased[k]
            lent += self.lent[k]
        returned = min(unsold, lent)
        self.hand_out(returned, self.lent, back)
        for k in range(self.pools):
            used = 0
            for team in range(self.first_team[k], self.first_team[k + 1]):
                self.rest[team] = self.team_open(team, 0) - self.allocated[team]
                used += self.allocated[team]
            used = max(0, self.supply[k] - self.lent[k] - used) + back[k]
            remaining += self.serve(k, self.serve(k, used, False), True)
        if self.price <= 0 or self.price > self.reserve:
            remaining += unsold - returned
        for position in range(self.pools):
            remaining = self.serve(self.order[position], remaining, False)
        for position in range(self.pools):
            remaining = self.serve(self.order[position], remaining, True)


def clear_columns(columns, long long price_hint, pool_hints):
    """Clear a market laid out by `pack`; the hints say where the searches start."""
    cdef _Book book = _Book(columns, pool_hints)
    cdef int64_t[::1] shares = np.zeros(book.pools, np.int64)
    cdef int64_t[::1] back = np.zeros(book.pools, np.int64)
    cdef bint fit
    with nogil:
        fit = book.settle_prices(price_hint)
        book.settle_margins(shares)
        book.settle_leftovers(back)
    if not fit:
        raise InvariantBroken("the purchases at the reference price exceed the shared supply")
    return Cleared(
        reference_price=book.price,
        prices=np.asarray(book.now),
        prices_below=np.asarray(book.low),
        purchased=np.asarray(book.purchased),
        allocated=np.asarray(book.allocated),
        leftover=np.asarray(book.leftover),
    )


cdef class _Guess:
    """The market with divisible money and accelerators, in floats: near, never trusted."""

    cdef const double[::1] price, fixed, spend, switch
    cdef const int64_t[::1] first, supply

    def __init__(self, columns, curves):
        self.price, self.fixed = curves.price, curves.fixed
        self.spend, self.switch = curves.spend, curves.switch
        self.first, self.supply = curves.first, columns.supply

    cdef int64_t search(
        self, Py_ssize_t k, const double[::1] values, double at_least
    ) noexcept nogil:
        """First breakpoint of pool k whose value is at least the one given."""
        cdef int64_t low = self.first[k], high = self.first[k + 1], middle
        while low < high:
            middle = (low + high) >> 1
            if values[middle] >= at_least:
                high = middle
            else:
                low = middle + 1
        return low

    cdef double pool_price(self, Py_ssize_t k, double price) noexcept nogil:
        """Where the demand A + B/p meets s·P/(P−p), in the segment that holds it."""
        cdef int64_t j = self.search(k, self.switch, price)
        cdef double a, b, beta, root, p
        if j == self.first[k]:
            return 0.0
        a, b = self.fixed[j - 1], self.spend[j - 1]
        beta = b + (self.supply[k] - a) * price
        root = sqrt(beta * beta + 4.0 * a * b * price)
        if beta >= 0.0:
            p = 2.0 * b * price / (beta + root) if beta + root > 0.0 else 0.0
        else:
            p = (root - beta) / (2.0 * a)
        p = max(p, self.price[j - 1])
        return min(p, self.price[j]) if j < self.first[k + 1] else p

    cdef double purchases(self, Py_ssize_t k, double price) noexcept nogil:
        cdef double own = self.supply[k], p
        cdef int64_t j
        if own > 0.0:
            p = self.pool_price(k, price)
            return own * p / max(price - p, 1e-9 * price)
        j = self.search(k, self.price, price) - 1
        if j < self.first[k]:
            return 0.0
        return self.fixed[j] + self.spend[j] / price

    cdef double reference_price(self, double reserve, double shared) noexcept nogil:
        """Bisection by ratio: prices span eighteen powers of ten."""
        cdef Py_ssize_t k, _round
        cdef double low = max(reserve, 0.5), high = 1e18, middle, total
        for _round in range(64):
            middle = sqrt(low * high)
            total = 0.0
            for k in range(self.supply.shape[0]):
                total += self.purchases(k, middle)
            if total <= shared:
                high = middle
            else:
                low = middle
            if high - low < 0.25 or high < low * (1.0 + 1e-14):
                break
        return high


def guess_prices(columns, curves):
    """Estimate P and the pool prices; see `guess.curves`."""
    cdef _Guess guess = _Guess(columns, curves)
    cdef Py_ssize_t k, pools = len(columns.supply)
    cdef double reserve = columns.reserve, shared = columns.shared, price
    cdef int64_t[::1] hints = np.zeros(pools, np.int64)
    with nogil:
        # Without shared supply each pool clears as if the reference price were infinite.
        price = guess.reference_price(reserve, shared) if shared > 0.0 else 1e30
        for k in range(pools):
            hints[k] = <int64_t>min(ceil(guess.pool_price(k, price)), 1e18)
    return int(min(ceil(price), 1e18)), np.asarray(hints)
