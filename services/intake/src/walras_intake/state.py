"""What intake remembers, and how it is written to and read from its state topic."""

import heapq
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.demand import JobQueued
from walras_contracts.rejections import RejectionCode
from walras_intake.accounts import AccountsTable
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import StateChange

ENDED_MEMORY_MS: Final = 24 * 3_600_000
"""How long (market time) an ended job's name stays taken."""
TOLD_PER_JOB: Final = 32
"""How many events that a job was told are recognised when they are told again."""
TOLD_PER_ENTITY: Final = 256
"""How many requests on one account document are recognised when they are told again."""
REFUSED_PER_PARTITION: Final = 4096
"""How many refused events of a partition are recognised when they are told again."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job in the queue; ``told``: digests of the events that made it what it is."""

    queued: JobQueued
    told: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that has left the queue; ``cancelled``: its team had withdrawn it."""

    ended_ms: int
    cancelled: bool
    told: tuple[str, ...]


@dataclass(slots=True)
class IntakeState:
    """Jobs by key ``team/job``, positions, and the memory that makes intake idempotent."""

    jobs: dict[str, Job | EndedJob] = field(default_factory=dict)
    live_of_team: dict[str, dict[str, None]] = field(default_factory=dict)
    requests: dict[str, dict[str, str]] = field(default_factory=dict)
    """Per entity: digest of a request → the code of its refusal, empty where it was taken."""
    accounts: AccountsTable = field(default_factory=AccountsTable)
    next_position: int = 0
    _next_refusal: int = 0
    _refused: dict[str, RejectionCode] = field(default_factory=dict)
    _refusals: dict[int, str] = field(default_factory=dict)
    _ended: list[tuple[int, str]] = field(default_factory=list)
    _changed: dict[str, None] = field(default_factory=dict)

    def put(self, key: str, job: Job) -> None:
        """Set a job of the queue; only the latest events that it was told are kept."""
        # The submission is the first one and stays: it tells a repeat from another job's claim.
        told = job.told if len(job.told) <= TOLD_PER_JOB else (job.told[0], *job.told[2:])
        self.jobs[key] = Job(job.queued, told)
        self.live_of_team.setdefault(job.queued.team, {})[key] = None
        self._changed[f"job/{key}"] = None

    def take_position(self) -> int:
        """Return the next place in the partition's queue."""
        self.next_position += 1
        self._changed["counters"] = None
        return self.next_position - 1

    def end(self, key: str, job: Job, market_time_ms: int) -> None:
        """Move a job from the queue to the memory of ended ones."""
        self.jobs[key] = EndedJob(market_time_ms, job.queued.cancelled, job.told)
        self._forget_live(job.queued.team, key)
        heapq.heappush(self._ended, (market_time_ms, key))
        self._changed[f"job/{key}"] = None

    def forget_ended(self, market_time_ms: int) -> None:
        """Drop the jobs that ended long enough ago."""
        while self._ended and self._ended[0][0] + ENDED_MEMORY_MS <= market_time_ms:
            _, key = heapq.heappop(self._ended)
            del self.jobs[key]
            self._changed[f"job/{key}"] = None

    def refusal_of(self, told: str) -> RejectionCode | None:
        """Return why an event was refused when it was told before."""
        return self._refused.get(told)

    def remember_refusal(self, told: str, code: RejectionCode) -> None:
        """Remember that an event was refused; the oldest refusal is forgotten for it."""
        slot = self._next_refusal % REFUSED_PER_PARTITION
        self._next_refusal += 1
        self._drop_refusal(slot)
        self._refusals[slot] = told
        self._refused[told] = code
        self._changed["counters"] = None
        self._changed[f"refused/{slot}"] = None

    def remember_request(self, entity: str, told: str, code: str) -> None:
        """Remember a request on an account document: taken (empty code) or refused."""
        requests = self.requests.setdefault(entity, {})
        requests[told] = code
        while len(requests) > TOLD_PER_ENTITY:
            del requests[next(iter(requests))]
        self._changed[f"requests/{entity}"] = None

    def take_changes(self) -> list[StateChange]:
        """Return what changed since the last call, by key."""
        changes = [StateChange(key, self._value(key)) for key in sorted(self._changed)]
        self._changed.clear()
        return changes

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the state topic.

        Raises
        ------
        InvariantBrokenError
            The record is none of intake's.
        """
        document = json.loads(value)
        kind, _, name = key.partition("/")
        match kind:
            case "job" if "queued" in document:
                queued = JobQueued.model_validate(document["queued"])
                self.jobs[name] = Job(queued, tuple(document["told"]))
                self.live_of_team.setdefault(queued.team, {})[name] = None
            case "job":
                ended_ms = document["ended_ms"]
                self.jobs[name] = EndedJob(ended_ms, document["cancelled"], tuple(document["told"]))
                heapq.heappush(self._ended, (ended_ms, name))
            case "counters":
                self.next_position = document["next_position"]
                self._next_refusal = document["next_refusal"]
            case "refused":
                self._refusals[int(name)] = document["told"]
                self._refused[document["told"]] = RejectionCode(document["code"])
            case "requests":
                self.requests[name] = dict(document["told"])
            case _:
                raise InvariantBrokenError(f"state of intake has an unknown key {key!r}")

    def live_jobs(self, team: str) -> Iterable[tuple[str, Job]]:
        """Return the jobs of a team that are in the queue, by key."""
        for key in sorted(self.live_of_team.get(team, ())):
            job = self.jobs[key]
            assert isinstance(job, Job)
            yield key, job

    def _value(self, key: str) -> bytes | None:
        kind, _, name = key.partition("/")
        match kind:
            case "job":
                return _job_value(self.jobs.get(name))
            case "counters":
                return _dump(
                    {"next_position": self.next_position, "next_refusal": self._next_refusal}
                )
            case "refused":
                told = self._refusals[int(name)]
                return _dump({"told": told, "code": self._refused[told].value})
            case _:
                return _dump({"told": list(self.requests[name].items())})

    def _forget_live(self, team: str, key: str) -> None:
        keys = self.live_of_team[team]
        del keys[key]
        if not keys:
            del self.live_of_team[team]

    def _drop_refusal(self, slot: int) -> None:
        told = self._refusals.get(slot)
        if told is not None:
            del self._refused[told]


def _job_value(job: Job | EndedJob | None) -> bytes | None:
    match job:
        case None:
            return None
        case Job(queued, told):
            return b'{"told":%s,"queued":%s}' % (_dump(told), queued.payload())
        case EndedJob(ended_ms, cancelled, told):
            return _dump({"ended_ms": ended_ms, "cancelled": cancelled, "told": told})


def _dump(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
