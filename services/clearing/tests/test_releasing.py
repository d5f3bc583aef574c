"""Rounding ``release``: whose demand is cut, to what, and what is recorded of it (decision 20)."""

import random
from collections import Counter
from typing import Any

import pytest

from services.clearing.tests.stuck import StuckStream, head, measured
from services.clearing.tests.twin import Twin
from walras_clearing_service import releasing
from walras_contracts.accounts import MarketDocument, Rounding
from walras_contracts.market import CycleRecorded, ReleaseExtent
from walras_contracts.work import JobState, WorkClass
from walras_runtime.records import Barrier, Step

WHOLE, RUNNING = ReleaseExtent.WHOLE_JOBS, ReleaseExtent.RUNNING


@pytest.mark.parametrize("seed", range(10))
def test_a_stream_of_stuck_heads_is_decided_as_the_specification_says(kit: Any, seed: int) -> None:
    stream, twin = StuckStream(kit, seed), Twin(kit)
    seen: Counter[str] = Counter()
    for _ in range(60):
        twin.fold(*stream.events())
        twin.step()
        stream.world.step += 1
        for market, released in twin.released.items():
            seen.update(each.extent for each in released)
            assert not (released and market == kit.markets[2]), "that one does not release"
            of_pool = Counter(each.pool for each in released)
            assert max(of_pool.values(), default=0) <= 3
            assert len({each.team for each in released}) == len(released)
    assert min(seen[WHOLE], seen[RUNNING]) > 3, (seed, dict(seen))


def test_the_comparison_sees_a_cut_that_is_not_made(kit: Any, monkeypatch: Any) -> None:
    """Canary: a stage that does not release decides otherwise than the specification."""
    monkeypatch.setattr(releasing.Releasing, "next_cut", lambda *_: None)
    stream, twin = StuckStream(kit, 1), Twin(kit)

    def compare() -> None:
        for _ in range(60):
            twin.fold(*stream.events())
            twin.step()
            stream.world.step += 1

    with pytest.raises(AssertionError):
        compare()


