/* The rival: nested bisection as the Quota Marketplace paper describes it, written with care.
 *
 * The jobs of a team stand together, highest limit first, with running sums, so that a team's demand
 * at a price is one binary search. An outer bisection over integer reference prices P asks for the
 * purchases of all pools; for each pool with own supply an inner bisection finds its price p.
 * Written with care means: the sort is written out for this record, and the outer bracket ends at the
 * price at which all bids together buy the supply. With `narrowed` a pool's bracket is moreover cut
 * by its prices at the reference prices seen so far (p rises with P); the paper does not say this.
 *
 * It computes prices and purchases only: no shares, no margins, no leftovers, no certificate.
 * Conventions are those of the clearing contract: P and p are least ticks, -1 means no price,
 * final tests are in 128-bit integers. Nothing here is shared with the library.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t limit;  /* highest price at which the job runs */
    int64_t wanted; /* its size; after sorting: sizes of the team up to and including it */
} row_t;

typedef struct {
    int64_t pools, teams, jobs;
    int64_t *own;        /* supply of each pool */
    int64_t *first_team; /* per pool, into by_pool */
    int32_t *by_pool;    /* teams, pool by pool */
    int64_t *first_row;  /* per team, into rows */
    row_t *rows;
    int64_t *budget; /* per team: 1000 bids, so that budget / p is what p buys */
    int64_t *low, *high, *price; /* per pool: bracket of its price, and its last price */
    int narrowed;
} rival_t;

static void insertion_sort(row_t *rows, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        row_t row = rows[i];
        int64_t j = i;
        for (; j > 0 && rows[j - 1].limit < row.limit; j--) rows[j] = rows[j - 1];
        rows[j] = row;
    }
}

/* Quicksort by falling limit, median of three, the smaller part first, small parts by insertion. */
static void sort_rows(row_t *rows, int64_t count) {
    while (count > 24) {
        int64_t a = rows[0].limit, b = rows[count / 2].limit, c = rows[count - 1].limit;
        int64_t pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
        int64_t i = 0, j = count - 1;
        while (i <= j) {
            while (rows[i].limit > pivot) i++;
            while (rows[j].limit < pivot) j--;
            if (i <= j) {
                row_t row = rows[i];
                rows[i++] = rows[j];
                rows[j--] = row;
            }
        }
        if (j + 1 < count - i) {
            sort_rows(rows, j + 1);
            rows += i;
            count -= i;
        } else {
            sort_rows(rows + i, count - i);
            count = j + 1;
        }
    }
    insertion_sort(rows, count);
}

static void sort_team(row_t *rows, int64_t count) {
    sort_rows(rows, count);
    for (int64_t j = 1; j < count; j++) rows[j].wanted += rows[j - 1].wanted;
}

/* Sizes of the team's jobs whose limit is above the price. */
static inline int64_t demand(const rival_t *book, int32_t team, int64_t price) {
    const row_t *rows = book->rows;
    int64_t first = book->first_row[team], low = first, high = book->first_row[team + 1];
    while (low < high) {
        int64_t middle = (low + high) >> 1;
        if (rows[middle].limit > price) low = middle + 1;
        else high = middle;
    }
    return low > first ? rows[low - 1].wanted : 0;
}

/* What a pool takes at price p, of the jobs with limit > above. */
static int64_t quantity(const rival_t *book, int64_t pool, int64_t above, int64_t p) {
    int64_t total = 0;
    for (int64_t t = book->first_team[pool]; t < book->first_team[pool + 1]; t++) {
        int32_t team = book->by_pool[t];
        if (book->budget[team] == 0) continue;
        int64_t wanted = demand(book, team, above);
        if (p > 0 && wanted > 0) {
            int64_t affordable = book->budget[team] / p;
            if (affordable < wanted) wanted = affordable;
        }
        total += wanted;
    }
    return total;
}

static int covers(int64_t x, int64_t own, int64_t price, int64_t p) {
    return (__int128)x * (price - p) <= (__int128)own * price;
}

/* Least p in [low, high] at which the pool's purchase is paid for; it is known to be at high. */
static int64_t pool_price(const rival_t *book, int64_t pool, int64_t price, int64_t low,
                          int64_t high) {
    int64_t own = book->own[pool];
    while (low < high) {
        int64_t p = low + ((high - low) >> 1), x = quantity(book, pool, p, p);
        if (price < 0 ? x <= own : covers(x, own, price, p)) high = p;
        else low = p + 1;
    }
    return low;
}

static int64_t purchases(const rival_t *book, int64_t pool, int64_t price, int64_t p) {
    int64_t own = book->own[pool], x;
    if (price == 0) x = quantity(book, pool, 0, 0);
    else if (own == 0) return quantity(book, pool, price, price);
    else {
        x = quantity(book, pool, p > 0 ? p - 1 : 0, p);
        if (p < price) {
            __int128 most = (__int128)own * price / (price - p);
            if (most < x) x = (int64_t)most;
        }
    }
    return x > own ? x - own : 0;
}

static int fits(rival_t *book, int64_t price, int64_t shared) {
    int64_t total = 0;
    for (int64_t k = 0; k < book->pools; k++) {
        int64_t high = book->high[k] < price ? book->high[k] : price;
        book->price[k] = book->own[k] ? pool_price(book, k, price, book->low[k], high) : price;
        total += purchases(book, k, price, book->price[k]);
    }
    int fit = total <= shared;
    if (book->narrowed)
        memcpy(fit ? book->high : book->low, book->price, (size_t)book->pools * sizeof(int64_t));
    return fit;
}

