"""An echo stage as a process: numbers what it reads and keeps a running count in its state."""

import asyncio
import os
import time

from walras_contracts.topics import Topic, parse_topics
from walras_runtime.health import Health
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


def topic(name: str, **values: object) -> str:
    lines = [f'[[topic]]\nname = "{name}"']
    lines += [f"{k} = {v!r}".replace("'", '"') for k, v in values.items()]
    return "\n".join(lines) + "\n"


def registry() -> dict[str, Topic]:
    return parse_topics(
        REGISTRY
        + topic("in", barriers="outside")
        + topic("out", barriers="producer")
        + topic("state.echo", partitions=2, cleanup="compact")
        + topic("claims", partitions=1, cleanup="compact")
        + topic("ticks", partitions=1, barriers="outside")
        + topic("dead_letter")
    )


class EchoStage:
    """Echoes ``value`` as ``count:value``; the state is the count."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.count = 0

    def fold(self, record: Record) -> None:
        raise AssertionError("the echo stage has no tables")

    def load(self, key: str, value: bytes) -> None:
        assert key == "count"
        self.count = int(value)

    def step(self, step: Step) -> StepResult:
        outputs = []
        for record in step.records["in"]:
            assert record.value is not None
            if record.value == b"crash" and os.environ.get("ECHO_CRASHES"):
                raise ValueError("told to crash")
            self.count += 1
            body = b"%d:%s" % (self.count, record.value)
            outputs.append(
                Output("out", record.key, record.key, "echo.v1", body, record.partition)
            )
        time.sleep(float(os.environ.get("ECHO_STEP_S", "0")))
        return StepResult(outputs, [StateChange("count", b"%d" % self.count)])


def spec(*, spread: bool) -> StageSpec:
    return StageSpec(
        "echo", (Input("in", own_partition=spread, raw=True),), ("out",), EchoStage, spread=spread
    )


class Settings(ServiceSettings):
    """The echo service."""

    SERVICE = "echo"
    spread: bool = True
    """Whether it is spread by partition or a single leader."""


async def serve(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    await run_stages(
        spec(spread=settings.spread), settings, stop, telemetry, health, topics=registry()
    )


if __name__ == "__main__":
    process_main(Settings, serve)
