"""Times without prices: what they cost by policy, before and after it is known, at every edge."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    price,
    price_gap,
    usage,
)
from services.billing.tests.charge_audit import faults
from walras_billing.prices import Gap, PriceHistory, Version, View
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.quantities import PPM
from walras_runtime.memory.runner import state_digest_input

UNBILLED, CARRY_LAST = PriceGapPolicy.UNBILLED, PriceGapPolicy.CARRY_LAST
UNIT = 60_000 * PPM * MINUTE_MS
EVERYTHING = View(2**62, 2**62)


def lines(bench: Bench) -> list[tuple[int, int | None, str, int]]:
    """Minute, price, reason and amount (of a minute at a price of 1) of each charge line."""
    return [
        (
            (line.start_ms - START_MS) // MINUTE_MS,
            line.price_micro,
            line.reason.value,
            int(line.amount_numerator) // UNIT,
        )
        for line in bench.charges()
    ]


@pytest.mark.parametrize(("policy", "micro"), [(UNBILLED, 0), (CARRY_LAST, 7)])
def test_use_in_a_gap_that_is_known_in_time_is_charged_by_its_policy(
    policy: PriceGapPolicy, micro: int
) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(6, usage(4), price_gap(2, 6, policy), price(6, 9))
    bench.step(8, usage(6, seq=1))
    bench.step(9)

    assert lines(bench) == [(4, micro, "usage", micro), (6, 9, "usage", 9)]
    assert faults(bench.log) == []


def test_what_was_charged_at_the_last_price_is_corrected_when_the_gap_becomes_known() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    for minute in range(1, 6):
        bench.step(minute, usage(minute - 1, seq=minute - 1))
    assert lines(bench) == [(m, 7, "usage", 7) for m in range(4)]
    bench.step(6, price_gap(2, 6), price(6, 9))

    assert lines(bench)[4:] == [
        (4, 0, "usage", 0),
        (2, 0, "late_price", -7),
        (3, 0, "late_price", -7),
    ]
    assert faults(bench.log) == []


def test_a_gap_that_carries_the_last_price_on_corrects_nothing() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(4, usage(3))
    bench.step(5)
    bench.step(6, price_gap(1, 6, CARRY_LAST), price(6, 9))

    assert lines(bench) == [(3, 7, "usage", 7)]


def test_late_use_in_a_gap_starts_as_it_would_have_in_time_and_is_corrected_at_once() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(4)
    bench.step(6, price_gap(2, 6), price(6, 9))
    bench.step(8, usage(2))

    assert lines(bench) == [(2, 7, "usage", 7), (2, 0, "late_price", -7)]
    assert faults(bench.log) == []


@pytest.mark.parametrize(("policy", "micro"), [(UNBILLED, 0), (CARRY_LAST, 7)])
def test_a_gap_ends_the_wait_of_use_whose_price_was_too_old(
    policy: PriceGapPolicy, micro: int
) -> None:
    bench = Bench(max_price_age_ms=2 * MINUTE_MS)
    bench.step(0, price(0, 7))
    bench.step(20, usage(18))
    bench.step(21)
    assert (bench.charges(), len(bench.pending())) == ([], 1)
    bench.step(22, price_gap(1, 22, policy), price(22, 9))

    assert (lines(bench), bench.pending()) == ([(18, micro, "usage", micro)], {})


def test_a_gap_without_any_price_before_it_leaves_carried_use_waiting() -> None:
    bench = Bench()
    bench.step(0)
    bench.step(3, usage(1), price_gap(0, 3, CARRY_LAST), price(3, 9))
    bench.step(5)
    assert (bench.charges(), len(bench.pending())) == ([], 1)
    bench.step(6, price(0, 4))

    assert (lines(bench), bench.pending()) == ([(1, 4, "usage", 4)], {})
    assert faults(bench.log) == []


def test_without_a_price_at_its_end_the_last_one_counts_again_behind_a_gap() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(4, usage(1, minutes=3), price_gap(2, 3))
    bench.step(6)

    assert lines(bench) == [(1, 7, "usage", 7), (2, 0, "usage", 0), (3, 7, "usage", 7)]
    assert faults(bench.log) == []


def test_a_late_price_from_before_a_gap_reaches_what_leans_on_it() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(5, usage(2, minutes=3), price_gap(3, 4, CARRY_LAST))
    bench.step(7)
    bench.step(8, price(1, 5))

    assert sum(amount for *_, amount in lines(bench)) == 15
    assert faults(bench.log) == []


def test_a_late_price_for_a_time_within_a_gap_counts_from_its_time_on() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(5, usage(1, minutes=4), price_gap(2, 4))
    bench.step(7)
    assert [amount for *_, amount in lines(bench)] == [7, 0, 7]
    bench.step(8, price(3, 5))

    assert sum(amount for *_, amount in lines(bench)) == 7 + 0 + 5 + 5
    assert faults(bench.log) == []


def test_what_a_gap_leans_on_is_kept_as_long_as_the_gap() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 7))
    bench.step(3, price_gap(1, 3, CARRY_LAST))
    for minute in range(100, 3000, 100):
        bench.step(minute)
    bench.compact()
    bench.step(3001, usage(2999))
    bench.step(3002)
    assert lines(bench) == [(2999, 7, "usage", 7)]
    bench.step(3003, price(3003, 8))
    bench.step(6000)

    kinds = [key.split("/")[1] for key in state_digest_input(bench.log, "billing")]
    assert kinds.count("price") == len(bench.stages())


@pytest.mark.parametrize("is_late", [False, True])
def test_use_in_a_gap_longer_than_all_that_is_remembered_has_its_lines_also_when_it_is_late(
    is_late: bool,
) -> None:
    bench = Bench(look_back_ms=10 * MINUTE_MS)
    bench.step(0, price(0, 7))
    bench.step(1496, *([] if is_late else [usage(1495)]))
    bench.step(1498)
    bench.step(1500, price_gap(1, 1500), price(1500, 9))
    bench.step(1501, *([usage(1495)] if is_late else []))

    assert lines(bench) == [(1495, 7, "usage", 7), (1495, 0, "late_price", -7)]
    assert faults(bench.log) == []


def test_what_a_very_late_record_made_unknown_is_not_charged_a_second_time() -> None:
    bench = Bench(look_back_ms=10 * MINUTE_MS)
    bench.step(0, price(0, 7))
    bench.step(1496, usage(1495))
    bench.step(1498)
    bench.step(1500, price(1, None))
    bench.step(1501, price(2, 5))

    assert [(reason, amount) for *_, reason, amount in lines(bench)] == [
        ("usage", 7),
        ("late_price", -7),
        ("late_price", 5),
    ]
    assert faults(bench.log) == []


@pytest.mark.parametrize("policy", [*PriceGapPolicy])
def test_a_crash_around_a_gap_leaves_the_same_log(policy: PriceGapPolicy) -> None:
    whole, crashed = Bench(), Bench(crash=True)
    for bench in (whole, crashed):
        bench.step(0, price(0, 7))
        bench.step(3, usage(0, minutes=3))
        bench.step(5, price_gap(1, 5, policy), price(5, 9))
        bench.step(7, usage(4, seq=1, minutes=3))
        bench.step(9, price(1, 3))

    assert crashed.log.entries == whole.log.entries
    assert faults(whole.log) == []


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 20),
        st.one_of(
            st.none(),
            st.integers(1, 5),
            st.tuples(st.sampled_from((Gap.FREE, Gap.CARRIED)), st.integers(1, 6)),
        ),
    ),
    max_size=7,
)


@settings(deadline=None, max_examples=300)
@given(records=RECORDS, knows=st.integers(0, 9))
def test_the_price_of_every_instant_is_that_of_the_last_record_that_is_known_for_it(
    records: list[tuple[int, int, int | tuple[Gap, int] | None]], knows: int
) -> None:
    """Steps of a millisecond; in one step gaps come before prices, each time has one record."""
    prices = PriceHistory()
    told: dict[tuple[int, int], int | Gap | None] = {}
    in_order = sorted(records, key=lambda r: (r[0], not isinstance(r[2], tuple)))
    for step, at, said in in_order:
        version = Version(step, step - 1, {"p": None})
        if isinstance(said, tuple):
            policy, length = said
            prices.put_gap("a", (at, at + length), policy, version)
            told[at, step] = policy
            if not any(time == at + length for time, _ in told):
                told[at + length, step] = Gap.ENDED
        else:
            prices.put("a", at, Version(step, step - 1, {"p": said}))
            told[at, step] = said

    def expected(at: int) -> int | None:
        known = {key: said for key, said in told.items() if key[0] <= at and key[1] <= knows}
        if not known:
            return None
        time, _ = max(known)
        said = known[max(known)]
        if said is Gap.FREE:
            return 0
        if isinstance(said, Gap):
            before = {k: s for k, s in known.items() if k[0] <= time and not isinstance(s, Gap)}
            said = before[max(before)] if before else None
        assert not isinstance(said, Gap)
        return said

    segments = prices.segments("a", "p", (0, 30), View(-1, knows))
    found = [s.price_micro for s in segments for _ in range(s.start_ms, s.end_ms)]
    assert found == [expected(at) for at in range(30)]


@settings(deadline=None, max_examples=200)
@given(records=RECORDS, before=st.integers(0, 30))
def test_forgetting_superseded_prices_changes_no_price_from_then_on(
    records: list[tuple[int, int, int | tuple[Gap, int] | None]], before: int
) -> None:
    whole, pruned = PriceHistory(), PriceHistory()
    for history in (whole, pruned):
        for step, at, said in records:
            version = Version(step, step - 1, {"p": None})
            if isinstance(said, tuple):
                history.put_gap("a", (at, at + said[1]), said[0], version)
            else:
                history.put("a", at, Version(step, step - 1, {"p": said}))
    for _ in pruned.prune(before):
        pass

    span = (before, before + 40)
    for view in (EVERYTHING, *[View(until) for until in range(before + 1, before + 12)]):
        assert pruned.segments("a", "p", span, view) == whole.segments("a", "p", span, view)
