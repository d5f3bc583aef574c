"""Who owns a stage: zombies, standbys, takeovers."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from libs.runtime.tests.kafka_rig import Echo, Rig, eventually
from walras_launcher.running import Broker
from walras_runtime import service
from walras_runtime.errors import BrokerUnavailableError, FencedError, ProducerFailedError
from walras_runtime.kafka import step_runner
from walras_runtime.kafka.claims import Claim, claim_key, claim_value, read_settled_claim
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.producing import make_producer
from walras_runtime.kafka.restoring import restore
from walras_runtime.kafka.step_runner import StepRunner
from walras_runtime.kafka.wire import BarrierMark

pytestmark = pytest.mark.broker

FENCED = 3


@pytest.mark.parametrize("spread", [False, True], ids=["single-leader", "spread"])
@pytest.mark.asyncio
async def test_a_zombie_that_wakes_up_inside_its_transaction_is_fenced_and_leaves_no_trace(
    spread: bool, kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(4)
        zombie = rig.start_echo(spread=spread, ECHO_FAULT="stop@5@2")
        await zombie.stopped()
        successor = rig.start_echo(spread=spread)
        await out.until(3)
        await rig.feed_steps(2)
        zombie.signal(signal.SIGCONT)
        assert await zombie.exit_code() == FENCED, zombie.text()
        await rig.feed_steps(2)
        await out.until(7)
        assert successor.process.poll() is None, successor.text()
        rig.check(await rig.committed(), spread=spread)


async def replicas(rig: Rig, count: int, **environment: str) -> tuple[Echo, list[Echo]]:
    """Start replicas; return the one that works and the others when all have joined."""
    echoes = [rig.start_echo(spread=False, **environment) for _ in range(count)]
    leaders: list[Echo] = []

    async def one_works() -> bool:
        leaders[:] = [echo for echo in echoes if "restored" in echo.text()]
        return bool(leaders) and all("standing_by" in echo.text() for echo in echoes)

    await eventually(one_works, "one leader, the others standing by")
    assert len(leaders) == 1
    return leaders[0], [echo for echo in echoes if echo is not leaders[0]]


@pytest.mark.asyncio
async def test_a_standby_takes_over_after_the_leader_is_killed(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        leader, (standby,) = await replicas(rig, 2)
        await rig.feed_steps(3)
        await out.until(2)
        leader.kill()
        await rig.feed_steps(3)
        await out.until(5)
        assert standby.process.poll() is None, standby.text()
        seen = await rig.committed()
        rig.check(seen, spread=False)
        assert [i.epoch for i in seen[0] if isinstance(i, BarrierMark)] == [1, 1, 1, 2, 2, 2]


@pytest.mark.asyncio
async def test_leader_and_standby_stay_what_they_are_however_long_nothing_is_to_be_polled(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """The client leaves its group when nothing polls for a time, here of half a second."""
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        leader, (standby,) = await replicas(rig, 2, ECHO_POLL_MS="500")
        steps, end = 0, time.monotonic() + 8 * 0.5
        async with rig.writer() as writer:
            while time.monotonic() < end:
                await rig.feed(writer)
                await out.until(steps)
                steps += 1
                await asyncio.sleep(0.05)
        assert leader.process.poll() is None, leader.text()
        assert (await rig.claim()).epoch == 1
        leader.kill()
        await rig.feed_steps(2)
        await out.until(steps + 1)
        assert standby.process.poll() is None, standby.text()
        assert (await rig.claim()).epoch == 2
        rig.check(await rig.committed(), spread=False)


@pytest.mark.asyncio
async def test_standbys_that_join_and_leave_do_not_take_the_lead_from_a_healthy_leader(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        # With an assignor that goes by member id each would take over with even chance.
        leader, standbys = await replicas(rig, 4)
        standbys[0].signal(signal.SIGTERM)
        assert await standbys[0].exit_code() == 0
        await rig.feed_steps(3)
        await out.until(2)
        assert leader.process.poll() is None, leader.text()
        assert (await rig.claim()).epoch == 1


@pytest.mark.asyncio
async def test_a_leader_that_is_told_to_stop_exits_cleanly_and_a_standby_goes_on(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        leader, _ = await replicas(rig, 2)
        await rig.feed_steps(2)
        await out.until(1)
        leader.signal(signal.SIGTERM)
        assert await leader.exit_code() == 0, leader.text()
        await rig.feed_steps(2)
        await out.until(3)
        seen = await rig.committed()
        rig.check(seen, spread=False)
        assert [i.epoch for i in seen[0] if isinstance(i, BarrierMark)] == [1, 1, 2, 2]


@pytest.mark.asyncio
async def test_replicas_of_a_spread_service_share_its_partitions(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(2)
        async with rig.running(replica_count=2, replica_index=0):
            await out.until(1, [0])
            assert out.last_barrier(1) == -1
            async with rig.running(replica_count=2, replica_index=1):
                await out.until(1)
        rig.check(await rig.committed(), spread=True)


class FailsOnce(StepRunner):
    """Its first claim is not committed: the broker went away in between."""

    failed = False
    rival: str | None = None

    async def _write_to_claims(self, key: bytes, value: bytes) -> None:
        if FailsOnce.failed:
            await super()._write_to_claims(key, value)
            return
        FailsOnce.failed = True
        if FailsOnce.rival is not None:
            producer = make_producer(self._settings.kafka_bootstrap)
            await producer.start()
            rival = claim_value(FailsOnce.rival, 2)
            await producer.send_and_wait(self._topics["claims"].full_name, rival, key=key)
            await producer.stop()
        raise ProducerFailedError("the broker went away")


@pytest.mark.asyncio
async def test_a_claim_that_failed_is_tried_again_while_nobody_else_claimed(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(1)
        async with rig.running(spread=False, election_session_ms=1000):
            await out.until(0)
        monkeypatch.setattr(FailsOnce, "failed", False)
        monkeypatch.setattr(service, "StepRunner", FailsOnce)
        await rig.feed_steps(1)
        async with rig.running(spread=False, election_session_ms=1000) as echo:
            await out.until(1)
            assert echo.metric("walras_stage_restarts_total", partition="0") == 1
        assert (await rig.claim()).epoch == 2
        rig.check(await rig.committed(), spread=False)


@pytest.mark.asyncio
async def test_a_claim_that_failed_is_given_up_when_another_claimed_meanwhile(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(1)
        async with rig.running(spread=False, election_session_ms=1000):
            await out.until(0)
        monkeypatch.setattr(FailsOnce, "failed", False)
        monkeypatch.setattr(FailsOnce, "rival", "another")
        monkeypatch.setattr(service, "StepRunner", FailsOnce)
        error = await rig.failure(spread=False)
        assert isinstance(error, FencedError)
        claim = await rig.claim()
        assert (claim.incarnation, claim.epoch) == ("another", 2)
        assert claim_key(rig.service, 0).decode() == f"{rig.service}/0"


@pytest.mark.asyncio
async def test_a_restore_may_take_longer_than_any_transaction(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*arguments: Any, **options: Any) -> Any:
        for _ in range(30):  # 3 s in all; a transaction's call is given up after 2 s
            await asyncio.sleep(0.1)
        return await restore(*arguments, **options)

    monkeypatch.setattr(step_runner, "restore", slow)
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(1)
        async with rig.running(transaction_timeout_ms=1000) as echo:
            await out.until(0)
            assert echo.metric("walras_stage_restarts_total", partition="0") == 0


@pytest.mark.asyncio
async def test_a_claim_behind_another_services_open_transaction_is_waited_for(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        claims = rig.topics["claims"].full_name
        other = make_producer(rig.bootstrap, transactional_id=f"other.{rig.space}")
        mine = make_producer(rig.bootstrap, transactional_id=f"mine.{rig.space}")
        key = claim_key(rig.service, 0)
        for producer in (other, mine):
            await producer.start()
        async with mine.transaction():
            await mine.send_and_wait(claims, claim_value("first", 1), key=key)
        await other.begin_transaction()
        await other.send_and_wait(claims, claim_value("x", 1), key=b"other/0")
        async with mine.transaction():
            await mine.send_and_wait(claims, claim_value("second", 2), key=key)
        assert (await rig.claim()).incarnation == "first"  # what a plain look shows

        async def settled(within_s: float) -> Claim:
            async with plain_consumer(rig.bootstrap) as consumer:
                return await read_settled_claim(
                    rig.bootstrap, consumer, claims, rig.service, 0, within_s=within_s
                )

        with pytest.raises(BrokerUnavailableError, match="a transaction stays open"):
            await settled(0.2)
        looking = asyncio.create_task(settled(60))
        await asyncio.wait({looking}, timeout=0.5)
        assert not looking.done()
        await other.commit_transaction()
        assert await looking == Claim("second", 2)
        for producer in (other, mine):
            await producer.stop()


@pytest.mark.asyncio
async def test_epochs_grow_even_where_the_claims_have_forgotten_the_last_owner(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        producer = make_producer(rig.bootstrap)
        await producer.start()
        key, claims = claim_key(rig.service, 0), rig.topics["claims"].full_name
        await rig.feed_steps(1)
        await producer.send_and_wait(claims, claim_value("long ago", 6), key=key)
        async with rig.running(spread=False, election_session_ms=1000):
            await out.until(0)
        # As if a reader had been shown an older claim.
        await producer.send_and_wait(claims, claim_value("long ago", 3), key=key)
        await producer.stop()
        await rig.feed_steps(1)
        async with rig.running(spread=False, election_session_ms=1000):
            await out.until(1)
        assert (await rig.claim()).epoch == 8
        seen = await rig.committed()
        rig.check(seen, spread=False)
        assert [i.epoch for i in seen[0] if isinstance(i, BarrierMark)] == [7, 8]
