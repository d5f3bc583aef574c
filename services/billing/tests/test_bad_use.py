"""Bad use: each kind is quarantined by its code and its coordinates, and changes no total."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from services.billing.tests.billing_bench import MINUTE_MS, START_MS, Bench, pool, price, usage
from services.billing.tests.record_bodies import ABSENT, body
from walras_billing.usage_faults import DAY_MS, UsageFault
from walras_contracts.identifiers import partition_of
from walras_contracts.quantities import MARKET_TIME_MS_MAX
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.records import Output

MONEY = ("charges", "charges.pending", "ledger", "balances", "budgets", "budgets.alerts")
NOW = 14
"""The minute in which bad use comes; the look-back is ten minutes."""

BEYOND_CALENDAR = MARKET_TIME_MS_MAX + 1

SAID: list[tuple[dict[str, Any], str]] = [
    ({"start_ms": START_MS + 14 * MINUTE_MS, "end_ms": START_MS}, "reversed_interval"),
    # O4: start 2027-01-17T10:31:11Z, end 2018-08-12T13:18:48Z.
    ({"start_ms": 1_800_181_871_000, "end_ms": 1_534_079_928_000}, "reversed_interval"),
    ({"start_ms": START_MS + MINUTE_MS, "end_ms": START_MS + MINUTE_MS}, "empty_interval"),
    ({"start_ms": -5}, "negative_time"),
    ({"start_ms": -7, "end_ms": -5}, "negative_time"),
    ({"start_ms": START_MS + 14 * MINUTE_MS - DAY_MS - 1}, "longer_than_a_day"),
    ({"start_ms": BEYOND_CALENDAR - 1, "end_ms": BEYOND_CALENDAR}, "out_of_range"),
    # O6: a stop whose start nobody saw.
    ({"start_ms": None}, "stop_without_start"),
    ({"start_ms": ABSENT}, "stop_without_start"),
    ({"end_ms": None}, "start_without_stop"),
    ({"end_ms": ABSENT}, "start_without_stop"),
    ({"quantity_macc": 0}, "quantity_not_positive"),
    ({"quantity_macc": -8}, "quantity_not_positive"),
    ({"quantity_macc": 10**16}, "out_of_range"),
    ({"quantity_macc": 10**15}, "out_of_range"),
    ({"limit_micro": -1}, "out_of_range"),
    ({"tariff_ppm": 10**10}, "out_of_range"),
    ({"seq": -1}, "out_of_range"),
    ({"work_class": "vip"}, "unknown_class"),
    ({"pool": "nowhere"}, "unknown_pool"),
    ({"market": "nowhere"}, "unknown_market"),
    ({"end_ms": START_MS + 15 * MINUTE_MS + 1}, "future_time"),
    ({"start_ms": START_MS + 4 * MINUTE_MS - 1}, "rejected_late"),
    ({"start_ms": START_MS, "end_ms": START_MS + MINUTE_MS}, "rejected_late"),
    ({"quantity_macc": 1.5}, "malformed"),
    ({"quantity_macc": "8"}, "malformed"),
    ({"team": ABSENT}, "malformed"),
    ({"lease": "no id!"}, "malformed"),
]
"""What a record says otherwise than the one that would follow, and why it is refused."""


def following(**changes: Any) -> Output:
    """Return the record that follows those of :func:`charged_bench`, with some things changed."""
    return body(usage(13, seq=3), **changes)


def misplaced() -> Output:
    partition = (partition_of("t1", 4) + 1) % 4
    return replace(following(), partition=partition)


BAD: list[tuple[Output, str]] = [
    *[(following(**changes), code) for changes, code in SAID],
    (usage(13, lease="l9", team="t9"), "unknown_team"),
    (misplaced(), "wrong_partition"),
    (usage(12, seq=2, macc=1), "other_body"),
    (usage(12, seq=2, limit=1), "other_body"),
    (usage(5, seq=3), "clock_jump"),
    (replace(following(), payload=b"\xff{"), "malformed"),
    (replace(following(), payload=None), "malformed"),
]


Money = dict[tuple[str, int], list[tuple[str, bytes | None]]]
"""By topic and partition the keys and payloads in order, barriers included."""


def money_with(bad: Sequence[Output]) -> tuple[Bench, Money]:
    """Return a bench with good use, and bad use among it, and all that it wrote of money."""
    bench = Bench(look_back_ms=600_000)
    bench.step(0, pool({"t1": 1, "t2": 1}), price(0, 7_000))
    bench.step(1, usage(0), usage(0, lease="l2", team="t2"))
    bench.step(13, usage(11, seq=1), usage(12, seq=2))
    bench.step(NOW, *bad)
    bench.step(15, usage(14, seq=3), price(14, 9_000))
    bench.step(21)
    return bench, {
        where: [(entry.key, entry.payload) for entry in held]
        for where, held in bench.log.entries.items()
        if where[0] in MONEY
    }


@pytest.fixture(scope="module")
def good_money() -> Money:
    """What is written where all use is good."""
    bench, money = money_with([])
    assert bench.quarantined() == []
    assert len(bench.charges()) == 5
    return money


@pytest.mark.parametrize(("bad", "code"), BAD, ids=[f"{c}-{n}" for n, (_, c) in enumerate(BAD)])
def test_bad_use_is_quarantined_with_its_coordinates_and_changes_no_total(
    bad: Output, code: str, good_money: Money
) -> None:
    bench, money = money_with([bad])

    (line,) = bench.quarantined()
    assert (line.code, line.topic, line.start_ms, line.record) == (code, "usage", None, bad.key)
    (entry,) = bench.log.read("usage", line.partition, line.offset)[:1]
    assert entry.payload == bad.payload
    assert money == good_money


def test_all_bad_use_at_once_changes_no_total_either(
    good_money: Money,
) -> None:
    bench, money = money_with([bad for bad, _ in BAD])

    assert sorted(line.code for line in bench.quarantined()) == sorted(code for _, code in BAD)
    assert money == good_money


def test_every_fault_of_a_whole_record_is_in_the_table() -> None:
    of_a_part = {UsageFault.OVERLAP, UsageFault.NEVER_PRICED}
    assert {code for _, code in BAD} == {fault.value for fault in UsageFault} - of_a_part


def test_of_two_faults_of_a_record_the_one_that_is_listed_first_is_named() -> None:
    places = {fault.value: place for place, fault in enumerate(UsageFault)}
    # An end beyond the calendar is a fault of the interval; malformed is whatever else is wrong.
    pairs = [
        (one, other)
        for one, other in combinations(SAID, 2)
        if not one[0].keys() & other[0].keys()
        and not {"malformed"} & {one[1], other[1]}
        and BEYOND_CALENDAR not in {one[0].get("end_ms"), other[0].get("end_ms")}
        and not (one[0].keys() | other[0].keys() <= {"start_ms", "end_ms"})
    ]
    assert len(pairs) > 100
    for (changes, first), (others, second) in pairs:
        bench = Bench(look_back_ms=600_000)
        bench.step(0, pool({"t1": 1}), price(0, 7))
        bench.step(NOW, following(**changes, **others))
        (line,) = bench.quarantined()
        assert line.code == min(first, second, key=lambda code: places[code]), (changes, others)


def test_a_newer_version_stops_the_partition() -> None:
    bench = Bench()
    bench.step(0)
    with pytest.raises(PartitionStoppedError):
        bench.step(1, replace(usage(0), type="walras.usage.metered.v2"))


def test_a_record_without_a_type_that_is_known_is_no_use() -> None:
    bench = Bench()
    bench.step(0, replace(usage(0), payload=json.dumps([]).encode()))
    bench.step(1, replace(usage(0), payload=b"7"))

    assert [line.code for line in bench.quarantined()] == ["malformed", "malformed"]
