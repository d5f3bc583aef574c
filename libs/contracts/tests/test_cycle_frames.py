"""Frames fold into the market that was cleared; a gap is seen, not folded over."""

import random

import pytest
from pydantic import ValidationError

from walras_contracts.cycle_frames import FoldedJob, FoldedMarket, FoldedTeam, FrameError
from walras_contracts.market import CycleFramed, CycleRecorded, FrameKind, MarketState

NOTHING = CycleFramed(
    market="a100",
    cycle=0,
    market_time_ms=0,
    kind="key",
    part=0,
    parts=1,
    job_keys=(),
    job_sizes_macc=(),
    job_limits_micro=(),
    removed_jobs=(),
    teams=(),
    team_pools=(),
    bids_micro_per_hour=(),
    allocated_macc=(),
    opportunistic_macc=(),
    removed_teams=(),
)


def frame(**fields: object) -> CycleFramed:
    return CycleFramed.model_validate({**NOTHING.model_dump(), **fields})


def rows(jobs: dict[str, FoldedJob], teams: dict[str, FoldedTeam], **fields: object) -> CycleFramed:
    """A part that sets these jobs and teams."""
    return frame(
        job_keys=tuple(jobs),
        job_sizes_macc=tuple(job.size_macc for job in jobs.values()),
        job_limits_micro=tuple(job.limit_micro for job in jobs.values()),
        teams=tuple(teams),
        team_pools=tuple(team.pool for team in teams.values()),
        bids_micro_per_hour=tuple(team.bid_micro_per_hour for team in teams.values()),
        allocated_macc=tuple(team.allocated_macc for team in teams.values()),
        opportunistic_macc=tuple(team.opportunistic_macc for team in teams.values()),
        **fields,
    )


ONE_JOB = {"job_keys": ("ads/a",), "job_sizes_macc": (1,), "job_limits_micro": (None,)}
ONE_TEAM = {
    "teams": ("ads",),
    "team_pools": ("east",),
    "bids_micro_per_hour": (1,),
    "allocated_macc": (0,),
    "opportunistic_macc": (0,),
}
KEY = rows({"ads/a": FoldedJob(4, None)}, {"ads": FoldedTeam("east", 9, 4, 0)}, cycle=60)


@pytest.mark.parametrize("seed", range(20))
def test_key_frames_and_changes_in_any_number_of_parts_fold_to_the_market(seed: int) -> None:
    draw = random.Random(seed)
    market = FoldedMarket("a100")
    jobs: dict[str, FoldedJob] = {}
    teams: dict[str, FoldedTeam] = {}
    for cycle in range(1, 30):
        before = (dict(jobs), dict(teams))
        for name in range(12):
            key, team = f"team-{name % 3}/{name}", f"team-{name % 3}"
            if draw.random() < 0.3:
                jobs[key] = FoldedJob(draw.randrange(1, 9), draw.choice([None, 0, 5]))
                teams[team] = FoldedTeam("east", draw.randrange(9), draw.randrange(9), 0)
            elif draw.random() < 0.2:
                jobs.pop(key, None)
        key_frame = cycle == 1 or draw.random() < 0.1
        was = ({}, {}) if key_frame else before
        changed = {k: job for k, job in jobs.items() if was[0].get(k) != job}
        changed_teams = {t: row for t, row in teams.items() if was[1].get(t) != row}
        gone = tuple(k for k in was[0] if k not in jobs)
        head = {"cycle": cycle, "kind": "key" if key_frame else "changes", "parts": 2}
        assert not market.apply(rows(changed, {}, removed_jobs=gone, part=0, **head))
        assert not market.is_whole
        assert market.apply(rows({}, changed_teams, part=1, **head))
        assert (market.jobs, market.teams, market.cycle) == (jobs, teams, cycle), seed


def test_changes_alone_are_refused() -> None:
    with pytest.raises(FrameError, match="no_key_frame"):
        FoldedMarket("a100").apply(frame(kind="changes"))


def test_a_frame_of_another_market_is_refused() -> None:
    with pytest.raises(FrameError, match="foreign_frame"):
        FoldedMarket("h100").apply(KEY)


def test_a_frame_of_another_market_leaves_what_was_folded_alone() -> None:
    market = FoldedMarket("a100")
    market.apply(KEY)
    with pytest.raises(FrameError, match="foreign_frame"):
        market.apply(frame(market="h100", cycle=61))
    assert market.apply(frame(kind="changes", cycle=61))
    assert market.jobs == {"ads/a": FoldedJob(4, None)}


