from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_runtime.records import Barrier
from walras_ticker.core import Decision, Halt, HaltCode, Look, Wait, Write, decide
from walras_ticker.handlers import happened
from walras_ticker.state import TickerState, is_ours

INTERVAL_MS = 5_000
START_MS = 1_728_000_000_000
_time = st.integers(0, 4 * 10**12)
_interval = st.sampled_from((100, 1_000, 5_000, 60_000))


@dataclass
class Machine:
    """A machine whose two clocks a test moves."""

    wall_ms: int = START_MS
    monotonic_ms: int = 7
    state: TickerState = field(default_factory=TickerState)
    written: list[Barrier] = field(default_factory=list)

    def decide(self, interval_ms: int = INTERVAL_MS) -> Decision:
        now = Look(self.wall_ms, self.monotonic_ms)
        decision = decide(self.state.last, self.state.look, now, interval_ms)
        happened(self.state, now)
        if isinstance(decision, Write):
            happened(self.state, decision.barrier)
            self.written.append(decision.barrier)
        return decision

    def pass_time(self, duration_ms: int, gained_ms: int = 0) -> None:
        self.wall_ms += duration_ms + gained_ms
        self.monotonic_ms += duration_ms


def test_the_first_barrier_is_number_zero_at_the_interval_that_has_begun() -> None:
    machine = Machine(wall_ms=START_MS + 4_999)
    assert machine.decide() == Write(Barrier(0, START_MS))
    assert machine.decide() == Wait(START_MS + 5_000)


def test_a_barrier_is_due_every_interval() -> None:
    machine = Machine()
    for number in range(50):
        assert machine.decide() == Write(Barrier(number, START_MS + number * INTERVAL_MS))
        decision = machine.decide()
        assert isinstance(decision, Wait)
        machine.pass_time(decision.until_ms - machine.wall_ms)


def test_an_outage_makes_one_barrier_with_the_next_number() -> None:
    last = Barrier(41, START_MS)
    now = Look(START_MS + 86_400_000 + 3, 5)
    assert decide(last, None, now, INTERVAL_MS) == Write(Barrier(42, START_MS + 86_400_000))


def test_a_process_that_stood_still_has_had_an_outage_not_a_jump() -> None:
    machine = Machine()
    machine.decide()
    machine.pass_time(600_000)
    assert machine.decide() == Write(Barrier(1, START_MS + 600_000))


@pytest.mark.parametrize("gained_ms", [10_001, 3_600_000, -10_001])
def test_a_wall_clock_that_jumps_halts_the_ticker(gained_ms: int) -> None:
    machine = Machine()
    machine.decide()
    machine.pass_time(60_000)
    machine.decide()
    machine.pass_time(5_000, gained_ms)
    decision = machine.decide()
    assert isinstance(decision, Halt)
    assert decision.code is HaltCode.CLOCK_JUMP
    assert str(gained_ms) in decision.reason


@pytest.mark.parametrize("gained_ms", [10_000, -4_000])
def test_a_wall_clock_that_is_adjusted_a_little_is_followed(gained_ms: int) -> None:
    machine = Machine()
    machine.decide()
    machine.pass_time(5_000, gained_ms)
    assert not isinstance(machine.decide(), Halt)


def test_a_wall_clock_before_the_last_barrier_halts_the_ticker() -> None:
    decision = decide(Barrier(3, START_MS), None, Look(START_MS - 1, 0), INTERVAL_MS)
    assert isinstance(decision, Halt)
    assert decision.code is HaltCode.CLOCK_BEFORE_BARRIER


@given(last_ms=_time, wall_ms=_time, interval_ms=_interval, number=st.integers(0, 10**6))
def test_any_decision_keeps_numbers_dense_and_market_time_growing(
    last_ms: int, wall_ms: int, interval_ms: int, number: int
) -> None:
    last = Barrier(number, last_ms)
    match decide(last, None, Look(wall_ms, 0), interval_ms):
        case Write(barrier):
            assert barrier.number == number + 1
            assert (
                last_ms < barrier.market_time_ms <= wall_ms < barrier.market_time_ms + interval_ms
            )
            assert barrier.market_time_ms % interval_ms == 0
        case Wait(until_ms):
            assert last_ms <= wall_ms < until_ms <= last_ms + interval_ms
            decision = decide(last, None, Look(until_ms, 0), interval_ms)
            assert decision == Write(Barrier(number + 1, until_ms))
        case Halt():
            assert wall_ms < last_ms


_move = st.tuples(st.integers(0, 30_000), st.one_of(st.just(0), st.integers(-12_000, 12_000)))


@settings(deadline=None)
@given(moves=st.lists(_move, max_size=60))
def test_whatever_the_clocks_do_barriers_are_dense_and_monotone(
    moves: list[tuple[int, int]],
) -> None:
    machine = Machine()
    machine.decide()
    for duration_ms, gained_ms in moves:
        machine.pass_time(duration_ms, gained_ms)
        if isinstance(machine.decide(), Halt):
            break
        assert abs(gained_ms) <= 2 * INTERVAL_MS
    assert [b.number for b in machine.written] == list(range(len(machine.written)))
    times = [b.market_time_ms for b in machine.written]
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("last", "next_epoch", "ours"),
    [
        (Barrier(5, 50), 3, True),
        (Barrier(6, 60), 4, True),
        (Barrier(7, 70), 4, True),
        (Barrier(7, 71), 4, False),
        (Barrier(8, 80), 4, False),
        (Barrier(6, 60), 5, False),
    ],
)
def test_a_ticker_knows_its_own_barriers_from_a_successors(
    last: Barrier, next_epoch: int, ours: bool
) -> None:
    state = TickerState(last=Barrier(6, 60), tried=Barrier(7, 70))
    assert is_ours(state, last, next_epoch, held_epoch=3) is ours
