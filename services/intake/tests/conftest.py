"""Four intakes on one log in memory, and how a test speaks to them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from walras_contracts.accounts import AccountsRequested, PoolDocument, TeamAccount
from walras_contracts.demand import JobCancelled, JobLimitChanged, JobSubmitted
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import JobState, JobStatusChanged
from walras_intake.settings import Settings
from walras_intake.wiring import build
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import Barrier, Output, emit
from walras_runtime.stage import Stage

START_MS = 1_728_000_000_000
INTERVAL_MS = 60_000
BARRIER_TOPICS = ("demand", "accounts.requests", "job.status")
PARTITIONS = range(4)


class Intakes:
    """The four stages; ``make`` replaces the stage, for canaries."""

    def __init__(self, make: Callable[[int], Stage] | None = None) -> None:
        self.spec = build(Settings(kafka_bootstrap="none:0"))
        if make is not None:
            self.spec = replace(self.spec, build=make)
        self.log = MemoryLog(load_topics())
        self.number = -1
        self.crash()

    def crash(self) -> None:
        """Drop the processes and start new ones on the same log."""
        self.runners = [MemoryRunner(self.spec, self.log, p) for p in PARTITIONS]

    def compact(self) -> None:
        for name, topic in self.log.topics.items():
            if topic.cleanup == "compact":
                self.log.compact(name)

    def tell(self, event: Event, event_id: str, source: str = "test") -> None:
        self.log.append([emit(event)], source=source, event_ids=[event_id])

    def tell_bytes(
        self,
        payload: bytes | None,
        *,
        topic: str = "demand",
        partition: int = 0,
        type_: str = JobSubmitted.TYPE,
        event_id: str = "e",
        source: str = "test",
    ) -> None:
        output = Output(topic, "k", "", type_, payload, partition)
        self.log.append([output], source=source, event_ids=[event_id])

    def pool(self, pool: str, *teams: str, event_id: str, weight: int = 1_000_000) -> None:
        accounts = tuple(TeamAccount(team=t, income_local_per_hour=10) for t in teams)
        document = PoolDocument(pool=pool, weight_micro_per_hour=weight, teams=accounts)
        self.tell(AccountsRequested(document=document), event_id)

    def submit(self, team: str, job: str, *, event_id: str, limit: int | None = None) -> None:
        event = JobSubmitted(
            team=team, job=job, types=("a100",), size_macc=4000, limit_micro=limit, submitted_ms=1
        )
        self.tell(event, event_id)

    def limit(
        self, team: str, job: str, revision: int, limit: int | None, *, event_id: str
    ) -> None:
        event = JobLimitChanged(team=team, job=job, revision=revision, limit_micro=limit)
        self.tell(event, event_id)

    def cancel(self, team: str, job: str, *, event_id: str) -> None:
        self.tell(JobCancelled(team=team, job=job), event_id)

    def status(self, team: str, job: str, state: JobState) -> None:
        event = JobStatusChanged(
            team=team,
            job=job,
            state=state,
            reason="",
            market=None,
            lease=None,
            work_class=None,
            attempt=0,
            remaining_run_ms=None,
            waited_ms=0,
            started_ms=None,
            changed_ms=1,
            needed_macc=0,
            available_macc=0,
        )
        self.tell(event, "status", "placement")

    def tick(self, skip_intervals: int = 0) -> int:
        """Close the interval and let all stages work; return its market time."""
        self.number += 1
        self.time_ms = (
            getattr(self, "time_ms", START_MS - INTERVAL_MS) + (1 + skip_intervals) * INTERVAL_MS
        )
        for topic in BARRIER_TOPICS:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self.number, self.time_ms))
        while sum(runner.advance(1) for runner in self.runners):
            pass
        assert [r.position.step for r in self.runners] == [self.number] * 4
        return self.time_ms

    def written(self, topic: str) -> list[tuple[int, str, bytes | None]]:
        """All records that the stages wrote: partition, key, payload."""
        return [
            (partition, entry.key, entry.payload)
            for partition in self.log.partitions(topic)
            for entry in self.log.read(topic, partition, 0)
            if entry.barrier is None
        ]

    def table(self, topic: str) -> dict[str, bytes]:
        """Latest value of each key, tombstones left out."""
        latest = {key: payload for _, key, payload in self.written(topic)}
        return {key: payload for key, payload in sorted(latest.items()) if payload is not None}

    def events(self, topic: str) -> list[Any]:
        type_ = self.log.topics[topic].events[0]
        return [
            decode_inner(type_, payload)
            for _, _, payload in self.written(topic)
            if payload is not None
        ]

    def queue(self) -> dict[str, Any]:
        type_ = self.log.topics["queue"].events[0]
        return {key: decode_inner(type_, value) for key, value in self.table("queue").items()}

    def codes(self) -> list[str]:
        return [rejected.code for rejected in self.events("demand.rejected")]

    def state(self) -> dict[str, str]:
        return dict(state_digest_input(self.log, "intake"))


@pytest.fixture(scope="session")
def make_intakes() -> Callable[..., Any]:
    return Intakes
