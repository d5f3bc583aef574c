"""Each deciding service as a process on a real broker, alone with its inputs.

It must write, record by record, what the same stage decides on the log in memory; also when it is
killed again and again while it works.
"""

import asyncio
import random
from pathlib import Path

import pytest

from tests.integration.log_copy import copy_topics, decided, read_back
from tests.simulation.world import World, specs
from walras.demo.driver import BarrierWatch
from walras.demo.services import MODULES, replay_services
from walras.processes import Supervisor
from walras_launcher.pytest_plugin import OwnBroker
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.stage import StageSpec

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

STEPS = 20
SPECS = {spec.service: spec for spec in specs()}


async def run_alone(
    world: World, spec: StageSpec, bootstrap: str, logs: Path, kills: random.Random | None
) -> list[str]:
    """Run one service until its last output shows the last barrier; return what differs."""
    topics = world.log.topics
    await create_topics(bootstrap, topics)
    own = {*spec.outputs, spec.state_topic}
    await copy_topics(world.log, bootstrap, [i.topic for i in spec.inputs if i.topic not in own])
    others = frozenset(MODULES) - {spec.service}
    supervisor = Supervisor(
        replay_services(60_000, 1, without=others),
        {"WALRAS_KAFKA_BOOTSTRAP": bootstrap, "WALRAS_MODE": "replay"}
        | {"WALRAS_ELECTION_SESSION_MS": "2000"},
        logs,
    )
    watched = next(t for t in spec.outputs if topics[t].barriers == "producer")
    supervisor.start()
    try:
        async with plain_consumer(bootstrap) as consumer:
            watch = BarrierWatch(consumer, topics[watched])
            if kills is not None:
                for target in sorted(kills.sample(range(STEPS), 2)):
                    await watch.wait(target, supervisor.look)
                    supervisor.kill(spec.service)
            await watch.wait(STEPS, supervisor.look)
    finally:
        supervisor.stop()
    return [
        name
        for name in spec.outputs
        if await read_back(bootstrap, topics[name]) != decided(world.log, name)
    ]


@pytest.mark.parametrize("service", sorted(SPECS))
@pytest.mark.parametrize("seed", [None, 7], ids=["undisturbed", "killed-seed-7"])
def test_it_writes_what_the_stage_decides_in_memory(
    service: str,
    seed: int | None,
    small_world: World,
    own_broker: OwnBroker,
    tmp_path: Path,
) -> None:
    kills = None if seed is None else random.Random(f"{service}/{seed}")
    differing = asyncio.run(
        run_alone(small_world, SPECS[service], own_broker().bootstrap, tmp_path, kills)
    )
    assert differing == []
