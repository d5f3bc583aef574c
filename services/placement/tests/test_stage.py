"""Placement alone on a log: what it decides, case by case, and that a crash changes nothing."""

from collections.abc import Iterable, Sequence

import pytest

from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    JobState,
    JobStatusChanged,
    LeaseGranted,
    LeaseState,
    LeaseStatusChanged,
    VacateRequested,
    WorkClass,
)
from walras_placement.plan import (
    CANCELLED,
    DEVICE_WITHDRAWN,
    EXCEEDS_SUPPLY,
    NO_SUCH_TYPE,
    PRICE_ABOVE_LIMIT,
    QUOTA_LOST,
    WAITING_FOR_DEVICES,
    WAITING_FOR_QUOTA,
)
from walras_placement.settings import Settings
from walras_placement.wiring import build
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import Barrier, Output, emit, tombstone

START_MS = 1_728_000_000
MINUTE_MS = 60_000
INPUTS = ("nodes", "quotas", "queue", "lease.status")
OUTPUTS = ("leases", "vacate", "job.status")


class Bench:
    """Placement on a log; jobs, quotas and freed leases are given by hand."""

    def __init__(self, *, crash: bool = False) -> None:
        self.log = MemoryLog(load_topics())
        self.now_ms = START_MS
        self._crash = crash
        self._number = -1
        self._spec = build(Settings(kafka_bootstrap="none"))
        self._runner = MemoryRunner(self._spec, self.log)
        self._read: dict[tuple[str, int], int] = {}
        self._positions: dict[str, int] = {}
        self.statuses: dict[str, JobStatusChanged] = {}
        self.leases: dict[str, dict[str, LeaseGranted]] = {}

    def step(self, *given: Output) -> list[Event | Output]:
        """Do one step; return what was written, tombstones as outputs."""
        self._number += 1
        self.now_ms = START_MS + self._number * MINUTE_MS
        self.log.append(given)
        for topic in INPUTS:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self._number, self.now_ms))
        if self._crash:
            self._runner = MemoryRunner(self._spec, self.log)
        assert self._runner.advance() == 1
        return self._written()

    def _written(self) -> list[Event | Output]:
        found: list[Event | Output] = []
        for topic in OUTPUTS:
            for partition in self.log.partitions(topic):
                start = self._read.get((topic, partition), 0)
                for entry in self.log.read(topic, partition, start):
                    self._read[topic, partition] = entry.offset + 1
                    if entry.barrier is not None:
                        continue
                    if entry.payload is None:
                        found.append(Output(topic, entry.key, "", entry.type, None))
                        continue
                    event = decode_inner(entry.type, entry.payload)
                    found.append(event)
                    if isinstance(event, JobStatusChanged):
                        self.statuses[event.job] = event
                    elif isinstance(event, LeaseGranted):
                        self.leases.setdefault(event.job, {})[event.node] = event
        return found

    def job(
        self,
        name: str,
        size: int,
        *,
        team: str = "t1",
        types: Sequence[str] = ("a",),
        limit: int | None = None,
        cancelled: bool = False,
        minimum_run_ms: int = 0,
    ) -> Output:
        position = self._positions.setdefault(name, len(self._positions))
        return emit(
            JobQueued(
                team=team,
                pool="p",
                job=name,
                types=tuple(types),
                size_macc=size * 1000,
                gang=True,
                limit_micro=limit,
                expected_run_ms=600_000,
                minimum_run_ms=minimum_run_ms,
                drainability=Drainability.RESTART,
                deadline_ms=None,
                submitted_ms=START_MS,
                position=position,
                revision=0,
                cancelled=cancelled,
            )
        )

    def freed(self, name: str, outcome: str = "finished", left_ms: int = 0) -> list[Output]:
        return [
            emit(
                LeaseStatusChanged(
                    lease=part.lease,
                    node=part.node,
                    team=part.team,
                    job=part.job,
                    state=LeaseState.FREED,
                    outcome=outcome,
                    remaining_run_ms=left_ms,
                    at_ms=self.now_ms + MINUTE_MS,
                )
            )
            for part in self.leases.pop(name).values()
        ]

    def states(self) -> dict[str, str]:
        return {name: status.state.value for name, status in sorted(self.statuses.items())}

    def reasons(self) -> dict[str, str]:
        return {name: status.reason for name, status in sorted(self.statuses.items())}


def node(name: str, devices: int, kind: str = "a", state: NodeState = NodeState.ACTIVE) -> Output:
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
        )
    )


