"""One clear with the counter of callgrind on: ``cold`` or ``warm``, and the library that tells it.

Started by `instructions`; everything that is not the clear runs with the counter off.
"""

import ctypes
import gc
import sys
from typing import Final

from libs.clearing.benchmarks.books import Changes, apply_all_bids
from libs.clearing.benchmarks.instances import draw_arrays, scale_of
from walras_clearing import Book, clear_arrays

JOBS: Final = 100_000
SEED: Final = 1


def main(kind: str, library: str) -> None:
    """Clear once, counted: a cold call, or a cycle in which a team in a hundred changed."""
    requests = ctypes.CDLL(library)
    market = draw_arrays(scale_of(JOBS), SEED)
    book, changes = Book.of(market), Changes(market, SEED)
    count = len(market.bid_micro_per_hour) // 100
    # What is loaded or allocated at the first call of all is not part of a clear.
    clear_arrays(draw_arrays(scale_of(1_000), SEED))
    book.clear()
    apply_all_bids(book, changes.of_teams(count))
    change = changes.of_teams(count)
    gc.disable()
    if kind == "cold":
        requests.counting_starts()
        clear_arrays(market)
    else:
        requests.counting_starts()
        apply_all_bids(book, change)
    requests.counting_ends()


if __name__ == "__main__":
    main(*sys.argv[1:])
