"""How long jobs held devices and how they used them, as each settlement tells it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.billing.tests import held_audit
from services.billing.tests.billing_bench import MINUTE_MS, START_MS, Bench, pool, price, usage
from walras_billing.time_held import Sums, boundary_of
from walras_billing.time_held_payloads import usage_settled_outputs
from walras_contracts.quantities import SETTLEMENT_MS
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output, emit

MACC = 1000
Told = tuple[int, int, int, int, int, int, int]
"""Minutes of the boundary and of the settlement; then held, occupied, allocated, idle and
unmeasured ms of one accelerator."""
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
AMOUNTS = st.integers(-(10**38), 10**38)


def told(bench: Bench, **named: str) -> list[Told]:
    """Return the records of the jobs with some names, in the order of the log."""
    return [
        (
            (record.boundary_ms - START_MS) // MINUTE_MS,
            (record.settled_ms - START_MS) // MINUTE_MS,
            *(int(record.held_macc_ms) // MACC, int(record.occupied_macc_ms) // MACC),
            *(int(record.allocated_macc_ms) // MACC, int(record.idle_macc_ms) // MACC),
            int(record.unmeasured_macc_ms) // MACC,
        )
        for record in bench.settled_use()
        if all(getattr(record, name) == value for name, value in named.items())
    ]


def minute_of_use(start_minute: int, **more: Any) -> Output:
    """Return a measured minute of one accelerator: 40 s busy, 50 s running."""
    figures: dict[str, Any] = {"running_ms": 50_000, "busy_ms": 40_000}
    return usage(start_minute, macc=MACC, **(figures | more))


def steps(bench: Bench, first: int, end: int) -> None:
    for minute in range(first, end):
        bench.step(minute)


def held_in_state(bench: Bench) -> list[str]:
    return [key for key in state_digest_input(bench.log, "billing") if "/held/" in key]


def test_five_minutes_of_a_job_are_one_record_whatever_leases_and_parts_it_had() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    for minute in range(5):
        records = [
            minute_of_use(minute, seq=minute),
            minute_of_use(minute, seq=minute, node="n2"),
            minute_of_use(minute, seq=minute, lease="l2", job="other"),
        ]
        bench.step(minute + 1, *records)
    steps(bench, 6, 12)

    assert told(bench, job="j") == [(5, 5, 600_000, 400_000, 100_000, 100_000, 0)]
    assert told(bench, job="other") == [(5, 5, 300_000, 200_000, 50_000, 50_000, 0)]
    assert held_in_state(bench) == [], "the lines say it all"


def test_a_job_without_use_since_the_last_settlement_has_no_record() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, minute_of_use(0))
    steps(bench, 2, 30)

    assert len(bench.settled_use()) == 1


def test_free_and_waiting_time_is_held_and_what_is_in_quarantine_is_not() -> None:
    bench = Bench()
    bench.step(0, price(0, None))
    bench.step(
        1,
        minute_of_use(0, work_class=WorkClass.OPPORTUNISTIC, job="free"),
        minute_of_use(0, billable=False, job="unbilled", lease="l2"),
        minute_of_use(0, job="waits", lease="l3"),
        minute_of_use(0, job="stranger", lease="l4", market="nowhere"),
    )
    steps(bench, 2, 8)

    one = [(5, 5, MINUTE_MS, 40_000, 10_000, 10_000, 0)]
    assert [told(bench, job=job) for job in ("free", "unbilled", "waits")] == [one] * 3
    assert told(bench, job="stranger") == []


def test_a_record_across_a_boundary_counts_at_the_boundary_behind_its_end() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(6, minute_of_use(4, minutes=2))
    steps(bench, 7, 13)

    assert told(bench) == [(10, 10, 2 * MINUTE_MS, 40_000, 10_000, 70_000, 0)]


def test_use_that_is_rated_before_its_boundary_is_settled_waits_for_that() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(5, minute_of_use(4))
    # The barriers pause; use of the next five minutes is rated in the step that settles.
    bench.step(8, minute_of_use(5, seq=1))
    assert told(bench) == [(5, 5, MINUTE_MS, 40_000, 10_000, 10_000, 0)]
    steps(bench, 9, 12)

    assert told(bench)[1:] == [(10, 10, MINUTE_MS, 40_000, 10_000, 10_000, 0)]


def test_late_use_is_in_the_next_record_at_the_boundary_of_its_time() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, minute_of_use(0, seq=0))
    steps(bench, 2, 12)
    bench.step(12, minute_of_use(1, seq=1), minute_of_use(11, seq=2))
    assert len(held_in_state(bench)) == 1
    steps(bench, 13, 18)

    one = (MINUTE_MS, 40_000, 10_000, 10_000, 0)
    assert told(bench) == [(5, 5, *one), (5, 15, *one), (15, 15, *one)]
    assert held_in_state(bench) == []


def test_what_a_record_loses_is_subtracted_and_its_rest_counts_as_not_measured() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(3, minute_of_use(1, seq=1, minutes=2))
    steps(bench, 4, 7)
    # The lower number claims the first of its two minutes.
    bench.step(7, minute_of_use(0, seq=0, minutes=2))
    steps(bench, 8, 12)

    first = (5, 5, 2 * MINUTE_MS, 40_000, 10_000, 70_000, 0)
    taken = (-MINUTE_MS, -40_000, -10_000, -70_000, MINUTE_MS)
    came = (2 * MINUTE_MS, 40_000, 10_000, 70_000, 0)
    change = [a + b for a, b in zip(taken, came, strict=True)]
    assert told(bench) == [first, (5, 10, *change)]
    assert held_audit.faults(bench.log) == []


def test_a_record_that_lost_a_part_before_it_was_rated_counts_as_not_measured() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(2, minute_of_use(0), minute_of_use(0, seq=1, minutes=2))
    steps(bench, 3, 8)

    assert told(bench) == [(5, 5, 2 * MINUTE_MS, 40_000, 10_000, 10_000, MINUTE_MS)]


def test_use_that_never_gets_a_price_is_taken_away_again() -> None:
    bench = Bench(look_back_ms=600_000, price_wait_ms=600_000)
    bench.step(0, price(0, None))
    bench.step(1, minute_of_use(0))
    steps(bench, 2, 18)

    assert [line.code for line in bench.quarantined()] == ["never_priced"]
    one = (MINUTE_MS, 40_000, 10_000, 10_000, 0)
    assert told(bench) == [(5, 5, *one), (5, 10, *[-each for each in one])]


def test_use_that_is_forgotten_before_it_is_published_is_published_after_a_restart() -> None:
    slow: dict[str, Any] = {
        "price_grace_ms": 540_000,
        "look_back_ms": 600_000,
        "price_wait_ms": 600_000,
    }
    bench, crashed = Bench(**slow), Bench(crash=True, **slow)
    for each in (bench, crashed):
        each.step(0, price(0, 7))
        each.step(1, minute_of_use(0))
        steps(each, 2, 12)
        assert len(held_in_state(each)) == 1
        assert not [*each.stages()[0].state.usage.lines()]
        steps(each, 12, 16)

    assert told(bench) == [(5, 5, MINUTE_MS, 40_000, 10_000, 10_000, 0)]
    assert crashed.log.entries == bench.log.entries


def test_a_step_that_settles_several_boundaries_publishes_the_use_of_each_by_itself() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(7, minute_of_use(4))
    bench.step(40, minute_of_use(8, seq=1), minute_of_use(20, seq=2))

    one = (MINUTE_MS, 40_000, 10_000, 10_000, 0)
    assert told(bench) == [(5, 5, *one), (10, 35, *one), (25, 35, *one)]


def test_a_job_under_two_pools_has_a_record_for_each() -> None:
    bench = Bench()
    bench.step(0, price(0, 7), pool({"t1": 1}), pool({"x": 1}, name="q"))
    bench.step(2, minute_of_use(0), minute_of_use(1, seq=1, pool="q"))
    steps(bench, 3, 8)

    one = [(5, 5, MINUTE_MS, 40_000, 10_000, 10_000, 0)]
    assert told(bench, pool="p") == told(bench, pool="q") == one
    assert len({record.record_key() for record in bench.settled_use()}) == 1


@pytest.mark.parametrize("compacts", [False, True])
def test_a_restart_in_the_middle_of_five_minutes_publishes_all_of_them(compacts: bool) -> None:
    bench, whole = Bench(), Bench()
    for each in (bench, whole):
        each.step(0, price(0, 7))
        for minute in range(9):
            each.step(minute + 1, minute_of_use(minute, seq=minute))
            if each is bench and minute in {3, 7}:
                each.compact() if compacts else each.restart()
        steps(each, 10, 13)

    assert told(bench) == told(whole)
    assert [held for _, _, held, *_ in told(bench)] == [5 * MINUTE_MS, 4 * MINUTE_MS]


@given(
    names=st.tuples(IDS, IDS, IDS, IDS),
    amounts=st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS).filter(any),
    times=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
)
def test_a_record_is_written_as_its_model_writes_it(
    names: tuple[str, str, str, str],
    amounts: tuple[int, int, int, int],
    times: tuple[int, int],
) -> None:
    held, occupied, allocated, idle = amounts
    boundary_ms, settled_ms = sorted(SETTLEMENT_MS * each for each in times)
    sums = Sums({names: held}, {names: [occupied, allocated, idle]})
    event = UsageSettled(
        team=names[0],
        pool=names[3],
        job=names[1],
        market=names[2],
        boundary_ms=boundary_ms,
        settled_ms=settled_ms,
        held_macc_ms=str(held),
        occupied_macc_ms=str(occupied),
        allocated_macc_ms=str(allocated),
        idle_macc_ms=str(idle),
        unmeasured_macc_ms=str(held - occupied - allocated - idle),
    )
    assert [*usage_settled_outputs(boundary_ms, sums, settled_ms, 2)] == [emit(event, partition=2)]


@given(held=AMOUNTS.filter(bool), is_told=st.booleans())
def test_a_record_of_which_nothing_was_measured_is_written_as_any_other(
    held: int, is_told: bool
) -> None:
    name = ("t", "j", "m", "p")
    sums = Sums({name: held}, {name: [0, 0, 0]} if is_told else {})
    (output,) = usage_settled_outputs(SETTLEMENT_MS, sums, SETTLEMENT_MS, 0)
    event = UsageSettled.model_validate_json(output.payload or b"")
    assert (event.payload(), event.held_macc_ms) == (output.payload, str(held))
    assert event.unmeasured_macc_ms == str(held)


def test_what_cancels_out_is_not_written() -> None:
    name = ("t", "j", "m", "p")
    sums = Sums({name: 0, ("t", "k", "m", "p"): 0}, {name: [0, 0, 0]})
    assert [*usage_settled_outputs(SETTLEMENT_MS, sums, SETTLEMENT_MS, 0)] == []


@given(end_ms=st.integers(1, 10**12))
def test_the_boundary_of_use_is_the_first_at_or_after_its_end(end_ms: int) -> None:
    boundary_ms = boundary_of(end_ms)
    assert boundary_ms % SETTLEMENT_MS == 0
    assert boundary_ms - SETTLEMENT_MS < end_ms <= boundary_ms