def quota(team: str, **markets: tuple[int, int, int]) -> Output:
    """Return a team's quota: per market bought and opportunistic devices, and the price."""
    return emit(
        QuotaGranted(
            team=team,
            pool="p",
            cycle=0,
            market_time_ms=START_MS,
            markets=tuple(
                MarketQuota(
                    market=market,
                    allocated_macc=bought * 1000,
                    opportunistic_macc=opportunistic * 1000,
                    price_micro=price,
                )
                for market, (bought, opportunistic, price) in sorted(markets.items())
            ),
        )
    )


def vacates(written: Iterable[Event | Output]) -> dict[str, str]:
    return {e.job: e.reason for e in written if isinstance(e, VacateRequested)}


def granted(written: Iterable[Event | Output]) -> list[str]:
    return [e.job for e in written if isinstance(e, LeaseGranted)]


def test_quota_is_spent_in_queue_order_and_what_does_not_fit_is_passed_over() -> None:
    bench = Bench()
    written = bench.step(
        node("n1", 8),
        quota("t1", a=(4, 0, 5)),
        bench.job("j1", 3),
        bench.job("j2", 2),
        bench.job("j3", 1),
        bench.job("j4", 1),
    )

    assert sorted(granted(written)) == ["j1", "j3"]
    assert bench.reasons() == {
        "j1": "",
        "j2": WAITING_FOR_QUOTA,
        "j3": "",
        "j4": WAITING_FOR_QUOTA,
    }


def test_a_limit_below_the_price_keeps_a_job_from_bought_but_not_from_opportunistic_quota() -> None:
    bench = Bench()
    bench.step(
        node("n1", 8),
        quota("t1", a=(4, 1, 100)),
        bench.job("j1", 2, limit=99),
        bench.job("j2", 1, limit=99),
        bench.job("j3", 1, limit=100),
        bench.job("j4", 1, limit=0),
    )

    assert bench.statuses["j1"].reason == PRICE_ABOVE_LIMIT
    assert bench.statuses["j2"].work_class is WorkClass.OPPORTUNISTIC
    assert bench.statuses["j3"].work_class is WorkClass.MARKET
    assert bench.statuses["j4"].reason == WAITING_FOR_QUOTA


def test_a_job_takes_the_first_acceptable_type_with_quota_and_devices() -> None:
    bench = Bench()
    bench.step(
        node("n1", 1, "a"),
        node("n2", 4, "b"),
        quota("t1", a=(4, 0, 5), b=(4, 0, 5)),
        bench.job("j1", 2, types=("zz", "a", "b")),
        bench.job("j2", 1, types=("a", "b")),
    )

    assert bench.statuses["j1"].market == "b"
    assert bench.statuses["j2"].market == "a"


def test_the_reason_names_what_is_nearest_to_a_start() -> None:
    bench = Bench()
    bench.step(
        node("n1", 2, "a"),
        quota("t1", a=(9, 0, 50)),
        quota("t2", a=(9, 0, 50)),
        bench.job("busy", 1, team="t2"),
        bench.job("j1", 1, types=("zz",)),
        bench.job("j2", 3, types=("zz", "a")),
        bench.job("j3", 1, types=("a",), limit=49),
        bench.job("j4", 2, types=("zz", "a")),
        bench.job("j5", 1, types=("a",), team="t3"),
    )

    # t1 comes before t2 by id, so its two-device job is served before "busy".
    assert bench.reasons() == {
        "busy": WAITING_FOR_DEVICES,
        "j1": NO_SUCH_TYPE,
        "j2": EXCEEDS_SUPPLY,
        "j3": PRICE_ABOVE_LIMIT,
        "j4": "",
        "j5": WAITING_FOR_QUOTA,
    }


def test_bought_quota_of_every_team_goes_before_opportunistic_quota_of_any() -> None:
    bench = Bench()
    bench.step(
        node("n1", 1),
        quota("t1", a=(0, 1, 5)),
        quota("t2", a=(1, 0, 5)),
        bench.job("free", 1, team="t1"),
        bench.job("paid", 1, team="t2"),
    )

    assert bench.states() == {"free": "pending", "paid": "running"}


