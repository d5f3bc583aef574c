"""Where to look for a price: the only floats of the kernel, and none of them decides anything.

Between two limits the demand of a pool is A + B/p: A is what its demand-limited teams want, B what
the others spend (theory §7.3). A reading of demand gives both, and the limits next to it.
"""

from libc.math cimport ceil, sqrt
from libc.stdint cimport INT64_MAX, int64_t

ctypedef double guess_t


cdef struct Curve:
    guess_t fixed        # A, macc
    guess_t spend        # B, µcr·1000 per hour
    int64_t up           # the next limit above the price it was read at
    int64_t down         # the next limit at or below it


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


cdef inline void all_money(Curve* curve, int64_t budgets) noexcept nogil:
    """A pool of which nothing was read yet: as if money limited every team."""
    curve.fixed, curve.spend = 0.0, budgets
    curve.up, curve.down = INT64_MAX, 0


cdef inline void expect(Curve* curve, int64_t own, int64_t price, int64_t p) noexcept nogil:
    """As if money limited every team, and the pool price at P = `price` were p."""
    curve.fixed = curve.spend = 0.0
    curve.up, curve.down = INT64_MAX, 0
    if 0 < p < price:
        curve.spend = <guess_t>own * price * p / (price - p)


cdef inline void note(
    Curve* curve, int64_t price, int64_t open, int64_t spend, int64_t up, int64_t down
) noexcept nogil:
    """Take a reading: X⁺ at a price, the budgets of the teams that money limits, the limits."""
    curve.spend = spend
    curve.fixed = max(0.0, open - curve.spend / price)
    curve.up, curve.down = up, down


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


cdef inline int64_t reaching(const Curve* curve, int64_t own, int64_t limit) noexcept nogil:
    """The reference price at which the pool's own price reaches a limit (theory §7.2)."""
    cdef guess_t quantity = curve.fixed + curve.spend / limit
    if quantity > own + 0.5:
        return whole(limit * quantity / (quantity - own))
    return INT64_MAX


cdef inline void join(
    Curve* purchases, const Curve* curve, int64_t own, int64_t price, int64_t p, int64_t least,
    int64_t most, bint jump
) noexcept nogil:
    """Add what a pool buys near P, between two bounds at P, to the purchases of all.

    At a jump of demand, purchases follow the supply curve and not the teams.
    """
    cdef guess_t bought = 0.5 * least + 0.5 * most, slope, root, gap = price - p
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
