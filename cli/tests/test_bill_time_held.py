"""`walras bill`: how the time that a team held was used, as billing settled it."""

import json
import random
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.console import Console

from cli.tests.test_bill_command import walras
from services.billing.tests.billing_bench import START_MS, TEAMS, Bench
from services.billing.tests.test_time_held_days import a_day
from walras.bill.document import bill_document
from walras.bill.held_table import NOT_KNOWN, held_lines, held_table
from walras.bill.reading import read_bill
from walras.bill.time_held import PARTS, TimeHeld
from walras.bill_command import PLAIN_COLUMNS
from walras.billing_log import Window
from walras.billing_log.testing import HOUR_MS, MemorySource, charge, correction, pending
from walras_contracts.charges import (
    ChargeCredited,
    ChargePending,
    ChargeRated,
    ChargeReason,
)
from walras_contracts.event import Event
from walras_contracts.quantities import SETTLEMENT_MS
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import WorkClass

PROPERTY = settings(deadline=None, max_examples=8, phases=(Phase.explicit, Phase.generate))
HOUR = 1000 * HOUR_MS
SINGLE = charge(0, HOUR_MS, 7)


def settled(boundary: int, *parts: int, **more: Any) -> UsageSettled:
    """Return what job ``j`` of team ``t`` held: occupied, allocated, idle, unmeasured macc·ms.

    ``boundary`` counts five minutes.
    """
    names = [f"{part}_macc_ms" for part in PARTS]
    fields: dict[str, Any] = {"team": "t", "pool": "p", "job": "j", "market": "m"}
    fields |= {"boundary_ms": boundary * SETTLEMENT_MS, "settled_ms": boundary * SETTLEMENT_MS}
    fields |= dict(zip(names, map(str, parts), strict=True)) | {"held_macc_ms": str(sum(parts))}
    return UsageSettled(**(fields | more))


def held(*events: Event, window: Window | None = None, job: str | None = None) -> Any:
    document = bill_document(read_bill(MemorySource(events), "t", window or Window()))
    if job is None:
        return document["total"]["time_held"]
    return {row["job"]: row["time_held"] for row in document["jobs"]}[job]


def test_held_time_is_the_sum_of_what_it_was_used_for_with_the_share_of_each() -> None:
    found = held(SINGLE, settled(1, HOUR, HOUR, 0, 2 * HOUR), settled(2, HOUR, 0, 3 * HOUR, 0))
    assert found == {
        "held_macc_ms": 8 * HOUR,
        "occupied_macc_ms": 2 * HOUR,
        "occupied_ppm": 250_000,
        "allocated_macc_ms": HOUR,
        "allocated_ppm": 125_000,
        "idle_macc_ms": 3 * HOUR,
        "idle_ppm": 375_000,
        "unmeasured_macc_ms": 2 * HOUR,
        "unmeasured_ppm": 250_000,
    }


def test_what_was_taken_away_later_is_gone_and_nothing_held_has_no_shares() -> None:
    change = settled(1, -HOUR, 0, 0, 0, settled_ms=2 * SETTLEMENT_MS)
    found = held(SINGLE, settled(1, HOUR, 0, 0, 0), change)
    assert (found["held_macc_ms"], found["occupied_ppm"]) == (0, None)


def test_jobs_and_markets_stand_apart_and_other_teams_are_left_out() -> None:
    events = [
        SINGLE,
        settled(1, HOUR, 0, 0, 0),
        settled(1, 0, HOUR, 0, 0, pool="q"),
        settled(1, 0, 0, HOUR, 0, job="other"),
        settled(1, 0, 0, 0, HOUR, team="u"),
    ]
    assert held(*events, job="j")["held_macc_ms"] == 2 * HOUR
    assert held(*events, job="other")["idle_macc_ms"] == HOUR
    assert held(*events)["held_macc_ms"] == 3 * HOUR


def test_of_a_window_the_five_minutes_count_that_lie_whole_in_it() -> None:
    events = [SINGLE, *(settled(n, 10**n, 0, 0, 0) for n in range(1, 5))]
    late = settled(2, 5, 0, 0, 0, settled_ms=9 * SETTLEMENT_MS)
    span = SETTLEMENT_MS
    assert held(*events, window=Window(span, 3 * span))["held_macc_ms"] == 1_100
    assert held(*events, late, window=Window(span, 3 * span))["held_macc_ms"] == 1_105
    assert held(*events, window=Window(span + 1, 3 * span))["held_macc_ms"] == 1_000
    assert held(*events, window=Window(span, 3 * span - 1))["held_macc_ms"] == 100
    assert held(*events, window=Window(None, span))["held_macc_ms"] == 10
    assert held(*events, window=Window(span + 1, 2 * span)) is None


def test_without_records_the_use_of_held_time_is_not_known_and_that_is_no_zero() -> None:
    assert held(SINGLE) is None
    bill = read_bill(MemorySource([SINGLE]), "t", Window())
    assert held_lines(bill) == [f"  {NOT_KNOWN}"]


