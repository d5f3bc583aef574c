/* Lets the interpreter tell callgrind where to count; without callgrind both calls do nothing. */
#include <valgrind/callgrind.h>

void counting_starts(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_TOGGLE_COLLECT;
}

void counting_ends(void) {
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_STOP_INSTRUMENTATION;
}
