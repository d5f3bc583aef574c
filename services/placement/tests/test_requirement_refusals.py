"""R13: a job that waits is told why, what it needs, what there is, by how much it is short, when.

R7: position, limiting reason and prices are read from it and from the queue by `walras jobs`.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from services.placement.tests.town import Town
from walras_contracts.money import BudgetPublished, StopReason
from walras_contracts.registry import decode_inner
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import JobState, JobStatusChanged
from walras_runtime.records import Output, emit

SEEDS = range(6)
STEPS = 90


def exhausted(team: str) -> Output:
    return emit(
        BudgetPublished(
            team=team,
            pool="p",
            boundary_ms=0,
            at_ms=0,
            exhausted=True,
            reason=StopReason.WALLET,
            budgets=(),
        )
    )


def no_such_type(kit: Any, bench: Any) -> list[Output]:
    return [kit.node("n1", 4), bench.job("j", 3, types=("b",))]


def exceeds_supply(kit: Any, bench: Any) -> list[Output]:
    return [kit.node("n1", 4), bench.job("j", 9)]


def price_above_limit(kit: Any, bench: Any) -> list[Output]:
    return [kit.node("n1", 4), kit.quota("t1", a=(0, 0, 8)), bench.job("j", 3, limit=7)]


def waiting_for_quota(kit: Any, bench: Any) -> list[Output]:
    return [kit.node("n1", 4), kit.quota("t1", a=(2, 0, 5)), bench.job("j", 3)]


def waiting_for_devices(kit: Any, bench: Any) -> list[Output]:
    bench.step(kit.node("n1", 4), kit.quota("t2", a=(3, 0, 5)), bench.job("other", 3, team="t2"))
    return [kit.quota("t1", a=(3, 0, 5)), bench.job("j", 3)]


def topology(kit: Any, bench: Any) -> list[Output]:
    bench.step(
        *(kit.node(f"n{number}", 4, domain=f"rack{number}") for number in range(4)),
        kit.quota("t2", a=(12, 0, 5)),
        *(bench.job(f"other-{number}", 3, team="t2") for number in range(4)),
    )
    return [kit.quota("t1", a=(4, 0, 5)), bench.job("j", 4)]


def budget_exhausted(kit: Any, bench: Any) -> list[Output]:
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(2, 0, 5)), exhausted("t1"))
    bench.step()
    return [bench.job("j", 3)]


REFUSED: dict[WaitReason, tuple[Callable[[Any, Any], list[Output]], int, int]] = {
    WaitReason.NO_SUCH_TYPE: (no_such_type, 3000, 0),
    WaitReason.EXCEEDS_SUPPLY: (exceeds_supply, 9000, 4000),
    WaitReason.PRICE_ABOVE_LIMIT: (price_above_limit, 3000, 0),
    WaitReason.WAITING_FOR_QUOTA: (waiting_for_quota, 3000, 2000),
    WaitReason.WAITING_FOR_DEVICES: (waiting_for_devices, 3000, 1000),
    WaitReason.BUDGET_EXHAUSTED: (budget_exhausted, 3000, 0),
}
"""What is given, then what the job needs, and what there is of it."""


@pytest.mark.parametrize("crash", [False, True], ids=["calm", "crashing"])
@pytest.mark.parametrize("reason", list(REFUSED), ids=str)
def test_a_refusal_carries_reason_needed_available_short_by_and_cycle(
    kit: Any, reason: WaitReason, crash: bool
) -> None:
    given, needed_macc, available_macc = REFUSED[reason]
    bench = kit.bench(crash=crash, cycle_every=1)
    bench.step()
    status = said_after(bench, given(kit, bench))
    assert (status.reason, status.needed_macc) == (reason, needed_macc)
    assert status.available_macc == available_macc
    assert status.short_by_macc == needed_macc - available_macc
    assert status.cycle == bench._number > 0


def said_after(bench: Any, given: list[Output]) -> JobStatusChanged:
    bench.step(*given)
    status = bench.statuses["j"]
    assert isinstance(status, JobStatusChanged)
    assert status.state is JobState.PENDING
    return status


def test_a_gang_that_finds_devices_but_not_together_is_told_so(kit: Any) -> None:
    bench = kit.bench()
    status = said_after(bench, topology(kit, bench))
    assert (status.reason, status.needed_macc) == (WaitReason.TOPOLOGY, 4000)
    assert (status.available_macc, status.short_by_macc) == (4000, 0), "but not on one node"
    assert status.cycle == bench._number


def test_a_job_that_is_held_back_or_parked_is_told_since_which_cycle(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j", 1))
    for _ in range(3):
        bench.step(*bench.freed("j", "start_failed", 5))
    parked = bench.statuses["j"]
    assert (parked.reason, parked.cycle) == (WaitReason.PARKED, bench._number)

    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j", 1))
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    bench.step(*bench.freed("j", "vacated", 5))
    held = bench.statuses["j"]
    assert (held.reason, held.cycle) == (WaitReason.HELD_BACK, bench._number)


def test_every_reason_is_shown_above() -> None:
    elsewhere = {WaitReason.TOPOLOGY, WaitReason.PARKED, WaitReason.HELD_BACK}
    assert REFUSED.keys() | elsewhere == set(WaitReason)


def test_the_cycle_is_that_of_the_quotas_where_several_barriers_are_one(kit: Any) -> None:
    bench = kit.bench(cycle_every=6)
    for _ in range(8):
        bench.step()
    status = said_after(bench, waiting_for_quota(kit, bench))
    assert (bench._number, status.cycle) == (8, 1)


def test_a_job_that_runs_names_no_cycle_any_more(kit: Any) -> None:
    bench = kit.bench()
    said_after(bench, waiting_for_quota(kit, bench))
    bench.step(kit.quota("t1", a=(3, 0, 5)))
    status = bench.statuses["j"]
    assert (status.state, status.cycle) == (JobState.RUNNING, None)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_who_waits_is_told_all_of_it(kit: Any, seed: int) -> None:
    """In random histories each word of a waiting job is whole, and of the cycle it is said in."""
    bench = kit.bench()
    town = Town(bench, seed)
    read: dict[int, int] = {}
    told = 0
    for number in count():
        town.step(first=number == 0)
        for partition in bench.log.partitions("job.status"):
            for entry in bench.log.read("job.status", partition, read.get(partition, 0)):
                read[partition] = entry.offset + 1
                if entry.barrier is not None or entry.payload is None:
                    continue
                status = decode_inner(entry.type, entry.payload)
                assert isinstance(status, JobStatusChanged)
                if status.state is not JobState.PENDING:
                    assert status.cycle is None, status
                    continue
                told += 1
                assert status.reason in set(WaitReason), status
                assert status.needed_macc > 0, status
                assert status.cycle is not None, status
                assert status.cycle <= number, status
                if status.changed_ms == bench.now_ms:
                    assert status.cycle == number, status
        if number == STEPS:
            break
    assert told > STEPS // 3