def shown(*events: Event) -> tuple[str, str]:
    """Return the words and the table for people."""
    bill = read_bill(MemorySource(events), "t", Window())
    console = Console(width=PLAIN_COLUMNS)
    with console.capture() as capture:
        console.print(held_table(bill))
    return "\n".join(held_lines(bill)), capture.get()


def test_people_see_hours_and_percents_by_job() -> None:
    words, table = shown(
        charge(0, HOUR_MS, 7, job="silent"),
        settled(1, HOUR, HOUR // 2, HOUR // 4, HOUR // 4),
    )
    for part, hours, share in (
        *(("occupied", "1.000", "50.0"), ("allocated", "0.500", "25.0")),
        *(("idle", "0.250", "12.5"), ("unmeasured", "0.250", "12.5")),
    ):
        (line,) = [line for line in words.splitlines() if part in line]
        assert line.split()[3:] == [hours, "accelerator-hours,", share, "%"]
        assert f"{part} h" in table
    (row,) = [line for line in table.splitlines() if "│ j " in line]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == [
        *("j", "m", "2.000", "1.000", "50.0", "0.500", "25.0"),
        *("0.250", "12.5", "0.250", "12.5"),
    ]
    assert "silent" not in table, "its time is not settled"


def test_the_command_prints_it_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    events = (SINGLE, settled(1, HOUR, 0, 0, 0))
    file.write_bytes(b"\n".join(event.payload() for event in events))
    assert "how held time was used" in walras("bill", "t", "--file", str(file)).stdout
    found = walras("bill", "t", "--file", str(file), "--json")
    assert json.loads(found.stdout)["total"]["time_held"]["held_macc_ms"] == HOUR


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1))
def test_once_all_is_settled_a_bill_holds_what_it_charges_and_waits_for(seed: int) -> None:
    """On the real billing service, all use of a day; two windows that share it share its time."""
    bench, draw = Bench(), random.Random(seed)
    a_day(seed, bench)
    source = MemorySource(
        [
            *bench.charges(),
            *bench.events("charges", ChargeCredited),
            *[ChargePending.model_validate_json(value) for value in bench.pending().values()],
            *bench.settled_use(),
        ]
    )
    cut_ms = START_MS + draw.randrange(1, 10) * SETTLEMENT_MS
    for team in TEAMS:
        whole = read_bill(source, team, Window())
        for _, _, figures in whole.ordered():
            charged = figures.paid_macc_ms + figures.opportunistic_macc_ms
            charged += figures.unbilled_macc_ms + figures.unpriced_macc_ms
            told = figures.time_held
            assert told is not None
            assert told.held_macc_ms == charged + figures.pending_macc_ms
            assert told.held_macc_ms == sum(told.part_macc_ms(part) for part in PARTS)
        parts = [
            read_bill(source, team, window).total().time_held or TimeHeld()
            for window in (Window(None, cut_ms), Window(cut_ms, None))
        ]
        parts[0].add(parts[1])
        assert parts[0] == whole.total().time_held


def test_a_charge_line_is_no_record_of_held_time() -> None:
    """Payloads in a file are told apart by their fields."""
    assert not set(UsageSettled.model_fields) <= set(ChargeRated.model_fields)


LOST: dict[str, Any] = {"price_micro": None, "reason": ChargeReason.OVERLAP}


def test_time_that_another_record_claimed_is_no_use_of_any_kind() -> None:
    free = charge(0, 60, 0, job="free", work_class=WorkClass.OPPORTUNISTIC)
    unbilled = charge(0, 60, 0, job="unbilled", billable=False)
    paid = charge(0, 60, 7, job="paid")
    forgotten = charge(0, 60, 7, job="forgotten")
    bill = read_bill(
        MemorySource(
            [
                *(free, unbilled, paid, forgotten),
                *(
                    correction(each, 0, 20, previous_price_micro=0, **LOST)
                    for each in (free, unbilled)
                ),
                correction(paid, 0, 20, previous_price_micro=7, **LOST),
                correction(forgotten, 0, 60, price_micro=None, previous_price_micro=7),
                correction(forgotten, 0, 20, previous_price_micro=None, **LOST),
            ]
        ),
        "t",
        Window(),
    )
    rows = {job: figures for job, _, figures in bill.ordered()}
    assert rows["free"].opportunistic_macc_ms == 1000 * 40
    assert rows["unbilled"].unbilled_macc_ms == 1000 * 40
    assert (rows["paid"].paid_macc_ms, rows["paid"].unpriced_macc_ms) == (1000 * 40, 0)
    assert rows["forgotten"].unpriced_macc_ms == 1000 * 40


def test_a_part_that_lost_its_price_is_told_once_also_where_it_begins_within_its_charge() -> None:
    first = charge(0, 60, 7)
    waits = correction(first, 20, 60, price_micro=None, previous_price_micro=7)
    found = read_bill(MemorySource([first, waits, pending(20, 60)]), "t", Window()).total()
    assert (found.unpriced_macc_ms, found.pending_macc_ms) == (1000 * 40, 0)
