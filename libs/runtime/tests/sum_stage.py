"""A stage that says at each step what its tables hold, its topics, and its wirings."""

import json

from libs.runtime.tests.echo_service import REGISTRY, topic
from walras_contracts.dead_letters import DeadLettered
from walras_contracts.topics import Topic, parse_topics
from walras_runtime.records import Output, Record, Step, StepResult
from walras_runtime.stage import Input, StageSpec

TABLE = Input("table", table=True)
FEEDBACK = Input("feedback", table=True, lag=1)


def registry() -> dict[str, Topic]:
    return parse_topics(
        REGISTRY
        + topic("in", barriers="outside")
        + topic("table", barriers="outside", cleanup="compact")
        + topic("feedback", barriers="outside", cleanup="compact", events=[DeadLettered.TYPE])
        + topic("out", barriers="producer")
        + topic("state.sum", partitions=1, cleanup="compact")
        + topic("claims", partitions=1, cleanup="compact")
        + topic("ticks", partitions=1, barriers="outside")
        + topic("dead_letter")
    )


class SumStage:
    """Says at each step what its tables hold."""

    def __init__(self, _: int) -> None:
        self.held: dict[tuple[str, int, str], str] = {}

    def fold(self, record: Record) -> None:
        key = (record.topic, record.partition, record.key)
        self.held.pop(key, None)
        if record.value is not None:
            self.held[key] = record.value.decode()

    def load(self, key: str, value: bytes) -> None:
        raise AssertionError(f"no own state, but {key}={value!r}")

    def step(self, step: Step) -> StepResult:
        body = json.dumps(sorted([*key, value] for key, value in self.held.items()))
        return StepResult([Output("out", f"{step.barrier.number}", "", "t", body.encode(), 0)])


def wired(*inputs: Input) -> StageSpec:
    return StageSpec("sum", (Input("in", raw=True), *inputs), ("out",), SumStage)


def raw(source: Input) -> Input:
    return Input(source.topic, table=True, lag=source.lag, raw=True)
