"""How markets stand next to each other: gates, halts, skips, lateness, frames (design §3)."""

from dataclasses import replace
from typing import Any

import pytest

from walras_clearing_service.books import Solver
from walras_clearing_service.core import ClearingStage, Options
from walras_clearing_service.frames import KEY_FRAME_EVERY
from walras_clearing_service.job_table import ACTIVE, REFUSED
from walras_clearing_service.reports import SUMMARY_BYTES_MAX
from walras_contracts.accounts import Gate, MarketDocument
from walras_contracts.demand import JobQueued
from walras_contracts.market import MarketState
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import JobState, JobStatusChanged
from walras_runtime.errors import StepFailedError
from walras_runtime.records import Barrier, Output, Record, Step, tombstone

REPLAY = Options(cycle_every=1, settlement_lag_steps=2, live=False)
LIVE = Options(cycle_every=1, settlement_lag_steps=2, live=True)


def two_markets(kit: Any) -> list[Any]:
    """Two teams of one pool with jobs in two markets that both have a price."""
    world = kit.world()
    return [
        world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1, "team-1": 3})),
        kit.supply("a100", 3000, {"pool-0": 1000}),
        kit.supply("h100", 2000),
        kit.queued("team-0", "a", 4000, gang=False),
        kit.queued("team-1", "b", 4000, gang=False),
        kit.queued("team-0", "c", 2000, types=("h100",), position=1, gang=False),
        kit.queued("team-1", "d", 2000, types=("h100",), position=1, gang=False),
    ]


def record(event: Any) -> Record:
    key, topic = event.record_key(), event.TOPIC
    return Record(topic, 0, 0, key, event.TYPE, event.payload(), event)


def stage_with(events: list[Any], options: Options, solver: Solver) -> ClearingStage:
    stage = ClearingStage(options, solver)
    for event in events:
        stage.fold(record(event))
    return stage


def payload_of(output: Output) -> bytes:
    assert output.payload is not None
    return output.payload


def step_at(kit: Any, number: int, **changes: Any) -> Step:
    return replace(Step(Barrier(number, kit.time_of(number)), {}), **changes)


def test_a_failed_check_halts_its_market_while_the_other_clears(kit: Any) -> None:
    world = kit.world(solver=kit.failing(2000))
    world.feed(*two_markets(kit))
    world.runner().advance()
    halted, cleared = world.records("h100")[0], world.records("a100")[0]
    assert halted.state is MarketState.HALTED
    assert halted.reason.startswith("verify_failed")
    assert halted.reference_price_micro is None
    assert (halted.frame, halted.frames, halted.jobs, halted.teams) == ("none", 0, 0, 0)
    assert [(p.price_micro, p.allocated_macc) for p in halted.pools] == [(None, 0)]
    assert cleared.state is MarketState.CLEARED
    assert world.prices("h100") == []
    assert len(world.prices("a100")) == 1
    assert [m.market for m in world.quotas("team-0")[0].markets] == ["a100"]


@pytest.mark.parametrize("cleared_before", [0, 1])
def test_what_leaves_a_market_between_two_halts_is_gone_when_it_clears_again(
    kit: Any, cleared_before: int
) -> None:
    world = kit.world(solver=kit.failing(7000))
    runner = world.runner()
    account = world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1}))
    jobs = [kit.queued("team-0", name, 1000, gang=False) for name in ("a", "b", "c")]
    world.feed(account, kit.supply("a100", 5000 if cleared_before else 7000), *jobs)
    world.feed(kit.supply("a100", 7000), tombstone(JobQueued, "team-0/b", "team-0"))
    world.feed()
    world.feed(
        kit.supply("a100", 9000),
        tombstone(JobQueued, "team-0/c", "team-0"),
        kit.queued("team-1", "d", 2000, gang=False),
    )
    runner.advance()
    states = [r.state.value for r in world.records("a100")]
    assert states == ["cleared" if cleared_before else "halted", "halted", "halted", "cleared"]
    jobs_left, _ = world.folded("a100")[3]
    assert sorted(jobs_left) == ["team-0/a", "team-1/d"]


