"""The money of a report: running totals from the ledger, the dearest jobs from charge lines."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.report import build_report
from walras.report.charts import Axis, Line, line_chart
from walras.report.job_costs import CostBook
from walras.report.ledger import LedgerBook
from walras.report.page import page
from walras.report.prices import PriceBook
from walras.report.series import Bins
from walras.report.testing import CONTEXT, START, LogMaker, S, tiny_log

MINUTE_MS = 60_000


def money() -> dict[str, Any]:
    found: dict[str, Any] = build_report(CONTEXT, tiny_log())["money"]
    return found


def entry(log: LogMaker, kind: str, boundary_ms: int, amount: int, team: str = "a") -> None:
    lines = [
        {"account": "mint/k", "amount_micro": -amount},
        {"account": f"wallet/{team}", "amount_micro": amount},
    ]
    body = {"kind": kind, "team": team, "boundary_ms": boundary_ms, "lines": lines}
    log.put("ledger", "walras.ledger.posted.v1", "e", body)


def test_income_spending_and_wallet_run_up_to_what_the_balances_say() -> None:
    found = money()
    assert found["teams"]["a"]["income_micro"][-1] == 3_000_000
    assert found["teams"]["a"]["spent_micro"][-1] == 70_000
    assert found["teams"]["a"]["wallet_micro"] == [0, 0, 2_930_000]
    assert found["teams"]["b"]["wallet_micro"][-1] == 850_000
    assert found["settled_until_ms"] == START + 300 * S
    assert found["balances_that_differ"] == []


def test_canary_a_balance_that_is_not_the_fold_of_the_ledger_is_named_on_the_page() -> None:
    log = tiny_log()
    log["ledger"] = log["ledger"][:-1]
    report = build_report(CONTEXT, log)
    assert report["money"]["balances_that_differ"] == ["b"]
    assert "Balances that are not the sum of their entries: b" in page(report)


ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["income", "usage", "credit", "expiry"]),
        st.integers(1, 40),
        st.integers(-(10**6), 10**6),
    ),
    max_size=30,
)


@given(ENTRIES)
def test_the_wallet_at_the_end_of_a_bin_is_the_sum_of_what_was_settled_by_then(
    entries: list[tuple[str, int, int]],
) -> None:
    log = LogMaker()
    for kind, at, amount in entries:
        entry(log, kind, START + at * 5 * MINUTE_MS, amount)
    bins = Bins(START, START + 200 * MINUTE_MS, 7 * MINUTE_MS)
    book = LedgerBook(bins)
    book.fold(log.topics.get("ledger", []))
    last = max((at for _, at, _ in entries), default=0) * 5 * MINUTE_MS
    for index, wallet in enumerate(book.report({})["teams"].get("a", {}).get("wallet_micro", [])):
        start_ms, end_ms = index * 7 * MINUTE_MS, (index + 1) * 7 * MINUTE_MS
        if start_ms >= last:
            assert wallet is None, "nothing is known behind the last settlement"
        else:
            assert wallet == sum(a for _, at, a in entries if at * 5 * MINUTE_MS <= end_ms)


def test_the_jobs_of_a_team_stand_by_cost_with_corrections_and_credits() -> None:
    jobs = money()["largest_jobs"]
    assert [job["job"] for job in jobs["a"]] == ["j1", "j2"]
    j1, j3 = jobs["a"][0], jobs["b"][0]
    # 4 accelerators for 30 s at 1 credit: an overlap took back the other half of the minute.
    assert (j1["use_micro"], j1["paid_macc_ms"]) == (33_333, 4000 * 90 * S)
    # 2 accelerators, a minute at 2 credits and one at 2.5, less 0.5 by a late price.
    assert (j3["use_micro"], j3["credits_micro"]) == (133_333, -33_333)
    assert j3["mean_price_micro"] == 2_000_000
    assert [job["job"] for job in jobs["b"]] == ["j3"], "what costs nothing is not among them"


def test_a_job_of_minutes_is_not_shown_as_paid_for_no_time() -> None:
    html = page(build_report(CONTEXT, tiny_log()))
    row = next(part for part in html.split("<tr") if ">j1<" in part)
    # 4 accelerators for 90 s, a third of the money for each 30 s.
    assert "<td>0.10</td><td>0.00</td>" in row


def test_at_most_ten_jobs_of_a_team_are_shown_equal_ones_by_name() -> None:
    log = LogMaker()
    for number in range(30):
        body = {
            "team": "a",
            "job": f"j{number:02}",
            "market": "m",
            "quantity_macc": 1,
            "start_ms": START,
            "end_ms": START + 1,
            "corrects": None,
            "reason": "usage",
            "billable": True,
            "work_class": "market",
            "amount_numerator": str(number // 2),
        }
        log.put("charges", "walras.charge.rated.v1", str(number), body)
    book = CostBook()
    book.fold(log.topics["charges"])
    names = [job["job"] for job in book.largest()["a"]]
    assert names == ["j28", "j29", "j26", "j27", "j24", "j25", "j22", "j23", "j20", "j21"]


def test_a_wallet_below_zero_is_drawn_inside_the_chart() -> None:
    chart = line_chart("w", "cr", Axis(1, 4), [Line("w", "#000", [3.0, -40.0, None, 2.0])])
    (height,) = re.findall(r'viewBox="0 0 \d+ (\d+)"', chart)
    drawn = re.findall(r"[\d.]+,([\d.]+)", " ".join(re.findall(r'points="([^"]*)"', chart)))
    assert drawn
    assert all(0 <= float(y) <= int(height) - 40 for y in drawn)
    assert ">-40<" in chart


@pytest.mark.parametrize(("policy", "expected"), [("unbilled", 0), ("carry_last", 5)])
def test_a_time_without_prices_costs_what_its_gap_record_says(policy: str, expected: int) -> None:
    log = LogMaker()
    for at, price in ((0, 5), (100, 7)):
        pools = [{"pool": "k", "price_micro": price}]
        body = {
            "market": "m",
            "market_time_ms": at,
            "reference_price_micro": price,
            "pools": pools,
        }
        if at:
            gap = {"market": "m", "cycle": 9, "start_ms": 10, "end_ms": 100, "policy": policy}
            log.put("prices", "walras.price.gap.v1", "m", gap)
        log.put("prices", "walras.price.published.v1", "m", body)
    book = PriceBook()
    book.fold(log.topics["prices"])
    assert [*book.pools["m", "k"].pieces(0, 120)][-1] == (100, 120, 7)
    assert book.pools["m", "k"].integral(20, 30, None) == (10 * expected, 0)
