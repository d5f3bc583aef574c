"""What went wrong in other systems' billing (reference O1 to O16, R22 to R25), as tests."""

import json
from collections import defaultdict
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import (
    INPUTS,
    MINUTE_MS,
    START_MS,
    TEAMS,
    Bench,
    price,
    usage,
)
from services.billing.tests.test_credit_days import a_day
from walras_billing.rating import rated
from walras_billing.usage_line import line_of
from walras_contracts.charges import ChargeReason
from walras_contracts.identifiers import partition_of
from walras_contracts.work import UsageMetered, WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

PROPERTY = settings(deadline=None, max_examples=10, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
UNIT = 10**6 * 60_000 * MINUTE_MS
Totals = dict[tuple[str, int], int]


def amounts(bench: Bench) -> list[int]:
    return [int(line.amount_numerator) // UNIT for line in bench.charges()]


def used(bench: Bench) -> dict[str, dict[str, Any]]:
    """Usage records by key, once each."""
    return {
        entry.key: json.loads(entry.payload)
        for partition in bench.log.partitions("usage")
        for entry in bench.log.read("usage", partition, 0)
        if entry.barrier is None and entry.payload is not None
    }


def test_o2_what_was_written_before_anybody_read_it_is_rated() -> None:
    """The gap in the offsets, O2's second half, is the runtime's: `test_loop_on_kafka.py`."""
    first, late = Bench(), Bench()
    first.step(0, price(0, 7), usage(0))
    first.step(1, usage(1, seq=1))
    first.step(4)
    late.log.entries.update({w: list(e) for w, e in first.log.entries.items() if w[0] in INPUTS})
    late.catch_up()

    assert amounts(late) == [7, 7]


def test_o4_a_record_that_ended_before_says_nothing_of_a_later_window() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(3, usage(0))
    for minute in range(4, 10):
        bench.step(minute)

    assert {line.end_ms for line in bench.charges()} == {START_MS + MINUTE_MS}
    assert all(int(line.amount_numerator) >= 0 for line in bench.charges())


def test_o6_three_leases_that_begin_again_behind_stops_without_a_start_cost_what_they_ran() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    stops = []
    for lease in ("l1", "l2", "l3"):
        stop = usage(0, lease=lease)
        document = json.loads(stop.payload or b"") | {"start_ms": None}
        stops.append(Output(stop.topic, stop.key, stop.partition_key, stop.type, None))
        stops[-1].payload = json.dumps(document).encode()
    bench.step(1, *stops)
    bench.step(3, *(usage(1, lease=lease, attempt=2) for lease in ("l1", "l2", "l3")))
    bench.step(4)

    assert [q.code for q in bench.quarantined()] == ["stop_without_start"] * 3
    assert amounts(bench) == [7, 7, 7]


def test_o13_what_a_tombstone_ended_is_gone_after_compaction_and_a_restart() -> None:
    bench = Bench()
    bench.step(0, price(0, None))
    bench.step(1, usage(0), usage(0, lease="l2", team="t2"))
    bench.step(2)
    waiting = {key.split("/")[0] for key in bench.pending()}
    assert waiting == {"l1", "l2"}
    bench.step(3, price(0, 7))
    bench.compact()
    bench.step(4, usage(3, seq=1))
    bench.step(5)

    assert bench.pending() == {}
    assert not any("null" in str(value) for value in bench.pending().values())
    assert sorted(amounts(bench)) == [7, 7, 7]
    lines = [key for key in state_digest_input(bench.log, "billing") if "line/" in key]
    assert len(lines) == 3


def test_o16_a_minute_closes_by_its_barriers_and_needs_no_later_event() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, *(usage(0, lease=f"l{n}", team="t1") for n in range(4)))
    for minute in range(2, 5):
        bench.step(minute)

    assert amounts(bench) == [7] * 4
    partitions = bench.log.partitions("usage")
    busy = {partition_of(team, len(partitions)) for team in TEAMS}
    silent = [partition for partition in partitions if partition not in busy]
    assert silent, "a partition that never gets data"
    for partition in silent:
        numbers = [e.barrier.number for e in bench.log.read("charges", partition, 0) if e.barrier]
        assert numbers == list(range(5))


def test_r22_a_write_that_fails_before_every_commit_loses_and_doubles_nothing() -> None:
    clean, failing = Bench(), Bench()
    for bench in (clean, failing):
        bench.step(0, price(0, 7))
        for minute in range(1, 20):
            # Every record comes again and again, as from a producer that was told of a failure.
            told = [usage(seq, seq=seq) for seq in range(minute)]
            bench.die_before_commit = bench is failing
            bench.step(minute + 1, *told)
        bench.step(22)

    assert (clean.deaths, failing.deaths) == (0, 19)
    assert failing.charges() == clean.charges()
    assert sorted(line.seq for line in failing.charges()) == list(range(19))
    assert amounts(failing) == [7] * 19


@PROPERTY
@given(seed=SEED)
def test_r24_what_is_held_is_charged_unbilled_waiting_or_in_quarantine_and_nothing_else(
    seed: int,
) -> None:
    """Nothing of what is held is lost; how it was used is a second question."""
    bench = Bench()
    a_day(seed, bench)

    held: dict[str, int] = defaultdict(int)
    told: dict[str, int] = defaultdict(int)
    for key, use in used(bench).items():
        held[key] = use["quantity_macc"] * (use["end_ms"] - use["start_ms"])
    for line in bench.charges():
        key = f"{line.lease}/{line.node}/{line.attempt}/{line.seq}"
        macc_ms = line.quantity_macc * (line.end_ms - line.start_ms)
        if line.reason is ChargeReason.USAGE:
            told[key] += macc_ms
        elif line.reason is ChargeReason.OVERLAP:
            told[key] -= macc_ms
    for payload in bench.pending().values():
        waits = json.loads(payload)
        key = f"{waits['lease']}/{waits['node']}/{waits['attempt']}/{waits['seq']}"
        is_charged = any(
            line.reason is ChargeReason.USAGE
            and line.start_ms <= waits["start_ms"] < line.end_ms
            and line.seq == waits["seq"]
            and (line.lease, line.node, line.attempt)
            == (waits["lease"], waits["node"], waits["attempt"])
            for line in bench.charges()
        )
        # A charge whose price turned out unknown waits again; it was counted already.
        told[key] += (
            0 if is_charged else waits["quantity_macc"] * (waits["end_ms"] - waits["start_ms"])
        )
    for found in bench.quarantined():
        told[found.record] += int(found.macc_ms or 0)

    assert told == held


def test_r24_occupied_allocated_and_idle_time_are_columns_that_sum_to_held_time() -> None:
    """Over all ways in which use comes: `test_time_held_days.py`."""
    bench = Bench()
    bench.step(0, price(0, 7))
    for minute in range(5):
        figures: dict[str, Any] = {"running_ms": 50_000, "busy_ms": 10_000 * minute}
        bench.step(minute + 1, usage(minute, seq=minute, **figures))
    bench.step(6)

    (told,) = bench.settled_use()
    columns = [int(told.occupied_macc_ms), int(told.allocated_macc_ms), int(told.idle_macc_ms)]
    assert [macc_ms // 60_000 for macc_ms in columns] == [100_000, 150_000, 50_000]
    assert sum(columns) == int(told.held_macc_ms) == 60_000 * 5 * MINUTE_MS


@PROPERTY
@given(seed=SEED)
def test_r25_charges_and_their_corrections_equal_a_fresh_rating_to_the_last_digit(
    seed: int,
) -> None:
    bench = Bench()
    a_day(seed, bench)

    charges = {line.charge_id: line for line in bench.charges() if line.corrects is None}
    charged: Totals = defaultdict(int)
    for line in bench.charges():
        charged[f"{line.lease}/{line.node}/{line.attempt}", line.seq] += int(line.amount_numerator)
        if line.corrects is not None:
            first = charges[line.corrects]
            assert first.start_ms <= line.start_ms < line.end_ms <= first.end_ms
            assert line.reason is not ChargeReason.USAGE
            assert (line.price_micro or 0) != (line.previous_price_micro or 0) or (
                int(line.amount_numerator) == 0
            )
    fresh: Totals = defaultdict(int)
    for stage in bench.stages():
        for known in stage.state.usage.lines():
            # The same record, as if it came now, with all prices known in time.
            again = line_of(_event(known), 2**60)
            again.net = known.spans()
            for cut in known.cuts:
                again.net = tuple(_without(again.net, cut.start_ms, cut.end_ms))
            (step,) = rated(again, stage.state.prices, 2**60)
            key = (known.terms.source, known.seq)
            fresh[key] += sum(charge.amount_numerator for charge in step.lines)

    assert {k: v for k, v in charged.items() if v} == {k: v for k, v in fresh.items() if v}


def _event(line: Any) -> UsageMetered:
    terms = line.terms
    return UsageMetered(
        lease=terms.lease,
        node=terms.node,
        attempt=terms.attempt,
        seq=line.seq,
        team=terms.team,
        pool=terms.pool,
        job=terms.job,
        market=terms.market,
        quantity_macc=terms.quantity_macc,
        start_ms=line.start_ms,
        end_ms=line.end_ms,
        work_class=WorkClass(terms.work_class),
        billable=terms.billable,
        limit_micro=terms.limit_micro,
        tariff_ppm=terms.tariff_ppm,
    )


def _without(spans: Any, start_ms: int, end_ms: int) -> Any:
    for begin_ms, finish_ms in spans:
        for span in ((begin_ms, min(finish_ms, start_ms)), (max(begin_ms, end_ms), finish_ms)):
            if span[0] < span[1]:
                yield span
