"""Exact clearing of a budgeted market for one kind of accelerator, with a checkable certificate.

Everything is an integer: quantities in milli-accelerators (macc), prices in micro-credits (µcr)
per accelerator-hour, bids in µcr per hour. See `clear`, `verify` and `clear_reference`.
"""

from walras_clearing.clear import clear
from walras_clearing.errors import ClearingInputError, InvariantBroken, KernelUnavailableError
from walras_clearing.kernel import BUILD_STAMP
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

__all__ = [
    "BUILD_STAMP",
    "Certificate",
    "ClearingInputError",
    "ClearingResult",
    "InvariantBroken",
    "Job",
    "KernelUnavailableError",
    "Market",
    "Pool",
    "PoolResult",
    "PriceHint",
    "Team",
    "TeamResult",
    "Violation",
    "clear",
    "clear_reference",
    "validate",
    "verify",
]
