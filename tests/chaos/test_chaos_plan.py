"""The plan of a chaos run and its input are functions of the seed, and hold what they must."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chaos.orders import Order, give, look, open_folder
from tests.chaos.plan import (
    OF_PROCESSES,
    PARTITIONS,
    STEPS_EACH,
    TAIL_STEPS,
    Gap,
    Kind,
    Plan,
    plan_of,
)
from tests.chaos.session import check_happened
from tests.chaos.story import (
    LOOK_BACK_MS,
    STEP_MS,
    Story,
    is_stale,
    partitions_with_use,
    time_ms,
)
from tests.chaos.waiting import ChaosError
from walras_contracts.market import PriceGapPublished, PricePublished
from walras_contracts.topics import load_topics
from walras_contracts.work import UsageMetered

SEEDS = st.integers(0, 2**31)
EVENTS = 300
DISTURBANCES = 20


def some_plan(seed: int) -> Plan:
    return plan_of(seed, EVENTS, DISTURBANCES)


def told(plan: Plan) -> list[tuple[int, str, bytes]]:
    """All of the input: step, key and payload."""
    return [
        (step.barrier.number, event.record_key(), event.payload())
        for step in Story(plan)
        for event in step.events
    ]


def all_usage_of(plan: Plan) -> list[tuple[int, UsageMetered]]:
    return [
        (step.barrier.number, event)
        for step in Story(plan)
        for event in step.events
        if isinstance(event, UsageMetered)
    ]


def usage_of(plan: Plan) -> list[tuple[int, UsageMetered]]:
    """Use that is to be charged."""
    return [
        (number, record) for number, record in all_usage_of(plan) if not is_stale(record, number)
    ]


@given(SEEDS)
def test_the_same_seed_gives_the_same_plan_and_the_same_input(seed: int) -> None:
    plan = some_plan(seed)
    assert plan == some_plan(seed)
    assert told(plan) == told(plan)


def test_other_seeds_give_other_plans_in_another_order() -> None:
    orders = {tuple(d.kind for d in some_plan(seed).disturbances) for seed in range(20)}
    assert len(orders) == 20


@given(SEEDS, st.integers(len(Kind), 60), st.integers(1, 40_000))
def test_every_kind_happens_and_processes_are_disturbed_one_after_another(
    seed: int, disturbances: int, events: int
) -> None:
    plan = plan_of(seed, events, disturbances)
    assert len(plan.disturbances) == disturbances
    assert {each.kind for each in plan.disturbances} == set(Kind)
    steps = [each.step for each in plan.of_processes()]
    ends = [*steps[1:], plan.steps]
    assert all(end - step >= STEPS_EACH for step, end in zip(steps, ends, strict=True))
    assert all(each.kind in OF_PROCESSES for each in plan.of_processes())


def test_fewer_disturbances_than_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="need as many disturbances"):
        plan_of(1, EVENTS, len(Kind) - 1)


@given(SEEDS)
def test_every_usage_record_is_told_numbers_are_dense_and_no_instant_is_metered_twice(
    seed: int,
) -> None:
    plan = some_plan(seed)
    bodies: dict[str, bytes] = {}
    by_source = defaultdict(list)
    for _, record in usage_of(plan):
        if bodies.setdefault(record.record_key(), record.payload()) == record.payload():
            by_source[record.lease].append(record)
        else:
            raise AssertionError(f"{record.record_key()} has two bodies")
    assert len(bodies) == plan.events
    for records in by_source.values():
        distinct = sorted({r.seq: r for r in records}.values(), key=lambda r: r.seq)
        assert [r.seq for r in distinct] == list(range(len(distinct)))
        assert all(a.end_ms == b.start_ms for a, b in pairwise(distinct))


@given(SEEDS)
def test_all_that_is_late_comes_in_time_to_be_rated_and_settled(seed: int) -> None:
    plan = some_plan(seed)
    last = plan.all_steps - 1
    numbers = [step.barrier.number for step in Story(plan)]
    assert numbers == list(range(plan.all_steps))
    assert max(number for number, _ in usage_of(plan)) < last
    assert max(record.end_ms for _, record in usage_of(plan)) <= time_ms(last - TAIL_STEPS)


@given(SEEDS)
def test_stale_use_is_told_once_before_or_overlaps_such_and_ends_within_the_look_back(
    seed: int,
) -> None:
    plan = some_plan(seed)
    told_in_time = {record.record_key(): record for _, record in usage_of(plan)}
    repeated = overlapping = 0
    for number, record in all_usage_of(plan):
        if not is_stale(record, number):
            continue
        if record.record_key() in told_in_time:
            assert record == told_in_time[record.record_key()]
            repeated += 1
            continue
        assert time_ms(number) - LOOK_BACK_MS < record.end_ms <= time_ms(number)
        assert any(
            (other.lease, other.node) == (record.lease, record.node)
            and other.start_ms <= record.start_ms < other.end_ms
            for other in told_in_time.values()
        )
        overlapping += 1
    assert repeated == overlapping > 0


def disturbed(plan: Plan) -> Counter[str]:
    """How often the input has what the disturbances of the log are to put into it."""
    found: Counter[str] = Counter()
    seen: set[str] = set()
    highest: dict[str, int] = {}
    for number, record in all_usage_of(plan):
        if is_stale(record, number):
            found["stale"] += 1
            continue
        found["twice"] += record.record_key() in seen
        seen.add(record.record_key())
        found["late"] += time_ms(number) >= record.end_ms + 2 * STEP_MS
        found["out of order"] += record.seq < highest.get(record.lease, -1)
        highest[record.lease] = max(record.seq, highest.get(record.lease, -1))
    versions: Counter[str] = Counter()
    for step in Story(plan):
        for event in step.events:
            if isinstance(event, PricePublished):
                late_ms = step.barrier.market_time_ms - event.market_time_ms
                found["late price"] += late_ms >= 2 * STEP_MS
            elif isinstance(event, PriceGapPublished):
                found["time without prices"] += 1
            elif event.TOPIC == "invoices.requests":
                found["request of finance"] += 1
            elif event.TOPIC == "accounts":
                versions[event.record_key()] += 1
    found["changed account"] = sum(count - 1 for count in versions.values())
    return found


def test_the_disturbances_of_the_log_are_in_the_input() -> None:
    for seed in range(10):
        found = disturbed(some_plan(seed))
        wanted = {"twice", "late", "out of order", "late price", "changed account"}
        wanted |= {"time without prices", "request of finance", "stale"}
        assert wanted <= {name for name, count in found.items() if count}, (seed, found)


@given(SEEDS)
def test_the_story_counts_each_disturbance_of_the_log_once(seed: int) -> None:
    plan = plan_of(seed, 3_000, DISTURBANCES)
    story = Story(plan)
    assert sum(len(step.events) for step in story) > plan.events
    assert story.happened == Counter(each.kind for each in plan.of_the_log())


def test_a_disturbance_that_did_not_happen_makes_the_run_fail() -> None:
    plan = some_plan(1)
    happened = Counter(each.kind for each in plan.disturbances)
    check_happened(plan, happened)
    happened[Kind.ZOMBIE] -= 1
    with pytest.raises(ChaosError, match="did not happen: zombie: 1"):
        check_happened(plan, happened)


def test_a_disturbance_of_the_log_behind_all_use_is_not_counted() -> None:
    plan = some_plan(1)
    late = [
        replace(each, step=plan.steps + 2) if each.kind is Kind.DUPLICATED else each
        for each in plan.disturbances
    ]
    story = Story(replace(plan, disturbances=tuple(late)))
    assert [*story]
    assert story.happened[Kind.DUPLICATED] == 0


def test_input_without_disturbances_has_none_of_them() -> None:
    """Canary of the test before."""
    quiet = plan_of(3, EVENTS, 1, [Kind.REDIS])
    assert disturbed(quiet).total() == 0


def test_teams_lie_in_all_partitions_of_the_registry() -> None:
    topics = load_topics()
    assert topics["usage"].partitions == topics["charges"].partitions == PARTITIONS
    assert partitions_with_use() == set(range(PARTITIONS))


def test_an_order_waits_until_it_is_taken_and_another_is_refused(tmp_path: Path) -> None:
    order = Order("kill", "billing", 2, Gap.IN_TRANSACTION, 7)
    assert look(tmp_path) is None
    give(tmp_path, order)
    assert look(tmp_path) == order
    with pytest.raises(FileExistsError):
        give(tmp_path, order)
    open_folder(tmp_path)
    assert look(tmp_path) is None


@settings(max_examples=5)
@given(SEEDS)
def test_the_long_run_has_as_many_steps_as_it_may(seed: int) -> None:
    plan = plan_of(seed, 200_000, 48)
    assert plan.steps == 400
    assert plan.leases == 500
