"""One record that says something else in one field is found, and named by its place on the log."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cli.tests.audit_days import Hours, MoneyWorld
from cli.tests.audit_tampering import (
    Body,
    Tampering,
    Wanted,
    altered,
    anything,
    copied,
    delayed,
    doubled,
    dropped,
    first,
    forged,
    found,
    garbled,
    put,
)
from walras.audit import AuditReport, AuditRules, audit
from walras_contracts.charges import UsageGapReported as Gap
from walras_contracts.charges import UsageQuarantined as Quarantined
from walras_contracts.money import BalancePublished as Balance
from walras_contracts.money import BudgetAlerted as Alert
from walras_contracts.money import BudgetPublished as Budget
from walras_runtime.memory.log import MemoryLog

RULES: dict[str, Any] = {"look_back_ms": 1_200_000, "price_wait_ms": 2_400_000}


@pytest.fixture(scope="module")
def clean() -> MemoryLog:
    """Return a log on which everything that is tampered with occurs."""
    return Hours(2, minutes=150).run(MoneyWorld(**RULES)).log


def audited(log: MemoryLog) -> AuditReport:
    return audit(log, AuditRules(**RULES))


def is_whole(body: Body) -> bool:
    return body["start_ms"] is None and body["team"] is not None and bool(body["macc_ms"])


def is_drain(body: Body) -> bool:
    return bool(body["topic"] == "drain.status")


def is_overlap(body: Body) -> bool:
    return bool(body["code"] == "overlap")


def is_never_priced(body: Body) -> bool:
    return bool(body["code"] == "never_priced")


def has_budgets(body: Body) -> bool:
    return len(body["budgets"]) > 1


def other_pool(body: Body) -> str:
    return "q" if body["pool"] == "p" else "p"


def other_team(body: Body) -> str:
    return "t2" if body["team"] == "t1" else "t1"


def budget_of(name: str, change: Callable[[Any], Any]) -> Callable[[Body], Any]:
    """Change a field of the last of several budgets."""

    def changed(body: Body) -> Any:
        *others, last = body["budgets"]
        return [*others, last | {name: change(last[name])}]

    return changed


def budget_alerted(name: str, change: Callable[[Any], Any]) -> Callable[[Body], Any]:
    return lambda body: body["budget"] | {name: change(body["budget"][name])}


def more(value: int) -> int:
    return value + 1


def other(value: str) -> str:
    return "hour" if value == "day" else "day"


Change = Callable[[Body], Any]
FIELDS: list[tuple[Any, Wanted, str, Change]] = [
    *((Quarantined, is_whole, "pool", other_pool), (Quarantined, is_whole, "team", other_team)),
    (Quarantined, is_whole, "record", lambda _: "l9/n9/9/9"),
    (Quarantined, is_drain, "team", other_team),
    (Quarantined, is_drain, "pool", other_pool),
    (Quarantined, is_drain, "macc_ms", lambda _: "7"),
    (Quarantined, is_overlap, "offset", lambda body: body["offset"] + 1),
    (Quarantined, is_overlap, "partition", lambda body: body["partition"] + 1),
    (Quarantined, is_overlap, "topic", lambda _: "charges"),
    (Quarantined, is_overlap, "pool", other_pool),
    (Quarantined, is_overlap, "start_ms", lambda body: body["start_ms"] - 1),
    (Quarantined, is_never_priced, "offset", lambda _: 0),
    (Quarantined, is_never_priced, "team", other_team),
    *((Gap, anything, "team", other_team), (Gap, anything, "end_seq", lambda b: b["end_seq"] + 1)),
    (Gap, anything, "ended", lambda body: "never" if body["ended"] == "filled" else "filled"),
    (Balance, anything, "pool", other_pool),
    (Budget, has_budgets, "pool", other_pool),
    (Budget, has_budgets, "boundary_ms", lambda body: body["boundary_ms"] - 300_000),
    (Budget, has_budgets, "exhausted", lambda body: not body["exhausted"]),
    (Budget, has_budgets, "reason", lambda b: "month" if b["reason"] == "none" else "none"),
    (Budget, has_budgets, "budgets", lambda body: body["budgets"][:-1]),
    *((Budget, has_budgets, "budgets", budget_of(name, more)) for name in ("start_ms", "end_ms")),
    (Budget, has_budgets, "budgets", budget_of("limit_micro", more)),
    (Budget, has_budgets, "budgets", budget_of("spent_micro", more)),
    (Budget, has_budgets, "budgets", budget_of("hard_stop", lambda is_hard: not is_hard)),
    (Budget, anything, "at_ms", lambda body: body["at_ms"] + 1),
    (Alert, anything, "pool", other_pool),
    (Alert, anything, "threshold_ppm", lambda body: body["threshold_ppm"] + 1),
    (Alert, anything, "at_ms", lambda body: body["at_ms"] - 1),
    (Alert, anything, "budget", budget_alerted("window", other)),
    (Alert, anything, "budget", budget_alerted("end_ms", more)),
    (Alert, anything, "budget", budget_alerted("limit_micro", more)),
    (Alert, anything, "budget", budget_alerted("spent_micro", more)),
    (Alert, anything, "budget", budget_alerted("hard_stop", lambda is_hard: not is_hard)),
]


@pytest.mark.parametrize(
    ("kind", "wanted", "field", "change"),
    FIELDS,
    ids=[f"{at}-{kind.__name__}-{field}" for at, (kind, _, field, _) in enumerate(FIELDS)],
)
def test_a_field_that_says_something_else_is_found_at_its_place(
    clean: MemoryLog, kind: Any, wanted: Wanted, field: str, change: Change
) -> None:
    log = copied(clean)
    held, place, body = first(log, kind, wanted)
    (partition,) = [p for (topic, p), rows in log.entries.items() if rows is held]
    put(held, place, body, **{field: change(body)})

    report = audited(log)
    named = {difference.where for difference in report.differences}
    assert f"{kind.TOPIC}/{partition}@{held[place].offset}" in named, report.differences


def with_another_key(kind: Any) -> Tampering:
    """Write a record under a key that is not its own."""

    def tamper(log: MemoryLog) -> None:
        held, place, _ = first(log, kind)
        held[place] = replace(held[place], key="other")

    return tamper


def last_budgets_lost(log: MemoryLog) -> None:
    """Take away the last record of a team."""
    _, _, body = first(log, Budget)
    *_, last = (each for each in _of_team(log, body["team"]))
    held, place = last
    del held[place]


def _of_team(log: MemoryLog, team: str) -> list[tuple[list[Any], int]]:
    places = [(held, place) for held, place, body in found(log, Budget) if body["team"] == team]
    return sorted(places, key=lambda each: each[1])


MORE_TAMPERINGS: list[tuple[str, Tampering, str]] = [
    ("the last budgets of a team are lost", last_budgets_lost, "budget_missing"),
    ("budgets are told twice", doubled(Budget), "budget_unexpected"),
    ("budgets are told a step late", delayed(Budget, has_budgets), "budget_differs"),
    ("budgets have another key", with_another_key(Budget), "budget_differs"),
    ("budgets are garbled", garbled(Budget), "unreadable"),
    (
        "budgets say that less was spent",
        altered(
            Budget, lambda b: {"budgets": budget_of("spent_micro", lambda n: n - 1)(b)}, has_budgets
        ),
        "budget_differs",
    ),
    ("an alert is lost", dropped(Alert), "alert_missing"),
    ("an alert is given twice", doubled(Alert), "alert_unexpected"),
    ("an alert is given a step late", delayed(Alert), "alert_differs"),
    ("an alert has another key", with_another_key(Alert), "alert_differs"),
    (
        "an alert that nothing asks for",
        forged(Alert, lambda _: {"threshold_ppm": 123_456}, "-"),
        "alert_unexpected",
    ),
    (
        "an alert of another limit",
        altered(Alert, lambda b: {"budget": budget_alerted("limit_micro", more)(b)}),
        "alert_differs",
    ),
    ("a balance has another key", with_another_key(Balance), "balance_differs"),
    ("quarantine has another key", with_another_key(Quarantined), "quarantine_differs"),
    ("a gap has another key", with_another_key(Gap), "gap_differs"),
]
"""Beside those of ``test_audit_tampering``."""


@pytest.mark.parametrize(
    ("tampering", "code"),
    [tampering[1:] for tampering in MORE_TAMPERINGS],
    ids=[f"{code}: {words}" for words, _, code in MORE_TAMPERINGS],
)
def test_tampering_is_found_and_named(clean: MemoryLog, tampering: Tampering, code: str) -> None:
    log = copied(clean)
    tampering(log)

    report = audited(log)
    assert report.found[code], dict(report.found)
