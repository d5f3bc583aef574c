/* Faults that a sanitizer must report: the canary of `sanitized.py`. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

int64_t read_behind_the_end(int64_t count) {
    int64_t *column = malloc((size_t)count * sizeof *column);
    for (int64_t i = 0; i < count; i++) column[i] = i;
    volatile int64_t *behind = column;
    int64_t value = behind[count];
    free(column);
    return value;
}

int64_t overflow(int64_t step) {
    volatile int64_t price = INT64_MAX;
    return price + step;
}
