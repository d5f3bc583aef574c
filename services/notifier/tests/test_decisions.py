"""Until when a notice is tried, when again, and what an answer means."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.notifier.tests.notices import NOON_MS, notice
from walras_notifier.core import Clocks, Fate, Policy, backoff_ms, fate_of, limit_ms, on_monotonic
from walras_notifier.outcomes import (
    RETRY_AFTER_MAX_MS,
    Delivered,
    Failed,
    Refused,
    of_recipient,
    of_status,
    retry_after_ms,
)

DAY_MS = 86_400_000


def test_a_notice_is_tried_until_its_deadline_or_expiry() -> None:
    assert limit_ms(notice(deadline_ms=NOON_MS + 5), DAY_MS) == NOON_MS + 5
    assert limit_ms(notice(deadline_ms=None, expires_ms=NOON_MS + 7), DAY_MS) == NOON_MS + 7
    both = notice(deadline_ms=NOON_MS + 9, expires_ms=NOON_MS + 8)
    assert limit_ms(both, DAY_MS) == NOON_MS + 8


def test_a_notice_without_an_end_is_tried_for_a_set_time() -> None:
    assert limit_ms(notice(deadline_ms=None), DAY_MS) == NOON_MS + DAY_MS


def test_live_market_time_is_the_wall_clock() -> None:
    clocks = Clocks(wall_ms=NOON_MS + 1_000, monotonic_ms=500)
    at_ms = on_monotonic(NOON_MS + 3_000, NOON_MS, NOON_MS + 900, clocks, "live")
    assert at_ms == 2_500


def test_in_a_replay_market_time_passes_from_when_the_notice_was_written() -> None:
    clocks = Clocks(wall_ms=2 * NOON_MS, monotonic_ms=500)
    at_ms = on_monotonic(7_000, 5_000, 2 * NOON_MS - 100, clocks, "replay")
    assert at_ms == 500 - 100 + 2_000


@given(attempts=st.integers(1, 10_000), part=st.integers(0, 1_000))
def test_the_wait_is_random_below_a_bound_that_doubles(attempts: int, part: int) -> None:
    policy = Policy(first_backoff_ms=1_000, most_backoff_ms=300_000)
    asked: list[int] = []

    def draw(most: int) -> int:
        asked.append(most)
        return most * part // 1_000

    wait_ms = backoff_ms(attempts, policy, draw)
    assert asked == [min(300_000, 1_000 * 2 ** (attempts - 1))]
    assert wait_ms == max(1, asked[0] * part // 1_000)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_success_is_a_delivery(status: int) -> None:
    assert of_status(status, "99", 0) == Delivered()


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 599, 408, 425, 429])
def test_what_may_go_away_by_itself_is_tried_again(status: int) -> None:
    assert of_status(status, None, 0) == Failed(f"status {status}")
    assert of_status(status, "7", 0) == Failed(f"status {status}", 7_000)


@pytest.mark.parametrize("status", [301, 302, 303, 304, 400, 401, 403, 404, 405, 410, 413, 422])
def test_what_will_not_go_away_is_not_tried_again(status: int) -> None:
    assert of_status(status, "7", 0) == Refused(f"status {status}")


def test_retry_after_may_be_seconds_or_a_date() -> None:
    now_s = NOON_MS // 1000
    assert retry_after_ms(" 120 ", now_s) == 120_000
    assert retry_after_ms("0", now_s) == 0
    assert retry_after_ms(formatdate(now_s + 90, usegmt=True), now_s) == 90_000
    assert retry_after_ms(formatdate(now_s - 90, usegmt=True), now_s) == 0
    assert retry_after_ms("9" * 40, now_s) == RETRY_AFTER_MAX_MS
    assert retry_after_ms(formatdate(now_s + 10**7, usegmt=True), now_s) == RETRY_AFTER_MAX_MS


@given(st.text(max_size=60))
def test_no_retry_after_is_too_strange(value: str) -> None:
    found = retry_after_ms(value, 0)
    assert found is None or 0 <= found <= RETRY_AFTER_MAX_MS


def test_a_mail_server_says_what_is_for_ever_by_its_first_digit() -> None:
    assert of_recipient(550) == Refused("smtp 550")
    assert of_recipient(450) == Failed("smtp 450")
    assert of_recipient(421) == Failed("smtp 421")


def test_only_a_failure_is_tried_again() -> None:
    fates = [fate_of(outcome) for outcome in (Delivered(), Failed("x"), Refused("x"))]
    assert fates == [Fate.DELIVERED, Fate.RETRIED, Fate.REFUSED]
