"""Frames hold the market that was cleared, as changes or whole, in parts of a bounded size."""

from typing import Any

import pytest

from walras_clearing import Job, Market, Pool, Team, clear
from walras_clearing_service.frames import KEY_FRAME_EVERY, PART_BYTES_MAX
from walras_contracts.accounts import Gate, MarketDocument
from walras_contracts.demand import JobQueued
from walras_contracts.market import CycleRecorded
from walras_runtime.records import tombstone


def kinds(world: Any, market: str) -> list[str]:
    return [record.frame.value for record in world.records(market)]


def advance(world: Any, steps: list[list[Any]], disturb: Any = None) -> Any:
    """Feed all steps to one process; ``disturb`` touches its stage before each."""
    runner = world.runner()
    for number, events in enumerate(steps):
        if disturb is not None:
            disturb(number, runner.stage)
        world.feed(*events)
        assert runner.advance() == 1
    return world


def market_of(head: CycleRecorded, jobs: Any, teams: Any) -> Market:
    """The auction of a cycle by its head and its folded frames alone."""
    queues: dict[str, list[Job]] = {name: [] for name in teams}
    for key, job in jobs.items():
        team, _, name = key.partition("/")
        queues[team].append(Job(name, job.size_macc, job.limit_micro))
    return Market(
        shared_supply_macc=head.shared_supply_macc,
        pools=tuple(Pool(p.pool, p.own_supply_macc, p.weight_micro_per_hour) for p in head.pools),
        teams=tuple(
            Team(name, team.pool, team.bid_micro_per_hour, tuple(queues[name]))
            for name, team in teams.items()
        ),
        reserve_price_micro=head.reserve_price_micro,
        idle_own_supply="lend" if head.idle_own_supply == "lend" else "keep",
        margin="strict_order" if head.margin == "strict_order" else "pro_rata",
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_cleared_cycle_can_be_cleared_again_from_its_head_and_frames(
    kit: Any, seed: int
) -> None:
    world = advance(kit.world(), kit.steps(seed, 70))
    checked = 0
    for market in kit.markets:
        heads = {record.cycle: record for record in world.records(market)}
        for cycle, (jobs, teams) in world.folded(market).items():
            head, result = heads[cycle], clear(market_of(heads[cycle], jobs, teams))
            assert head.reference_price_micro == result.reference_price_micro
            below = result.certificate.pool_prices_below_micro
            for pool in head.pools:
                mine = result.pools[pool.pool]
                assert pool.price_micro == mine.price_micro
                assert pool.price_below_micro == (None if below is None else below[pool.pool])
                assert pool.purchased_macc == mine.purchased_macc
                assert pool.allocated_macc == mine.allocated_macc
            for name, team in teams.items():
                mine_too = result.teams[name]
                assert team.allocated_macc == mine_too.allocated_macc
                assert team.opportunistic_macc == mine_too.opportunistic_macc
            checked += bool(jobs)
    assert checked > 60, seed


def test_the_first_and_every_sixtieth_frame_are_whole_and_the_others_hold_changes(kit: Any) -> None:
    world = kit.world()
    many = [kit.queued("team-0", f"j{n}", 1000, position=n, gang=False) for n in range(50)]
    account = world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1}))
    steps = [[account, kit.supply("a100", 9000), *many], *([[]] * 130)]
    steps[3] = [
        kit.queued("team-0", "new", 500, gang=False),
        tombstone(JobQueued, *["team-0/j7", "team-0"]),
    ]
    advance(world, steps)
    whole = [n for n, kind in enumerate(kinds(world, "a100")) if kind == "key"]
    assert whole == [0, KEY_FRAME_EVERY, 2 * KEY_FRAME_EVERY]
    third = next(frame for frame in world.frames("a100") if frame.cycle == 3)
    assert (third.job_keys, third.removed_jobs) == (("team-0/new",), ("team-0/j7",))
    quiet = next(frame for frame in world.frames("a100") if frame.cycle == 40)
    assert (quiet.job_keys, quiet.teams, quiet.parts) == ((), (), 1)


