"""The search for prices: guided by floats, decided by integers (design §4).

Symbols: P reference price, p pool price, S shared supply after lending, s own supply, X⁺ = open and
X = closed quantities, z purchases. `_guess` says where to look next; a bracket keeps it honest.
Pool prices do not fall when P rises, so what was found at one P brackets them at the next.
"""

from libc.stdint cimport INT64_MAX, int64_t

from walras_clearing._demand cimport Demand
from walras_clearing._guess cimport (
    Bracket, all_money, between, excess_at, expected_price, guess_t, is_unknown, join,
    likely_purchases, look, pool_root, reference_root, steepness, suppose, unbracketed,
)
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
    int64_t low, int64_t high, Bracket* found, int64_t guess, bint held, int64_t up, int64_t down,
    int turn
) noexcept nogil:
    """Where to look next for the least value that holds: a value in [low, high − 1].

    The last look was at `high` where it held, else at `low` − 1; `up` and `down` are the next
    limits above and at or below it. `guess` is right where no limit lies between; where one does,
    demand drops there, and the ends of the bracket say more. Where three looks have not made the
    bracket a quarter, one halves it, within a reach that grows: the other end may be a thousand
    windows away.
    """
    cdef int64_t smooth, reach = high - low, step = 64 + ((high if held else low) >> 12)
    cdef bint slow = False
    if turn < 20 and step <= reach >> turn:
        reach = step << turn
    if turn % 3 == 2:
        slow = high - low > found.width >> 2
        found.width = high - low
    if slow or (turn >= 20 and turn & 1):
        smooth = middle_of(low, high)
        if held:
            return high - max(1, min(reach, high - smooth))
        return low + min(reach, smooth - low)
    if held and down < guess < high:
        return max(low, guess)
    if not held and guess <= up and guess < high:
        return max(low, guess)
    smooth = between(found)
    if held:
        if smooth < 0:
            smooth = max(guess, high - max(1, reach))
        return max(low, min(smooth, high - 1 if guess > down else down - 1))
    if smooth < 0:
        smooth = min(guess, low + reach)
    if guess > up:
        smooth = max(smooth, up)
    return max(low, min(smooth, high - 1))


cdef int64_t inside(int64_t probe, int64_t last, int64_t low, int64_t high) noexcept nogil:
    """Stop at the edge of a window, prices in (low, high], before leaving it: a look costs less."""
    if probe > high > last:
        return high
    if probe <= low and last > low + 1:
        return low + 1
    return probe


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
        cdef int64_t k, low = self.reserve, high, probe, total = 0, own = 0
        cdef int turn = 0
        cdef bint fit = True
        cdef guess_t bought = 0, money = 0
        high = low
        for k in range(self.rows.pool_count):
            high = max(high, self.rows.pools[k].budgets + 1)
            money += self.rows.pools[k].budgets
            own += self.rows.pools[k].supply
            total += max(0, self.rows.pools[k].funded - self.rows.pools[k].supply)
        # At P = 0 all funded demand is bought (theory §7.4).
        if low == 0:
            if total <= self.shared:
                self.price = 0
                return 0
            low = 1
        if self.start <= 0:
            # As if money limited every team.
            all_money(&self.purchases, money)
            self.start = reference_root(&self.purchases, self.shared + own)
        probe = min(max(self.start, low), high)
        unbracketed(&self.bracket)
        while low < high:
            if probe >= high:
                probe = high - 1
            self._fits(probe, &fit, &bought)
            look(&self.bracket, probe, bought - self.shared, fit)
            suppose(&self.bracket, self.purchases.spend)
            if fit:
                high = probe
            else:
                low = probe + 1
            if self.rough and high - low <= high >> 7:
                break
            if low < high:
                probe = next_probe(
                    low, high, &self.bracket, reference_root(&self.purchases, self.shared), fit,
                    self.purchases.up, self.purchases.down, turn,
                )
                probe = self._in_windows(probe, high if fit else low - 1)
            turn += 1
        self.price = self.start = high
        return 0

    cdef int _fits(self, int64_t price, bint* fit, guess_t* bought) except -1 nogil:
        """Whether the shared supply suffices at a price, and about what is bought there.

        Narrows the brackets of the pool prices.
        """
        cdef int64_t k, least = 0, most = 0, one_least = 0, one_most = 0, total = 0
        cdef guess_t likely = 0
        cdef Pool* pool
        cdef Reading reading
        all_money(&self.purchases, 0)
        bought[0] = 0
        # A reading or two a pool bound what it buys; far from the price that decides.
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            if pool.funded <= pool.supply:
                continue
            if pool.supply == 0:
                self.rows.read(pool, price, &reading)
                one_least = one_most = reading.open
                likely = reading.open
                pool.probe = price
            else:
                self._bounds(pool, price, &one_least, &one_most)
                likely = likely_purchases(&pool.curve, pool.supply, price)
                likely = max(<guess_t>one_least, min(likely, <guess_t>one_most))
            join(&self.purchases, &pool.curve, pool.supply, price, pool.probe, likely, False)
            least += one_least
            most += one_most
            bought[0] += likely
        if most <= self.shared:
            fit[0] = True
        elif least > self.shared:
            fit[0] = False
        else:
            self._settle_on(price)
            for k in range(self.rows.pool_count):
                total += self.rows.pools[k].purchased
            bought[0] = total
            fit[0] = total <= self.shared
            self._narrow(fit[0], True)
            return 0
        self._narrow(fit[0], False)
        return 0

    cdef int64_t _in_windows(self, int64_t probe, int64_t last) noexcept nogil:
        """Stop at the edge of the windows that are read at the reference price itself."""
        cdef int64_t k, low = 0, high = INT64_MAX
        cdef Pool* pool
        for k in range(self.rows.pool_count):
            pool = &self.rows.pools[k]
            if pool.supply == 0 and pool.low < last <= pool.high:
                low, high = max(low, pool.low), min(high, pool.high)
        return inside(probe, last, low, high)

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
        unbracketed(&pool.bracket)
        if low < high:
            probe = expected_price(&pool.curve, &pool.bracket, pool.supply, price)
            probe = max(low, min(probe, high - 1))
        while low < high:
            self.rows.read(pool, probe, &reading)
            held = self._holds(pool, price, &reading)
            look(
                &pool.bracket, probe, excess_at(reading.open, pool.supply, price, probe), held
            )
            suppose(&pool.bracket, steepness(&pool.curve, pool.supply, price, probe))
            if held:
                high = probe
            else:
                low = probe + 1
            if low < high:
                probe = next_probe(
                    low, high, &pool.bracket, pool_root(&pool.curve, pool.supply, price), held,
                    reading.up, reading.down, turn,
                )
                probe = inside(probe, reading.price, pool.low, pool.high)
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
        unbracketed(&pool.bracket)
        if low < high:
            p = expected_price(&pool.curve, &pool.bracket, pool.supply, price)
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
            look(&pool.bracket, p, excess_at(reading.open, pool.supply, price, p), False)
            suppose(&pool.bracket, steepness(&pool.curve, pool.supply, price, p))
            low = p + 1
            if low >= high or turn == READINGS - 1:
                break
            p = pool_root(&pool.curve, pool.supply, price)
            p = next_probe(low, high, &pool.bracket, p, False, reading.up, 0, turn)
            p = inside(p, reading.price, pool.low, pool.high)
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
        join(&self.purchases, &pool.curve, own, price, pool.now, bought[0], jump)
        return 0
