"""What billing says of usage that it does not charge, and whether that is so."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from walras.audit.expected_gaps import NEVER, GapReport
from walras.audit.failed_drains import FailedDrains
from walras.audit.log_view import Entry
from walras.audit.report import AuditReport
from walras.audit.rows import Span, UnreadableError, Use, contract_document, joined, length_ms
from walras.audit.source_audit import LostPart
from walras.audit.source_numbers import Numbers
from walras.audit.usage_form import Said
from walras.audit.usage_verdicts import Refused
from walras_contracts.charges import UsageGapReported, UsageQuarantined
from walras_contracts.identifiers import recorded
from walras_contracts.work import DrainStatusChanged, UsageMetered

TOPIC: Final = UsageQuarantined.TOPIC
OVERLAP: Final = "overlap"
NEVER_PRICED: Final = "never_priced"
REJECTED_LATE: Final = "rejected_late"
RECORD_LENGTH: Final = 500
"""So much of a record's key is told."""


class Held(NamedTuple):
    """A record in quarantine, or a part of one.

    ``record``: the key that it names. ``place``: topic, partition and offset there of what showed
    that it is not to be charged.
    """

    code: str
    said: Said
    span: Span | None
    record: str
    place: tuple[str, int, int]
    offset: int
    step: int


class GapTold(NamedTuple):
    """A report of numbers that were passed over."""

    numbers: Numbers
    ended: str
    step: int
    team: str
    offset: int


