"""`walras bill`: what a team pays, and what for; every figure is a sum of charge lines."""

import json
import random
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from services.billing.tests.charge_models import charge_event
from walras.bill.charged_use import ChargeFold
from walras.bill.document import bill_document, paid_numerator
from walras.bill.reading import read_bill
from walras.bill.tables import jobs_table, prices_table, summary_lines
from walras.bill.team_bill import Figures
from walras.billing_log import BillingLogError, Window
from walras.billing_log.testing import (
    HOUR_MS,
    UNITS,
    MemorySource,
    charge,
    correction,
    credit,
    cycle,
    gap,
    pending,
    prices,
)
from walras_billing.prices import PriceHistory, Version, View
from walras_billing.rating import rated
from walras_billing.usage_line import Terms, UsageLine
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.charges import ChargeCredited, ChargeRated, ChargeReason, CreditReason
from walras_contracts.event import Event
from walras_contracts.market import MarketState
from walras_contracts.work import WorkClass

ALL = Window()
MICRO = 1_000_000


def total(*events: Event, window: Window = ALL, team: str = "t") -> Figures:
    return read_bill(MemorySource(events), team, window).total()


def document(*events: Event, window: Window = ALL) -> dict[str, Any]:
    return bill_document(read_bill(MemorySource(events), "t", window))


def test_an_hour_of_an_accelerator_costs_its_price() -> None:
    found = document(charge(0, HOUR_MS, 2 * MICRO))["total"]
    assert found["payable_micro"] == found["charged_micro"] == 2 * MICRO
    assert found["paid_macc_ms"] == 1000 * HOUR_MS
    assert found["mean_paid_price_micro"] == 2 * MICRO
    assert found["prices"] == [
        {
            "price_micro": 2 * MICRO,
            "macc_ms": 1000 * HOUR_MS,
            "amount_numerator": str(2 * MICRO * UNITS),
        }
    ]


def test_the_base_price_stands_beside_the_price_paid_and_what_is_unknown_stays_out() -> None:
    found = document(
        charge(0, 4 * HOUR_MS, 2 * MICRO),
        prices(0, None, p=2 * MICRO),
        prices(HOUR_MS, 3 * MICRO, p=2 * MICRO),
        prices(2 * HOUR_MS, 5 * MICRO, p=2 * MICRO),
        gap(3 * HOUR_MS, 4 * HOUR_MS, PriceGapPolicy.UNBILLED),
    )["total"]
    assert found["base_known_macc_ms"] == 2 * 1000 * HOUR_MS
    assert found["base_micro"] == 8 * MICRO
    assert found["mean_base_price_micro"] == 4 * MICRO
    assert found["paid_where_base_is_known_micro"] == 4 * MICRO
    assert found["payable_micro"] == 8 * MICRO


def test_without_prices_the_base_price_is_unknown_not_zero() -> None:
    found = document(charge(0, HOUR_MS, 2 * MICRO))["total"]
    assert (found["mean_base_price_micro"], found["base_known_macc_ms"]) == (None, 0)


def test_use_is_own_and_shared_in_the_proportion_of_its_pools_quota_in_each_cycle() -> None:
    found = document(
        charge(0, 4 * HOUR_MS, MICRO),
        cycle(HOUR_MS, p=(250, 1000), q=(9, 9)),
        cycle(2 * HOUR_MS, MarketState.HALTED, p=(0, 0)),
        cycle(3 * HOUR_MS, p=(1000, 1000)),
    )["total"]
    assert found["unattributed_macc_ms"] == 1000 * HOUR_MS, "before the first cycle"
    assert found["shared_macc_ms"] == (250 + 250 + 1000) * HOUR_MS, "a halt leaves quotas"
    assert found["own_macc_ms"] == (750 + 750) * HOUR_MS


def test_a_market_that_is_off_or_without_the_pool_has_no_shares() -> None:
    found = document(
        charge(0, 4 * HOUR_MS, MICRO),
        cycle(0, p=(250, 1000)),
        cycle(HOUR_MS, MarketState.OFF),
        cycle(2 * HOUR_MS, p=(1000, 1000)),
        cycle(3 * HOUR_MS, q=(9, 9)),
    )["total"]
    assert found["unattributed_macc_ms"] == 2 * 1000 * HOUR_MS
    assert found["shared_macc_ms"] == (250 + 1000) * HOUR_MS
    assert found["own_macc_ms"] == 750 * HOUR_MS


