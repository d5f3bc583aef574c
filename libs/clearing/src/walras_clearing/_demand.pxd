"""Demand curves, read through windows."""

from libc.stdint cimport int32_t, int64_t

from walras_clearing._rows cimport Member, Pool, Reading, Row, Rows, Step


cdef class Demand(Rows):
    cdef Row* scratch
    cdef int64_t scratch_room
    cdef bint whole              # windows hold all rows
    cdef int64_t readings        # sweeps over a pool, ever
    cdef int64_t windows         # windows made, ever

    cdef int refresh(self) except -1 nogil
    cdef int open_window(self, Pool* pool, int64_t price) except -1 nogil
    cdef int read(self, Pool* pool, int64_t price, Reading* found) except -1 nogil
    cdef Demand sampled(self)

    cdef int _choose_window(self, Pool* pool, int64_t price) except -1 nogil
    cdef int _fill_window(self, Pool* pool) except -1 nogil
    cdef int64_t _collect(self, Pool* pool, int32_t team, int64_t* above) except -1 nogil
    cdef void _write_steps(self, Member* member, int64_t count, int64_t above) noexcept nogil


cdef inline void seek(Member* member, int64_t price) noexcept nogil:
    """Point a member at the last step above a price: most often where it points, or next to it."""
    cdef const Step* steps = member.steps
    cdef int32_t low, high, middle, finger = member.finger
    if member.below.limit > price:
        finger += 1
        low = high = finger
        if steps[finger + 1].limit > price:
            low, high = finger + 1, member.count
    elif member.here.limit <= price:
        finger -= 1
        low = high = finger
        if steps[finger].limit <= price:
            low, high = 0, finger - 1
    else:
        return
    # Invariant: step low lies above the price, those after high do not.
    while low < high:
        middle = (low + high + 1) >> 1
        if steps[middle].limit > price:
            low = middle
        else:
            high = middle - 1
    member.finger = low
    member.here = steps[low]
    member.below = steps[low + 1]
