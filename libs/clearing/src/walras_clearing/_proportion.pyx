"""`split` of design §4: shares by weight that never fall when the amount grows."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

import numpy as np

from walras_clearing._rows cimport allocate, muldiv, no_memory

cdef extern from *:
    const char* WALRAS_BUILD_STAMP

BUILD_STAMP = WALRAS_BUILD_STAMP.decode("ascii")


cdef int share_out(
    int64_t amount, int64_t* weight, int64_t* target, int64_t count
) except -1 nogil:
    """Share an amount by weights in id order.

    The shares are added to `target`, or take the place of the weights where that is NULL. An
    amount beyond the sum of the weights is cut to it.
    """
    cdef int64_t i, total = 0, low, high, middle, share, left, members = 0
    cdef int64_t* who
    for i in range(count):
        total += weight[i]
        members += weight[i] > 0
    amount = min(amount, total)
    if total == 0:
        return 0
    who = <int64_t*>allocate(members * sizeof(int64_t), False)
    if who == NULL:
        return no_memory()
    members = 0
    for i in range(count):
        if weight[i] > 0:
            who[members] = i
            members += 1
    # ⌊·⌋ loses less than one a member, so the height lies in [amount, amount + members].
    # Invariant: the shares at low sum to at most the amount, at high + 1 they exceed it.
    low, high = amount, min(total, amount + members)
    while low < high:
        middle = high - ((high - low) >> 1)
        share = 0
        for i in range(members):
            share += muldiv(weight[who[i]], middle, total, weight[who[i]])
        if share <= amount:
            low = middle
        else:
            high = middle - 1
    left = amount
    for i in range(members):
        left -= muldiv(weight[who[i]], low, total, weight[who[i]])
    for i in range(members):
        share = muldiv(weight[who[i]], low, total, weight[who[i]])
        if left > 0 and muldiv(weight[who[i]], low + 1, total, weight[who[i]]) > share:
            share += 1
            left -= 1
        if target == NULL:
            weight[who[i]] = share
        else:
            target[who[i]] += share
    free(who)
    return 0


def shared_out(int64_t amount, weights):
    """Return the shares of an amount by weights (a column of int64, not negative)."""
    column = np.array(weights, dtype=np.int64)
    cdef int64_t[::1] view = column
    if view.shape[0]:
        with nogil:
            share_out(amount, &view[0], NULL, view.shape[0])
    return column


def first_beyond(
    const int64_t[::1] values, const int32_t[::1] group, int64_t groups, int64_t maximum
):
    """Return the first row at which the sum of its group exceeds a maximum; -1: none does.

    No value may itself exceed the maximum, or be negative.
    """
    cdef int64_t[::1] sums = np.zeros(groups, np.int64)
    cdef int64_t i
    for i in range(values.shape[0]):
        sums[group[i]] += values[i]
        if sums[group[i]] > maximum:
            return i
    return -1
