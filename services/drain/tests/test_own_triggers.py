"""What drain asks for by itself: orders, low use, pressure; and what it takes back (R18)."""

from typing import Any

import pytest

from walras_contracts.drains import NotificationIssued
from walras_contracts.work import WorkClass

FREE = WorkClass.OPPORTUNISTIC
HOUR_MS = 3_600_000


def test_an_order_asks_placement_for_the_lease_of_the_job_once(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1", drainability="none"))
    assert bench.step(bench.order(1, "l1")).requests == {"l1": "ordered"}
    assert bench.step(bench.order(1, "l1")).requests == {}
    written = bench.step(bench.vacate("l1", "ordered"))
    assert written.requests == {}
    assert written.states == {"l1": "warned"}


def test_an_order_that_is_cancelled_before_it_was_answered_is_taken_back(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.order(1, "l1"))
    assert bench.step(bench.order(2, "l1", cancel=True)).requests == {"l1": "-ordered"}
    assert bench.step().requests == {}


def test_an_order_that_is_cancelled_during_the_drain_asks_for_the_drain_to_end(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    first = bench.order(1, "l1")
    bench.step(first)
    bench.step(bench.vacate("l1", "ordered"))
    assert bench.step(bench.order(2, "l1", cancel=True)).requests == {"l1": "-ordered"}
    assert bench.step(bench.stay("l1")).told == {"l1/n1": "cancel"}
    bench.step(bench.says("l1", "cancelled"))
    assert bench.step(first).requests == {}
    assert bench.step(bench.order(3, "l1")).requests == {"l1": "ordered"}


def test_the_cancel_of_an_order_does_not_end_a_drain_that_it_did_not_begin(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.vacate("l1"))
    bench.step(bench.order(1, "l1"))
    assert bench.step(bench.order(2, "l1", cancel=True)).requests == {}


def test_an_order_is_of_what_ran_when_it_was_given(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1", granted_ms=kit.START_MS))
    assert bench.step(bench.order(1, "l1", at_ms=kit.START_MS - 1)).requests == {}
    assert bench.step(bench.order(2, "l9")).requests == {}


def test_an_order_that_placement_let_go_is_not_given_again_by_itself(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.order(1, "l1"))
    bench.step(bench.vacate("l1", "ordered"))
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    assert all(written.requests == {} for written in bench.steps(1_500_000))


@pytest.mark.parametrize("crash", [False, True], ids=["whole", "crashing"])
def test_an_order_that_placement_let_go_is_not_given_again_when_its_drain_is_long_past(
    kit: Any, crash: bool
) -> None:
    bench = kit.bench(crash=crash, interval_ms=60_000)
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.order(1, "l1"))
    bench.step(bench.vacate("l1", "ordered"))
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    assert all(written.requests == {} for written in bench.steps(3 * HOUR_MS))
    assert bench.step(bench.order(2, "l1")).requests == {"l1": "ordered"}


@pytest.mark.parametrize("crash", [False, True], ids=["whole", "crashing"])
def test_a_distance_of_hours_between_two_requests_is_kept(kit: Any, crash: bool) -> None:
    bench = kit.bench(crash=crash, interval_ms=60_000)
    bench.step(kit.terms(minimum_distance_ms=3 * HOUR_MS), kit.node("n1", 10))
    bench.step(*kit.lease("l1", devices=10, work_class=FREE))
    bench.step(bench.vacate("l1", "pressure"))
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    ended_ms = bench.now_ms
    while not (written := bench.step()).requests:
        assert bench.now_ms < ended_ms + 4 * HOUR_MS
    assert written.requests == {"l1": "pressure"}
    assert bench.now_ms == ended_ms + 3 * HOUR_MS


def test_a_job_that_hardly_uses_its_devices_for_five_minutes_is_asked_to_leave(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.health("n1", l1=199_999))
    since_ms = bench.now_ms
    while not (written := bench.step(bench.health("n1", l1=199_999))).requests:
        assert bench.now_ms < since_ms + 400_000
    assert written.requests == {"l1": "low_use"}
    assert bench.now_ms == since_ms + 300_000
    assert bench.step(bench.health("n1", l1=0)).requests == {}
    # It is used again before placement answered.
    assert bench.step(bench.health("n1", l1=200_000)).requests == {"l1": "-low_use"}


def test_what_is_not_known_to_be_low_is_not_low(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1"),
        kit.node("n2"),
        *kit.lease("g", "n1", "n2"),
        *kit.lease("stays", drainability="none"),
        *kit.lease("unnamed"),
    )
    for number in range(100):
        named = {} if number % 30 == 29 else {"unnamed": 0}
        written = bench.step(
            bench.health("n1", g=0, stays=0, **named), bench.health("n2", g=900_000)
        )
        assert written.requests == {}


def test_low_use_is_counted_anew_after_a_silent_node_and_after_a_hole(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    for _ in range(50):
        bench.step(bench.health("n1", l1=0))
    bench.step(kit.node("n1", lost=True))
    bench.step(kit.node("n1"))
    for _ in range(50):
        assert bench.step(bench.health("n1", l1=0)).requests == {}
    bench.step(bench.health("n1", l1=0), after_ms=3_600_000)
    for _ in range(59):
        assert bench.step(bench.health("n1", l1=0)).requests == {}
    assert bench.step(bench.health("n1", l1=0)).requests == {"l1": "low_use"}


def test_a_market_under_pressure_asks_as_much_opportunistic_work_to_leave_as_it_takes(
    kit: Any,
) -> None:
    bench = kit.bench()
    names = ["l1", "l2", "l3", "l4", "l5"]
    work = kit.flat(kit.lease(name, devices=2, work_class=FREE) for name in names)
    # 98 of 100 are held, and less than 92 may be: four of these have to go.
    written = bench.step(kit.node("n1", 100), *kit.lease("paid", devices=88), *work)
    assert written.requests == dict.fromkeys(names[:4], "pressure")
    assert bench.step(*(bench.vacate(name, "pressure") for name in names[:4])).requests == {}
    # One device more is one lease more.
    assert bench.step(*kit.lease("more", devices=1)).requests == {}
    assert bench.step(*kit.lease("much", devices=1)).requests == {"l5": "pressure"}


def test_the_best_scores_leave_a_pressed_market_first_and_of_equal_ones_the_youngest(
    kit: Any,
) -> None:
    early = kit.START_MS - 7_200_000
    for size, asked in ((88, ["good"]), (89, ["good", "young"]), (91, ["good", "old", "young"])):
        bench = kit.bench()
        written = bench.step(
            kit.node("n1", 100),
            *kit.lease("paid", devices=size),
            *kit.lease("old", work_class=FREE, drainability="restart", granted_ms=early),
            *kit.lease("young", work_class=FREE, drainability="restart"),
            *kit.lease("good", work_class=FREE, granted_ms=early),
            *kit.lease("fixed", work_class=FREE, drainability="none"),
        )
        assert written.requests == dict.fromkeys(asked, "pressure")


def test_a_request_under_pressure_is_taken_back_when_the_pressure_is_gone_unanswered(
    kit: Any,
) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", 10),
        *kit.lease("paid", devices=8),
        *kit.lease("l1", devices=2, work_class=FREE),
    )
    assert written.requests == {"l1": "pressure"}
    assert bench.step().requests == {}
    assert bench.step(kit.node("n2", 10)).requests == {"l1": "-pressure"}


def test_a_drain_that_pressure_began_goes_on_when_the_pressure_is_gone(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 10), *kit.lease("l1", devices=10, work_class=FREE))
    bench.step(bench.vacate("l1", "pressure"))
    assert bench.step(kit.node("n2", 10)).requests == {}


def test_only_usable_devices_of_a_market_count(kit: Any) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", 8),
        kit.node("n2", 8, state="withheld"),
        kit.node("n3", 8, lost=True),
        kit.node("n4", 8, kind="b"),
        *kit.lease("l1", devices=7),
    )
    assert written.requests == {}
    written = bench.step(*kit.lease("l2", devices=1, work_class=FREE))
    assert written.requests == {"l2": "pressure"}


