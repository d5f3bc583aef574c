"""Where to look for a price: the only floats of the kernel, and none of them decides anything.

Between two limits the demand of a pool is A + B/p: A is what its demand-limited teams want, B what
the others spend (theory §7.3). A reading of demand gives both, and the limits next to it.
"""

from libc.math cimport INFINITY, ceil, sqrt
from libc.stdint cimport INT64_MAX, int64_t

ctypedef double guess_t


cdef struct Curve:
    guess_t fixed        # A, macc
    guess_t spend        # B, µcr·1000 per hour
    int64_t price        # where it was read; 0: nowhere
    int64_t up           # the next limit above that price
    int64_t down         # the next limit at or below it


cdef struct Bracket:
    # The nearest looks at either side of what a search looks for: 1/price (0: none yet) and excess.
    guess_t low_at
    guess_t low_over
    guess_t high_at
    guess_t high_over
    guess_t slope        # of the excess by 1/price, over many limits; 0: unknown
    int64_t width        # of the bracket, three looks ago
    int last             # side of the last look


cdef inline int64_t whole(guess_t value) noexcept nogil:
    """The next integer; INT64_MAX beyond all prices in range (design §4: P <= 1000·max Σb + 1)."""
    return <int64_t>ceil(value) if value < 2e18 else INT64_MAX


cdef inline guess_t inverse_of(int64_t price) noexcept nogil:
    return 1.0 / price


cdef inline int64_t affordable(int64_t budget, int64_t price, guess_t inverse) noexcept nogil:
    """⌊budget / price⌋ from an inverse in floats, put right by the remainder.

    Exact up to 10¹⁵; beyond that, where no demand reaches, it is right to one part in 10¹⁵.
    """
    cdef int64_t quotient = <int64_t>(budget * inverse)
    cdef int64_t remainder = budget - quotient * price
    return quotient + (remainder >= price) - (remainder < 0)


cdef inline bint is_unknown(const Curve* curve) noexcept nogil:
    return curve.fixed == 0.0 and curve.spend == 0.0


cdef inline void all_money(Curve* curve, guess_t budgets) noexcept nogil:
    """A pool of which nothing was read yet: as if money limited every team."""
    curve.fixed, curve.spend = 0.0, budgets
    curve.price, curve.up, curve.down = 0, INT64_MAX, 0


cdef inline void expect(Curve* curve, int64_t own, int64_t price, int64_t p) noexcept nogil:
    """As if money limited every team, and the pool price at P = `price` were p."""
    curve.fixed = curve.spend = 0.0
    curve.price, curve.up, curve.down = 0, INT64_MAX, 0
    if 0 < p < price:
        curve.spend = <guess_t>own * price * p / (price - p)


cdef inline void note(
    Curve* curve, int64_t price, int64_t open, int64_t spend, int64_t up, int64_t down
) noexcept nogil:
    """Take a reading: X⁺ at a price, the budgets of the teams that money limits, the limits."""
    curve.spend = spend
    curve.fixed = max(0.0, open - curve.spend / price)
    curve.price, curve.up, curve.down = price, up, down


cdef inline void unbracketed(Bracket* found) noexcept nogil:
    """Nothing was looked at; what is known of the slope stays."""
    found.low_at = found.high_at = 0.0
    found.low_over = found.high_over = 0.0
    found.last = 0
    found.width = INT64_MAX


cdef inline void look(Bracket* found, int64_t price, guess_t over, bint held) noexcept nogil:
    """Take the excess at a price: above zero where the price does not hold yet.

    Quantities are whole: between an excess of 0, which holds, and 1 the change is half way.
    The same end twice in a row: the other one counts for half, so that both move (Illinois).
    """
    cdef guess_t at = 1.0 / max(price, 0.5)
    cdef bint was_open = found.low_at == 0.0 or found.high_at == 0.0
    if held:
        if found.last > 0:
            found.low_over *= 0.5
        found.high_at, found.high_over, found.last = at, min(over, 0.0) - 0.5, 1
    else:
        if found.last < 0:
            found.high_over *= 0.5
        found.low_at, found.low_over, found.last = at, max(over - 0.5, 0.5), -1
    if was_open and found.low_at - found.high_at > found.high_at / 256 > 0.0:
        found.slope = max(0.0, found.low_over - found.high_over) / (found.low_at - found.high_at)


cdef inline void suppose(Bracket* found, guess_t slope) noexcept nogil:
    """With nothing better, take the slope between two limits for half of that over many."""
    if found.slope <= 0.0:
        found.slope = 2.0 * slope


cdef inline int64_t between(const Bracket* found) noexcept nogil:
    """Where the excess vanishes if it runs straight in 1/price, as money does; -1: unknown.

    With one end alone it goes an eighth too far, so that the other end is near, too.
    """
    cdef guess_t at
    if found.low_at > 0.0 and found.high_at > 0.0:
        at = found.low_at - (found.low_at - found.high_at) * found.low_over / (
            found.low_over - found.high_over
        )
    elif found.slope <= 0.0:
        return -1
    elif found.low_at > 0.0:
        at = found.low_at - 1.125 * found.low_over / found.slope
    else:
        at = found.high_at - 1.125 * found.high_over / found.slope
    return whole(1.0 / at) if at > 0.0 else -1