def test_a_gang_over_several_nodes_gets_all_parts_in_one_step() -> None:
    bench = Bench()
    written = bench.step(
        node("n1", 2), node("n2", 2), node("n3", 2), quota("t1", a=(5, 0, 5)), bench.job("j1", 5)
    )

    parts = [e for e in written if isinstance(e, LeaseGranted)]
    assert sorted(p.part for p in parts) == [0, 1, 2]
    assert {p.parts for p in parts} == {3}
    assert sum(p.size_macc for p in parts) == 5000


def test_lost_quota_turns_work_opportunistic_where_there_is_room_and_vacates_the_rest_once() -> (
    None
):
    bench = Bench()
    bench.step(
        node("n1", 8),
        quota("t1", a=(4, 0, 5)),
        bench.job("j1", 2, limit=30),
        bench.job("j2", 1, limit=20),
        bench.job("j3", 1, limit=10),
    )
    written = bench.step(quota("t1", a=(2, 1, 5)))

    # The lowest limits lose their bought quota; of the two, the higher one may stay for nothing.
    assert vacates(written) == {"j3": QUOTA_LOST}
    assert bench.statuses["j1"].work_class is WorkClass.MARKET
    assert bench.statuses["j2"].work_class is WorkClass.OPPORTUNISTIC
    assert bench.statuses["j3"].state is JobState.DRAINING
    assert bench.leases["j2"]["n1"].work_class is WorkClass.OPPORTUNISTIC
    assert bench.step() == []


def test_an_opportunistic_job_is_promoted_when_its_team_has_bought_enough() -> None:
    bench = Bench()
    bench.step(node("n1", 2), quota("t1", a=(0, 2, 5)), bench.job("j1", 2))
    written = bench.step(quota("t1", a=(2, 0, 5)))

    assert vacates(written) == {}
    assert bench.leases["j1"]["n1"].work_class is WorkClass.MARKET


def test_victims_of_one_limit_are_few_then_young() -> None:
    bench = Bench()
    bench.step(node("n1", 16), quota("t1", a=(11, 0, 5)), bench.job("big", 8), bench.job("old", 1))
    bench.step(bench.job("young", 1), bench.job("younger", 1))

    assert vacates(bench.step(quota("t1", a=(10, 0, 5)))) == {"younger": QUOTA_LOST}
    assert vacates(bench.step(quota("t1", a=(5, 0, 5)))) == {"big": QUOTA_LOST}


def test_a_victim_that_turns_out_not_to_be_needed_stays() -> None:
    bench = Bench()
    bench.step(
        node("n1", 9),
        quota("t1", a=(9, 0, 5)),
        bench.job("cheap", 1, limit=10),
        bench.job("large", 8, limit=20),
    )

    assert vacates(bench.step(quota("t1", a=(1, 0, 5)))) == {"large": QUOTA_LOST}


@pytest.mark.parametrize(
    ("minimum_run_ms", "price", "leaves"),
    [
        (0, 101, True),
        (120_000, 110, False),
        (120_000, 111, True),
        (60_000, 110, True),
    ],
)
def test_a_price_above_the_limit_ends_a_run_that_is_not_retained(
    minimum_run_ms: int, price: int, leaves: bool
) -> None:
    bench = Bench()
    bench.step(
        node("n1", 1),
        quota("t1", a=(1, 0, 5)),
        bench.job("j1", 1, limit=100, minimum_run_ms=minimum_run_ms),
    )
    written = bench.step(quota("t1", a=(1, 0, price)))

    assert vacates(written) == ({"j1": PRICE_ABOVE_LIMIT} if leaves else {})


