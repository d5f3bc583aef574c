"""The search for prices: guided by floats, decided by integers (design §4).

Symbols: P reference price, p pool price, S shared supply after lending, s own supply, X⁺ = open and
X = closed quantities, z purchases. `_guess` says where to look next; a bracket keeps it honest.
Pool prices do not fall when P rises, so what was found at one P brackets them at the next.
"""

from libc.stdint cimport INT64_MAX, int64_t

from walras_clearing._demand cimport Demand
from walras_clearing._guess cimport all_money, is_unknown, join, pool_root, reference_root
from walras_clearing._rows cimport ABSENT, Pool, Reading, covers, muldiv
from walras_clearing.errors import InvariantBroken

cdef extern from *:
    const char* WALRAS_BUILD_STAMP

BUILD_STAMP = WALRAS_BUILD_STAMP.decode("ascii")

cdef enum:
    # A pool's purchases are bounded by at most so many readings.
    READINGS = 3


cdef int64_t middle_of(int64_t low, int64_t high) noexcept nogil:
    """A value in [low, high − 1]: half way; where they are far apart, half way in powers of 2."""
    cdef int64_t ratio = high // max(1, low)
    cdef int shift = 0
    if ratio < 4:
        return low + ((high - low) >> 1)
    while ratio >= 4:
        ratio >>= 2
        shift += 1
    return max(1, low) << shift


cdef int64_t next_probe(
    int64_t low, int64_t high, int64_t guess, bint held, int64_t up, int64_t down, int turn
) noexcept nogil:
    """Where to look next for the least value that holds: a value in [low, high − 1].

    The last look was at `high` where it held, else at `low` − 1; `guess` is what it suggests, `up`
    and `down` are the next limits above and at or below it. Demand drops at limits, which the
    suggestion does not know: where it leaves the bracket, a limit lies between. Every fourth look,
    and later every second, halves the bracket, within a reach that grows: the other end may be a
    thousand windows away.
    """
    cdef int64_t middle, reach = high - low, step = 64 + ((high if held else low) >> 12)
    if turn < 20 and step <= reach >> turn:
        reach = step << turn
    if turn & 3 == 3 or (turn >= 8 and turn & 1):
        middle = middle_of(low, high)
        if held:
            return high - max(1, min(reach, high - middle))
        return low + min(reach, middle - low)
    if held:
        if guess >= high or down >= high:
            return high - 1
        return guess if guess >= low else max(low, down, high - max(1, reach))
    if guess < high:
        return max(low, guess)
    return max(low, min(up, high - 1, low + reach))


cdef int oversold() except -1 with gil:
    raise InvariantBroken("the purchases at the reference price exceed the supply")