class Bench:
    """One market with ten devices and some teams of one pool, all with one income."""

    def __init__(self, kit: Any, rounding: Rounding = Rounding.RELEASE, teams: int = 2) -> None:
        self.kit, self.twin, self.world = kit, Twin(kit), kit.world()
        incomes = {f"t{number}": 1 for number in range(teams)}
        self.twin.fold(
            self.world.document(kit.pool("pool-0", 10**9 * teams, incomes, 1_000_000)),
            self.world.document(MarketDocument(market="a100", rounding=rounding)),
            kit.supply("a100", 10_000),
        )

    def queue(self, team: str, job: str, size: int, **fields: Any) -> Any:
        queued = self.kit.queued(team, job, size * 1000, **fields)
        self.twin.fold(queued)
        return queued

    def stuck(self, *heads: Any) -> None:
        self.twin.fold(measured("a100", heads, self.kit.time_of(0)))

    def quotas(self) -> dict[str, tuple[int, int]]:
        """Clear; return what each team bought, and what it has for nothing, in devices."""
        self.twin.step()
        told = self.twin.stage.state.quotas
        found = {team: told[team].markets[0] for team in sorted(told) if told[team].markets}
        return {
            team: (entry.allocated_macc // 1000, entry.opportunistic_macc // 1000)
            for team, entry in found.items()
        }

    def price(self) -> int:
        """The reference price of the last cycle."""
        price = self.twin.stage.state.last["a100"].reference_price_micro
        assert price is not None
        return price

    def released(self) -> list[tuple[str, int, int, int]]:
        return [
            (
                f"{r.team}/{r.job}",
                r.needed_macc // 1000,
                r.quota_macc // 1000,
                r.kept_macc // 1000,
            )
            for r in self.twin.released["a100"]
        ]


def crowd(bench: Bench, team: str = "t1", jobs: int = 30) -> None:
    for number in range(jobs):
        bench.queue(team, f"c{number}", 1, position=number)


def test_quota_that_makes_no_whole_job_goes_to_others(kit: Any) -> None:
    bench = Bench(kit)
    crowd(bench)
    gang = bench.queue("t0", "gang", 8)
    bench.queue("t0", "small", 3, position=1)
    assert bench.quotas() == {"t0": (5, 0), "t1": (5, 0)}
    bench.stuck(head(gang, 10, kit.time_of(0)))
    assert bench.quotas() == {"t0": (3, 0), "t1": (7, 0)}
    assert bench.released() == [("t0/gang", 8, 5, 3)]


def test_what_was_released_is_cheaper_for_the_others(kit: Any) -> None:
    bench = Bench(kit)
    crowd(bench)
    gang = bench.queue("t0", "gang", 8)
    bench.quotas()
    before = bench.price()
    bench.stuck(head(gang, 10, kit.time_of(0)))
    bench.quotas()
    assert 0.49 < bench.price() / before < 0.51, "all that is left is bought by one of the two"


def test_the_head_is_demand_again_in_every_cycle_and_kept_where_it_fits(kit: Any) -> None:
    bench = Bench(kit)
    crowd(bench, jobs=30)
    gang = bench.queue("t0", "gang", 5)
    other = bench.queue("t0", "other", 6, position=1)
    bench.stuck(head(gang, 100, kit.time_of(0)))
    assert bench.quotas()["t0"] == (5, 0)
    assert bench.released() == []
    bench.stuck(head(other, 100, kit.time_of(0)))
    bench.quotas()
    # Five devices make a whole job, so nothing is unspendable though the other one waits.
    assert bench.released() == []


@pytest.mark.parametrize("rounding", [Rounding.BACKFILL, Rounding.RESERVE])
def test_other_markets_release_nothing(kit: Any, rounding: Rounding) -> None:
    bench = Bench(kit, rounding)
    crowd(bench)
    gang = bench.queue("t0", "gang", 8)
    bench.stuck(head(gang, 50, kit.time_of(0)))
    assert bench.quotas() == {"t0": (5, 0), "t1": (5, 0)}
    assert bench.released() == []


def test_a_head_that_was_stuck_for_less_than_ten_cycles_changes_nothing(kit: Any) -> None:
    bench = Bench(kit)
    crowd(bench)
    gang = bench.queue("t0", "gang", 8)
    bench.stuck(head(gang, 9, kit.time_of(0), has_turn=True))
    assert bench.quotas() == {"t0": (5, 0), "t1": (5, 0)}


def test_the_youngest_heads_are_cut_first_and_at_most_three_teams_of_a_pool(kit: Any) -> None:
    bench = Bench(kit, teams=5)
    ages = {"t0": 30, "t1": 14, "t2": 20, "t3": 11, "t4": 17}
    heads = []
    for team, age in ages.items():
        gang = bench.queue(team, "gang", 9)
        bench.queue(team, "small", 1, position=1)
        heads.append(head(gang, age, kit.time_of(0)))
    bench.stuck(*heads)
    bought = bench.quotas()
    # Two devices each make one small job and one that is not spent; three teams give that up.
    assert [name for name, *_ in bench.released()] == ["t3/gang", "t1/gang", "t4/gang"]
    assert {team: macc for team, (macc, _) in bought.items()} == {
        "t1": 1,
        "t3": 1,
        "t4": 1,
        "t0": 3,
        "t2": 3,
    }


def test_an_older_head_that_fits_after_younger_ones_were_cut_is_not_cut(kit: Any) -> None:
    bench = Bench(kit, teams=2)
    young, old = bench.queue("t0", "gang", 8), bench.queue("t1", "gang", 8)
    bench.stuck(head(young, 10, kit.time_of(0)), head(old, 40, kit.time_of(0)))
    assert bench.quotas()["t1"] == (8, 0)
    assert bench.released() == [("t0/gang", 8, 5, 0)]


def test_in_the_turn_of_a_head_nothing_overtakes_it(kit: Any) -> None:
    bench = Bench(kit)
    crowd(bench)
    gang = bench.queue("t0", "gang", 5)
    bench.queue("t0", "small", 1, position=1)
    bench.queue("t0", "runs", 1, position=2)
    runs = kit.status("t0", "runs", JobState.RUNNING, market="a100", started_ms=kit.time_of(0))
    bench.twin.fold(runs)
    bench.stuck(head(gang, 40, kit.time_of(0)))
    assert bench.quotas()["t0"] == (2, 0), "what runs and what fits"
    assert [r.extent for r in bench.twin.released["a100"]] == [WHOLE]
    bench.stuck(head(gang, 40, kit.time_of(0), has_turn=True))
    assert bench.quotas()["t0"] == (1, 0), "what runs"
    assert [r.extent for r in bench.twin.released["a100"]] == [RUNNING]
    bench.twin.fold(kit.status("t0", "runs", JobState.FINISHED))
    assert bench.quotas()["t0"] == (5, 0), "the head has all the quota that it needs"
    assert bench.released() == []


@pytest.mark.parametrize("gives_way", ["draining", "for nothing", "overtook"])
def test_what_overtook_a_head_or_leaves_has_no_quota_in_its_turn_until_it_is_gone(
    kit: Any, gives_way: str
) -> None:
    bench = Bench(kit)
    crowd(bench)
    gang = bench.queue("t0", "gang", 5)
    bench.queue("t0", "runs", 1, position=2)
    state = JobState.DRAINING if gives_way == "draining" else JobState.RUNNING
    since = kit.time_of(1 if gives_way == "overtook" else 0)
    runs = kit.status("t0", "runs", state, market="a100", started_ms=since)
    if gives_way == "for nothing":
        runs = runs.model_copy(update={"work_class": WorkClass.OPPORTUNISTIC})
    bench.twin.fold(runs)
    bench.stuck(head(gang, 40, kit.time_of(0)))
    assert bench.quotas()["t0"] == (1, 0)
    bench.stuck(head(gang, 40, kit.time_of(0), has_turn=True))
    assert bench.quotas()["t0"] == (0, 0)
    bench.twin.fold(kit.status("t0", "runs", JobState.PENDING))
    assert bench.quotas()["t0"] == (5, 0)
    assert bench.released() == []


def test_in_the_turn_of_a_head_its_team_has_nothing_of_what_nobody_buys(kit: Any) -> None:
    bench = Bench(kit)
    bench.queue("t1", "gang", 5)
    gang = bench.queue("t0", "gang", 8)
    for number in range(5):
        bench.queue("t0", f"s{number}", 1, position=1 + number)
    runs = kit.status("t0", "s0", JobState.RUNNING, market="a100", started_ms=kit.time_of(0))
    bench.twin.fold(runs)
    bench.stuck(head(gang, 40, kit.time_of(0), has_turn=True))
    # Four of ten are idle: on them small jobs would start, and take the quota that comes later.
    assert bench.quotas() == {"t0": (1, 0), "t1": (5, 0)}


def test_a_team_that_buys_nothing_goes_on_with_what_nobody_buys(kit: Any) -> None:
    bench = Bench(kit)
    bench.queue("t1", "gang", 5)
    gang = bench.queue("t0", "gang", 8)
    bench.queue("t0", "small", 1, position=1)
    bench.twin.fold(kit.budget("t0", exhausted=True))
    bench.stuck(head(gang, 40, kit.time_of(0), has_turn=True))
    assert bench.quotas() == {"t0": (0, 5), "t1": (5, 0)}
    assert bench.released() == []


def test_turns_keep_their_places_among_the_three(kit: Any) -> None:
    bench = Bench(kit, teams=6)
    heads = []
    for number in range(6):
        gang = bench.queue(f"t{number}", "gang", 9)
        bench.queue(f"t{number}", "small", 1, position=1)
        turn = number in (4, 5)
        heads.append(head(gang, 30 + number, kit.time_of(0), has_turn=turn))
    bench.stuck(*heads)
    bench.quotas()
    assert [name for name, *_ in bench.released()] == ["t0/gang", "t4/gang", "t5/gang"]


def test_what_is_set_aside_may_have_what_nobody_buys(kit: Any) -> None:
    bench = Bench(kit)
    bench.queue("t1", "gang", 5)
    young = bench.queue("t0", "gang", 6)
    for number in range(3):
        bench.queue("t0", f"s{number}", 1, position=1 + number)
    bench.queue("t0", "large", 4, position=9)
    bench.stuck(head(young, 12, kit.time_of(0)))
    assert bench.quotas() == {"t0": (3, 2), "t1": (5, 0)}, "two of ten would be idle"
    assert bench.price() == 0


def test_cycles_without_stuck_heads_clear_once(kit: Any) -> None:
    cleared = []

    class Counting:
        def __init__(self, pools: int) -> None:
            self._book = kit.solver.open_book(pools)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._book, name)

        def clear(self) -> Any:
            cleared.append(1)
            return self._book.clear()

    counting = type(kit.solver)(open_book=Counting, verify=kit.solver.verify)
    bench = Bench(kit)
    bench.twin.stage.markets.books._solver = counting
    crowd(bench)
    gang = bench.queue("t0", "gang", 8)
    bench.quotas()
    assert len(cleared) == 1
    bench.stuck(head(gang, 12, kit.time_of(0)))
    bench.quotas()
    assert len(cleared) == 3


