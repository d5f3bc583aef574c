"""What placement does with a team that may not spend any more."""

from typing import Any

import pytest

from walras_contracts.drains import VacateReason
from walras_contracts.money import BudgetPublished, StopReason
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output, emit

GRACE_STEPS = 5
"""The default grace is five minutes, a step is one."""


def told(team: str, exhausted: bool, minute: int = 0) -> Output:
    """Return a budget; placement sees it one step later."""
    return emit(
        BudgetPublished(
            team=team,
            pool="p",
            boundary_ms=0,
            at_ms=minute * 60_000,
            exhausted=exhausted,
            reason=StopReason.HOUR if exhausted else StopReason.NONE,
            budgets=(),
        )
    )


def test_an_exhausted_team_starts_nothing_that_costs_anything_and_says_so(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 8), told("t1", True))
    written = bench.step(
        kit.quota("t1", a=(2, 1, 5)),
        kit.quota("t2", a=(2, 0, 5)),
        bench.job("j1", 1),
        bench.job("j2", 1),
        bench.job("other", 1, team="t2"),
    )

    # The first in the queue takes what nobody bought; the second has no room but bought quota.
    assert sorted(kit.granted(written)) == ["j1", "other"]
    assert bench.statuses["j1"].work_class is WorkClass.OPPORTUNISTIC
    assert bench.statuses["j2"].reason == WaitReason.BUDGET_EXHAUSTED
    assert bench.statuses["other"].work_class is WorkClass.MARKET


def test_quota_of_price_0_is_used_by_an_exhausted_team_as_by_any_other(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 8), kit.node("n2", 8, "b"), told("t1", True))
    bench.step(
        kit.quota("t1", a=(2, 0, 0), b=(2, 0, 1)),
        bench.job("free", 2),
        bench.job("paid", 2, types=("b",)),
    )
    for _ in range(GRACE_STEPS + 1):
        bench.step()

    assert bench.states() == {"free": "running", "paid": "pending"}
    assert bench.statuses["free"].work_class is WorkClass.MARKET


def test_what_runs_for_money_stays_for_the_grace_and_is_then_asked_to_leave_once(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 8), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(told("t1", True))
    asked = [kit.vacates(bench.step()) for _ in range(GRACE_STEPS + 3)]

    assert asked[GRACE_STEPS] == {"j1": VacateReason.BUDGET_EXHAUSTED}
    assert asked.count({}) == len(asked) - 1


def test_being_told_again_at_a_settlement_does_not_begin_the_grace_anew(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 8), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(told("t1", True))
    bench.step()
    bench.step(told("t1", True, minute=2))
    asked = [kit.vacates(bench.step()) for _ in range(GRACE_STEPS - 1)]

    assert asked == [{}] * (GRACE_STEPS - 2) + [{"j1": VacateReason.BUDGET_EXHAUSTED}]


def test_a_grant_within_the_grace_is_as_if_nothing_had_been(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 8), kit.quota("t1", a=(3, 0, 5)), bench.job("j1", 2))
    bench.step(told("t1", True))
    bench.step(bench.job("j2", 1))
    assert bench.statuses["j2"].reason == WaitReason.BUDGET_EXHAUSTED
    bench.step(told("t1", False))
    assert kit.granted(bench.step()) == ["j2"], "one step after it was told"
    bench.step(told("t1", True))
    asked = [kit.vacates(bench.step()) for _ in range(GRACE_STEPS)]

    assert asked == [{}] * GRACE_STEPS


def test_after_the_grace_work_goes_on_for_nothing_where_nobody_bought_the_room(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 8),
        kit.quota("t1", a=(2, 1, 5)),
        bench.job("j1", 1),
        bench.job("j2", 1),
    )
    bench.step(told("t1", True))
    asked = [kit.vacates(bench.step()) for _ in range(GRACE_STEPS + 2)]

    gone = {"j2": VacateReason.BUDGET_EXHAUSTED}
    assert [given for given in asked if given] == [gone]
    assert bench.statuses["j1"].work_class is WorkClass.OPPORTUNISTIC


def test_opportunistic_work_of_an_exhausted_team_is_not_promoted_to_what_costs(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 8), kit.quota("t1", a=(0, 1, 5)), bench.job("j1", 1))
    bench.step(told("t1", True))
    classes = []
    for outputs in ([kit.quota("t1", a=(1, 1, 5))], [told("t1", False)], []):
        bench.step(*outputs)
        classes.append(bench.statuses["j1"].work_class)

    assert classes == [WorkClass.OPPORTUNISTIC, WorkClass.OPPORTUNISTIC, WorkClass.MARKET]


@pytest.mark.parametrize("left", [{"a": (0, 0, 5)}, {"a": (0, 0, 0)}, {}])
def test_quota_that_is_gone_within_the_grace_takes_the_lease_with_it(
    kit: Any, left: dict[str, tuple[int, int, int]]
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 8), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(told("t1", True))
    bench.step()

    asked = kit.vacates(bench.step(kit.quota("t1", **left)))
    assert asked == {"j1": VacateReason.BUDGET_EXHAUSTED}


def course(kit: Any, *, crash: bool) -> Any:
    bench = kit.bench(crash=crash)
    bench.step(kit.node("n1", 8), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(told("t1", True))
    bench.step(told("t1", True, minute=2))
    bench.step(told("t2", True))
    bench.step(told("t2", False))
    for _ in range(GRACE_STEPS):
        bench.step()
    return bench


def test_a_crash_before_every_step_forgets_no_grace(kit: Any) -> None:
    whole, crashed = course(kit, crash=False), course(kit, crash=True)

    assert whole.states() == {"j1": "draining"}
    assert crashed.log.entries == whole.log.entries
    own = {key for key in state_digest_input(whole.log, "placement") if "~exhausted" in key}
    assert own == {"0/~exhausted/t1"}


def test_a_build_that_forgets_when_it_was_told_is_noticed(kit: Any) -> None:
    """The canary: the comparison above is able to fail."""
    forgetful, whole = kit.bench(), course(kit, crash=False)
    forgetful.step(kit.node("n1", 8), kit.quota("t1", a=(2, 0, 5)), forgetful.job("j1", 2))
    forgetful.step(told("t1", True))
    for _ in range(GRACE_STEPS + 3):
        forgetful.forget_exhausted()
        forgetful.step(told("t1", True))

    assert forgetful.states() != whole.states()
