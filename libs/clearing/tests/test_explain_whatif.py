"""A simulation is the difference of two clearings, and touches nothing."""

import json
import random
from dataclasses import replace

import pytest

from walras_clearing import ClearingInputError, Job, Market, Pool, Team, clear
from walras_clearing.explain import explain
from walras_clearing.testing import draw_market
from walras_clearing.whatif import AddJob, Change, RemoveJob, SetBid, apply, parse_job, simulate

MARKET = Market(
    1_000,
    (Pool("p", 0), Pool("q", 500)),
    (
        Team("a", "p", 500, (Job("one", 700, 400), Job("two", 300, None))),
        Team("b", "p", 0, ()),
        Team("c", "q", 100, (Job("one", 400, None),)),
    ),
)


def random_changes(chance: random.Random, market: Market) -> list[Change]:
    teams = [team.team for team in market.teams]
    changes: list[Change] = [
        AddJob(chance.choice(teams), Job(f"new{n}", chance.randint(0, 500), chance.randint(0, 9)))
        for n in range(chance.randint(0, 2))
    ]
    if chance.random() < 0.5:
        changes.append(SetBid(chance.choice(teams), chance.randint(0, 9)))
    owners = [team for team in market.teams if team.jobs]
    if owners and chance.random() < 0.5:
        owner = chance.choice(owners)
        changes.append(RemoveJob(owner.team, chance.choice(owner.jobs).job))
    return changes


def test_both_results_are_plain_clearings_of_the_market_and_of_the_changed_one() -> None:
    explained = 0
    for seed in range(200):
        chance = random.Random(seed)
        market = draw_market(chance.randint)
        if not market.teams:
            continue
        changes = random_changes(chance, market)
        changed = market
        for change in changes:
            changed = apply(changed, change)
        simulation = simulate(market, changes)
        assert simulation.before == clear(market), f"seed {seed}"
        assert simulation.after == clear(changed), f"seed {seed}"
        for explanation in simulation.added:
            explained += 1
            again = explain(changed, explanation.team, explanation.job)
            assert explanation == again, f"seed {seed}"
        for name, (old, new) in simulation.changed_teams().items():
            assert old != new, f"seed {seed}"
            assert (old, new) == (simulation.before.teams[name], simulation.after.teams[name])
    assert explained > 50


def test_without_changes_nothing_differs() -> None:
    simulation = simulate(MARKET, [])
    assert (simulation.changed_pools(), simulation.changed_teams()) == ({}, {})
    assert json.loads(simulation.to_json())["teams"] == {}


def test_a_job_is_added_at_its_place_or_at_the_end_of_the_queue() -> None:
    job = Job("new", 1, None)
    for place, expected in ((None, ["one", "two", "new"]), (0, ["new", "one", "two"])):
        queue = apply(MARKET, AddJob("a", job, place)).teams[0].jobs
        assert [queued.job for queued in queue] == expected
    assert [queued.job for queued in MARKET.teams[0].jobs] == ["one", "two"]


def test_a_job_can_be_replaced_by_another_of_the_same_id() -> None:
    simulation = simulate(MARKET, [RemoveJob("a", "one"), AddJob("a", Job("one", 5, None))])
    assert [(e.team, e.job, e.size_macc) for e in simulation.added] == [("a", "one", 5)]


def test_what_is_added_and_removed_again_is_not_explained() -> None:
    changes: list[Change] = [AddJob("b", Job("new", 5)), RemoveJob("b", "new"), SetBid("b", 7)]
    assert simulate(MARKET, changes).added == ()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (AddJob("none", Job("new", 1)), "unknown_team"),
        (AddJob("a", Job("one", 1)), "duplicate_id"),
        (AddJob("a", Job("new", 1), 3), "not_in_queue"),
        (AddJob("a", Job("new", 1), -1), "not_in_queue"),
        (AddJob("a", Job("new", 10**15)), "sum_above_maximum"),
        (AddJob("a", Job("", 1)), "invalid_id"),
        (RemoveJob("a", "none"), "unknown_job"),
        (SetBid("none", 1), "unknown_team"),
        (SetBid("a", -1), "negative"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_with_a_code(change: Change, code: str) -> None:
    with pytest.raises(ClearingInputError) as caught:
        simulate(MARKET, [change])
    assert caught.value.code == code
    assert caught.value.path.startswith("$")


def test_the_json_form_names_what_differs_before_and_after() -> None:
    simulation = simulate(MARKET, [AddJob("c", Job("new", 900, None))])
    document = json.loads(simulation.to_json())
    assert document["reference_price_micro"] == {
        "before": simulation.before.reference_price_micro,
        "after": simulation.after.reference_price_micro,
    }
    assert set(document["teams"]) == set(simulation.changed_teams())
    assert document["added"][0]["job"] == "new"


def test_a_job_to_add_is_read_strictly() -> None:
    good = {"team": "a", "job": "new", "size_macc": 5, "limit_micro": None}
    assert parse_job(json.dumps(good)) == AddJob("a", Job("new", 5, None))
    placed = parse_job(json.dumps({**good, "queue_position": 1}).encode())
    assert placed == AddJob("a", Job("new", 5, None), 1)
    for wrong, path in (
        ({**good, "size_macc": 5.0}, "$.size_macc"),
        ({**good, "more": 1}, '$["more"]'),
        ({**good, "team": 3}, "$.team"),
        ({key: value for key, value in good.items() if key != "limit_micro"}, "$.limit_micro"),
    ):
        with pytest.raises(ClearingInputError) as caught:
            parse_job(json.dumps(wrong))
        assert caught.value.path == path


def test_a_simulation_sees_the_policies_of_its_market() -> None:
    strict = replace(MARKET, margin="strict_order", reserve_price_micro=300)
    simulation = simulate(strict, [SetBid("b", 4)])
    assert simulation.after == clear(apply(strict, SetBid("b", 4)))
