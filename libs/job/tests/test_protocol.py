import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_job.errors import DocumentUnreadableError
from walras_job.protocol import (
    DOCUMENT_BYTES_MAX,
    SESSION_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    WHOLE_MAX,
    DrainCancel,
    DrainDone,
    DrainProgress,
    DrainWarning,
)

SESSIONS = st.text(min_size=1, max_size=SESSION_CHARACTERS_MAX)
TEXTS = st.text(max_size=TEXT_CHARACTERS_MAX)
WHOLES = st.integers(0, WHOLE_MAX)
WARNING = {"session": "s1", "reason": "quota", "deadline_ms": 2_000, "warned_ms": 1_000}


@given(session=SESSIONS, reason=TEXTS, deadline_ms=WHOLES, warned_ms=WHOLES)
def test_a_warning_says_what_was_written(**fields: Any) -> None:
    warning = DrainWarning(**fields)
    assert DrainWarning.decode(warning.encode()) == warning
    assert json.loads(warning.encode()) == fields


@given(session=SESSIONS, step=st.none() | WHOLES, checkpoint=st.none() | TEXTS)
def test_done_says_what_was_written(**fields: Any) -> None:
    done = DrainDone(**fields)
    assert DrainDone.decode(done.encode()) == done
    assert json.loads(done.encode()) == fields


@given(session=SESSIONS, text=TEXTS)
def test_cancel_and_progress_say_what_was_written(session: str, text: str) -> None:
    cancel, progress = DrainCancel(session), DrainProgress(session, text)
    assert DrainCancel.decode(cancel.encode()) == cancel
    assert DrainProgress.decode(progress.encode()) == progress
    assert json.loads(cancel.encode()) == {"session": session}
    assert json.loads(progress.encode()) == {"session": session, "text": text}


def test_fields_of_a_later_protocol_are_passed_over() -> None:
    body = json.dumps({**WARNING, "kind": "signal"}).encode()
    assert DrainWarning.decode(body) == DrainWarning("s1", "quota", 2_000, 1_000)
    assert DrainDone.decode(b'{"session": "s1"}') == DrainDone("s1")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"session": None}, "session"),
        ({"session": ""}, "session"),
        ({"session": 7}, "session"),
        ({"session": "s" * (SESSION_CHARACTERS_MAX + 1)}, "session"),
        ({"reason": None}, "reason"),
        ({"deadline_ms": -1}, "deadline_ms"),
        ({"deadline_ms": 1.5}, "deadline_ms"),
        ({"deadline_ms": True}, "deadline_ms"),
        ({"deadline_ms": "2000"}, "deadline_ms"),
        ({"warned_ms": WHOLE_MAX + 1}, "warned_ms"),
    ],
)
def test_a_field_that_is_wrong_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(DocumentUnreadableError, match=f"^{named}: must ") as caught:
        DrainWarning.decode(json.dumps({**WARNING, **change}).encode())
    assert (caught.value.code, caught.value.retriable) == ("document_unreadable", False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"session": "s1"',
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 50_000,
        b'{"session": "s1"}' + b" " * DOCUMENT_BYTES_MAX,
    ],
    ids=["empty", "torn", "list", "null", "no text", "deep", "long"],
)
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(DocumentUnreadableError):
        DrainCancel.decode(body)


@given(body=st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_refused(body: bytes) -> None:
    for document in (DrainWarning, DrainCancel, DrainDone, DrainProgress):
        try:
            document.decode(body)
        except DocumentUnreadableError:
            continue


@pytest.mark.parametrize(
    "document",
    [
        DrainWarning("", "quota", 1, 1),
        DrainWarning("s" * (SESSION_CHARACTERS_MAX + 1), "quota", 1, 1),
        DrainWarning("s1", "r" * (TEXT_CHARACTERS_MAX + 1), 1, 1),
        DrainWarning("s1", "quota", -1, 1),
        DrainDone("s1", step=WHOLE_MAX + 1),
        DrainDone("s1", checkpoint="p" * 5_000),
    ],
)
def test_what_the_other_side_would_not_read_is_not_written(document: Any) -> None:
    with pytest.raises(ValueError, match="cannot be told"):
        document.encode()


def test_a_long_text_of_another_writer_is_cut() -> None:
    body = json.dumps({"session": "s1", "text": "x" * 5_000}).encode()
    assert DrainProgress.decode(body).text == "x" * TEXT_CHARACTERS_MAX