def test_other_jobs_of_a_pressed_market_are_advised_once_while_the_pressure_lasts(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 10), *kit.lease("l1", devices=9))
    written = bench.step(*kit.lease("l2"), *kit.lease("l3", devices=1, drainability="none"))
    advisories = [e for e in written.of(NotificationIssued) if isinstance(e, NotificationIssued)]
    assert {(e.kind.value, e.lease) for e in advisories} == {
        ("drain_advisory", "l1"),
        ("drain_advisory", "l2"),
    }
    assert {e.expires_ms for e in advisories} == {bench.now_ms + 300_000}
    assert {e.session for e in advisories} == {None}
    written = bench.step(*kit.lease("l4"))
    assert written.notices == [("drain_advisory", "l4")]


def test_an_advisory_expires_and_nothing_else_has_changed(kit: Any) -> None:
    """R18: what was only likely leaves no trace when it did not come true."""
    bench = kit.bench()
    bench.step(kit.node("n1", 10), *kit.lease("l1", devices=10))
    assert bench.notified
    for written in bench.steps(400_000):
        assert (written.events, written.ended) == ([], [])
    bench.step(kit.node("n2", 10))
    # The next pressure is another one, but one that follows at once says nothing new.
    written = bench.step(kit.node("n2", 10, state="gone"))
    assert written.notices == [("drain_advisory", "l1")]
    bench.step(kit.node("n2", 10))
    assert bench.step(kit.node("n2", 10, state="gone")).notices == []
    assert len(set(bench.notified)) == len(bench.notified) == 2


