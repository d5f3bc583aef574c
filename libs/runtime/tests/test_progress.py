"""A restore says how far it has come, seldom enough, and ends at all of it."""

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from walras_runtime.progress import ERASE_LINE, EVERY_MS, LINE_COLUMNS, RestoreProgress


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


class Screen(io.StringIO):
    """Shows what a terminal of one line would, and keeps what was drawn."""

    def line(self) -> str:
        return self.getvalue().rpartition(ERASE_LINE)[2]


def restored(
    steps: list[tuple[int, int]], *, records: int, screen: Screen | None = None
) -> tuple[list[Any], list[int]]:
    """Read one partition in steps of (milliseconds, records); return events and their times."""
    clock, times, offset = Clock(), [], 0
    with capture_logs() as logged, RestoreProgress("s/0", terminal=screen, now_ms=clock) as bar:
        bar.expect("walras.in.v1", 0, 0, records)
        for wait_ms, count in steps:
            clock.ms += wait_ms
            offset = min(records, offset + count)
            before = len(logged)
            bar.passed("walras.in.v1", 0, offset)
            times += [clock.ms] * (len(logged) - before)
        bar.passed("walras.in.v1", 0, records)
    return logged, times


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 50)), max_size=40))
def test_reports_come_at_most_twice_a_second_never_go_back_and_end_at_all_of_it(
    steps: list[tuple[int, int]],
) -> None:
    logged, times = restored(steps, records=500)
    assert all(later - earlier >= EVERY_MS for earlier, later in pairwise(times))
    read = [event["records_read"]["walras.in.v1"] for event in logged]
    assert read == sorted(read)
    assert all(event["records_to_read"] == {"walras.in.v1": 500} for event in logged)
    assert all(event["stage"] == "s/0" for event in logged)
    if sum(wait for wait, _ in steps) >= EVERY_MS:
        assert read[-1] == 500, "the last report is that of the end"
    else:
        assert logged == [], "a short restore says nothing"


def test_a_restore_of_a_second_is_reported_on_the_way_and_at_its_end() -> None:
    logged, _ = restored([(300, 100), (300, 100), (300, 100)], records=400)
    assert [event["event"] for event in logged] == ["restoring"] * 2
    assert [event["records_read"]["walras.in.v1"] for event in logged] == [200, 400]


def test_an_end_that_was_reported_is_not_reported_again() -> None:
    logged, _ = restored([(600, 400)], records=400)
    assert [event["records_read"]["walras.in.v1"] for event in logged] == [400]


def test_topics_and_partitions_are_counted_on_their_own() -> None:
    clock = Clock()
    with capture_logs() as logged, RestoreProgress("s/0", terminal=None, now_ms=clock) as bar:
        bar.expect("a", 0, 10, 30)
        bar.expect("a", 1, 5, 5)
        bar.expect("b", 0, 7, 3)
        clock.ms += EVERY_MS
        bar.passed("a", 0, 25)
    assert logged[0]["records_read"] == {"a": 15, "b": 0}
    assert logged[0]["records_to_read"] == {"a": 20, "b": 0}


def test_without_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    restored([(600, 100)], records=400)
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", "")


def test_on_a_terminal_one_line_is_redrawn_and_erased_at_the_end() -> None:
    screen, clock = Screen(), Clock()
    with capture_logs(), RestoreProgress("s/0", terminal=screen, now_ms=clock) as bar:
        bar.expect("a", 0, 0, 4_000)
        bar.passed("a", 0, 500)
        assert screen.getvalue() == ""
        clock.ms += EVERY_MS
        bar.passed("a", 0, 1_000)
        drawn = "[#####---------------]  25 % 1,000 of 4,000 records: restoring s/0\r"
        assert screen.line() == drawn
        clock.ms += EVERY_MS
        bar.passed("a", 0, 4_000)
        assert screen.line().startswith("[####################] 100 % 4,000 of 4,000")
    assert screen.line() == ""
    assert "\n" not in screen.getvalue()


def test_where_stderr_is_a_terminal_the_bar_is_drawn_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    restored([(600, 100)], records=400)
    assert screen.getvalue() == ""
    monkeypatch.setattr(screen, "isatty", lambda: True)
    restored([(600, 100)], records=400)
    assert "25 % 100 of 400 records" in screen.getvalue()
    assert screen.line() == ""


def test_a_bar_fits_into_a_terminal_whatever_its_stage_is_called() -> None:
    bar = RestoreProgress("s" * 200, terminal=None)
    bar.expect("a", 0, 0, 10**15)
    bar.passed("a", 0, 10**14)
    assert len(bar.bar()) == LINE_COLUMNS


def test_a_restore_that_breaks_claims_no_end_and_leaves_no_bar() -> None:
    screen, clock = Screen(), Clock()
    with capture_logs() as logged, pytest.raises(RuntimeError):  # noqa: SIM117, PT012
        with RestoreProgress("s/0", terminal=screen, now_ms=clock) as bar:
            bar.expect("a", 0, 0, 4)
            clock.ms += EVERY_MS
            bar.passed("a", 0, 1)
            raise RuntimeError("the broker is gone")
    assert [event["records_read"] for event in logged] == [{"a": 1}]
    assert screen.line() == ""
