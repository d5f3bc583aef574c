"""The grace chain is as long as its shortest link, and what is said to change mends it (R21)."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.jobs_events import NOW_MS, changed, pool, submitted
from walras.jobs_log.units import duration_ms
from walras.submit.grace_chain import (
    DEFAULT_TERMS,
    grace_chain,
    shortest,
    terms_in_force,
    warnings,
)
from walras_contracts.accounts import DrainTerms, PlatformDocument
from walras_contracts.demand import JobSubmitted

TIMES = st.integers(1, 300_000)


def job(**run: Any) -> JobSubmitted:
    return submitted(run={"command": ["x"], **run})


def test_the_defaults_of_job_and_platform_hold() -> None:
    assert warnings(grace_chain(job(), DEFAULT_TERMS)) == []
    assert grace_chain(submitted(), DEFAULT_TERMS) == [], "nothing is known of what runs"


def test_a_launcher_that_kills_its_workers_after_30_s_is_the_shortest_link() -> None:
    chain = grace_chain(
        job(checkpoint_ms=45_000, launcher_stop_ms=30_000), DrainTerms(warning_ms=120_000)
    )
    found = shortest(chain)
    assert found is not None
    assert (found.name, found.slack_ms) == ("launcher to its workers", -15_000)
    (warning,) = warnings(chain)
    assert warning == (
        "the shortest link: launcher to its workers: run.launcher_stop grants 30s, run.checkpoint "
        "needs 45s: 15s too short; make run.checkpoint at most 30s, or run.launcher_stop at least "
        "45s"
    )


@pytest.mark.parametrize(
    ("run", "terms", "named"),
    [
        (
            {"checkpoint_ms": 60_001},
            {},
            "at most 1min, or the platform's warning_ms at least",
        ),
        ({"stop_ms": 30_001}, {}, "run.stop at most 30s, or the platform's terminate_ms"),
        ({}, {"warning_ms": 29_999}, "make run.checkpoint at most 29s 999ms"),
        ({"stop_ms": 5, "checkpoint_ms": 1, "launcher_stop_ms": 4}, {}, "run.stop at most 4ms"),
    ],
)
def test_each_link_is_named_with_what_to_change(
    run: dict[str, int], terms: dict[str, int], named: str
) -> None:
    (warning,) = warnings(grace_chain(job(**run), DrainTerms(**terms)))
    assert named in warning


@given(TIMES, TIMES, TIMES, TIMES, st.none() | TIMES)
def test_a_warning_names_a_change_that_makes_its_link_hold(
    warning_ms: int, terminate_ms: int, checkpoint_ms: int, stop_ms: int, launcher_ms: int | None
) -> None:
    run = {
        "checkpoint_ms": checkpoint_ms,
        "stop_ms": stop_ms,
        "launcher_stop_ms": launcher_ms,
    }
    terms = DrainTerms(warning_ms=warning_ms, terminate_ms=terminate_ms)
    chain = grace_chain(job(**run), terms)
    said = warnings(chain)
    assert bool(said) == (
        checkpoint_ms > warning_ms
        or stop_ms > terminate_ms
        or (launcher_ms is not None and launcher_ms < max(stop_ms, checkpoint_ms))
    )
    # Doing what is said, on the side of the job, again and again, ends in a chain that holds.
    for _ in range(4):
        said = warnings(grace_chain(job(**run), terms))
        if not said:
            return
        change = re.search(r"make run\.(\w+) at most ([^,]+),", said[0])
        assert change is not None
        run[f"{change[1]}_ms"] = duration_ms(change[2])
    assert warnings(grace_chain(job(**run), terms)) == []


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=6), st.integers(0, 9))
def test_the_newest_version_of_the_platform_in_effect_counts(
    versions: list[tuple[int, int]], now: int
) -> None:
    changes = [
        changed(PlatformDocument(drains=DrainTerms(warning_ms=version)), version, effective)
        for version, effective in dict(versions).items()
    ]
    counting = [version for version, effective in dict(versions).items() if effective <= now]
    terms = terms_in_force([changed(pool("t")), *changes], now)
    assert terms.warning_ms == max(counting, default=DEFAULT_TERMS.warning_ms)
    assert terms_in_force([], NOW_MS) == DEFAULT_TERMS
