"""The jobs, teams and pools of a market, as the compiled modules see them."""

from libc.stdint cimport int32_t, int64_t

from walras_clearing._guess cimport Bracket, Curve


cdef extern from "_exact.h" nogil:
    bint covers "walras_covers"(int64_t quantity, int64_t supply, int64_t price, int64_t p)
    int64_t muldiv "walras_muldiv"(int64_t a, int64_t b, int64_t c, int64_t limit)
    void* allocate "walras_allocate"(size_t size, bint zeroed)


cdef enum:
    # As a reference price: there is none. As a pool price: nothing to price.
    ABSENT = -1
    # Readings a pool remembers.
    REMEMBERED = 4


cdef struct Row:
    int64_t limit
    int64_t size


cdef struct Step:
    # Where a demand curve drops: a limit, and the macc of the rows at or above it.
    int64_t limit
    int64_t wanted


cdef struct Bag:
    # The rows of one team, in no order: rows[first .. first + count), with room for more.
    int64_t first
    int64_t wanted       # macc of the rows with limit > 0
    int64_t idle         # macc of the rows with limit 0
    int32_t count
    int32_t room


cdef struct Member:
    # What a sweep over a pool reads of one team, and all it reads while prices move little.
    int64_t budget       # 1000·b, so that ⌊budget / p⌋ is what p µcr buys, in macc
    Step here            # the last step above the price that was read last,
    Step below           # and the one after it
    # Rows in the window by falling limit, equal ones merged, are steps 1 to `count`. Step 0 is all
    # that lies above the window, and the one at the end has no limit at all.
    Step* steps
    int32_t count
    int32_t finger       # the number of `here`


cdef struct Reading:
    # Demand of a pool at a price.
    int64_t price        # -1: nothing was read
    int64_t open         # X⁺, macc
    int64_t closed       # X, macc
    int64_t up           # least limit above the price
    int64_t down         # greatest limit at or below the price, as far as the window shows it


cdef struct Pool:
    int64_t supply       # s
    int64_t weight
    int64_t first        # its members are first .. last
    int64_t last
    int64_t funded       # F = X⁺(0)
    int64_t lent         # L
    int64_t budgets      # Σ budgets
    int64_t rows         # how many rows its members have
    # The window: prices in [low, high] can be read; high < low: there is none.
    int64_t low
    int64_t high
    Step* arena
    int64_t arena_room
    # Share of the rows on either side of a price that the next window takes, a power of 1/2.
    int32_t narrow
    int32_t turn         # of `memory`
    Reading memory[REMEMBERED]
    Curve curve          # demand near the last reading
    Bracket bracket      # of its price
    # The search: see `_auction`.
    int64_t now          # its price at the P settled on last
    int64_t least        # its price at the highest P known not to fit, or less
    int64_t most         # its price at the lowest P known to fit, or more
    int64_t probe        # where it was read last for a bound, and whether its predicate held there
    int64_t below        # its price at P − 1
    int64_t purchased    # z
    int64_t weights      # Σm, macc
    bint held


cdef class Rows:
    cdef Row* rows
    cdef int32_t* keys           # of the rows, where they have keys
    cdef int64_t used            # rows of the arena that bags own, wasted ones included
    cdef int64_t arena_room
    cdef int64_t total           # rows held
    cdef int64_t wasted
    cdef bint keyed
    cdef Bag* bags               # by team
    cdef int64_t* bid            # by team, µcr per hour
    cdef int32_t* pool_of        # by team
    cdef int64_t* member_of      # by team
    cdef char* dirty             # by team: its rows changed since its steps were made
    cdef int32_t* dirty_list
    cdef int64_t dirty_count
    cdef Member* members         # by pool, then in id order
    cdef int32_t* team_of        # by member
    cdef int64_t* step_room      # by member
    cdef int64_t teams
    cdef Pool* pools
    cdef int64_t pool_count
    cdef int32_t* place          # row of a key, -1: unknown
    cdef int32_t* holder         # team of a key
    cdef int64_t place_room
    cdef int64_t quantity        # macc of all rows

    cdef int arrange(self, const int32_t* pool_of, const int32_t* order, int64_t teams) except -1
    cdef int load(
        self, const int32_t* team, const int64_t* size, const int64_t* limit, const int32_t* key,
        int64_t count,
    ) except -1 nogil
    cdef void _empty(self) noexcept nogil
    cdef int put(self, int32_t key, int32_t team, int64_t size, int64_t limit) except -1 nogil
    cdef int find(self, int32_t key) except -1 nogil
    cdef int take(self, int32_t key) except -1 nogil
    cdef int know(self, int64_t keys) except -1 nogil
    cdef void set_bid(self, int32_t team, int64_t bid) noexcept nogil

    cdef int _room_for(self, Bag* bag) except -1 nogil
    cdef int _pack(self) except -1 nogil
    cdef void _touch(self, int32_t team) noexcept nogil
    cdef void _forget(self, Pool* pool) noexcept nogil


cdef void* grown(void* block, size_t held, size_t wanted) except NULL nogil
cdef void* moved(void* block, size_t held, size_t wanted) except NULL nogil
cdef void* fresh(size_t wanted) except NULL nogil
cdef int check_row(
    int64_t position, int64_t team, int64_t teams, int64_t size, int64_t limit
) except -1 nogil
cdef int64_t sum_held(int64_t position, int64_t held, int64_t size) except -1 nogil
cdef int no_memory() except -1 with gil
