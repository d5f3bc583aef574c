"""Logs: one JSON object a line, and a library cannot flood them."""

import json
import logging
from itertools import pairwise

import pytest
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


def test_lines_are_json_with_level_event_and_the_services_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    try:
        logger = configure_logs("echo", "info")
        logger.info("claimed", epoch=3)
        logger.debug("not shown")
        logging.getLogger("aiokafka").warning("broker %s away", 1)
        logging.getLogger("aiokafka").warning("broker %s away", 2)
    finally:
        root.handlers[:] = kept
        root.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["claimed", "broker 1 away"]
    assert (lines[0]["service"], lines[0]["level"], lines[0]["epoch"]) == ("echo", "info", 3)
    assert (lines[1]["level"], lines[1]["logger"]) == ("warning", "aiokafka")
