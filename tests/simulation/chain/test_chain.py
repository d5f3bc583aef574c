"""Placement, the simulated fleet and billing on one log, driven by hand-made markets."""

import random
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.simulation.chain.auditor import Auditor, play
from tests.simulation.chain.scenario import INCOMES, TEAMS, WEIGHTS, Scenario
from tests.simulation.chain.world import MINUTE_MS, START_MS, content, decoded
from walras_contracts.capacity import NodeState
from walras_contracts.drains import VacateRequested
from walras_contracts.market import PricePublished
from walras_contracts.money import BalancePublished
from walras_contracts.work import LeaseGranted, UsageMetered, WorkClass

SEED = st.integers(0, 2**32 - 1)
# A smaller seed is no smaller scenario: shrinking would only take time.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
PROPERTY = settings(
    deadline=None, max_examples=25, phases=PHASES, suppress_health_check=[HealthCheck.too_slow]
)
REPEATED = settings(PROPERTY, max_examples=6)


def audited(seed: int) -> None:
    auditor = play(seed, 22)
    auditor.check_usage()
    auditor.check_charges()


@PROPERTY
# A lease is asked to leave anew in the step in which its agents say that an older drain is off.
@example(seed=216)
# A lease ends in the millisecond in which its team moves to another pool.
@example(seed=545)
@given(seed=SEED)
def test_every_step_keeps_devices_quota_gangs_and_run_time(seed: int) -> None:
    audited(seed)


Totals = dict[tuple[str, str], Fraction]
"""By team and pool."""


def oracle_spent(auditor: Auditor) -> Totals:
    """Return what each team owes, record by record, at the price of the pool that it was in."""
    world, scenario = auditor.world, auditor.scenario
    prices: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for event in decoded(world.events("prices")):
        assert isinstance(event, PricePublished)
        for pool in event.pools:
            assert pool.price_micro is not None
            prices[event.market, pool.pool].append((event.market_time_ms, pool.price_micro))
    owed: Totals = defaultdict(Fraction)
    # Use is charged a minute after its end.
    until_ms = START_MS + (world.step - 1) * MINUTE_MS
    for usage in decoded(world.events("usage")):
        assert isinstance(usage, UsageMetered)
        if not usage.billable or usage.work_class is WorkClass.OPPORTUNISTIC:
            continue
        if usage.end_ms > until_ms:
            continue
        # The rest of a start is owed to the pool in which it ended.
        is_rest = usage.running_ms == 0
        payer = usage.pool if is_rest else scenario.pool_at(usage.team, usage.start_ms)
        history = sorted(prices[usage.market, payer])
        edges = sorted(
            {usage.start_ms, usage.end_ms}
            | {t for t, _ in history if usage.start_ms < t < usage.end_ms}
        )
        for start_ms, end_ms in pairwise(edges):
            price = [p for t, p in history if t <= start_ms][-1]
            if usage.limit_micro is not None:
                price = min(price, usage.limit_micro)
            hours = Fraction(end_ms - start_ms, 3_600_000)
            owed[usage.team, payer] += price * hours * Fraction(usage.quantity_macc, 1000)
    return owed


def oracle_earned(scenario: Scenario, minutes: int) -> Totals:
    """Return what each team earned, minute by minute, by the documents of the scenario."""
    earned: Totals = defaultdict(Fraction)
    for minute in range(minutes):
        for pool, weight in WEIGHTS.items():
            in_force = [
                m.teams for m in scenario.memberships if m.pool == pool and m.minute <= minute
            ]
            local = sum(INCOMES[team] for team in in_force[-1])
            for team in in_force[-1] if local else ():
                earned[team, pool] += Fraction(weight * INCOMES[team], local * 60)
    return earned


@settings(PROPERTY, max_examples=8)
@given(seed=SEED)
def test_wallets_are_income_less_what_an_independent_count_of_the_log_says(seed: int) -> None:
    # Boundary 60 is settled in step 61: a minute later.
    auditor = play(seed, 62)
    last: dict[str, BalancePublished] = {}
    for event in decoded(auditor.world.events("balances")):
        assert isinstance(event, BalancePublished)
        assert event.wallet_micro == event.earned_micro - event.spent_micro - event.expired_micro
        last[event.team] = event

    assert set(last) == set(TEAMS)
    owed, earned = oracle_spent(auditor), oracle_earned(auditor.scenario, 60)
    for team, balance in last.items():
        assert balance.boundary_ms == START_MS + 60 * MINUTE_MS
        # Running totals are kept, and rounded, by team and pool.
        assert balance.earned_micro == sum(round(earned[team, pool]) for pool in WEIGHTS)
        assert balance.spent_micro == sum(round(owed[team, pool]) for pool in WEIGHTS)
        # An hour is far below the cap, and between two pools a wallet stands still.
        assert balance.expired_micro == 0


@REPEATED
@given(seed=SEED, crashes=SEED)
def test_a_crash_at_any_step_leaves_the_same_log(seed: int, crashes: int) -> None:
    draw = random.Random(crashes)
    whole = play(seed, 20).world
    every = play(seed, 20, lambda _step, _name: True).world
    some = play(seed, 20, lambda _step, _name: draw.random() < 0.3).world

    assert content(every) == content(whole)
    assert content(some) == content(whole)


@REPEATED
# All nodes of a market become something else before the rebuild.
@example(seed=57, at=17)
@given(seed=SEED, at=st.integers(0, 18))
def test_compaction_of_all_compacted_topics_and_a_rebuild_change_nothing(
    seed: int, at: int
) -> None:
    rebuilt(seed, at)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_a_thousand_scenarios_are_audited_and_rebuilt(first: int) -> None:
    for seed in range(first, first + 100):
        audited(seed)
        rebuilt(seed, seed % 19)


