"""An echo stage as a process: numbers what it reads and keeps a running count in its state.

Variables of the test: ECHO_SPACE keeps runs on one broker apart, ECHO_STEP_S makes steps slow,
ECHO_RAW=0 decodes the input, ECHO_POLL_MS is how long a member of the election may go without a
poll, ECHO_FAULT="what@gap@step" breaks the process at one point of the loop
(gaps as in the table of `step_runner`), what being `kill`, `stop` or `outside`.
"""

import asyncio
import os
import signal
import time
from functools import partial
from typing import Any, NoReturn

from walras_contracts.dead_letters import DeadLettered
from walras_contracts.topics import Topic, parse_topics
from walras_runtime import service
from walras_runtime.align import Aligned
from walras_runtime.errors import StepFailedError
from walras_runtime.health import Health
from walras_runtime.kafka import step_runner
from walras_runtime.kafka.election import campaign
from walras_runtime.kafka.producing import Batches, Row, make_producer, send_rows
from walras_runtime.kafka.step_rows import step_rows
from walras_runtime.kafka.step_runner import StepRunner
from walras_runtime.position import Position
from walras_runtime.records import Output, Record, StateChange, Step, StepResult
from walras_runtime.service import process_main, run_stages
from walras_runtime.settings import ServiceSettings
from walras_runtime.stage import Input, StageSpec
from walras_runtime.telemetry import Telemetry

REGISTRY = """
[defaults]
partitions = 2
min_compaction_lag_ms = 86400000
delete_retention_ms = 86400000
record_key = "k"
partition_key = "k"
cleanup = "delete"
retention_ms = -1
barriers = "none"
producer = "x"
consumers = ["x"]
events = []
"""
HALTED_AFTER = 3


def topic(name: str, **values: object) -> str:
    lines = [f'[[topic]]\nname = "{name}"']
    lines += [f"{k} = {v!r}".replace("'", '"') for k, v in values.items()]
    return "\n".join(lines) + "\n"


def service_of(space: str) -> str:
    """Return the service's name in a space: its claims, group and transactional ids follow it."""
    return f"echo_{space}" if space else "echo"


def registry(space: str = "") -> dict[str, Topic]:
    """Return the topics; the names on the broker carry the space, the short names do not."""
    state = f"state.{service_of(space)}"
    topics = parse_topics(
        REGISTRY
        + topic("in", barriers="outside", events=[DeadLettered.TYPE])
        + topic("out", barriers="producer")
        + topic(state, partitions=2, cleanup="compact")
        + topic("claims", partitions=1, cleanup="compact")
        + topic("ticks", partitions=1, barriers="outside")
        + topic("dead_letter")
    )
    if not space:
        return topics
    return {
        name: held.model_copy(update={"name": f"{space}.{held.name}"})
        for name, held in topics.items()
    }


class EchoStage:
    """Echoes ``value`` as ``count:value``; the state is the count.

    The value ``crash`` breaks a step, until three failures were counted; ``big`` makes an output
    that no batch can hold.
    """

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.count = 0

    def fold(self, record: Record) -> None:
        raise AssertionError(f"the echo stage has no tables, but got {record.key}")

    def load(self, key: str, value: bytes) -> None:
        assert key == "count"
        self.count = int(value)

    def step(self, step: Step) -> StepResult:
        outputs = []
        for record in step.records["in"]:
            assert record.value is not None
            if record.value == b"crash" and step.failures.get("crash", 0) < HALTED_AFTER:
                raise StepFailedError("crash", f"failed {dict(step.failures)}")
            self.count += 1
            value = bytes(1_200_000) if record.value == b"big" else record.value
            body = b"%d:%s" % (self.count, value)
            outputs.append(Output("out", record.key, record.key, "echo.v1", body, record.partition))
        time.sleep(float(os.environ.get("ECHO_STEP_S", "0")))
        return StepResult(outputs, [StateChange("count", b"%d" % self.count)])


def spec(*, spread: bool, space: str = "", raw: bool = True, lagged: bool = False) -> StageSpec:
    """Return the wiring; ``lagged`` reads the input as feedback that is a table."""
    return StageSpec(
        service_of(space),
        (Input("in", own_partition=spread, raw=raw, table=lagged, lag=int(lagged)),),
        ("out",),
        EchoStage,
        spread=spread,
    )


