"""Rating: exact, linear in time, never a guess; a function of usage and the price history."""

import random
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_billing.prices import PriceHistory, Version, View
from walras_billing.rating import (
    RATE_DENOMINATOR,
    ChargeLine,
    charge_id,
    correction_id,
    rated,
    round_half_even,
)
from walras_billing.usage_line import UsageLine, line_of, subtracted
from walras_contracts.charges import ChargeReason
from walras_contracts.quantities import PPM
from walras_contracts.work import UsageMetered, WorkClass

HOUR_MS = 3_600_000
GRACE_MS = 1_000
LAST = 10**6
PROPERTY = settings(deadline=None, max_examples=100)
Change = tuple[int, int | None]


def usage(
    start_ms: int,
    end_ms: int,
    *,
    seq: int = 0,
    macc: int = 1000,
    work_class: WorkClass = WorkClass.MARKET,
    billable: bool = True,
    limit: int | None = None,
    tariff_ppm: int = PPM,
    max_age_ms: int | None = None,
) -> UsageLine:
    event = UsageMetered(
        lease="l",
        node="n",
        attempt=1,
        seq=seq,
        team="t",
        pool="p",
        job="j",
        market="a",
        quantity_macc=macc,
        start_ms=start_ms,
        end_ms=end_ms,
        work_class=work_class,
        billable=billable,
        limit_micro=limit,
        tariff_ppm=tariff_ppm,
    )
    return line_of(event, GRACE_MS, max_age_ms)


def history(*changes: Change, known_after_ms: int = -1, barrier: int = 0) -> PriceHistory:
    prices = PriceHistory()
    for at_ms, micro in changes:
        prices.put("a", at_ms, Version(barrier, known_after_ms, {"p": micro}))
    return prices


def lines(prices: PriceHistory, line: UsageLine, barrier: int = LAST) -> list[ChargeLine]:
    return [charge for step in rated(line, prices, barrier) for charge in step.lines]


def charged(prices: PriceHistory, line: UsageLine) -> int:
    return sum(charge.amount_numerator for charge in lines(prices, line))


def test_an_accelerator_for_an_hour_costs_its_price() -> None:
    assert charged(history((0, 2_500_000)), usage(0, HOUR_MS)) == 2_500_000 * RATE_DENOMINATOR


@pytest.mark.parametrize(
    ("line", "cost_micro"),
    [
        (usage(0, HOUR_MS, limit=7), 7),
        (usage(0, HOUR_MS, limit=900), 100),
        (usage(0, HOUR_MS, macc=2500), 250),
        (usage(0, HOUR_MS, tariff_ppm=500_000), 50),
        (usage(0, HOUR_MS, work_class=WorkClass.OVERHANG), 100),
        (usage(0, HOUR_MS, work_class=WorkClass.OVERHANG, billable=False), 0),
        (usage(0, HOUR_MS, work_class=WorkClass.OPPORTUNISTIC), 0),
    ],
)
def test_limit_size_tariff_and_class_count(line: UsageLine, cost_micro: int) -> None:
    assert charged(history((0, 100)), line) == cost_micro * RATE_DENOMINATOR


CHANGES = st.lists(
    st.tuples(st.integers(1, 9_999), st.none() | st.integers(0, 10**12)),
    max_size=6,
    unique_by=lambda c: c[0],
)


@PROPERTY
@given(
    changes=CHANGES,
    cuts=st.lists(st.integers(1, 9_999), max_size=6, unique=True),
    limit=st.none() | st.integers(0, 10**12),
    macc=st.integers(1, 10**7),
    max_age_ms=st.none() | st.integers(1, 20_000),
)
def test_cutting_usage_anywhere_leaves_the_sum_of_charges_unchanged(
    changes: list[Change],
    cuts: list[int],
    limit: int | None,
    macc: int,
    max_age_ms: int | None,
) -> None:
    prices = history(*changes)
    edges = [0, *sorted(cuts), 10_000]

    def part(start_ms: int, end_ms: int) -> UsageLine:
        return usage(start_ms, end_ms, macc=macc, limit=limit, max_age_ms=max_age_ms)

    whole = charged(prices, part(0, 10_000))
    assert sum(charged(prices, part(a, b)) for a, b in pairwise(edges)) == whole


@PROPERTY
@given(changes=CHANGES, limit=st.none() | st.integers(0, 10**12))
def test_a_charge_is_the_sum_over_milliseconds_of_the_price_in_force(
    changes: list[Change], limit: int | None
) -> None:
    in_force: int | None = None
    total, by_time = 0, dict(changes)
    for at_ms in range(10_000):
        in_force = by_time.get(at_ms, in_force)
        total += min(in_force or 0, 10**12 if limit is None else limit)

    prices = history(*changes)
    assert charged(prices, usage(0, 10_000, limit=limit)) == total * 1000 * PPM
    (step,) = rated(usage(0, 10_000), prices, LAST)
    assert [p.start_ms for p in step.pieces[1:]] == [p.end_ms for p in step.pieces[:-1]]
    assert (step.pieces[0].start_ms, step.pieces[-1].end_ms) == (0, 10_000)


