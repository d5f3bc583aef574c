"""Each deciding service as a process on a real broker, alone with its inputs.

It must write, record by record, what the same stage decides on the log in memory; also when it is
killed again and again while it works.
"""

import asyncio
import random
from pathlib import Path

import pytest

from tests.integration.log_copy import Feed, as_decided, decided, feeding, read_back
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


async def kill_at_work(
    supervisor: Supervisor, service: str, feed: Feed, watch: BarrierWatch, chooser: random.Random
) -> list[str]:
    """Kill a service twice while it has a step to do that is not its last; return how.

    Once when the step cannot be completed, for the lack of one barrier; once when it was just told.
    """
    log = []
    numbers = sorted(chooser.sample(range(1, STEPS), 2))
    for number, begun in zip(numbers, chooser.sample([True, False], 2), strict=True):
        await feed.write(number - 1)
        await watch.wait(number - 1, supervisor.look)
        held = chooser.choice(feed.partitions()) if begun else None
        await feed.write(number, held=held)
        if begun:
            # So that what was told has arrived there.
            await asyncio.sleep(chooser.uniform(0.0, 0.1))
        supervisor.kill(service)
        log.append("killed in a step" if begun else "killed before a step")
        print(f"{service}: {log[-1]}, {number} of {STEPS}, held back {held}")
    return log


async def run_alone(
    world: World, spec: StageSpec, bootstrap: str, logs: Path, kills: random.Random | None
) -> list[str]:
    """Run one service until its last output shows the last barrier; return what was done to it.

    What it wrote must be, record by record, what the stage decides in memory.
    """
    topics = world.log.topics
    await create_topics(bootstrap, topics)
    own = {*spec.outputs, spec.state_topic}
    others = frozenset(MODULES) - {spec.service}
    supervisor = Supervisor(
        replay_services(60_000, 1, without=others),
        {"WALRAS_KAFKA_BOOTSTRAP": bootstrap, "WALRAS_MODE": "replay"}
        | {"WALRAS_ELECTION_SESSION_MS": "2000"},
        logs,
    )
    watched = next(t for t in spec.outputs if topics[t].barriers == "producer")
    told = [i.topic for i in spec.inputs if i.topic not in own]
    done: list[str] = []
    supervisor.start()
    try:
        async with (
            feeding(world.log, bootstrap, told) as feed,
            plain_consumer(bootstrap) as consumer,
        ):
            watch = BarrierWatch(consumer, topics[watched])
            if kills is not None:
                done = await kill_at_work(supervisor, spec.service, feed, watch, kills)
                assert watch.reached() < STEPS
            await feed.write(STEPS)
            await watch.wait(STEPS, supervisor.look)
        done += [f"{name} ended with {code}" for name, code in supervisor.exits]
    finally:
        supervisor.stop()
    for name in spec.outputs:
        found, due = await read_back(bootstrap, topics[name]), decided(world.log, name)
        if kills is not None:
            found, due = as_decided(name, found), as_decided(name, due)
        assert found == due, name
    return done


@pytest.mark.parametrize("service", sorted(SPECS))
def test_it_writes_what_the_stage_decides_in_memory(
    service: str, small_world: World, own_broker: OwnBroker, tmp_path: Path
) -> None:
    spec = SPECS[service]
    assert asyncio.run(run_alone(small_world, spec, own_broker().bootstrap, tmp_path, None)) == []


@pytest.mark.parametrize("service", sorted(SPECS))
@pytest.mark.parametrize("seed", [7], ids=["seed-7"])
def test_killed_at_work_it_writes_the_same(
    service: str, seed: int, small_world: World, own_broker: OwnBroker, tmp_path: Path
) -> None:
    kills = random.Random(f"{service}/{seed}")
    bootstrap = own_broker().bootstrap
    done = asyncio.run(run_alone(small_world, SPECS[service], bootstrap, tmp_path, kills))
    ended = [f"{service} ended with -9"] * 2
    assert sorted(done) == sorted(["killed before a step", "killed in a step", *ended])
