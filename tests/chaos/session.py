"""A chaos run under way: what was written, how far the workers are, and what is done to them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from aiokafka import TopicPartition

from tests.chaos.crew import EXIT_FENCED, Crew, Worker
from tests.chaos.forks import KILLED
from tests.chaos.orders import Order, give
from tests.chaos.plan import AT_START, Disturbance, Kind, Plan
from tests.chaos.roles import Role, aimed_at, outside_topics, specs
from tests.chaos.story import StepInput, Story
from tests.chaos.waiting import ChaosError, Watch, eventually
from tests.performance.outside import Outside
from walras_contracts.topics import load_topics
from walras_launcher.kafka import KafkaBroker
from walras_launcher.redis import RedisServer
from walras_runtime.kafka.log_reading import plain_consumer, wait_until_settled

LEAD_STEPS: Final = 3
"""So far the input may be ahead of what is committed while nothing is disturbed."""
TRANSACTION_TIMEOUT_MS: Final = 3_000
"""Twice as long is waited for an answer of the broker; some restarts take longer than that."""
ABORTED_WITHIN_S: Final = 30.0
ASLEEP_S: Final = 0.09
AWAKE_S: Final = 0.01
"""A slow worker sleeps and works for so long in turn."""


@dataclass(slots=True)
class Session:
    """The servers, the crew and the writer of a run."""

    plan: Plan
    roles: Sequence[Role]
    broker: KafkaBroker
    redis: RedisServer
    crew: Crew
    writer: Outside
    watch: Watch
    say: Callable[[str], None]
    progress: Callable[[int, int], None]
    number: int = -1
    """Last step written."""
    broker_is_there: asyncio.Event = field(default_factory=asyncio.Event)
    _happened: Counter[Kind] = field(default_factory=Counter)
    _story: Story = field(init=False)
    _steps: Iterator[StepInput] = field(init=False)
    _outside: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.broker_is_there.set()
        self._story = Story(self.plan)
        self._steps = iter(self._story)
        self._outside = outside_topics(specs(self.roles))

    async def run(self) -> Counter[Kind]:
        """Write everything, and disturb as planned; return how often each kind happened.

        Raises
        ------
        ChaosError
            Something did not come in time, a worker broke, or a disturbance did not happen.
        """
        waiting = self.plan.of_processes()
        while self.number < self.plan.all_steps - 1:
            if waiting and waiting[0].step <= self.number + 1:
                disturbance = waiting.pop(0)
                done = await DISTURB[disturbance.kind](self, disturbance)
                await self.committed()
                self._happened[disturbance.kind] += 1
                self.say(f"{disturbance.describe()}: {done}")
                continue
            await self.write(1)
            await self.committed(self.number - LEAD_STEPS)
        await self.committed()
        happened = self._happened + self._story.happened
        check_happened(self.plan, happened)
        return happened

    async def write(self, count: int) -> None:
        """Write the next steps, as far as there are any."""
        for _ in range(count):
            step = next(self._steps, None)
            if step is None:
                return
            events = [event for event in step.events if event.TOPIC in self._outside]
            await self.writer.events(events)
            await self.writer.barrier(step.barrier, self._outside)
            self.number = step.barrier.number
            self.progress(self.number + 1, self.plan.all_steps)

    async def committed(self, number: int | None = None) -> None:
        """Wait until all workers have committed a step; left out: the last one written."""
        for role in self.roles:
            for share in range(role.processes):
                await self.share_committed(role, share, number)

    async def share_committed(self, role: Role, share: int, number: int | None = None) -> None:
        """Wait until one share's worker has committed a step."""
        wanted = self.number if number is None else number
        partitions = role.partitions(share)
        await eventually(
            lambda: self.watch.reached(role.watched, partitions) >= wanted,
            f"step {wanted} of {role.name}, share {share}",
            self.crew.look,
        )

    def target(self, disturbance: Disturbance) -> tuple[Role, int, Worker]:
        """Return the role, partition and worker that a disturbance is aimed at."""
        role = aimed_at(self.roles, disturbance.draw)
        partition = disturbance.partition if role.spec().spread else 0
        return role, partition, self.crew.of_partition(role, partition)

    def order(self, what: Literal["kill", "stop"], disturbance: Disturbance) -> None:
        """Order what the worker that a disturbance is aimed at does to itself in the next step."""
        role, partition, _ = self.target(disturbance)
        give(
            self.crew.orders,
            Order(what, role.name, partition, disturbance.gap, self.number + 1),
        )


def check_happened(plan: Plan, happened: Counter[Kind]) -> None:
    """Check that everything planned has happened: else the verdict says nothing.

    Raises
    ------
    ChaosError
        Something has not.
    """
    missing = Counter(each.kind for each in plan.disturbances) - happened
    if missing:
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(missing.items()))
        raise ChaosError(f"planned disturbances that did not happen: {kinds}")


async def kill(session: Session, disturbance: Disturbance) -> str:
    """Kill a worker while a step is written, and start it again."""
    role, _, worker = session.target(disturbance)
    writing = asyncio.create_task(session.write(1))
    await asyncio.sleep(disturbance.delay_ms / 1000)
    await session.crew.kill(worker)
    await session.crew.start(role, worker.share)
    await writing
    return f"killed {worker.name} {disturbance.delay_ms} ms after the step began"


