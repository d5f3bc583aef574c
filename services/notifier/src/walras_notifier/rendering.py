"""A notice in words: the body of a webhook, and an e-mail; the same bytes each time."""

import json
import re
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Final

from walras_contracts.drains import NotificationIssued

DAY_MS: Final = 86_400_000
SUBJECT_MAX: Final = 200
_UNFOLDED: Final = SMTP.clone(max_line_length=998)
"""Ids may be longer than a folded line, and folding would encode them."""
_MARCH_0000: Final = 719_468
"""Days from 1 March of year 0 to 1 January 1970."""
_ERA_DAYS: Final = 146_097
"""Days of 400 years."""


def iso_utc(market_time_ms: int) -> str:
    """Return a market time (ms since the epoch) as ISO 8601 in UTC, to the millisecond."""
    days, ms = divmod(market_time_ms, DAY_MS)
    # The calendar counted from March: the leap day is the last of its year.
    era, day_of_era = divmod(days + _MARCH_0000, _ERA_DAYS)
    leaps = day_of_era // 1460 - day_of_era // 36_524 + day_of_era // (_ERA_DAYS - 1)
    year_of_era = (day_of_era - leaps) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = 400 * era + year_of_era + (month <= 2)
    minutes, rest = divmod(ms, 60_000)
    hour, minute = divmod(minutes, 60)
    second, thousandth = divmod(rest, 1000)
    date = f"{year:04}-{month:02}-{day:02}"
    return f"{date}T{hour:02}:{minute:02}:{second:02}.{thousandth:03}Z"


def _iso_or_none(market_time_ms: int | None) -> str | None:
    return None if market_time_ms is None else iso_utc(market_time_ms)


def webhook_body(notice: NotificationIssued) -> bytes:
    """Return a notice as canonical JSON (sorted keys, no spaces, ASCII).

    It is the event, with its type, and each time as ISO 8601 in UTC besides.
    """
    document = {
        "type": notice.TYPE,
        "notification": notice.notification,
        "kind": notice.kind.value,
        "team": notice.team,
        "job": notice.job,
        "lease": notice.lease,
        "session": notice.session,
        "reason": notice.reason,
        "text": notice.text,
        "deadline_ms": notice.deadline_ms,
        "deadline": _iso_or_none(notice.deadline_ms),
        "expires_ms": notice.expires_ms,
        "expires": _iso_or_none(notice.expires_ms),
        "issued_ms": notice.issued_ms,
        "issued": iso_utc(notice.issued_ms),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def email_message(notice: NotificationIssued, sender: str, address: str) -> bytes:
    """Return a notice as an e-mail.

    Its Message-ID follows from the notice, so that a repetition is told from another message; all
    that is said of one drain session refers to one id, so that it is shown as one thread.
    """
    domain = sender.rpartition("@")[2]
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = address
    message["Subject"] = _subject(notice)
    message["Date"] = formatdate(notice.issued_ms // 1000, usegmt=True)
    message["Message-ID"] = f"<{notice.notification}@{domain}>"
    if notice.session is not None:
        message["References"] = f"<session.{notice.session}@{domain}>"
    # Nobody is away from a notice: no answering machine is to answer.
    message["Auto-Submitted"] = "auto-generated"
    message["Walras-Notification"] = notice.notification
    message.set_content(_text(notice), cte="quoted-printable")
    return message.as_bytes(policy=_UNFOLDED)


def _subject(notice: NotificationIssued) -> str:
    what = notice.team if notice.job is None else f"{notice.team}/{notice.job}"
    subject = f"[Walras] {notice.kind.value}: {what}, {notice.reason}"
    if notice.deadline_ms is not None:
        subject += f", by {iso_utc(notice.deadline_ms)}"
    return _one_line(subject)[:SUBJECT_MAX]


def _text(notice: NotificationIssued) -> str:
    rows = (
        ("Kind", notice.kind.value),
        ("Team", notice.team),
        ("Job", notice.job),
        ("Lease", notice.lease),
        ("Session", notice.session),
        ("Reason", notice.reason),
        ("Deadline", _iso_or_none(notice.deadline_ms)),
        ("Expires", _iso_or_none(notice.expires_ms)),
        ("Issued", iso_utc(notice.issued_ms)),
        ("Notification", notice.notification),
    )
    lines = [f"{name + ':':<14}{_one_line(value)}" for name, value in rows if value is not None]
    return "\n".join([_one_line(notice.text), "", *lines, "", "All times are UTC.", ""])


def _one_line(text: str) -> str:
    """Return text without what would begin another line, or another header."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", text).strip()
