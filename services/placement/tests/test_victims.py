"""Who leaves: the choice is the best of all sets of jobs, by counting them all."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.work import JobState, WorkClass
from walras_placement.jobs import Job
from walras_placement.leases import Lease
from walras_placement.shares import Share
from walras_placement.teams import NO_LIMIT
from walras_placement.victims import UNKNOWN_SCORE_PPM, choose_victims

NOW_MS = 1_728_000_000_000

Facts = tuple[int, int, int | None, Drainability]
"""Devices, minutes run, limit, declared class."""


def running(number: int, facts: Facts) -> Job:
    devices, minutes, limit, drainability = facts
    name = f"j{number:02}"
    granted_ms = NOW_MS - 60_000 * minutes
    share = Share(f"n{number}", tuple(range(devices)), 1000 * devices)
    entry = JobQueued(
        team="t",
        pool="p",
        job=name,
        types=("a",),
        size_macc=share.size_macc,
        gang=True,
        limit_micro=limit,
        expected_run_ms=None,
        minimum_run_ms=0,
        drainability=drainability,
        deadline_ms=None,
        submitted_ms=granted_ms,
        position=number,
        revision=0,
        cancelled=False,
    )
    lease = Lease(
        name,
        "a",
        WorkClass.MARKET,
        "p",
        share.size_macc,
        limit,
        granted_ms,
        None,
        (share,),
        {share.node: ""},
    )
    return Job(
        "t", name, JobState.RUNNING, granted_ms, granted_ms, 0, None, lease=lease, queued=entry
    )


def key(
    victims: Sequence[Job], scores_ppm: Mapping[str, int]
) -> tuple[int, int, int, int, list[tuple[int, int]]]:
    """Number, lost work, missing score, limits, then the longest runners first (design §5)."""
    lost = limits = missing_ppm = 0
    runs = []
    for job in victims:
        lease, entry = job.held_lease(), job.entry()
        ran_ms = NOW_MS - lease.granted_ms
        if entry.drainability is not Drainability.CHECKPOINT:
            lost += ran_ms * lease.size_macc
        missing_ppm += 1_000_000 - scores_ppm.get(job.key, UNKNOWN_SCORE_PPM)
        limits += NO_LIMIT if entry.limit_micro is None else entry.limit_micro
        runs.append((ran_ms, -entry.position))
    return len(victims), lost, missing_ppm, limits, sorted(runs, reverse=True)


FACTS = st.tuples(
    st.sampled_from((1, 1, 2, 3, 4, 8)),
    st.integers(0, 3),
    st.sampled_from((None, 0, 10, 20)),
    st.sampled_from(Drainability),
)


@settings(deadline=None, max_examples=400)
@given(
    facts=st.lists(FACTS, max_size=8),
    devices=st.integers(-1, 30),
    scores=st.lists(st.sampled_from((None, 0, 400_000, 1_000_000)), min_size=8, max_size=8),
)
def test_the_victims_are_the_first_of_all_sets_that_free_enough(
    facts: list[Facts], devices: int, scores: list[int | None]
) -> None:
    jobs = [running(number, each) for number, each in enumerate(facts)]
    scores_ppm = {
        job.key: score for job, score in zip(jobs, scores, strict=False) if score is not None
    }
    excess_macc = 1000 * devices - 1
    enough = [
        group
        for count in range(len(jobs) + 1)
        for group in combinations(jobs, count)
        if sum(job.held_lease().size_macc for job in group) >= excess_macc
    ]
    expected = min(enough, key=lambda jobs: key(jobs, scores_ppm)) if enough else tuple(jobs)

    victims = choose_victims(jobs, excess_macc, NOW_MS, scores_ppm)
    assert [job.job for job in victims] == sorted(job.job for job in expected)
    assert victims == choose_victims(jobs[::-1], excess_macc, NOW_MS, scores_ppm)


@pytest.mark.parametrize(
    ("facts", "devices", "leave"),
    [
        # One job before two, whatever it has done and may pay.
        ([(2, 9, None, Drainability.RESTART), *[(1, 0, 1, Drainability.RESTART)] * 2], 2, ["j00"]),
        # Of single ones that with the least work to lose, the larger one too.
        (
            [(2, 5, 1, Drainability.RESTART), (3, 3, 9, Drainability.RESTART)],
            2,
            ["j01"],
        ),
        # What checkpoints loses nothing.
        (
            [(2, 1, 1, Drainability.RESTART), (2, 9, 9, Drainability.CHECKPOINT)],
            2,
            ["j01"],
        ),
        # Then the lowest limit.
        (
            [(2, 1, 7, Drainability.NONE), (2, 1, 6, Drainability.NONE), (2, 1, None, "none")],
            2,
            ["j01"],
        ),
    ],
)
def test_the_order_is_jobs_then_lost_work_then_limit(
    facts: list[Facts], devices: int, leave: list[str]
) -> None:
    jobs = [running(number, each) for number, each in enumerate(facts)]

    assert [job.job for job in choose_victims(jobs, 1000 * devices, NOW_MS, {})] == leave


def test_the_better_score_leaves_before_the_lower_limit_but_not_before_less_lost_work() -> None:
    restart = Drainability.RESTART
    jobs = [running(n, (2, 5, limit, restart)) for n, limit in enumerate((9, 1))]
    jobs.append(running(2, (2, 6, 1, restart)))
    scores_ppm = {"t/j00": 800_000, "t/j01": 700_000, "t/j02": 1_000_000}

    assert [job.job for job in choose_victims(jobs, 2000, NOW_MS, scores_ppm)] == ["j00"]
    assert [job.job for job in choose_victims(jobs, 2000, NOW_MS, {})] == ["j01"]


def test_of_ten_gangs_one_leaves_whole_and_not_a_part_of_each() -> None:
    jobs = [running(number, (10, 5, None, Drainability.RESTART)) for number in range(10)]

    assert [job.job for job in choose_victims(jobs, 10_000, NOW_MS, {})] == ["j09"]


def test_many_jobs_of_many_sizes_are_chosen_from_without_trying_all_sets() -> None:
    jobs = [
        running(number, (1 + number * 7 % 64, number % 50, number % 3, Drainability.RESTART))
        for number in range(600)
    ]
    held = sum(job.held_lease().size_macc for job in jobs)
    victims = choose_victims(jobs, held // 2 + 1, NOW_MS, {})

    assert sum(job.held_lease().size_macc for job in victims) > held // 2
    sizes = sorted((job.held_lease().size_macc for job in jobs), reverse=True)
    assert sum(sizes[: len(victims) - 1]) <= held // 2, "fewer would not do"
