"""Drain alone on a log; what placement, capacity and agents say is given by hand."""

from collections.abc import Iterable

import pytest

from walras_contracts.accounts import AccountsChanged, DrainTerms, PlatformDocument
from walras_contracts.capacity import (
    LeaseUse,
    NodeHealthReported,
    NodePublished,
    NodeState,
)
from walras_contracts.demand import Drainability
from walras_contracts.drains import (
    DrainabilityScored,
    DrainCommanded,
    DrainOrdered,
    DrainRequested,
    DrainSessionChanged,
    NodeDrainChanged,
    NotificationIssued,
    VacateReason,
    VacateRequested,
    VacateWithdrawn,
)
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_contracts.runs import RunSpec
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
    WorkClass,
)
from walras_drain.settings import Settings
from walras_drain.transitions import ENDED
from walras_drain.wiring import build
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output, emit, tombstone

START_MS = 1_728_000_000
INPUTS = (
    *("accounts", "nodes", "leases", "vacate", "lease.status", "drain.status"),
    *("node.health", "drain.orders"),
)
OUTPUTS = ("drain.commands", "drain.requests", "drain.sessions", "drain.scores", "notifications")
LONG_AGO_MS = START_MS - 3_600_000


class Written:
    """What drain wrote in one step; tombstones of commands and sessions by key."""

    def __init__(self, events: list[Event], ended: list[tuple[str, str]]) -> None:
        self.events = events
        self.ended = ended

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def commands(self) -> dict[str, tuple[str, str]]:
        """Lease/node: command, and the beginning of the session's id."""
        return {
            e.record_key(): (e.command.value, e.session)
            for e in self.events
            if isinstance(e, DrainCommanded)
        }

    @property
    def told(self) -> dict[str, str]:
        """Lease/node: command."""
        return {key: command for key, (command, _) in self.commands.items()}

    @property
    def sessions(self) -> dict[str, DrainSessionChanged]:
        """By lease; where two of one lease changed, the open one."""
        found = [e for e in self.events if isinstance(e, DrainSessionChanged)]
        return {e.lease: e for e in sorted(found, key=lambda e: e.state not in ENDED)}

    @property
    def states(self) -> dict[str, str]:
        """Lease: session state."""
        return {lease: session.state.value for lease, session in self.sessions.items()}

    @property
    def requests(self) -> dict[str, str]:
        """Lease: reason, with a minus where it is taken back."""
        return {
            e.lease: f"{'-' if e.cancel else ''}{e.reason.value}"
            for e in self.events
            if isinstance(e, DrainRequested)
        }

    @property
    def nodes(self) -> dict[str, NodeDrainChanged]:
        return {e.node: e for e in self.events if isinstance(e, NodeDrainChanged)}

    @property
    def notices(self) -> list[tuple[str, str | None]]:
        """Kind and lease, sorted."""
        found = [(e.kind.value, e.lease) for e in self.events if isinstance(e, NotificationIssued)]
        return sorted(found, key=str)

    @property
    def scores(self) -> dict[str, DrainabilityScored]:
        return {e.job: e for e in self.events if isinstance(e, DrainabilityScored)}


