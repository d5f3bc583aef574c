"""A plan of the teams that something happened to is the plan of all teams; nothing changes."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from services.placement.tests.town import Town
from walras_contracts.accounts import Rounding
from walras_contracts.work import DrainState
from walras_placement.decisions import Plan
from walras_placement.handlers import Planner
from walras_placement.outcomes import Outcome
from walras_placement.plan import plan
from walras_placement.rules import Moment, Rules
from walras_placement.state import PlacementState

STEPS = 120


def decided(made: Plan) -> dict[str, Any]:
    """What a plan says, to be compared."""
    return {
        "released": sorted(made.released),
        "reclassed": [(r.job.key, r.work_class) for r in made.reclassed],
        "vacated": [(v.job.key, v.reason) for v in made.vacated],
        "stays": sorted(made.stays),
        "reserved": [(r.job.key, r.market, r.shares, r.standing) for r in made.reserved],
        "granted": [(g.job.key, g.market, g.work_class, g.shares) for g in made.granted],
        "waiting": sorted(
            (w.job.key, w.reason, w.needed_macc, w.available_macc) for w in made.waiting
        ),
        "again": sorted(made.again),
        "open": made.open_macc,
    }


def came_to(outcome: Outcome | None) -> dict[str, Any]:
    """What is kept of the plan of a team, to be compared."""
    outcome = outcome or Outcome()
    return {
        "short": {key: (s.market, s.bought) for key, s in sorted(outcome.short.items())},
        "unspent": {market: macc for market, macc in sorted(outcome.unspent.items()) if macc},
    }


def picture(state: PlacementState) -> dict[str, Any]:
    """All that a plan must leave alone."""
    devices = state.devices
    return {
        "jobs": {key: job.dump() for key, job in state.jobs.items()},
        "open": {name: list(node.open) for name, node in devices.nodes.items()},
        "reserved": {name: dict(node.reserved) for name, node in devices.nodes.items()},
        "levels": {
            kind: {key: repr(domain) for key, domain in places.domains.items()}
            for kind, places in devices.places.items()
        },
        "quotas": {team: dict(quotas) for team, quotas in state.quotas.items()},
        "pending": {n: [job.key for _, job in t.pending] for n, t in state.teams.items()},
        "dirty": list(state.dirty),
    }


def twin(scopes: list[int]) -> Planner:
    """Return a planner that plans twice, and compares."""

    def both(
        state: PlacementState, moment: Moment, rules: Rules, scope: Sequence[str] | None = None
    ) -> Plan:
        before = picture(state)
        whole = plan(state, moment, rules)
        part = plan(state, moment, rules, scope)
        assert picture(state) == before
        assert decided(part) == decided(whole), f"step {moment.step}, scope {scope}"
        for name in state.teams:
            found = part.outcomes.get(name) or state.outcomes.get(name)
            assert came_to(found) == came_to(whole.outcomes[name]), f"step {moment.step}, {name}"
            waits_for = (found or Outcome()).waits_for
            assert waits_for.keys() >= whole.outcomes[name].waits_for.keys()
        state.devices.check()
        scopes.append(len(part.outcomes))
        return part

    return both


@pytest.mark.parametrize("seed", range(12))
def test_a_partial_plan_equals_the_whole_one_over_random_histories(kit: Any, seed: int) -> None:
    scopes: list[int] = []
    town = Town(kit.bench(planner=twin(scopes)), seed, domains=seed % 3)
    town.run(STEPS)

    assert min(scopes) < len(town.jobs), "nothing was left out"


def bounced(bench: Any, kit: Any, seed: int) -> None:
    """Quota goes and comes back, in one step with claims on the devices that were to leave."""
    draw = random.Random(seed)
    sizes = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
    terms = {"minimum_run_ms": draw.choice((0, 300_000)), "limit": draw.choice((None, 10))}
    jobs = [bench.job(f"a{place}", size, team="A", **terms) for place, size in enumerate(sizes)]
    bench.step(kit.node("n1", 4), kit.node("n2", 8), kit.quota("A", a=(sum(sizes), 0, 5)), *jobs)
    bench.step(kit.quota("A", a=(0, 0, 5)))
    warned = [name for name in sorted(bench.leases) if draw.random() < 0.5]
    bench.step(
        *(bench.drained(name, DrainState.WARNED, n) for name in warned for n in bench.leases[name])
    )
    given = [kit.quota("A", a=(sum(sizes), 0, draw.choice((5, 11))))]
    for team in ("B", "C", "D"):
        size = draw.randint(1, 6)
        given += [kit.quota(team, a=(size, 0, 5)), bench.job(team.lower(), size, team=team)]
    bench.step(*given)
    for _ in range(5):
        bench.step()
    for name in [name for name in sorted(bench.leases) if bench.states()[name] == "draining"]:
        bench.step(*bench.freed(name, "vacated", 5))


@pytest.mark.parametrize("seed", range(60))
def test_a_partial_plan_equals_the_whole_one_where_quota_comes_back(kit: Any, seed: int) -> None:
    bounced(kit.bench(planner=twin([])), kit, seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_partial_plan_equals_the_whole_one_where_a_job_has_its_turn(kit: Any, seed: int) -> None:
    draw = random.Random(seed)
    bench = kit.bench(planner=twin([]))
    bench.step(kit.rounding("a", Rounding.RELEASE), kit.node("n1", 6), bench.job("s0", 1))
    bench.step(kit.quota("t1", a=(5, 0, 5)), bench.job("s1", 2), bench.job("gang", 6))
    turns = 0
    for number in range(2, 60):
        given = [bench.job(f"s{number}", draw.randint(1, 3))] if draw.random() < 0.7 else []
        running = [name for name in sorted(bench.leases) if bench.states()[name] == "running"]
        given += [e for name in running if draw.random() < 0.2 for e in bench.freed(name)]
        if draw.random() < 0.2:
            quota = (draw.randint(3, 6), draw.randint(0, 1), draw.choice((5, 5, 9)))
            given.append(kit.quota("t1", a=quota))
        bench.step(*given)
        turns += bench.state.jobs["t1/gang"].turn_since_step is not None
        if bench.states()["gang"] == "running":
            break
    assert turns > 1, seed


@pytest.mark.parametrize("seed", range(12, 20))
def test_a_crash_before_every_step_leaves_the_same_log(kit: Any, seed: int) -> None:
    towns = [Town(kit.bench(crash=crash), seed, domains=seed % 3) for crash in (False, True)]
    for town in towns:
        town.run(STEPS)

    assert towns[1].bench.log.entries == towns[0].bench.log.entries


def test_a_build_that_overlooks_a_team_is_noticed(kit: Any) -> None:
    """The canary: the comparison above is able to fail."""

    def careless(
        state: PlacementState, moment: Moment, rules: Rules, scope: Sequence[str] | None = None
    ) -> Plan:
        return plan(state, moment, rules, (scope or ())[:-1])

    towns = [Town(kit.bench(planner=each), 1) for each in (plan, careless)]
    for town in towns:
        town.run(40)
    assert towns[1].bench.log.entries != towns[0].bench.log.entries