def test_the_last_quota_stands_while_a_market_is_halted(kit: Any) -> None:
    world = kit.world()
    world.feed(*two_markets(kit))
    world.runner().advance()
    before = {m.market: m for m in world.quotas("team-0")[-1].markets}
    world.solver = kit.failing(2000)
    world.feed(kit.queued("team-0", "e", 9000, position=2, gang=False))
    world.runner().advance()
    after = {m.market: m for m in world.quotas("team-0")[-1].markets}
    assert world.records("h100")[-1].state is MarketState.HALTED
    assert before["h100"].allocated_macc > 0
    assert after["h100"] == before["h100"]


def test_a_halted_market_that_lost_supply_scales_its_last_quotas_down(kit: Any) -> None:
    world = kit.world()
    world.feed(*two_markets(kit))
    world.runner().advance()
    world.solver = kit.failing(1000)
    world.feed(kit.supply("h100", 1000))
    world.runner().advance()
    assert world.records("h100")[-1].state is MarketState.HALTED
    last = [world.quotas(team)[-1] for team in ("team-0", "team-1")]
    held = [m.allocated_macc for quota in last for m in quota.markets if m.market == "h100"]
    assert 998 <= sum(held) <= 1000


@pytest.mark.parametrize("failures", [2, 3])
def test_three_failures_on_one_barrier_halt_a_market(kit: Any, failures: int) -> None:
    stage = stage_with(two_markets(kit), REPLAY, kit.solver)
    result = stage.step(step_at(kit, 0, failures={"h100": failures}))
    types = [(o.topic, o.key) for o in result.outputs]
    assert ("prices", "a100") in types
    assert (("prices", "h100") in types) == (failures < 3)


def test_an_exception_in_one_market_names_that_market(kit: Any) -> None:
    def breaks(market: Any, result: Any) -> Any:
        if market.shared_supply_macc == 2000:
            raise ZeroDivisionError("broken")
        return kit.solver.verify(market, result)

    solver = Solver(kit.solver.open_book, breaks)
    stage = stage_with(two_markets(kit), REPLAY, solver)
    with pytest.raises(StepFailedError) as caught:
        stage.step(step_at(kit, 0))
    assert caught.value.subject == "h100"
    again = stage_with(two_markets(kit), REPLAY, solver)
    result = again.step(step_at(kit, 0, failures={"h100": 3}))
    assert [o.key for o in result.outputs if o.topic == "prices"] == ["a100"]


def test_after_an_exception_the_books_are_built_anew(kit: Any) -> None:
    broken: list[str] = []

    def breaks(market: Any, result: Any) -> Any:
        if broken and market.shared_supply_macc == 2000:
            raise ZeroDivisionError("broken")
        return kit.solver.verify(market, result)

    events, more = two_markets(kit), [kit.queued("team-0", "e", 500, position=2, gang=False)]
    calm = stage_with(events, REPLAY, kit.solver)
    stage = stage_with(events, REPLAY, Solver(kit.solver.open_book, breaks))
    assert stage.step(step_at(kit, 0)) == calm.step(step_at(kit, 0))
    for event in more:
        stage.fold(record(event))
        calm.fold(record(event))
    broken.append("now")
    with pytest.raises(StepFailedError):
        stage.step(step_at(kit, 1))
    broken.clear()
    assert stage.step(step_at(kit, 1)) == calm.step(step_at(kit, 1))
    assert stage.step(step_at(kit, 2)) == calm.step(step_at(kit, 2))


@pytest.mark.parametrize(("weight", "said"), [(100_000, True), (10**10, False)])
def test_a_cycle_says_that_its_prices_are_too_coarse(kit: Any, weight: int, said: bool) -> None:
    """A team's 200,000 µcr/h for a thousand accelerators are 200 ticks each."""
    world = kit.world()
    account = world.document(kit.pool("pool-0", weight, {"team-0": 1}))
    jobs = [kit.queued("team-0", f"j{n}", 100_000, position=n, gang=False) for n in range(20)]
    world.feed(account, kit.supply("a100", 1_000_000), *jobs)
    world.runner().advance()
    head = world.records("a100")[-1]
    assert head.state is MarketState.CLEARED
    assert (head.reference_price_micro or 0) > 0
    assert (head.reason == "coarse_prices: 1 of 1 below 1000 ticks, the first in pool-0") == said
    assert (head.reason == "") == (not said)


def test_what_a_skipped_sixtieth_cycle_owed_is_told_in_the_next_one(kit: Any) -> None:
    """A live leader that is overtaken just there owes a key frame, and every team its quota."""
    stage = stage_with(two_markets(kit), LIVE, kit.solver)
    frames, told = [], []
    for cycle in range(KEY_FRAME_EVERY + 3):
        newest = cycle + LIVE.cycle_every if cycle == KEY_FRAME_EVERY else cycle
        result = stage.step(step_at(kit, cycle, newest_ready=newest))
        heads = [o.payload or b"" for o in result.outputs if o.topic == "cycles"]
        frames.append(heads[0].partition(b'"frame":"')[2].partition(b'"')[0].decode())
        told.append(sum(o.topic == "quotas" for o in result.outputs))
    assert frames[-4:] == ["changes", "none", "key", "changes"]
    assert [bool(count) for count in told[-4:]] == [False, False, True, False]


@pytest.mark.parametrize("options", [LIVE, REPLAY], ids=["live", "replay"])
def test_only_a_live_cycle_is_skipped_when_newer_input_is_ready(kit: Any, options: Options) -> None:
    stage = stage_with(two_markets(kit), options, kit.solver)
    result = stage.step(step_at(kit, 0, newest_ready=options.cycle_every))
    topics = {o.topic for o in result.outputs}
    assert topics == (
        {"cycles"} if options.live else {"cycles", "cycles.frames", "prices", "quotas"}
    )
    assert (b'"state":"skipped"' in payload_of(result.outputs[0])) == options.live
    following = stage.step(step_at(kit, 1))
    assert {o.topic for o in following.outputs} >= {"cycles", "prices"}


def test_a_newer_barrier_without_a_newer_cycle_skips_nothing(kit: Any) -> None:
    options = Options(cycle_every=6, settlement_lag_steps=12, live=True)
    stage = stage_with(two_markets(kit), options, kit.solver)
    result = stage.step(step_at(kit, 0, newest_ready=5))
    assert {o.topic for o in result.outputs} == {"cycles", "cycles.frames", "prices", "quotas"}


def test_late_inputs_are_named_in_the_cycle_record(kit: Any) -> None:
    stage = stage_with(two_markets(kit), LIVE, kit.solver)
    result = stage.step(step_at(kit, 0, late=("queue/2@-1",)))
    payloads = [payload_of(o) for o in result.outputs if o.topic == "cycles"]
    assert b'"late_inputs":["queue/2@-1"]' in payloads[0]


@pytest.mark.parametrize("gate", [Gate.OFF, Gate.SHADOW])
def test_a_market_that_is_not_on_gets_no_bids(kit: Any, gate: Gate) -> None:
    world = kit.world()
    document = world.document(MarketDocument(market="h100", gate=gate))
    world.feed(*two_markets(kit), document)
    world.runner().advance()
    off = world.records("h100")[0]
    assert (off.state, off.reason, off.teams) == (MarketState.OFF, f"gate_{gate}", 0)
    assert world.prices("h100") == []
    assert [m.market for m in world.quotas("team-0")[0].markets] == ["a100"]
    _, teams = world.folded("a100")[0]
    assert teams["team-0"].bid_micro_per_hour == 2_500_000


def test_cycles_are_cleared_at_every_sixth_barrier_only(kit: Any) -> None:
    world = kit.world(6)
    world.feed(*two_markets(kit))
    for _ in range(12):
        world.feed()
    world.runner().advance()
    assert [(r.cycle, r.barrier) for r in world.records("a100")] == [(0, 0), (1, 6), (2, 12)]


def test_quotas_are_told_on_change_and_to_everybody_every_sixtieth_cycle(kit: Any) -> None:
    world = kit.world()
    idle = world.document(kit.pool("pool-9", 1_000_000, {"team-9": 1}))
    world.feed(*two_markets(kit), idle)
    for _ in range(120):
        world.feed()
    world.runner().advance()
    assert [q.cycle for q in world.quotas("team-9")] == [0, 60, 120]
    told = [q.cycle for q in world.quotas("team-0")]
    assert {0, 60, 120} <= set(told)
    assert len(told) < 10


def test_a_team_whose_jobs_ended_is_told_that_it_has_nothing(kit: Any) -> None:
    world = kit.world()
    world.feed(*two_markets(kit))
    world.feed(
        tombstone(JobQueued, "team-0/a", "team-0"), tombstone(JobQueued, "team-0/c", "team-0")
    )
    world.feed()
    world.runner().advance()
    assert [(q.cycle, len(q.markets)) for q in world.quotas("team-0")] == [(0, 2), (1, 0)]


def test_an_assignment_is_forgotten_when_its_job_leaves(kit: Any) -> None:
    world = kit.world()
    runner = world.runner()
    world.feed(
        *two_markets(kit),
        kit.queued("team-0", "m", 1000, types=("a100", "h100"), position=5),
        kit.status("team-0", "m", JobState.RUNNING, market="h100"),
    )
    world.feed()
    runner.advance()
    assert runner.stage.state.jobs.assignments() == {"team-0/m": "h100"}
    world.feed(
        tombstone(JobQueued, "team-0/m", "team-0"),
        tombstone(JobStatusChanged, "team-0/m", "team-0"),
    )
    runner.advance()
    assert runner.stage.state.jobs.assignments() == {}
    assert world.runner().stage.state.jobs.assignments() == {}


def test_a_document_counts_from_its_effective_time(kit: Any) -> None:
    world = kit.world()
    first = two_markets(kit)
    later = world.document(
        kit.pool("pool-0", 10_000_000, {"team-0": 1, "team-1": 3}), kit.time_of(0)
    )
    raised = world.document(
        kit.pool("pool-0", 40_000_000, {"team-0": 1, "team-1": 3}), kit.time_of(2)
    )
    world.feed(*first, later, raised)
    world.feed()
    world.feed()
    world.runner().advance()
    weights = [p.pools[0].weight_micro_per_hour for p in world.prices("a100")]
    assert weights == [10_000_000, 10_000_000, 40_000_000]


def test_balances_are_used_two_cycles_after_their_barrier(kit: Any) -> None:
    world = kit.world()
    world.feed(*two_markets(kit))
    world.feed(kit.balance("team-0", -10_000_000), kit.budget("team-1", exhausted=True))
    for _ in range(3):
        world.feed()
    world.runner().advance()
    records = world.records("a100")
    assert [r.settlement_barrier for r in records] == [-1, -1, -1, 1, 1]
    folded = world.folded("a100")
    bids = [
        {name: team.bid_micro_per_hour > 0 for name, team in folded[n][1].items()} for n in folded
    ]
    assert bids[2] == {"team-0": True, "team-1": True}
    assert bids[3] == {"team-0": False, "team-1": False}


def test_leftovers_reach_opportunistic_jobs_and_unfunded_teams(kit: Any) -> None:
    world = kit.world()
    world.feed(
        world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1, "team-1": 0})),
        kit.supply("a100", 10_000),
        kit.queued("team-0", "free", 2000, limit=0),
        kit.queued("team-0", "paid", 3000, position=1),
        kit.queued("team-1", "poor", 1000),
        kit.queued("nobody", "stray", 1000),
    )
    world.runner().advance()
    _, teams = world.folded("a100")[0]
    got = {name: (team.allocated_macc, team.opportunistic_macc) for name, team in teams.items()}
    assert got == {"team-0": (3000, 2000), "team-1": (0, 1000), "nobody": (0, 1000)}


def test_a_market_that_is_no_longer_supplied_is_forgotten(kit: Any) -> None:
    world = kit.world()
    runner = world.runner()
    world.feed(*two_markets(kit))
    world.feed(tombstone(type(kit.supply("h100", 1)), "h100", "h100"))
    runner.advance()
    assert sorted(runner.stage.state.last) == ["a100"]
    assert [m.market for m in world.quotas("team-0")[-1].markets] == ["a100"]