class Bench:
    """Drain on a log. With ``crash`` it is lost before every step."""

    def __init__(self, *, crash: bool = False, interval_ms: int = 5_000) -> None:
        self.log = MemoryLog(load_topics())
        self.interval_ms = interval_ms
        self.number = -1
        self.now_ms = START_MS - interval_ms
        self.session_of: dict[str, str] = {}
        self.notified: list[str] = []
        self._crash = crash
        self._spec = build(Settings(kafka_bootstrap="none", interval_ms=interval_ms))
        self._runner = MemoryRunner(self._spec, self.log)
        self._read: dict[tuple[str, int], int] = {}

    def step(self, *given: Output, after_ms: int | None = None) -> Written:
        """Do one step, an interval after the last one or ``after_ms``."""
        self.number += 1
        self.now_ms += self.interval_ms if after_ms is None else after_ms
        self.log.append(given)
        for topic in INPUTS:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self.number, self.now_ms))
        if self._crash:
            self.crash()
        assert self._runner.advance() == 1
        return self._written()

    def crash(self) -> None:
        """Lose the process; another one begins from the log."""
        self._runner = MemoryRunner(self._spec, self.log)

    def steps(self, until_ms: int) -> list[Written]:
        """Do steps up to a time after the beginning."""
        found = []
        while self.now_ms + self.interval_ms <= START_MS + until_ms:
            found.append(self.step())
        return found

    def _written(self) -> Written:
        events: list[Event] = []
        ended = []
        for topic in OUTPUTS:
            for partition in self.log.partitions(topic):
                start = self._read.get((topic, partition), 0)
                for entry in self.log.read(topic, partition, start):
                    self._read[topic, partition] = entry.offset + 1
                    if entry.barrier is not None:
                        continue
                    if entry.payload is None:
                        ended.append((topic, entry.key))
                        continue
                    event = decode_inner(entry.type, entry.payload)
                    events.append(event)
                    if isinstance(event, NotificationIssued):
                        self.notified.append(event.notification)
        written = Written(events, ended)
        for lease, session in written.sessions.items():
            self.session_of[lease] = session.session
        return written

    def vacate(self, lease: str, reason: str = "quota_lost", team: str = "t1") -> Output:
        return emit(
            VacateRequested(
                lease=lease,
                job=job_of(lease),
                team=team,
                reason=VacateReason(reason),
                requested_ms=self.now_ms + self.interval_ms,
            )
        )

    def stay(self, lease: str, team: str = "t1") -> Output:
        return emit(
            VacateWithdrawn(
                lease=lease,
                job=job_of(lease),
                team=team,
                withdrawn_ms=self.now_ms + self.interval_ms,
            )
        )

    def says(
        self,
        lease: str,
        state: str,
        *,
        node: str = "n1",
        outcome: str = "",
        blockers: tuple[str, ...] = (),
        session: str | None = None,
        team: str = "t1",
    ) -> Output:
        """The agent of a node says how far the last drain of a lease has come."""
        return emit(
            DrainStatusChanged(
                session=session or self.session_of[lease],
                lease=lease,
                node=node,
                team=team,
                pool="p",
                job=job_of(lease),
                state=DrainState(state),
                outcome=outcome,
                warned_ms=self.now_ms,
                at_ms=self.now_ms + 1_000,
                blockers=blockers,
            )
        )

    def lease_is(
        self, lease: str, state: str = "freed", *, node: str = "n1", team: str = "t1"
    ) -> Output:
        freed = state == "freed"
        return emit(
            LeaseStatusChanged(
                lease=lease,
                node=node,
                team=team,
                job=job_of(lease),
                state=LeaseState(state),
                outcome=LeaseOutcome.VACATED if freed else LeaseOutcome.NONE,
                remaining_run_ms=None,
                at_ms=self.now_ms + 2_000,
            )
        )

    def health(self, node: str, **busy_ppm: int) -> Output:
        return emit(
            NodeHealthReported(
                node=node,
                unhealthy_devices=(),
                reported_ms=self.now_ms,
                uses=tuple(
                    LeaseUse(lease=lease, busy_ppm=busy) for lease, busy in busy_ppm.items()
                ),
            )
        )

    def order(
        self, number: int, lease: str, *, cancel: bool = False, at_ms: int | None = None
    ) -> Output:
        return emit(
            DrainOrdered(
                order=f"o{number}",
                team="t1",
                job=job_of(lease),
                cancel=cancel,
                reason="because",
                ordered_ms=self.now_ms if at_ms is None else at_ms,
            )
        )


def job_of(lease: str) -> str:
    return f"job-{lease}"


def lease(
    name: str,
    *nodes: str,
    devices: int = 1,
    team: str = "t1",
    work_class: WorkClass = WorkClass.MARKET,
    drainability: Drainability = Drainability.CHECKPOINT,
    market: str = "a",
    granted_ms: int = LONG_AGO_MS,
    run: RunSpec | None = None,
) -> list[Output]:
    """Return the records of a lease, a part on each node."""
    nodes = nodes or ("n1",)
    return [
        emit(
            LeaseGranted(
                lease=name,
                node=node,
                part=part,
                parts=len(nodes),
                attempt=1,
                job=job_of(name),
                team=team,
                pool="p",
                market=market,
                work_class=work_class,
                devices=tuple(range(devices)),
                size_macc=devices * 1000,
                limit_micro=None,
                granted_ms=granted_ms,
                remaining_run_ms=None,
                drainability=drainability,
                run=run,
            )
        )
        for part, node in enumerate(nodes)
    ]


def lease_ends(name: str, *nodes: str) -> list[Output]:
    return [tombstone(LeaseGranted, f"{name}/{node}", node) for node in nodes or ("n1",)]


def node(
    name: str,
    devices: int = 8,
    *,
    state: NodeState = NodeState.ACTIVE,
    kind: str = "a",
    lost: bool = False,
    urgent: bool = False,
    within_ms: int = 3_600_000,
) -> Output:
    return emit(
        NodePublished(
            node=name,
            type=kind,
            cell="c",
            devices=devices,
            macc_per_device=1000,
            owner_pool=None,
            withheld_devices=(),
            state=state,
            lost=lost,
            urgent=urgent,
            drain_within_ms=within_ms,
        )
    )


def node_ends(name: str) -> Output:
    return tombstone(NodePublished, name, name)


def terms(version: int = 0, **drains: int) -> Output:
    document = PlatformDocument(drains=DrainTerms(**drains))
    return emit(AccountsChanged(version=version, effective_ms=0, document=document))


def flat(groups: Iterable[list[Output]]) -> list[Output]:
    return [output for group in groups for output in group]


class Kit:
    """What the tests of this folder share."""

    START_MS = START_MS
    bench = Bench
    lease = staticmethod(lease)
    lease_ends = staticmethod(lease_ends)
    node = staticmethod(node)
    node_ends = staticmethod(node_ends)
    terms = staticmethod(terms)
    flat = staticmethod(flat)
    job_of = staticmethod(job_of)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit
