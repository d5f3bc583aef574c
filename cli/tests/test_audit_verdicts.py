"""Which usage records count: the borders of the rules, in the audit and in the real billing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cli.tests.audit_days import MINUTE_MS, START_MS, MoneyWorld, changed, pool, price, usage
from walras.audit import AuditRules, audit
from walras.audit.usage_form import WEIGHT_MAX
from walras_contracts.identifiers import partition_of
from walras_contracts.quantities import MACC_MAX, PPM
from walras_runtime.records import Output

LOOK_BACK_MS = 20 * MINUTE_MS
SPAN_MS = 2 * MINUTE_MS
HEAVIEST = {"quantity_macc": WEIGHT_MAX // PPM // SPAN_MS, "tariff_ppm": PPM}
"""Two minutes of it weigh the most that a record may."""


def verdicts(minute: int, *records: Output, **settings: Any) -> dict[str, int]:
    """Let records of pool p come in a minute; return the codes of those that do not count.

    Billing and the audit must agree.
    """
    world = MoneyWorld(**settings)
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, None)))
    for between in range(1, minute):
        world.step(between)
    world.step(minute, *records)
    for after in range(1, 4):
        world.step(minute + after)
    report = audit(world.log, AuditRules(**settings))
    assert report.is_clean, report.differences[:5]
    return dict(report.quarantined)


def minutes(from_minute: int, to_minute: int, **fields: Any) -> Output:
    return usage("l1", 0, from_minute * MINUTE_MS, to_minute * MINUTE_MS, **fields)


def test_the_heaviest_record_that_counts_weighs_as_much_as_the_rule_says() -> None:
    assert WEIGHT_MAX == 8784 * PPM * 1000 * 3_600_000
    assert PPM * HEAVIEST["quantity_macc"] * SPAN_MS == WEIGHT_MAX


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ({}, {}),
        ({"quantity_macc": HEAVIEST["quantity_macc"] + 1}, {"out_of_range": 1}),
        ({"tariff_ppm": PPM + 1}, {"out_of_range": 1}),
        ({"end_ms": START_MS + SPAN_MS + 1}, {"out_of_range": 1}),
        ({"quantity_macc": MACC_MAX}, {"out_of_range": 1}),
        ({"quantity_macc": MACC_MAX, "tariff_ppm": 0}, {}),
    ],
)
def test_a_record_that_weighs_more_than_amounts_can_say_does_not_count(
    more: dict[str, int], codes: dict[str, int]
) -> None:
    assert verdicts(2, minutes(0, 2, **HEAVIEST | more)) == codes


def test_weight_is_judged_behind_the_interval_and_before_class_and_names() -> None:
    heavy = HEAVIEST | {"quantity_macc": MACC_MAX}
    day_ms = 86_400_000
    assert verdicts(
        2,
        usage("l1", 0, 0, day_ms + 1, **heavy),
        minutes(0, 2, work_class="vip", node="n2", **heavy),
        minutes(0, 2, team="stranger", node="n3", **heavy),
        # It has a fault of its form beside: it weighs too much all the same.
        replace(
            minutes(0, 2),
            payload=json.dumps(
                json.loads(minutes(0, 2, node="n4", **heavy).payload or b"") | {"job": 7}
            ).encode(),
        ),
    ) == {"longer_than_a_day": 1, "out_of_range": 3}


@pytest.mark.parametrize(("before_ms", "codes"), [(0, {}), (1, {"rejected_late": 1})])
def test_a_record_that_begins_before_the_look_back_comes_too_late_though_it_ends_within(
    before_ms: int, codes: dict[str, int]
) -> None:
    start_ms = 30 * MINUTE_MS - LOOK_BACK_MS - before_ms
    record = usage("l1", 0, start_ms, start_ms + 5 * MINUTE_MS)
    assert verdicts(30, record, look_back_ms=LOOK_BACK_MS) == codes


@pytest.mark.parametrize(("before_ms", "codes"), [(0, {}), (1, {"unknown_pool": 1})])
def test_use_of_a_pool_counts_from_the_time_on_that_its_first_document_counts_from(
    before_ms: int, codes: dict[str, int]
) -> None:
    # The team is known before: a pool that it left names it since ever.
    world = MoneyWorld()
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, 1)))
    world.step(1, changed(pool("q", (1, 1)), minute=5))
    start_ms = 5 * MINUTE_MS - before_ms
    world.step(7, usage("l1", 0, start_ms, 6 * MINUTE_MS, pool="q"))
    world.step(9)
    report = audit(world.log)
    assert report.is_clean, report.differences[:5]
    assert report.quarantined == codes


def test_names_are_judged_before_times_team_then_pool_then_market() -> None:
    stranger = {"team": "stranger", "pool": "stranger", "market": "stranger"}
    late = {"start_ms": START_MS + MINUTE_MS, "end_ms": START_MS + 2 * MINUTE_MS}
    coming = {"start_ms": START_MS + 31 * MINUTE_MS, "end_ms": START_MS + 35 * MINUTE_MS}
    names = [stranger, {**stranger, "team": "t1"}, {"market": "stranger"}, {}]
    records = [
        usage("l1", 0, 0, 1, node=f"n{place}-{at}", **(fields | times))
        for place, times in enumerate((late, coming))
        for at, fields in enumerate(names)
    ]
    assert verdicts(30, *records, look_back_ms=LOOK_BACK_MS) == {
        "unknown_team": 2,
        "unknown_pool": 2,
        "unknown_market": 2,
        "rejected_late": 1,
        "future_time": 1,
    }


def test_use_that_lies_in_another_partition_than_its_team_s_does_not_count() -> None:
    world = MoneyWorld()
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, None)))
    partitions = len(world.log.partitions("usage"))
    home = partition_of("t1", partitions)
    for partition in range(partitions):
        record = usage("l1", 0, 0, MINUTE_MS, market="stranger" if partition != home else "a")
        world.log.append([replace(record, partition=partition)])
    world.step(1)
    world.step(3)
    report = audit(world.log)
    assert report.is_clean, report.differences[:5]
    assert report.quarantined == {"wrong_partition": partitions - 1}
    assert report.counts["charges"] == 1


def test_use_of_strangers_that_comes_too_late_is_on_no_invoice() -> None:
    world = MoneyWorld(look_back_ms=LOOK_BACK_MS)
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, None)))
    world.step(30, minutes(0, 1), usage("l4", 0, 0, MINUTE_MS))
    world.step(60)
    assert {invoice.pool for invoice in world.invoices()} == {"p"}
    report = audit(world.log, AuditRules(look_back_ms=LOOK_BACK_MS))
    assert report.is_clean, report.differences[:5]
    assert report.quarantined == {"rejected_late": 1, "unknown_team": 1}
