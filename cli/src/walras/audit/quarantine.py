"""What billing says of usage that it does not charge, and whether that is so."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from walras.audit.failed_drains import FailedDrains
from walras.audit.log_view import Entry
from walras.audit.report import AuditReport
from walras.audit.rows import Span, UnreadableError, Use, contract_document, joined, length_ms
from walras.audit.source_numbers import Numbers
from walras.audit.usage_form import Said
from walras.audit.usage_verdicts import Refused
from walras_contracts.charges import UsageGapReported, UsageQuarantined
from walras_contracts.work import DrainStatusChanged, UsageMetered

TOPIC: Final = UsageQuarantined.TOPIC
OVERLAP: Final = "overlap"
NEVER_PRICED: Final = "never_priced"
REJECTED_LATE: Final = "rejected_late"


class Held(NamedTuple):
    """A record in quarantine, or a part of one."""

    code: str
    said: Said
    span: Span | None
    offset: int
    step: int


@dataclass(slots=True)
class Quarantine:
    """What a partition of ``usage.quarantined`` says.

    ``records``: by topic and offset there. ``spans``: by key of the record and code. ``gaps``: by
    source, missing numbers, how they ended, and the step and offset of the report.
    """

    records: dict[tuple[str, int], list[Held]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[tuple[str, str], list[Held]] = field(default_factory=lambda: defaultdict(list))
    gaps: dict[str, list[tuple[Numbers, str, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def never(self, source: str) -> list[tuple[Numbers, int]]:
        """Return the numbers of a source that were reported as never coming."""
        told = self.gaps.get(source, ())
        return [(numbers, step) for numbers, ended, step, _ in told if ended == "never"]

    def rejected_late(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """Return by team and pool the use that came too late, by step: invoices tell it."""
        found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for held in self.records.values():
            for row in held:
                team, pool, macc_ms = row.said
                if row.code == REJECTED_LATE and None not in row.said:
                    assert team is not None
                    assert pool is not None
                    found[team, pool].append((row.step, macc_ms or 0))
        return found


def read_quarantine(
    given: Iterable[tuple[int, Entry]], partition: int, report: AuditReport
) -> Quarantine:
    """Read a partition of ``usage.quarantined``, and count its use by code."""
    found = Quarantine()
    for step, entry in given:
        where = f"{TOPIC}/{partition}@{entry.offset}"
        try:
            body = contract_document(entry, UsageQuarantined, UsageGapReported)
            if entry.type == UsageGapReported.TYPE:
                source = f"{body['lease']}/{body['node']}/{body['attempt']}"
                numbers = (int(body["first_seq"]), int(body["end_seq"]))
                found.gaps[source].append((numbers, body["ended"], step, entry.offset))
                report.counts["gaps"] += 1
                continue
            _take(found, body, Held(*_row(body), entry.offset, step), partition)
            report.counts["quarantined"] += 1
            report.quarantined[body["code"]] += 1
            report.quarantined_macc_ms[body["code"]] += int(body["macc_ms"] or 0)
        except (UnreadableError, KeyError, TypeError, ValueError) as error:
            report.add("unreadable", where, entry.key, "a usage record in quarantine", repr(error))
    return found


def _row(body: dict[str, Any]) -> tuple[str, Said, Span | None]:
    macc_ms = None if body["macc_ms"] is None else int(body["macc_ms"])
    span = None
    if body["start_ms"] is not None:
        span = (int(body["start_ms"]), int(body["end_ms"]))
    return str(body["code"]), Said(body["team"], body["pool"], macc_ms), span


def _take(found: Quarantine, body: dict[str, Any], held: Held, partition: int) -> None:
    if held.span is not None:
        found.spans[body["record"], held.code].append(held)
    elif body["partition"] == partition:
        found.records[body["topic"], body["offset"]].append(held)
    else:
        raise UnreadableError(f"its record is of {body['topic']}/{body['partition']}")


def compare_records(
    quarantine: Quarantine,
    refused: Mapping[int, Refused],
    drains: FailedDrains,
    partition: int,
    report: AuditReport,
) -> None:
    """Compare what is in quarantine whole with what must be."""
    rest = dict(quarantine.records)
    for offset, must in sorted(refused.items()):
        held = rest.pop((UsageMetered.TOPIC, offset), [])
        _compare_one(held, UsageMetered.TOPIC, (offset, must.key, must.code, must.step), report)
        for row in held:
            if row.code == must.code and row.said != must.said:
                where = f"{TOPIC}/{partition}@{row.offset}"
                report.add("quarantine_differs", where, must.key, must.said, row.said)
    for offset, (key, code, step) in sorted(drains.refused.items()):
        held = rest.pop((DrainStatusChanged.TOPIC, offset), [])
        _compare_one(held, DrainStatusChanged.TOPIC, (offset, key, code, step), report)
    for (topic, offset), rows in sorted(rest.items()):
        for row in rows:
            where = f"{TOPIC}/{partition}@{row.offset}"
            subject = f"{topic}/{partition}@{offset}"
            report.add("quarantine_unexpected", where, subject, "", row.code)


def _compare_one(
    held: list[Held], topic: str, must: tuple[int, str, str, int], report: AuditReport
) -> None:
    offset, key, code, step = must
    if not held:
        report.add("quarantine_missing", topic, f"{key} at {offset}", code)
    for number, row in enumerate(held):
        where = f"{TOPIC}@{row.offset}"
        if number:
            report.add("quarantine_unexpected", where, key, "once", "again")
        elif (row.code, row.step) != (code, step):
            found = f"{row.code} in step {row.step}"
            report.add("quarantine_differs", where, key, f"{code} in step {step}", found)


def compare_spans(
    quarantine: Quarantine,
    what: tuple[Use, str],
    must: list[Span],
    partition: int,
    report: AuditReport,
) -> None:
    """Compare which parts of a record are in quarantine with those that must be, each once.

    ``what``: the record, and the code of its fault.
    """
    use, code = what
    rows = quarantine.spans.pop((use.key, code), [])
    found = [row.span for row in rows if row.span is not None]
    where = f"{TOPIC}/{partition}" + (f"@{rows[0].offset}" if rows else "")
    if joined(found) != must or length_ms(found) != length_ms(must):
        report.add("quarantine_differs", where, use.key, f"{code} {must}", found)
    for row in rows:
        size = 0 if row.span is None else use.macc * length_ms([row.span])
        if row.said != (use.team, use.pool, size):
            where = f"{TOPIC}/{partition}@{row.offset}"
            report.add("quarantine_differs", where, use.key, (use.team, use.pool, size), row.said)


def report_spans_of_nothing(quarantine: Quarantine, partition: int, report: AuditReport) -> None:
    """Report parts in quarantine of records that are not on the log, or for no reason."""
    for (key, code), rows in sorted(quarantine.spans.items()):
        for row in rows:
            where = f"{TOPIC}/{partition}@{row.offset}"
            report.add("quarantine_unexpected", where, key, "", f"{code} {row.span}")
