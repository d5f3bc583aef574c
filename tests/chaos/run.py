"""One chaos run: servers, workers, disturbances, and the verdict over what was written."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.broker_log import SeenLog, read_log
from tests.chaos.crew import Crew
from tests.chaos.oracle import judge
from tests.chaos.plan import Plan
from tests.chaos.quiet_client import quiet_client
from tests.chaos.roles import ROLES, Role, outside_topics, specs, written_topics
from tests.chaos.session import TRANSACTION_TIMEOUT_MS, Session
from tests.chaos.story import LOOK_BACK_MS
from tests.chaos.twin import barrier_faults, differences, run_twin
from tests.chaos.waiting import Watch, watching
from tests.performance.outside import outside
from walras.audit import AuditError, AuditRules, audit
from walras_contracts.topics import load_topics
from walras_launcher.kafka import KafkaBroker
from walras_launcher.redis import RedisServer
from walras_runtime.kafka.topics_admin import create_topics

SHOWN_FAULTS: Final = 20


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found.

    ``disturbances`` counts by kind what happened: all that was planned, or there is no report.
    ``lost``, ``doubled`` and ``wrong`` are charge lines by the oracle, ``doubled`` also instants
    that two of them are for; ``twin`` counts differences
    from the undisturbed twin and between barriers, ``audit`` those that `walras audit` finds.
    """

    seed: int
    steps: int
    usage_records: int
    charge_lines: int
    disturbances: dict[str, int]
    lost: int
    doubled: int
    wrong: int
    twin: int
    audit: int
    faults: tuple[str, ...]
    disturbed_s: float
    judged_s: float

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    def document(self) -> dict[str, Any]:
        """Return the report for JSON; of the faults the first ones."""
        return asdict(self) | {"clean": self.clean, "faults": self.faults[:SHOWN_FAULTS]}


def nothing(_done: int, _total: int) -> None:
    """Show no progress."""


async def run_chaos(
    plan: Plan,
    broker: KafkaBroker,
    redis: RedisServer,
    folder: Path,
    *,
    say: Callable[[str], None],
    progress: Callable[[int, int], None] = nothing,
    roles: Sequence[Role] = ROLES,
    broken: str = "",
) -> Report:
    """Run a plan on a broker and a Redis of its own, and judge what was written.

    Parameters
    ----------
    plan
        What is written and disturbed.
    broker, redis
        Servers that the run may kill; it leaves them running.
    folder
        For logs of the workers.
    say, progress
        Told each disturbance when it is over, and steps done of all steps.
    roles
        The services that run.
    broken
        A broken build to run instead (`tests/chaos/broken.py`).

    Raises
    ------
    ChaosError
        A worker broke, something did not come in time, or a disturbance did not happen.
    """
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        stack.enter_context(quiet_client())
        crew = Crew(_settings(broker, redis), folder, broken)
        stack.callback(crew.close)
        topics = load_topics()
        await create_topics(broker.bootstrap, topics)
        writer = await stack.enter_async_context(outside(broker.bootstrap, topics))
        watched = [topics[role.watched] for role in roles]
        watch = await stack.enter_async_context(
            watching(broker.bootstrap, lambda consumer: Watch(consumer, watched))
        )
        await crew.start_all(roles)
        session = Session(plan, roles, broker, redis, crew, writer, watch, say, progress)
        happened = await session.run()
        await crew.stop()
    disturbed = time.monotonic()
    say("all steps are committed and the workers have stopped; reading the log")
    stages = specs(roles)
    names = [*outside_topics(stages), *written_topics(stages)]
    seen = await read_log(broker.bootstrap, load_topics(), names)
    say("judging it against the oracle and the undisturbed twin")
    verdict, twin = judge(seen.log), twin_faults(seen, plan.all_steps - 1, roles)
    say("auditing it")
    audited = audit_faults(seen)
    return Report(
        seed=plan.seed,
        steps=plan.all_steps,
        usage_records=verdict.records,
        charge_lines=verdict.lines,
        disturbances={kind.value: count for kind, count in sorted(happened.items())},
        lost=len(verdict.lost),
        doubled=len(verdict.doubled),
        wrong=len(verdict.wrong),
        twin=len(twin),
        audit=len(audited),
        faults=(*verdict.faults(), *twin, *audited),
        disturbed_s=round(disturbed - began, 1),
        judged_s=round(time.monotonic() - disturbed, 1),
    )


def twin_faults(seen: SeenLog, last: int, roles: Sequence[Role] = ROLES) -> list[str]:
    """Return where a log is not the undisturbed twin's, or its barriers are not dense."""
    stages = specs(roles)
    written = written_topics(stages)
    return [
        *barrier_faults(seen, written, last),
        *differences(seen, run_twin(seen, stages), written),
    ]


def audit_faults(seen: SeenLog) -> list[str]:
    """Return what `walras audit` finds; that it cannot run is a fault, too."""
    try:
        report = audit(seen.log, AuditRules(look_back_ms=LOOK_BACK_MS))
    except AuditError as error:
        return [f"audit: {error.code}: {error}"]
    faults = [
        f"audit: {d.code}: {d.where}: {d.subject}: {d.found or 'nothing'}, not {d.expected}"
        for d in report.differences
    ]
    # It keeps the first ones of each kind, and counts all.
    kept = Counter(d.code for d in report.differences)
    more = {code: count - kept[code] for code, count in sorted(report.found.items())}
    return faults + [f"audit: {code}: one more" for code, n in more.items() for _ in range(n)]


def _settings(broker: KafkaBroker, redis: RedisServer) -> dict[str, str]:
    return {
        "WALRAS_KAFKA_BOOTSTRAP": broker.bootstrap,
        "WALRAS_REDIS_URL": redis.url,
        "WALRAS_MODE": "replay",
        "WALRAS_TRANSACTION_TIMEOUT_MS": str(TRANSACTION_TIMEOUT_MS),
        "WALRAS_ELECTION_SESSION_MS": "1000",
    }
