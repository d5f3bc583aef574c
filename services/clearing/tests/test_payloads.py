"""What is encoded without a model is what the models of the contracts would write."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_clearing_service.payloads import (
    QuotaEntry,
    TeamQuota,
    kept_quota,
    quota_payloads,
    state_change,
)
from walras_contracts.market import CycleFramed, MarketQuota, QuotaGranted
from walras_contracts.quantities import MACC_MAX, MARKET_TIME_MS_MAX, NUMBER_MAX, PRICE_MICRO_MAX
from walras_contracts.registry import decode_inner
from walras_runtime.records import emit

NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
ENTRIES = st.builds(
    QuotaEntry,
    NAMES,
    st.integers(0, MACC_MAX),
    st.integers(0, MACC_MAX),
    st.none() | st.integers(0, PRICE_MICRO_MAX),
)


@given(
    team=NAMES,
    pool=NAMES,
    entries=st.lists(ENTRIES, max_size=4, unique_by=lambda entry: entry.market),
    cycle=st.integers(0, NUMBER_MAX),
    time_ms=st.integers(0, MARKET_TIME_MS_MAX),
)
def test_a_quota_is_the_bytes_of_its_model_and_comes_back_from_the_own_state(
    team: str, pool: str, entries: list[QuotaEntry], cycle: int, time_ms: int
) -> None:
    quota = TeamQuota(pool, tuple(sorted(entries, key=lambda entry: entry.market)))
    model = QuotaGranted(
        team=team,
        pool=pool,
        cycle=cycle,
        market_time_ms=time_ms,
        markets=tuple(
            MarketQuota(
                market=entry.market,
                allocated_macc=entry.allocated_macc,
                opportunistic_macc=entry.opportunistic_macc,
                price_micro=entry.price_micro,
            )
            for entry in quota.markets
        ),
    )
    output, kept = quota_payloads(team, quota, cycle, time_ms)
    assert output == emit(model)
    assert kept_quota(kept) == quota


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_everything_that_a_run_wrote_is_the_bytes_of_its_model(kit: Any, seed: int) -> None:
    world = kit.world()
    stream = kit.stream(world, seed)
    runner = world.runner()
    for _ in range(40):
        world.feed(*stream.events())
        runner.advance()
    seen = dict.fromkeys([CycleFramed.TYPE, QuotaGranted.TYPE], 0)
    for topic in ("prices", "quotas", "cycles", "cycles.frames"):
        for partition in world.log.partitions(topic):
            for entry in world.log.read(topic, partition, 0):
                if entry.barrier is not None:
                    continue
                event = decode_inner(entry.type, entry.payload)
                assert (entry.key, entry.payload) == (event.record_key(), event.payload())
                seen[entry.type] = seen.get(entry.type, 0) + 1
    assert all(count > 20 for count in seen.values()), seen


@given(value=st.none() | st.integers(-1, NUMBER_MAX) | NAMES | st.dictionaries(NAMES, st.none()))
def test_a_state_change_is_json(value: Any) -> None:
    assert json.loads(state_change("k", value).value or b"") == value
