"""The story: a job trains, others bid it away, it leaves and goes on where room comes first."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from walras.demo_nodes.folders import NodeFolders
from walras.demo_nodes.job_files import job_file
from walras.demo_nodes.journal import Attempt, TrainingJournal, read_journal
from walras.demo_nodes.scenario import NodesScenario, TrainingJob
from walras.demo_nodes.watching import MarketWatch
from walras.jobs_log.kafka_log import open_log
from walras.submit.job_file import read_job_file
from walras.submit.submitting import TOPICS as SUBMIT_TOPICS
from walras.submit.submitting import Submission, examined, submit
from walras_contracts.capacity import NodeHealthReported, SupplyPublished
from walras_contracts.charges import ChargeRated
from walras_contracts.demand import DemandRejected
from walras_contracts.drains import VacateRequested
from walras_contracts.market import PricePublished
from walras_contracts.work import (
    JobStatusChanged,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
)
from walras_node_agent.agent.building import PARTS
from walras_node_agent.host.keeper import OUTPUT

SUBMIT_TIMEOUT_MS = 60_000
BROKEN_OUTCOMES = frozenset({LeaseOutcome.FAILED, LeaseOutcome.START_FAILED, LeaseOutcome.LOST})
OUTPUT_LINES = 15


class StoryBrokenError(RuntimeError):
    """A job was rejected or failed: the story cannot go on."""

    code = "story_broken"
    retriable = False


@dataclass(frozen=True, slots=True)
class Story:
    """Plays a scenario on a market that runs.

    ``say`` is called with what the story does itself; what the market does is told by the watch.
    ``aside`` is entered while the log is read for a submission, which shows bars of its own.
    """

    bootstrap: str
    scenario: NodesScenario
    folders: NodeFolders
    watch: MarketWatch
    say: Callable[[str], None]
    aside: Callable[[], AbstractContextManager[object]] = nullcontext

    def play(self) -> None:
        """Play it to its end.

        Raises
        ------
        StoryStalledError, StoryBrokenError
            A turn of it did not come, or a job failed.
        """
        watch, subject = self.watch, self.scenario.subject
        watch.until(self._agents_live, "a heartbeat of every agent")
        watch.until(lambda: watch.of(SupplyPublished) or None, "supply")
        for after, jobs in self._batches():
            self._submit(jobs, after)
        watch.until(self._vacated, f"the price to rise above the limit of {subject.key}")
        first = watch.until(lambda: self._freed(1), f"the devices of {subject.key} free")
        self.say(f"{subject.key} has left after step {self._journal().last_step}")
        again = watch.until(lambda: self._runs_again(first.lease), f"{subject.key} running again")
        begun = watch.until(self._begun_again, f"the first line of {subject.key} on {again.node}")
        self.say(f"{subject.key} goes on after step {begun.begins_after}, on {again.node}")
        last = watch.until(lambda: self._freed(2), f"the end of {subject.key}")
        rated = f"the use of {subject.key} rated"
        watch.until(lambda: self._rated(last) or None, rated)

    def unbroken(self) -> None:
        """Look for what makes the story impossible.

        Raises
        ------
        StoryBrokenError
            There is some.
        """
        for refusal in self.watch.of(DemandRejected):
            raise StoryBrokenError(f"intake rejected a job: {refusal.reason} [{refusal.code}]")
        for status in self.watch.of(LeaseStatusChanged):
            if status.outcome in BROKEN_OUTCOMES:
                raise StoryBrokenError(self._failure(status))
        ended = [s for s in self._mine(LeaseState.FREED) if s.outcome is LeaseOutcome.FINISHED]
        if ended and self._vacated() is None:
            raise StoryBrokenError(
                f"{self.scenario.subject.key} has finished before the price rose: this machine is "
                "too busy for the pace of the scenario; try again, or give the job more steps"
            )

    def _batches(self) -> Iterator[tuple[int, list[TrainingJob]]]:
        jobs = sorted(self.scenario.jobs, key=lambda job: job.after_step)
        for after, batch in groupby(jobs, key=lambda job: job.after_step):
            yield after, list(batch)

    def _submit(self, jobs: list[TrainingJob], after: int) -> None:
        """Give jobs to the market as ``walras submit`` does, once the first one made a step."""
        with open_log(self.bootstrap, SUBMIT_TOPICS) as log:
            read: list[tuple[Path, Submission]] = []
            with self.aside():
                for job in jobs:
                    path = self.folders.jobs / f"{job.team}-{job.job}.toml"
                    path.write_text(job_file(job, self.scenario, self.folders), "utf-8")
                    file = read_job_file(str(path), path.read_bytes())
                    read.append((path, examined(log, file)))
            self._when_made(after)
            self._just_after_a_cycle()
            with self.aside():
                for path, found in read:
                    submit(log, found, wait=False, timeout_ms=SUBMIT_TIMEOUT_MS)
                    self.say(f"submitted {path}")
        self.watch.until(lambda: self._all_accepted(jobs), f"an answer to {len(jobs)} submissions")

    def _just_after_a_cycle(self) -> None:
        """Wait for the next prices, so that what is submitted now is mostly seen by one cycle."""
        before = len(self.watch.of(PricePublished))
        self.watch.until(lambda: len(self.watch.of(PricePublished)) > before or None, "prices")

    def _agents_live(self) -> bool | None:
        heard = {report.node for report in self.watch.of(NodeHealthReported)}
        return heard >= set(self.scenario.nodes.names) or None

    def _all_accepted(self, jobs: list[TrainingJob]) -> bool | None:
        known = {status.record_key() for status in self.watch.of(JobStatusChanged)}
        return known >= {job.key for job in jobs} or None

    def _journal(self) -> TrainingJournal:
        return read_journal(self.folders.journal(self.scenario.subject.key))

    def _begun_again(self) -> Attempt | None:
        attempts = self._journal().attempts
        return attempts[-1] if len(attempts) > 1 else None

    def _when_made(self, step: int) -> None:
        """Wait until the first job has made a step; step 0 is made from the beginning."""
        what = f"step {step} of {self.scenario.subject.key}"
        self.watch.until(lambda: self._journal().last_step >= step or None, what)

    def _vacated(self) -> VacateRequested | None:
        subject = self.scenario.subject
        found = self.watch.of(VacateRequested)
        return next((v for v in found if (v.team, v.job) == (subject.team, subject.job)), None)

    def _mine(self, state: LeaseState) -> list[LeaseStatusChanged]:
        subject = self.scenario.subject
        return [
            status
            for status in self.watch.of(LeaseStatusChanged)
            if (status.team, status.job, status.state) == (subject.team, subject.job, state)
        ]

    def _freed(self, number: int) -> LeaseStatusChanged | None:
        freed = {s.lease: s for s in self._mine(LeaseState.FREED)}
        return list(freed.values())[number - 1] if len(freed) >= number else None

    def _runs_again(self, first: str) -> LeaseStatusChanged | None:
        running = self._mine(LeaseState.RUNNING)
        return next((status for status in running if status.lease != first), None)

    def _rated(self, last: LeaseStatusChanged) -> bool:
        """Whether all use of the job is in the log, and billing is beyond its grace."""
        mine = [u for u in self.watch.of(UsageMetered) if u.lease == last.lease]
        end_ms = max((u.end_ms for u in mine), default=None)
        if end_ms is None or end_ms < last.at_ms:
            return False
        market = self.scenario.market
        shown_ms = self.watch.barrier_ms(ChargeRated.TOPIC, market.partitions)
        return shown_ms >= end_ms + market.price_grace + market.interval

    def _failure(self, status: LeaseStatusChanged) -> str:
        path = self.folders.state(status.node) / PARTS / status.lease / OUTPUT
        printed = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
        ends = (
            f"; its output ends with:\n{chr(10).join(printed[-OUTPUT_LINES:])}" if printed else ""
        )
        detail = f", {status.detail}" if status.detail else ""
        return (
            f"{status.team}/{status.job} on {status.node} ended as {status.outcome.value} "
            f"(exit code {status.exit_code}{detail}){ends}"
        )
