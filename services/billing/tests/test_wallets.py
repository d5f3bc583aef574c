"""Wallets: known accidents of others, changes of accounts, and how much a settlement does."""

import json
import sys
from dataclasses import replace
from types import FrameType

import pytest

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    drain,
    pool,
    price,
    usage,
)
from services.billing.tests.ledger_audit import faults
from walras_billing.accounts import AccountBook
from walras_billing.settlement import settle
from walras_billing.state import BillingState
from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.ledger import LedgerEntryPosted
from walras_contracts.quantities import PPM
from walras_contracts.work import WorkClass
from walras_runtime.records import Output

WHOLE_MACC = 60_000
"""A minute of so much costs the price."""


def with_tariff(output: Output, tariff_ppm: int) -> Output:
    body = json.loads(output.payload or b"") | {"tariff_ppm": tariff_ppm}
    return replace(output, payload=json.dumps(body).encode())


def funded(micro: int) -> Bench:
    """Return a bench whose team t1 has so much in its wallet, and earns nothing any more.

    Five minutes' income of a weight of twelve times as much are in it after the first settlement.
    """
    bench = Bench()
    bench.step(0, pool({"t1": 1}, weight=12 * micro))
    bench.step(1, pool({"t1": 0}, weight=12 * micro, version=2, minute=5))
    bench.step(6)
    assert bench.balances()["t1"].wallet_micro == micro
    return bench


def wallet(bench: Bench) -> int:
    assert faults(bench.log) == []
    return bench.balances()["t1"].wallet_micro


def test_o7_ten_uses_of_a_tenth_leave_nine_tenths_after_the_first_and_nothing_after_the_last() -> (
    None
):
    bench = funded(1_000_000)
    bench.step(7, price(6, 100_000))
    bench.step(8, usage(7))
    bench.step(11)
    assert wallet(bench) == 900_000
    for number in range(1, 10):
        bench.step(11 + number, usage(10 + number, seq=number))
    bench.step(26)

    assert wallet(bench) == 0
    assert bench.balances()["t1"].spent_micro == 1_000_000


def test_o8_a_levied_fee_rounds_once_and_a_second_one_makes_no_negative_total() -> None:
    # Hundredths of a credit as µcr: 100.00, a fee of 14.29 and one of 14.27, each with 24 %.
    bench = funded(10_000)
    bench.step(7, price(6, 1429))
    bench.step(8, with_tariff(usage(7), 1_240_000))
    bench.step(11)
    assert bench.balances()["t1"].spent_micro == 1772
    assert wallet(bench) == 8228
    bench.step(12, price(11, 1427))
    bench.step(13, with_tariff(usage(12, seq=1), 1_240_000))
    bench.step(16)

    # 28.56 · 1.24 = 35.4144: the sum is rounded, not the 17.7196 and the 17.6948 of which it is.
    assert bench.balances()["t1"].spent_micro == 3541
    assert wallet(bench) == 6459
    posted = bench.events("ledger", LedgerEntryPosted)
    assert all(sum(line.amount_micro for line in entry.lines) == 0 for entry in posted)