/* Returns P, or -1 where no supply is shared; the prices of the pools go to `prices`. */
int64_t rival_solve(rival_t *book, int64_t shared, int64_t reserve, int lend, int narrowed,
                    int64_t *prices) {
    __int128 bids = 0;
    book->narrowed = narrowed;
    for (int64_t i = 0; i < book->teams; i++) bids += book->budget[i];
    for (int64_t k = 0; k < book->pools; k++) {
        book->low[k] = 0;
        book->high[k] = INT64_MAX;
        if (lend) {
            int64_t idle = book->own[k] - quantity(book, k, 0, 0);
            if (idle > 0) shared += idle;
        }
    }
    if (shared == 0) {
        for (int64_t k = 0; k < book->pools; k++) {
            int64_t ceiling = 1;
            for (int64_t t = book->first_team[k]; t < book->first_team[k + 1]; t++)
                ceiling += book->budget[book->by_pool[t]];
            prices[k] = book->own[k] ? pool_price(book, k, -1, 0, ceiling) : -1;
        }
        return -1;
    }
    /* Purchases never cost more than the bids, so all bids over the supply is high enough. */
    int64_t low = reserve, high = (int64_t)(bids / shared) + 1;
    if (high < reserve) high = reserve;
    while (low < high) {
        int64_t price = low + ((high - low) >> 1);
        if (fits(book, price, shared)) high = price;
        else low = price + 1;
    }
    fits(book, low, shared);
    memcpy(prices, book->price, (size_t)book->pools * sizeof(int64_t));
    return low;
}

void rival_free(rival_t *book) {
    if (book == NULL) return;
    free(book->own), free(book->first_team), free(book->by_pool), free(book->first_row);
    free(book->rows), free(book->budget), free(book->low), free(book->high), free(book->price);
    free(book);
}

/* Groups and sorts the jobs. NULL without memory. */
rival_t *rival_build(int64_t pools, int64_t teams, int64_t jobs, const int64_t *own,
                     const int32_t *pool_of_team, const int64_t *bids, const int32_t *team_of_job,
                     const int64_t *sizes, const int64_t *limits) {
    rival_t *book = calloc(1, sizeof *book);
    int64_t *next = malloc((size_t)((teams > pools ? teams : pools) + 1) * sizeof *next);
    if (book == NULL || next == NULL) goto failed;
    book->pools = pools, book->teams = teams, book->jobs = jobs;
    book->own = malloc((size_t)(pools + 1) * sizeof(int64_t));
    book->first_team = calloc((size_t)pools + 1, sizeof(int64_t));
    book->by_pool = malloc((size_t)(teams + 1) * sizeof(int32_t));
    book->first_row = calloc((size_t)teams + 1, sizeof(int64_t));
    book->rows = malloc((size_t)(jobs + 1) * sizeof(row_t));
    book->budget = malloc((size_t)(teams + 1) * sizeof(int64_t));
    book->low = malloc((size_t)(pools + 1) * sizeof(int64_t));
    book->high = malloc((size_t)(pools + 1) * sizeof(int64_t));
    book->price = malloc((size_t)(pools + 1) * sizeof(int64_t));
    if (!book->own || !book->first_team || !book->by_pool || !book->first_row || !book->rows ||
        !book->budget || !book->low || !book->high || !book->price)
        goto failed;
    memcpy(book->own, own, (size_t)pools * sizeof(int64_t));
    for (int64_t i = 0; i < teams; i++) {
        book->budget[i] = 1000 * bids[i];
        book->first_team[pool_of_team[i] + 1]++;
    }
    for (int64_t k = 0; k < pools; k++) book->first_team[k + 1] += book->first_team[k];
    memcpy(next, book->first_team, (size_t)pools * sizeof *next);
    for (int64_t i = 0; i < teams; i++) book->by_pool[next[pool_of_team[i]]++] = (int32_t)i;
    for (int64_t j = 0; j < jobs; j++) book->first_row[team_of_job[j] + 1]++;
    for (int64_t i = 0; i < teams; i++) book->first_row[i + 1] += book->first_row[i];
    memcpy(next, book->first_row, (size_t)teams * sizeof *next);
    for (int64_t j = 0; j < jobs; j++)
        book->rows[next[team_of_job[j]]++] = (row_t){limits[j], sizes[j]};
    for (int64_t i = 0; i < teams; i++)
        sort_team(book->rows + book->first_row[i], book->first_row[i + 1] - book->first_row[i]);
    free(next);
    return book;
failed:
    free(next);
    rival_free(book);
    return NULL;
}

/* Replaces the bid and the jobs of a team by as many others. */
void rival_change_team(rival_t *book, int32_t team, int64_t bid, const int64_t *sizes,
                       const int64_t *limits) {
    int64_t first = book->first_row[team], count = book->first_row[team + 1] - first;
    book->budget[team] = 1000 * bid;
    for (int64_t j = 0; j < count; j++) book->rows[first + j] = (row_t){limits[j], sizes[j]};
    sort_team(book->rows + first, count);
}

/* Replaces all bids. */
void rival_set_bids(rival_t *book, const int64_t *bids) {
    for (int64_t i = 0; i < book->teams; i++) book->budget[i] = 1000 * bids[i];
}
