"""Prices read from the end say what all prices say; places are those of placement's order."""

from hypothesis import given
from hypothesis import strategies as st

from cli.tests.jobs_events import NOW_MS, changed, pool, prices, queued
from walras.jobs.price_board import read_prices
from walras.jobs.queue_places import queue_orders, queue_places
from walras.jobs_log.testing import MemoryLog
from walras_contracts.accounts import PriceGapPolicy, QueueOrder
from walras_contracts.demand import JobQueued
from walras_contracts.market import PriceGapPublished, PricePublished

MARKETS = ("a", "b", "c")
CYCLES = st.lists(st.sets(st.sampled_from(MARKETS)), max_size=12)


def log_of(cycles: list[set[str]]) -> tuple[MemoryLog, list[PricePublished]]:
    """Return a log with a cycle every 10 ms, in which some markets were cleared."""
    log, all_prices = MemoryLog(), []
    for cycle, markets in enumerate(cycles):
        for market in sorted(markets):
            all_prices.append(prices(cycle, cycle * 10, market, p=cycle))
            log.put(all_prices[-1])
        log.pass_barrier(cycle * 10, "prices")
    return log, all_prices


@given(CYCLES, st.sets(st.sampled_from(MARKETS)), st.integers(0, 130))
def test_prices_read_from_the_end_are_the_last_ones(
    cycles: list[set[str]], wanted: set[str], since_ms: int
) -> None:
    log, all_prices = log_of(cycles)
    board = read_prices(log, wanted, since_ms, None)
    assert board.latest == {each.market: each for each in all_prices if each.market in wanted}
    for at_ms in range(since_ms, 140):
        before = [each.cycle for each in all_prices if each.market_time_ms <= at_ms]
        assert board.cycle_at(at_ms) == max(before, default=None)


@given(CYCLES, st.integers(0, 130))
def test_where_it_is_not_looked_further_back_the_cycle_is_open_and_never_wrong(
    cycles: list[set[str]], at_ms: int
) -> None:
    log, all_prices = log_of(cycles)
    found = read_prices(log, MARKETS, 0, 4).cycle_at(at_ms)
    before = [each.cycle for each in all_prices if each.market_time_ms <= at_ms]
    assert found is None or found == max(before)


def test_a_market_without_prices_has_none_and_gaps_are_no_prices() -> None:
    log, _ = log_of([{"a"}])
    gap = PriceGapPublished(
        market="b", cycle=5, start_ms=1, end_ms=9, policy=PriceGapPolicy.UNBILLED
    )
    log.put(gap)
    board = read_prices(log, {"a", "b"}, None, None)
    assert (board.price_micro("a", "p"), board.price_micro("a", "other")) == (0, None)
    assert (board.price_micro("b", "p"), board.cycle_of("b")) == (None, None)


DEADLINES = st.none() | st.integers(NOW_MS, NOW_MS + 3)
JOBS = st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 9), DEADLINES), max_size=10)
NEVER_MS = 2**63


def rank(job: JobQueued, *, by_deadline: bool) -> tuple[int, int, str]:
    deadline_ms = NEVER_MS if job.deadline_ms is None else job.deadline_ms
    return (deadline_ms if by_deadline else 0, job.position, job.job)


@given(JOBS, st.sampled_from(list(QueueOrder)))
def test_places_count_all_that_goes_before_in_the_same_team(
    given_jobs: list[tuple[str, int, int | None]], order: QueueOrder
) -> None:
    jobs = [
        queued(f"j{at}", team=team, position=position, deadline_ms=deadline, submitted_ms=1)
        for at, (team, position, deadline) in enumerate(given_jobs)
    ]
    found = queue_places(jobs, {"t": order})
    for job in jobs:
        by_deadline = order is QueueOrder.DEADLINE and job.team == "t"
        mine = rank(job, by_deadline=by_deadline)
        of_team = [each for each in jobs if each.team == job.team]
        before = [each for each in of_team if rank(each, by_deadline=by_deadline) < mine]
        place = found[job.record_key()]
        assert (place.place, place.before_macc) == (len(before) + 1, 8000 * len(before))
        assert place.waiting == len(of_team)


def test_the_queue_order_is_that_of_the_newest_document_in_effect() -> None:
    changes = [
        changed(pool("t"), 1, 0),
        changed(pool("t", queue_order="deadline"), 2, 10),
        changed(pool("t"), 3, 20),
        changed(pool("u", name="q", queue_order="deadline"), 1, 0),
    ]
    assert queue_orders(changes, 5) == {"t": QueueOrder.POSITION, "u": QueueOrder.DEADLINE}
    assert queue_orders(changes, 19)["t"] is QueueOrder.DEADLINE
    assert queue_orders(reversed(changes), 20)["t"] is QueueOrder.POSITION