@pytest.mark.parametrize(
    "follows",
    [
        frame(kind="changes", cycle=60),
        frame(kind="changes", cycle=59),
        frame(kind="changes", cycle=61, part=1, parts=2),
        frame(kind="key", cycle=61, part=1, parts=2),
    ],
    ids=["the same cycle", "an older cycle", "changes without their start", "a key frame's end"],
)
def test_a_part_that_is_not_the_next_is_refused_and_only_a_key_frame_mends_it(
    follows: CycleFramed,
) -> None:
    market = FoldedMarket("a100")
    assert market.apply(KEY)
    with pytest.raises(FrameError, match="frame_out_of_order"):
        market.apply(follows)
    assert not market.is_whole
    with pytest.raises(FrameError, match="no_key_frame"):
        market.apply(frame(kind="changes", cycle=99))
    assert market.apply(KEY)
    assert market.jobs == {"ads/a": FoldedJob(4, None)}


@pytest.mark.parametrize("part", [{"kind": "changes"}, {"parts": 3}], ids=["kind", "parts"])
def test_a_later_part_that_contradicts_the_first_is_refused(part: dict[str, object]) -> None:
    market = FoldedMarket("a100")
    market.apply(frame(cycle=60, parts=2))
    with pytest.raises(FrameError, match="frame_out_of_order"):
        market.apply(frame(**{"cycle": 60, "part": 1, "parts": 2, **part}))
    assert market.cycle is None


def test_a_cycle_that_lost_its_last_part_is_seen_at_the_next() -> None:
    market = FoldedMarket("a100")
    market.apply(frame(cycle=60, parts=2))
    with pytest.raises(FrameError, match="frame_out_of_order"):
        market.apply(frame(kind="changes", cycle=61))


@pytest.mark.parametrize("row", [{"removed_jobs": ("ads/b",)}, {"removed_teams": ("east",)}])
def test_removing_what_is_not_there_is_refused(row: dict[str, object]) -> None:
    market = FoldedMarket("a100")
    market.apply(KEY)
    with pytest.raises(FrameError, match="unknown_row"):
        market.apply(frame(kind="changes", cycle=61, **row))


@pytest.mark.parametrize(
    "fields",
    [
        {"job_keys": ("ads/a",)},
        {"teams": ("ads",), "team_pools": ("east",)},
        {"part": 1},
        {"removed_jobs": ("ads",)},
        {"job_keys": ("ads/a",), "job_sizes_macc": (0,), "job_limits_micro": (None,)},
        {"job_keys": ("ads/a",) * 2, "job_sizes_macc": (1, 2), "job_limits_micro": (None,) * 2},
        {"kind": "changes", "removed_jobs": ("ads/a", "ads/a")},
        {"kind": "changes", "removed_teams": ("ads", "ads")},
        {**ONE_JOB, "kind": "changes", "removed_jobs": ("ads/a",)},
        {**ONE_TEAM, "kind": "changes", "removed_teams": ("ads",)},
        {"kind": "key", "removed_jobs": ("ads/a",)},
        {"kind": "key", "removed_teams": ("ads",)},
    ],
    ids=[
        *("job columns", "team columns", "part beyond parts", "not a job key", "no size"),
        *("a job twice", "a job removed twice", "a team removed twice"),
        *("a job set and removed", "a team set and removed"),
        *("a key frame removes a job", "a key frame removes a team"),
    ],
)
def test_a_frame_that_contradicts_itself_is_no_frame(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        frame(**fields)


@pytest.mark.parametrize("fields", [ONE_JOB, ONE_TEAM], ids=["job", "team"])
def test_the_rows_that_the_faults_above_are_made_of_are_sound(fields: dict[str, object]) -> None:
    """Canary: what is refused above is refused for its fault."""
    frame(**fields)
    frame(kind="changes", **fields)
    frame(kind="changes", removed_jobs=("ads/b",), removed_teams=("b",))


HEAD = CycleRecorded(
    market="a100",
    cycle=0,
    barrier=0,
    market_time_ms=0,
    state=MarketState.CLEARED,
    reason="",
    input_digest="",
    late_inputs=(),
    settlement_barrier=-1,
    shared_supply_macc=0,
    reserve_price_micro=0,
    idle_own_supply="lend",
    margin="pro_rata",
    reference_price_micro=None,
    pools=(),
    frame=FrameKind.KEY,
    frames=2,
    jobs=3,
    teams=1,
)
NOT_CLEARED = {"state": "halted", "frame": "none", "frames": 0, "jobs": 0, "teams": 0}


@pytest.mark.parametrize(
    "fields",
    [
        {"frame": "none"},
        {"frames": 0},
        {"state": "skipped"},
        {**NOT_CLEARED, "frame": "key", "frames": 1},
        {**NOT_CLEARED, "frames": 1},
        {**NOT_CLEARED, "state": "cleared"},
        {**NOT_CLEARED, "jobs": 1},
        {**NOT_CLEARED, "teams": 1},
    ],
)
def test_a_record_whose_frame_does_not_fit_its_state_is_no_record(
    fields: dict[str, object],
) -> None:
    whole = HEAD.model_dump()
    assert CycleRecorded.model_validate({**whole, **NOT_CLEARED}).frame is FrameKind.NONE
    with pytest.raises(ValidationError, match="with a frame of"):
        CycleRecorded.model_validate({**whole, **fields})
