"""Placement, the simulated fleet and billing on one log, driven by hand-made markets."""

import random
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from walras_contracts.capacity import NodeState
from walras_contracts.market import PricePublished
from walras_contracts.money import BalancePublished
from walras_contracts.work import LeaseGranted, UsageMetered, VacateRequested, WorkClass

SEED = st.integers(0, 2**32 - 1)
# A smaller seed is no smaller scenario: shrinking would only take time.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
PROPERTY = settings(
    deadline=None, max_examples=25, phases=PHASES, suppress_health_check=[HealthCheck.too_slow]
)
REPEATED = settings(PROPERTY, max_examples=6)


@PROPERTY
@given(seed=SEED)
def test_every_step_keeps_devices_quota_gangs_and_run_time(chain: Any, seed: int) -> None:
    _, auditor = chain.play(seed, 22)

    auditor.check_usage()


def oracle_spent(chain: Any, world: Any) -> dict[str, Fraction]:
    """Return what each team owes, second record by record, from the log alone."""
    prices: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for event in chain.decoded(world.events("prices")):
        assert isinstance(event, PricePublished)
        for pool in event.pools:
            assert pool.price_micro is not None
            prices[event.market, pool.pool].append((event.market_time_ms, pool.price_micro))
    owed: dict[str, Fraction] = defaultdict(Fraction)
    until_ms = chain.start_ms + world.step * 60_000
    for usage in chain.decoded(world.events("usage")):
        assert isinstance(usage, UsageMetered)
        if not usage.billable or usage.work_class is WorkClass.OPPORTUNISTIC:
            continue
        if usage.end_ms > until_ms:
            continue
        history = sorted(prices[usage.market, usage.pool])
        edges = sorted(
            {usage.start_ms, usage.end_ms}
            | {t for t, _ in history if usage.start_ms < t < usage.end_ms}
        )
        for start_ms, end_ms in pairwise(edges):
            price = [p for t, p in history if t <= start_ms][-1]
            if usage.limit_micro is not None:
                price = min(price, usage.limit_micro)
            hours = Fraction(end_ms - start_ms, 3_600_000)
            owed[usage.team] += price * hours * Fraction(usage.quantity_macc, 1000)
    return owed


@REPEATED
@given(seed=SEED)
def test_wallets_are_income_less_what_an_independent_count_of_the_log_says(
    chain: Any, seed: int
) -> None:
    # Boundary 60 is settled in step 61: a minute later.
    world, _ = chain.play(seed, 62)
    last: dict[str, BalancePublished] = {}
    for event in chain.decoded(world.events("balances")):
        assert isinstance(event, BalancePublished)
        assert event.wallet_micro == event.earned_micro - event.spent_micro - event.expired_micro
        last[event.team] = event

    assert set(last) == set(chain.teams)
    owed = oracle_spent(chain, world)
    for team, balance in last.items():
        pool = chain.teams[team]
        local = sum(chain.incomes[t] for t, p in chain.teams.items() if p == pool)
        assert balance.boundary_ms == chain.start_ms + 60 * 60_000
        assert balance.earned_micro == round(
            Fraction(chain.weights[pool] * chain.incomes[team], local)
        )
        assert balance.spent_micro == round(owed[team])
    for pool, weight in chain.weights.items():
        members = [team for team, owner in chain.teams.items() if owner == pool]
        assert abs(sum(last[team].earned_micro for team in members) - weight) <= len(members)


@REPEATED
@given(seed=SEED, crashes=SEED)
def test_a_crash_at_any_step_leaves_the_same_log(chain: Any, seed: int, crashes: int) -> None:
    draw = random.Random(crashes)
    whole, _ = chain.play(seed, 20)
    every, _ = chain.play(seed, 20, lambda _step, _name: True)
    some, _ = chain.play(seed, 20, lambda _step, _name: draw.random() < 0.3)

    assert chain.content(every) == chain.content(whole)
    assert chain.content(some) == chain.content(whole)


@REPEATED
@given(seed=SEED, at=st.integers(0, 18))
def test_compaction_of_all_compacted_topics_and_a_rebuild_change_nothing(
    chain: Any, seed: int, at: int
) -> None:
    whole, _ = chain.play(seed, 20)
    compacted, _ = chain.play(seed, 20, compact_at=at)

    for where, entries in chain.content(compacted).items():
        if not entries:
            continue
        kept = {entry.offset: entry for entry in chain.content(whole)[where]}
        assert all(kept[entry.offset] == entry for entry in entries), where
        assert entries[-1] == chain.content(whole)[where][-1]
        last = {e.key: e for e in chain.content(whole)[where]}
        assert {e.key: e for e in entries} == last


def test_the_scenarios_contain_all_that_they_are_meant_to_contain(chain: Any) -> None:
    seen: dict[str, int] = defaultdict(int)
    for seed in range(25):
        world, auditor = chain.play(seed, 22)
        for event in chain.decoded(world.events("vacate")):
            assert isinstance(event, VacateRequested)
            seen[event.reason] += 1
        for event in chain.decoded(world.events("leases")):
            assert isinstance(event, LeaseGranted)
            seen["several parts"] += event.parts > 1
            seen["several attempts"] += event.attempt > 1
            seen[event.work_class.value] += 1
        for metered in auditor.usage.values():
            classes = {usage.work_class for usage in metered}
            seen["class change"] += {WorkClass.MARKET, WorkClass.OPPORTUNISTIC} <= classes
            seen["overhang"] += WorkClass.OVERHANG in classes
        seen["finished"] += sum(auditor.finished.values())

    wanted = "quota_lost price_above_limit cancelled device_withdrawn market opportunistic overhang"
    for name in (*wanted.split(), "several parts", "several attempts", "class change", "finished"):
        assert seen[name] > 0, (name, dict(seen))


def test_the_auditor_refuses_a_device_in_two_leases(chain: Any) -> None:
    world, auditor = chain.play(7, 22)
    granted = [e for e in chain.decoded(world.events("leases")) if isinstance(e, LeaseGranted)]
    node, device = next(iter(auditor.owner), (granted[0].node, granted[0].devices[0]))
    auditor.owner[node, device] = "somebody"
    auditor.scenario.nodes[node] = auditor.scenario.nodes[node].model_copy(
        update={"state": NodeState.ACTIVE, "withheld_devices": ()}
    )
    twin = granted[0].model_copy(
        update={
            "lease": "twin",
            "node": node,
            "devices": (device,),
            "market": auditor.scenario.nodes[node].type,
        }
    )

    with pytest.raises(AssertionError, match="two leases"):
        auditor.take_leases([twin])


def test_the_auditor_refuses_time_that_is_metered_twice(chain: Any) -> None:
    for seed in range(20):
        _, auditor = chain.play(seed, 12)
        for metered in auditor.usage.values():
            metered.append(metered[-1].model_copy(update={"lease": "twin", "seq": 0, "attempt": 9}))
            with pytest.raises(AssertionError, match="metered twice"):
                auditor.check_usage()
            return
    raise AssertionError("no scenario has usage")
