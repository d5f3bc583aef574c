"""`walras cancel` withdraws a job, once."""

import pytest

from cli.tests.jobs_events import queued, status
from cli.tests.test_limit_command import market
from walras.cancel_command import withdraw
from walras.jobs_log import Fault, Item, JobsLogError
from walras.jobs_log.changing import Outcome
from walras_contracts.demand import DemandRejected, JobCancelled


def test_a_withdrawn_job_is_told_as_the_queue_shows_it() -> None:
    log, _ = market()
    found = withdraw(log, "t", "j", 10_000)
    assert (found.outcome, found.queued) == (Outcome.TAKEN, queued(cancelled=True))
    assert log.written[0].event == JobCancelled(team="t", job="j")
    assert found.document("t/j")["outcome"] == "taken"


def test_a_job_that_is_withdrawn_already_is_not_withdrawn_again() -> None:
    log, _ = market()
    withdraw(log, "t", "j", 10_000)
    assert withdraw(log, "t", "j", 10_000).outcome is Outcome.ALREADY
    assert len(log.written) == 1


def test_a_job_that_ends_by_itself_in_the_same_moment_is_said_to_have_ended() -> None:
    log, intake = market()
    intake.end(status(state="finished"))
    found = withdraw(log, "t", "j", 10_000)
    assert (found.outcome, found.queued) == (Outcome.ENDED, None), "its tombstone came first"
    log, intake = market()
    intake.end(status(state="finished"))

    def refuse(_log: object, item: Item) -> None:
        log.put_at(
            DemandRejected(
                code="job_ended",
                path="$.job",
                reason="ended",
                source="",
                event_id=item.event_id,
                topic=item.topic,
                partition=item.partition,
                offset=item.offset,
            ),
            item.partition,
        )

    log.on_write = refuse
    assert withdraw(log, "t", "j", 10_000).outcome is Outcome.ENDED, "the refusal came first"


def test_without_an_answer_nothing_is_known_and_the_words_say_what_to_do() -> None:
    log, intake = market()
    intake.is_running = False
    found = withdraw(log, "t", "j", 0)
    assert found.outcome is Outcome.NOT_KNOWN
    assert "does intake run?" in found.line("t/j", "is withdrawn")
    assert withdraw(log, "t", "j", None).outcome is Outcome.WRITTEN
    assert len({item.event_id for item in log.written}) == 1


def test_an_unknown_job_is_refused() -> None:
    log, _ = market()
    with pytest.raises(JobsLogError) as caught:
        withdraw(log, "t", "nothing", 10_000)
    assert caught.value.code is Fault.UNKNOWN_JOB
    assert caught.value.todo == "`walras jobs t` lists its jobs"
