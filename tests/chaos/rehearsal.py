"""A chaos run's input on a log in memory, and what the stages write to it there."""

from collections.abc import Sequence

from tests.chaos.broker_log import SeenLog
from tests.chaos.plan import Plan
from tests.chaos.roles import outside_topics
from tests.chaos.story import Story
from tests.chaos.twin import run_twin
from walras_contracts.topics import load_topics
from walras_runtime.memory.log import MemoryLog
from walras_runtime.records import emit
from walras_runtime.stage import StageSpec


def input_log(plan: Plan, stages: Sequence[StageSpec]) -> MemoryLog:
    """Return the input of a plan with its barriers."""
    log = MemoryLog(load_topics())
    names = outside_topics(stages)
    for step in Story(plan):
        log.append([emit(event) for event in step.events if event.TOPIC in names])
        for name in names:
            for partition in log.partitions(name):
                log.append_barrier(name, partition, step.barrier)
    return log


def rehearse(plan: Plan, stages: Sequence[StageSpec]) -> SeenLog:
    """Return the whole log of a plan, decided in memory."""
    return SeenLog(run_twin(SeenLog(input_log(plan, stages)), stages))
