"""Notices in words."""

import json
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default

from hypothesis import example, given
from hypothesis import strategies as st

from services.notifier.tests.notices import NOON_MS, notice
from walras_contracts.drains import NoticeKind
from walras_contracts.identifiers import ID_PATTERN
from walras_contracts.quantities import MARKET_TIME_MS_MAX
from walras_notifier.rendering import email_message, iso_utc, webhook_body

IDS = st.from_regex(ID_PATTERN.replace("$", r"\Z"))
HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "References", "Auto-Submitted"),
    *("Walras-Notification", "Content-Type", "Content-Transfer-Encoding", "MIME-Version"),
}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=500)


@given(st.integers(0, MARKET_TIME_MS_MAX))
@example(0)
@example(951_782_400_000)  # 29 February 2000
@example(4_107_542_399_999)  # the last moment of February 2100, which has no 29th
@example(NOON_MS)
def test_times_are_the_calendars(at_ms: int) -> None:
    at = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    wanted = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert iso_utc(at_ms) == wanted


def test_a_webhook_says_reason_and_deadline_in_utc() -> None:
    body = webhook_body(notice())
    assert json.loads(body) == {
        "type": "walras.notification.issued.v1",
        "notification": "n1",
        "kind": "drain_warning",
        "team": "vision",
        "job": "train-7",
        "lease": "l-1",
        "session": "s-1",
        "reason": "quota_lost",
        "text": "train-7 must leave node-3 by 12:02:00 UTC: quota_lost",
        "deadline_ms": 1_767_268_920_000,
        "deadline": "2026-01-01T12:02:00.000Z",
        "expires_ms": None,
        "expires": None,
        "issued_ms": 1_767_268_800_000,
        "issued": "2026-01-01T12:00:00.000Z",
    }
    assert body == webhook_body(notice())
    assert body.isascii()


def test_every_field_of_the_event_is_in_the_webhook() -> None:
    event = json.loads(notice().payload())
    body = json.loads(webhook_body(notice()))
    assert event.items() <= body.items()


def test_an_email_says_reason_and_deadline_in_utc() -> None:
    raw = email_message(notice(), "walras@example.org", "oncall@example.org")
    message = message_from_bytes(raw, policy=default)
    assert message["From"] == "walras@example.org"
    assert message["To"] == "oncall@example.org"
    assert message["Subject"] == (
        "[Walras] drain_warning: vision/train-7, quota_lost, by 2026-01-01T12:02:00.000Z"
    )
    assert message["Date"] == "Thu, 01 Jan 2026 12:00:00 +0000"
    assert message["Message-ID"] == "<n1@example.org>"
    assert message["References"] == "<session.s-1@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    lines = message.get_content().splitlines()
    assert lines[0] == "train-7 must leave node-3 by 12:02:00 UTC: quota_lost"
    assert "Reason:       quota_lost" in lines
    assert "Deadline:     2026-01-01T12:02:00.000Z" in lines
    assert "All times are UTC." in lines


def test_a_repeated_email_is_the_same_to_the_byte() -> None:
    one, two = (email_message(notice(), "a@example.org", "b@example.org") for _ in range(2))
    assert one == two


@given(reason=TEXTS, text=TEXTS, name=IDS, session=IDS)
@example(reason="x\r\nBcc: all@example.org", text="\n.\r\n.\nQUIT", name="n", session="s")
@example(reason="x", text="y", name="n" * 63, session="s" * 63)
def test_nothing_in_a_notice_becomes_a_header_or_another_line(
    reason: str, text: str, name: str, session: str
) -> None:
    said = notice(
        notification=name,
        session=session,
        reason=reason,
        text=text,
        kind=NoticeKind.DRAIN_ADVISORY,
    )
    sender = f"walras@{'a' * 60}.example.org"
    raw = email_message(said, sender, "oncall@example.org")
    message = message_from_bytes(raw, policy=default)
    assert not message.defects
    assert set(message.keys()) == HEADERS
    domain = sender.partition("@")[2]
    assert message["Message-ID"] == f"<{name}@{domain}>"
    assert message["References"] == f"<session.{session}@{domain}>"
    lines = message.get_content().split("\r\n")
    assert lines[2] == "Kind:         drain_advisory"
    assert sum(line.startswith("Reason:") for line in lines) >= 1
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    json.loads(webhook_body(said))