def test_a_summary_of_very_many_pools_stays_within_fifty_kilobytes(kit: Any) -> None:
    world = kit.world()
    pools = [
        world.document(kit.pool(f"a-very-long-name-of-a-business-unit-{n:04d}", 10**15, {}))
        for n in range(400)
    ]
    world.feed(*two_markets(kit), *pools)
    world.runner().advance()
    summary = world.summaries("a100")[0]
    assert len(summary.payload()) <= SUMMARY_BYTES_MAX
    assert 100 < len(summary.pool_prices) < 401
    names = [p.pool for p in world.prices("a100")[0].pools]
    assert [p.pool for p in summary.pool_prices] == names[: len(summary.pool_prices)]


@pytest.mark.parametrize("reason", WaitReason)
def test_a_job_has_no_place_where_placement_names_a_lack_that_only_supply_can_end(
    kit: Any, reason: WaitReason
) -> None:
    status = kit.status("team-0", "a", JobState.PENDING, reason=reason.value)
    stage = stage_with([*two_markets(kit), status], REPLAY, kit.solver)
    stage.state.freeze(0, 0, kit.time_of(0), ())
    jobs = stage.state.jobs
    refused = {key: bool(jobs.flags[row] & REFUSED) for row, key in enumerate(jobs.keys)}
    assert refused.pop("team-0/a") == (reason in {"no_such_type", "exceeds_supply"})
    assert not any(refused.values())


@pytest.mark.parametrize("reason", WaitReason)
def test_a_job_that_placement_sets_aside_is_no_demand_until_another_reason_is_named(
    kit: Any, reason: WaitReason
) -> None:
    told = [
        kit.status("team-0", "a", JobState.PENDING, reason=name)
        for name in (reason.value, "waiting_for_quota")
    ]
    for given, is_demand in ((told[:1], reason not in {"parked", "held_back"}), (told, True)):
        stage = stage_with([*two_markets(kit), *given], REPLAY, kit.solver)
        stage.state.freeze(0, 0, kit.time_of(0), ())
        jobs = stage.state.jobs
        active = {key: bool(jobs.flags[row] & ACTIVE) for row, key in enumerate(jobs.keys)}
        assert active.pop("team-0/a") == is_demand
        assert all(active.values())


def test_a_job_is_demand_by_the_whole_devices_that_placement_says_it_needs_or_holds(
    kit: Any,
) -> None:
    world = kit.world()
    runner = world.runner()
    world.feed(
        world.document(kit.pool("pool-0", 10_000_000, {"team-0": 1, "team-1": 1})),
        kit.supply("a100", 10_000),
        kit.queued("team-0", "small", 1),
        kit.queued("team-1", "whole", 2000),
    )
    waits = {"reason": WaitReason.WAITING_FOR_QUOTA.value, "needed": 1000}
    world.feed(kit.status("team-0", "small", JobState.PENDING, **waits))
    world.feed(
        kit.status("team-0", "small", JobState.RUNNING, market="a100", started_ms=1, needed=1000)
    )
    world.barrier()
    runner.advance()
    # A status is seen one step later.
    held = world.folded("a100").values()
    got = [{name: team.allocated_macc for name, team in teams.items()} for _, teams in held]
    small = [each["team-0"] for each in got]
    assert small == [1, 1, 1000, 1000]
    assert all(each["team-1"] == 2000 for each in got)


def test_the_digest_changes_with_any_input_and_only_then(kit: Any) -> None:
    def digest(*more: Any) -> str:
        stage = stage_with([*two_markets(kit), *more], REPLAY, kit.solver)
        return stage.state.freeze(0, 0, kit.time_of(0), ()).digest

    variants = [
        digest(),
        digest(kit.queued("team-0", "a", 4001, gang=False)),
        digest(kit.balance("team-0", 7)),
        digest(kit.budget("team-0", exhausted=True)),
        digest(kit.supply("h100", 2001)),
        digest(kit.status("team-0", "a", JobState.RUNNING, market="a100")),
    ]
    assert len(set(variants)) == len(variants)
    assert digest() == variants[0]
