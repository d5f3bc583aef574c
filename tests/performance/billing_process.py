"""Billing, or what it is compared with, as a process on a broker of its own; the bench feeds it."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from time import perf_counter

from tests.performance.billing_workload import BillingWorkload, partition_of_team
from tests.performance.one_process import PYTHON_PATH, Running, running
from tests.performance.outside import SOURCE, Rows
from tests.performance.process_time import one_core_and_the_rest, pin
from walras.processes import Service
from walras_billing.settings import Settings
from walras_billing.wiring import build
from walras_contracts.charges import ChargeRated
from walras_launcher.kafka import Jit
from walras_runtime.kafka.wire import event_headers
from walras_runtime.records import Output

BILLING = Service("billing", "walras_billing")
COPY = Service("billing_copy", "tests.performance.billing_copy", PYTHON_PATH)
NOOP = Service("billing_noop", "tests.performance.billing_noop", PYTHON_PATH)
ROWS_AT_ONCE = 50_000


def running_billing(service: Service, jit: Jit) -> AbstractAsyncContextManager[Running]:
    """Run billing or a rival; what is watched is ``charges``."""
    return running(service, ChargeRated.TOPIC, "WALRAS_BILLING_HEALTH_PORT", jit)


async def begin(run: Running, workload: BillingWorkload) -> None:
    """Write the accounts, and barrier 0."""
    await run.writer.events(workload.documents())
    await end_step(run, workload, 0)


async def feed(run: Running, workload: BillingWorkload, number: int, leases: range) -> None:
    """Write the prices of a minute, the use of some leases in it, and its barrier."""
    await run.writer.events(workload.prices(number))
    for first in range(leases.start, leases.stop, ROWS_AT_ONCE):
        part = range(first, min(leases.stop, first + ROWS_AT_ONCE))
        await write(run, workload.usage(number, part))
    await end_step(run, workload, number)


async def write(run: Running, outputs: Iterable[Output]) -> None:
    """Write records."""
    rows: Rows = {}
    for index, output in enumerate(outputs):
        topic = run.topics[output.topic]
        partition = partition_of_team(output.partition_key, topic.partitions)
        headers = event_headers(f"bench/{index}", SOURCE, output.type)
        rows.setdefault((topic.full_name, partition), []).append(
            (output.key.encode(), output.payload, headers)
        )
    await run.writer.write(rows)


async def end_step(run: Running, workload: BillingWorkload, number: int) -> None:
    """Write a barrier into all that billing reads."""
    await run.writer.barrier(workload.barrier(number), input_topics())


def input_topics() -> list[str]:
    """Return the topics that billing waits for."""
    return [source.topic for source in build(Settings(kafka_bootstrap="none")).inputs]


def start_again(run: Running) -> float:
    """Kill the process without warning and start it again, on its core; return when, by the clock.

    Clock readings are those of ``time.perf_counter``.
    """
    run.supervisor.kill(run.service.name)
    began = perf_counter()
    run.supervisor.look()
    run.supervisor.exits.clear()
    pin(run.pids["service"], one_core_and_the_rest()[0])
    return began
