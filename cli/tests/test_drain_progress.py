"""Who waits is told something at least every 10 s, until the end or the end of the time (R15)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.drain_clock import DrainClock
from cli.tests.jobs_events import NOW_MS, session
from walras.drain.progress import REPEAT_AFTER_MS, End, Outcome, follow
from walras.jobs_log.items import Item, Watch
from walras.jobs_log.testing import MemoryLog
from walras_contracts.drains import DrainSessionChanged

WATCHES = [Watch("drain.sessions", (DrainSessionChanged,))]


@dataclass(slots=True)
class StateWatch:
    """Says the state of the last session; freed ends it."""

    state: str = "none"

    def take(self, item: Item) -> None:
        if isinstance(item.event, DrainSessionChanged):
            self.state = item.event.state.value

    def words(self) -> str:
        return self.state

    def end(self) -> End | None:
        return End(Outcome.DONE, "free") if self.state == "freed" else None


def run(
    idle_ms: Sequence[int], *states: str | None, timeout_ms: int | None = None
) -> tuple[End, DrainClock]:
    """Follow; before each idle moment's state some time passes."""
    log, clock = MemoryLog(), DrainClock()
    steps = list(zip(idle_ms, states, strict=False))

    def idle(same: MemoryLog) -> bool:
        if not steps:
            return False
        passed_ms, state = steps.pop(0)
        clock.now_ms += passed_ms
        if state is not None:
            same.put(session(state))
        return True

    log.on_idle = idle
    end = follow(log, WATCHES, StateWatch(), clock.tell, timeout_ms=timeout_ms, clock=clock)
    return end, clock


def test_each_change_is_told_once() -> None:
    end, clock = run([1] * 4, "warned", "warned", "waiting", "freed")
    assert end == End(Outcome.DONE, "free")
    assert [words for _, words in clock.told] == ["none", "warned", "waiting", "freed"]


def test_where_nothing_changes_the_same_is_told_again_every_10_s() -> None:
    _, clock = run([4000] * 10, *["warned"] * 9, "freed")
    assert [at_ms for at_ms, _ in clock.told] == [0, 4000, 16_000, 28_000, 40_000, 40_000]


@given(
    st.lists(
        st.tuples(st.integers(0, 3000), st.sampled_from(["warned", "waiting", None])), max_size=30
    )
)
def test_two_words_are_never_much_more_than_10_s_apart(steps: list[tuple[int, str | None]]) -> None:
    times = [passed for passed, _ in steps] + [0]
    _, clock = run(times, *[state for _, state in steps], "freed")
    told = [at_ms for at_ms, _ in clock.told]
    assert all(later - at <= REPEAT_AFTER_MS + 3000 for at, later in pairwise(told))
    assert clock.now_ms - told[-1] <= REPEAT_AFTER_MS + 3000


def test_words_carry_the_market_time_of_the_last_barrier() -> None:
    log, clock = MemoryLog(), DrainClock()
    log.put(session("warned"))
    log.pass_barrier(NOW_MS)
    watch = StateWatch()
    list(log.read("drain.sessions", DrainSessionChanged))
    log.pass_barrier(NOW_MS + 5000)
    log.put(session("freed"))
    follow(log, WATCHES, watch, clock.tell, timeout_ms=None, clock=clock)
    assert clock.told[-1][1] == "2027-01-15T08:00:05Z  freed"


def test_where_nothing_at_all_is_written_it_is_asked_whether_anybody_is_at_work() -> None:
    _, clock = run([11_000] * 4, None, None, None, "freed")
    notes = [words for _, words in clock.told if "do the services run?" in words]
    assert notes == ["none; nothing is written any more: do the services run?"] * 2
    assert clock.told[-1] == (44_000, "freed")


def test_when_the_time_is_over_it_is_said_that_it_goes_on() -> None:
    end, _ = run([1000] * 9, *["warned"] * 9, timeout_ms=5000)
    assert end == End(Outcome.NOT_KNOWN, "not ended within 5 s, it goes on: warned")


def test_canary_a_watch_that_never_ends_is_not_ended() -> None:
    with pytest.raises(AssertionError, match="nothing comes any more"):
        run([1], "warned")
