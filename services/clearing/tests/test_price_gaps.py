"""Times without prices: told by the cycle that ends them, before its own prices."""

from typing import Any

import pytest

from walras_contracts.accounts import Gate, MarketDocument, PriceGapPolicy
from walras_contracts.capacity import SupplyPublished
from walras_contracts.market import PriceGapPublished, PricePublished
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import Barrier, tombstone

MARKETS = ("a100", "h100")


def setup(kit: Any, **world: Any) -> Any:
    """A market with two types for sale, and a job in each; step 0 cleared."""
    made = kit.world(**world)
    made.feed(
        made.document(kit.pool("pool-0", 10_000_000, {"team-0": 1})),
        kit.supply("a100", 3000),
        kit.supply("h100", 2000),
        kit.queued("team-0", "a", 4000, gang=False),
        kit.queued("team-0", "b", 4000, types=("h100",), position=1, gang=False),
    )
    return made


def pause(world: Any, cycles: int) -> None:
    """Let time pass without a barrier: the next one has the next number all the same."""
    world.late_ms = getattr(world, "late_ms", 0) + cycles * 60_000


def barrier(kit: Any, world: Any) -> None:
    """Write a step's barrier, at its time and what was paused before it."""
    for topic in kit.inputs:
        for partition in world.log.partitions(topic):
            at_ms = kit.time_of(world.step) + getattr(world, "late_ms", 0)
            world.log.append_barrier(topic, partition, Barrier(world.step, at_ms))
    world.step += 1


def told(world: Any, market: str) -> list[PriceGapPublished | PricePublished]:
    """What a market said of its prices, in the order of the log."""
    found = [e for e in world.events("prices") if isinstance(e, PriceGapPublished | PricePublished)]
    return [event for event in found if event.market == market]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(("cycles", "is_gap"), [(0, False), (2, False), (3, True), (500, True)])
def test_an_outage_of_more_than_two_cycles_is_told_before_the_prices_that_end_it(
    kit: Any, cycles: int, is_gap: bool, crash: bool
) -> None:
    world = setup(kit)
    runner = world.runner()
    runner.advance()
    pause(world, cycles)
    barrier(kit, world)
    (world.runner() if crash else runner).advance()

    for market in MARKETS:
        kinds = [type(event) for event in told(world, market)]
        gap = [PriceGapPublished] if is_gap else []
        assert kinds == [PricePublished, *gap, PricePublished]
        if is_gap:
            _, found, last = told(world, market)
            assert isinstance(found, PriceGapPublished)
            assert isinstance(last, PricePublished)
            assert (found.start_ms, found.end_ms) == (kit.time_of(1), last.market_time_ms)
            assert (found.cycle, found.policy) == (1, PriceGapPolicy.UNBILLED)


def test_the_policy_is_that_of_the_market_when_the_outage_ends(kit: Any) -> None:
    world = setup(kit)
    document = MarketDocument(market="h100", price_gap=PriceGapPolicy.CARRY_LAST)
    world.feed(world.document(document))
    pause(world, 9)
    barrier(kit, world)
    world.runner().advance()

    policies = {e.market: e.policy for e in world.events("prices") if type(e) is PriceGapPublished}
    assert policies == {"a100": PriceGapPolicy.UNBILLED, "h100": PriceGapPolicy.CARRY_LAST}


@pytest.mark.parametrize(("halts", "gaps"), [(2, 0), (3, 1)])
def test_a_market_that_was_halted_for_more_than_two_cycles_had_a_gap(
    kit: Any, halts: int, gaps: int
) -> None:
    world = setup(kit)
    MemoryRunner(world.spec, world.log).advance()
    world.solver = kit.failing(2000)
    for _ in range(halts):
        world.feed()
    world.runner().advance()
    world.solver = kit.solver
    world.feed()
    world.runner().advance()

    assert [r.state.value for r in world.records("h100")] == [
        "cleared",
        *["halted"] * halts,
        "cleared",
    ]
    kinds = [type(event) for event in told(world, "h100")]
    assert kinds == [PricePublished, *[PriceGapPublished] * gaps, PricePublished]
    assert {type(event) for event in told(world, "a100")} == {PricePublished}


def test_a_market_that_was_off_had_no_gap(kit: Any) -> None:
    world = setup(kit)
    world.feed(world.document(MarketDocument(market="h100", gate=Gate.OFF)))
    for _ in range(8):
        world.feed()
    world.feed(world.document(MarketDocument(market="h100", gate=Gate.ON)))
    world.runner().advance()

    assert [r.state.value for r in world.records("h100")] == ["cleared", *["off"] * 9, "cleared"]
    assert {type(event) for event in told(world, "h100")} == {PricePublished}


def test_skipped_cycles_count_as_time_without_prices(kit: Any) -> None:
    world = setup(kit, live=True)
    world.runner().advance()
    for _ in range(6):
        world.feed()
    world.runner().advance()

    states = [r.state.value for r in world.records("a100")]
    assert states == ["cleared", *["skipped"] * 5, "cleared"]
    _, gap, last = told(world, "a100")
    assert isinstance(gap, PriceGapPublished)
    assert (gap.start_ms, gap.end_ms) == (kit.time_of(1), kit.time_of(6))
    assert isinstance(last, PricePublished)


def test_a_market_that_left_and_came_back_is_a_new_one(kit: Any) -> None:
    world = setup(kit)
    world.feed(tombstone(SupplyPublished, "h100", "h100"))
    world.runner().advance()
    assert "0/priced/h100" not in state_digest_input(world.log, "clearing")
    for _ in range(5):
        world.feed()
    world.feed(kit.supply("h100", 2000))
    world.runner().advance()

    assert [type(event) for event in told(world, "h100")] == [PricePublished, PricePublished]


def test_a_longer_distance_of_cycles_makes_a_longer_wait(kit: Any) -> None:
    """Cycles are every third barrier here, so that two of them are six minutes."""
    world = setup(kit, cycle_every=3)
    world.barrier()
    world.barrier()
    world.runner().advance()
    pause(world, 6)
    barrier(kit, world)
    world.runner().advance()
    assert {type(event) for event in told(world, "a100")} == {PricePublished}
    for _ in range(2):
        barrier(kit, world)
    pause(world, 7)
    barrier(kit, world)
    world.runner().advance()

    assert [type(event) for event in told(world, "a100")][-2:] == [
        PriceGapPublished,
        PricePublished,
    ]
