"""What is payable adds up to what was charged, whatever comes when; a replay gives the bytes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.invoicing.tests.invoice_story import Story
from services.invoicing.tests.invoicing_bench import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    UNITS,
    Bench,
    ask,
    charge,
    payables_micro,
    pool,
)
from walras_contracts.accounts import BillingPeriod
from walras_contracts.invoices import LINES_MAX, InvoiceAction, InvoiceState
from walras_contracts.quantities import PPM
from walras_invoicing import publishing, requests
from walras_invoicing.invoice import Account, TeamInvoice
from walras_invoicing.rounding import rounded_micro

STORIES = settings(deadline=None, max_examples=25)


@STORIES
@given(seed=st.integers(0, 2**32))
def test_payables_add_up_to_the_charges_and_pools_to_their_teams_in_any_history(
    seed: int,
) -> None:
    story = Story(seed)
    story.live()
    assert story.corrected > 0


@STORIES
@given(seed=st.integers(0, 2**32))
def test_a_replay_a_crash_before_each_step_and_another_order_give_the_same_bytes(
    seed: int,
) -> None:
    story = Story(seed, steps=25)
    bench = story.live()
    again = story.relive(Bench())
    crashed = story.relive(Bench(crash=True))
    shuffled = story.relive(Bench(), random.Random(seed))
    for other in (again, crashed, shuffled):
        assert other.written() == bench.written()
        assert other.state() == bench.state()


def test_the_check_sees_invoices_that_are_each_rounded_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alone(account: Account, invoice: TeamInvoice) -> int:
        del account
        return rounded_micro(invoice.lines.numerator)

    monkeypatch.setattr(publishing, "payable_micro", alone)
    monkeypatch.setattr(requests, "payable_micro", alone)
    for seed in range(5):
        with pytest.raises(AssertionError):
            Story(seed).live()


def test_o8_what_a_wallet_is_debited_is_what_is_payable_to_the_unit_and_never_negative() -> None:
    # The unit is a cent; a tariff of 1.24 takes the place of a levy of 24 %.
    bench = Bench()
    fees = [cents * UNITS * 124 // 100 for cents in (1429, 1427)]
    first, second = (charge(hour * HOUR_MS, 0, price=fee // PPM) for hour, fee in enumerate(fees))
    bench.step(0, pool(period=BillingPeriod.HOUR, grace_ms=0), first)
    bench.step(HOUR_MS, second)
    bench.step(2 * HOUR_MS)
    issued = [bench.invoice(0), bench.invoice(HOUR_MS)]
    assert [e.payable_micro for e in issued] == [1772, 1769]
    assert 10_000 - issued[0].payable_micro == 8228
    assert payables_micro(issued) == rounded_micro(sum(fees)) == 3541
    assert all(line.amount_micro >= 0 for e in issued for line in e.lines)


def test_a_void_and_a_second_run_of_the_period_ask_for_the_same_in_the_end() -> None:
    bench = Bench()
    bench.step(0, pool(period=BillingPeriod.HOUR, grace_ms=0))
    for hour in range(6):
        bench.step(hour * HOUR_MS + MINUTE_MS, charge(hour * HOUR_MS, 7 * UNITS // 10))
    asked = [bench.invoice(hour * HOUR_MS) for hour in (0, 2, 3)]
    bench.step(5 * HOUR_MS + 2 * MINUTE_MS, *(ask(e, InvoiceAction.VOID) for e in asked))
    bench.step(6 * HOUR_MS)
    teams = [e for e in bench.latest().values() if e.team is not None]
    assert [e.state.value for e in teams].count("voided") == 3
    assert payables_micro(teams) == rounded_micro(6 * 7 * UNITS // 10)
    last = bench.invoice(5 * HOUR_MS)
    assert last.state is InvoiceState.ISSUED
    assert sum(line.charges for line in last.lines) == 4
    voided_again = bench.step(6 * HOUR_MS + 1, *(ask(e, InvoiceAction.VOID) for e in asked))
    assert voided_again == []


def test_an_invoice_without_a_line_to_carry_it_leaves_the_rest_to_the_next() -> None:
    bench = Bench()
    bench.step(0, pool(period=BillingPeriod.HOUR, grace_ms=0))
    free = charge(2 * HOUR_MS, 0, price=0, billable=False)
    bench.step(1, charge(0, 7 * UNITS // 10))
    bench.step(HOUR_MS, charge(HOUR_MS, 7 * UNITS // 10))
    bench.step(2 * HOUR_MS)
    assert [bench.invoice(at * HOUR_MS).payable_micro for at in (0, 1)] == [1, 0]
    # The voided line goes to hour 3; hour 2 has free use alone.
    bench.step(3 * HOUR_MS - 1, free)
    bench.step(3 * HOUR_MS, ask(bench.invoice(0), InvoiceAction.VOID))
    assert bench.invoice(2 * HOUR_MS).payable_micro == 0
    assert bench.invoice(3 * HOUR_MS).payable_micro == 1


def test_a_restart_in_the_middle_of_a_period_from_a_compacted_state_topic_goes_on_as_it_was() -> (
    None
):
    plain, restarted = Bench(), Bench()
    for bench in (plain, restarted):
        bench.step(0, pool(), charge(0, UNITS // 3), charge(1, UNITS // 3, job="k"))
        bench.step(MINUTE_MS, charge(2, 5))
        if bench is restarted:
            bench.compact()
        bench.step(HOUR_MS, charge(3, UNITS // 3))
        bench.step(DAY_MS + HOUR_MS)
    assert restarted.written() == plain.written()
    assert restarted.state() == plain.state()


def test_periods_are_forgotten_after_the_look_back_and_late_use_is_corrected_all_the_same() -> None:
    bench = Bench()
    bench.step(0, pool(period=BillingPeriod.HOUR, grace_ms=0, look_back_ms=3 * HOUR_MS))
    sizes = []
    for hour in range(1, 30):
        given = [charge((hour - 1) * HOUR_MS, UNITS, job=f"j{at}") for at in range(4)]
        bench.step(hour * HOUR_MS, *given)
        sizes.append(len(bench.state()))
        state = bench.stage().state
        assert len(state.invoices) == len(state.books) <= 5
        assert len(state.open_books) <= 2
    assert len(set(sizes[5:])) == 1, "it does not grow"
    bench.step(29 * HOUR_MS + 1, ask(bench.invoice(0), InvoiceAction.VOID), charge(0, UNITS))
    assert bench.refused() == [("void", "unknown_invoice")]
    assert bench.invoice(29 * HOUR_MS).payable_micro == 1
    bench.restart()
    assert len(bench.stage().state.accounts) == 1


def test_an_invoice_of_a_thousand_prices_is_bounded_in_memory_and_on_the_log() -> None:
    bench = Bench()
    bench.step(0, pool())
    prices = range(1, LINES_MAX + 50)
    bench.step(1, *(charge(at, 0, price=at, macc=1000) for at in prices))
    draft = bench.invoice()
    assert [line.price_micro for line in draft.lines] == [None]
    assert draft.lines[0].charges == len(prices)
    assert len([key for key in bench.state() if key.startswith("0/line/")]) == 1
    # A correction finds its line, although the price is not told there any more.
    fixed = charge(5, 0, price=3, previous=5, corrects=True, macc=1000)
    bench.step(HOUR_MS, fixed)
    before, after = int(draft.amount_numerator), int(bench.invoice().amount_numerator)
    assert after - before == -2 * 1_000_000 * 1000
