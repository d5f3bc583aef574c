"""A run under way: what is killed, when, and what is waited for in between."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.forks import KILLED
from tests.chaos.orders import Order, give
from tests.chaos.plan import AT_START
from tests.chaos.waiting import ChaosError, eventually
from tests.chaos_drains.crew import AGENTS, Crew
from tests.chaos_drains.left_running import left_running
from tests.chaos_drains.live import FOLLOWED, Live
from tests.chaos_drains.market import STOP_TEAM
from tests.chaos_drains.plan import MOST_STEPS, Disturbance, Kind, Plan
from tests.chaos_drains.terms import DEVICES, MARKET, NODES
from tests.performance.outside import Outside
from walras_contracts.capacity import NodeObserved, NodeState
from walras_contracts.demand import JobCancelled
from walras_launcher import LauncherError
from walras_launcher.kafka import KafkaBroker
from walras_runtime.clock import wall_ms

WITHHELD_STEPS: Final = 6
BROKER_TRIES: Final = 3


@dataclass(slots=True)
class Session:
    """The broker, the crew and what is seen of the log."""

    plan: Plan
    broker: KafkaBroker
    crew: Crew
    writer: Outside
    seen: Live
    say: Callable[[str], None]
    killed: Counter[str] = field(default_factory=Counter)
    """Processes, by what they were."""
    happened: Counter[Kind] = field(default_factory=Counter)

    async def begin(self) -> None:
        """Say what there is, start everything, and wait until jobs run."""
        for node in NODES:
            await self.observe(node, NodeState.ACTIVE)
        await self.crew.start_all()
        await self.steps(4)
        await self.until(lambda: len(self.seen.running) > 0, "the first job to run")

    async def run(self) -> None:
        """Disturb as planned, then go on until enough drains have begun, and end all work.

        Raises
        ------
        ChaosError
            Something did not come in time, or a process broke.
        """
        for number, disturbance in enumerate(self.plan.disturbances, 1):
            await self.steps(disturbance.after_steps)
            await asyncio.sleep(disturbance.delay_ms / 1000)
            done = await DISTURB[disturbance.kind](self, disturbance)
            await self.caught_up()
            self.happened[disturbance.kind] += 1
            begun = len(self.seen.begun)
            count = len(self.plan.disturbances)
            what = disturbance.describe()
            self.say(f"{number} of {count}, {begun} drains begun: {what}: {done}")
        while not has_enough_drains(self.plan, len(self.seen.begun), self.seen.last_step()):
            await self.steps(2)

    async def finish(self) -> None:
        """Take all quota back, and wait until every lease and every drain has ended."""
        stop = JobCancelled(team=STOP_TEAM, job="all")
        await self.writer.events([stop])
        await self.until(
            lambda: not (self.seen.parts or self.seen.running or self.seen.open),
            "all leases and drains to end",
            self.left,
        )
        await self.steps(2)
        await self.until(lambda: not left_running(self.crew.folder), "the last keeper to end")

    def left(self) -> str:
        """Return what has not ended, for people."""
        seen = self.seen
        parts, jobs, drains = sorted(seen.parts), sorted(seen.running), sorted(seen.open)
        return f"parts {parts}, jobs {jobs}, drains {drains}, lost nodes {sorted(seen.lost)}"

    async def until(
        self, condition: Callable[[], bool], what: str, left: Callable[[], str] = lambda: ""
    ) -> None:
        """Wait for a condition while nothing breaks."""

        def look() -> None:
            self.seen.look()
            self.crew.look()

        try:
            await eventually(condition, what, look)
        except ChaosError:
            self.say(f"waited in vain for {what}: {left()}")
            raise

    async def steps(self, count: int) -> None:
        """Wait until so many further steps are done."""
        wanted = self.seen.last_step() + count
        await self.until(lambda: self.seen.last_step() >= wanted, f"step {wanted}")

    async def caught_up(self) -> None:
        """Wait until a step that is ticked from now on is done."""
        wanted = self.seen.ticked() + 2
        await self.until(
            lambda: self.seen.last_step() >= wanted,
            f"step {wanted}",
            lambda: str({name: self.seen.last_step([name]) for name in FOLLOWED}),
        )

    async def observe(self, node: str, state: NodeState) -> None:
        """State what a node is, urgently."""
        await self.writer.events(
            [
                NodeObserved(
                    node=node,
                    type=MARKET,
                    cell="here",
                    devices=DEVICES,
                    owner_pool=None,
                    state=state,
                    urgent=True,
                    observed_ms=wall_ms(),
                )
            ]
        )

    async def kill(self, name: str) -> None:
        """Kill a process."""
        await self.crew.kill(self.crew.processes[name])
        self.killed[name.partition("/")[0]] += 1

    async def kill_broker(self) -> None:
        """Kill the broker."""
        await asyncio.to_thread(self.broker.kill)
        self.killed["broker"] += 1

    async def bring_back_broker(self) -> None:
        """Start the broker on its data; on a loaded machine that may need more than one try.

        Raises
        ------
        LauncherError
            It does not start.
        """
        for left in range(BROKER_TRIES - 1, -1, -1):
            try:
                await asyncio.to_thread(self.broker.restart)
            except LauncherError as error:
                if not (error.retriable and left):
                    raise
                self.say(f"the broker is not back yet: {error.code}")
            else:
                return


def has_enough_drains(plan: Plan, begun: int, step: int) -> bool:
    """Whether as many drains as planned have begun by a step.

    Raises
    ------
    ChaosError
        They have not, and no more jobs are planned.
    """
    if begun < plan.drains and step >= MOST_STEPS:
        raise ChaosError(f"{begun} of {plan.drains} drains begun in {step} steps: no jobs are left")
    return begun >= plan.drains


async def agent(session: Session, disturbance: Disturbance) -> str:
    """Kill an agent; it is back after a pause."""
    name = f"agent/{disturbance.node}"
    await session.kill(name)
    await asyncio.sleep(disturbance.pause_ms / 1000)
    await session.crew.start(name)
    return f"back after {disturbance.pause_ms} ms"


async def agent_away(session: Session, disturbance: Disturbance) -> str:
    """Kill an agent; it is back some time after its node is lost."""
    name = f"agent/{disturbance.node}"
    await session.kill(name)
    lost = session.seen.lost
    await session.until(lambda: disturbance.node in lost, f"{disturbance.node} to be lost")
    await asyncio.sleep(disturbance.pause_ms / 1000)
    await session.crew.start(name)
    await session.until(lambda: disturbance.node not in lost, f"{disturbance.node} to be back")
    return "its node was lost, and is back"


async def service(session: Session, disturbance: Disturbance) -> str:
    """Kill drain or placement, from outside or in a gap of its loop, and start it again."""
    name, gap = disturbance.kind.value, disturbance.gap
    if gap is None:
        await session.kill(name)
    else:
        if gap in AT_START:
            # It comes by that gap when it starts; this death is the means, and is not counted.
            await session.crew.kill(session.crew.processes[name])
        give(session.crew.orders, Order("kill", name, 0, gap, session.seen.ticked() + 1))
        if gap in AT_START:
            await session.crew.start(name)
        await session.crew.end_of(session.crew.processes[name], KILLED)
        session.killed[name] += 1
    await session.crew.start(name)
    return "started again"


async def broker(session: Session, disturbance: Disturbance) -> str:
    """Kill the broker, and start it again on its data."""
    del disturbance
    await session.kill_broker()
    await session.bring_back_broker()
    return "back on the same data"


async def together(session: Session, disturbance: Disturbance) -> str:
    """Kill two at once. A service that starts without a broker ends: it is started behind it."""
    names = []
    for kind in disturbance.pair:
        if kind is Kind.BROKER:
            await session.kill_broker()
        else:
            is_agent = kind in {Kind.AGENT, Kind.AGENT_AWAY}
            names.append(f"agent/{disturbance.node}" if is_agent else kind.value)
            await session.kill(names[-1])
    if Kind.BROKER in disturbance.pair:
        await session.bring_back_broker()
    agents = [name for name in names if name in AGENTS]
    for name in names:
        if name not in agents:
            await session.crew.start(name)
    if Kind.AGENT_AWAY in disturbance.pair:
        lost = session.seen.lost
        await session.until(lambda: disturbance.node in lost, f"{disturbance.node} to be lost")
    await asyncio.sleep(disturbance.pause_ms / 1000)
    for name in agents:
        await session.crew.start(name)
    return "started again"


async def clawback(session: Session, disturbance: Disturbance) -> str:
    """Withhold a node at once, and give it back."""
    await session.observe(disturbance.node, NodeState.WITHHELD)
    await session.steps(WITHHELD_STEPS)
    await session.observe(disturbance.node, NodeState.ACTIVE)
    return f"withheld for {WITHHELD_STEPS} steps"


DISTURB: Final[Mapping[Kind, Callable[[Session, Disturbance], Awaitable[str]]]] = {
    Kind.AGENT: agent,
    Kind.AGENT_AWAY: agent_away,
    Kind.DRAIN: service,
    Kind.PLACEMENT: service,
    Kind.BROKER: broker,
    Kind.TOGETHER: together,
    Kind.CLAWBACK: clawback,
}
