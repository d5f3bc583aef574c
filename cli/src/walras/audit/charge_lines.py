"""The lines of a partition of ``charges`` as the log has them, by usage record."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from walras.audit.log_view import Entry
from walras.audit.report import AuditReport
from walras.audit.rows import (
    CREDITED,
    PENDING_FIELDS,
    RATED,
    Line,
    Span,
    UnreadableError,
    Use,
    contract_document,
    joined,
    length_ms,
    line_of,
    names_of,
    without,
)
from walras_contracts.charges import ChargePending
from walras_contracts.identifiers import partition_of

TOPIC: Final = "charges"
PENDING_TOPIC: Final = "charges.pending"
MISSING: Final = {RATED: "charge_missing", CREDITED: "credit_missing"}
UNEXPECTED: Final = {RATED: "charge_unexpected", CREDITED: "credit_unexpected"}
DIFFERS: Final = {RATED: "charge_differs", CREDITED: "credit_differs"}


def read_lines(
    given: Iterable[tuple[int, Entry]], place: tuple[int, int], report: AuditReport
) -> dict[str, list[Line]]:
    """Read a partition of ``charges``: the lines of each usage record in order.

    Parameters
    ----------
    given
        Its records with their steps.
    place
        The partition, and how many there are.
    report
        Told of lines that cannot be read, lie elsewhere than they must, or occur again.
    """
    partition, partitions = place
    found: dict[str, list[Line]] = defaultdict(list)
    ids: set[str] = set()
    homes: dict[str, int] = {}
    for step, entry in given:
        where = f"{TOPIC}/{partition}@{entry.offset}"
        try:
            line = line_of(entry, step)
        except UnreadableError as error:
            report.add("unreadable", where, entry.key, "a charge line", error)
            continue
        report.counts["credits" if line.kind == CREDITED else "charges"] += 1
        team = line.account[0]
        home = homes.get(team)
        if home is None:
            home = homes[team] = partition_of(str(team), partitions)
        if home != partition:
            report.add("charge_partition", where, line.charge_id, home, partition)
        if entry.key != line.charge_id:
            report.add("charge_differs", where, line.charge_id, "its id as key", entry.key)
        if line.charge_id in ids:
            report.add("charge_twice", where, line.charge_id)
            continue
        ids.add(line.charge_id)
        found[line.key].append(line)
    return found


def compare_lines(
    expected: list[Line], found: list[Line], partition: int, report: AuditReport
) -> None:
    """Compare the lines of a usage record with those that it must have."""
    by_id = {line.charge_id: line for line in found}
    for line in expected:
        actual = by_id.pop(line.charge_id, None)
        if actual is None or actual.kind != line.kind:
            report.add(MISSING[line.kind], f"{TOPIC}/{partition}", subject_of(line), told(line))
            continue
        where = f"{TOPIC}/{partition}@{actual.offset}"
        if actual.fields != line.fields:
            wrong = [
                (name, one, other)
                for name, one, other in zip(
                    names_of(line.kind), line.fields, actual.fields, strict=True
                )
                if one != other or type(one) is not type(other)
            ]
            report.add(
                DIFFERS[line.kind],
                where,
                subject_of(line),
                ", ".join(f"{name} {one}" for name, one, _ in wrong),
                ", ".join(f"{name} {other}" for name, _, other in wrong),
            )
        elif actual.step != line.step:
            report.add(
                "charge_moved", where, subject_of(line), f"step {line.step}", f"step {actual.step}"
            )
    for line in by_id.values():
        where = f"{TOPIC}/{partition}@{line.offset}"
        report.add(UNEXPECTED[line.kind], where, subject_of(line), "", told(line))


def subject_of(line: Line) -> str:
    """Return which line of which usage record one is."""
    return f"{line.charge_id} of {line.key}"


def told(line: Line) -> str:
    """Return what a line says, in short."""
    start_ms, end_ms = line.span
    return f"[{start_ms}, {end_ms}) {line.get('reason')} {line.numerator}"


def compare_coverage(
    use: Use, found: list[Line], away: list[Span], partition: int, report: AuditReport
) -> None:
    """See to it that each instant of a record is charged once, waits, or was taken from it.

    Parameters
    ----------
    use
        The record.
    found
        Its lines on the log.
    away
        What of it is not charged: it waits for a price, was given up, or is claimed by others.
    partition
        Where it is.
    report
        Told of instants that are lost or charged twice.
    """
    charged = [line.span for line in found if line.kind == RATED and line.get("corrects") is None]
    where = f"{TOPIC}/{partition}"
    whole = joined(charged)
    if length_ms(charged) != length_ms(whole):
        report.add("second_twice", where, use.key, "", sorted(charged))
    lost = without([(use.start_ms, use.end_ms)], [*whole, *away])
    if lost:
        report.add("second_lost", where, use.key, "", lost)


def read_pending(
    given: Iterable[tuple[int, Entry]], partition: int, report: AuditReport
) -> dict[str, tuple[object, ...]]:
    """Return what waits on a partition of ``charges.pending`` at last, by key."""
    latest: dict[str, tuple[object, ...]] = {}
    for _, entry in given:
        if entry.value is None:
            latest.pop(entry.key, None)
            continue
        try:
            body = contract_document(entry, ChargePending)
            latest[entry.key] = tuple(body[name] for name in PENDING_FIELDS)
        except UnreadableError as error:
            where = f"{PENDING_TOPIC}/{partition}@{entry.offset}"
            report.add("unreadable", where, entry.key, "use that waits", repr(error))
    report.counts["pending"] += len(latest)
    return latest


def compare_pending(
    expected: dict[str, tuple[object, ...]],
    found: dict[str, tuple[object, ...]],
    partition: int,
    report: AuditReport,
) -> None:
    """Compare what waits for a price with what has none."""
    where = f"{PENDING_TOPIC}/{partition}"
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            report.add(
                "pending_differs", where, key, expected.get(key, "none"), found.get(key, "none")
            )
