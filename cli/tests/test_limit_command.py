"""`walras limit` sets the next revision of a job's limit, once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.jobs_events import NOW_MS, changed, pool, queued, status, submitted
from cli.tests.jobs_intake import MemoryIntake
from walras.jobs_log import Fault, JobsLogError
from walras.jobs_log.changing import Outcome
from walras.jobs_log.folding import latest
from walras.jobs_log.testing import MemoryLog
from walras.limit_command import limit_of, limit_words, set_limit
from walras_contracts.demand import JobLimitChanged, JobQueued
from walras_contracts.identifiers import digest_of


def market(**more: Any) -> tuple[MemoryLog, MemoryIntake]:
    """Return a market in which job ``j`` of team ``t`` is queued."""
    log = MemoryLog()
    log.pass_barrier(NOW_MS)
    intake = MemoryIntake(log, "t")
    intake.know(changed(pool("t")))
    log.write(submitted(**more), digest_of("first"), "test")
    intake.step(log)
    log.written.clear()
    return log, intake


def test_a_new_limit_is_the_next_revision() -> None:
    log, _ = market()
    found = set_limit(log, "t", "j", 5, 10_000)
    assert (found.outcome, found.queued) == (Outcome.TAKEN, queued(limit_micro=5, revision=1))
    assert log.written[0].event == JobLimitChanged(team="t", job="j", revision=1, limit_micro=5)
    found = set_limit(log, "t", "j", None, 10_000)
    assert found.queued == queued(limit_micro=None, revision=2)
    assert found.line("t/j", "has no limit") == "t/j: has no limit"


def test_a_limit_that_holds_already_is_not_written() -> None:
    log, _ = market(limit_micro=7)
    found = set_limit(log, "t", "j", 7, 10_000)
    assert (found.outcome, log.written) == (Outcome.ALREADY, [])
    assert "already; nothing was written" in found.line("t/j", "has the limit 7")


def test_the_same_change_told_twice_before_the_answer_counts_once() -> None:
    log, intake = market()
    intake.is_running = False
    assert set_limit(log, "t", "j", 5, None).outcome is Outcome.WRITTEN
    assert set_limit(log, "t", "j", 5, 0).outcome is Outcome.NOT_KNOWN
    intake.is_running = True
    assert set_limit(log, "t", "j", 5, 10_000).outcome is Outcome.TAKEN
    assert len({item.event_id for item in log.written}) == 1
    assert latest(log, JobQueued)["t/j"].revision == 1


def test_of_two_changes_in_one_moment_the_second_is_rejected_and_can_be_tried_again() -> None:
    log, intake = market()
    intake.is_running = False
    set_limit(log, "t", "j", 5, None)
    intake.is_running = True
    late = set_limit(log, "t", "j", 6, 10_000)
    assert late.outcome is Outcome.REFUSED
    assert "[stale_revision]" in late.line("t/j", "")
    assert set_limit(log, "t", "j", 6, 10_000).queued == queued(limit_micro=6, revision=2)


def test_a_change_back_and_forth_has_an_id_of_its_own_each_time() -> None:
    log, _ = market()
    for limit in (5, None, 5, None):
        assert set_limit(log, "t", "j", limit, 10_000).outcome is Outcome.TAKEN
    assert len({item.event_id for item in log.written}) == 4


def test_a_job_that_is_not_in_the_queue_has_no_limit_to_change() -> None:
    log, intake = market()
    with pytest.raises(JobsLogError, match="team t has no job x") as caught:
        set_limit(log, "t", "x", 5, 10_000)
    assert caught.value.code is Fault.UNKNOWN_JOB
    intake.end(status(state="finished"))
    intake.step(log)
    with pytest.raises(JobsLogError, match="it is finished") as caught:
        set_limit(log, "t", "j", 5, 10_000)
    assert caught.value.code is Fault.JOB_ENDED
    log.put(queued("k", cancelled=True))
    with pytest.raises(JobsLogError, match="was withdrawn"):
        set_limit(log, "t", "k", 5, 10_000)


def test_a_refusal_that_belongs_to_another_record_is_not_taken_for_the_answer() -> None:
    log, intake = market()
    log.write(submitted(types=("b",)), "other", "somebody")
    assert set_limit(log, "t", "j", 5, 10_000).outcome is Outcome.TAKEN
    assert intake.is_running


@pytest.mark.parametrize(
    ("text", "micro"), [("none", None), ("0", 0), ("2.5", 2_500_000), ("1000000", 10**12)]
)
def test_prices_are_credits(text: str, micro: int | None) -> None:
    assert limit_of(text) == micro


@pytest.mark.parametrize("text", ["-1", "2.5000001", "1000000.000001", "None", "free"])
def test_what_is_no_price_is_refused_with_what_to_give(text: str) -> None:
    with pytest.raises(JobsLogError, match="PRICE") as caught:
        limit_of(text)
    assert (caught.value.code, bool(caught.value.todo)) == (Fault.BAD_ARGUMENT, True)


@given(st.integers(0, 10**12))
def test_limits_are_shown_as_they_are_given(micro: int) -> None:
    words = limit_words(micro)
    assert limit_of(words.split()[3].replace(",", "")) == micro
