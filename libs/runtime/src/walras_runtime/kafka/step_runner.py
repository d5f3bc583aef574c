"""The one step loop on Kafka (design §3, step protocol §5).

Order of events, and what a crash in each gap does:

===  =====================================================  ======================================
gap  between                                                a crash here
===  =====================================================  ======================================
1    start() fences the previous owner / claim committed    successor starts; nothing was written
2    claim committed / state restored                       successor claims the next epoch
3    state restored / step n decided in memory              step n is decided again, the same
4    step n decided / transaction begun                     as 3
5    transaction begun / commit requested                   the broker aborts; readers see nothing
6    commit requested / commit answered                     committed or aborted as a whole; the
                                                            successor reads which from its own
                                                            position record
7    commit answered / next step                            step n is done; n + 1 follows
===  =====================================================  ======================================

On any error of the producer the loop stops using it, drops its state and looks at the claim
*before* it starts again: with a claim of another process it ends, because starting would fence the
rightful owner.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from walras_contracts.topics import Topic
from walras_runtime.align import Aligned, Aligner, PartitionKey
from walras_runtime.clock import monotonic_ms, wall_ms
from walras_runtime.collecting import collect_when_idle
from walras_runtime.decoding import decode_ahead, decode_step
from walras_runtime.errors import (
    BrokerUnavailableError,
    FencedError,
    OffsetGapError,
    PartitionStoppedError,
    ProducerFailedError,
    StageBrokenError,
    StepFailedError,
)
from walras_runtime.health import Health
from walras_runtime.kafka.claims import (
    Claim,
    claim_key,
    claim_value,
    failures_key,
    failures_value,
    read_settled_claim,
)
from walras_runtime.kafka.log_reading import ends, plain_consumer
from walras_runtime.kafka.producing import (
    Batches,
    Row,
    answered,
    make_producer,
    pack_rows,
    send_batches,
)
from walras_runtime.kafka.restoring import check_gaps, group_agrees, restore
from walras_runtime.kafka.step_rows import step_rows
from walras_runtime.kafka.wire import parse_message
from walras_runtime.position import Position
from walras_runtime.records import Output, Record, StateChange, Step
from walras_runtime.settings import ServiceSettings
from walras_runtime.stage import Stage, StageSpec
from walras_runtime.tables import fold_tables, mirrored_inputs
from walras_runtime.telemetry import Telemetry

POLL_MS = 200
"""Upper bound of one poll; a stop request is seen within it."""
OFFSETS_EVERY_MS = 1_000
"""How often a step's transaction also carries the group's offsets. They serve lag monitors; where
the stage goes on is its position record, which every transaction carries."""
RETRY_S = 0.5
"""Pause before looking at the claim again while the broker is away."""
STOP_S = 5.0
"""A client that does not stop within this time is given up."""
MOST_RECORDS = 20_000
FETCH_BYTES = 4 * 1024 * 1024
"""Most of a partition in one answer of the broker; with the client's default of 1 MiB a busy step
would need several."""
AHEAD_RECORDS = 500
"""So many are decoded ahead between two looks for new ones: a few milliseconds."""
MOST_FAILURES = 3
"""So many failures of one step for no named subject stop the stage."""

T = TypeVar("T")
logger = structlog.get_logger("walras")


class StepRunner:
    """Runs one stage of one partition until stopped, fenced, or out of order.

    Parameters
    ----------
    spec
        How the stage is wired.
    partition
        Its partition; 0 for single leaders.
    topics
        The registry.
    settings
        Broker address, mode, timeouts.
    incarnation
        A name that no other process has.
    telemetry, health
        Where metrics, spans and faults go.
    """

    def __init__(
        self,
        spec: StageSpec,
        partition: int,
        topics: Mapping[str, Topic],
        settings: ServiceSettings,
        *,
        incarnation: str,
        telemetry: Telemetry,
        health: Health,
    ) -> None:
        self._spec = spec
        self._partition = partition
        self._topics = topics
        self._settings = settings
        self._incarnation = incarnation
        self._telemetry = telemetry
        self._health = health
        self._label = str(partition)
        self._name = f"{spec.service}/{partition}"
        self._transactional_id = f"walras.{spec.service}.{partition}"
        self.group = f"walras.{spec.service}-{partition}"
        self._inputs = {source.topic: source for source in spec.inputs}
        self.partitions: dict[str, tuple[int, ...]] = {
            source.topic: (
                (partition,)
                if source.own_partition
                else tuple(range(topics[source.topic].partitions))
            )
            for source in spec.inputs
        }
        self._short = {topics[s.topic].full_name: s.topic for s in spec.inputs}
        self._producer: AIOKafkaProducer | None = None
        self._claim: Claim | None = None
        self._last_epoch: int | None = None
        self._stage: Stage = spec.build(partition)
        self._position = Position.start()
        self._aligner = Aligner(spec.inputs, self.partitions, {}, {})
        self._letters: list[Output] = []
        self._left_over: list[StateChange] = []
        self._parents: dict[int, list[str]] = {}
        self._waiting_since_ms: int | None = None
        self._previous_commit_ms: int | None = None
        self._offsets_sent_ms = -OFFSETS_EVERY_MS

    async def run(self, stop: asyncio.Event) -> None:
        """Own the partition and work until ``stop`` is set.

        Raises
        ------
        FencedError
            Another process owns the partition.
        InvariantBrokenError, StepFailedError
            The stage broke; the process must end.
        """
        self._health.waiting.add(self._name)
        try:
            while not stop.is_set():
                try:
                    async with plain_consumer(
                        self._settings.kafka_bootstrap,
                        max_poll_records=MOST_RECORDS,
                        max_partition_fetch_bytes=FETCH_BYTES,
                    ) as consumer:
                        await self._own(consumer)
                        await self._restore(consumer)
                        self._health.ready = True
                        self._health.waiting.discard(self._name)
                        await self._work(consumer, stop)
                except (ProducerFailedError, BrokerUnavailableError, KafkaError) as error:
                    logger.warning("stage_dropped", stage=self._name, error=repr(error))
                    self._telemetry.restarts.labels(self._label).inc()
                    self._health.fail(self._name, repr(error))
                    await self._drop()
                    await self._still_mine(stop)
                except (OffsetGapError, PartitionStoppedError) as error:
                    logger.error("stage_stopped", stage=self._name, code=error.code, why=str(error))
                    self._health.fail(self._name, f"{error.code}: {error}")
                    await self._drop()
                    await stop.wait()
        finally:
            await self._drop()

    async def _own(self, consumer: AIOKafkaConsumer) -> None:
        self._producer = make_producer(
            self._settings.kafka_bootstrap,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
        )
        await self._guarded(self._producer.start())
        last = await self._read_claim(consumer)
        self._last_epoch = last.epoch
        await self._claim_epoch(last.epoch + 1, last)

    async def _claim_epoch(self, epoch: int, last: Claim) -> None:
        await self._write_to_claims(
            claim_key(self._spec.service, self._partition), claim_value(self._incarnation, epoch)
        )
        # Only now: a claim that was not committed is nobody's.
        self._claim = replace(last, incarnation=self._incarnation, epoch=epoch)
        self._telemetry.epoch.labels(self._label).set(epoch)
        logger.info("claimed", stage=self._name, epoch=epoch)

    async def _read_claim(self, consumer: AIOKafkaConsumer) -> Claim:
        claims = self._topics["claims"].full_name
        return await self._guarded(
            read_settled_claim(
                self._settings.kafka_bootstrap,
                consumer,
                claims,
                self._spec.service,
                self._partition,
                within_s=self._settings.transaction_timeout_ms / 1000,
            )
        )

    async def _write_to_claims(self, key: bytes, value: bytes) -> None:
        assert self._producer is not None
        row: Row = (key, value, [])
        claims = self._topics["claims"].full_name
        await self._transaction(pack_rows(self._producer, {(claims, 0): [row]}), {})

    async def _still_mine(self, stop: asyncio.Event) -> None:
        """Wait until the broker tells whose claim is the latest; end if it is another's.

        A process that failed before its own claim was committed may try again as long as it finds
        the claim that it was about to follow.
        """
        while not stop.is_set():
            try:
                async with plain_consumer(self._settings.kafka_bootstrap) as consumer:
                    claim = await self._read_claim(consumer)
            except (ProducerFailedError, BrokerUnavailableError, KafkaError) as error:
                logger.warning("claim_unreadable", stage=self._name, error=repr(error))
                await asyncio.sleep(RETRY_S)
                continue
            newer = self._last_epoch is not None and claim.epoch > self._last_epoch
            if claim.incarnation != self._incarnation and (self._claim is not None or newer):
                raise FencedError(f"{self._name} is owned by {claim.incarnation}")
            return

    async def _restore(self, consumer: AIOKafkaConsumer) -> None:
        self._stage = self._spec.build(self._partition)
        # Bounded by progress, not by time: a long log takes as long as it takes.
        restored = await restore(
            consumer,
            self._spec,
            self._partition,
            self._stage,
            topics=self._topics,
            partitions=self.partitions,
            left_over=self._left_over,
        )
        assert self._claim is not None
        if restored.epoch >= self._claim.epoch:
            # The claims do not know of the last owner: readers must still see epochs grow.
            logger.error("claim_behind_position", stage=self._name, epoch=restored.epoch)
            await self._claim_epoch(restored.epoch + 1, self._claim)
        agrees = restored.step < 0 or await self._guarded(
            group_agrees(self._settings.kafka_bootstrap, self.group, self._topics, restored)
        )
        if not agrees:
            self._telemetry.position_alarms.labels(self._label).inc()
            logger.error("group_offsets_disagree", stage=self._name, step=restored.step)
        self._position = restored
        self._aligner = Aligner(
            self._spec.inputs, self.partitions, restored.offsets, restored.delivered
        )
        self._letters.clear()
        self._parents.clear()
        self._waiting_since_ms = None
        self._health.clear(self._name)
        logger.info("restored", stage=self._name, step=restored.step)

    def _broker_offsets(self, offsets: Mapping[PartitionKey, int]) -> dict[TopicPartition, int]:
        return {
            TopicPartition(self._topics[topic].full_name, partition): offset
            for (topic, partition), offset in offsets.items()
        }

    async def _work(self, consumer: AIOKafkaConsumer, stop: asyncio.Event) -> None:
        start = self._broker_offsets(self._aligner.position())
        consumer.assign(list(start))
        for tp, offset in start.items():
            consumer.seek(tp, offset)
        while not stop.is_set():
            try:
                # Not 0: the client's own tasks must get their turn.
                timeout_ms = 1 if self._decode_ahead() else POLL_MS
                batches = await consumer.getmany(timeout_ms=timeout_ms)
                if not batches:
                    collect_when_idle()
            except OffsetOutOfRangeError as error:
                lost: dict[TopicPartition, int] = error.args[0]
                check_gaps(
                    lost, await consumer.beginning_offsets(list(lost)), await ends(consumer, lost)
                )
                raise OffsetGapError(f"{self._name}: {error}") from error
            for tp, messages in batches.items():
                self._take_in(self._short[tp.topic], messages)
            while not stop.is_set() and self._may_step():
                await self._step()

    def _decode_ahead(self) -> bool:
        """Decode some records of later steps; tell whether there may be more of them.

        Feedback lies here for a step or more before it is due: its step need not decode it then.
        """
        left = AHEAD_RECORDS
        for source, interval in self._aligner.not_looked_at():
            if source.raw:
                interval.looked_at = len(interval.records)
                continue
            left -= decode_ahead(interval, self._topics[source.topic].events, left)
            if left == 0:
                return True
        return False

    def _take_in(self, topic: str, messages: list[Any]) -> None:
        lag = self._inputs[topic].lag
        for message in messages:
            item = parse_message(message, topic)
            if isinstance(item, Record):
                self._aligner.push_record(item)
                continue
            self._check_age(topic, message)
            taken = self._aligner.push_barrier(
                topic, message.partition, item.offset, item.barrier, epoch=item.epoch
            )
            if not taken:
                where = f"{topic}/{message.partition}@{item.offset}"
                number, epoch = item.barrier.number, item.epoch
                logger.warning("barrier_passed_over", at=where, number=number, epoch=epoch)
            elif item.traceparent is not None:
                self._parents.setdefault(item.barrier.number + lag, []).append(item.traceparent)

    def _check_age(self, topic: str, message: Any) -> None:
        """Refuse a barrier behind which the log's cleaner may have been already."""
        registered = self._topics[topic]
        age_ms = wall_ms() - message.timestamp
        if registered.cleanup == "compact" and age_ms > registered.min_compaction_lag_ms:
            raise OffsetGapError(
                f"{message.topic}/{message.partition}: the barrier at {message.offset} is "
                f"{age_ms} ms old; after {registered.min_compaction_lag_ms} ms records before it "
                "may have been compacted away unread"
            )

    def _may_step(self) -> bool:
        number = self._position.step + 1
        if self._aligner.ready(number):
            return True
        if self._settings.mode == "replay" or not self._aligner.may_go_on_without(number):
            return False
        if self._aligner.only_known_late(number):
            return True
        now = monotonic_ms()
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now
        return now - self._waiting_since_ms >= self._settings.alignment_timeout_ms

    async def _step(self) -> None:
        number = self._position.step + 1
        self._waiting_since_ms = None
        started = monotonic_ms()
        # Causes of a late partition's barriers belong to the step that takes them.
        due = [barrier for barrier in self._parents if barrier <= number]
        parents = [each for barrier in sorted(due) for each in self._parents.pop(barrier)]
        with self._telemetry.step_span(number, parents) as traceparent:
            aligned = self._aligner.take(number)
            assert self._claim is not None
            position = Position(
                number,
                aligned.barrier.market_time_ms,
                self._aligner.position(),
                self._aligner.delivered(),
                self._claim.epoch,
                mirrored_inputs(self._spec, self._topics),
            )
            batches = await self._decide(aligned, position, traceparent)
            decided = monotonic_ms()
            await self._commit(batches, position)
        self._position = position
        self._left_over.clear()
        self._previous_commit_ms = wall_ms()
        metrics, label = self._telemetry, self._label
        metrics.step_seconds.labels(label).observe((decided - started) / 1000)
        metrics.commit_seconds.labels(label).observe((monotonic_ms() - decided) / 1000)
        metrics.steps.labels(label).inc()
        metrics.barrier.labels(label).set(number)
        metrics.records.labels(label).inc(sum(len(r) for r in aligned.records.values()))
        for letter in self._letters:
            metrics.dead_letters.labels(letter.key.partition("/")[0], "undecodable").inc()

    async def _decide(
        self, aligned: Aligned, position: Position, traceparent: str | None
    ) -> Batches:
        """Decide the step; return all that it writes, ready to be sent."""
        assert self._claim is not None
        assert self._producer is not None
        number = aligned.barrier.number
        records, self._letters = decode_step(self._spec, aligned, self._topics)
        failures = self._claim.failures if self._claim.failed_barrier == number else {}
        step = Step(aligned.barrier, records, aligned.late, failures, self._aligner.newest_ready())
        try:
            mirrored = fold_tables(self._spec, self._stage, self._topics, records)
            result = self._stage.step(step)
            rows = step_rows(
                self._spec,
                self._partition,
                self._topics,
                aligned.barrier,
                outputs=[*result.outputs, *self._letters],
                state=[*self._left_over, *mirrored, *result.state],
                position=position,
                epoch=self._claim.epoch,
                previous_commit_ms=self._previous_commit_ms,
                traceparent=traceparent,
            )
            return pack_rows(self._producer, rows)
        except Exception as error:
            # Every failure of a step is counted on the log before the process ends, so that the
            # third one on the same barrier can halt what caused it.
            subject = error.subject if isinstance(error, StepFailedError) else ""
            await self._write_to_claims(
                failures_key(self._spec.service, self._partition),
                failures_value(self._claim, number, subject, repr(error)),
            )
            failed = failures.get(subject, 0) + 1
            if not subject and failed >= MOST_FAILURES:
                raise StageBrokenError(f"step {number} failed {failed} times: {error!r}") from error
            raise

    async def _commit(self, batches: Batches, position: Position) -> None:
        offsets: dict[TopicPartition, int] = {}
        now = monotonic_ms()
        if now - self._offsets_sent_ms >= OFFSETS_EVERY_MS:
            self._offsets_sent_ms = now
            offsets = self._broker_offsets(position.offsets)
        await self._transaction(batches, offsets)

    async def _transaction(self, batches: Batches, offsets: Mapping[TopicPartition, int]) -> None:
        producer = self._producer
        assert producer is not None
        await self._guarded(producer.begin_transaction())
        futures = await self._guarded(send_batches(producer, batches))
        # The records first, then the offsets: while the coordinator takes in the offsets it cannot
        # vouch for the partitions, and the broker would refuse the records until a retry.
        await self._guarded(asyncio.gather(*futures))
        if offsets:
            await self._guarded(producer.send_offsets_to_transaction(offsets, self.group))
        await self._guarded(producer.commit_transaction())

    async def _guarded(self, work: Awaitable[T]) -> T:
        """Await a client's call with a bound; whatever it raises means: start over."""
        try:
            bound_s = self._settings.transaction_timeout_ms / 1000 * 2
            return await asyncio.wait_for(answered(work), bound_s)
        except (KafkaError, TimeoutError) as error:
            raise ProducerFailedError(repr(error)) from error

    async def _drop(self) -> None:
        producer, self._producer = self._producer, None
        self._health.waiting.add(self._name)
        if producer is None:
            return
        try:
            await asyncio.wait_for(answered(producer.stop()), STOP_S)
        except (KafkaError, ProducerFailedError, TimeoutError) as error:
            logger.warning("producer_not_stopped", stage=self._name, error=repr(error))
