"""The money commands on a real broker: committed records in their steps, requests that arrive."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from cli.tests.focus_bench import DAY_MS, START_MS, latest, random_days, rows_of
from cli.tests.test_bill_time_held import settled
from walras.billing_log import BillingLogError, Kafka, Window
from walras.billing_log.testing import charge, pending, prices
from walras.invoices.requesting import write_request
from walras_contracts.charges import ChargeCredited, ChargePending, ChargeRated
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.invoices import InvoiceAction, InvoicePublished, InvoiceRequested
from walras_contracts.market import PricePublished
from walras_contracts.topics import load_topics
from walras_launcher.pytest_plugin import OwnBroker
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.records import Barrier

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

NAMES = (
    *("charges", "charges.pending", "usage.settled", "invoices", "invoices.requests"),
    *("prices", "cycles"),
)
TOPICS = {name: load_topics()[name] for name in NAMES}
SEED = 4
Rows = dict[tuple[str, int], list[Row]]


def rows(events: Sequence[Event], barrier: Barrier) -> Rows:
    """Return the rows of a step: events by their partitions, the barrier in all of charges."""
    charges = TOPICS["charges"]
    found: Rows = {(charges.full_name, p): [] for p in range(charges.partitions)}
    for event in events:
        topic = TOPICS[event.TOPIC]
        place = (topic.full_name, partition_of(event.partition_key(), topic.partitions))
        headers = event_headers("x", b"test", event.TYPE)
        found.setdefault(place, []).append((event.record_key().encode(), event.payload(), headers))
    for (topic_name, _), held in found.items():
        if topic_name == charges.full_name:
            held.append((barrier.key().encode(), barrier_value(barrier), barrier_headers(1)))
    return found


async def send(producer: AIOKafkaProducer, given: Rows, *, commit: bool = True) -> None:
    await producer.begin_transaction()
    for future in await send_rows(producer, given):
        await future
    await (producer.commit_transaction() if commit else producer.abort_transaction())


async def write(bootstrap: str, log: Sequence[Event | Barrier], others: Sequence[Event]) -> None:
    await create_topics(bootstrap, TOPICS)
    producer = make_producer(bootstrap, transactional_id="billing/0", transaction_timeout_ms=60_000)
    await producer.start()
    try:
        step: list[Event] = [*others]
        number = -1
        for item in log:
            if isinstance(item, Barrier):
                number = item.number
                if number % 10 == 0:
                    await send(producer, rows([charge(0, 1, 9, team="u")], item), commit=False)
                await send(producer, rows(step, item))
                step = []
            else:
                step.append(item)
        gone = pending(5, 6, seq=5)
        topic = TOPICS["charges.pending"]
        place = (topic.full_name, partition_of("t", topic.partitions))
        headers = event_headers("x", b"test", ChargePending.TYPE)
        ended: Row = (gone.record_key().encode(), None, headers)
        waiting = rows([gone, pending(7, 8, seq=6)], Barrier(number + 1, 0))
        waiting[place].append(ended)
        await send(producer, {place: waiting[place]})
    finally:
        await producer.stop()


def walras(*words: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "walras", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    print(done.args, done.returncode, done.stderr)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def test_the_money_commands_read_what_is_committed_and_write_requests(
    own_broker: OwnBroker,
) -> None:
    bootstrap = own_broker().bootstrap
    source = Kafka(bootstrap)
    with pytest.raises(BillingLogError, match=r"has no topic walras\.charges\.v1"):
        list(source.read(ChargeRated))
    invoicing = random_days(SEED)
    told = [prices(START_MS, 2 * 10**6), prices(START_MS + DAY_MS, 5)]
    held = settled(1, 5, 4, 3, 2)
    asyncio.run(write(bootstrap, invoicing.charges, [*invoicing.invoices(), *told, held]))

    memory = invoicing.source(*told)
    by_team = [*memory.read_in_steps(ChargeRated, ChargeCredited)]
    found = [*source.read_in_steps(ChargeRated, ChargeCredited)]
    for team in ("t", "u"):
        assert [each for each in found if each[0].team == team] == [
            each for each in by_team if each[0].team == team
        ]
    assert len(found) == len(by_team) > 0
    assert [*source.read(InvoicePublished)] == invoicing.invoices()
    assert [*source.read(PricePublished, partition_key="m")] == told
    assert [*source.latest(ChargePending)] == [pending(7, 8, seq=6).record_key()]
    _, exported = rows_of(memory)
    assert rows_of(source)[1] == exported, "whatever the number of partitions"
    assert rows_of(source, Window(START_MS, START_MS + DAY_MS))[1] != exported

    code, bill = walras("bill", "t", "--bootstrap", bootstrap)
    lines = [each for each, _ in by_team if each.team == "t" and isinstance(each, ChargeRated)]
    assert code == 0
    assert int(bill["total"]["use_numerator"]) == sum(int(e.amount_numerator) for e in lines)
    assert bill["total"]["time_held"]["held_macc_ms"] == int(held.held_macc_ms)

    invoice = latest(invoicing)[0]
    words = ("invoice", "hold", invoice.invoice_id[:12], "--reason", "why", "--bootstrap")
    code, document = walras(*words, bootstrap)
    asked = InvoiceRequested(invoice_id=invoice.invoice_id, action=InvoiceAction.HOLD, reason="why")
    assert (code, document["requested"]["action"]) == (0, "hold")
    write_request(bootstrap, asked)
    assert [*source.read(InvoiceRequested)] == [asked, asked]
    code, document = walras("invoice", "hold", "f" * 32, "--bootstrap", bootstrap)
    assert code == 2
    assert f"no invoice {'f' * 32} is there" in document["error"]


def test_a_broker_that_does_not_answer_is_said_in_one_line() -> None:
    code, document = walras("prices", "m", "--bootstrap", "127.0.0.1:1")
    assert code == 2
    assert document["error"].startswith("walras prices: the broker 127.0.0.1:1 does not answer")
    assert document["error"].count("\n") == 1
    code, document = walras("prices", "m", "--bootstrap", "nowhere")
    assert code == 2
