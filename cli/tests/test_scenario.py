from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras.scenario import Scenario, ScenarioError, load_scenario
from walras.trace import Replay, load_window
from walras_contracts.accounts import PoolDocument
from walras_contracts.demand import JobSubmitted

SCENARIO_FILE = Path(__file__).parents[2] / "scenarios" / "itp_week.toml"
WEEK_HOURS = 168
INVENTED = {"team", "types", "limit_micro", "minimum_run_ms", "drainability"}


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(SCENARIO_FILE)


@pytest.fixture(scope="module")
def week(scenario: Scenario) -> Replay:
    return load_window(scenario, WEEK_HOURS, 1)


def _jobs(replay: Replay) -> tuple[JobSubmitted, ...]:
    return replay.initial + replay.arrivals


def _written(replay: Replay) -> list[bytes]:
    events = [*replay.accounts, *replay.inventory, *_jobs(replay)]
    return [event.payload() for event in events]


def _broken(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = SCENARIO_FILE.read_text("utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "broken.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_week_holds_the_jobs_and_the_load_that_its_readme_states(week: Replay) -> None:
    facts = week.facts
    assert facts.window_jobs == len(week.arrivals) == 13_706
    assert (facts.initial_jobs, facts.initial_accelerators) == (393, 1_152)
    assert len(week.initial) == 393
    assert facts.accelerator_seconds // facts.window_seconds == 1_243
    assert facts.supply_devices == sum(node.devices for node in week.inventory) == 1_243
    assert facts.largest_job_accelerators == 64
    assert week.cycles == 10_080


def test_each_pool_owns_sixty_percent_of_its_mean_load_and_the_rest_is_shared(
    week: Replay,
) -> None:
    own = {f"c{number:02d}": 0 for number in range(1, 11)}
    for node in week.inventory:
        if node.owner_pool is not None:
            own[node.owner_pool] += node.devices
    # Mean loads of the week: 22.7, 47.9, 44.4, 588.2, 29.0, 108.5, 272.6, 92.3, 37.7; c10 is given
    # 2 % of 1243.3.
    assert own == {
        "c01": 13,
        "c02": 28,
        "c03": 26,
        "c04": 352,
        "c05": 17,
        "c06": 65,
        "c07": 163,
        "c08": 55,
        "c09": 22,
        "c10": 14,
    }
    assert week.facts.own_devices == sum(own.values())


def test_the_supply_does_not_depend_on_how_many_hours_are_replayed(
    scenario: Scenario, week: Replay
) -> None:
    day = load_window(scenario, 24, 1)
    assert day.inventory == week.inventory
    assert day.accounts == week.accounts


def test_fewer_hours_are_the_beginning_of_more_hours(scenario: Scenario, week: Replay) -> None:
    day = load_window(scenario, 24, 1)
    assert day.initial == week.initial
    assert day.arrivals == week.arrivals[: len(day.arrivals)]
    assert (
        day.arrivals[-1].submitted_ms < day.end_ms <= week.arrivals[len(day.arrivals)].submitted_ms
    )


def test_every_job_fits_the_whole_supply_of_a_type_it_accepts(week: Replay) -> None:
    assert week.facts.jobs_without_home == 0
    supply = week.facts.devices_by_type
    for job in _jobs(week):
        assert any(job.size_macc <= supply[name] * 1000 for name in job.types), job


def test_the_same_seed_gives_the_same_bytes(scenario: Scenario, week: Replay) -> None:
    assert _written(load_window(scenario, WEEK_HOURS, 1)) == _written(week)


def test_another_seed_changes_invented_fields_and_nothing_else(
    scenario: Scenario, week: Replay
) -> None:
    other = load_window(scenario, WEEK_HOURS, 2)
    assert other.accounts == week.accounts
    assert other.inventory == week.inventory
    changed: set[str] = set()
    for before, after in zip(_jobs(week), _jobs(other), strict=True):
        left, right = before.model_dump(), after.model_dump()
        changed |= {name for name in left if left[name] != right[name]}
    assert changed == INVENTED


def test_a_job_stays_in_the_pool_of_its_cluster_whatever_the_seed(
    scenario: Scenario, week: Replay
) -> None:
    pool_of_team = {team.team: pool.pool for pool in scenario.pools for team in pool.teams}
    other = load_window(scenario, WEEK_HOURS, 7)
    for before, after in zip(_jobs(week), _jobs(other), strict=True):
        assert pool_of_team[before.team] == pool_of_team[after.team]


def test_large_jobs_belong_to_the_first_team_of_their_pool(
    scenario: Scenario, week: Replay
) -> None:
    first = {pool.teams[0].team for pool in scenario.pools}
    large = [job for job in _jobs(week) if job.size_macc >= 16_000]
    assert len(large) == 107
    assert {job.team for job in large} <= first


def test_the_drawn_shares_are_those_of_the_scenario(scenario: Scenario, week: Replay) -> None:
    jobs = _jobs(week)
    limits = scenario.jobs.limits
    none = sum(job.limit_micro is None for job in jobs)
    zero = sum(job.limit_micro == 0 for job in jobs)
    assert abs(none * 1_000_000 // len(jobs) - limits.none_ppm) < 10_000
    assert abs(zero * 1_000_000 // len(jobs) - limits.zero_ppm) < 10_000
    for accepted in scenario.jobs.accepts:
        share = sum(job.types == accepted.types for job in jobs) * 1_000_000 // len(jobs)
        assert abs(share - accepted.share_ppm) < 15_000, accepted
    priced = [job.limit_micro for job in jobs if job.limit_micro]
    assert min(priced) >= limits.lowest_micro
    assert max(priced) < limits.lowest_micro << limits.octaves
    for octave in range(limits.octaves):
        low = limits.lowest_micro << octave
        share = sum(low <= limit < 2 * low for limit in priced) * 100 // len(priced)
        assert 14 <= share <= 19, octave


def test_the_weight_of_a_pool_is_its_mean_load_times_scale_and_factor(week: Replay) -> None:
    weights = {
        request.document.pool: request.document.weight_micro_per_hour
        for request in week.accounts
        if isinstance(request.document, PoolDocument)
    }
    # 588.243237 accelerators × 1 credit × 0.95, in µcr/h.
    assert weights["c04"] == 558_831_075
    assert weights["c10"] == 751_965_944 * 20_000 // 1_000_000 * 1_000_000 // 604_800
    assert min(weights.values()) > 100_000


def test_jobs_running_at_the_start_are_queued_with_what_is_left_of_them(week: Replay) -> None:
    for job in week.initial:
        assert job.submitted_ms == week.start_ms
        assert job.expected_run_ms is not None
        assert job.expected_run_ms > 0


@settings(deadline=None, max_examples=6)
@given(hours=st.integers(1, 30), seed=st.integers(0, 2**31))
def test_intervals_hold_every_job_once_and_in_its_time(hours: int, seed: int) -> None:
    replay = load_window(load_scenario(SCENARIO_FILE), hours, seed)
    seen: list[JobSubmitted] = []
    for number, interval in enumerate(replay.intervals(), start=1):
        assert interval.number == number
        assert interval.start_ms == replay.start_ms + (number - 1) * 60_000
        assert interval.end_ms == interval.start_ms + 60_000
        for job in interval.jobs:
            assert interval.start_ms <= job.submitted_ms < interval.end_ms
        seen.extend(interval.jobs)
    assert tuple(seen) == _jobs(replay)
    assert interval.end_ms == replay.end_ms


def test_market_time_starts_twenty_days_after_the_origin_of_the_trace(week: Replay) -> None:
    assert week.start_ms == 1_616_544_000_000  # 2021-03-24T00:00:00Z
    assert week.start_ms % 300_000 == 0


def test_all_faults_are_reported_together_each_with_its_path(tmp_path: Path) -> None:
    path = _broken(
        tmp_path,
        ("interval_ms = 60_000", "interval_ms = 60_000.5"),
        ('cell = "global"', 'cell = "global"\ncolour = "red"'),
        ("octaves = 6", "octaves = 0"),
    )
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    paths = [fault.split(":")[0] for fault in caught.value.faults]
    assert sorted(paths) == ["$.clock.interval_ms", "$.jobs.limits.octaves", "$.supply.colour"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            ("share_ppm = 350_000", "share_ppm = 340_000"),
            "$.supply.types: the shares are 990000 ppm",
        ),
        (
            ('types = ["v100-32gb"]', 'types = ["v101"]'),
            "$.jobs.accepts[6].types: v101 has no supply",
        ),
        (('team = "c03-a"', 'team = "c02-a"'), "$.pools[2].teams: c02-a is a team of c02 too"),
        (("income_local_per_hour = 1_000, ", "income_local_per_hour = 0, "), "$.pools[0].teams: "),
        (("minimum_affordable_minutes = 120", "minimum_affordable_minutes = 0"), "$.platform."),
        (('origin = "2021-03-04T00', 'origin = "2021-13-04T00'), "$.trace.origin: "),
        (("window_end_s = 2_332_800", "window_end_s = 2_332_801"), "$.trace.window_end_s: "),
        (("zero_ppm = 80_000", "zero_ppm = 980_000"), "$.jobs.limits.zero_ppm: "),
        (('name = "itp_week"', 'directory = "/"\nname = "itp_week"'), "$.directory: "),
        (('name = "itp_week"', "name = "), "cannot be read: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_faulty_scenario_is_refused_with_the_path(
    tmp_path: Path, change: tuple[str, str], fault: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(_broken(tmp_path, change))
    assert [found for found in caught.value.faults if found.startswith(fault)], caught.value.faults
    assert caught.value.code == "invalid_scenario"


def test_a_missing_scenario_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_scenario(tmp_path / "none.toml")


def test_another_trace_than_the_named_one_is_refused(tmp_path: Path) -> None:
    path = _broken(tmp_path)
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_window(load_scenario(path), 1, 1)
    (tmp_path / "jobs_itp.csv.gz").write_bytes(b"something else")
    with pytest.raises(ScenarioError, match="has SHA-256"):
        load_window(load_scenario(path), 1, 1)


@pytest.mark.parametrize("hours", [0, -1, 169])
def test_hours_outside_the_window_are_refused(scenario: Scenario, hours: int) -> None:
    with pytest.raises(ScenarioError, match="hours: must lie in 1 … 168"):
        load_window(scenario, hours, 1)


def test_a_pool_that_the_scenario_does_not_describe_is_refused(scenario: Scenario) -> None:
    fewer = scenario.model_copy(update={"pools": scenario.pools[1:]})
    with pytest.raises(ScenarioError, match="the trace has c01"):
        load_window(fewer, 1, 1)
