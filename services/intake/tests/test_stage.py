from collections.abc import Callable
from typing import Any

import pytest

from walras_contracts.topics import load_topics
from walras_contracts.work import JobState
from walras_intake.settings import Settings
from walras_intake.wiring import build

Make = Callable[..., Any]
FIVE_MINUTES_MS = 300_000


@pytest.fixture
def intakes(make_intakes: Make) -> Any:
    intakes = make_intakes()
    intakes.pool("red", "ann", "bob", event_id="p1")
    intakes.pool("blue", "cat", event_id="p2")
    intakes.tick()
    return intakes


def test_one_hundred_submissions_of_one_job_leave_one_queue_entry(intakes: Any) -> None:
    """O19 as far as intake goes."""
    for attempt in range(100):
        intakes.submit("ann", "j1", event_id=f"e{attempt}")
        if attempt % 10 == 9:
            intakes.tick()
    assert [job.size_macc for job in intakes.queue().values()] == [4000]
    assert len(intakes.written("queue")) == 1
    assert intakes.codes() == ["job_exists"] * 99


def test_one_event_told_one_hundred_times_is_one_job_and_no_rejection(intakes: Any) -> None:
    for _ in range(100):
        intakes.submit("ann", "j1", event_id="e")
    intakes.tick()
    assert len(intakes.written("queue")) == 1
    assert intakes.codes() == []
    assert sum(runner.stage.repeats for runner in intakes.runners) == 99


def test_demand_in_the_interval_of_its_teams_first_document_is_taken(make_intakes: Make) -> None:
    intakes = make_intakes()
    intakes.submit("ann", "j1", event_id="e")
    intakes.pool("red", "ann", event_id="p")
    intakes.tick()
    assert intakes.queue()["ann/j1"].pool == "red"


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda i: i.submit("nobody", "j", event_id="x"), "unknown_team"),
        (lambda i: i.cancel("nobody", "j", event_id="x"), "unknown_team"),
        (lambda i: i.cancel("ann", "j", event_id="x"), "unknown_job"),
        (lambda i: i.limit("ann", "j", 1, 5, event_id="x"), "unknown_job"),
        (lambda i: i.submit("ann", "known", event_id="x"), "job_exists"),
        (lambda i: i.limit("ann", "known", 2, 6, event_id="x"), "stale_revision"),
        (lambda i: i.limit("ann", "known", 1, 5, event_id="x"), "stale_revision"),
        (lambda i: i.submit("ann", "over", event_id="x"), "job_ended"),
        (lambda i: i.cancel("ann", "over", event_id="x"), "job_ended"),
        (lambda i: i.limit("ann", "over", 9, 5, event_id="x"), "job_ended"),
        (lambda i: i.pool("blue", "cat", "ann", event_id="x"), "team_in_two_pools"),
    ],
)
def test_each_refusal_has_its_code(intakes: Any, ask: Callable[[Any], None], code: str) -> None:
    intakes.submit("ann", "known", event_id="k")
    intakes.limit("ann", "known", 2, 5, event_id="l")
    intakes.submit("ann", "over", event_id="o")
    intakes.tick()
    intakes.status("ann", "over", JobState.FINISHED)
    intakes.tick()
    intakes.tick()
    before = intakes.table("queue"), intakes.table("accounts")
    ask(intakes)
    intakes.tick()
    assert intakes.codes() == [code]
    assert (intakes.table("queue"), intakes.table("accounts")) == before


def test_an_equal_revision_with_an_equal_limit_is_a_repeat(intakes: Any) -> None:
    intakes.submit("ann", "j", event_id="e")
    intakes.limit("ann", "j", 3, 5, event_id="l1")
    intakes.limit("ann", "j", 3, 5, event_id="l2")
    intakes.tick()
    assert intakes.codes() == []
    assert len(intakes.written("queue")) == 2
    assert (intakes.queue()["ann/j"].revision, intakes.queue()["ann/j"].limit_micro) == (3, 5)


def test_a_cancelled_job_stays_in_the_queue_until_placement_has_ended_it(intakes: Any) -> None:
    intakes.submit("ann", "j", event_id="e")
    intakes.cancel("ann", "j", event_id="c1")
    intakes.cancel("ann", "j", event_id="c2")
    intakes.tick()
    assert intakes.queue()["ann/j"].cancelled
    assert len(intakes.written("queue")) == 2
    intakes.status("ann", "j", JobState.CANCELLED)
    intakes.tick()
    assert "ann/j" in intakes.queue()
    intakes.tick()
    assert intakes.queue() == {}
    intakes.cancel("ann", "j", event_id="c3")
    intakes.tick()
    assert intakes.codes() == []


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING, JobState.DRAINING])
def test_a_job_that_goes_on_stays_in_the_queue(intakes: Any, state: JobState) -> None:
    intakes.submit("ann", "j", event_id="e")
    intakes.status("ann", "j", state)
    intakes.tick()
    intakes.tick()
    assert "ann/j" in intakes.queue()


def test_the_name_of_an_ended_job_is_free_again_after_a_day(intakes: Any) -> None:
    intakes.submit("ann", "j", event_id="e")
    intakes.status("ann", "j", JobState.FINISHED)
    intakes.tick()
    intakes.tick()
    intakes.tick(skip_intervals=24 * 60 - 2)
    intakes.crash()
    intakes.submit("ann", "j", event_id="late")
    intakes.tick()
    assert intakes.codes() == []
    assert intakes.queue()["ann/j"].position == 1