def test_a_finished_job_is_told_once_and_forgotten_with_its_queue_record() -> None:
    bench = Bench()
    bench.step(node("n1", 1), quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    lease = bench.leases["j1"]["n1"]
    freed = bench.freed("j1")
    written = bench.step(*freed)

    assert [e.state for e in written if isinstance(e, JobStatusChanged)] == [JobState.FINISHED]
    assert [e.key for e in written if isinstance(e, Output)] == [lease.record_key()]
    assert bench.step(*freed) == [], "an agent that says it again changes nothing"
    written = bench.step(tombstone(JobQueued, "t1/j1", "t1"))
    assert [(e.topic, e.key) for e in written if isinstance(e, Output)] == [("job.status", "t1/j1")]
    assert state_digest_input(bench.log, "placement") == {}


def test_a_vacated_job_is_pending_again_with_what_is_left_of_it() -> None:
    bench = Bench()
    bench.step(node("n1", 1), quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    first = bench.leases["j1"]["n1"]
    bench.step(quota("t1", a=(0, 0, 5)))
    bench.step(*bench.freed("j1", "vacated", 480_000))
    assert bench.statuses["j1"].state is JobState.PENDING
    assert bench.statuses["j1"].remaining_run_ms == 480_000
    bench.step()
    bench.step(quota("t1", a=(1, 0, 5)))

    again = bench.leases["j1"]["n1"]
    assert (again.attempt, again.remaining_run_ms) == (first.attempt + 1, 480_000)
    assert again.lease != first.lease
    assert bench.statuses["j1"].waited_ms == 2 * MINUTE_MS


def test_a_cancelled_job_ends_at_once_while_pending_and_after_its_drain_while_running() -> None:
    bench = Bench()
    bench.step(node("n1", 1), quota("t1", a=(1, 0, 5)), bench.job("j1", 1), bench.job("j2", 1))
    written = bench.step(bench.job("j1", 1, cancelled=True), bench.job("j2", 1, cancelled=True))

    assert vacates(written) == {"j1": CANCELLED}
    assert bench.states() == {"j1": "draining", "j2": "cancelled"}
    bench.step(*bench.freed("j1", "vacated", 1))
    assert bench.states() == {"j1": "cancelled", "j2": "cancelled"}


def test_a_draining_job_that_finishes_in_time_is_finished_though_cancelled() -> None:
    bench = Bench()
    bench.step(node("n1", 1), quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    bench.step(bench.job("j1", 1, cancelled=True))
    bench.step(*bench.freed("j1"))

    assert bench.states() == {"j1": "finished"}


def test_a_job_on_a_withdrawn_device_leaves_and_its_device_is_not_given_again() -> None:
    bench = Bench()
    bench.step(node("n1", 1), quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    assert vacates(bench.step(node("n1", 1, state=NodeState.WITHHELD))) == {"j1": DEVICE_WITHDRAWN}
    written = bench.step(*bench.freed("j1", "vacated", 5))

    assert granted(written) == []
    assert bench.statuses["j1"].reason == NO_SUCH_TYPE


def test_a_changed_limit_reaches_the_lease_that_runs() -> None:
    bench = Bench()
    bench.step(node("n1", 1), quota("t1", a=(1, 0, 5)), bench.job("j1", 1, limit=9))
    bench.step(bench.job("j1", 1, limit=7))

    assert bench.leases["j1"]["n1"].limit_micro == 7


def test_two_teams_may_use_the_same_job_id() -> None:
    bench = Bench()
    written = bench.step(
        node("n1", 2),
        quota("t1", a=(1, 0, 5)),
        quota("t2", a=(1, 0, 5)),
        bench.job("same", 1, team="t1"),
        bench.job("same", 1, team="t2"),
    )

    assert len({e.lease for e in written if isinstance(e, LeaseGranted)}) == 2


def handover(bench: Bench) -> list[list[Event | Output]]:
    """Three teams of two devices each; one runs two jobs of three, the others claim theirs."""
    written = [
        bench.step(
            node("n1", 6),
            quota("A", a=(6, 0, 5)),
            bench.job("a1", 3, team="A"),
            bench.job("a2", 3, team="A"),
        ),
        bench.step(
            quota("A", a=(2, 0, 5)),
            quota("B", a=(2, 0, 5)),
            quota("C", a=(2, 0, 5)),
            bench.job("b1", 2, team="B"),
            bench.job("c1", 2, team="C"),
        ),
        bench.step(),
    ]
    written.append(bench.step(*bench.freed("a1", "vacated", 1)))
    written.append(bench.step(*bench.freed("a2", "vacated", 1)))
    return written


def test_two_claims_in_one_tick_never_bring_the_devices_in_use_above_those_present() -> None:
    bench = Bench()
    held: dict[str, int] = {}
    for written in handover(bench):
        # Freed parts end their records before others may start in the same step.
        for output in [e for e in written if isinstance(e, Output) and e.topic == "leases"]:
            del held[output.key]
        for lease in [e for e in written if isinstance(e, LeaseGranted)]:
            held[lease.record_key()] = lease.size_macc
        assert sum(held.values()) <= 6000

    assert bench.states() == {
        "a1": "pending",
        "a2": "pending",
        "b1": "running",
        "c1": "running",
    }


def test_a_crash_before_every_step_leaves_the_same_log() -> None:
    whole, crashed = Bench(), Bench(crash=True)
    handover(whole)
    handover(crashed)

    assert crashed.log.entries == whole.log.entries
