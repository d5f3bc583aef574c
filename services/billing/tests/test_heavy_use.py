"""Use so heavy that no contract could say what it costs is not taken; all that is can be told."""

from collections.abc import Iterator
from math import prod
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import MINUTE_MS, START_MS, Bench, price, usage
from services.billing.tests.charge_audit import faults
from services.billing.tests.record_bodies import body
from walras_billing.rating import RATE_DENOMINATOR
from walras_billing.usage_faults import DAY_MS, WEIGHT_MAX, amounts_fault
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    PoolDocument,
    TeamAccount,
    TeamBudget,
)
from walras_contracts.ledger import LedgerEntryPosted
from walras_contracts.money import BudgetAlerted, StopReason
from walras_contracts.quantities import MACC_MAX, MICRO_MAX, MICRO_PER_HOUR_MAX, PPM
from walras_contracts.registry import decode_inner
from walras_runtime.records import Output, emit

PROPERTY = settings(deadline=None, max_examples=40, phases=(Phase.explicit, Phase.generate))
BUDGETS = tuple(TeamBudget(window=window, limit_micro=MICRO_MAX) for window in BillingPeriod)


def accounts(budgets: tuple[TeamBudget, ...] = ()) -> Output:
    team = TeamAccount(team="t1", income_local_per_hour=1, budgets=budgets)
    document = PoolDocument(pool="p", weight_micro_per_hour=10**6, teams=(team,))
    return emit(AccountsChanged(version=1, effective_ms=START_MS - DAY_MS, document=document))


def heavy(tariff_ppm: int, macc: int, length_ms: int, seq: int = 0) -> Output:
    """Return use that ends at the start of the bench."""
    times = {"start_ms": START_MS - length_ms, "end_ms": START_MS}
    return body(usage(0, seq=seq), tariff_ppm=tariff_ppm, quantity_macc=macc, **times)


def all_events(bench: Bench) -> Iterator[Any]:
    """Yield all that billing wrote, read as other services read it."""
    for topic in ("charges", "charges.pending", "ledger", "balances", "budgets", "budgets.alerts"):
        for partition in bench.log.partitions(topic):
            for entry in bench.log.read(topic, partition, 0):
                if entry.barrier is None and entry.payload is not None:
                    yield decode_inner(entry.type, entry.payload)


def test_the_bound_is_what_the_largest_amount_buys_at_the_price_of_the_largest_income() -> None:
    assert WEIGHT_MAX == 8784 * PPM * 1000 * 3_600_000
    assert WEIGHT_MAX * MICRO_PER_HOUR_MAX == MICRO_MAX * RATE_DENOMINATOR


@pytest.mark.parametrize(("weight", "code"), [(WEIGHT_MAX, None), (WEIGHT_MAX + 1, "out_of_range")])
def test_the_bound_itself_is_in_range_and_one_more_is_not(weight: int, code: str | None) -> None:
    found = amounts_fault(1, 0, None, 1, weight)
    assert (found and found.code) == code


def test_a_record_of_the_bound_costs_the_largest_amount_and_a_heavier_one_nothing() -> None:
    bench = Bench(look_back_ms=2 * DAY_MS)
    bench.step(0, accounts(BUDGETS), price(-1440, MICRO_PER_HOUR_MAX))
    # 8784 accelerators for an hour; and the least that can be added to an hour of a tariff of 1.
    exact = heavy(PPM, 8_784_000, 3_600_000)
    heavier = heavy(1, 8_784_000 * PPM + 1, 3_600_000, seq=1)
    bench.step(1, exact, heavier)
    bench.step(6)

    (charge,) = bench.charges()
    assert int(charge.amount_numerator) == MICRO_MAX * RATE_DENOMINATOR
    (found,) = bench.quarantined()
    assert (found.code, found.record) == ("out_of_range", "l1/n/1/1")
    assert found.reason == f"tariff_ppm × quantity_macc × ms must be 0 to {WEIGHT_MAX}"
    (entry,) = [e for e in bench.events("ledger", LedgerEntryPosted) if e.kind == "usage"]
    assert max(line.amount_micro for line in entry.lines) == MICRO_MAX
    assert bench.balances()["t1"].spent_micro == MICRO_MAX
    assert len([*all_events(bench)]) > 4