def test_time_that_costs_nothing_is_told_apart_by_why() -> None:
    found = document(
        charge(0, HOUR_MS, 0, job="free", work_class=WorkClass.OPPORTUNISTIC),
        charge(0, HOUR_MS, 0, job="late", work_class=WorkClass.OVERHANG, billable=False),
        charge(0, HOUR_MS, 3, job="late", lease="x", work_class=WorkClass.OVERHANG),
        charge(0, HOUR_MS, 0, job="lucky"),
        pending(0, 2 * HOUR_MS, job="waits", seq=7),
        pending(0, HOUR_MS, job="lucky"),
    )
    hour = 1000 * HOUR_MS
    rows = {row["job"]: row for row in found["jobs"]}
    assert rows["free"]["opportunistic_macc_ms"] == hour
    assert rows["late"]["unbilled_macc_ms"] == hour
    assert rows["late"]["overhang_macc_ms"] == rows["late"]["paid_macc_ms"] == hour
    assert (rows["lucky"]["paid_macc_ms"], rows["lucky"]["prices"][0]["price_micro"]) == (hour, 0)
    assert rows["lucky"]["pending_macc_ms"] == 0, "what was charged meanwhile waits no more"
    assert rows["waits"]["pending_macc_ms"] == 2 * hour
    assert rows["free"]["mean_paid_price_micro"] is None, "nothing was paid for: no price, not 0"


