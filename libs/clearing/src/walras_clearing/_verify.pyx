"""One pass over the jobs of a market for `certificate`: what every team wants at four prices.

Shares no code with the kernel; see `certificate` for what is made of the figures.
"""

from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef extern from *:
    const char* WALRAS_BUILD_STAMP

BUILD_STAMP = WALRAS_BUILD_STAMP.decode("ascii")


cdef struct Sums:
    # Of one team: the greatest and the least of its four prices, and macc of its jobs. A line of
    # the processor's cache each: all that most jobs need.
    int64_t top
    int64_t bottom
    int64_t jobs
    int64_t above_all
    int64_t idle
    int64_t unused[3]


def faults_of_jobs(
    const int32_t[::1] team, const int64_t[::1] size, const int64_t[::1] limit, int64_t teams,
    int64_t most_size, int64_t most_limit, int64_t no_limit,
):
    """Say whether a team is unknown, a figure negative, one too large, the sum of sizes too large.

    One pass; the sum counts sizes that are in range themselves, and stops where it is too large.
    """
    cdef int64_t i, amount, at, total = 0, jobs = team.shape[0]
    cdef bint unknown = False, negative = False, large = False
    if jobs != size.shape[0] or jobs != limit.shape[0]:
        raise ValueError("the columns of the jobs have different lengths")
    with nogil:
        for i in range(jobs):
            amount, at = size[i], limit[i]
            unknown |= (team[i] < 0) | (team[i] >= teams)
            negative |= (amount < 0) | (at < 0)
            large |= (amount > most_size) | ((at > most_limit) & (at != no_limit))
            if 0 <= amount <= most_size and total <= most_size:
                total += amount
    return unknown, negative, large, total > most_size


def read_demand(
    const int32_t[::1] team_of_job, const int64_t[::1] size, const int64_t[::1] limit,
    const int64_t[:, ::1] prices,
):
    """Return what every team wants above each of its prices, with any limit but 0, and with 0.

    ``prices`` has four rows, a price per team each; the result has six.
    """
    cdef int64_t i, j, amount, at, teams = prices.shape[1], jobs = team_of_job.shape[0]
    cdef int32_t team
    found = np.zeros((6, teams), np.int64)
    cdef int64_t[:, ::1] out = found
    store = np.zeros((teams + 1) * sizeof(Sums), np.uint8)
    cdef unsigned char[::1] block = store
    cdef Sums* sums = <Sums*>((<size_t>&block[0] + sizeof(Sums) - 1) & ~(sizeof(Sums) - 1))
    cdef Sums* one
    if team_of_job.shape[0] != size.shape[0] or size.shape[0] != limit.shape[0]:
        raise ValueError("the columns of the jobs have different lengths")
    with nogil:
        for i in range(teams):
            one = &sums[i]
            one.top = one.bottom = prices[0, i]
            for j in range(1, 4):
                one.top = max(one.top, prices[j, i])
                one.bottom = min(one.bottom, prices[j, i])
        for i in range(jobs):
            team = team_of_job[i]
            one = &sums[team]
            amount, at = size[i], limit[i]
            one.jobs += amount
            # Added without a jump: whether a limit lies above cannot be predicted.
            one.above_all += amount * (at > one.top)
            if one.bottom < at <= one.top:
                for j in range(4):
                    if at > prices[j, team]:
                        out[j, team] += amount
            if at == 0:
                one.idle += amount
        for i in range(teams):
            one = &sums[i]
            for j in range(4):
                out[j, i] += one.above_all
            out[4, i] = one.jobs - one.idle
            out[5, i] = one.idle
    return found
