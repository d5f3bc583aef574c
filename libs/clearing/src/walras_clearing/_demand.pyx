"""The demand curves of the pools, read through windows.

A *window* is a range of prices: what lies above it is one number a team, what lies below cannot
matter, and only the jobs inside are sorted. A price outside the window of its pool makes a new one
around it. So a cold market costs one pass over its jobs and a sort of few of them, and an edit
costs one pass over the jobs of its team.

Floats choose where to look (`affordable` puts its own right); every quantity is an integer.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.stdlib cimport free

from walras_clearing._guess cimport affordable, guess_t, inverse_of, note
from walras_clearing._rows cimport (
    REMEMBERED, Bag, Member, Pool, Reading, Row, Rows, Step, fresh, grown, moved, muldiv,
)

cdef extern from *:
    const char* WALRAS_BUILD_STAMP

BUILD_STAMP = WALRAS_BUILD_STAMP.decode("ascii")

cdef enum:
    # Windows of pools with fewer rows hold all of them.
    WHOLE_BELOW = 1024
    SAMPLED_LIMITS = 512
    # A new window takes 1/16 of the rows on either side, from the third one of a clearing on more.
    NARROW = 4
    FIRST = 5
    INSERTION_BELOW = 24
    SPARE_STEPS = 4
    # A sample has one row of so many, at most so many a team, and at least so many in all.
    SAMPLED_OF = 16
    SAMPLED_ROWS = 32
    SAMPLED_TOTAL = 8192

# Largest size of a sampled row: all of them together stay below 64 bits.
cdef int64_t SAMPLED_MOST = INT64_MAX >> 16
# Bids of a pool of a sample, together: a thousand times as much is below 64 bits.
cdef int64_t SAMPLED_BIDS = 9 * 10**15


cdef void sort_rows(Row* rows, int64_t count) noexcept nogil:
    """Sort rows by falling limit: few by insertion, many by a heap, so that no order is slow."""
    cdef int64_t i, j, child, last
    cdef Row row
    if count <= INSERTION_BELOW:
        for i in range(1, count):
            row = rows[i]
            j = i
            while j > 0 and rows[j - 1].limit < row.limit:
                rows[j] = rows[j - 1]
                j -= 1
            rows[j] = row
        return
    i, last = count >> 1, count
    while True:
        if i > 0:
            i -= 1
            row = rows[i]
        else:
            last -= 1
            if last == 0:
                return
            row = rows[last]
            rows[last] = rows[0]
        # Sift `row` down from i; the least limit is at the top.
        j = i
        child = 2 * j + 1
        while child < last:
            if child + 1 < last and rows[child + 1].limit < rows[child].limit:
                child += 1
            if row.limit <= rows[child].limit:
                break
            rows[j] = rows[child]
            j = child
            child = 2 * j + 1
        rows[j] = row


cdef class Demand(Rows):
    """Rows with the windows through which prices are tried."""

    def __dealloc__(self):
        free(self.scratch)

    # ---- windows ---------------------------------------------------------------------------

    cdef int refresh(self) except -1 nogil:
        """Make the steps of teams whose jobs changed anew."""
        cdef int64_t i, count, above = 0
        cdef int32_t team
        cdef Member* member
        cdef Pool* pool
        for i in range(self.dirty_count):
            team = self.dirty_list[i]
            pool = &self.pools[self.pool_of[team]]
            if pool.high < pool.low:
                continue
            member = &self.members[self.member_of[team]]
            count = self._collect(pool, team, &above)
            if count + 2 > self.step_room[self.member_of[team]]:
                # The whole window is made anew when it is read.
                pool.low, pool.high = 0, -1
                continue
            self._write_steps(member, count, above)
        # Only now: where memory ran out on the way, the list is worked through again.
        for i in range(self.dirty_count):
            self.dirty[self.dirty_list[i]] = 0
        self.dirty_count = 0
        for i in range(self.pool_count):
            self.pools[i].narrow = FIRST
        return 0

    cdef int64_t _collect(self, Pool* pool, int32_t team, int64_t* above) except -1 nogil:
        """Copy the rows inside the window to `scratch`, sorted, and sum those above it."""
        cdef Bag* bag = &self.bags[team]
        cdef const Row* row = self.rows + bag.first
        cdef const Row* end = row + bag.count
        cdef int64_t low = pool.low, high = pool.high, total = 0, count = 0
        if bag.count > self.scratch_room:
            count = max(256, 2 * <int64_t>bag.count)
            self.scratch = <Row*>grown(self.scratch, 0, count * sizeof(Row))
            self.scratch_room = count
            count = 0
        while row < end:
            self.scratch[count] = row[0]
            count += (row.limit > low) & (row.limit <= high)
            total += row.size if row.limit > high else 0
            row += 1
        above[0] = total
        sort_rows(self.scratch, count)
        return count

    cdef void _write_steps(self, Member* member, int64_t count, int64_t above) noexcept nogil:
        """Merge the rows in `scratch` to steps: equal limits are one drop (theory §9.1)."""
        cdef Step* step = member.steps
        cdef int64_t i, wanted = above
        step.limit = INT64_MAX
        step.wanted = above
        for i in range(count):
            wanted += self.scratch[i].size
            if step == member.steps or step.limit != self.scratch[i].limit:
                step += 1
                step.limit = self.scratch[i].limit
            step.wanted = wanted
        member.count = <int32_t>(step - member.steps)
        step += 1
        step.limit = -1
        step.wanted = wanted
        member.finger = 0
        member.here = member.steps[0]
        member.below = member.steps[1]

    cdef int open_window(self, Pool* pool, int64_t price) except -1 nogil:
        """Make a window around a price, at which and a tick below which demand can be read."""
        cdef bint made = False
        self._choose_window(pool, price)
        try:
            self._fill_window(pool)
            made = True
        finally:
            if not made:
                # Memory ran out on the way: steps may point nowhere.
                pool.low, pool.high = 0, -1
        self.windows += 1
        return 0

    cdef int _choose_window(self, Pool* pool, int64_t price) except -1 nogil:
        """Choose prices around one, so that they hold a share of the pool's rows."""
        cdef int64_t m, seen = 0, stride, next_row, found = 0, share, low = 0, high
        cdef Bag* bag
        if self.whole or pool.rows <= WHOLE_BELOW or pool.narrow <= 0:
            pool.low, pool.high = 0, INT64_MAX
            return 0
        if self.scratch_room < 2 * SAMPLED_LIMITS:
            self.scratch = <Row*>grown(self.scratch, 0, 2 * SAMPLED_LIMITS * sizeof(Row))
            self.scratch_room = 2 * SAMPLED_LIMITS
        stride = pool.rows // SAMPLED_LIMITS
        next_row = stride >> 1
        for m in range(pool.first, pool.last):
            bag = &self.bags[self.team_of[m]]
            while next_row < seen + bag.count and found < 2 * SAMPLED_LIMITS:
                self.scratch[found] = self.rows[bag.first + next_row - seen]
                found += 1
                next_row += stride
            seen += bag.count
        sort_rows(self.scratch, found)
        share = max(8, found >> min(NARROW, pool.narrow))
        # Invariant: sampled rows before low have a limit above the price, those from high on not.
        high = found
        while low < high:
            m = (low + high) >> 1
            if self.scratch[m].limit > price:
                low = m + 1
            else:
                high = m
        pool.low = self.scratch[low + share].limit if low + share < found else 0
        # Up to the next limit that differs: prices above those of many equal limits cost no rows.
        m = low - share
        while m > 0 and self.scratch[m - 1].limit == self.scratch[m].limit:
            m -= 1
        pool.high = self.scratch[m - 1].limit - 1 if m > 0 else INT64_MAX
        # The price itself and the one a tick below can be read in any case.
        pool.low = max(0, min(pool.low, price - 2))
        pool.narrow -= 1
        return 0

    cdef int _fill_window(self, Pool* pool) except -1 nogil:
        """Make the steps of all members of a pool, with room for half as many again and more."""
        cdef int64_t m, count, room, wanted, at = 0, above = 0
        cdef Member* member
        for m in range(pool.first, pool.last):
            member = &self.members[m]
            count = self._collect(pool, self.team_of[m], &above)
            room = count + (count >> 1) + SPARE_STEPS
            if at + room > pool.arena_room:
                wanted = at + room + (pool.last - m) * (2 * SPARE_STEPS) + (at >> 1)
                pool.arena = <Step*>moved(pool.arena, at * sizeof(Step), wanted * sizeof(Step))
                pool.arena_room = wanted
            member.steps = pool.arena + at
            self._write_steps(member, count, above)
            self.step_room[m] = room
            at += room
        # The arena may have moved while it grew.
        at = 0
        for m in range(pool.first, pool.last):
            self.members[m].steps = pool.arena + at
            at += self.step_room[m]
        return 0

    cdef Demand sampled(self):
        """Return a market of some of the teams, each with some jobs that stand for the others.

        All teams come where they have many jobs. Where they have few, the jobs come and not all
        teams: with one job of ten a team would run out of jobs, or of money, where it does not.
        """
        cdef Demand some = Demand(self.pool_count)
        cdef int64_t teams = max(1, self.teams), each, among, chosen = 0, i = 0, j, k, m, taken
        cdef int64_t count, room = 0, size, bids
        cdef int32_t* pool_of
        cdef Bag* bag
        cdef Bag* few
        cdef Row* row
        cdef Pool* pool
        each = max(SAMPLED_ROWS, SAMPLED_TOTAL // teams)
        # One of so many teams.
        among = self.total // max(SAMPLED_TOTAL, self.total // SAMPLED_OF)
        among = max(1, among * min(each, self.total // teams) * teams // self.total)
        for k in range(self.pool_count):
            chosen += (self.pools[k].last - self.pools[k].first + among - 1) // among
        pool_of = <int32_t*>fresh(max(1, chosen) * sizeof(int32_t))
        for k in range(self.pool_count):
            for m in range(self.pools[k].first, self.pools[k].last, among):
                pool_of[i] = <int32_t>k
                i += 1
                room += min(each, self.bags[self.team_of[m]].count)
        some.whole = True
        try:
            some.arrange(pool_of, NULL, chosen)
        finally:
            free(pool_of)
        some.rows = <Row*>fresh(max(1, room) * sizeof(Row))
        i = 0
        for k in range(self.pool_count):
            pool = &self.pools[k]
            count = pool.last - pool.first
            some.pools[k].supply = pool.supply
            chosen = max(1, (count + among - 1) // among)
            bids = 0
            for m in range(pool.first, pool.last, among):
                bag, few = &self.bags[self.team_of[m]], &some.bags[i]
                few.first = some.used
                taken = min(each, bag.count)
                for j in range(taken):
                    row = &self.rows[bag.first + j * bag.count // taken]
                    if row.limit:
                        size = muldiv(row.size, bag.count * count, taken * chosen, SAMPLED_MOST)
                        some.rows[some.used].limit = row.limit
                        some.rows[some.used].size = size
                        few.wanted += size
                        some.used += 1
                few.count = <int32_t>(some.used - few.first)
                some.pools[k].rows += few.count
                size = muldiv(self.bid[self.team_of[m]], count, chosen, SAMPLED_BIDS - bids)
                some.set_bid(<int32_t>i, size)
                bids += size
                i += 1
        return some

    # ---- curves ----------------------------------------------------------------------------

    cdef int read(self, Pool* pool, int64_t price, Reading* found) except -1 nogil:
        """Read the demand of a pool at a price."""
        cdef int i
        cdef int64_t m, open = 0, closed = 0, spend = 0, up = INT64_MAX, down = 0
        cdef int64_t wanted, money, at_price
        cdef guess_t inverse
        cdef Member* member
        if price == 0:
            # Only funded jobs count at price 0, and all of them (theory §9.2).
            found.price, found.open, found.closed = 0, pool.funded, pool.funded
            found.up, found.down = 1, 0
            return 0
        for i in range(REMEMBERED):
            if pool.memory[i].price == price:
                found[0] = pool.memory[i]
                return 0
        if price > pool.high or price <= pool.low:
            self.open_window(pool, price)
        self.readings += 1
        inverse = inverse_of(price)
        for m in range(pool.first, pool.last):
            member = &self.members[m]
            seek(member, price)
            wanted = member.here.wanted
            money = affordable(member.budget, price, inverse)
            open += min(wanted, money)
            spend += member.budget if money < wanted else 0
            at_price = member.below.wanted if member.below.limit == price else wanted
            closed += min(at_price, money)
            up = min(up, member.here.limit)
            down = max(down, member.below.limit)
        found.price, found.open, found.closed = price, open, closed
        found.up = min(up, pool.high)
        found.down = max(down, pool.low)
        note(&pool.curve, price, open, spend, found.up, found.down)
        pool.memory[pool.turn] = found[0]
        pool.turn = (pool.turn + 1) % REMEMBERED
        return 0
