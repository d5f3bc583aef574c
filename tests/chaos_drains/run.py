"""One run: broker, processes, deaths, and the verdict over what is left behind."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.quiet_client import quiet_client
from tests.chaos.waiting import ChaosError, watching
from tests.chaos_drains.crew import Crew
from tests.chaos_drains.history import History, read_history
from tests.chaos_drains.live import Live
from tests.chaos_drains.plan import Plan
from tests.chaos_drains.session import Session
from tests.chaos_drains.terms import USUAL, Times
from tests.chaos_drains.verdict import Verdict, judge
from tests.performance.outside import outside
from walras_contracts.topics import load_topics
from walras_launcher.kafka import KafkaBroker
from walras_node_agent.host.machine import boottime_ms
from walras_runtime.clock import wall_ms
from walras_runtime.kafka.topics_admin import create_topics

SHOWN_FAULTS: Final = 30
CLOCK_TOLERANCE_MS: Final = 20
READINGS: Final = 5
"""Of both clocks; the quickest one counts."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did and found."""

    seed: int
    kills: dict[str, int]
    """Processes, by what they were."""
    disturbances: dict[str, int]
    verdict: Verdict
    disturbed_s: float

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.clean

    def document(self) -> dict[str, Any]:
        """Return it for JSON; of the faults the first ones."""
        return {
            "seed": self.seed,
            "kills": self.kills,
            "disturbances": self.disturbances,
            **{
                name.replace(",", "").replace(" ", "_"): figure
                for name, figure in self.verdict.figures.items()
            },
            "ends": dict(self.verdict.ends),
            "reasons": dict(self.verdict.reasons),
            "outcomes": dict(self.verdict.outcomes),
            "faults_by_judge": {name: len(found) for name, found in self.verdict.faults.items()},
            "faults": self.verdict.lines()[:SHOWN_FAULTS],
            "clean": self.clean,
            "disturbed_s": self.disturbed_s,
        }


@asynccontextmanager
async def opened(
    plan: Plan,
    broker: KafkaBroker,
    folder: Path,
    times: Times,
    say: Callable[[str], None],
) -> AsyncIterator[Session]:
    """Open a run: topics, a crew that has not been started, a writer, a reader."""
    async with AsyncExitStack() as stack:
        stack.enter_context(quiet_client())
        crew = Crew(broker.bootstrap, folder, plan, times)
        stack.callback(crew.close)
        await create_topics(broker.bootstrap, load_topics())
        writer = await stack.enter_async_context(outside(broker.bootstrap, load_topics()))
        seen = await stack.enter_async_context(watching(broker.bootstrap, Live))
        yield Session(plan, broker, crew, writer, seen, say)


async def run_drains(
    plan: Plan,
    broker: KafkaBroker,
    folder: Path,
    say: Callable[[str], None],
    times: Times = USUAL,
) -> Report:
    """Run a plan on a broker of its own, and judge what is left behind.

    Parameters
    ----------
    plan
        What happens.
    broker
        The run may kill it; it leaves it running.
    folder
        For logs, evidence, and what agents keep.
    say
        Told what happens.
    times
        Of drains, heartbeats and barriers.

    Raises
    ------
    ChaosError
        A process broke, something did not come in time, or the wall clock was set.
    """
    began, clock = time.monotonic(), clocks_apart_ms()
    async with opened(plan, broker, folder, times, say) as session:
        await session.begin()
        await session.run()
        await session.finish()
        await session.crew.stop()
    disturbed_s = round(time.monotonic() - began, 1)
    check_clock(clock)
    say("all leases have ended; reading the log and judging it")
    history = await read_history(broker.bootstrap, folder / "evidence", clock, times)
    return report_of(session, history, disturbed_s)


def clocks_apart_ms(
    wall: Callable[[], int] = wall_ms, boot: Callable[[], int] = boottime_ms
) -> int:
    """Return the wall clock less the time since boot, by the reading that took the least time.

    Who loses its turn between two clocks, on a machine that has other work, reads one late.
    """
    readings = []
    for _ in range(READINGS):
        before_ms, now_ms, after_ms = boot(), wall(), boot()
        readings.append((after_ms - before_ms, now_ms - before_ms))
    return min(readings)[1]


def check_clock(before_ms: int) -> None:
    """Check that the wall clock was not set since.

    Raises
    ------
    ChaosError
        It was: stamps of the log and evidence of jobs cannot be compared.
    """
    if abs(clocks_apart_ms() - before_ms) > CLOCK_TOLERANCE_MS:
        raise ChaosError("the wall clock was set while the run lasted; it proves nothing")


def report_of(session: Session, history: History, disturbed_s: float) -> Report:
    """Judge a history; a run in which less happened than was planned proves nothing.

    Raises
    ------
    ChaosError
        Less happened.
    """
    plan, verdict = session.plan, judge(history)
    killed, begun = session.killed.total(), verdict.figures["drains begun"]
    if killed != plan.kills() or begun < plan.drains or not history.lives:
        raise ChaosError(
            f"{killed} of {plan.kills()} kills, {begun} of {plan.drains} drains, "
            f"{len(history.lives)} processes: the run proves nothing"
        )
    happened = {kind.value: count for kind, count in sorted(session.happened.items())}
    return Report(plan.seed, dict(sorted(session.killed.items())), happened, verdict, disturbed_s)