def test_a_team_without_a_job_left_is_removed_with_its_jobs(kit: Any) -> None:
    world = kit.world()
    world.feed(
        world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1, "team-1": 1})),
        kit.supply("a100", 90_000),
        *(kit.queued("team-0", f"j{n}", 1000, gang=False) for n in range(20)),
        kit.queued("team-1", "b", 2000),
    )
    world.feed(tombstone(JobQueued, "team-1/b", "team-1"))
    world.runner().advance()
    change = world.frames("a100")[1]
    assert (change.kind, change.cycle) == ("changes", 1)
    assert (change.removed_jobs, change.removed_teams) == (("team-1/b",), ("team-1",))


def test_changes_that_would_be_no_smaller_are_written_as_a_whole(kit: Any) -> None:
    world = kit.world()
    world.feed(
        world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1})),
        kit.supply("a100", 3000),
        kit.queued("team-0", "a", 4000, gang=False),
    )
    world.feed(tombstone(JobQueued, "team-0/a", "team-0"), kit.queued("team-0", "b", 1, gang=False))
    world.runner().advance()
    assert kinds(world, "a100") == ["key", "key"]


def test_a_market_without_jobs_is_written_as_a_whole_since_changes_are_no_smaller(
    kit: Any,
) -> None:
    world = advance(kit.world(), [[kit.supply("a100", 3000)], [], []])
    assert kinds(world, "a100") == ["key", "key", "key"]


def test_a_frame_of_very_many_rows_is_cut_into_parts_within_512_kib(kit: Any) -> None:
    world = kit.world()
    many, teams = 12_000, 300
    jobs = [
        kit.queued(
            f"a-very-long-name-of-a-team-{n % teams:04d}",
            f"a-very-long-name-of-a-job-{n:06d}",
            1000 + n,
            limit=None if n % 3 else n,
            gang=False,
        )
        for n in range(many)
    ]
    world.feed(kit.supply("a100", 20_000), *jobs)
    world.runner().advance()
    head = world.records("a100")[0]
    sizes = [
        len(entry.payload or b"")
        for entry in world.log.read("cycles.frames", 0, 0)
        if entry.barrier is None
    ]
    assert (head.frames, head.jobs, head.teams) == (len(sizes), many, teams)
    assert len(sizes) > 1
    assert max(sizes) <= PART_BYTES_MAX
    # All but the last are full: the bytes of a row are known, not guessed.
    assert min(sizes[:-1]) > PART_BYTES_MAX - 2048
    held, _ = world.folded("a100")[0]
    assert held == {job.record_key(): (job.size_macc, job.limit_micro) for job in jobs}


def test_a_market_that_was_not_cleared_begins_again_with_a_whole_frame(kit: Any) -> None:
    world = kit.world()
    shut = world.document(MarketDocument(market="a100", gate=Gate.OFF))
    opened = world.document(MarketDocument(market="a100"), kit.time_of(4))
    many = [kit.queued("team-0", f"j{n}", 1000, gang=False) for n in range(30)]
    steps = [
        [world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1})), kit.supply("a100", 5000)],
        many,
        [],
        [shut],
        [opened],
        [],
    ]
    advance(world, steps)
    assert kinds(world, "a100") == ["key", "key", "changes", "none", "key", "changes"]
    assert sorted(world.folded("a100")) == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("seed", [1, 2])
def test_books_that_are_dropped_now_and_then_change_no_byte(kit: Any, seed: int) -> None:
    steps = kit.steps(seed, 40)
    calm = advance(kit.world(), steps)
    dropped = advance(
        kit.world(), steps, lambda n, stage: stage.markets.books.drop_all() if n % 3 == 0 else None
    )
    assert dropped.bytes_out() == calm.bytes_out()


def test_a_book_that_drifted_from_the_columns_halts_its_market_and_is_built_anew(kit: Any) -> None:
    def drift(number: int, stage: Any) -> None:
        if number == 2:
            book = stage.markets.books._held["a100"].book
            book.upsert_job(999, 0, 1000, None)

    world = kit.world()
    steps = [
        [
            world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1})),
            kit.supply("a100", 5000),
            kit.queued("team-0", "a", 2000, gang=False),
        ],
        *([[]] * 4),
    ]
    advance(world, steps, drift)
    states = [record.state.value for record in world.records("a100")]
    assert states == ["cleared", "cleared", "halted", "cleared", "cleared"]
    assert world.records("a100")[2].reason.startswith("verify_failed")
    assert kinds(world, "a100")[2:] == ["none", "key", "changes"]
    allocated = [pool.allocated_macc for r in world.records("a100") for pool in r.pools]
    assert allocated == [2000, 2000, 0, 2000, 2000]