def test_o9_thirds_that_are_settled_one_by_one_add_up_to_their_rounded_sum() -> None:
    # 0.3333 in hundredths: 33.33 each, at a price of 3333 for a hundredth of the use.
    bench = funded(10_000)
    bench.step(7, price(6, 3333))
    for number in range(3):
        minute = 8 + 5 * number
        bench.step(minute, usage(minute - 1, seq=number, macc=WHOLE_MACC // 100))
        bench.step(minute + 3)

    parts = [
        -line.amount_micro
        for entry in bench.events("ledger", LedgerEntryPosted)
        if entry.kind == "usage"
        for line in entry.lines
        if line.account == "wallet/t1"
    ]
    assert parts == [33, 34, 33]
    assert wallet(bench) == 10_000 - 100


def test_o9_a_credit_is_an_entry_of_its_own_and_leaves_the_charges_as_they_are() -> None:
    bench = funded(10_000)
    bench.step(7, price(6, 3333))
    bench.step(8, usage(7, macc=WHOLE_MACC // 100))
    bench.step(11)
    bench.step(12, drain(7, 9))
    bench.step(16)

    balance = bench.balances()["t1"]
    assert (balance.spent_micro, balance.credited_micro) == (33, 33)
    assert wallet(bench) == 10_000
    (entry,) = [e for e in bench.events("ledger", LedgerEntryPosted) if e.kind == "credit"]
    assert [(line.account, line.amount_micro) for line in entry.lines] == [
        ("credits/p", -33),
        ("wallet/t1", 33),
    ]


def test_accounts_change_at_boundaries_where_usage_is_cut_anyway() -> None:
    """A team moves while its job runs: no interval needs another cut, each has one pool."""
    bench = Bench()
    bench.step(
        0,
        pool({"t1": 1}),
        pool({"t2": 1}, name="q", weight=600_000),
        prices_of(0, p=60_000, q=30_000),
    )
    bench.step(
        3,
        pool({}, version=2, minute=5),
        pool({"t1": 1, "t2": 1}, name="q", weight=600_000, version=2, minute=5),
    )
    lines = [(4, 1, "p"), (5, 1, "q"), (3, 1, "p")]
    for number, (minute, length, of_pool) in enumerate(sorted(lines)):
        bench.step(minute + 1, of(usage(minute, seq=number, minutes=length), of_pool))
    bench.step(11)

    balance = bench.balances()["t1"]
    assert (balance.pool, balance.spent_micro) == ("q", 2 * 60_000 + 30_000)
    assert balance.earned_micro == 100_000 + 25_000
    accounts = {
        (entry.pool, entry.kind.value)
        for entry in bench.events("ledger", LedgerEntryPosted)
        if entry.team == "t1"
    }
    assert accounts == {("p", "income"), ("p", "usage"), ("q", "income"), ("q", "usage")}
    assert faults(bench.log) == []


def prices_of(minute: int, **micro: int) -> Output:
    output = price(minute, 0)
    body = json.loads(output.payload or b"")
    (one,) = body["pools"]
    body["pools"] = [one | {"pool": name, "price_micro": each} for name, each in micro.items()]
    return replace(output, payload=json.dumps(body).encode())


def of(output: Output, name: str) -> Output:
    body = json.loads(output.payload or b"") | {"pool": name}
    return replace(output, payload=json.dumps(body).encode())


@pytest.mark.parametrize(("weight", "local"), [(0, 1), (1_200_000, 0), (0, 0)])
def test_without_weight_or_incomes_nothing_is_minted_and_only_free_use_is_left(
    weight: int, local: int
) -> None:
    bench = Bench()
    bench.step(0, pool({"t1": local}, weight=weight), price(0, 60_000))
    bench.step(1, usage(0, work_class=WorkClass.OPPORTUNISTIC))
    bench.step(6)

    balance = bench.balances()["t1"]
    assert (balance.earned_micro, balance.spent_micro, balance.wallet_micro) == (0, 0, 0)
    assert bench.budgets()["t1"].exhausted
    assert bench.events("ledger", LedgerEntryPosted) == []


def test_a_team_that_comes_within_an_interval_earns_from_then_on_only() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}))
    bench.step(2, pool({"t9": 1}, name="new", minute=2))
    bench.step(6)

    assert {t: b.earned_micro for t, b in bench.balances().items()} == {"t1": 100_000, "t9": 60_000}
    assert faults(bench.log) == []


def test_a_team_that_is_removed_keeps_what_it_has_and_late_use_is_charged_to_it() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1, "t2": 1}), price(0, 60_000))
    bench.step(3, pool({"t2": 1}, version=2, minute=5))
    bench.step(9, usage(4))
    bench.step(11)

    balance = bench.balances()["t1"]
    assert (balance.earned_micro, balance.spent_micro) == (50_000, 60_000)
    assert bench.budgets()["t1"].exhausted, "it owes, and earns nothing"
    assert faults(bench.log) == []


def test_what_is_posted_without_an_entry_is_kept_also_of_a_team_that_earns_nothing_any_more() -> (
    None
):
    """A thousandth of an accelerator costs too little for an entry; its total has moved."""
    whole, crashed = Bench(), Bench(crash=True)
    for bench in (whole, crashed):
        bench.step(0, pool({"t1": 1, "t2": 1}), price(0, 1))
        bench.step(3, pool({"t2": 1}, version=2, minute=5))
        bench.step(6)
        for number in range(2):
            minute = 8 + 5 * number
            bench.step(minute, usage(minute - 1, seq=number, macc=1))
            bench.step(minute + 1)
            bench.step(minute + 3)

    assert whole.balances()["t1"].spent_micro == 0
    assert whole.spent_numerator() > 0
    assert crashed.log.entries == whole.log.entries


def calls_of_a_settlement(teams: int) -> int:
    """Return how many Python functions the settlement of one boundary calls."""
    state = BillingState(AccountBook())
    members = tuple(TeamAccount(team=f"t{i}", income_local_per_hour=i + 1) for i in range(teams))
    document = PoolDocument(pool="p", weight_micro_per_hour=10**9 + 7, teams=members)
    state.accounts.put(AccountsChanged(version=1, effective_ms=START_MS, document=document))
    assert [*settle(state, START_MS, MINUTE_MS, 0)] == []
    assert len([*settle(state, START_MS + 6 * MINUTE_MS, MINUTE_MS, 0)]) == 2 * teams
    for i in range(teams):
        state.wallet(f"t{i}", "p").accounts["p"].spent_numerator += (i + 1) * PPM**3
    count = 0

    def counting(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counting)
    try:
        outputs = [*settle(state, START_MS + 11 * MINUTE_MS, MINUTE_MS, 0)]
    finally:
        sys.setprofile(None)
    assert len(outputs) == 3 * teams
    return count


def test_a_settlement_does_twice_as_much_for_twice_as_many_teams() -> None:
    once, twice, four_times = (calls_of_a_settlement(teams) for teams in (500, 1000, 2000))

    assert 1.8 < (four_times - twice) / (twice - once) < 2.2
