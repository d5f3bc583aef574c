"""`walras jobs`: why a job waits, with figures and cycle (R7, R13); where it runs, how it leaves"""

import json
from typing import Any

import pytest

from cli.tests.jobs_events import (
    HOUR_MS,
    NOW_MS,
    changed,
    lease,
    lease_status,
    pool,
    prices,
    queued,
    running,
    session,
    status,
    supply,
)
from walras.jobs.document import jobs_document
from walras.jobs.job_views import JobView, Verdict
from walras.jobs.reading import Jobs, read_jobs, shown_barrier
from walras.jobs.tables import jobs_table, page_lines
from walras.jobs.words import REASONS, VACATE_REASONS, why
from walras.jobs_log import Fault, Item, JobsLogError
from walras.jobs_log.testing import MemoryLog
from walras_contracts.demand import JobQueued
from walras_contracts.drains import VacateReason
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import JobStatusChanged
from walras_runtime.records import Barrier


def log_of(*events: Any, at_ms: int = NOW_MS) -> MemoryLog:
    log = MemoryLog()
    log.put(supply(), changed(pool("t", "u")), *events)
    log.pass_barrier(at_ms)
    return log


def one(log: MemoryLog, job: str = "j") -> tuple[JobView, Jobs]:
    jobs = read_jobs(log, "t", job)
    return jobs.jobs[0], jobs


def test_a_waiting_job_tells_reason_needed_available_short_by_and_cycle() -> None:
    waits = status(reason="waiting_for_quota", needed_macc=8000, available_macc=2500)
    log = log_of(prices(6, NOW_MS - 60_000, p=1), prices(7, NOW_MS - 30_000, p=1), queued(), waits)
    log.put(prices(8, NOW_MS + 1, p=2))
    view, jobs = one(log)
    waiting = jobs_document(jobs)["jobs"][0]["waiting"]
    assert waiting == {
        "reason": "waiting_for_quota",
        "words": "its team has not enough quota: needs 8, available 2.5, short by 5.5",
        "needed_macc": 8000,
        "available_macc": 2500,
        "short_by_macc": 5500,
        "cycle": 7,
        "said_ms": NOW_MS,
    }
    assert "short by 5.5" in "\n".join(page_lines(view, jobs))
    assert "cycle 7" in page_lines(view, jobs)[1]


def test_the_cycle_is_the_one_that_placement_names_whatever_prices_are_there() -> None:
    waits = status(reason="waiting_for_quota", needed_macc=8000, available_macc=2500, cycle=3)
    view, jobs = one(log_of(prices(7, NOW_MS - 30_000, p=1), queued(), waits))
    assert view.cycle == 3
    waiting = jobs_document(jobs)["jobs"][0]["waiting"]
    assert (waiting["cycle"], waiting["short_by_macc"]) == (3, 5500)


@pytest.mark.parametrize("reason", list(WaitReason))
def test_every_reason_to_wait_has_words_of_its_own(reason: WaitReason) -> None:
    view, _ = one(log_of(queued(), status(reason=reason.value, needed_macc=1000)))
    assert why(view) == f"{REASONS[reason]}: needs 1, available 0, short by 1"
    assert len(set(REASONS.values())) == len(WaitReason)


def test_every_reason_to_leave_has_words_and_an_unknown_reason_to_wait_is_shown_as_it_is() -> None:
    assert VACATE_REASONS.keys() == set(VacateReason)
    view, _ = one(log_of(queued(), status(reason="something_new")))
    assert why(view) == "something_new"


def test_a_job_that_placement_has_not_seen_yet_is_queued() -> None:
    view, jobs = one(log_of(queued()))
    assert (view.state, why(view)) == ("queued", "placement has not looked at it yet")
    assert view.place is not None
    assert jobs_document(jobs)["jobs"][0]["waiting"] is None


def test_prices_of_all_acceptable_types_stand_against_the_limit() -> None:
    entry = queued(types=("a100", "h100", "l4", "x"), limit_micro=5)
    log = log_of(
        supply("h100"),
        supply("l4"),
        prices(1, 1, "l4", other=9),
        prices(3, 3, "h100", p=7),
        prices(4, 4, "a100", p=5),
        prices(5, 5, "a100", p=4, q=9),
        entry,
        status(reason="price_above_limit"),
    )
    view, jobs = one(log)
    found = [
        (price.type, price.price_micro, price.cycle, price.verdict, price.short_by_micro)
        for price in view.prices
    ]
    assert found == [
        ("a100", 4, 5, Verdict.WITHIN, 0),
        ("h100", 7, 3, Verdict.ABOVE, 2),
        ("l4", None, 1, Verdict.UNKNOWN, 0),
        ("x", None, None, Verdict.UNKNOWN, 0),
    ]
    lines = "\n".join(page_lines(view, jobs))
    assert "h100 0.000007, 0.000002 above the limit (cycle 3)" in lines
    assert "l4 unknown" in lines


def test_a_job_without_a_limit_is_within_any_price() -> None:
    view, _ = one(log_of(prices(1, 1, p=10**15), queued(), status()))
    assert view.prices[0].verdict is Verdict.WITHIN


