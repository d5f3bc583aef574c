"""Budget records and alerts as the log has them, against those that must be."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from walras.audit.expected_budgets import Body, BudgetTold
from walras.audit.log_view import ALERTS, BUDGETS, Entry
from walras.audit.report import AuditReport
from walras.audit.rows import UnreadableError, contract_document
from walras_contracts.event import Event
from walras_contracts.money import BudgetAlerted, BudgetPublished

Subject = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Topic:
    """How the records of a topic are compared.

    ``code`` begins the codes of its differences, ``noun`` counts them. ``is_whole``: compaction
    removes nothing. ``subject``: what a record is about, which no two of them share.
    """

    name: str
    model: type[Event]
    code: str
    noun: str
    is_whole: bool
    subject: Callable[[Body], Subject]


@dataclass(frozen=True, slots=True)
class _Found:
    body: Body
    key: str
    step: int
    offset: int


def _of_record(body: Body) -> Subject:
    return str(body["team"]), f"at {body['at_ms']}"


def _of_alert(body: Body) -> Subject:
    budget = body["budget"]
    names = (body["team"], budget["window"], budget["start_ms"], body["threshold_ppm"])
    # Its key may occur again: a team that is back in a zone is told anew.
    return *(str(name) for name in names), f"at {body['at_ms']}"


_RECORDS: Final = _Topic(BUDGETS, BudgetPublished, "budget", "budgets", False, _of_record)
_ALERTS: Final = _Topic(ALERTS, BudgetAlerted, "alert", "alerts", True, _of_alert)
Given = Iterable[tuple[int, Entry]]


def compare_budgets(
    given: Given, must: Sequence[BudgetTold], partition: int, report: AuditReport
) -> None:
    """Compare the records of a partition of ``budgets`` with those that must be.

    Those that compaction removed are not there to be compared; the last of each team must be.
    """
    _compare(_RECORDS, given, must, partition, report)


def compare_alerts(
    given: Given, must: Sequence[BudgetTold], partition: int, report: AuditReport
) -> None:
    """Compare the alerts of a partition with those that must be."""
    _compare(_ALERTS, given, must, partition, report)


def _compare(
    topic: _Topic, given: Given, must: Sequence[BudgetTold], partition: int, report: AuditReport
) -> None:
    found = _read(topic, given, partition, report)
    last = {told.body["team"]: told for told in must}
    for told in must:
        subject = topic.subject(told.body)
        rows = found.pop(subject, [])
        if not rows and (topic.is_whole or last[told.body["team"]] is told):
            where = f"{topic.name}/{partition}"
            report.add(f"{topic.code}_missing", where, "/".join(subject), told.body)
        for number, row in enumerate(rows):
            where = f"{topic.name}/{partition}@{row.offset}"
            if number:
                report.add(f"{topic.code}_unexpected", where, "/".join(subject), "once", "again")
            else:
                _compare_one(topic, told, row, where, report)
    for subject, rows in sorted(found.items()):
        for row in rows:
            where = f"{topic.name}/{partition}@{row.offset}"
            report.add(f"{topic.code}_unexpected", where, "/".join(subject), "", row.body)


def _read(
    topic: _Topic, given: Given, partition: int, report: AuditReport
) -> dict[Subject, list[_Found]]:
    found: dict[Subject, list[_Found]] = defaultdict(list)
    for step, entry in given:
        if entry.value is None and not topic.is_whole:
            continue
        try:
            body = contract_document(entry, topic.model)
        except UnreadableError as error:
            where = f"{topic.name}/{partition}@{entry.offset}"
            report.add("unreadable", where, entry.key, topic.noun, repr(error))
            continue
        report.counts[topic.noun] += 1
        found[topic.subject(body)].append(_Found(body, entry.key, step, entry.offset))
    return found


def _compare_one(
    topic: _Topic, told: BudgetTold, row: _Found, where: str, report: AuditReport
) -> None:
    expected, actual = _flat(told.body), _flat(row.body)
    key = topic.model.model_validate(told.body).record_key()
    expected["key"], actual["key"] = key, row.key
    # Of a compacted topic barriers may be gone, and the step is the least that is possible.
    if row.step > told.step or (topic.is_whole and row.step != told.step):
        expected["step"], actual["step"] = told.step, row.step
    wrong = [
        name
        for name in expected.keys() | actual.keys()
        if expected.get(name, "none") != actual.get(name, "none")
    ]
    if wrong:
        report.add(
            f"{topic.code}_differs",
            where,
            "/".join(topic.subject(told.body)),
            ", ".join(f"{name} {expected.get(name, 'none')}" for name in sorted(wrong)),
            ", ".join(f"{name} {actual.get(name, 'none')}" for name in sorted(wrong)),
        )


def _flat(body: Body) -> dict[str, Any]:
    """Return the fields of a record, those of each budget by its window."""
    flat = {name: value for name, value in body.items() if name not in {"budget", "budgets"}}
    budgets = body["budgets"] if "budgets" in body else [body["budget"]]
    flat["windows"] = [budget["window"] for budget in budgets]
    for budget in budgets:
        flat |= {f"{budget['window']} {name}": value for name, value in budget.items()}
    return flat
