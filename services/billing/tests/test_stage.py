"""Billing alone on a log: wallets, settlement, pending prices, restarts."""

import random
from collections.abc import Sequence
from fractions import Fraction

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    pool,
    price,
    usage,
)
from walras_contracts.accounts import (
    AccountsChanged,
    PlatformDocument,
)
from walras_contracts.work import WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output, emit

PROPERTY = settings(deadline=None, max_examples=12, phases=(Phase.explicit, Phase.generate))


def test_income_is_minted_at_boundaries_a_grace_later_and_pro_rata_from_its_first_effect() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1, "t2": 3}, minute=2))
    for minute in range(1, 6):
        bench.step(minute)
    assert bench.balances() == {}
    bench.step(6)

    # Three minutes of 1.2 credits an hour.
    assert {t: b.earned_micro for t, b in bench.balances().items()} == {"t1": 15_000, "t2": 45_000}
    assert {b.boundary_ms for b in bench.balances().values()} == {START_MS + 5 * MINUTE_MS}


def test_income_follows_each_document_from_the_time_at_which_it_counts() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1, "t2": 1}))
    bench.step(3, pool({"t1": 3, "t2": 1}, version=2, minute=5))
    bench.step(11)

    assert {t: b.earned_micro for t, b in bench.balances().items()} == {
        "t1": 50_000 + 75_000,
        "t2": 50_000 + 25_000,
    }


@PROPERTY
@given(
    weight=st.integers(0, 10**15),
    incomes=st.lists(st.integers(0, 10**12), min_size=1, max_size=7),
    changed=st.lists(st.integers(0, 10**12), min_size=1, max_size=7),
)
def test_what_a_pool_mints_in_an_hour_is_its_weight_whatever_its_incomes(
    weight: int, incomes: list[int], changed: list[int]
) -> None:
    bench = Bench()
    first = {f"t{i}": income for i, income in enumerate(incomes)}
    second = {f"t{i}": income for i, income in enumerate(changed)}
    # A cap far away: nothing expires of an hour's income.
    bench.step(0, pool(first, weight=weight))
    bench.step(7, pool(second, weight=weight, version=2, minute=35))
    bench.step(61)

    balances = bench.balances()
    minted = sum(b.earned_micro for b in balances.values())
    shares = Fraction(7 * any(incomes) + 5 * any(changed), 12)
    assert abs(minted - weight * shares) <= len(balances)
    for team, balance in balances.items():
        exact = Fraction(0)
        for document, share in ((first, Fraction(7, 12)), (second, Fraction(5, 12))):
            local = sum(list(document.values()))
            if team in document and local:
                exact += share * weight * document[team] / local
        assert balance.earned_micro == round(exact)
        assert balance.wallet_micro == (
            balance.earned_micro - balance.spent_micro - balance.expired_micro
        )


def test_a_wallet_holds_at_most_its_hours_of_income_and_the_rest_expires() -> None:
    bench = Bench()
    platform = emit(
        AccountsChanged(
            version=1, effective_ms=START_MS, document=PlatformDocument(max_balance_hours=1)
        )
    )
    bench.step(0, platform, pool({"t1": 1}))
    bench.step(181)
    balance = bench.balances()["t1"]

    assert balance.earned_micro == 3_600_000
    assert balance.wallet_micro == 1_200_000
    assert balance.expired_micro == 2_400_000


def test_a_wallet_is_frozen_while_its_team_is_in_no_pool_and_goes_with_it_into_the_next() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}), price(0, 60_000))
    bench.step(1, usage(0))
    bench.step(3, pool({}, version=2, minute=5))
    bench.step(6)
    before = bench.balances()["t1"]
    assert (before.wallet_micro, before.expired_micro) == (40_000, 0)
    # The new pool's first document counts from a minute at which the boundary has passed.
    bench.step(9, pool({"t1": 1}, name="q", weight=600_000, minute=12))
    bench.step(11)
    assert bench.balances()["t1"].wallet_micro == 40_000
    assert not bench.budgets()["t1"].exhausted, "it has a wallet"
    bench.step(16)

    after = bench.balances()["t1"]
    assert (after.pool, after.wallet_micro, after.expired_micro) == ("q", 40_000 + 30_000, 0)


