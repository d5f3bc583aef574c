"""What can be done to a log: records lost, doubled, altered, forged, moved, garbled."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cli.tests.audit_days import written
from walras_contracts.charges import ChargeRated
from walras_contracts.invoices import InvoicePublished
from walras_runtime.memory.log import Entry, MemoryLog

Body = dict[str, Any]
Tampering = Callable[[MemoryLog], None]
Wanted = Callable[[Body], object]


def anything(_body: Body) -> bool:
    return True


def copied(log: MemoryLog) -> MemoryLog:
    return MemoryLog(log.topics, {place: list(held) for place, held in log.entries.items()})


def body_of(entry: Entry) -> Body:
    body: Body = json.loads(entry.payload or b"{}")
    return body


def found(
    log: MemoryLog, kind: Any, wanted: Wanted = anything
) -> Iterator[tuple[list[Entry], int, Body]]:
    """Yield what holds an event, its place there and its payload, from the middle of the log on."""
    places = [*written(log, kind.TOPIC, kind.TYPE)]
    if kind is InvoicePublished:
        # The last revision of an invoice is the invoice.
        last = {entry.key: entry.offset for _, _, entry in places}
        places = [each for each in places if last[each[2].key] == each[2].offset]
    middle = len(places) // 2
    for partition, place, entry in (*places[middle:], *places[:middle]):
        body = body_of(entry)
        if entry.payload is not None and wanted(body):
            yield log.entries[kind.TOPIC, partition], place, body


def first(log: MemoryLog, kind: Any, wanted: Wanted = anything) -> tuple[Any, int, Body]:
    return next(found(log, kind, wanted))


def put(held: list[Entry], place: int, body: Body, **changes: Any) -> None:
    held[place] = replace(held[place], payload=json.dumps(body | changes).encode())


def dropped(kind: Any, wanted: Wanted = anything) -> Tampering:
    """Take a record away."""

    def tamper(log: MemoryLog) -> None:
        held, place, _ = first(log, kind, wanted)
        del held[place]

    return tamper


def doubled(kind: Any, wanted: Wanted = anything) -> Tampering:
    """Write a record twice."""

    def tamper(log: MemoryLog) -> None:
        held, place, _ = first(log, kind, wanted)
        held.insert(place, held[place])

    return tamper


def altered(kind: Any, change: Callable[[Body], Body], wanted: Wanted = anything) -> Tampering:
    """Change fields of a record."""

    def tamper(log: MemoryLog) -> None:
        held, place, body = first(log, kind, wanted)
        put(held, place, body, **change(body))

    return tamper


def forged(kind: Any, change: Callable[[Body], Body], key: str) -> Tampering:
    """Write a record of its own that is like another."""

    def tamper(log: MemoryLog) -> None:
        held, place, body = first(log, kind)
        entry = replace(held[place], key=change(body).get(key, held[place].key))
        held.insert(place, entry)
        put(held, place, body, **change(body))

    return tamper


def delayed(kind: Any, wanted: Wanted = anything) -> Tampering:
    """Move a record behind the barrier that ends its step."""

    def tamper(log: MemoryLog) -> None:
        held, place, _ = first(log, kind, wanted)
        entry = held.pop(place)
        barrier = next(at for at in range(place, len(held)) if held[at].barrier is not None)
        held.insert(barrier + 1, entry)

    return tamper


def in_another_partition(log: MemoryLog) -> None:
    held, place, _ = first(log, ChargeRated)
    entry = held.pop(place)
    other = next(
        partition
        for partition in log.partitions("charges")
        if log.entries["charges", partition] is not held
    )
    log.entries["charges", other].insert(1, entry)


def garbled(kind: Any) -> Tampering:
    def tamper(log: MemoryLog) -> None:
        held, place, _ = first(log, kind)
        held[place] = replace(held[place], payload=b"{")

    return tamper


def dear_line(change: int, *, payable: bool) -> Callable[[Body], Body]:
    """Change the amount of the first line that has one, and what is payable with it."""

    def changed(body: Body) -> Body:
        lines = [dict(line) for line in body["lines"]]
        next(line for line in lines if line["amount_micro"])["amount_micro"] += change
        return {"lines": lines} | (
            {"payable_micro": body["payable_micro"] + change} if payable else {}
        )

    return changed


def exact_line(body: Body) -> Body:
    lines = [dict(line) for line in body["lines"]]
    line = next(line for line in lines if line["amount_micro"])
    line["amount_numerator"] = str(int(line["amount_numerator"]) + 1)
    return {"lines": lines, "amount_numerator": str(int(body["amount_numerator"]) + 1)}


def last_revision(state: str, scope: str = "team") -> Wanted:
    return lambda body: (
        (body["state"], body["scope"]) == (state, scope) and int(body["payable_micro"]) > 1000
    )


def invoice_lost(scope: str) -> Tampering:
    def tamper(log: MemoryLog) -> None:
        _, _, body = first(log, InvoicePublished, last_revision("issued", scope))
        held = log.entries["invoices", 0]
        held[:] = [entry for entry in held if entry.key != body["invoice_id"]]

    return tamper


def without_the_last_hour(log: MemoryLog) -> None:
    """Take away all that a team's invoices said in the end."""
    held = log.entries["invoices", 0]
    barriers = [place for place, entry in enumerate(held) if entry.barrier is not None]
    end = barriers[-60]
    held[:] = [
        entry
        for place, entry in enumerate(held)
        if place < end or entry.barrier is not None or body_of(entry).get("team") != "t1"
    ]
