"""What the figures of a usage record say of its time, and that they say nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.billing.tests.billing_bench import MINUTE_MS, Bench, price, usage
from services.billing.tests.record_bodies import ABSENT, body
from walras_billing.time_split import split_of
from walras_runtime.records import Output

FIGURES_MS = st.none() | st.integers(-3, 12)


@pytest.mark.parametrize(
    ("running_ms", "busy_ms", "found"),
    [
        (10, 10, (10, 0, 0)),
        (7, 4, (4, 3, 3)),
        (7, 0, (0, 7, 3)),
        (0, 0, (0, 0, 10)),
        (7, None, (0, 0, 3)),
        (0, None, (0, 0, 10)),
        (None, 4, (4, 0, 0)),
        (None, 10, (10, 0, 0)),
    ],
)
def test_ten_ms_are_split_as_far_as_they_were_measured(
    running_ms: int | None, busy_ms: int | None, found: tuple[int, int, int]
) -> None:
    assert split_of(10, running_ms, busy_ms) == found


@pytest.mark.parametrize(
    ("running_ms", "busy_ms"),
    [
        *[(None, None), (10, None), (None, 0), (11, None), (11, 4), (7, 8), (None, 11)],
        *[(-1, None), (-1, -1), (7, -1)],
    ],
)
def test_figures_that_say_nothing_or_contradict_each_other_measure_nothing(
    running_ms: int | None, busy_ms: int | None
) -> None:
    """Of those that are right, the whole interval was running, or nothing of it was busy."""
    assert split_of(10, running_ms, busy_ms) is None


@given(length_ms=st.integers(1, 10), running_ms=FIGURES_MS, busy_ms=FIGURES_MS)
def test_no_part_is_below_nothing_and_together_they_are_no_more_than_the_record(
    length_ms: int, running_ms: int | None, busy_ms: int | None
) -> None:
    split = split_of(length_ms, running_ms, busy_ms)
    if split is None:
        return
    assert min(split) >= 0
    assert 0 < sum(split) <= length_ms
    if running_ms is not None and busy_ms is not None:
        assert sum(split) == length_ms


GARBAGE: list[Any] = [ABSENT, None, -1, 2**70, 1.5, "1", True, [], {}, MINUTE_MS + 1]
"""What a producer may write where a figure should be."""


def a_priced_minute(record: Output) -> Bench:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, record)
    for minute in range(2, 8):
        bench.step(minute)
    return bench


@pytest.mark.parametrize("name", ["running_ms", "busy_ms"])
@pytest.mark.parametrize("figure", GARBAGE, ids=str)
def test_a_wrong_figure_costs_no_charge_and_counts_as_not_measured(
    name: str, figure: object
) -> None:
    clean = a_priced_minute(usage(0))
    wrong = a_priced_minute(body(usage(0), **{name: figure}))

    assert len(clean.charges()) == 1
    assert wrong.quarantined() == []
    for topic in ("charges", "ledger", "balances", "usage.settled"):
        for partition in clean.log.partitions(topic):
            assert wrong.log.read(topic, partition, 0) == clean.log.read(topic, partition, 0)
    (told,) = wrong.settled_use()
    assert told.unmeasured_macc_ms == told.held_macc_ms == str(60_000 * MINUTE_MS)


def test_a_figure_beside_one_that_cannot_be_read_counts() -> None:
    bench = a_priced_minute(body(usage(0), running_ms="all of it", busy_ms=MINUTE_MS // 2))
    (told,) = bench.settled_use()
    assert told.occupied_macc_ms == told.unmeasured_macc_ms == str(60_000 * MINUTE_MS // 2)


@pytest.mark.parametrize("is_direct", [True, False])
def test_the_same_use_with_other_figures_is_a_repetition_and_the_first_ones_count(
    is_direct: bool,
) -> None:
    bench = Bench()
    first = usage(1, seq=1, running_ms=MINUTE_MS, busy_ms=1)
    again = usage(1, seq=1, running_ms=MINUTE_MS, busy_ms=2)
    bench.step(0, price(0, 7), *([usage(0)] if is_direct else []))
    bench.step(2, first)
    bench.step(3, again)
    bench.step(4, body(again, running_ms=ABSENT, busy_ms=ABSENT))
    for minute in range(5, 8):
        bench.step(minute)

    assert bench.quarantined() == []
    assert len(bench.charges()) == 1 + is_direct
    assert sum(int(told.occupied_macc_ms) for told in bench.settled_use()) == 60_000