@dataclass(slots=True)
class Quarantine:
    """What a partition of ``usage.quarantined`` says.

    ``records``: by topic and offset there. ``spans``: by key of the record and code. ``gaps``: by
    source.
    """

    records: dict[tuple[str, int], list[Held]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[tuple[str, str], list[Held]] = field(default_factory=lambda: defaultdict(list))
    gaps: dict[str, list[GapTold]] = field(default_factory=lambda: defaultdict(list))

    def never(self, source: str) -> list[tuple[Numbers, int]]:
        """Return the numbers of a source that were reported as never coming."""
        told = self.gaps.get(source, ())
        return [(gap.numbers, gap.step) for gap in told if gap.ended == NEVER]

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
                _take_gap(found, body, (step, entry.offset))
                key, code = f"{_source(body)}/{body['first_seq']}", "gap_differs"
                report.counts["gaps"] += 1
            else:
                held = _held(body, (step, entry.offset))
                _take(found, held, partition)
                key, code = "/".join(str(part) for part in held.place), "quarantine_differs"
                report.counts["quarantined"] += 1
                report.quarantined[held.code] += 1
                report.quarantined_macc_ms[held.code] += held.said.macc_ms or 0
        except (UnreadableError, KeyError, TypeError, ValueError) as error:
            report.add("unreadable", where, entry.key, "a usage record in quarantine", repr(error))
            continue
        if entry.key != key:
            report.add(code, where, key, "what it is about as key", entry.key)
    return found


def _source(body: dict[str, Any]) -> str:
    return f"{body['lease']}/{body['node']}/{body['attempt']}"


def _take_gap(found: Quarantine, body: dict[str, Any], at: tuple[int, int]) -> None:
    step, offset = at
    numbers = (int(body["first_seq"]), int(body["end_seq"]))
    gap = GapTold(numbers, str(body["ended"]), step, str(body["team"]), offset)
    found.gaps[_source(body)].append(gap)


def _held(body: dict[str, Any], at: tuple[int, int]) -> Held:
    step, offset = at
    macc_ms = None if body["macc_ms"] is None else int(body["macc_ms"])
    span = None
    if body["start_ms"] is not None:
        span = (int(body["start_ms"]), int(body["end_ms"]))
    return Held(
        code=str(body["code"]),
        said=Said(body["team"], body["pool"], macc_ms),
        span=span,
        record=str(body["record"]),
        place=(str(body["topic"]), int(body["partition"]), int(body["offset"])),
        offset=offset,
        step=step,
    )


def _take(found: Quarantine, held: Held, partition: int) -> None:
    topic, place, offset = held.place
    if held.span is not None:
        found.spans[held.record, held.code].append(held)
    elif place == partition:
        found.records[topic, offset].append(held)
    else:
        raise UnreadableError(f"its record is of {topic}/{place}")


def compare_records(
    quarantine: Quarantine,
    refused: Mapping[int, Refused],
    drains: FailedDrains,
    partition: int,
    report: AuditReport,
) -> None:
    """Compare what is in quarantine whole with what must be."""
    rest = dict(quarantine.records)
    for topic, expected in (
        (UsageMetered.TOPIC, refused),
        (DrainStatusChanged.TOPIC, drains.refused),
    ):
        for offset, must in sorted(expected.items()):
            held = rest.pop((topic, offset), [])
            if not held:
                subject = f"{must.key} at {offset}"
                report.add("quarantine_missing", f"{topic}/{partition}", subject, must.code)
            _compare_one(must, held, partition, report)
    for (topic, offset), rows in sorted(rest.items()):
        for row in rows:
            where = f"{TOPIC}/{partition}@{row.offset}"
            subject = f"{topic}/{partition}@{offset}"
            report.add("quarantine_unexpected", where, subject, "", row.code)


def _compare_one(must: Refused, held: list[Held], partition: int, report: AuditReport) -> None:
    """Compare what says that a record is not charged, which is said once."""
    for number, row in enumerate(held):
        where = f"{TOPIC}/{partition}@{row.offset}"
        if number:
            report.add("quarantine_unexpected", where, must.key, "once", "again")
            continue
        said = (f"{must.code} in step {must.step}", must.said, recorded(must.key, RECORD_LENGTH))
        found = (f"{row.code} in step {row.step}", row.said, row.record)
        for one, other in zip(said, found, strict=True):
            if one != other:
                report.add("quarantine_differs", where, must.key, one, other)


def compare_spans(
    quarantine: Quarantine,
    what: tuple[Use, str],
    must: list[LostPart],
    partition: int,
    report: AuditReport,
) -> None:
    """Compare which parts of a record are in quarantine with those that must be, each once.

    ``what``: the record, and the code of its fault.
    """
    use, code = what
    rows = quarantine.spans.pop((use.key, code), [])
    found = [LostPart(row.span, row.place[2], row.step) for row in rows if row.span is not None]
    expected, actual = _by_sight(must), _by_sight(found)
    if expected != actual or _length_ms(must) != _length_ms(found):
        odd = [row.offset for row, part in zip(rows, found, strict=True) if part not in must]
        offsets = odd or [row.offset for row in rows]
        where = f"{TOPIC}/{partition}" + (f"@{offsets[0]}" if offsets else "")
        report.add("quarantine_differs", where, use.key, f"{code} {expected}", actual)
    for row in rows:
        size = 0 if row.span is None else use.macc * length_ms([row.span])
        place = (UsageMetered.TOPIC, partition)
        if (row.said, row.place[:2]) != ((use.team, use.pool, size), place):
            where = f"{TOPIC}/{partition}@{row.offset}"
            one, other = (use.team, use.pool, size, place), (*row.said, row.place[:2])
            report.add("quarantine_differs", where, use.key, one, other)


def _by_sight(parts: Iterable[LostPart]) -> dict[str, list[Span]]:
    """Return lost time by the offset that showed it and the step in which that was."""
    found: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for part in parts:
        found[part.step, part.offset].append(part.span)
    return {
        f"step {step}, by {offset}": joined(spans)
        for (step, offset), spans in sorted(found.items())
    }


def _length_ms(parts: Iterable[LostPart]) -> int:
    return length_ms([part.span for part in parts])


def compare_gaps(
    quarantine: Quarantine,
    source: str,
    must: Iterable[GapReport],
    partition: int,
    report: AuditReport,
) -> None:
    """Compare what is told of the numbers that a source passed over with what must be."""
    told = quarantine.gaps.pop(source, [])
    expected = sorted((gap.numbers, gap.ended, gap.step, gap.team) for gap in must)
    found = sorted((gap.numbers, gap.ended, gap.step, gap.team) for gap in told)
    if expected != found:
        odd = next((gap for gap in told if gap[:4] not in expected), told[0] if told else None)
        where = f"{TOPIC}/{partition}" + (f"@{odd.offset}" if odd else "")
        report.add("gap_differs", where, source, expected, found)


def report_spans_of_nothing(quarantine: Quarantine, partition: int, report: AuditReport) -> None:
    """Report parts in quarantine of records that are not on the log, or for no reason."""
    for (key, code), rows in sorted(quarantine.spans.items()):
        for row in rows:
            where = f"{TOPIC}/{partition}@{row.offset}"
            report.add("quarantine_unexpected", where, key, "", f"{code} {row.span}")
