"""A replay finds what was recorded again, and every figure that is not what it was."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.archive import ArchiveError, BrokenCycleError, RecordedCycle
from walras.archive.testing import CycleMaker
from walras.replay.comparing import Difference
from walras.replay.replaying import Replay
from walras_clearing import Market, Pool
from walras_clearing.testing import MEDIUM, draw_market
from walras_contracts.market import CycleFramed, FrameKind, MarketState

ALL = range(2**53)


def cycles_of(seed: int, count: int, *, rows_a_part: int = 3) -> list[RecordedCycle]:
    """Cycles of one market with two key frames; every third is halted."""
    draw, maker = Random(seed), CycleMaker(rows_a_part=rows_a_part)
    found = []
    for number in range(count):
        market = draw_market(draw.randint)
        halted = number % 3 == 1
        found.append(
            maker.halted(market) if halted else maker.cleared(market, key=number == count // 2)
        )
    return found


def replay(cycles: Iterable[RecordedCycle], **options: Any) -> Replay:
    run = Replay(options.pop("within", ALL), **options)
    run.run(cycles)
    return run


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 6))
def test_what_clear_produced_is_found_again(seed: int, count: int, rows_a_part: int) -> None:
    cycles = cycles_of(seed, count, rows_a_part=rows_a_part)
    run = replay(cycles)
    assert run.found == []
    market = run.markets["a100"]
    assert market.replayed + market.not_cleared == count
    assert (market.before_key_frame, run.gaps) == (0, [])


def changed(value: int | None) -> int:
    return 7 if value is None else value - 1 if value else 1


def with_head(cycle: RecordedCycle, **fields: Any) -> RecordedCycle:
    assert cycle.head is not None
    return replace(cycle, head=cycle.head.model_copy(update=fields))


def with_frame(cycle: RecordedCycle, part: int, **fields: Any) -> RecordedCycle:
    frames = list(cycle.frames)
    frames[part] = CycleFramed.model_validate({**frames[part].model_dump(), **fields})
    return replace(cycle, frames=tuple(frames))


@given(st.data(), st.integers(0, 10**6))
def test_a_single_changed_result_is_found_and_nothing_else(data: st.DataObject, seed: int) -> None:
    maker, draw = CycleMaker(rows_a_part=2), Random(seed)
    cycle = maker.cleared(draw_market(draw.randint))
    assert cycle.head is not None
    pools = len(cycle.head.pools)
    choices = [("head", "reference_price_micro", 0)]
    for field in ("price_micro", "price_below_micro", "purchased_macc", "allocated_macc"):
        choices += [("pool", field, number) for number in range(pools)]
    for field in ("allocated_macc", "opportunistic_macc"):
        choices += [
            (f"part{part}", field, number)
            for part, frame in enumerate(cycle.frames)
            for number in range(len(frame.teams))
        ]
    where, field, number = data.draw(st.sampled_from(choices))
    if where == "head":
        before = cycle.head.reference_price_micro
        wrong = with_head(cycle, **{field: changed(before)})
        name = field
    elif where == "pool":
        rows = list(cycle.head.pools)
        before = getattr(rows[number], field)
        rows[number] = rows[number].model_copy(update={field: changed(before)})
        wrong = with_head(cycle, pools=tuple(rows))
        name = f"pools[{rows[number].pool}].{field}"
    else:
        part = int(where.removeprefix("part"))
        frame = cycle.frames[part]
        column = list(getattr(frame, field))
        before = column[number]
        column[number] = changed(before)
        wrong = with_frame(cycle, part, **{field: tuple(column)})
        name = f"teams[{frame.teams[number]}].{field}"
    assert replay([wrong]).found == [Difference("a100", 0, name, changed(before), before)]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda c: replace(c, head=None), "its record is missing"),
        (lambda c: replace(c, frames=c.frames[:-1]), "part 2 of 3 of its frame is missing"),
        (lambda c: replace(c, frames=c.frames[1:]), "part 0 of 3 of its frame is missing"),
        (lambda c: replace(c, frames=(*c.frames, c.frames[0])), "4 parts, the record says 3"),
        (lambda c: with_frame(c, 1, parts=4), "the record says 3 of changes"),
        (lambda c: with_frame(c, 1, market_time_ms=1), "another market time"),
        (lambda c: with_head(c, jobs=99), "the record says 99"),
        (lambda c: with_head(c, teams=0), "the record says 0"),
        (lambda c: with_head(c, pools=c.head.pools[:1]), "no pool or team of it"),
        (lambda c: with_head(c, state=MarketState.HALTED), "halted, with a frame of changes"),
        (lambda c: with_frame(c, 0, removed_jobs=("x/y",)), "removes job x/y"),
    ],
)
def test_a_cycle_of_which_a_part_is_missing_or_wrong_is_named(
    spoil: Callable[[RecordedCycle], RecordedCycle], reason: str
) -> None:
    cycles = large_cycles(5)
    cycles[2] = spoil(cycles[2])
    with pytest.raises(BrokenCycleError, match=f"market a100, cycle 2: .*{reason}"):
        replay(cycles)
    run = replay(cycles, skip_gaps=True)
    assert [(gap.cycle, reason in gap.reason) for gap in run.gaps] == [(2, True)]
    # Cycle 4 has the next key frame.
    assert run.markets["a100"].replayed == 3
    assert run.markets["a100"].before_key_frame == 1
    assert run.found == []


def large_cycles(count: int) -> list[RecordedCycle]:
    """Cycles whose frames have three parts; the first and the fifth have a key frame."""
    draw = Random(4)
    markets: list[Market] = []
    while len(markets) < count:
        market = draw_market(draw.randint, replace(MEDIUM, teams=9, jobs=5))
        if len(market.teams) == 9 and len({team.pool for team in market.teams}) == 3:
            markets.append(market)
    probe = CycleMaker(rows_a_part=10**6)
    rows = [
        max(len(frame.teams), len(frame.job_keys))
        for number, market in enumerate(markets)
        for frame in probe.cleared(market, key=number % 4 == 0).frames
    ]
    maker = CycleMaker(rows_a_part=-(-rows[2] // 3))
    cycles = [maker.cleared(m, key=number % 4 == 0) for number, m in enumerate(markets)]
    assert len(cycles[2].frames) == 3
    return cycles


def test_missing_cycles_are_named_first_to_last() -> None:
    cycles = large_cycles(6)
    with pytest.raises(BrokenCycleError, match="cycle 2: it is missing"):
        replay(cycles[:2] + cycles[3:])
    with pytest.raises(BrokenCycleError, match="cycle 1: all up to 2 are missing"):
        replay(cycles[:1] + cycles[3:])
    run = replay(cycles[:1] + cycles[3:], skip_gaps=True)
    assert [gap.cycle for gap in run.gaps] == [1]
    assert (run.replayed, run.markets["a100"].before_key_frame) == (3, 1)


def test_cycles_before_the_first_key_frame_are_counted_not_replayed() -> None:
    run = replay(large_cycles(6)[1:])
    market = run.markets["a100"]
    assert (market.before_key_frame, market.replayed, market.first_cycle) == (3, 2, 4)
    assert run.gaps == []


def test_what_retention_left_of_the_oldest_cycles_is_counted_not_an_error() -> None:
    cycles = large_cycles(6)
    cut = [replace(cycle, frames=(), oldest=True) for cycle in cycles[:2]]
    run = replay([*cut, *cycles[2:]])
    market = run.markets["a100"]
    assert (market.cut, market.before_key_frame, market.replayed) == (2, 2, 2)
    assert (run.found, run.gaps) == ([], [])
    with pytest.raises(BrokenCycleError, match="cycle 0: part 0 of"):
        replay([replace(cycle, oldest=False) for cycle in cut])


def test_a_cycle_without_a_frame_does_not_end_what_retention_may_have_cut() -> None:
    maker, draw = CycleMaker(), Random(7)
    halted = replace(maker.halted(Market(0, (), ())), oldest=True)
    cut = replace(maker.cleared(draw_market(draw.randint)), frames=(), oldest=True)
    later = [maker.cleared(draw_market(draw.randint), key=True) for _ in range(2)]
    run = replay([halted, cut, *later])
    market = run.markets["a100"]
    assert (market.not_cleared, market.cut, market.replayed) == (1, 1, 2)


def test_time_that_goes_back_is_named_not_charged() -> None:
    cycles = large_cycles(3)
    assert cycles[1].head is not None
    early = cycles[1].head.market_time_ms - 1
    cycles[2] = with_head(cycles[2], market_time_ms=early)
    for part in range(len(cycles[2].frames)):
        cycles[2] = with_frame(cycles[2], part, market_time_ms=early)
    with pytest.raises(BrokenCycleError, match="cycle 2: its market time lies before"):
        replay(cycles)


def test_a_cycle_behind_a_later_one_is_bad_input() -> None:
    cycles = large_cycles(3)
    with pytest.raises(ArchiveError, match="cycle 1: it comes behind cycle 1"):
        replay([*cycles[:2], cycles[1]])


def test_only_the_cycles_asked_for_are_compared() -> None:
    cycles = large_cycles(6)
    wrong = [with_head(cycle, reference_price_micro=10**17) for cycle in cycles]
    run = replay(wrong, within=range(2, 4))
    assert [difference.cycle for difference in run.found] == [2, 3]
    assert run.markets["a100"].first_cycle == 2


def test_a_gap_before_the_cycles_asked_for_counts_where_it_reaches_them() -> None:
    cycles = large_cycles(6)
    gap = [*cycles[:1], *cycles[2:]]
    assert replay(gap, within=range(4, 6)).replayed == 2
    with pytest.raises(BrokenCycleError, match="cycle 1: it is missing"):
        replay(gap, within=range(3, 6))
    later = replay(gap, within=range(3, 6), skip_gaps=True)
    assert (len(later.gaps), later.replayed, later.markets["a100"].before_key_frame) == (1, 2, 1)


def test_markets_are_replayed_each_for_itself() -> None:
    draw = Random(11)
    makers = [CycleMaker(name, rows_a_part=2) for name in ("a100", "h100")]
    cycles = [maker.cleared(draw_market(draw.randint)) for _ in range(4) for maker in makers]
    run = replay(cycles)
    assert {name: market.replayed for name, market in run.markets.items()} == {
        "a100": 4,
        "h100": 4,
    }
    assert run.found == []


def test_a_market_that_the_library_refuses_is_bad_input() -> None:
    cycle = CycleMaker().cleared(Market(0, (), ()))
    with pytest.raises(ArchiveError, match="market a100, cycle 0: "):
        replay([with_head(cycle, margin="by_lot")])


def test_a_cleared_cycle_without_a_frame_is_broken() -> None:
    cycle = CycleMaker().cleared(Market(0, (), ()))
    bare = replace(with_head(cycle, frame=FrameKind.NONE, frames=0), frames=())
    with pytest.raises(BrokenCycleError, match="cleared, with a frame of none"):
        replay([bare])


@pytest.mark.parametrize(
    "fields",
    [
        {"reference_price_micro": 0},
        *({"pool": {name: 1}} for name in ("price_micro", "price_below_micro")),
        *({"pool": {name: 1}} for name in ("purchased_macc", "allocated_macc")),
    ],
)
def test_a_cycle_that_is_not_cleared_has_no_results(fields: dict[str, Any]) -> None:
    cycle = CycleMaker().halted(Market(5, (Pool("p", 1),), ()))
    assert cycle.head is not None
    assert replay([cycle]).markets["a100"].not_cleared == 1
    if "pool" in fields:
        fields = {"pools": (cycle.head.pools[0].model_copy(update=fields["pool"]),)}
    with pytest.raises(BrokenCycleError, match="cycle 0: it is halted, yet has prices"):
        replay([with_head(cycle, **fields)])
