"""Integer quantities with their units and ranges (design §1, §4).

Every amount of money, price, quantity and time is an ``int`` whose name ends in its unit. The
aliases below carry the ranges that the edge checks; strictness refuses floats, booleans and
numeric strings. All of them fit int64.
"""

from typing import Annotated

from pydantic import Field

MACC_MAX = 10**15
MICRO_PER_HOUR_MAX = 10**15
BALANCE_HOURS_MAX = 8784
MICRO_MAX = MICRO_PER_HOUR_MAX * BALANCE_HOURS_MAX
"""The fullest wallet: the largest income for the most hours that a platform may keep."""
PRICE_MICRO_MAX = 1000 * MICRO_PER_HOUR_MAX + 1
"""Design §4: a price is at most 1000 times the bids of one pool, and a tick."""
LIMIT_MICRO_MAX = 10**12
NUMBER_MAX = 2**53 - 1
MARKET_TIME_MS_MAX = 4_102_444_800_000  # 2100-01-01
PPM = 1_000_000
SETTLEMENT_MS = 300_000
"""Distance of settlement boundaries, the multiples of it: usage is cut there, accounts change there
(design §6)."""

Macc = Annotated[int, Field(strict=True, ge=0, le=MACC_MAX)]
"""Milli-accelerators."""
PositiveMacc = Annotated[int, Field(strict=True, ge=1, le=MACC_MAX)]
Micro = Annotated[int, Field(strict=True, ge=-MICRO_MAX, le=MICRO_MAX)]
"""Micro-credits; may be negative (a wallet, a correction)."""
MicroPerHour = Annotated[int, Field(strict=True, ge=0, le=MICRO_PER_HOUR_MAX)]
"""Micro-credits per hour: bids, incomes, market weights."""
PriceMicro = Annotated[int, Field(strict=True, ge=0, le=PRICE_MICRO_MAX)]
"""Micro-credits per accelerator-hour."""
LimitMicro = Annotated[int, Field(strict=True, ge=0, le=LIMIT_MICRO_MAX)]
"""Micro-credits per accelerator-hour that a job pays at most."""
LocalPerHour = Annotated[int, Field(strict=True, ge=0, le=10**12)]
"""Local credits per hour: a team's share of its pool, not money."""
MarketTimeMs = Annotated[int, Field(strict=True, ge=0, le=MARKET_TIME_MS_MAX)]
"""Market time, milliseconds since the epoch, UTC."""
DurationMs = Annotated[int, Field(strict=True, ge=0, le=10 * 366 * 86_400_000)]
Ppm = Annotated[int, Field(strict=True, ge=0, le=1000 * PPM)]
"""Parts per million."""
Count = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Number = Annotated[int, Field(strict=True, ge=0, le=NUMBER_MAX)]
"""Cycle, barrier, version and sequence numbers."""
NumberOrNone = Annotated[int, Field(strict=True, ge=-1, le=NUMBER_MAX)]
"""A number, or -1 before there is one."""
DeviceIndex = Annotated[int, Field(strict=True, ge=0, le=10**6)]
