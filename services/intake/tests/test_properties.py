from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from walras_contracts.demand import JobCancelled, JobLimitChanged, JobQueued, JobSubmitted
from walras_contracts.rejections import RejectionCode
from walras_contracts.work import JobState
from walras_intake.stage import IntakeStage
from walras_intake.state import IntakeState

Make = Callable[..., Any]
Ask = tuple[Any, ...]
Script = list[list[Ask]]

TEAMS = ("ann", "bob", "cat", "dan")
POOLS = ("red", "green", "blue")
COMMON = settings(
    deadline=None,
    max_examples=25,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

_team = st.sampled_from(TEAMS)
_job = st.sampled_from(("j1", "j2"))
_limit = st.sampled_from((None, 0, 5, 6))
_id = st.sampled_from(("e1", "e2", "e3"))
_raw = st.tuples(st.just("raw"), st.sampled_from((b"", b"{}", b"\xff", b"[1]")), st.integers(0, 3))
_demand = st.one_of(
    st.tuples(st.just("submit"), _team, _job, _limit, _id),
    st.tuples(st.just("limit"), _team, _job, st.integers(1, 3), _limit, _id),
    st.tuples(st.just("cancel"), _team, _job, _id),
    st.tuples(
        st.just("pool"),
        st.sampled_from(POOLS),
        st.lists(_team, unique=True, max_size=3).map(tuple),
        st.integers(1, 2),
        st.sampled_from(("e1", "e2", "e3", "e4", "e5")),
    ),
    _raw,
)
_end = st.tuples(
    st.just("status"), _team, _job, st.sampled_from((JobState.FINISHED, JobState.CANCELLED))
)
_interval = st.lists(st.one_of(_demand, _demand, _demand, _end), max_size=8)
# Documents first: without any, all demand is refused and the property is about nothing.
_documents: list[Ask] = [
    ("pool", "red", ("ann", "bob"), 1, "e0"),
    ("pool", "blue", ("cat",), 1, "e0"),
]
_script = st.lists(_interval, min_size=1, max_size=8).map(lambda rest: [_documents, *rest])


def ask(intakes: Any, asked: Sequence[Ask]) -> None:
    for kind, *rest in asked:
        match kind, rest:
            case "submit", [team, job, limit, event_id]:
                intakes.submit(team, job, limit=limit, event_id=event_id)
            case "limit", [team, job, revision, limit, event_id]:
                intakes.limit(team, job, revision, limit, event_id=event_id)
            case "cancel", [team, job, event_id]:
                intakes.cancel(team, job, event_id=event_id)
            case "pool", [pool, teams, weight, event_id]:
                intakes.pool(pool, *teams, weight=weight, event_id=event_id)
            case "raw", [payload, partition]:
                intakes.tell_bytes(payload, partition=partition)
            case "status", [team, job, state]:
                intakes.status(team, job, state)
            case _:
                raise AssertionError(kind)


def run(intakes: Any, script: Script, crashes: frozenset[int] = frozenset()) -> Any:
    for number, asked in enumerate(script):
        ask(intakes, asked)
        intakes.tick()
        if number in crashes:
            intakes.crash()
    intakes.tick()
    intakes.tick(skip_intervals=6)
    return intakes


def decided(intakes: Any) -> tuple[Any, ...]:
    return intakes.written("queue"), intakes.written("accounts")


def asks_only(asked: Sequence[Ask]) -> list[Ask]:
    return [one for one in asked if one[0] != "status"]


def repeated(script: Script, times: int) -> Script:
    """Each batch several times, and the previous interval's batch once more before it."""
    before: list[Ask] = []
    batches = []
    for asked in script:
        again = [one for _ in range(times - 1) for one in asks_only(asked)]
        batches.append([*before, *asked, *again])
        before = asks_only(asked)
    return batches


def doubled(script: Script) -> Script:
    return [[one for one in asked for _ in range(2)] for asked in script]


class StateWithoutRefusals(IntakeState):
    """Broken on purpose."""

    def refusal_of(self, told: str) -> RejectionCode | None:
        del told
        return None


class TestTellingTwice:
    @COMMON
    @given(script=_script, times=st.integers(2, 3))
    def test_batches_told_again_change_nothing(
        self, make_intakes: Make, script: Script, times: int
    ) -> None:
        once = run(make_intakes(), script)
        again = run(make_intakes(), repeated(script, times))
        assert decided(again) == decided(once)

    @COMMON
    @given(script=_script)
    def test_each_event_told_twice_in_a_row_changes_nothing(
        self, make_intakes: Make, script: Script
    ) -> None:
        once = run(make_intakes(), script)
        twice = run(make_intakes(), doubled(script))
        assert decided(twice) == decided(once)
        refused = len(once.codes())
        assert refused <= len(twice.codes()) <= 2 * refused

    def test_canary_an_intake_without_memory_of_refusals_is_caught(
        self, make_intakes: Make
    ) -> None:
        class Forgetful(IntakeStage):
            def __init__(self, partition: int, partitions: int) -> None:
                super().__init__(partition, partitions)
                self.state = StateWithoutRefusals()

        script: Script = [
            _documents,
            [("cancel", "ann", "j1", "e1"), ("submit", "ann", "j1", None, "e1")],
        ]
        make = lambda partition: Forgetful(partition, 4)  # noqa: E731
        once, again = run(make_intakes(make), script), run(make_intakes(make), repeated(script, 2))
        assert decided(again) != decided(once)


class TestRestart:
    @COMMON
    @given(script=_script, crashes=st.frozensets(st.integers(0, 9), max_size=5))
    def test_a_crash_after_any_steps_changes_nothing(
        self, make_intakes: Make, script: Script, crashes: frozenset[int]
    ) -> None:
        calm = run(make_intakes(), script)
        crashed = run(make_intakes(), script, crashes)
        assert decided(crashed) == decided(calm)
        assert crashed.written("demand.rejected") == calm.written("demand.rejected")
        assert crashed.written("state.intake") == calm.written("state.intake")

    @COMMON
    @given(script=_script, more=_script)
    def test_compaction_and_a_restart_change_nothing(
        self, make_intakes: Make, script: Script, more: Script
    ) -> None:
        calm, compacted = run(make_intakes(), script), run(make_intakes(), script)
        compacted.compact()
        compacted.crash()
        run(calm, more)
        run(compacted, more)
        assert compacted.table("queue") == calm.table("queue")
        assert compacted.written("accounts") == calm.written("accounts")
        assert compacted.written("demand.rejected") == calm.written("demand.rejected")
        assert compacted.state() == calm.state()

    def test_canary_an_intake_that_loses_its_counters_is_caught(self, make_intakes: Make) -> None:
        class Forgetful(IntakeStage):
            def load(self, key: str, value: bytes) -> None:
                if key != "counters":
                    super().load(key, value)

        script: Script = [
            _documents,
            [("submit", "ann", "j1", None, "e1")],
            [("submit", "ann", "j2", None, "e2")],
        ]
        make = lambda partition: Forgetful(partition, 4)  # noqa: E731
        calm = run(make_intakes(make), script)
        crashed = run(make_intakes(make), script, frozenset({1}))
        assert decided(crashed) != decided(calm)


class TestWhatIsWritten:
    @COMMON
    @given(script=_script)
    def test_versions_are_dense_and_positions_grow(
        self, make_intakes: Make, script: Script
    ) -> None:
        intakes = run(make_intakes(), script)
        versions: dict[str, list[Any]] = {}
        for changed in intakes.events("accounts"):
            versions.setdefault(changed.record_key(), []).append(changed)
        for changes in versions.values():
            assert [c.version for c in changes] == list(range(1, len(changes) + 1))
            assert [c.effective_ms for c in changes] == sorted(c.effective_ms for c in changes)
        for partition in range(4):
            first: dict[str, int] = {}
            for p, key, payload in intakes.written("queue"):
                if p == partition and payload is not None:
                    queued = JobQueued.model_validate_json(payload)
                    assert first.setdefault(key, queued.position) == queued.position
            assert list(first.values()) == list(range(len(first)))

    @COMMON
    @given(script=_script)
    def test_no_team_is_in_two_pools_at_any_time(self, make_intakes: Make, script: Script) -> None:
        intakes = run(make_intakes(), script)
        changes = intakes.events("accounts")
        for instant_ms in sorted({changed.effective_ms for changed in changes}):
            in_force: dict[str, Any] = {}
            for changed in changes:
                if changed.effective_ms <= instant_ms:
                    in_force[changed.record_key()] = changed.document
            teams = [account.team for document in in_force.values() for account in document.teams]
            assert len(teams) == len(set(teams))

    @COMMON
    @given(script=_script)
    def test_a_job_bids_for_the_pool_that_its_team_is_in(
        self, make_intakes: Make, script: Script
    ) -> None:
        intakes = run(make_intakes(), script)
        pools = {
            account.team: changed.document.pool
            for changed in {c.record_key(): c for c in intakes.events("accounts")}.values()
            for account in changed.document.teams
        }
        for job in intakes.queue().values():
            assert pools.get(job.team, job.pool) == job.pool


class TestTheEdge:
    @settings(COMMON, max_examples=300)
    @given(
        payload=st.one_of(st.none(), st.binary(max_size=200), st.text(max_size=80).map(str.encode)),
        attributes=st.fixed_dictionaries(
            {
                "type_": st.sampled_from(
                    (JobSubmitted.TYPE, JobLimitChanged.TYPE, JobCancelled.TYPE, "", "walras.x.v9")
                ),
                "event_id": st.text(max_size=300),
                "source": st.text(max_size=600),
            }
        ),
        topic=st.sampled_from(("demand", "accounts.requests")),
        partition=st.integers(0, 3),
    )
    def test_any_bytes_get_one_rejection_and_the_rest_goes_on(
        self,
        make_intakes: Make,
        payload: bytes | None,
        attributes: dict[str, str],
        topic: str,
        partition: int,
    ) -> None:
        intakes = make_intakes()
        intakes.tell_bytes(payload, topic=topic, partition=partition, **attributes)
        intakes.pool("red", "ann", event_id="p")
        intakes.submit("ann", "j", event_id="e")
        intakes.tick()
        (rejected,) = intakes.events("demand.rejected")
        assert rejected.code in set(RejectionCode)
        assert (rejected.topic, rejected.partition, rejected.offset) == (topic, partition, 0)
        assert list(intakes.queue()) == ["ann/j"]

    @pytest.mark.parametrize(
        "payload",
        [
            b'{"team":"ann","job":"j","types":["a"],"size_macc":1.0,"submitted_ms":1}',
            b'{"team":"ann","job":"j","types":["a"],"size_macc":NaN,"submitted_ms":1}',
            b'{"team":"ann","job":"j","types":["a"],"size_macc":1,"submitted_ms":1,"x":1}',
            b'{"team":"ann","job":"' + b"j" * 1_000_000 + b'"}',
            b"[" * 60_000,
        ],
    )
    def test_hostile_payloads_get_one_rejection(self, make_intakes: Make, payload: bytes) -> None:
        intakes = make_intakes()
        intakes.tell_bytes(payload)
        intakes.tick()
        assert len(intakes.codes()) == 1
