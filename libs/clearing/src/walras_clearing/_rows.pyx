"""The jobs of a market by team: taken all at once, or edited one by one.

The jobs of a team lie in a *bag*, in no order: an edit is a swap, and no sum depends on the order.
Bags lie in one arena; a full one moves to its end, and an arena that is half waste is packed.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from walras_clearing.errors import ClearingInputError

cdef extern from *:
    const char* WALRAS_BUILD_STAMP

BUILD_STAMP = WALRAS_BUILD_STAMP.decode("ascii")

cdef int64_t QUANTITY_MAX = 10**15
cdef int64_t LIMIT_MAX = 10**12
# What a book may hold between two clearings, while jobs come before others go.
cdef int64_t HELD_MAX = 10**18


cdef int no_memory() except -1 with gil:
    raise MemoryError


cdef void* grown(void* block, size_t held, size_t wanted) except NULL nogil:
    """Return a block of `wanted` bytes with the first `held` of the old one, which is freed."""
    cdef void* larger = allocate(wanted, False)
    if larger == NULL:
        no_memory()
        return NULL
    if held:
        memcpy(larger, block, held)
    memset(<char*>larger + held, 0, wanted - held)
    free(block)
    return larger


cdef void* moved(void* block, size_t held, size_t wanted) except NULL nogil:
    """Like `grown`, but what follows the old content is not set: it is about to be written."""
    cdef void* larger = fresh(wanted)
    if held:
        memcpy(larger, block, held)
    free(block)
    return larger


cdef void* fresh(size_t wanted) except NULL nogil:
    """Return a block whose content is not set: all of it is about to be written."""
    cdef void* block = allocate(wanted, False)
    if block == NULL:
        no_memory()
    return block


# Refusals take the lock of the interpreter: they are functions of their own, so that what calls
# them in a loop does not.

cdef int refuse(str code, str path, str message) except -1:
    raise ClearingInputError(code, path, message)


cdef int refuse_key(int32_t key) except -1 with gil:
    return refuse("unknown_job", f"jobs[{key}]", "no job has this key")


cdef int refuse_sum(int64_t position) except -1 with gil:
    message = f"the sum in this market exceeds {QUANTITY_MAX} macc"
    return refuse("sum_above_maximum", f"size_macc[{position}]", message)


cdef int refuse_row(
    int64_t position, int64_t team, int64_t teams, int64_t size, int64_t limit
) except -1 with gil:
    if not 0 <= team < teams:
        refuse("unknown_team", f"team_of_job[{position}]", f"no team has the number {team}")
    if size < 0 or limit < 0:
        name = "size_macc" if size < 0 else "limit_micro"
        refuse("negative", f"{name}[{position}]", "must not be negative")
    if size > QUANTITY_MAX:
        refuse("above_maximum", f"size_macc[{position}]", f"must not exceed {QUANTITY_MAX}")
    return refuse("above_maximum", f"limit_micro[{position}]", f"must not exceed {LIMIT_MAX}")


cdef int check_row(
    int64_t position, int64_t team, int64_t teams, int64_t size, int64_t limit
) except -1 nogil:
    """Refuse a job that is out of the ranges of design §4."""
    if 0 <= team < teams and 0 <= size <= QUANTITY_MAX and limit >= 0 and (
        limit <= LIMIT_MAX or limit == INT64_MAX
    ):
        return 0
    return refuse_row(position, team, teams, size, limit)


cdef int64_t sum_held(int64_t position, int64_t held, int64_t size) except -1 nogil:
    """Return what a book holds with one more job, in macc; refuse what cannot be counted."""
    if held > HELD_MAX - size:
        return refuse_sum(position)
    return held + size


cdef class Rows:
    """Jobs, teams and pools of one market."""

    def __cinit__(self, int64_t pools):
        self.pool_count = pools
        self.pools = <Pool*>allocate(max(1, pools) * sizeof(Pool), True)
        if self.pools == NULL:
            raise MemoryError
        cdef int64_t k
        for k in range(pools):
            self.pools[k].high = -1
            self._forget(&self.pools[k])

    def __dealloc__(self):
        cdef int64_t k
        if self.pools != NULL:
            for k in range(self.pool_count):
                free(self.pools[k].arena)
        free(self.pools)
        free(self.rows)
        free(self.keys)
        free(self.bags)
        free(self.bid)
        free(self.pool_of)
        free(self.member_of)
        free(self.dirty)
        free(self.dirty_list)
        free(self.members)
        free(self.team_of)
        free(self.step_room)
        free(self.place)
        free(self.holder)

    # ---- teams -----------------------------------------------------------------------------

    cdef int arrange(self, const int32_t* pool_of, const int32_t* order, int64_t teams) except -1:
        """Take teams and their pools; `order` lists them in id order. Jobs and bids stay."""
        cdef int64_t before = self.teams, i, k, at, team
        cdef Pool* pool
        cdef int64_t bytes8 = max(1, teams) * 8
        if teams < before:
            refuse("too_few_teams", "pool_of_team", "known teams cannot be left out")
        for i in range(teams):
            if not 0 <= pool_of[i] < self.pool_count:
                refuse("unknown_pool", f"pool_of_team[{i}]", f"no pool has number {pool_of[i]}")
        self.bags = <Bag*>grown(self.bags, before * sizeof(Bag), max(1, teams) * sizeof(Bag))
        self.bid = <int64_t*>grown(self.bid, before * 8, bytes8)
        self.dirty = <char*>grown(self.dirty, before, max(1, teams))
        self.dirty_list = <int32_t*>grown(self.dirty_list, self.dirty_count * 4, bytes8)
        # All is written anew, but where memory runs out here the old content stands.
        self.pool_of = <int32_t*>grown(self.pool_of, before * 4, bytes8)
        self.member_of = <int64_t*>grown(self.member_of, before * 8, bytes8)
        self.members = <Member*>grown(
            self.members, before * sizeof(Member), max(1, teams) * sizeof(Member)
        )
        self.team_of = <int32_t*>grown(self.team_of, before * 4, bytes8)
        self.step_room = <int64_t*>grown(self.step_room, before * 8, bytes8)
        self.teams = teams
        for k in range(self.pool_count):
            pool = &self.pools[k]
            pool.low, pool.high = 0, -1
            pool.funded = pool.budgets = pool.rows = pool.last = 0
            self._forget(pool)
        for i in range(teams):
            pool = &self.pools[pool_of[i]]
            self.pool_of[i] = pool_of[i]
            pool.last += 1
            pool.budgets += 1000 * self.bid[i]
            pool.rows += self.bags[i].count
            if self.bid[i] > 0:
                pool.funded += self.bags[i].wanted
        at = 0
        for k in range(self.pool_count):
            pool = &self.pools[k]
            pool.first = at
            at += pool.last
            pool.last = pool.first
        for i in range(teams):
            team = i if order == NULL else order[i]
            pool = &self.pools[pool_of[team]]
            self.member_of[team] = pool.last
            self.team_of[pool.last] = <int32_t>team
            self.members[pool.last].budget = 1000 * self.bid[team]
            pool.last += 1
        return 0

    cdef void set_bid(self, int32_t team, int64_t bid) noexcept nogil:
        cdef Pool* pool = &self.pools[self.pool_of[team]]
        cdef int64_t before = self.bid[team]
        if bid == before:
            return
        pool.budgets += 1000 * (bid - before)
        if before == 0:
            pool.funded += self.bags[team].wanted
        elif bid == 0:
            pool.funded -= self.bags[team].wanted
        self.bid[team] = bid
        self.members[self.member_of[team]].budget = 1000 * bid
        self._forget(pool)

    # ---- jobs ------------------------------------------------------------------------------

    cdef int know(self, int64_t keys) except -1 nogil:
        """Make room for job keys below `keys`."""
        cdef int64_t room = self.place_room, i
        if keys <= room:
            return 0
        room = max(keys, min(room + (room >> 1) + 64, <int64_t>1 << 27))
        self.place = <int32_t*>grown(self.place, self.place_room * 4, room * 4)
        self.holder = <int32_t*>grown(self.holder, self.place_room * 4, room * 4)
        for i in range(self.place_room, room):
            self.place[i] = -1
        self.place_room = room
        return 0

    cdef int load(
        self, const int32_t* team, const int64_t* size, const int64_t* limit, const int32_t* key,
        int64_t count,
    ) except -1 nogil:
        """Take all jobs of an empty book, grouped by team in two passes.

        Returns 1, with nothing taken, where a key occurs twice or a book holds more for now than
        can be cleared.
        """
        cdef int64_t i, at = 0, quantity = 0
        cdef Bag* bag
        cdef Row* row
        cdef Pool* pool
        self._empty()
        # Memory first: where there is none, nothing has been taken.
        self.arena_room = 0
        free(self.rows)
        self.rows = NULL
        self.rows = <Row*>fresh(count * sizeof(Row))
        if key != NULL:
            free(self.keys)
            self.keys = NULL
            self.keys = <int32_t*>fresh(count * 4)
            self.arena_room = count
        for i in range(count):
            check_row(i, team[i], self.teams, size[i], limit[i])
            self.bags[team[i]].room += 1
            quantity += size[i]
            if quantity > QUANTITY_MAX:
                self._empty()
                return 1 if key != NULL else refuse_sum(i)
        if key != NULL:
            for i in range(count):
                if self.place[key[i]] != -1:
                    for at in range(i):
                        self.place[key[at]] = -1
                    self._empty()
                    return 1
                self.place[key[i]] = 0
        for i in range(self.teams):
            self.bags[i].first = at
            at += self.bags[i].room
        self.keyed, self.quantity = key != NULL, quantity
        self.arena_room, self.used, self.total = count, count, count
        for i in range(count):
            bag = &self.bags[team[i]]
            at = bag.first + bag.count
            bag.count += 1
            row = &self.rows[at]
            row.limit = limit[i]
            row.size = size[i]
            if limit[i]:
                bag.wanted += size[i]
            else:
                bag.idle += size[i]
            if key != NULL:
                self.keys[at] = key[i]
                self.place[key[i]] = <int32_t>at
                self.holder[key[i]] = team[i]
        for i in range(self.teams):
            bag = &self.bags[i]
            pool = &self.pools[self.pool_of[i]]
            pool.rows += bag.count
            if self.bid[i] > 0:
                pool.funded += bag.wanted
        return 0

    cdef void _empty(self) noexcept nogil:
        """Give an empty book's arena back whole, and drop its windows."""
        cdef int64_t k
        if self.teams:
            memset(self.bags, 0, self.teams * sizeof(Bag))
        self.used = self.wasted = 0
        for k in range(self.pool_count):
            self.pools[k].low, self.pools[k].high = 0, -1
            self._forget(&self.pools[k])

    cdef int put(self, int32_t key, int32_t team, int64_t size, int64_t limit) except -1 nogil:
        """Take a job, or change the one of that key."""
        cdef Bag* bag
        cdef Row* row
        cdef Pool* pool
        cdef int64_t at, wanted
        check_row(key, team, self.teams, size, limit)
        sum_held(key, self.quantity, size)
        self.know(<int64_t>key + 1)
        self.keyed = True
        bag = &self.bags[team]
        if self.place[key] < 0 or self.holder[key] != team:
            # Room first: where there is no memory, the job stays as it was.
            if bag.count == bag.room:
                self._room_for(bag)
            if self.place[key] >= 0:
                self.take(key)
        pool = &self.pools[self.pool_of[team]]
        wanted = bag.wanted
        if self.place[key] >= 0:
            row = &self.rows[self.place[key]]
            if row.limit == limit and row.size == size:
                return 0
            if row.limit:
                bag.wanted -= row.size
            else:
                bag.idle -= row.size
            self.quantity -= row.size
        else:
            at = bag.first + bag.count
            bag.count += 1
            pool.rows += 1
            self.total += 1
            self.keys[at] = key
            self.place[key] = <int32_t>at
            self.holder[key] = team
            row = &self.rows[at]
        row.limit = limit
        row.size = size
        if limit:
            bag.wanted += size
        else:
            bag.idle += size
        self.quantity += size
        if self.bid[team] > 0:
            pool.funded += bag.wanted - wanted
        self._touch(team)
        return 0

    cdef int find(self, int32_t key) except -1 nogil:
        """Refuse a key that no job has."""
        if 0 <= key < self.place_room and self.place[key] >= 0:
            return 0
        return refuse_key(key)

    cdef int take(self, int32_t key) except -1 nogil:
        """Let go of a job."""
        cdef int32_t team
        cdef int64_t at, last
        cdef Bag* bag
        cdef Row row
        self.find(key)
        team = self.holder[key]
        at = self.place[key]
        bag = &self.bags[team]
        row = self.rows[at]
        last = bag.first + bag.count - 1
        # The last row of the bag takes its place.
        self.rows[at] = self.rows[last]
        self.keys[at] = self.keys[last]
        self.place[self.keys[at]] = <int32_t>at
        self.place[key] = -1
        bag.count -= 1
        self.total -= 1
        self.pools[self.pool_of[team]].rows -= 1
        self.quantity -= row.size
        if row.limit:
            bag.wanted -= row.size
            if self.bid[team] > 0:
                self.pools[self.pool_of[team]].funded -= row.size
        else:
            bag.idle -= row.size
        self._touch(team)
        return 0

    cdef void _touch(self, int32_t team) noexcept nogil:
        self._forget(&self.pools[self.pool_of[team]])
        if not self.dirty[team]:
            self.dirty[team] = 1
            self.dirty_list[self.dirty_count] = team
            self.dirty_count += 1

    cdef int _room_for(self, Bag* bag) except -1 nogil:
        """Move a full bag to the end of the arena, with twice the room."""
        cdef int64_t room = max(4, 2 * bag.count), i
        if self.used + room > self.arena_room:
            self._pack()
        if self.used + room > self.arena_room:
            i = max(64, self.arena_room + (self.arena_room >> 1) + room)
            self.rows = <Row*>grown(self.rows, self.used * sizeof(Row), i * sizeof(Row))
            self.keys = <int32_t*>grown(self.keys, self.used * 4, i * 4)
            self.arena_room = i
        for i in range(bag.count):
            self.rows[self.used + i] = self.rows[bag.first + i]
            self.keys[self.used + i] = self.keys[bag.first + i]
            self.place[self.keys[self.used + i]] = <int32_t>(self.used + i)
        self.wasted += bag.room
        bag.first = self.used
        bag.room = <int32_t>room
        self.used += room
        return 0

    cdef int _pack(self) except -1 nogil:
        """Write the bags anew without the room that moved bags left, once that is half of all."""
        cdef int64_t i, j, at = 0
        cdef Row* rows
        cdef int32_t* keys
        cdef Bag* bag
        if 2 * self.wasted < self.used:
            return 0
        rows = <Row*>fresh(self.arena_room * sizeof(Row))
        keys = <int32_t*>allocate(self.arena_room * 4, False)
        if keys == NULL:
            free(rows)
            return no_memory()
        for i in range(self.teams):
            bag = &self.bags[i]
            for j in range(bag.count):
                rows[at + j] = self.rows[bag.first + j]
                keys[at + j] = self.keys[bag.first + j]
                self.place[keys[at + j]] = <int32_t>(at + j)
            bag.first = at
            at += bag.room
        free(self.rows)
        free(self.keys)
        self.rows, self.keys = rows, keys
        self.used, self.wasted = at, 0
        return 0

    cdef void _forget(self, Pool* pool) noexcept nogil:
        cdef int i
        for i in range(REMEMBERED):
            pool.memory[i].price = -1