async def kill_in_step(session: Session, disturbance: Disturbance) -> str:
    """Let a worker die in one gap of the loop, and start it again."""
    role, _, worker = session.target(disturbance)
    if disturbance.gap in AT_START:
        await session.crew.kill(worker)
        session.order("kill", disturbance)
        worker = await session.crew.start(role, worker.share)
    else:
        session.order("kill", disturbance)
    await session.write(1)
    await session.crew.end_of(worker, KILLED)
    await session.crew.start(role, worker.share)
    return f"{worker.name} died"


async def zombie(session: Session, disturbance: Disturbance) -> str:
    """Let a worker sleep, a successor work, and the sleeper wake up: it must find that out."""
    role, _, sleeper = session.target(disturbance)
    session.order("stop", disturbance)
    await session.write(1)
    await session.crew.sleeps(sleeper)
    await session.write(1)
    successor = await session.crew.start(role, sleeper.share)
    try:
        await session.share_committed(role, sleeper.share)
        await session.write(1)
    finally:
        session.crew.wake(sleeper)
    await session.crew.end_of(sleeper, EXIT_FENCED)
    session.crew.look()
    return f"{sleeper.name} gave way to process {successor.pid}"


async def timeout(session: Session, disturbance: Disturbance) -> str:
    """Let a worker sleep in its transaction until the broker ended it; it must go on by itself."""
    role, partition, worker = session.target(disturbance)
    drops = worker.text().count("stage_dropped")
    session.order("stop", disturbance)
    await session.write(1)
    await session.crew.sleeps(worker)
    try:
        bootstrap = session.broker.bootstrap
        place = TopicPartition(load_topics()[role.watched].full_name, partition)
        async with plain_consumer(bootstrap) as consumer:
            await wait_until_settled(bootstrap, consumer, place, within_s=ABORTED_WITHIN_S)
    finally:
        session.crew.wake(worker)
    await session.committed()
    if worker.text().count("stage_dropped") == drops:
        raise ChaosError(f"{worker.name} did not notice that its transaction was ended")
    return f"{worker.name} went on"


async def broker(session: Session, disturbance: Disturbance) -> str:
    """Kill the broker while a step is written, and start it again on its data."""
    session.broker_is_there.clear()
    writing = asyncio.create_task(session.write(1))
    await asyncio.sleep(disturbance.delay_ms / 1000)
    await asyncio.to_thread(session.broker.kill)
    await asyncio.to_thread(session.broker.restart)
    session.broker_is_there.set()
    await writing
    return "back on the same data"


async def redis(session: Session, disturbance: Disturbance) -> str:
    """Kill Redis: the steps must go on without it."""
    await asyncio.to_thread(session.redis.kill)
    try:
        await session.write(disturbance.steps)
        await session.committed()
    finally:
        await asyncio.to_thread(session.redis.restart)
    return f"{disturbance.steps} steps without it"


async def slow(session: Session, disturbance: Disturbance) -> str:
    """Give a worker a tenth of the time while steps are written, until it has done them."""
    role, _, worker = session.target(disturbance)

    async def throttle() -> None:
        try:
            while True:
                session.crew.wake(worker)
                await asyncio.sleep(AWAKE_S)
                session.crew.halt(worker)
                await asyncio.sleep(ASLEEP_S)
        finally:
            session.crew.wake(worker)

    # It sleeps first, so that it falls behind however fast it is.
    session.crew.halt(worker)
    try:
        await session.crew.sleeps(worker)
        await session.write(disturbance.steps)
        behind = session.number - session.watch.reached(role.watched, role.partitions(worker.share))
    finally:
        throttling = asyncio.create_task(throttle())
    try:
        await session.committed()
    finally:
        throttling.cancel()
        with suppress(asyncio.CancelledError):
            await throttling
    return f"{worker.name} was {behind} steps behind"


async def together(session: Session, disturbance: Disturbance) -> str:
    """Disturb as one of the others does, and kill another worker in the middle of that."""
    kind = BESIDE_A_DEATH[disturbance.draw % len(BESIDE_A_DEATH)]
    _, _, target = session.target(disturbance)
    other = session.crew.another(target, disturbance.draw)

    async def die() -> str:
        await asyncio.sleep(disturbance.delay_ms / 1000)
        await session.crew.kill(other)
        # A service that starts without a broker ends; whoever runs it starts it again.
        await session.broker_is_there.wait()
        await session.crew.start(other.role, other.share)
        return f"{other.name} was killed"

    said = await asyncio.gather(DISTURB[kind](session, replace(disturbance, kind=kind)), die())
    return f"{kind}: {'; '.join(said)}"


BESIDE_A_DEATH: Final = (Kind.ZOMBIE, Kind.BROKER, Kind.REDIS, Kind.SLOW, Kind.TIMEOUT)
DISTURB: Final[Mapping[Kind, Callable[[Session, Disturbance], Awaitable[str]]]] = {
    Kind.KILL: kill,
    Kind.KILL_IN_STEP: kill_in_step,
    Kind.ZOMBIE: zombie,
    Kind.TIMEOUT: timeout,
    Kind.BROKER: broker,
    Kind.REDIS: redis,
    Kind.SLOW: slow,
    Kind.TOGETHER: together,
}
