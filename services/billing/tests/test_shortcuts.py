"""What billing does faster for the usual record: the same bytes as for any other, everywhere."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    drain,
    price,
    price_gap,
    usage,
)
from walras_billing.sources import UsageBook
from walras_billing.usage_reading import Followers
from walras_billing.whole_lines import WholeLines
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    PoolDocument,
    TeamAccount,
    TeamBudget,
)
from walras_contracts.charges import ChargeRated
from walras_contracts.work import WorkClass
from walras_runtime.records import Output, emit

PROPERTY = settings(deadline=None, max_examples=12, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
MINUTES = 30
SHORTCUTS: tuple[tuple[type, str, Any], ...] = (
    (Followers, "read", None),
    (UsageBook, "extend", False),
    (WholeLines, "rated", None),
)
"""Each may answer that it does not apply, with this."""


@contextmanager
def without_shortcuts() -> Iterator[None]:
    """Let nothing be done in the faster way."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, refusal in SHORTCUTS:
            patch.setattr(owner, name, _refusing(refusal))
        yield


def _refusing(refusal: Any) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        del arguments
        return refusal

    return call


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count how often each shortcut is taken."""
    taken = {name: 0 for _, name, _ in SHORTCUTS}

    def counting(name: str, original: Callable[..., Any], refusal: Any) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found = original(*arguments)
            taken[name] += found is not refusal
            return found

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name, refusal in SHORTCUTS:
            patch.setattr(owner, name, counting(name, getattr(owner, name), refusal))
        yield taken


def steady_use(seed: int, bench: Bench) -> None:
    """Half an hour of leases that run on, most of the time as one expects."""
    draw = random.Random(seed)
    leases = {f"l{i}": _terms(draw, i) for i in range(6)}
    numbers = dict.fromkeys(leases, -1)
    arriving: dict[int, list[Output]] = {0: [_budgets(draw), price(0, 70_001)]}
    dark = draw.randrange(5, 20)
    for minute in range(1, MINUTES):
        lag = draw.choice((0,) * 8 + (3,))
        if minute in range(dark, dark + 4):
            if minute == dark + 3:
                arriving.setdefault(minute, []).append(price_gap(dark, minute))
        elif draw.random() < 0.7:
            micro = draw.choice((None, 0, 70_001, 99_991, 120_011))
            arriving.setdefault(minute + lag, []).append(price(minute, micro))
    for minute in range(MINUTES):
        for number, lease in enumerate(leases):
            if draw.random() < 0.03:
                leases[lease] = _terms(draw, number)
            numbers[lease] += draw.choice((1,) * 30 + (2,))
            record = usage(
                max(0, minute - draw.choice((0,) * 20 + (1,))),
                lease=lease,
                seq=numbers[lease],
                minutes=draw.choice((1,) * 20 + (2,)),
                running_ms=draw.choice((None, MINUTE_MS, draw.randrange(2 * MINUTE_MS))),
                busy_ms=draw.choice((None, 0, draw.randrange(MINUTE_MS))),
                **leases[lease],
            )
            late = draw.choice((0,) * 12 + (1, 6))
            for _ in range(draw.choice((1,) * 8 + (2,))):
                arriving.setdefault(minute + 1 + late, []).append(record)
        if draw.random() < 0.05:
            failure = drain(max(0, minute - 2), minute, lease="l1", session=f"s{minute}")
            arriving.setdefault(minute + draw.choice((0, 4)), []).append(failure)
    for minute in range(MINUTES + 10):
        bench.step(minute, *arriving.get(minute, ()))


def _terms(draw: random.Random, number: int) -> dict[str, Any]:
    return {
        "team": f"t{1 + number % 3}",
        "macc": draw.randrange(1, 10**6),
        "work_class": draw.choice((*WorkClass, WorkClass.MARKET, WorkClass.MARKET)),
        "limit": draw.choice((None, 80_000)),
        "billable": draw.random() < 0.9,
    }


def _budgets(draw: random.Random) -> Output:
    """Return three teams, of which the first has budgets that it soon has used up."""
    limit_micro = draw.randrange(10**3, 10**6)
    budgets = (
        TeamBudget(window=BillingPeriod.HOUR, limit_micro=limit_micro),
        TeamBudget(window=BillingPeriod.DAY, limit_micro=2 * limit_micro),
    )
    teams = tuple(
        TeamAccount(team=team, income_local_per_hour=1, budgets=budgets if team == "t1" else ())
        for team in ("t1", "t2", "t3")
    )
    document = PoolDocument(pool="p", weight_micro_per_hour=10**6, teams=teams)
    return emit(AccountsChanged(version=1, effective_ms=START_MS, document=document))


@PROPERTY
@given(seed=SEED)
def test_the_log_is_the_same_with_and_without_every_shortcut(seed: int) -> None:
    usual, plain = Bench(), Bench()
    with counted() as taken:
        steady_use(seed, usual)
    with without_shortcuts():
        steady_use(seed, plain)

    assert min(taken.values()) > 30
    assert usual.log.entries == plain.log.entries


@PROPERTY
@given(seed=SEED)
def test_a_shortcut_on_restored_state_gives_the_same_log(seed: int) -> None:
    whole, crashed = Bench(), Bench(crash=True)
    steady_use(seed, whole)
    with counted() as taken:
        steady_use(seed, crashed)

    assert min(taken.values()) > 30
    assert crashed.log.entries == whole.log.entries


def test_use_across_a_settlement_boundary_counts_in_both_windows_as_without_shortcuts() -> None:
    def long_records() -> Bench:
        bench = Bench()
        bench.step(0, _budgets(random.Random(1)), price(0, 70_001))
        for seq in range(3):
            given = [usage(3 * seq, seq=seq, minutes=3, lease=f"l{i}", macc=7) for i in (1, 2)]
            bench.step(3 * seq + 3, *given)
        bench.step(20)
        return bench

    usual = long_records()
    with without_shortcuts():
        plain = long_records()
    assert usual.log.entries == plain.log.entries


@pytest.mark.parametrize("place", range(len(SHORTCUTS)))
def test_a_shortcut_that_does_something_else_is_seen(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, _ = SHORTCUTS[place]
    original = getattr(owner, name)

    def wrong(*arguments: Any) -> Any:
        found = original(*arguments)
        if isinstance(found, Output):
            found.payload = (found.payload or b"").replace(b'"reason":"usage"', b'"reason":"x"')
        elif found is True:
            arguments[1].start_ms -= 1
        elif found:
            found.start_ms -= 1
        return found

    usual, broken = Bench(), Bench()
    steady_use(5, usual)
    monkeypatch.setattr(owner, name, wrong)
    steady_use(5, broken)
    assert broken.log.entries != usual.log.entries


def test_the_wallets_have_what_the_charges_say_when_many_are_booked_at_once() -> None:
    bench = Bench()
    steady_use(7, bench)
    charged = sum(int(line.amount_numerator) for line in bench.events("charges", ChargeRated))
    assert bench.spent_numerator() == charged > 0
    assert json.loads(bench.charges()[0].payload())["start_ms"] % MINUTE_MS == START_MS % MINUTE_MS
