"""What a part used: no gap, no overlap, no more than what passed, whatever the wall clock does."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from services.node_agent.tests.grants import grant
from walras_contracts.quantities import SETTLEMENT_MS
from walras_contracts.work import UsageMetered, WorkClass
from walras_node_agent.agent.metering import Meter, Terms, usage
from walras_node_agent.usage_pieces import USAGE_INTERVAL_MS

MARKET = Terms(WorkClass.MARKET)
START_MS = 10**9


def metered(
    meter: Meter, until: int, offset: int, terms: Terms = MARKET, *, final: bool = False
) -> tuple[Meter, list[UsageMetered]]:
    after, cut = meter.advanced(until, offset, terms, final=final)
    return after, usage(grant(), meter.seq, cut, terms)


@given(
    steps=st.lists(st.tuples(st.integers(1, 200_000), st.booleans()), max_size=20),
    offset=st.integers(0, 10**7),
)
def test_use_is_cut_as_it_must_be_and_nothing_is_left_out(
    steps: list[tuple[int, bool]], offset: int
) -> None:
    meter = Meter(0, START_MS + offset, START_MS)
    now, told = START_MS, list[UsageMetered]()
    for length, final in steps:
        now += length
        meter, more = metered(meter, now, offset, final=final)
        told += more
        assert now + offset - meter.wall_ms < USAGE_INTERVAL_MS
        assert meter.wall_ms == meter.boot_ms + offset
    assert [u.seq for u in told] == list(range(len(told)))
    starts = [u.start_ms for u in told]
    assert starts == [START_MS + offset, *[u.end_ms for u in told[:-1]]][: len(starts)]
    for each in told:
        assert each.end_ms - each.start_ms <= USAGE_INTERVAL_MS
        assert each.start_ms // SETTLEMENT_MS == (each.end_ms - 1) // SETTLEMENT_MS


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 200_000), st.integers(-300_000, 300_000)), min_size=1, max_size=12
    )
)
def test_a_wall_clock_that_is_set_never_makes_use_overlap_or_longer_than_it_was(
    steps: list[tuple[int, int]],
) -> None:
    offset, now = 10**7, START_MS
    meter = Meter(0, now + offset, now)
    told = list[UsageMetered]()
    for length, jump in steps:
        now += length
        offset += jump
        meter, more = metered(meter, now, offset, final=True)
        told += more

    assert all(a.end_ms <= b.start_ms for a, b in itertools.pairwise(told))
    assert [u.seq for u in told] == list(range(len(told)))
    assert sum(u.end_ms - u.start_ms for u in told) <= now - START_MS


def test_time_that_the_wall_clock_left_out_belongs_to_nobody() -> None:
    meter, _ = metered(Meter(0, 1_000, 1_000), 2_000, 0, final=True)
    _, told = metered(meter, 3_000, 3_600_000, final=True)

    assert [(u.start_ms, u.end_ms) for u in told] == [(3_602_000, 3_603_000)]


def test_use_is_cut_where_billing_ends_and_only_then_unbilled() -> None:
    terms = Terms(WorkClass.OVERHANG, 5_000)
    meter, told = metered(Meter(3, 0, 0), 20_000, 0, terms)
    # The piece behind the border is not full yet.
    assert [(u.seq, u.start_ms, u.end_ms, u.billable) for u in told] == [(3, 0, 5_000, True)]
    _, told = metered(meter, 20_000, 0, terms, final=True)
    assert [(u.seq, u.end_ms, u.billable) for u in told] == [(4, 20_000, False)]


def test_what_ran_at_price_0_is_not_billed_while_it_leaves() -> None:
    free = grant(work_class=WorkClass.OPPORTUNISTIC)
    assert not usage(free, 0, [(0, 1)], Terms(WorkClass.OVERHANG, 9))[0].billable
    assert usage(free, 0, [(0, 1)], Terms(WorkClass.OPPORTUNISTIC))[0].billable
