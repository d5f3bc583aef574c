"""Logs: one JSON object a line, and a library cannot flood them."""

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from walras_runtime.logs import RateLimit, configure_logs


def record(message: object, at: float) -> logging.LogRecord:
    made = logging.LogRecord("aiokafka", logging.WARNING, "", 0, message, (), None)
    made.created = at
    return made


@given(st.lists(st.floats(0, 10), max_size=50).map(sorted))
def test_a_template_passes_at_most_once_a_second(times: list[float]) -> None:
    limit = RateLimit()
    passed = [at for at in times if limit.filter(record("broker %s away", at))]
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(passed))
    assert bool(passed) == bool(times)


def test_templates_do_not_silence_each_other() -> None:
    limit = RateLimit()
    assert limit.filter(record("one", 5.0))
    assert limit.filter(record("two", 5.0))
    assert not limit.filter(record("one", 5.5))


def test_a_clock_that_was_set_back_silences_nothing() -> None:
    limit = RateLimit()
    assert limit.filter(record("one", 5_000.0))
    assert limit.filter(record("one", 10.0))


def test_our_own_events_are_not_limited() -> None:
    limit = RateLimit()
    assert all(limit.filter(record({"event": "claimed"}, 5.0)) for _ in range(3))


def test_memory_stays_bounded_however_many_templates_come() -> None:
    limit = RateLimit()
    for number in range(3 * RateLimit.MOST_TEMPLATES):
        assert limit.filter(record(f"formatted {number}", 5.0))
    assert len(limit._last) <= RateLimit.MOST_TEMPLATES


def lines_of(capsys: pytest.CaptureFixture[str], write: Callable[[], None]) -> list[Any]:
    """Return what a process configured as a service writes."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    try:
        configure_logs("echo", "info")
        write()
    finally:
        root.handlers[:] = kept
        root.setLevel(level)
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_every_line_names_service_level_and_time_whoever_wrote_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # As modules hold it: made before anything is configured.
    early = structlog.get_logger("walras")

    def write() -> None:
        early.info("claimed", epoch=3)
        early.debug("not shown")
        structlog.get_logger("walras").bind(stage="echo/0").error("stage_stopped")
        logging.getLogger("aiokafka").warning("broker %s away", 1)
        logging.getLogger("aiokafka").warning("broker %s away", 2)

    lines = lines_of(capsys, write)
    assert [line["event"] for line in lines] == ["claimed", "stage_stopped", "broker 1 away"]
    assert [line["level"] for line in lines] == ["info", "error", "warning"]
    for line in lines:
        assert line["service"] == "echo"
        written = datetime.fromisoformat(line["timestamp"])
        assert written.utcoffset() == timedelta(0)
    assert (lines[0]["epoch"], lines[1]["stage"]) == (3, "echo/0")
    assert lines[2]["logger"] == "aiokafka"


def test_an_exception_is_told_in_the_line_that_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    def write() -> None:
        try:
            raise ValueError("no such thing")
        except ValueError:
            structlog.get_logger("walras").exception("broken")

    (line,) = lines_of(capsys, write)
    assert line["event"] == "broken"
    assert "ValueError: no such thing" in line["exception"]