def test_the_name_of_an_ended_job_is_taken_for_a_day(intakes: Any) -> None:
    intakes.submit("ann", "j", event_id="e")
    intakes.status("ann", "j", JobState.FINISHED)
    intakes.tick()
    intakes.tick()
    intakes.submit("ann", "j", event_id="early")
    intakes.tick(skip_intervals=24 * 60 - 2)
    assert intakes.codes() == ["job_ended"]


def test_a_first_document_counts_at_once_and_later_ones_from_the_next_boundary(
    intakes: Any,
) -> None:
    intakes.pool("red", "ann", event_id="p3")
    second_ms = intakes.tick()
    on_boundary_ms = intakes.tick(skip_intervals=2)
    assert on_boundary_ms == second_ms + 3 * 60_000
    intakes.pool("red", "ann", "bob", event_id="p4")
    boundary_ms = intakes.tick()
    assert boundary_ms % FIVE_MINUTES_MS == 0
    red = [e for e in intakes.events("accounts") if e.document.pool == "red"]
    assert [e.version for e in red] == [1, 2, 3]
    first_ms = second_ms - 60_000
    assert [e.effective_ms for e in red] == [
        first_ms,
        boundary_ms,
        boundary_ms + FIVE_MINUTES_MS,
    ]


def test_a_team_that_two_first_documents_name_in_one_interval_is_in_the_first_one(
    make_intakes: Make,
) -> None:
    pools = [f"pool{n}" for n in range(12)]
    intakes = make_intakes()
    for pool in pools:
        intakes.pool(pool, "ann", event_id=pool)
    intakes.tick()
    assert len(intakes.written("accounts")) == 1
    assert intakes.codes() == ["team_in_two_pools"] * 11


def test_a_team_moves_at_the_boundary_with_its_jobs(intakes: Any) -> None:
    intakes.submit("ann", "j", event_id="e")
    intakes.pool("red", "bob", event_id="p3")
    intakes.tick()
    intakes.pool("blue", "cat", "ann", event_id="p4")
    intakes.tick()
    intakes.tick()
    assert intakes.codes() == []
    assert intakes.queue()["ann/j"].pool == "red"
    moved_ms = intakes.tick(skip_intervals=1)
    assert moved_ms % FIVE_MINUTES_MS == 0
    assert intakes.queue()["ann/j"].pool == "blue"
    assert intakes.queue()["ann/j"].position == 0


def test_a_new_pool_cannot_take_a_team_before_its_old_pool_has_let_it_go(intakes: Any) -> None:
    intakes.pool("red", "bob", event_id="p3")
    intakes.tick()
    intakes.pool("green", "ann", event_id="p4")
    intakes.tick()
    assert intakes.codes() == ["team_in_two_pools"]
    intakes.tick(skip_intervals=5)
    intakes.pool("green", "ann", event_id="p5")
    intakes.tick()
    assert intakes.codes() == ["team_in_two_pools"]
    assert "pool/green" in intakes.table("accounts")


def test_an_account_document_that_changes_nothing_makes_no_version(intakes: Any) -> None:
    intakes.pool("red", "ann", "bob", event_id="again")
    intakes.tick()
    assert [e.version for e in intakes.events("accounts")] == [1, 1]
    assert intakes.codes() == []


def test_a_record_in_a_partition_that_is_not_its_teams_is_refused(intakes: Any) -> None:
    payload = b'{"team":"ann","job":"j","types":["a"],"size_macc":1,"submitted_ms":1}'
    for partition in range(4):
        intakes.tell_bytes(payload, partition=partition, event_id="e")
    intakes.tick()
    assert list(intakes.queue()) == ["ann/j"]
    assert intakes.codes() == ["invalid_value"] * 3
    rejections = intakes.events("demand.rejected")
    assert {r.path for r in rejections} == {"$.team"}


def test_a_rejection_names_the_coordinates_and_lies_in_the_own_partition(intakes: Any) -> None:
    intakes.tell_bytes(b"{", partition=2, event_id="bad", source="who")
    intakes.tell_bytes(b"[]", topic="accounts.requests", partition=3, type_="nonsense")
    intakes.tick()
    offset = len([e for e in intakes.log.read("demand", 2, 0) if e.barrier]) - 1
    first, second = intakes.events("demand.rejected")
    assert (first.topic, first.partition, first.offset) == ("demand", 2, offset)
    assert (first.source, first.event_id, first.code) == ("who", "bad", "invalid_json")
    assert (second.topic, second.partition) == ("accounts.requests", 3)
    assert [partition for partition, _, _ in intakes.written("demand.rejected")] == [2, 3]


def test_the_wiring_agrees_with_the_topic_registry() -> None:
    spec = build(Settings(kafka_bootstrap="none:0"))
    topics = load_topics()
    assert {s.topic for s in spec.inputs} == {
        name for name, topic in topics.items() if "intake" in topic.consumers
    } - {"state.intake", "claims"}
    assert set(spec.outputs) == {
        name for name, topic in topics.items() if topic.producer == "intake"
    } - {"state.intake"}
    assert spec.state_topic in topics
    assert len({topics[n].partitions for n in ("demand", *spec.outputs)}) == 1
    assert not any(source.may_be_late for source in spec.inputs)
