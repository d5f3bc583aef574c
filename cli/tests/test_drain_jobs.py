"""`walras drain TEAM/JOB` writes one order, and follows it to its end."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest

from cli.tests.jobs_events import NOW_MS, lease, queued, running, session, status
from walras.drain.job_order import find_target, order_of
from walras.drain.progress import End, Outcome
from walras.drain_command import drain_job
from walras.jobs_log import Fault, JobsLogError
from walras.jobs_log.testing import MemoryLog
from walras_contracts.drains import DrainOrdered

STEP_MS = 5000
Answer = Callable[[MemoryLog], None]


def log_of(*events: Any) -> MemoryLog:
    log = MemoryLog()
    log.put(*(events or (queued(), running(), lease())))
    log.pass_barrier(NOW_MS)
    return log


def answers(log: MemoryLog, *steps: Answer) -> None:
    """Let each idle moment be a step in which something is answered, then a barrier."""
    waiting = list(steps)

    def step(_: MemoryLog) -> bool:
        if not waiting:
            return False
        waiting.pop(0)(log)
        assert log.barrier is not None
        log.pass_barrier(log.barrier.market_time_ms + STEP_MS)
        return True

    log.on_idle = step


def put(*events: Any) -> Answer:
    return lambda log: log.put(*events)


def drain(log: MemoryLog, **more: Any) -> tuple[End, dict[str, Any]]:
    given = {"cancel": False, "reason": None, "key": None, "no_wait": False, "timeout_s": None}
    return drain_job(log, "t", "j", Namespace(**(given | more)))


def ordered(log: MemoryLog) -> list[DrainOrdered]:
    return [item.event for item in log.written if isinstance(item.event, DrainOrdered)]


def test_an_ordered_drain_is_followed_until_its_devices_are_free(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = log_of()
    answers(
        log,
        put(),
        put(session("warned")),
        put(session("checkpointing", blockers=("l-1 on n-1 saves step 5",))),
        put(session("freed")),
    )
    end, document = drain(log, reason="new driver")
    assert (end.outcome, end.words) == (Outcome.DONE, "t/j: its devices are free")
    (order,) = ordered(log)
    assert (order.team, order.job, order.cancel, order.reason) == ("t", "j", False, "new driver")
    assert order.ordered_ms == NOW_MS, "never before the lease that it speaks of"
    assert document["order"]["order"] == order.order
    assert document["session"]["state"] == "freed"
    told = capsys.readouterr().err
    assert f"order {order.order}: drain t/j, lease l-1" in told
    assert "t/j: warned: it was ordered, ends by 2027-01-15T08:01:40Z" in told
    assert "waits for l-1 on n-1 saves step 5" in told


@pytest.mark.parametrize(
    ("state", "more", "words"),
    [
        ("failed", {"outcome": "agent_lost"}, "the drain failed (agent_lost)"),
        ("failed", {"outcome": "device_not_freed", "blockers": ("n-1: pid 5",)}, "n-1: pid 5"),
        ("cancelled", {}, "the drain was cancelled; it runs on"),
    ],
)
def test_a_drain_that_ends_otherwise_is_said_so(
    state: str, more: dict[str, Any], words: str
) -> None:
    log = log_of()
    answers(log, put(session("warned")), put(session(state, **more)))
    end, _ = drain(log)
    assert end.outcome is Outcome.OTHERWISE
    assert words in end.words


def test_a_session_of_another_lease_or_job_is_not_followed() -> None:
    log = log_of()
    other = session("freed", "l-2", job="k")
    answers(log, put(other, session("freed", "l-0")), put(session("freed", opened_ms=NOW_MS + 5)))
    end, document = drain(log)
    assert end.outcome is Outcome.DONE
    assert document["session"]["opened_ms"] == NOW_MS + 5


def test_a_session_of_the_lease_that_ended_before_is_not_taken_for_the_answer() -> None:
    log = log_of(queued(), running(), session("cancelled", session="old", opened_ms=NOW_MS - 9))
    answers(log, put(), put(session("freed", session="new")))
    assert drain(log)[0].outcome is Outcome.DONE


def test_a_job_that_ends_by_itself_needs_no_drain() -> None:
    log = log_of()
    answers(log, put(status(state="finished")))
    end, _ = drain(log)
    assert end.outcome is Outcome.DONE
    assert "without a drain: it is finished" in end.words


def test_the_id_of_an_order_is_a_function_of_its_key_or_of_lease_and_step() -> None:
    def name(log: MemoryLog, *, cancel: bool = False, key: str | None = None) -> str:
        target = find_target(log, "t", "j", cancel=False)
        return order_of(log, target, cancel=cancel, reason="r", key=key).order

    log = log_of()
    first, with_key = name(log), name(log, key="k")
    assert first == name(log)
    log.pass_barrier(NOW_MS + STEP_MS)
    assert name(log) != first, "another step, another order"
    assert name(log, key="k") == with_key
    assert len({first, with_key, name(log, key="l"), name(log, cancel=True, key="k")}) == 4
    with_lease = log_of(queued(), running(lease="l-2"))
    assert name(with_lease) != first
    assert name(with_lease, key="k") == with_key


def test_a_cancel_ends_an_ordered_drain() -> None:
    log = log_of(queued(), running(state="draining"), session("checkpointing"))
    answers(log, put(), put(session("cancelled")))
    end, _ = drain(log, cancel=True)
    assert (end.outcome, end.words) == (Outcome.DONE, "t/j: the drain was cancelled; it runs on")
    assert ordered(log)[0].cancel


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (session("terminating", outcome="cancel_rejected"), "the cancel came too late"),
        (session("freed"), "its devices are free"),
    ],
)
def test_a_cancel_that_comes_too_late_is_said_so(said: Any, words: str) -> None:
    log = log_of(queued(), running(state="draining"), session("checkpointing"))
    answers(log, put(said))
    end, _ = drain(log, cancel=True)
    assert end.outcome is Outcome.OTHERWISE
    assert words in end.words


def test_a_cancel_before_a_session_began_is_over_when_none_begins() -> None:
    log = log_of()
    drain(log, no_wait=True)
    log.pass_barrier(NOW_MS + STEP_MS)
    answers(log, *[put()] * 6)
    end, document = drain(log, cancel=True)
    assert end.outcome is Outcome.DONE
    assert "no drain is under way" in end.words
    assert document["session"] is None


def test_a_cancel_before_a_session_began_waits_for_one_that_may_begin_yet() -> None:
    log = log_of()
    drain(log, no_wait=True)
    log.pass_barrier(NOW_MS + STEP_MS)
    answers(log, put(), put(), put(session("warned")), put(session("freed")))
    end, _ = drain(log, cancel=True)
    assert (end.outcome, end.words) == (Outcome.OTHERWISE, "t/j: its devices are free")


def test_a_drain_that_nobody_ordered_cannot_be_cancelled_here() -> None:
    log = log_of(queued(), running(state="draining"), session("warned", reason="quota_lost"))
    with pytest.raises(JobsLogError, match="leaves because of quota_lost") as caught:
        drain(log, cancel=True)
    assert caught.value.code is Fault.NOT_ORDERED
    with pytest.raises(JobsLogError, match="nobody ordered that it leave") as caught:
        drain(log_of(), cancel=True)
    assert caught.value.code is Fault.NOT_DRAINING


def test_an_order_that_was_cancelled_or_was_for_an_earlier_lease_cannot_be_cancelled() -> None:
    log = log_of()
    drain(log, no_wait=True)
    log.pass_barrier(NOW_MS + STEP_MS)
    drain(log, no_wait=True, cancel=True)
    with pytest.raises(JobsLogError):
        drain(log, cancel=True)
    log = log_of()
    drain(log, no_wait=True)
    log.put(running(lease="l-2", started_ms=NOW_MS + 1))
    with pytest.raises(JobsLogError):
        drain(log, cancel=True)


@pytest.mark.parametrize(
    ("events", "fault", "words"),
    [
        ([queued("k")], Fault.UNKNOWN_JOB, "team t has no job j"),
        ([queued()], Fault.NOT_RUNNING, "does not run"),
        ([queued(), status()], Fault.NOT_RUNNING, "does not run"),
        ([status(state="finished")], Fault.JOB_ENDED, "is finished: nothing runs"),
    ],
)
def test_what_does_not_run_is_not_drained(events: list[Any], fault: Fault, words: str) -> None:
    log = log_of(*events)
    with pytest.raises(JobsLogError, match=words) as caught:
        drain(log)
    assert (caught.value.code, log.written) == (fault, [])


def test_without_waiting_the_order_is_written_and_nothing_followed() -> None:
    log = log_of()
    end, document = drain(log, no_wait=True)
    assert (end.outcome, document["session"]) == (Outcome.WRITTEN, None)
    assert len(log.written) == 1
