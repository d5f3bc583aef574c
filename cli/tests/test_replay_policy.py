"""Another policy on stored cycles: its report against sums done by hand in exact integers."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.archive.testing import INTERVAL_MS, CycleMaker
from walras.replay.display import study_tables
from walras.replay.policy import NAMED, Policy, PolicyError, parse_policy
from walras.replay.replaying import Replay
from walras.replay.study import PolicyStudy
from walras.replay.summary import study_document
from walras_clearing import ClearingResult, Job, Market, Pool, Team, clear
from walras_clearing.testing import FINE, Shape, draw_market

ALL = range(2**53)
PPM = 1_000_000
HOUR_MS = 3_600_000


def markets_of(seed: int, count: int, shape: Shape | None = None) -> list[Market]:
    """Drawn markets without jobs of size 0, which no frame holds."""
    draw = Random(seed)
    found = []
    for _ in range(count):
        market = draw_market(draw.randint, shape)
        teams = tuple(
            replace(team, jobs=tuple(job for job in team.jobs if job.size_macc))
            for team in market.teams
        )
        found.append(replace(market, teams=teams))
    return found


def study_of(
    markets: Sequence[Market | None], policy: Policy, impact_every: int = 1
) -> dict[str, list[dict[str, Any]]]:
    """Report on a policy; None stands for a cycle in which the market was halted."""
    maker = CycleMaker(rows_a_part=4)
    empty = Market(0, (), ())
    cycles = [maker.halted(empty) if m is None else maker.cleared(m) for m in markets]
    with TemporaryDirectory() as directory:
        study = PolicyStudy(policy, Path(directory), impact_every)
        replay = Replay(ALL, study=study)
        replay.run(cycles)
        assert replay.found == []
        study.flush()
        document = study_document(study.tables)
        study.close()
    assert len(study_tables(document)) == 3
    return document


def by_hand(
    markets: Sequence[Market], results: Sequence[ClearingResult]
) -> dict[tuple[str, str], dict[str, int]]:
    """Sums per pool and team over all cycles but the last, which has no end."""
    sums: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for market, result in list(zip(markets, results, strict=True))[:-1]:
        for team in market.teams:
            row = sums[team.pool, team.team]
            price = result.pools[team.pool].price_micro or 0
            got = result.teams[team.team]
            row["paid"] += price * got.allocated_macc * INTERVAL_MS
            row["held"] += got.allocated_macc * INTERVAL_MS
            row["free"] += got.opportunistic_macc * INTERVAL_MS
            row["bid"] += team.bid_micro_per_hour * INTERVAL_MS
            row["time"] += INTERVAL_MS
    return sums


def floor(value: int, by: int) -> int | None:
    return value // by if by else None


@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from(["margin", "idle", "supply"]))
def test_prices_quotas_and_payments_are_those_of_clearing_by_hand(
    seed: int, count: int, what: str
) -> None:
    policies = {
        "margin": Policy(margin="strict_order"),
        "idle": Policy(idle_own_supply="lend"),
        "supply": Policy(shared_supply_ppm=PPM // 2),
    }
    changes: dict[str, Callable[[Market], Market]] = {
        "margin": lambda m: replace(m, margin="strict_order"),
        "idle": lambda m: replace(m, idle_own_supply="lend"),
        "supply": lambda m: replace(m, shared_supply_macc=m.shared_supply_macc // 2),
    }
    markets = markets_of(seed, count)
    others = [changes[what](market) for market in markets]
    base = by_hand(markets, [clear(m) for m in markets])
    other = by_hand(others, [clear(m) for m in others])
    total = {
        run: {name: sum(row[name] for row in sums.values()) for name in ("paid", "held", "bid")}
        for run, sums in (("base", base), ("policy", other))
    }
    rows = study_of(markets, policies[what])["teams"]
    assert [(row["pool"], row["team"]) for row in rows] == sorted(base)
    for row in rows:
        for run, sums in (("base", base), ("policy", other)):
            mine, every = sums[row["pool"], row["team"]], total[run]
            assert row["price_micro"][run] == floor(mine["paid"], mine["held"])
            assert row["allocated_macc"][run] == mine["held"] // mine["time"]
            assert row["opportunistic_macc"][run] == mine["free"] // mine["time"]
            assert row["payment_micro"][run] == mine["paid"] // (1000 * HOUR_MS)
            if mine["held"] and every["paid"]:
                f = Fraction(mine["paid"], mine["held"]) / Fraction(every["paid"], every["held"])
                assert row["f_ppm"][run] == f * PPM // 1
            if mine["bid"] and every["held"]:
                share = Fraction(mine["held"], every["held"]) / Fraction(mine["bid"], every["bid"])
                assert row["share_ppm"][run] == share * PPM // 1
        payment = row["payment_micro"]
        assert payment["difference"] == payment["policy"] - payment["base"]


def test_quotas_of_pools_and_markets_are_averaged_over_all_of_their_time() -> None:
    pools = (Pool("p0", 4_000),)
    one, two = (
        Market(0, pools, (Team(name, "p0", 10**6, (Job("j", 3_000),)),)) for name in ("a", "b")
    )
    document = study_of([one, two, one], Policy())
    quotas = {
        kind: [row["allocated_macc"]["base"] for row in document[kind]]
        for kind in ("teams", "pools", "markets")
    }
    assert quotas == {"teams": [3_000, 3_000], "pools": [3_000], "markets": [3_000]}


@given(st.integers(0, 10**6))
def test_what_was_recorded_differs_from_itself_in_nothing(seed: int) -> None:
    document = study_of(markets_of(seed, 3), Policy())
    for row in [*document["teams"], *document["pools"], *document["markets"]]:
        for name in ("price_micro", "allocated_macc", "opportunistic_macc", "payment_micro"):
            assert row[name]["difference"] in (0, None), (row, name)


@given(st.integers(0, 10**6))
def test_the_impact_of_a_pool_is_the_price_less_that_without_it(seed: int) -> None:
    (market,) = markets_of(seed, 1, FINE)
    price = clear(market).reference_price_micro
    document = study_of([market], Policy())
    for row in document["pools"]:
        name = row["pool"]
        rest = replace(
            market,
            pools=tuple(p for p in market.pools if p.pool != name),
            teams=tuple(t for t in market.teams if t.pool != name),
        )
        without = clear(rest).reference_price_micro
        expected = None if price is None or without is None else price - without
        assert row["impact_micro"] == {"base": expected, "policy": expected}
        assert row["impact_samples"] == 1


def test_the_impact_is_sampled() -> None:
    document = study_of(markets_of(3, 7, replace(FINE, pools=1)), Policy(), impact_every=3)
    assert [row["impact_samples"] for row in document["pools"]] == [3]


def test_prices_stay_in_force_while_the_market_is_halted() -> None:
    market = next(m for m in markets_of(12, 100, FINE) if clear(m).reference_price_micro)
    paid = {
        length: study_of([market, *[None] * (length - 1), market], Policy())["markets"][0]
        for length in (1, 3)
    }
    assert paid[3]["duration_ms"] == 3 * paid[1]["duration_ms"] == 3 * INTERVAL_MS
    once = paid[1]["payment_micro"]["base"]
    assert once > 0
    assert 3 * once <= paid[3]["payment_micro"]["base"] <= 3 * once + 3


def test_fairness_is_the_inverse_of_the_dearest_team() -> None:
    row = study_of(markets_of(12, 4, FINE), Policy())["markets"][0]
    assert row["f_max_ppm"]["base"] >= PPM
    assert row["fairness_ppm"]["base"] == PPM * PPM // row["f_max_ppm"]["base"]
    assert row["share_min_ppm"]["base"] <= row["share_max_ppm"]["base"]


def test_a_team_of_whom_nothing_is_known_but_the_last_cycle_is_in_no_sum() -> None:
    document = study_of(markets_of(12, 1, FINE), Policy())
    assert (document["teams"], document["markets"]) == ([], [])
    assert document["pools"] != []


def test_scales_are_rounded_down_and_settings_win_over_the_named_policy() -> None:
    policy, values = parse_policy(
        "strict_order", ["margin=pro_rata", "bid_ppm.p0=500000", "own_supply_ppm=0"]
    )
    assert values == {"margin": "pro_rata", "bid_ppm.p0": 500_000, "own_supply_ppm": 0}
    assert policy == Policy(margin="pro_rata", bid_ppm={"p0": 500_000}, own_supply_ppm=0)
    markets = markets_of(12, 2, FINE)
    halved = [
        replace(
            market,
            margin="pro_rata",
            pools=tuple(replace(pool, own_supply_macc=0) for pool in market.pools),
            teams=tuple(
                replace(team, bid_micro_per_hour=team.bid_micro_per_hour // 2)
                if team.pool == "p0"
                else team
                for team in market.teams
            ),
        )
        for market in markets
    ]
    by_policy = study_of(markets, policy)["teams"]
    as_it_is = study_of(halved, Policy())["teams"]
    for ours, theirs in zip(by_policy, as_it_is, strict=True):
        assert ours["payment_micro"]["policy"] == theirs["payment_micro"]["base"]
        assert ours["share_ppm"]["policy"] == theirs["share_ppm"]["base"]


@pytest.mark.parametrize("name", NAMED)
def test_every_named_policy_exists(name: str) -> None:
    policy, values = parse_policy(name, [])
    assert (policy == Policy()) == (name == "recorded")
    assert [f"{key}={value}" for key, value in values.items()] == list(NAMED[name])


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("fair", [], "no policy 'fair'"),
        (None, ["margin"], "not KEY=VALUE"),
        (None, ["margin=by_lot"], "one of pro_rata, strict_order"),
        (None, ["price=3"], "no setting 'price'"),
        (None, ["bid_ppm.=3"], "no setting 'bid_ppm.'"),
        (None, ["reserve_price_micro=-1"], "an integer from 0"),
        (None, ["reserve_price_micro=1000000000001"], "an integer from 0"),
        (None, ["own_supply_ppm=1.5"], "an integer from 0"),
        (None, ["own_supply_ppm=" + "9" * 5000], "an integer from 0"),
        (None, ["own_supply_ppm=²"], "an integer from 0"),
    ],
)
def test_a_policy_that_does_not_exist_is_refused(
    name: str | None, settings: list[str], reason: str
) -> None:
    with pytest.raises(PolicyError, match=reason):
        parse_policy(name, settings)


def test_it_does_not_matter_when_rows_go_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    markets = markets_of(12, 5)
    at_the_end = study_of(markets, Policy(margin="strict_order"))
    monkeypatch.setattr("walras.replay.study.BATCH_ROWS", 1)
    assert study_of(markets, Policy(margin="strict_order")) == at_the_end