@pytest.mark.parametrize("gone", [{"state": "withheld"}, {"lost": True}, None], ids=str)
def test_a_market_whose_only_nodes_go_while_it_is_pressed_is_pressed_no_more_after_a_restart_too(
    kit: Any, gone: dict[str, Any] | None
) -> None:
    found = []
    for restarts in (False, True):
        bench = kit.bench()
        bench.step(
            kit.node("n1", 10),
            kit.node("n2", 4, kind="b"),
            *kit.lease("l1", devices=5, work_class=FREE),
            *kit.lease("l2", devices=5),
        )
        if restarts:
            bench.crash()
        goes = kit.node_ends("n1") if gone is None else kit.node("n1", 10, **gone)
        written = bench.step(goes)
        assert written.requests == {"l1": "-pressure"}
        # When they come back, it is another pressure.
        again = bench.step(kit.node("n1", 10))
        assert again.requests == {"l1": "pressure"}
        found.append((written.events, again.events))
    assert found[0] == found[1]


def test_what_leaves_a_node_that_does_not_count_brings_a_pressed_market_nothing(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 100),
        kit.node("n2", 10, lost=True),
        *kit.lease("far", "n2", devices=10),
        *kit.lease("paid", devices=90),
    )
    assert bench.step(bench.vacate("far")).states == {"far": "warned"}
    asked = bench.step(
        *kit.lease("near", devices=4, work_class=FREE),
        *kit.lease("best", "n2", devices=4, work_class=FREE),
    )
    assert asked.requests == {"near": "pressure"}


def test_a_lease_that_was_cancelled_is_not_asked_again_for_a_while(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 10), *kit.lease("l1", devices=10, work_class=FREE))
    bench.step(bench.vacate("l1", "pressure"))
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    ended_ms = bench.now_ms
    while not (written := bench.step()).requests:
        assert bench.now_ms < ended_ms + 700_000
    assert written.requests == {"l1": "pressure"}
    assert bench.now_ms == ended_ms + 600_000


def test_a_lease_whose_drain_failed_is_not_asked_again(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 10), *kit.lease("l1", devices=10, work_class=FREE))
    bench.step(bench.vacate("l1", "pressure"))
    assert all(written.requests == {} for written in bench.steps(2_000_000))
