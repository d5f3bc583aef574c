"""The guardrail: budgets in a sliding window, distances, the longest wait (R17)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.accounts import DrainTerms
from walras_drain.guardrail import Begun, Verdict, spent_macc, verdict

TERMS = DrainTerms()
NOW_MS = 10_000_000
begun_drains = st.lists(
    st.builds(
        Begun,
        st.integers(NOW_MS - 2_000_000, NOW_MS),
        st.integers(1, 8_000),
        st.sampled_from(["j1", "j2", "j3"]),
        st.text(max_size=4),
    ),
    max_size=12,
)


def judge(begun: list[Begun], **changes: Any) -> Verdict:
    arguments: dict[str, Any] = {
        "terms": TERMS,
        "now_ms": NOW_MS,
        "team": "t1",
        "job": "j1",
        "size_macc": 1_000,
        "held_macc": 10_000,
        "waited_ms": 0,
        "may_wait": True,
    }
    return verdict(begun=begun, **{**arguments, **changes})


def ago(minutes: int, size_macc: int = 1_000, job: str = "other") -> Begun:
    return Begun(NOW_MS - minutes * 60_000, size_macc, job, f"s{minutes}")


def test_thirty_percent_of_what_a_team_holds_may_leave_within_ten_minutes() -> None:
    assert judge([ago(1), ago(2)]).begins
    held_up = judge([ago(1), ago(2), ago(3)])
    assert held_up == Verdict(
        begins=False,
        by_budget=True,
        held_up_by="disruption budget of team t1: 3000 of 3000 macc within 600 s",
    )
    assert judge([ago(1), ago(2), ago(10)]).begins


def test_one_job_may_always_leave_however_large_it_is() -> None:
    assert judge([], size_macc=10_000) == Verdict(begins=True)


def test_a_job_is_not_drained_twice_within_the_distance() -> None:
    held_up = judge([ago(9, job="j1")], held_macc=10**9)
    assert (held_up.begins, held_up.by_budget) == (False, False)
    assert "j1 was drained less than 600 s ago" in held_up.held_up_by
    assert judge([ago(10, job="j1")]).begins


def test_what_cannot_wait_begins_and_says_that_it_exceeds_the_budget() -> None:
    spent = [ago(1, 3_000)]
    assert judge(spent, may_wait=False) == Verdict(begins=True, beyond_budget=True)
    assert judge([], may_wait=False) == Verdict(begins=True)


def test_nothing_waits_longer_than_the_maximum_delay() -> None:
    spent = [ago(1, 3_000), ago(2, job="j1")]
    assert not judge(spent, waited_ms=TERMS.maximum_delay_ms - 1).begins
    assert judge(spent, waited_ms=TERMS.maximum_delay_ms) == Verdict(True, beyond_budget=True)


def test_a_small_job_does_not_pass_a_large_one_that_waits_for_the_budget() -> None:
    assert not judge([ago(1)], behind=True).begins
    assert judge([ago(1)], behind=True, may_wait=False).beyond_budget


@given(begun=begun_drains, size_macc=st.integers(1, 8_000), held_macc=st.integers(0, 40_000))
def test_whatever_begins_within_its_budget_stays_within_it(
    begun: list[Begun], size_macc: int, held_macc: int
) -> None:
    found = judge(begun, size_macc=size_macc, held_macc=held_macc)
    spent = spent_macc(begun, TERMS, NOW_MS)
    if found.begins and not found.beyond_budget:
        assert spent == 0 or (spent + size_macc) * 1_000_000 <= held_macc * TERMS.disruption_ppm
    assert found.begins or found.held_up_by


@given(begun=begun_drains, held_macc=st.integers(0, 40_000), more=st.integers(0, 40_000))
def test_more_time_and_more_holdings_never_hold_a_drain_up(
    begun: list[Begun], held_macc: int, more: int
) -> None:
    if judge(begun, held_macc=held_macc).begins:
        assert judge(begun, held_macc=held_macc + more).begins
        assert judge(begun, held_macc=held_macc, now_ms=NOW_MS + more).begins


@pytest.mark.parametrize("interval_ms", [5_000, 10_000, 30_000, 60_000])
def test_halving_the_step_leaves_drains_per_hour_unchanged(kit: Any, interval_ms: int) -> None:
    assert count_begun(kit, interval_ms) == count_begun(kit, 2 * interval_ms)


def count_begun(kit: Any, interval_ms: int) -> int:
    """How many drains begin in an hour, of a team that is asked to give up all of its 40 jobs."""
    bench = kit.bench(interval_ms=interval_ms)
    names = [f"l{number:02}" for number in range(40)]
    bench.step(
        kit.terms(maximum_delay_ms=36_000_000, disruption_ppm=100_000),
        kit.node("n1", 99),
        *kit.flat(kit.lease(name) for name in names),
    )
    written = bench.step(*(bench.vacate(name) for name in names))
    until_ms = bench.now_ms + 3_600_000
    count = list(written.told.values()).count("drain")
    while bench.now_ms + interval_ms < until_ms:
        count += list(bench.step().told.values()).count("drain")
    assert count == 24
    return count


def test_a_guardrail_that_counted_per_step_would_be_noticed(kit: Any) -> None:
    """The canary of the property above: with a window of one step, halving it does more damage."""

    def count(interval_ms: int) -> int:
        bench = kit.bench(interval_ms=interval_ms)
        names = [f"l{number:03}" for number in range(200)]
        bench.step(
            kit.terms(maximum_delay_ms=36_000_000, disruption_window_ms=interval_ms),
            kit.node("n1", 999),
            *kit.flat(kit.lease(name) for name in names),
        )
        written = bench.step(*(bench.vacate(name) for name in names))
        found = list(written.told.values()).count("drain")
        while bench.now_ms < kit.START_MS + 120_000:
            found += list(bench.step().told.values()).count("drain")
        return found

    assert count(30_000) != count(60_000)


def test_drains_of_a_team_begin_as_its_budget_allows_and_the_rest_waits(kit: Any) -> None:
    bench = kit.bench()
    names = [f"l{number}" for number in range(10)]
    bench.step(kit.node("n1", 99), *kit.flat(kit.lease(name) for name in names))
    written = bench.step(*(bench.vacate(name) for name in names[:5]))
    assert sorted(written.told) == ["l0/n1", "l1/n1", "l2/n1"]
    assert written.sessions["l3"].blockers == (
        "disruption budget of team t1: 3000 of 3000 macc within 600 s",
    )
    waiting = {
        lease: session.state
        for step in bench.steps(600_000)
        for lease, session in step.sessions.items()
        if lease in {"l3", "l4"}
    }
    assert set(waiting.values()) == {"pending"}
    written = bench.step()
    assert sorted(written.told) == ["l3/n1", "l4/n1"]


def test_the_budget_of_one_team_does_not_hold_up_another_one(kit: Any) -> None:
    """R14, as far as drains go: who cannot be reclaimed changes nothing for the others."""
    bench = kit.bench()
    mine = [f"a{number}" for number in range(4)]
    theirs = [f"b{number}" for number in range(4)]
    bench.step(
        kit.node("n1", 99),
        *kit.flat(kit.lease(name) for name in mine),
        *kit.flat(kit.lease(name, team="t2") for name in theirs),
    )
    written = bench.step(
        *(bench.vacate(name) for name in mine), *(bench.vacate(n, team="t2") for n in theirs)
    )
    assert sorted(written.told) == ["a0/n1", "b0/n1"]


@given(data=st.data())
def test_a_team_that_cannot_be_drained_changes_nothing_for_the_others(
    kit: Any, data: st.DataObject
) -> None:
    """R14 over random cases: the same drains of the others begin at the same steps."""
    asked = data.draw(st.lists(st.lists(st.sampled_from("abcdef")), min_size=1, max_size=6))
    theirs = data.draw(st.lists(st.sampled_from("uvw"), max_size=6))

    def play(*, with_theirs: bool) -> list[list[str]]:
        bench = kit.bench(interval_ms=60_000)
        mine = kit.flat(kit.lease(name) for name in "abcdef")
        others = kit.flat(kit.lease(n, team="t2", drainability="none") for n in "uvw")
        bench.step(kit.node("n1", 999), *mine, *(others if with_theirs else []))
        begun = []
        for number, names in enumerate(asked):
            vacates = [bench.vacate(name) for name in names]
            if with_theirs and number < len(theirs):
                vacates.append(bench.vacate(theirs[number], team="t2"))
            told = bench.step(*vacates).told
            begun.append(sorted(key for key in told if key[0] in "abcdef"))
        return begun

    assert play(with_theirs=True) == play(with_theirs=False)


def test_a_wait_that_is_too_long_ends_beyond_the_budget_and_says_so(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.terms(maximum_delay_ms=60_000), kit.node("n1"), *kit.lease("l0"), *kit.lease("l1")
    )
    bench.step(bench.vacate("l0"), bench.vacate("l1"))
    opened_ms = bench.now_ms
    while "l1/n1" not in (written := bench.step()).told:
        assert bench.now_ms < opened_ms + 120_000
    assert bench.now_ms == opened_ms + 60_000
    assert written.sessions["l1"].beyond_budget


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        *(("quota_lost", True), ("price_above_limit", True), ("pressure", True)),
        *(("low_use", True), ("maintenance", True), ("cancelled", False)),
        *(("device_withdrawn", False), ("left_queue", False), ("budget_exhausted", False)),
        *(("ordered", False), ("gang_broken", False)),
    ],
)
def test_only_what_can_wait_is_held_up(kit: Any, reason: str, waits: bool) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l0"), *kit.lease("l1"))
    bench.step(bench.vacate("l0"))
    written = bench.step(bench.vacate("l1", reason))
    assert written.sessions["l1"].beyond_budget is not waits
    assert (written.states["l1"] == "pending") is waits


def test_urgent_maintenance_and_broken_work_do_not_wait(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        *(kit.node("n1"), kit.node("n2"), kit.node("n3")),
        *kit.flat(kit.lease(f"l{number}", f"n{number}") for number in (1, 2, 3)),
    )
    bench.step(bench.vacate("l1"))
    written = bench.step(
        kit.node("n2", state="draining", urgent=True),
        bench.vacate("l2", "maintenance"),
        bench.lease_is("l3", "stuck", node="n3"),
        bench.vacate("l3"),
    )
    assert written.states == {"l2": "warned", "l3": "warned"}


def test_what_waits_begins_at_once_when_a_reason_comes_that_cannot_wait(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l0"), *kit.lease("l1"))
    bench.step(bench.vacate("l0"), bench.vacate("l1"))
    written = bench.step(bench.vacate("l1", "device_withdrawn"))
    assert written.told == {"l1/n1": "drain"}
    assert written.sessions["l1"].reason == "device_withdrawn"


def test_terms_count_from_when_they_take_effect(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"), kit.terms(warning_ms=20_000, terminate_ms=1))
    written = bench.step(bench.vacate("l1"))
    assert written.sessions["l1"].deadline_ms == bench.now_ms + 20_000 + 5_000 + 10_000
