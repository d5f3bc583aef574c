"""Notices for the tests."""

from typing import Any

from walras_contracts.drains import NoticeKind, NotificationIssued

NOON_MS = 1_767_268_800_000
"""2026-01-01T12:00:00Z."""


def notice(number: int = 1, team: str = "vision", **fields: Any) -> NotificationIssued:
    """Return a notice: a warning with a deadline, unless told otherwise."""
    values: dict[str, Any] = {
        "notification": f"n{number}",
        "kind": NoticeKind.DRAIN_WARNING,
        "team": team,
        "job": "train-7",
        "lease": "l-1",
        "session": "s-1",
        "reason": "quota_lost",
        "text": "train-7 must leave node-3 by 12:02:00 UTC: quota_lost",
        "deadline_ms": NOON_MS + 120_000,
        "expires_ms": None,
        "issued_ms": NOON_MS,
        **fields,
    }
    return NotificationIssued(**values)