cdef class Auction:
    """One clearing of the rows; the prices it finds stay in the pools."""

    def __cinit__(self, Demand rows):
        self.rows = rows
        self.price = self.start = ABSENT

    cdef int solve(self) except -1 nogil:
        """Find all prices and purchases; `start` may hold a hint."""
        cdef int64_t k, total = 0
        cdef Pool* pool
        self.rows.refresh()
        self._lend()
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            pool.purchased = 0
            pool.below = 0
            pool.least = 0
            pool.most = INT64_MAX
            if is_unknown(&pool.curve):
                all_money(&pool.curve, pool.budgets)
        if self.shared == 0:
            self.price = ABSENT
            for k in range(self.rows.pool_count):
                pool = &self.rows.pools[k]
                if pool.supply == 0:
                    pool.now = ABSENT
                else:
                    self._pool_price(pool, ABSENT, 0, pool.budgets + 1)
            return 0
        self._find_price()
        if self.rough:
            return 0
        # The certificate at P − 1 first: the market is left as it stands at P.
        if self.price > self.reserve:
            self._settle_on(self.price - 1)
            for k in range(self.rows.pool_count):
                self.rows.pools[k].below = self.rows.pools[k].now
        self._settle_on(self.price)
        for k in range(self.rows.pool_count):
            total += self.rows.pools[k].purchased
        return oversold() if total > self.shared else 0

    cdef int _lend(self) except -1 nogil:
        cdef int64_t k
        cdef Pool* pool
        self.shared = self.supplied
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            pool.lent = max(0, pool.supply - pool.funded) if self.lends else 0
            self.shared += pool.lent
        return 0

    # ---- the reference price ---------------------------------------------------------------

    cdef int _find_price(self) except -1 nogil:
        """Set P to the least price from the reserve on at which the purchases fit."""
        cdef int64_t k, low = self.reserve, high, probe, total = 0
        cdef int turn = 0
        cdef bint fit = True
        high = low
        for k in range(self.rows.pool_count):
            high = max(high, self.rows.pools[k].budgets + 1)
            total += max(0, self.rows.pools[k].funded - self.rows.pools[k].supply)
        # At P = 0 all funded demand is bought (theory §7.4).
        if low == 0:
            if total <= self.shared:
                self.price = 0
                return 0
            low = 1
        probe = min(max(self.start, low), high)
        while low < high:
            if probe >= high:
                probe = high - 1
            self._fits(probe, &fit)
            if fit:
                high = probe
            else:
                low = probe + 1
            if self.rough and high - low <= high >> 7:
                break
            if low < high:
                probe = next_probe(
                    low, high, reference_root(&self.purchases, self.shared), fit,
                    self.purchases.up, self.purchases.down, turn,
                )
            turn += 1
        self.price = self.start = high
        return 0

    cdef int _fits(self, int64_t price, bint* fit) except -1 nogil:
        """Whether the shared supply suffices at a price; narrows the bracket of pool prices."""
        cdef int64_t k, least = 0, most = 0, one_least = 0, one_most = 0, total = 0
        cdef Pool* pool
        cdef Reading reading
        all_money(&self.purchases, 0)
        # A reading or two a pool bound what it buys; far from the price that decides.
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            if pool.funded <= pool.supply:
                continue
            if pool.supply == 0:
                self.rows.read(pool, price, &reading)
                one_least = one_most = reading.open
                pool.probe = price
            else:
                self._bounds(pool, price, &one_least, &one_most)
            join(
                &self.purchases, &pool.curve, pool.supply, price, pool.probe, one_least, one_most,
                False,
            )
            least += one_least
            most += one_most
        if most <= self.shared:
            fit[0] = True
        elif least > self.shared:
            fit[0] = False
        elif self.rough:
            fit[0] = (least >> 1) + (most >> 1) <= self.shared
        else:
            self._settle_on(price)
            for k in range(self.rows.pool_count):
                total += self.rows.pools[k].purchased
            fit[0] = total <= self.shared
            self._narrow(fit[0], True)
            return 0
        self._narrow(fit[0], False)
        return 0

    cdef void _narrow(self, bint fit, bint exact) noexcept nogil:
        """Keep what one P says of the pool prices at all others: they do not fall in P."""
        cdef int64_t k
        cdef Pool* pool
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            if pool.supply == 0 or pool.funded <= pool.supply:
                continue
            if fit and (exact or pool.held):
                pool.most = min(pool.most, pool.now if exact else pool.probe)
            elif not fit and (exact or not pool.held):
                pool.least = max(pool.least, pool.now if exact else pool.probe + 1)

    cdef int _settle_on(self, int64_t price) except -1 nogil:
        """Find every pool's price and purchases at a reference price."""
        cdef int64_t k
        cdef Pool* pool
        all_money(&self.purchases, 0)
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            if pool.supply == 0:
                pool.now = price
            else:
                self._pool_price(pool, price, min(pool.least, price), min(price, pool.most))
            self._purchases(pool, price, &pool.purchased)
        return 0

    # ---- the price of a pool ---------------------------------------------------------------

    cdef bint _holds(self, Pool* pool, int64_t price, Reading* reading) noexcept nogil:
        """The predicate whose least tick is the pool price; once true it stays true in p."""
        if price == ABSENT:
            return reading.open <= pool.supply
        return covers(reading.open, pool.supply, price, reading.price)

    cdef int _pool_price(
        self, Pool* pool, int64_t price, int64_t low, int64_t high
    ) except -1 nogil:
        """Set `now` to the least p in [low, high] that holds; it is known to hold at high."""
        cdef Reading reading
        cdef int64_t probe
        cdef int turn = 0
        cdef bint held
        if pool.funded <= pool.supply:
            pool.now = 0
            return 0
        probe = high
        if low < high:
            probe = pool_root(&pool.curve, pool.supply, price)
            probe = max(low, min(probe, high - 1))
        while low < high:
            self.rows.read(pool, probe, &reading)
            held = self._holds(pool, price, &reading)
            if held:
                high = probe
            else:
                low = probe + 1
            if low < high:
                probe = next_probe(
                    low, high, pool_root(&pool.curve, pool.supply, price), held, reading.up,
                    reading.down, turn,
                )
            turn += 1
        pool.now = high
        return 0

    cdef int _bounds(
        self, Pool* pool, int64_t price, int64_t* least, int64_t* most
    ) except -1 nogil:
        """What the pool buys at least and at most at P, by few readings.

        At p where its predicate holds, X⁺(p) <= x <= ⌊s·P/(P−p)⌋. Where it does not, the pool price
        is above p and x <= X(p_k) <= X⁺(p); what it buys at least is not known there.
        """
        cdef int64_t low = pool.least, high = min(price, pool.most), p = high, curve
        cdef int turn = 0
        cdef Reading reading
        least[0], most[0] = 0, pool.funded
        if low < high:
            p = pool_root(&pool.curve, pool.supply, price)
            p = min(max(p, low), high)
        while True:
            self.rows.read(pool, p, &reading)
            pool.probe = p
            pool.held = p == high or self._holds(pool, price, &reading)
            if pool.held:
                least[0] = reading.open
                if p < price:
                    curve = muldiv(pool.supply, price, price - p, INT64_MAX >> 8)
                    most[0] = min(most[0], curve)
                break
            most[0] = min(most[0], reading.open)
            low = p + 1
            if low >= high or turn == READINGS - 1:
                break
            p = pool_root(&pool.curve, pool.supply, price)
            p = next_probe(low, high, p, False, reading.up, 0, turn)
            turn += 1
        least[0] = max(0, least[0] - pool.supply)
        most[0] = max(0, most[0] - pool.supply)
        return 0

    cdef int _purchases(self, Pool* pool, int64_t price, int64_t* bought) except -1 nogil:
        """Macc that a pool buys at a reference price, its own price being `now`."""
        cdef Reading reading
        cdef int64_t quantity, own = pool.supply
        cdef bint jump = False
        if price == 0 or pool.funded <= own:
            bought[0] = max(0, pool.funded - own)
            return 0
        self.rows.read(pool, pool.now, &reading)
        if own == 0:
            bought[0] = reading.open
        else:
            quantity = reading.closed
            if pool.now < price:
                quantity = muldiv(own, price, price - pool.now, quantity)
                # Between both ends of a jump the purchases follow the supply curve.
                jump = reading.open < quantity < reading.closed
            bought[0] = max(0, quantity - own)
        join(
            &self.purchases, &pool.curve, own, price, pool.now, bought[0], bought[0], jump
        )
        return 0