cdef inline guess_t curvature(const Curve* curve, guess_t own, guess_t price) noexcept nogil:
    """√Δ of the quadratic equation A·p² + β·p − B·P = 0, β = B + s·P − A·P."""
    cdef guess_t beta = curve.spend + (own - curve.fixed) * price
    return sqrt(beta * beta + 4.0 * curve.fixed * curve.spend * price)


cdef inline int64_t pool_root(const Curve* curve, int64_t own, int64_t price) noexcept nogil:
    """The price at which demand meets the supply curve s·P/(P−p); s itself where P is absent."""
    cdef guess_t beta, root
    if price < 0:
        return whole(curve.spend / (own - curve.fixed)) if own > curve.fixed else INT64_MAX
    # Both forms are free of cancellation (theory §7.3).
    beta = curve.spend + (own - curve.fixed) * price
    root = curvature(curve, own, price)
    if beta < 0.0:
        return whole((root - beta) / (2.0 * curve.fixed))
    if beta + root > 0.0:
        return whole(2.0 * curve.spend * price / (beta + root))
    return 0


cdef inline int64_t reference_root(const Curve* purchases, int64_t shared) noexcept nogil:
    """The reference price at which purchases fixed + spend/P meet the shared supply."""
    if shared > purchases.fixed:
        return whole(purchases.spend / (shared - purchases.fixed))
    return INT64_MAX


cdef inline guess_t excess_at(guess_t open, int64_t own, int64_t price, int64_t p) noexcept nogil:
    """What a pool wants at p beyond the supply curve s·P/(P−p); s itself where P is absent."""
    if price < 0:
        return open - own
    return open - <guess_t>own * price / max(price - p, 0.5)


cdef inline int64_t expected_price(
    const Curve* curve, const Bracket* found, int64_t own, int64_t price
) noexcept nogil:
    """Where to look first for the price of a pool at P, from what was read last at another P."""
    cdef int64_t root = pool_root(curve, own, price), smooth
    cdef guess_t at, open
    if curve.price == 0 or found.slope <= 0.0 or curve.down < root <= curve.up:
        return root
    # A limit lies between.
    open = curve.fixed + curve.spend / curve.price
    at = 1.0 / curve.price - excess_at(open, own, price, curve.price) / found.slope
    smooth = whole(1.0 / at) if at > 0.0 else INT64_MAX
    if root <= curve.down:
        return min(smooth, curve.down)
    return max(smooth, curve.up)


cdef inline guess_t likely_purchases(
    const Curve* curve, int64_t own, int64_t price
) noexcept nogil:
    """What a pool with own supply buys at P if no limit lies between its price and the reading."""
    cdef int64_t p = pool_root(curve, own, price)
    return own * <guess_t>price / max(<guess_t>price - p, 0.5) - own if p < price else INFINITY


cdef inline guess_t steepness(
    const Curve* curve, int64_t own, int64_t price, int64_t p
) noexcept nogil:
    """Slope by 1/p of what a pool wants at p beyond its supply curve, between two limits."""
    cdef guess_t gap = max(<guess_t>price - p, 0.5)
    return curve.spend if price < 0 else curve.spend + own * (p / gap) * (p / gap) * price


cdef inline int64_t reaching(const Curve* curve, int64_t own, int64_t limit) noexcept nogil:
    """The reference price at which the pool's own price reaches a limit (theory §7.2)."""
    cdef guess_t quantity = curve.fixed + curve.spend / limit
    if quantity > own + 0.5:
        return whole(limit * quantity / (quantity - own))
    return INT64_MAX


cdef inline void join(
    Curve* purchases, const Curve* curve, int64_t own, int64_t price, int64_t p, guess_t bought,
    bint jump
) noexcept nogil:
    """Add what a pool buys near P to the purchases of all.

    At a jump of demand, purchases follow the supply curve and not the teams.
    """
    cdef guess_t slope, root, gap = price - p
    cdef int64_t other
    if own == 0:
        slope = curve.spend
        purchases.up = min(purchases.up, curve.up)
        purchases.down = max(purchases.down, curve.down)
    else:
        if jump:
            slope = <guess_t>price * price * own * p / (gap * gap)
        else:
            root = curvature(curve, own, price)
            slope = price * (bought - curve.fixed * p * bought / root) if root > 0.0 else 0.0
        if curve.up < INT64_MAX:
            purchases.up = min(purchases.up, reaching(curve, own, curve.up))
        if curve.down > 0:
            other = reaching(curve, own, curve.down)
            purchases.down = max(purchases.down, other if other < INT64_MAX else 0)
    slope = max(slope, 0.0)
    purchases.spend += slope
    purchases.fixed += bought - slope / price
