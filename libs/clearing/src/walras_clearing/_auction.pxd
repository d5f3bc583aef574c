"""The search for prices."""

from libc.stdint cimport int64_t

from walras_clearing._demand cimport Demand
from walras_clearing._guess cimport Bracket, Curve, guess_t
from walras_clearing._rows cimport Pool, Reading


cdef class Auction:
    cdef Demand rows
    cdef int64_t supplied    # shared supply as given, macc
    cdef int64_t shared      # S: with what pools lend
    cdef int64_t reserve
    cdef int64_t price       # P, or ABSENT
    cdef int64_t start       # where the search for P starts: the last P above 0, or a guess
    cdef bint lends
    cdef bint strict
    cdef bint rough          # prices to one part in a hundred will do
    cdef Curve purchases     # of all pools near the price looked at last
    cdef Bracket bracket     # of the reference price

    cdef int solve(self) except -1 nogil
    cdef int _lend(self) except -1 nogil
    cdef int _find_price(self) except -1 nogil
    cdef int _fits(self, int64_t price, bint* fit, guess_t* bought) except -1 nogil
    cdef int64_t _in_windows(self, int64_t probe, int64_t last) noexcept nogil
    cdef void _narrow(self, bint fit, bint exact) noexcept nogil
    cdef int _settle_on(self, int64_t price) except -1 nogil
    cdef int _pool_price(
        self, Pool* pool, int64_t price, int64_t low, int64_t high
    ) except -1 nogil
    cdef bint _holds(self, Pool* pool, int64_t price, Reading* reading) noexcept nogil
    cdef int _bounds(
        self, Pool* pool, int64_t price, int64_t* least, int64_t* most
    ) except -1 nogil
    cdef int _purchases(self, Pool* pool, int64_t price, int64_t* bought) except -1 nogil
