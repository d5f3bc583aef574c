"""Payloads of what is written by the thousand, encoded without building a model each.

They are the bytes of the pydantic models of `walras_contracts` (a test compares them); the models
remain what defines the fields.
"""

from typing import Any

import msgspec

from walras_contracts.market import CycleFramed, QuotaGranted
from walras_runtime.records import Output, StateChange

_ENCODER = msgspec.json.Encoder()
"""Keeps the order of dictionaries."""


class QuotaEntry(msgspec.Struct, frozen=True, gc=False):
    """A team's quota in one market, as `walras_contracts.market.MarketQuota`."""

    market: str
    allocated_macc: int
    opportunistic_macc: int
    price_micro: int | None


class TeamQuota(msgspec.Struct, frozen=True, gc=False):
    """The quota of a team in all its markets; as JSON it is what the own state keeps of it."""

    pool: str
    markets: tuple[QuotaEntry, ...]


class _QuotaGranted(msgspec.Struct, gc=False):
    team: str
    pool: str
    cycle: int
    market_time_ms: int
    markets: msgspec.Raw


class _KeptQuota(msgspec.Struct, gc=False):
    pool: str
    markets: msgspec.Raw


_QUOTA_DECODER = msgspec.json.Decoder(TeamQuota)


def quota_payloads(
    team: str, quota: TeamQuota, cycle: int, market_time_ms: int
) -> tuple[Output, bytes]:
    """Return the `QuotaGranted` that tells a team its quota, and what the own state keeps of it."""
    markets = msgspec.Raw(_ENCODER.encode(quota.markets))
    granted = _QuotaGranted(team, quota.pool, cycle, market_time_ms, markets)
    kept = _ENCODER.encode(_KeptQuota(quota.pool, markets))
    payload = _ENCODER.encode(granted)
    return Output(QuotaGranted.TOPIC, team, team, QuotaGranted.TYPE, payload), kept


def kept_quota(value: bytes) -> TeamQuota:
    """Return the quota that the own state kept."""
    return _QUOTA_DECODER.decode(value)


def cycle_framed(columns: dict[str, Any]) -> Output:
    """Return a `CycleFramed`; ``columns`` holds its fields in the order of the model."""
    market = columns["market"]
    key = f"{market}/{columns['cycle']}/{columns['part']}"
    payload = _ENCODER.encode(columns)
    return Output(CycleFramed.TOPIC, key, market, CycleFramed.TYPE, payload)


def state_change(key: str, value: Any) -> StateChange:
    """Return a change of the own state."""
    return StateChange(key, _ENCODER.encode(value))