def rebuilt(seed: int, at: int) -> None:
    whole = play(seed, 20).world
    compacted = play(seed, 20, compact_at=at).world

    for where, entries in content(compacted).items():
        if not entries:
            continue
        kept = {entry.offset: entry for entry in content(whole)[where]}
        assert all(kept[entry.offset] == entry for entry in entries), where
        assert entries[-1] == content(whole)[where][-1]
        last = {e.key: e for e in content(whole)[where]}
        assert {e.key: e for e in entries} == last


def test_the_scenarios_contain_all_that_they_are_meant_to_contain() -> None:
    seen: dict[str, int] = defaultdict(int)
    for seed in range(30):
        auditor = play(seed, 22)
        for event in decoded(auditor.world.events("vacate")):
            if isinstance(event, VacateRequested):
                seen[event.reason] += 1
            else:
                seen["may stay after all"] += 1
        for event in decoded(auditor.world.events("leases")):
            assert isinstance(event, LeaseGranted)
            seen["several parts"] += event.parts > 1
            seen["several attempts"] += event.attempt > 1
            seen["half a device"] += event.size_macc == 500
            seen[event.work_class.value] += 1
        for key, metered in auditor.usage.items():
            classes = {usage.work_class for usage in metered}
            seen["class change"] += {WorkClass.MARKET, WorkClass.OPPORTUNISTIC} <= classes
            seen["overhang"] += WorkClass.OVERHANG in classes
            pools: dict[str, set[str]] = defaultdict(set)
            for usage in metered:
                pools[usage.lease].add(usage.pool)
                seen["charged"] += usage.billable and usage.pool != TEAMS[usage.team]
            seen["a move under a lease"] += any(len(found) > 1 for found in pools.values())
            if key in auditor.scenario.jobs:
                wanted = auditor.scenario.jobs[key].size_macc
                seen["more than asked"] += any(u.quantity_macc > wanted for u in metered)
        retyped = auditor.scenario.nodes.items()
        seen["a node of another type"] += any(
            node.type != "ab"[int(name[1]) % 2] for name, node in retyped
        )
        in_none = [m for m in auditor.scenario.memberships if m.minute > 0]
        seen["between two pools"] += any(a.minute != b.minute for a, b in pairwise(in_none))
        seen["finished"] += sum(auditor.finished.values())
        seen["a start that pays for more than it ran"] += len(auditor.owed)

    wanted_names = (
        "quota_lost",
        "price_above_limit",
        "cancelled",
        "device_withdrawn",
        "market",
        "opportunistic",
        "overhang",
        "several parts",
        "several attempts",
        "half a device",
        "more than asked",
        "class change",
        "charged",
        "a move under a lease",
        "between two pools",
        "a node of another type",
        "finished",
        "a start that pays for more than it ran",
    )
    for name in wanted_names:
        assert seen[name] > 0, (name, dict(seen))


def test_the_auditor_refuses_a_device_in_two_leases() -> None:
    auditor = play(7, 22)
    granted = [e for e in decoded(auditor.world.events("leases")) if isinstance(e, LeaseGranted)]
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


def first_with_usage() -> tuple[Auditor, list[UsageMetered]]:
    for seed in range(20):
        auditor = play(seed, 12)
        for metered in auditor.usage.values():
            if metered[-1].lease in auditor.leases:
                return auditor, metered
    raise AssertionError("no scenario has usage")


def test_the_auditor_refuses_time_that_is_metered_twice() -> None:
    auditor, metered = first_with_usage()
    metered.append(metered[-1].model_copy(update={"lease": "twin", "seq": 0, "attempt": 9}))
    with pytest.raises(AssertionError, match="metered twice"):
        auditor.check_usage()


def test_the_auditor_refuses_a_start_that_does_not_pay_for_five_minutes() -> None:
    auditor = next(found for seed in range(20) if (found := play(seed, 22)).owed)
    auditor.check_usage()
    part, owed = next(iter(auditor.owed.items()))
    auditor.owed[part] = [u.model_copy(update={"pool": "other"}) for u in owed]
    with pytest.raises(AssertionError):
        auditor.check_minimum()
    auditor.owed[part] = owed[1:]
    with pytest.raises(AssertionError):
        auditor.check_minimum()
    del auditor.owed[part]
    with pytest.raises(AssertionError, match="does not pay its start"):
        auditor.check_minimum()


def test_the_auditor_refuses_use_that_was_never_charged() -> None:
    auditor, _ = first_with_usage()
    auditor.check_charges()
    for partition in auditor.world.log.partitions("charges"):
        held = auditor.world.log.entries[("charges", partition)]
        held[:] = [entry for entry in held if b'"price_micro":0,' in (entry.payload or b"")]
    with pytest.raises(AssertionError, match="costs"):
        auditor.check_charges()


def test_the_auditor_refuses_usage_of_the_pool_that_was_left() -> None:
    auditor, metered = first_with_usage()
    (other,) = WEIGHTS.keys() - {metered[-1].pool}
    with pytest.raises(AssertionError, match="metered in"):
        auditor.check_metered(metered[-1].model_copy(update={"pool": other}))


def test_the_auditor_refuses_a_lease_on_a_node_that_is_something_else_now() -> None:
    auditor, metered = first_with_usage()
    held = auditor.leases[metered[-1].lease]
    held.leaving = False
    node = metered[-1].node
    auditor.scenario.nodes[node] = auditor.scenario.nodes[node].model_copy(update={"type": "zz"})
    with pytest.raises(AssertionError, match="is not what it was"):
        auditor.check_devices()
