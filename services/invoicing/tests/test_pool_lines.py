"""A pool's invoice has the lines of its teams as they stand, made coarser until few enough."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.invoicing.tests.invoice_story import Story
from services.invoicing.tests.invoicing_bench import HOUR_MS, Bench, charge, pool
from walras_contracts.invoices import InvoiceLine, InvoicePublished, InvoiceState
from walras_invoicing import lines

FURTHER = ("price_micro", "team", "period_start_ms", "work_class", "market")
LEAVES_OUT = [{"job", *FURTHER[:count]} for count in range(len(FURTHER) + 1)]
NAMES = ("kind", "team", "job", "market", "work_class", "price_micro", "period_start_ms")
Sums = tuple[int, int, int, int, int, int]
"""First and last ms, macc·ms, charges, numerator, µcr."""


def key_of(line: InvoiceLine, without: set[str]) -> tuple[object, ...]:
    return tuple(None if name in without else getattr(line, name) for name in NAMES)


def summed(given: list[InvoiceLine], without: set[str]) -> dict[tuple[object, ...], Sums]:
    """Sum lines up, another way than the service does."""
    held: dict[tuple[object, ...], list[InvoiceLine]] = defaultdict(list)
    for line in given:
        held[key_of(line, without)].append(line)
    return {
        key: (
            min(line.first_ms for line in same),
            max(line.last_ms for line in same),
            sum(int(line.macc_ms) for line in same),
            sum(line.charges for line in same),
            sum(int(line.amount_numerator) for line in same),
            sum(line.amount_micro for line in same),
        )
        for key, same in held.items()
    }


def check_pools(latest: list[InvoicePublished], lines_max: int) -> set[int]:
    """Check the lines of pools; return how many names each leaves out."""
    seen = set()
    for of_pool in (e for e in latest if e.team is None):
        teams = [
            line
            for e in latest
            if e.team is not None and (e.pool, e.start_ms) == (of_pool.pool, of_pool.start_ms)
            if of_pool.state is InvoiceState.VOIDED or e.state is not InvoiceState.VOIDED
            for line in e.lines
        ]
        choices = [summed(teams, without) for without in LEAVES_OUT]
        fit = [len(choice) <= lines_max for choice in choices]
        at = fit.index(True) if True in fit else len(choices) - 1
        assert summed(list(of_pool.lines), set()) == choices[at]
        seen.add(len(LEAVES_OUT[at]))
    return seen


def told(seed: int) -> list[InvoicePublished]:
    """The invoices of a story after the first step of an hour: all tell how they stand."""
    story = Story(seed)
    bench = story.live()
    at_ms = story.given[-1][0] // HOUR_MS * HOUR_MS + HOUR_MS
    bench.step(at_ms)
    return [*bench.latest().values()]


@pytest.mark.parametrize("lines_max", [2, 4, 9])
@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_a_pool_has_its_teams_lines_with_what_they_leave_out_and_no_more_than_fit(
    lines_max: int, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LINES_MAX", lines_max)
        check_pools(told(seed), lines_max)


def test_stories_have_pools_of_each_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for seed in range(4):
        monkeypatch.setattr(lines, "LINES_MAX", 4)
        seen |= check_pools(told(seed), 4)
    assert {1, 2, 3} <= seen
    assert max(seen) > 3, "a pool without periods"


def test_canary_a_pool_that_leaves_out_more_than_it_must_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "LINES_MAX", 4)
    latest = told(0)
    with pytest.raises(AssertionError):
        check_pools(latest, 5)


def test_prices_that_one_team_leaves_out_stay_on_the_lines_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "LINES_MAX", 3)
    bench = Bench()
    many = [charge(at, 0, price=1 + at, team="t1") for at in range(4)]
    few = [charge(at, 0, price=1 + at, team="t2") for at in range(2)]
    bench.step(0, pool(), *many, *few)
    of_pool = bench.invoice(team="")
    assert [(e.team, e.price_micro, e.charges) for e in of_pool.lines] == [
        ("t1", None, 4),
        ("t2", 1, 1),
        ("t2", 2, 1),
    ]
