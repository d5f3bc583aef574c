"""What of the figures is on /metrics."""

from typing import Any

from prometheus_client import CollectorRegistry

from walras_placement.handlers import PlacementStage
from walras_placement.settings import Settings
from walras_placement.wiring import Metrics, build
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.watched import WatchedStage


def test_gauges_follow_the_last_cycle_and_counters_take_each_cycle_once(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 1))
    first = bench.figures["a"]
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    second = bench.figures["a"]
    registry = CollectorRegistry()
    metrics = Metrics(registry)

    def value(name: str) -> float | None:
        return registry.get_sample_value(name, {"market": "a"})

    for figures in (first, first, second, second):
        metrics.show([figures])
    assert value("walras_jobs_started_total") == 1
    assert value("walras_vacates_total") == 1
    assert value("walras_placement_held_macc") == 1000
    assert value("walras_placement_unspent_macc") == 0
    metrics.show([])
    assert value("walras_placement_held_macc") == 1000, "a step in which no cycle was measured"
    metrics.show([second.model_copy(update={"market": "b", "cycle": second.cycle + 1})])
    assert value("walras_placement_held_macc") is None, "a market that is gone is at no value"
    assert value("walras_jobs_started_total") == 1


def test_a_stage_that_is_watched_decides_as_one_that_is_not(kit: Any) -> None:
    seen: list[int] = []
    spec = build(
        Settings(kafka_bootstrap="none", mode="replay"), lambda each: seen.append(len(each))
    )
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    stage = spec.build(0)
    assert isinstance(stage, WatchedStage)
    plain = build(Settings(kafka_bootstrap="none", mode="replay")).build(0)
    assert isinstance(plain, PlacementStage)
    log = bench.log
    written = [entry.payload for entry in log.entries["job.status", 3]]
    for topic in ("leases", "vacate", "job.status", "placement.figures", "state.placement"):
        for partition in log.partitions(topic):
            log.entries[topic, partition] = []
    assert MemoryRunner(spec, log).advance() == 1
    assert seen == [1]
    assert [entry.payload for entry in log.entries["job.status", 3]] == written