def test_a_wallet_from_a_rich_pool_is_capped_by_the_income_of_the_next_one() -> None:
    bench = Bench()
    platform = emit(
        AccountsChanged(
            version=1, effective_ms=START_MS, document=PlatformDocument(max_balance_hours=1)
        )
    )
    bench.step(0, platform, pool({"t1": 1}))
    bench.step(58, pool({}, version=2, minute=60))
    bench.step(76, pool({"t1": 1}, name="q", weight=12_000, minute=77))
    assert bench.balances()["t1"].wallet_micro == 1_200_000
    bench.step(81)

    assert bench.balances()["t1"].wallet_micro == 12_000


def test_use_is_charged_at_the_price_in_force_and_may_exceed_the_wallet() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}), price(0, 150_000))
    bench.step(1, usage(0), price(1, 90_000))
    bench.step(2, usage(1, seq=1))
    bench.step(6)

    assert bench.balances()["t1"].spent_micro == 240_000
    assert bench.balances()["t1"].wallet_micro == 100_000 - 240_000
    assert not bench.budgets()["t1"].exhausted, "it has income"


def test_a_team_without_income_is_exhausted_once_its_wallet_is_empty() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1, "t2": 0}), price(0, 5))
    bench.step(6)

    assert not bench.budgets()["t1"].exhausted
    assert bench.budgets()["t2"].exhausted


def test_use_without_a_known_price_is_pending_and_charged_once_when_it_is_known() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}))
    bench.step(1, usage(0))
    bench.step(6)
    assert bench.balances()["t1"].spent_micro == 0
    assert len(bench.pending()) == 1
    bench.step(7, price(0, 70_000))
    bench.step(11, price(1, 5))

    assert bench.balances()["t1"].spent_micro == 70_000
    assert bench.pending() == {}


def test_opportunistic_use_costs_nothing_even_without_a_price() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}))
    bench.step(1, usage(0, work_class=WorkClass.OPPORTUNISTIC))
    bench.step(6)

    assert bench.balances()["t1"].spent_micro == 0
    assert bench.pending() == {}


def test_the_same_usage_told_twice_is_charged_once() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}), price(0, 80_000))
    bench.step(1, usage(0), usage(0))
    bench.step(2, usage(0))
    bench.step(6)

    assert bench.balances()["t1"].spent_micro == 80_000


def test_several_boundaries_that_are_due_at_once_are_each_settled() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}))
    bench.step(42)

    assert bench.balances()["t1"].boundary_ms == START_MS + 40 * MINUTE_MS
    assert bench.balances()["t1"].earned_micro == 800_000


def day(seed: int, bench: Bench, shuffle: bool = False) -> None:
    """Half an hour of random prices and use; ``shuffle`` reorders each step's records."""
    draw = random.Random(seed)
    order = random.Random(seed + 1)
    numbers: dict[str, int] = {}
    for minute in range(32):
        given: list[Output] = []
        if minute == 0:
            given.append(pool({"t1": 2, "t2": 5, "t3": 0}))
        if draw.random() < 0.7:
            given.append(price(minute, draw.choice((None, 0, 70_001, 99_991))))
        for lease in ("l1", "l2", "l3"):
            # The start of a lease, two minutes of which come in one step.
            for back in (2, 1) if minute % 5 == 2 else ():
                number = numbers[lease] = numbers.get(lease, -1) + 1
                given.append(
                    usage(
                        minute - back,
                        seq=number,
                        lease=lease,
                        team=f"t{lease[1]}",
                        macc=draw.randrange(1, 10**6),
                    )
                )
        if shuffle:
            order.shuffle(given)
        bench.step(minute, *given)


def contents(bench: Bench, topics: Sequence[str]) -> dict[tuple[str, int], object]:
    return {key: held for key, held in bench.log.entries.items() if key[0] in topics}


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_records_inside_a_step_changes_nothing(seed: int) -> None:
    straight, shuffled = Bench(), Bench()
    day(seed, straight)
    day(seed, shuffled, shuffle=True)

    assert shuffled.balances() == straight.balances()
    assert shuffled.budgets() == straight.budgets()
    assert state_digest_input(shuffled.log, "billing") == state_digest_input(
        straight.log, "billing"
    )


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1))
def test_a_crash_before_every_step_leaves_the_same_log(seed: int) -> None:
    whole, crashed = Bench(), Bench(crash=True)
    day(seed, whole)
    day(seed, crashed)

    assert crashed.log.entries == whole.log.entries


def test_the_comparison_of_orders_can_fail() -> None:
    one, other = Bench(), Bench()
    day(1, one)
    day(2, other)

    assert one.balances() != other.balances()
    topics = ("balances",)
    assert contents(one, topics) != contents(other, topics)