def test_corrections_and_credits_stand_apart_by_their_reasons() -> None:
    first = charge(0, HOUR_MS, 4 * MICRO)
    late = correction(first, 0, HOUR_MS // 2, price_micro=6 * MICRO, previous_price_micro=4 * MICRO)
    overlap = correction(
        first,
        HOUR_MS // 2,
        HOUR_MS,
        price_micro=None,
        previous_price_micro=4 * MICRO,
        reason=ChargeReason.OVERLAP,
    )
    back = credit(first, -MICRO * UNITS)
    silent = credit(first, -2 * MICRO * UNITS, reason=CreditReason.HEARTBEAT_GAP, session="")
    found = document(first, late, overlap, back, silent)["total"]
    assert found["charged_micro"] == 4 * MICRO
    assert found["corrections_micro"] == {"late_price": MICRO, "overlap": -2 * MICRO}
    assert found["credits_micro"] == {"drain_failed": -MICRO, "heartbeat_gap": -2 * MICRO}
    assert found["payable_micro"] == 0
    assert found["paid_macc_ms"] == 500 * HOUR_MS, "the overlap's half is another record's"
    assert [each["price_micro"] for each in found["prices"]] == [6 * MICRO]


def test_a_correction_that_does_not_follow_from_its_charge_is_refused() -> None:
    first = charge(0, 10, 5)
    wrong = correction(first, 0, 5, price_micro=7, previous_price_micro=6)
    beyond = correction(first, 5, 15, price_micro=7, previous_price_micro=5)
    with pytest.raises(BillingLogError, match=r"says that 6 was charged; charge .* stands at 5"):
        total(first, wrong)
    with pytest.raises(BillingLogError, match="reaches beyond charge"):
        total(first, beyond)
    right = correction(first, 0, 5, price_micro=7, previous_price_micro=5)
    with pytest.raises(BillingLogError, match=r"corrects charge .* which is not there"):
        total(right)


def test_a_team_that_was_never_charged_is_refused_one_outside_the_window_is_not() -> None:
    with pytest.raises(BillingLogError, match="no charge of team x is there"):
        total(charge(0, 10, 5), team="x")
    assert total(charge(0, 10, 5), window=Window(10, 20)).paid_macc_ms == 0


def terms(**more: Any) -> Terms:
    fields = {
        "source": "l/n/0",
        "series": "m",
        "lease": "l",
        "node": "n",
        "attempt": 0,
        "team": "t",
        "pool": "p",
        "job": "j",
        "market": "m",
        "quantity_macc": 3000,
        "work_class": WorkClass.MARKET,
        "billable": True,
        "limit_micro": None,
        "tariff_ppm": 1_100_000,
    }
    return Terms(**{**fields, **more})


def billed_lines(seed: int) -> tuple[list[ChargeRated], UsageLine, PriceHistory]:
    """Return the lines of one usage record as billing writes them while prices come late."""
    draw = random.Random(seed)
    history = PriceHistory()
    for _ in range(draw.randint(1, 12)):
        barrier = draw.randint(0, 9)
        price = draw.choice([None, 0, draw.randint(1, 9)])
        version = Version(barrier, barrier * 10 - 10, {"p": price})
        history.put("m", draw.randint(0, 60), version)
    line = UsageLine(terms(limit_micro=draw.choice([None, 4])), 0, 10, 50, 60)
    steps = rated(line, history, 9)
    return [charge_event(line, each) for step in steps for each in step.lines], line, history


@pytest.mark.parametrize("seed", range(60))
def test_the_pieces_of_a_charge_are_its_use_rated_anew(seed: int) -> None:
    lines, line, history = billed_lines(seed)
    fold = ChargeFold()
    for each in lines:
        fold.take(each)
    folded = {
        at: price for _, start, end, price in fold.priced() for at in range(start, end) if price
    }
    anew = {}
    for segment in history.segments("m", "p", (10, 50), View(2**62, 9)):
        for at in range(segment.start_ms, segment.end_ms):
            limit = line.terms.limit_micro
            price = segment.price_micro
            if price:
                anew[at] = price if limit is None else min(price, limit)
    assert folded == anew, f"seed {seed}"


@given(st.integers(0, 10**6), st.lists(st.integers(0, 60), min_size=1, max_size=4))
def test_bills_of_the_parts_of_a_window_sum_up_to_the_bill_of_all_of_it(
    seed: int, cuts: list[int]
) -> None:
    lines, _, _ = billed_lines(seed)
    events: list[Event] = [*lines, prices(0, 3, p=2), prices(20, 5, p=2), cycle(15, p=(1, 1))]
    events += [credit(each, -int(each.amount_numerator)) for each in lines if not each.corrects]
    assume(lines)
    edges = sorted({0, 60, *cuts})
    whole = total(*events, window=Window(0, 60))
    parts = Figures()
    for start, end in pairwise(edges):
        parts.add(total(*events, window=Window(start, end)))
    assert parts == whole


@given(st.integers(0, 10**6))
def test_what_is_paid_at_each_price_sums_up_to_charges_and_their_corrections(seed: int) -> None:
    lines, _, _ = billed_lines(seed)
    assume(lines)
    found = total(*lines)
    assert paid_numerator(found) == found.use_numerator
    assert found.use_numerator == sum(int(each.amount_numerator) for each in lines)
    assert found.payable_numerator == Fraction(found.use_numerator)


def test_jobs_stand_by_what_they_cost_equal_ones_by_name() -> None:
    bill = read_bill(
        MemorySource(
            [charge(0, 10, price, job=job) for job, price in (("b", 1), ("a", 1), ("c", 9))]
        ),
        "t",
        ALL,
    )
    assert [job for job, _, _ in bill.ordered()] == ["c", "a", "b"]
    assert [*jobs_table(bill).columns[0].cells] == ["c", "a", "b"]


def test_prices_are_weighed_by_the_time_at_each() -> None:
    lines = [
        charge(0, ms, price * MICRO, job=str(price)) for ms, price in ((98, 1), (1, 5), (1, 9))
    ]
    bill = read_bill(MemorySource(lines), "t", ALL)
    row = [next(iter(column.cells)) for column in prices_table(bill).columns]
    assert row[:7] == ["m", "3", "1.0000", "1.0000", "1.0000", "1.0000", "9.0000"]


def test_the_summary_names_every_kind_of_time_and_money() -> None:
    first = charge(0, HOUR_MS, 4 * MICRO)
    lines: list[ChargeRated | ChargeCredited] = [first, credit(first, -MICRO * UNITS)]
    text = "\n".join(summary_lines(read_bill(MemorySource(lines), "t", ALL)))
    for words in ("4.000000", "-1.000000", "3.000000", "failed drains", "heartbeat gaps"):
        assert words in text, words
    assert "own supply unknown, shared unknown" in text, "no cycle was told"
    assert "no base price is known for 1.000 accelerator-hours" in text


def walras(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walras", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_prints_the_bill_as_json_and_for_people(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    events = (charge(0, HOUR_MS, 2 * MICRO), charge(0, HOUR_MS, 1, team="u"))
    file.write_bytes(b"".join(event.payload() + b"\n" for event in events))
    done = walras("bill", "t", "--to", "1970-01-01T00:30", "--file", str(file), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["team"], found["from_ms"], found["to_ms"]) == ("t", None, HOUR_MS // 2)
    assert found["total"]["payable_micro"] == MICRO
    shown = walras("bill", "t", "--file", str(file), "--each-price")
    assert shown.returncode == 0
    assert "time at each price" in shown.stdout
    refused = walras("bill", "nobody", "--file", str(file))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "walras bill: no charge of team nobody is there\n"


def test_what_was_corrected_before_the_window_is_known_to_what_reaches_into_it() -> None:
    first = charge(0, 60, 5)
    lines = (
        first,
        correction(first, 0, 20, price_micro=7, previous_price_micro=5),
        correction(first, 20, 60, price_micro=7, previous_price_micro=5),
        correction(first, 0, 60, price_micro=9, previous_price_micro=7),
    )
    found = total(*lines, window=Window(30, 60))
    assert found.use_numerator == paid_numerator(found) == 9 * first.quantity_macc * 30 * MICRO
    assert total(*lines).use_numerator == 9 * first.quantity_macc * 60 * MICRO