def test_a_running_job_shows_lease_nodes_and_what_its_agents_said() -> None:
    log = log_of(
        queued(types=("h100",)),
        running(),
        lease("n-1", parts=2),
        lease("n-2", part=1, parts=2, devices=(4,), size_macc=1000),
        lease("n-3", name="l-2", job="k"),
        lease_status("n-1", "running"),
        lease_status("n-2", "stuck", detail="memory is held"),
    )
    view, jobs = one(log)
    assert [part.node for part in view.parts] == ["n-1", "n-2"]
    lines = "\n".join(page_lines(view, jobs))
    assert "devices 0, 1: running" in lines
    assert "devices 4: stuck (memory is held)" in lines
    assert [price.type for price in view.prices] == ["h100", "a100"], "where it runs, too"
    document = jobs_document(jobs)["jobs"][0]
    assert [each["said"] for each in document["nodes"]] == ["running", "stuck"]
    assert document["waiting"] is None


def test_a_leaving_job_shows_its_session_with_deadline_and_blockers() -> None:
    log = log_of(
        queued(),
        running(state="draining"),
        session("failed", session="s-0", opened_ms=NOW_MS - 5, lease="l-0"),
        session("checkpointing", blockers=("l-1 on n-1 saves step 5",), beyond_budget=True),
    )
    view, jobs = one(log)
    (text,) = [line for line in page_lines(view, jobs) if " drain " in line]
    assert "checkpointing: it was ordered, ends by 2027-01-15T08:01:40Z (in 1min 40s)" in text
    assert "beyond the disruption budget of its team" in text
    assert "waits for l-1 on n-1 saves step 5" in text
    assert jobs_document(jobs)["jobs"][0]["drain"]["state"] == "checkpointing"


def test_a_drain_of_an_earlier_lease_is_shown_on_the_page_of_the_job_alone() -> None:
    log = log_of(queued(), running(), session("freed", "l-0"))
    assert one(log)[0].session is not None
    assert read_jobs(log, "t").jobs[0].session is None


def test_ended_jobs_are_listed_when_asked_for_and_always_found_by_name() -> None:
    log = log_of(queued("k"), status("k"), status("j", "finished"))
    log.put(queued("j"))
    log.end(JobQueued, "t/j", "t")
    assert [view.job for view in read_jobs(log, "t").jobs] == ["k"]
    assert [view.job for view in read_jobs(log, "t", ended=True).jobs] == ["k", "j"]
    view, jobs = one(log)
    assert (view.state, view.queued) == ("finished", None)
    assert page_lines(view, jobs)[0].startswith("t/j: finished; as of barrier 0")
    log.end(JobStatusChanged, "t/j", "t")
    with pytest.raises(JobsLogError, match="team t has no job j") as caught:
        one(log)
    assert caught.value.code is Fault.UNKNOWN_JOB


def test_a_withdrawn_job_is_no_part_of_the_queue() -> None:
    log = log_of(queued("a", cancelled=True), status("a"), queued("b", position=1), status("b"))
    jobs = read_jobs(log, "t").jobs
    assert [(view.job, view.place and view.place.place) for view in jobs] == [("a", None), ("b", 1)]


def test_jobs_of_one_team_or_of_all_are_listed_with_what_runs_first() -> None:
    log = log_of(
        queued("b", position=1),
        status("b"),
        queued("c", position=5),
        running("c"),
        queued("a", position=2),
        queued("z", team="u"),
    )
    assert [view.job for view in read_jobs(log, "t").jobs] == ["c", "b", "a"]
    assert [view.job for view in read_jobs(log).jobs] == ["c", "b", "a", "z"]
    assert jobs_table(read_jobs(log)).row_count == 4
    assert read_jobs(log, "nobody").jobs == []


def test_what_is_shown_is_as_of_the_barrier_that_all_partitions_show() -> None:
    log = log_of(queued())
    assert read_jobs(log).barrier == log.barrier
    behind = shown_barrier([*log.read("job.status", JobStatusChanged)])
    items = [*log.read("job.status", JobStatusChanged)]
    ahead = Item("job.status", 1, 99, "", barrier=Barrier(1, NOW_MS + 5))
    assert shown_barrier([*items, ahead]) == behind == Barrier(0, NOW_MS)


def test_a_log_without_a_barrier_or_a_job_is_shown_as_such() -> None:
    jobs = read_jobs(MemoryLog())
    assert jobs_document(jobs) == {"barrier": None, "market_time_ms": None, "jobs": []}


def test_the_document_is_json_for_every_state() -> None:
    log = log_of(
        queued("a", deadline_ms=NOW_MS + HOUR_MS, expected_run_ms=5),
        queued("b", run={"command": ["x"]}),
        running("b"),
        status("c", "cancelled"),
    )
    shown = json.loads(json.dumps(jobs_document(read_jobs(log, ended=True))))["jobs"]
    assert [each["state"] for each in shown] == ["running", "queued", "cancelled"]
