/* Arithmetic beyond 64 bits, and memory in large pages where the system has them. */
#ifndef WALRAS_EXACT_H
#define WALRAS_EXACT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* quantity·(P−p) <= supply·P: what the teams pay covers the cost of the shared part. */
static inline int walras_covers(int64_t quantity, int64_t supply, int64_t price, int64_t p) {
    return (__int128)quantity * (price - p) <= (__int128)supply * price;
}

/* min(limit, ⌊a·b/c⌋) for c > 0; the quotient alone may exceed 64 bits. */
static inline int64_t walras_muldiv(int64_t a, int64_t b, int64_t c, int64_t limit) {
    __int128 product = (__int128)a * b;
    __int128 quotient;
    if (product <= INT64_MAX) {
        quotient = (int64_t)product / c;
    } else {
        quotient = product / c;
    }
    return quotient < limit ? (int64_t)quotient : limit;
}

/* Memory of at least `bytes` on a line of the cache, zeroed where asked; NULL when there is none.
   Large blocks start on a 2 MiB border and ask for large pages: rows of a million jobs are read in
   one sweep. */
static inline void *walras_allocate(size_t bytes, int zeroed) {
    const size_t line = 64, large = (size_t)1 << 21;
    void *block = NULL;
    size_t border = bytes < 2 * large ? line : large;
    bytes = bytes ? (bytes + border - 1) & ~(border - 1) : border;
    if (posix_memalign(&block, border, bytes)) {
        return NULL;
    }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (border == large) {
        (void)madvise(block, bytes, MADV_HUGEPAGE);
    }
#endif
    if (zeroed) {
        memset(block, 0, bytes);
    }
    return block;
}

#endif