def test_the_largest_quantity_for_twenty_minutes_is_quarantined_and_changes_nothing() -> None:
    bench, without = Bench(), Bench()
    for each, heavy_too in ((bench, True), (without, False)):
        each.step(0, price(0, 10**9))
        too_heavy = body(usage(0, lease="l2", minutes=20), quantity_macc=MACC_MAX)
        each.step(20, usage(0), *([too_heavy] if heavy_too else []))
        each.step(26)

    assert [(q.code, q.record) for q in bench.quarantined()] == [("out_of_range", "l2/n/1/0")]
    assert [*all_events(bench)] == [*all_events(without)]


@pytest.mark.parametrize(("minutes", "macc"), [(20, 26_352_000), (1, 527_040_000)])
def test_use_that_follows_on_known_terms_is_weighed_too(minutes: int, macc: int) -> None:
    """Its source is known with that size, by a shorter record; so it is read without its model."""
    for more, codes in ((0, []), (1, ["out_of_range"])):
        bench = Bench()
        bench.step(0, price(0, 10**9))
        first = body(usage(0), quantity_macc=macc + more, end_ms=START_MS + 1)
        times = {"start_ms": START_MS + 1, "end_ms": START_MS + 1 + minutes * MINUTE_MS}
        bench.step(minutes + 1, first)
        bench.step(minutes + 2, body(first, seq=1, **times))
        bench.step(minutes + 7)

        assert [q.code for q in bench.quarantined()] == codes
        assert [charge.seq for charge in bench.charges()] == [0, 1][: 2 - more]
        assert faults(bench.log) == []


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int]:
    """Return a tariff, a quantity and a length that weigh about as much as may be, or anything."""
    tariff_ppm = draw(st.integers(0, 1000 * PPM) | st.sampled_from((1, PPM)))
    length_ms = draw(st.integers(1, DAY_MS))
    macc = draw(st.integers(1, MACC_MAX))
    if tariff_ppm and draw(st.booleans()):
        share = draw(st.fractions(0, 2))
        macc = min(max(1, int(share * WEIGHT_MAX) // (tariff_ppm * length_ms)), MACC_MAX)
    return tariff_ppm, macc, length_ms


@PROPERTY
# A tariff of 0, and no price yet.
@example(size=(0, 1000, 90), micro=PPM, late=True)
@given(
    size=sizes(),
    micro=st.integers(0, MICRO_PER_HOUR_MAX) | st.just(MICRO_PER_HOUR_MAX),
    late=st.booleans(),
)
def test_whatever_one_record_says_all_that_it_leads_to_can_be_read(
    size: tuple[int, int, int], micro: int, late: bool
) -> None:
    bench = Bench(look_back_ms=2 * DAY_MS)
    known = price(-1440, micro)
    bench.step(0, accounts(BUDGETS), *(() if late else (known,)))
    bench.step(1, heavy(*size))
    bench.step(2, *((known,) if late else ()))
    bench.step(6)

    events = [*all_events(bench)]
    is_heavy = prod(size) > WEIGHT_MAX
    assert [q.code for q in bench.quarantined()] == ["out_of_range"] * is_heavy
    assert len(bench.charges()) == 1 - is_heavy
    assert len(events) > 3


def test_a_budget_that_is_overdrawn_beyond_all_amounts_says_the_largest_one_and_stops() -> None:
    """No record costs more than can be said, but two may."""
    bench = Bench(look_back_ms=2 * DAY_MS)
    bench.step(0, accounts(BUDGETS), price(-1440, MICRO_PER_HOUR_MAX))
    first = heavy(PPM, 8_784_000, 3_600_000)
    second = body(first, seq=0, lease="l2")
    bench.step(1, first, second)
    bench.step(2)

    budget = bench.budgets()["t1"]
    assert (budget.exhausted, budget.reason) == (True, StopReason.MONTH)
    assert max(state.spent_micro for state in budget.budgets) == MICRO_MAX
    assert bench.events("budgets.alerts", BudgetAlerted)
    assert bench.quarantined() == []
