"""`split` of design §4."""

from libc.stdint cimport int64_t


cdef int share_out(
    int64_t amount, int64_t* weight, int64_t* target, int64_t count
) except -1 nogil