def test_what_has_no_price_is_pending_and_neither_zero_nor_a_guess() -> None:
    prices = history((1000, 5), (2000, None), (3000, 0))
    (step,) = rated(usage(0, 4000), prices, LAST)

    assert [(p.start_ms, p.end_ms, p.price_micro) for p in step.pieces] == [
        (0, 1000, None),
        (1000, 2000, 5),
        (2000, 3000, None),
        (3000, 4000, 0),
    ]
    assert [(c.start_ms, c.price_micro) for c in step.lines] == [(1000, 5), (3000, 0)]
    for market, pool in (("b", "p"), ("a", "q")):
        assert {s.price_micro for s in prices.segments(market, pool, (0, 9), View(0))} == {None}


def test_free_use_is_rated_zero_even_without_a_price() -> None:
    for line in (
        usage(0, 10, work_class=WorkClass.OPPORTUNISTIC),
        usage(0, 10, billable=False),
    ):
        (charge,) = lines(PriceHistory(), line)
        assert (charge.price_micro, charge.amount_numerator, charge.start_ms) == (0, 0, 0)


MINUTE_MS = 60_000
TEN = 36_000_000


def test_o3_four_attempts_of_one_job_are_four_lines_without_their_gaps() -> None:
    seconds = (3_889, 4_473, 6_122, 2_153)
    prices = history((0, HOUR_MS))
    found, start_ms = 0, 1000
    for length in seconds:
        found += charged(prices, usage(start_ms, start_ms + length * 1000))
        start_ms += length * 1000 + 77_000

    assert sum(seconds) == 16_637
    # A price of 3,600,000 µcr an hour is 1000 µcr a second.
    assert found == 16_637_000 * RATE_DENOMINATOR


def test_o5_a_price_that_is_too_old_is_unknown_until_the_real_one_comes() -> None:
    prices = history((TEN - 20 * MINUTE_MS, 500_000))
    line = usage(TEN, TEN + MINUTE_MS, max_age_ms=15 * MINUTE_MS)
    (first,) = rated(line, prices, 9)
    assert first.lines == ()
    assert [p.price_micro for p in first.pieces] == [None]

    late = Version(10, line.until_ms + 19 * MINUTE_MS, {"p": 700_000})
    prices.put("a", TEN, late)
    (charge,) = lines(prices, line)
    assert (charge.reason, charge.price_micro, charge.price_barrier) == ("usage", 700_000, 10)
    assert charge.charge_id == charge_id("l/n/1", 0, TEN)
    assert charge.amount_numerator == 700_000 * PPM * 1000 * MINUTE_MS


def test_a_late_price_corrects_what_was_charged_at_another_and_names_it() -> None:
    prices = history((0, 100))
    line = usage(0, 10_000)
    prices.put("a", 4_000, Version(7, 60_000, {"p": 130}))

    first, second = lines(prices, line)
    assert (first.amount_numerator, first.corrects) == (100 * PPM * 1000 * 10_000, None)
    assert second == ChargeLine(
        charge_id=correction_id(first.charge_id, 7, 4_000),
        corrects=first.charge_id,
        reason=ChargeReason.LATE_PRICE,
        start_ms=4_000,
        end_ms=10_000,
        price_micro=130,
        previous_price_micro=100,
        price_barrier=7,
        amount_numerator=30 * PPM * 1000 * 6_000,
    )
    assert lines(prices, line, barrier=6) == [first]


def test_a_price_above_the_limit_before_and_after_corrects_nothing() -> None:
    prices = history((0, 100))
    prices.put("a", 0, Version(7, 60_000, {"p": 130}))
    assert len(lines(prices, usage(0, 10, limit=90))) == 1


STEPS = 12


@st.composite
def late_histories(draw: st.DrawFn) -> list[tuple[int, int, int | None]]:
    """Price records as (step, market time, price); step n lies between ms 1000(n-1) and 1000n."""
    record = st.tuples(
        st.integers(0, STEPS),
        st.integers(0, 50).map(lambda t: t * 200),
        st.none() | st.integers(0, 3),
    )
    found = draw(st.lists(record, max_size=10, unique_by=lambda r: r[:2]))
    return sorted(found, key=lambda r: r[0])


def put_all(records: list[tuple[int, int, int | None]], last: int = STEPS) -> PriceHistory:
    prices = PriceHistory()
    for step, at_ms, micro in records:
        if step <= last:
            prices.put("a", at_ms, Version(step, 1000 * (step - 1), {"p": micro}))
    return prices


@PROPERTY
@given(records=late_histories(), start=st.integers(0, 30), length=st.integers(1, 30))
def test_charges_and_corrections_add_up_to_a_fresh_rating_with_all_prices(
    records: list[tuple[int, int, int | None]], start: int, length: int
) -> None:
    line = usage(start * 100, (start + length) * 100)
    latest: dict[int, int | None] = {at: micro for _, at, micro in records}
    fresh = history(*latest.items())

    found = lines(put_all(records), line)
    assert sum(c.amount_numerator for c in found) == charged(fresh, line)
    ids = [c.charge_id for c in found]
    assert len(ids) == len(set(ids))
    charges = {c.charge_id: c for c in found if c.corrects is None}
    for c in found:
        if c.corrects is not None:
            corrected = charges[c.corrects]
            assert corrected.start_ms <= c.start_ms < c.end_ms <= corrected.end_ms


@PROPERTY
@given(records=late_histories(), start=st.integers(0, 30), length=st.integers(1, 30))
def test_lines_are_the_same_whether_prices_are_looked_at_one_step_after_the_other_or_at_once(
    records: list[tuple[int, int, int | None]], start: int, length: int
) -> None:
    line = usage(start * 100, (start + length) * 100)
    grown: list[ChargeLine] = []
    due = next(n for n in range(STEPS * 2) if n * 1000 >= line.until_ms)
    for step in range(due, STEPS + 1):
        seen = lines(put_all(records, step), line, step)
        assert seen[: len(grown)] == grown
        grown = seen

    if due <= STEPS:
        assert lines(put_all(records), line) == grown


@PROPERTY
@given(records=late_histories(), start=st.integers(0, 30), length=st.integers(1, 30))
def test_the_first_lines_use_what_precedes_the_first_barrier_after_the_grace(
    records: list[tuple[int, int, int | None]], start: int, length: int
) -> None:
    line = usage(start * 100, (start + length) * 100)
    due = next(n for n in range(STEPS * 2) if n * 1000 >= line.until_ms)
    known: dict[int, int | None] = {at: micro for step, at, micro in records if step <= due}

    first = next(rated(line, put_all(records), LAST))
    plain = lines(history(*known.items()), line)
    assert [(c.charge_id, c.start_ms, c.end_ms, c.price_micro) for c in first.lines] == [
        (c.charge_id, c.start_ms, c.end_ms, c.price_micro) for c in plain
    ]


@PROPERTY
@given(records=late_histories(), order=st.randoms(use_true_random=False))
def test_the_history_does_not_depend_on_the_order_in_which_prices_came(
    records: list[tuple[int, int, int | None]], order: random.Random
) -> None:
    shuffled = list(records)
    order.shuffle(shuffled)
    line = usage(0, 10_000)
    assert lines(put_all(shuffled), line) == lines(put_all(records), line)


def test_pruning_keeps_the_price_that_is_in_force() -> None:
    prices = history((0, 1), (1000, 2), (2000, 3))

    assert list(prices.prune(1500)) == [("a", 0, 0)]
    assert charged(prices, usage(1500, 1600)) == 2 * PPM * 1000 * 100
    assert lines(prices, usage(500, 600)) == []


def test_ids_depend_on_each_of_their_parts_and_are_as_documented() -> None:
    found = {
        charge_id("a/b/1", 2, 3),
        charge_id("a/b/1", 3, 2),
        charge_id("a/b/12", 2, 3),
        correction_id("a/b/1", 2, 3),
    }
    assert len(found) == 4
    # From `hashlib.blake2b(b"2/3/a/b/1", digest_size=16, person=b"walras.charge")`.
    assert charge_id("a/b/1", 2, 3) == "e444cee176c36dc72b087d558edf2d78"


@PROPERTY
@given(numerator=st.integers(-(10**30), 10**30), denominator=st.integers(1, 10**16))
def test_rounding_is_half_even_like_that_of_fractions(numerator: int, denominator: int) -> None:
    assert round_half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@pytest.mark.parametrize(("numerator", "rounded"), [(1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2)])
def test_halves_go_to_the_even_neighbour(numerator: int, rounded: int) -> None:
    assert round_half_even(numerator, 2) == rounded


SPANS = st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda s: (s[0], s[0] + s[1]))


@PROPERTY
@given(spans=st.lists(SPANS, max_size=5), gone=SPANS)
def test_subtracting_a_span_leaves_every_other_instant_where_it_was(
    spans: list[tuple[int, int]], gone: tuple[int, int]
) -> None:
    def instants(found: tuple[tuple[int, int], ...]) -> dict[int, int]:
        count: dict[int, int] = defaultdict(int)
        for start_ms, end_ms in found:
            for at_ms in range(start_ms, end_ms):
                count[at_ms] += 1
        return count

    left = instants(subtracted(tuple(spans), *gone))
    kept = {at: n for at, n in instants(tuple(spans)).items() if not gone[0] <= at < gone[1]}
    assert left == kept