def kill_now() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


LAST_ROWS: dict[tuple[str, int], list[Row]] = {}


def remembered_rows(*arguments: Any, **options: Any) -> dict[tuple[str, int], list[Row]]:
    rows = step_rows(*arguments, **options)
    LAST_ROWS.clear()
    LAST_ROWS.update(rows)
    return rows


class FaultyRunner(StepRunner):
    """Breaks its process at one point; gaps as in the table of `step_runner`."""

    stopped = False

    async def _write_to_claims(self, key: bytes, value: bytes) -> None:
        self._reach(1, -1)
        await super()._write_to_claims(key, value)

    async def _restore(self, consumer: Any) -> None:
        self._reach(2, -1)
        await super()._restore(consumer)

    async def _decide(
        self, aligned: Aligned, position: Position, traceparent: str | None
    ) -> Batches:
        self._reach(3, aligned.barrier.number)
        return await super()._decide(aligned, position, traceparent)

    async def _commit(self, batches: Batches, position: Position) -> None:
        assert self._producer is not None
        what, gap, step = self._fault()
        here = step == position.step
        if here and what == "outside":
            await self._publish_outside()
            kill_now()
        if here and gap == 5:
            commit = self._producer.commit_transaction

            async def before_commit() -> None:
                self._reach(5, step)
                await commit()

            self._producer.commit_transaction = before_commit
        if here and gap == 6:
            self._kill_behind_the_request()
        self._reach(4, position.step)
        await super()._commit(batches, position)
        self._reach(7, position.step)

    def _kill_behind_the_request(self) -> None:
        """Die when the request to commit is on the wire and its answer is not read."""
        assert self._producer is not None
        client = self._producer.client
        send = client.send

        async def spied(node: int, request: Any, **options: Any) -> Any:
            if type(request).__name__.startswith("EndTxn"):
                task = asyncio.ensure_future(send(node, request, **options))
                for _ in range(20):
                    await asyncio.sleep(0)
                    if task.done():
                        # A quick broker: the transaction is decided, which the table allows too.
                        break
                kill_now()
            return await send(node, request, **options)

        client.send = spied

    async def _publish_outside(self) -> None:
        """What a loop without transactions would do: publish first, note where it stands later."""
        out = self._topics["out"].full_name
        rows = {where: held for where, held in LAST_ROWS.items() if where[0] == out}
        producer = make_producer(self._settings.kafka_bootstrap)
        await producer.start()
        await asyncio.gather(*await send_rows(producer, rows))
        await producer.stop()

    @staticmethod
    def _fault() -> tuple[str, int, int]:
        what, gap, step = os.environ["ECHO_FAULT"].split("@")
        return what, int(gap), int(step)

    def _reach(self, gap: int, step: int) -> None:
        what, at_gap, at_step = self._fault()
        if (gap, step) != (at_gap, at_step):
            return
        if what == "kill":
            kill_now()
        if what == "stop" and not FaultyRunner.stopped:
            FaultyRunner.stopped = True  # once: the runners of all partitions come by here
            os.kill(os.getpid(), signal.SIGSTOP)


class Settings(ServiceSettings):
    """The echo service."""

    SERVICE = "echo"
    spread: bool = True
    """Whether it is spread by partition or a single leader."""


async def serve(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    space = os.environ.get("ECHO_SPACE", "")
    raw = os.environ.get("ECHO_RAW", "1") == "1"
    await run_stages(
        spec(spread=settings.spread, space=space, raw=raw),
        settings,
        stop,
        telemetry,
        health,
        topics=registry(space),
    )


if __name__ == "__main__":
    if "ECHO_POLL_MS" in os.environ:
        vars(service)["campaign"] = partial(
            campaign, max_poll_interval_ms=int(os.environ["ECHO_POLL_MS"])
        )
    if "ECHO_FAULT" in os.environ:
        vars(service)["StepRunner"] = FaultyRunner
        vars(step_runner)["step_rows"] = remembered_rows
    process_main(Settings, serve)
