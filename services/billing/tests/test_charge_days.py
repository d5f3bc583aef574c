"""Random days of charges: an independent audit agrees, and what breaks them is caught."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import Bench, usage
from services.billing.tests.charge_audit import faults
from services.billing.tests.day_properties import (
    expect_no_crash_to_show,
    expect_no_order_to_show,
    expect_the_same_from_a_replay,
)
from services.billing.tests.random_days import (
    RandomDay,
    expect_tampering_to_show,
    kinds_of,
    mixed,
)
from walras_billing.prices import PriceHistory, Segment, View
from walras_contracts.work import WorkClass

PROPERTY = settings(deadline=None, max_examples=15, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)


def amounts(bench: Bench) -> list[int]:
    return [int(line.amount_numerator) for line in bench.charges()]


def a_day(seed: int, bench: Bench, *, shuffle: bool = False, delay: bool = True) -> None:
    """Forty minutes of use and prices, both late at times, repeated, with holes and overlaps."""
    day = RandomDay(seed)
    draw = day.draw
    numbers: dict[str, int] = {}
    for minute in range(40):
        lag = draw.choice((0, 0, 0, 1, 4, 9))
        if draw.random() < 0.6:
            day.put_some_price(minute, lag)
        for lease in ("l1", "l2", "l3"):
            number = numbers[lease] = numbers.get(lease, -1) + draw.choice((1, 1, 1, 1, 2))
            record = usage(
                max(0, minute - draw.choice((0, 0, 0, 0, 1))),
                seq=number,
                lease=lease,
                team=f"t{lease[1]}",
                macc=draw.randrange(1, 10**6),
                work_class=draw.choice((*WorkClass, WorkClass.MARKET, WorkClass.MARKET)),
                limit=draw.choice((None, None, 80_000)),
            )
            late = draw.choice((0, 0, 0, 2, 7)) if delay else 0
            day.put_once_or_twice(minute + 1 + late, record)
    day.play(bench, 55, mixed if shuffle else None)


@PROPERTY
@given(seed=SEED)
def test_an_independent_audit_agrees_with_every_line_and_every_wallet(seed: int) -> None:
    bench = Bench()
    a_day(seed, bench)

    assert faults(bench.log) == []
    assert bench.spent_numerator() == sum(amounts(bench))


@PROPERTY
@given(seed=SEED)
def test_a_crash_before_every_step_leaves_the_same_bytes_on_every_topic(seed: int) -> None:
    expect_no_crash_to_show(a_day, seed)


@PROPERTY
@given(seed=SEED)
def test_the_order_inside_a_step_changes_no_line_and_no_state(seed: int) -> None:
    expect_no_order_to_show(a_day, seed)


@PROPERTY
@given(seed=SEED)
def test_replaying_the_inputs_into_an_empty_state_gives_the_same_keys_and_payloads(
    seed: int,
) -> None:
    expect_the_same_from_a_replay(a_day, seed)


class NewestPrices(PriceHistory):
    """The broken build: rates with the newest prices instead of those of the line's position."""

    def segments(
        self,
        series: str,
        pool: str,
        span: tuple[int, int],
        view: View,
        max_age_ms: int | None = None,
    ) -> list[Segment]:
        return super().segments(series, pool, span, View(view.until_ms, 10**9), max_age_ms)


def test_a_build_that_joins_use_against_the_newest_price_is_caught() -> None:
    """The canary: late use of a time whose price was corrected meanwhile."""
    caught = 0
    for seed in range(5):
        bench = Bench()
        for stage in bench.stages():
            stage.state.prices = NewestPrices()
        a_day(seed, bench)
        caught += bool(faults(bench.log))
    assert caught == 5


@pytest.mark.parametrize("field", ["amount_numerator", "price_micro", "corrects", "end_ms"])
def test_the_audit_refuses_a_line_that_was_tampered_with(field: str) -> None:
    bench = Bench()
    a_day(3, bench)
    others = {"amount_numerator": "17", "price_micro": 3, "corrects": "0" * 32}
    expect_tampering_to_show(bench, field, others)


def test_the_days_contain_all_that_they_are_meant_to_contain() -> None:
    seen: set[str] = set()
    for seed in range(8):
        bench = Bench()
        a_day(seed, bench)
        seen |= kinds_of(bench)
        seen |= {f"gap {gap.ended.value}" for gap in bench.gaps()}
        seen |= {"pending"} if bench.pending() else set()
    assert seen == {"usage", "late_price", "overlap", "gap filled", "pending"}
