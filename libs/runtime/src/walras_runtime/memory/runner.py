"""Runs stages over the log in memory, by the same rules as the Kafka loop.

One call of :meth:`MemoryRunner.advance` does all steps that are ready. A crash is simulated by
dropping the runner and building another on the same log: it restores from its own output.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from walras_runtime.align import Aligner, PartitionKey
from walras_runtime.decoding import decode, decode_step
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.position import Position
from walras_runtime.records import POSITION_KEY, Output, Record, StateChange, Step
from walras_runtime.stage import Input, Stage, StageSpec
from walras_runtime.tables import (
    check_mirrored,
    fold_tables,
    is_mirrored,
    load_state,
    mirrored_inputs,
)


class MemoryRunner:
    """One stage of one partition on a log in memory.

    Parameters
    ----------
    spec
        How the stage is wired.
    log
        The log that it reads and writes.
    partition
        Its partition; 0 for single leaders.
    """

    def __init__(self, spec: StageSpec, log: MemoryLog, partition: int = 0) -> None:
        self.spec = spec
        self.partition = partition
        self._log = log
        self._inputs = {source.topic: source for source in spec.inputs}
        self._partitions = {
            source.topic: (
                (partition,) if source.own_partition else tuple(log.partitions(source.topic))
            )
            for source in spec.inputs
        }
        self.stage: Stage = spec.build(partition)
        self._left_over: list[StateChange] = []
        self.position = self._restore()
        self._read: dict[PartitionKey, int] = dict(self.position.offsets)
        self._aligner = Aligner(
            spec.inputs, self._partitions, self.position.offsets, self.position.delivered
        )

    def advance(self, most: int = 1_000_000) -> int:
        """Do all steps that are ready, ``most`` at the most; return how many were done."""
        done = 0
        self._poll()
        while done < most and self._aligner.ready(self.position.step + 1):
            self._step()
            done += 1
            self._poll()
        return done

    def _poll(self) -> None:
        for topic, partitions in self._partitions.items():
            for partition in partitions:
                key = (topic, partition)
                for entry in self._log.read(topic, partition, self._read.get(key, 0)):
                    self._read[key] = entry.offset + 1
                    self._push(self._inputs[topic], partition, entry)

    def _push(self, source: Input, partition: int, entry: Entry) -> None:
        if entry.barrier is not None:
            self._aligner.push_barrier(source.topic, partition, entry.offset, entry.barrier)
            return
        self._aligner.push_record(as_record(source, partition, entry))

    def _step(self) -> None:
        number = self.position.step + 1
        aligned = self._aligner.take(number)
        decoded, letters = decode_step(self.spec, aligned, self._log.topics)
        mirrored = fold_tables(self.spec, self.stage, self._log.topics, decoded)
        result = self.stage.step(
            Step(
                aligned.barrier,
                decoded,
                aligned.late,
                {},
                self._aligner.newest_ready(),
            )
        )
        self.position = Position(
            number,
            aligned.barrier.market_time_ms,
            self._aligner.position(),
            self._aligner.delivered(),
            mirrored=mirrored_inputs(self.spec, self._log.topics),
        )
        name = f"{self.spec.service}/{self.partition}"
        outputs = [
            replace(o, partition=self.spec.target(o, self._log.topics[o.topic], self.partition))
            for o in (*result.outputs, *letters)
        ]
        self._log.append(outputs, source=f"{name}/{number}")
        changes = [
            *self._left_over,
            *mirrored,
            *result.state,
            StateChange(POSITION_KEY, self.position.payload()),
        ]
        self._left_over = []
        self._log.append(
            [
                Output(self.spec.state_topic, c.key, "", "walras.state.v1", c.value, self.partition)
                for c in changes
            ],
            source=name,
        )
        for topic in self.spec.outputs:
            if self._log.topics[topic].barriers == "producer":
                own = (self.partition,) if self.spec.spread else self._log.partitions(topic)
                for partition in own:
                    self._log.append_barrier(topic, partition, aligned.barrier)

    def _restore(self) -> Position:
        latest: dict[str, bytes | None] = {}
        for entry in self._log.read(self.spec.state_topic, self.partition, 0):
            latest.pop(entry.key, None)
            latest[entry.key] = entry.payload
        kept = latest.pop(POSITION_KEY, None)
        position = Position.parse(kept) if kept is not None else Position.start()
        check_mirrored(self.spec, self._log.topics, position)
        for source in self.spec.inputs:
            if not source.table or is_mirrored(source, self._log.topics):
                continue
            for partition in self._partitions[source.topic]:
                until = position.offsets.get((source.topic, partition), 0)
                for entry in self._log.read(source.topic, partition, 0):
                    if entry.offset < until and entry.barrier is None:
                        record, _ = decode(
                            self.spec.service,
                            source,
                            as_record(source, partition, entry),
                            self._log.topics[source.topic].events,
                        )
                        if record is not None:
                            self.stage.fold(record)
        state = {key: value for key, value in latest.items() if value is not None}
        self._left_over = load_state(self.spec, self.stage, self._log.topics, state)
        return position


def as_record(source: Input, partition: int, entry: Entry) -> Record:
    """Return an entry of the log as a record of an input."""
    return Record(
        source.topic,
        partition,
        entry.offset,
        entry.key,
        entry.type,
        entry.payload,
        None,
        entry.event_id,
        entry.source,
    )


def state_digest_input(log: MemoryLog, service: str) -> Mapping[str, str]:
    """Return the latest own state of a service on the log, as text, for comparisons."""
    latest: dict[str, str] = {}
    topic = f"state.{service}"
    for partition in log.partitions(topic):
        for entry in log.read(topic, partition, 0):
            name = f"{partition}/{entry.key}"
            if entry.payload is None:
                latest.pop(name, None)
            elif entry.key != POSITION_KEY:
                latest[name] = json.dumps(json.loads(entry.payload), sort_keys=True)
    return latest
