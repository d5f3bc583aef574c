"""The story of `walras demo-nodes`: what it waits for, and what it gives up for."""

from pathlib import Path

import pytest

from cli.tests.demo_nodes_story import at, grant, life, scenario, story
from walras.demo_nodes.folders import NodeFolders
from walras.demo_nodes.story import Story, StoryBrokenError
from walras.demo_nodes.watching import MarketWatch, StoryStalledError
from walras.jobs_log.testing import MemoryLog
from walras_contracts.demand import DemandRejected
from walras_contracts.event import Event
from walras_contracts.market import PricePublished
from walras_contracts.work import LeaseOutcome, LeaseStatusChanged


def watched(*events: Event, seen: list[Event] | None = None) -> MarketWatch:
    """Return a watch of a log to which events come once it follows."""
    coming = list(events)

    def more(log: MemoryLog) -> bool:
        if coming:
            log.put(coming.pop(0))
        return True

    found: list[Event] = [] if seen is None else seen
    return MarketWatch(MemoryLog(on_idle=more), lambda: None, found.append)


def told(watch: MarketWatch, directory: Path) -> Story:
    return Story("nowhere:1", scenario(), NodeFolders(directory), watch, lambda _line: None)


def follow_all(watch: MarketWatch, count: int) -> None:
    def seen() -> bool | None:
        statuses, refusals = watch.of(LeaseStatusChanged), watch.of(DemandRejected)
        return len(statuses) + len(refusals) >= count or None

    watch.until(seen, "all of them")


def test_a_watch_keeps_events_by_type_and_tells_each_once() -> None:
    seen: list[Event] = []
    prices = story().prices
    watch = watched(*prices, story().vacates[0], seen=seen)
    found = watch.until(lambda: len(seen) == 5 or None, "five events")
    assert found is True
    assert watch.of(PricePublished) == list(prices)
    assert len(watch.of(type(story().vacates[0]))) == 1


def test_what_does_not_come_is_named_with_what_to_do() -> None:
    with pytest.raises(StoryStalledError, match="did not come: a miracle; look into the logs"):
        watched().until(lambda: None, "a miracle", within_s=0.0)


def test_barriers_count_once_every_partition_shows_them() -> None:
    def ring(log: MemoryLog) -> bool:
        log.pass_barrier(at(1_000), "charges")
        return True

    watch = MarketWatch(MemoryLog(on_idle=ring), lambda: None, lambda _event: None)
    assert watch.barrier_ms("charges", 4) == 0
    assert watch.until(lambda: watch.barrier_ms("charges", 4) or None, "barriers") == at(1_000)
    assert watch.barrier_ms("charges", 5) == 0


def test_a_rejected_job_ends_the_story_with_the_words_of_intake(tmp_path: Path) -> None:
    refusal = DemandRejected(
        code="unknown_team",
        path="$.team",
        reason="no such team",
        source="test",
        event_id="e1",
        topic="demand",
        partition=0,
        offset=0,
    )
    watch = watched(refusal)
    follow_all(watch, 1)
    with pytest.raises(StoryBrokenError, match="intake rejected a job: no such team"):
        told(watch, tmp_path).unbroken()


def test_a_job_that_fails_ends_the_story_with_what_it_printed(tmp_path: Path) -> None:
    failed = life(grant("pretrain.1", "vision", "node-1", 0), 500, 900, LeaseOutcome.FAILED)
    watch = watched(failed[2].model_copy(update={"exit_code": 3, "detail": "exit"}))
    follow_all(watch, 1)
    output = NodeFolders(tmp_path).state("node-1") / "parts" / "pretrain.1" / "output.log"
    output.parent.mkdir(parents=True)
    output.write_text("no module named numpy\n", "utf-8")
    with pytest.raises(StoryBrokenError) as caught:
        told(watch, tmp_path).unbroken()
    text = str(caught.value)
    assert "vision/pretrain on node-1 ended as failed (exit code 3, exit)" in text
    assert text.endswith("its output ends with:\nno module named numpy")


def test_a_job_that_ends_before_the_price_rises_ends_the_story(tmp_path: Path) -> None:
    granted = grant("pretrain.1", "vision", "node-1", 0)
    watch = watched(*life(granted, 500, 900, LeaseOutcome.FINISHED))
    follow_all(watch, 3)
    with pytest.raises(StoryBrokenError, match="has finished before the price rose"):
        told(watch, tmp_path).unbroken()


def test_a_story_that_goes_well_is_not_broken(tmp_path: Path) -> None:
    watch = watched(story().vacates[0], *story().statuses)
    follow_all(watch, len(story().statuses))
    told(watch, tmp_path).unbroken()