def test_a_refused_result_on_the_way_halts_the_market(kit: Any) -> None:
    bench = Bench(kit)
    crowd(bench)
    gang = bench.queue("t0", "gang", 8)
    verified = []

    def verify(market: Any, result: Any) -> Any:
        verified.append(market)
        return ("wrong",) if len(verified) == 2 else kit.solver.verify(market, result)

    stage = bench.twin.stage
    stage.markets.solver = type(kit.solver)(kit.solver.open_book, verify)
    bench.stuck(head(gang, 12, kit.time_of(0)))
    stage.step(Step(Barrier(0, kit.time_of(0)), {}))
    assert len(verified) == 2
    assert "a100" not in stage.state.last


def run(kit: Any, seed: int, steps: int, crash: Any = None, cycle_every: int = 1) -> Any:
    world = kit.world(cycle_every)
    stream, runner = StuckStream(kit, seed, world=world), world.runner()
    steps *= cycle_every
    for number in range(steps):
        world.feed(*stream.events())
        assert runner.advance() == 1
        if crash is not None and crash(number):
            world.log.compact("state.clearing")
            runner = world.runner()
    return world


@pytest.mark.parametrize(("seed", "cycle_every"), [(1, 1), (2, 1), (3, 1), (2, 3)])
def test_a_process_that_dies_on_a_compacted_state_releases_the_same(
    kit: Any, seed: int, cycle_every: int
) -> None:
    draw = random.Random(seed)
    calm = run(kit, seed, 40, cycle_every=cycle_every)
    every = run(kit, seed, 40, lambda _: True, cycle_every)
    some = run(kit, seed, 40, lambda _: draw.random() < 0.3, cycle_every)
    assert calm.decided() == every.decided() == some.decided(), seed
    records = [record for market in kit.markets for record in calm.records(market)]
    assert sum(len(record.released) for record in records) > 3, seed


@pytest.mark.parametrize("seed", [1, 2])
def test_the_record_and_its_frames_hold_the_market_that_was_cleared_last(
    kit: Any, seed: int
) -> None:
    world = run(kit, seed, 40)
    seen = 0
    for market in kit.markets[:2]:
        folded = world.folded(market)
        for record in world.records(market):
            assert record.rounding is Rounding.RELEASE
            for each in record.released:
                jobs, teams = folded[record.cycle]
                mine = {k: job for k, job in jobs.items() if k.startswith(f"{each.team}/")}
                left = sum(job.size_macc for job in mine.values() if job.limit_micro != 0)
                first = mine.get(f"{each.team}/{each.job}")
                assert (first is None) == (each.extent is RUNNING)
                assert first is None or first.limit_micro == 0
                assert left == each.kept_macc
                assert teams[each.team].allocated_macc <= left
                seen += 1
    assert seen > 5, seed
    assert all(isinstance(record, CycleRecorded) for record in world.records("a100"))
