"""Exact clearing of a budgeted market for one kind of accelerator, with a checkable certificate.

Everything is an integer: quantities in milli-accelerators (macc), prices in micro-credits (µcr)
per accelerator-hour, bids in µcr per hour. See `clear`, `verify`, `Book`, `explain` and
`simulate`; `clear_reference` is the specification.
"""

from walras_clearing.arrays import ABSENT, NO_LIMIT, ClearedArrays, MarketArrays
from walras_clearing.book import Book
from walras_clearing.certificate import verify_arrays
from walras_clearing.clear import clear, clear_arrays
from walras_clearing.coarse import COARSE_BELOW_MICRO, coarse_pool_numbers, coarse_pools
from walras_clearing.errors import ClearingInputError, InvariantBroken, KernelUnavailableError
from walras_clearing.explain import explain, team_of_job
from walras_clearing.explanation import Explanation, JobState, Shortage, ShortOf, Threshold
from walras_clearing.kernel import BUILD_STAMPS
from walras_clearing.model import (
    Certificate,
    ClearingResult,
    Job,
    Market,
    Pool,
    PoolResult,
    PriceHint,
    Team,
    TeamResult,
)
from walras_clearing.reference import clear_reference
from walras_clearing.validate import validate
from walras_clearing.verify import Violation, verify
from walras_clearing.whatif import AddJob, Change, RemoveJob, SetBid, Simulation, simulate

__all__ = [
    "ABSENT",
    "BUILD_STAMPS",
    "COARSE_BELOW_MICRO",
    "NO_LIMIT",
    "AddJob",
    "Book",
    "Certificate",
    "Change",
    "ClearedArrays",
    "ClearingInputError",
    "ClearingResult",
    "Explanation",
    "InvariantBroken",
    "Job",
    "JobState",
    "KernelUnavailableError",
    "Market",
    "MarketArrays",
    "Pool",
    "PoolResult",
    "PriceHint",
    "RemoveJob",
    "SetBid",
    "ShortOf",
    "Shortage",
    "Simulation",
    "Team",
    "TeamResult",
    "Threshold",
    "Violation",
    "clear",
    "clear_arrays",
    "clear_reference",
    "coarse_pool_numbers",
    "coarse_pools",
    "explain",
    "simulate",
    "team_of_job",
    "validate",
    "verify",
    "verify_arrays",
]
