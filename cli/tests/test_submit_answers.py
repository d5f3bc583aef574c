"""A job is submitted once, however often it is asked for; the answer is intake's own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.tests.jobs_events import NOW_MS, changed, pool, queued, status, submitted, supply
from cli.tests.jobs_intake import MemoryIntake
from walras.jobs_log import Fault, JobsLogError
from walras.jobs_log.folding import latest
from walras.jobs_log.testing import MemoryLog
from walras.submit.job_file import JobFile, read_job_file
from walras.submit.submitting import Outcome, Submission, examined, submit
from walras_contracts.accounts import DrainTerms, PlatformDocument
from walras_contracts.demand import JobQueued, JobSubmitted

DAY_MS = 86_400_000


def file(job: str = "j", *more: str) -> JobFile:
    rows = ['team = "t"', f'job = "{job}"', 'types = ["a100"]', "accelerators = 8", *more]
    return read_job_file("job.toml", "\n".join(rows).encode())


def market(*teams: str, now_ms: int = NOW_MS) -> tuple[MemoryLog, MemoryIntake]:
    log = MemoryLog()
    log.pass_barrier(now_ms)
    log.put(supply())
    intake = MemoryIntake(log, "t")
    intake.know(changed(pool(*(teams or ("t",)))))
    return log, intake


def submit_file(
    log: MemoryLog, job: JobFile, *, wait: bool = True, timeout_ms: int = 10_000
) -> Submission:
    return submit(log, examined(log, job), wait=wait, timeout_ms=timeout_ms)


def test_an_accepted_job_is_told_with_its_place() -> None:
    log, _ = market()
    found = submit_file(log, file())
    assert (found.outcome, found.warnings) == (Outcome.ACCEPTED, [])
    assert found.queued == queued()
    assert log.written[0].event == submitted(), "submitted at the time of the last barrier"


def test_the_same_file_again_is_the_same_job_and_nothing_is_written() -> None:
    log, _ = market()
    submit_file(log, file())
    again = submit_file(log, file())
    assert (again.outcome, again.queued) == (Outcome.ALREADY, queued())
    assert len(log.written) == 1


def test_a_repeat_before_the_answer_counts_once() -> None:
    log, intake = market()
    intake.is_running = False
    first = submit_file(log, file(), wait=False)
    second = submit_file(log, file(), timeout_ms=0)
    assert (first.outcome, second.outcome) == (Outcome.WRITTEN, Outcome.NOT_KNOWN)
    assert first.event_id == second.event_id
    intake.is_running = True
    assert submit_file(log, file()).outcome is Outcome.ACCEPTED
    assert latest(log, JobQueued) == {"t/j": queued()}


def test_a_name_that_another_job_has_is_refused_naming_what_differs() -> None:
    log, _ = market()
    submit_file(log, file())
    with pytest.raises(JobsLogError, match="with another gang, limit_micro") as caught:
        submit_file(log, file("j", "gang = false", "limit = 1"))
    assert caught.value.code is Fault.JOB_EXISTS
    assert len(log.written) == 1


def test_a_limit_that_was_changed_since_does_not_make_it_another_job() -> None:
    log, _ = market()
    log.put(queued(revision=1, limit_micro=5))
    found = submit_file(log, file())
    assert found.outcome is Outcome.ALREADY
    assert found.warnings == [
        "its limit was changed since: the queue's counts, not the file's (walras limit)"
    ]
    log.put(queued(limit_micro=5))
    with pytest.raises(JobsLogError, match="another limit_micro"):
        submit_file(log, file())


def test_a_job_that_was_withdrawn_is_not_taken_for_the_one_that_is_submitted() -> None:
    log, _ = market()
    log.put(queued(cancelled=True))
    with pytest.raises(JobsLogError, match="was withdrawn, and is still leaving") as caught:
        submit_file(log, file())
    assert caught.value.code is Fault.JOB_ENDED


def test_a_rejection_is_told_and_the_next_attempt_is_judged_anew() -> None:
    log, intake = market("other")
    refused = submit_file(log, file())
    assert refused.outcome is Outcome.REFUSED
    assert refused.refusal is not None
    assert (refused.refusal.code, refused.refusal.path) == ("unknown_team", "$.team")
    again = submit_file(log, file())
    assert again.refusal is not None
    assert again.event_id != refused.event_id
    intake.know(changed(pool("t", "other"), 2))
    assert submit_file(log, file()).outcome is Outcome.ACCEPTED


def test_the_name_of_an_ended_job_is_refused_for_a_day_and_then_free() -> None:
    log, intake = market()
    submit_file(log, file())
    intake.end(status(state="finished", changed_ms=NOW_MS + 7))
    intake.step(log)
    refused = submit_file(log, file())
    assert refused.outcome is Outcome.REFUSED
    assert refused.refusal is not None
    assert refused.refusal.code == "job_ended"
    log.pass_barrier(NOW_MS + DAY_MS + 60_000)
    assert submit_file(log, file()).outcome is Outcome.ACCEPTED


def test_what_intake_takes_for_a_repeat_is_said_not_to_be_in_the_queue() -> None:
    log, intake = market()
    submit_file(log, file())
    # The job ends in the very step that judges the repeat: its end could not be read before.
    intake.end(status(state="finished"), shown=False)
    intake.step(log)
    found = submit_file(log, file())
    assert (found.outcome, found.queued, found.refusal) == (Outcome.NOT_TAKEN, None, None)


def test_without_intake_nothing_is_known() -> None:
    log, intake = market()
    intake.is_running = False
    found = submit_file(log, file(), timeout_ms=0)
    assert (found.outcome, found.queued) == (Outcome.NOT_KNOWN, None)


def test_a_type_that_no_supply_names_is_warned_of() -> None:
    log, _ = market()
    text = 'team = "t"\njob = "j"\ntypes = ["a100", "x", "y"]\naccelerators = 1'
    assert examined(log, read_job_file("f", text.encode())).warnings == [
        "types: no supply names x, y: passed over"
    ]
    text = text.replace('"a100", ', "")
    assert examined(log, read_job_file("f", text.encode())).warnings == [
        "types: no supply names x, y: it waits until there is"
    ]


def test_the_grace_chain_is_held_against_the_terms_in_force() -> None:
    log, _ = market()
    run = ("[run]", 'command = ["x"]', 'checkpoint = "45s"')
    assert examined(log, file("j", *run)).warnings == []
    soon = PlatformDocument(drains=DrainTerms(warning_ms=44_000))
    log.put(changed(soon, 1, NOW_MS + 1))
    assert examined(log, file("j", *run)).warnings == [], "not in effect yet"
    log.put(changed(soon, 2, NOW_MS))
    (warning,) = examined(log, file("j", *run)).warnings
    assert "the platform's warning_ms grants 44s, run.checkpoint needs 45s" in warning


def test_a_deadline_that_is_over_in_market_time_is_refused() -> None:
    log, _ = market()
    with pytest.raises(JobsLogError, match="line 5: deadline: it is over"):
        examined(log, file("j", "deadline = 2027-01-15T08:00:00Z"))
    found = examined(log, file("j", "deadline = 2027-01-15T08:00:00.001Z"))
    assert found.job.deadline_ms == NOW_MS + 1


STEPS = st.lists(
    st.sampled_from(["submit", "no_wait", "impatient", "end", "step", "day", "other"]), max_size=12
)


@settings(max_examples=60)
@given(STEPS)
def test_whatever_is_repeated_a_job_is_in_the_queue_once(steps: list[str]) -> None:
    log, intake = market()
    now_ms = NOW_MS
    positions: set[int] = set()
    refusals: list[Fault] = []
    alive = False
    for step in steps:
        if step in {"submit", "no_wait", "impatient", "other"}:
            more = ["gang = false"] if step == "other" else []
            try:
                submit_file(log, file("j", *more), wait=step in {"submit", "impatient"})
            except JobsLogError as error:
                refusals.append(error.code)
        elif step == "end" and alive:
            intake.end(status(state="finished", changed_ms=now_ms))
        now_ms += DAY_MS + 1 if step == "day" else 1
        log.pass_barrier(now_ms)
        intake.step(log)
        entries = latest(log, JobQueued)
        assert set(entries) <= {"t/j"}
        alive = bool(entries)
        positions |= {entry.position for entry in entries.values()}
    submissions = {item.event_id for item in log.written if isinstance(item.event, JobSubmitted)}
    assert len(positions) <= len(submissions)
    assert set(refusals) <= {Fault.JOB_EXISTS}
