"""R3: what runs on supply, quota or a pool that was taken away counts until it is gone.

After the removal what runs fits what there is, or nothing is let in on top.
"""

import random
from typing import Any

import pytest

from walras_contracts.accounts import AccountsChanged, PoolDocument
from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.market import QuotaGranted
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import LeaseGranted
from walras_runtime.records import Output, emit, tombstone

SEEDS = range(8)
STEPS = 80
MACC = 1_000


class Held:
    """What is held and what is present, by the log: an account of its own."""

    def __init__(self) -> None:
        self.macc: dict[str, int] = {}
        self.nodes: dict[str, int] = {}

    def take(self, written: list[Any]) -> int:
        """Take what a step wrote, in its order; return how much was newly given."""
        given = 0
        for each in written:
            if isinstance(each, LeaseGranted):
                if each.record_key() not in self.macc:
                    given += each.size_macc
                self.macc[each.record_key()] = each.size_macc
            elif isinstance(each, Output) and each.topic == LeaseGranted.TOPIC:
                self.macc.pop(each.key, None)
        return given

    @property
    def held_macc(self) -> int:
        return sum(self.macc.values())

    @property
    def present_macc(self) -> int:
        return MACC * sum(self.nodes.values())


def crowd(bench: Any, kit: Any) -> None:
    """Two jobs of four devices on two nodes, which fill them."""
    bench.step(
        kit.node("n1", 4),
        kit.node("n2", 4),
        kit.quota("A", a=(8, 0, 5)),
        bench.job("a1", 4, team="A"),
        bench.job("a2", 4, team="A"),
    )


@pytest.mark.parametrize("crash", [False, True], ids=["calm", "crashing"])
@pytest.mark.parametrize("how", ["ended", "gone", "withheld"])
def test_after_a_type_is_removed_and_comes_back_smaller_nothing_is_let_in_on_top(
    kit: Any, how: str, crash: bool
) -> None:
    bench = kit.bench(crash=crash)
    crowd(bench, kit)
    for name in ("n1", "n2"):
        if how == "ended":
            gone = tombstone(NodePublished, name, name)
        else:
            gone = kit.node(name, 4, state=NodeState(how))
        bench.step(gone)
    written = bench.step(
        kit.node("n3", 4),
        kit.quota("A", a=(0, 0, 5)),
        kit.quota("B", a=(4, 0, 5)),
        bench.job("b1", 4, team="B"),
    )
    assert kit.granted(written) == [], "eight run where four are"
    assert bench.statuses["b1"].reason == WaitReason.WAITING_FOR_DEVICES
    assert kit.granted(bench.step(*bench.freed("a1", "vacated", 5))) == [], "four where four are"
    assert kit.granted(bench.step(*bench.freed("a2", "vacated", 5))) == ["b1"]


@pytest.mark.parametrize("crash", [False, True], ids=["calm", "crashing"])
def test_the_use_of_a_pool_that_was_removed_counts_until_it_is_drained(
    kit: Any, crash: bool
) -> None:
    bench = kit.bench(crash=crash)
    crowd(bench, kit)
    empty = PoolDocument(pool="p", weight_micro_per_hour=0, teams=())
    written = bench.step(
        emit(AccountsChanged(version=2, effective_ms=0, document=empty)),
        tombstone(QuotaGranted, "A", "A"),
        kit.quota("B", a=(8, 0, 5)),
        bench.job("b1", 8, team="B", pool="q", gang=False),
        bench.job("b2", 1, team="B", pool="q"),
    )
    assert sorted(kit.vacates(written)) == ["a1", "a2"]
    assert kit.granted(written) == []
    held = {job: bench.state.jobs[f"A/{job}"].held_lease().size_macc for job in ("a1", "a2")}
    assert held == {"a1": 4000, "a2": 4000}, "leaving is not gone"
    assert kit.granted(bench.step()) == []
    bench.step(*bench.freed("a1", "vacated", 5))
    assert bench.states()["b1"] == "pending"
    bench.step(*bench.freed("a2", "vacated", 5))
    assert bench.states()["b1"] == "running"


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_taken_away_what_runs_fits_or_nothing_starts(kit: Any, seed: int) -> None:
    """Nodes, quotas and jobs come and go; agents free what must leave some steps later."""
    draw = random.Random(seed)
    bench, held = kit.bench(), Held()
    started = crowded = 0
    for number in range(STEPS):
        given: list[Output] = []
        name = f"n{draw.randrange(5)}"
        if draw.random() < 0.5:
            if held.nodes.pop(name, 0) == 0:
                held.nodes[name] = draw.randint(1, 4)
                given.append(kit.node(name, held.nodes[name]))
            else:
                given.append(tombstone(NodePublished, name, name))
        team = draw.choice("ABC")
        if draw.random() < 0.6:
            given.append(kit.quota(team, a=(draw.randint(0, 8), draw.randint(0, 2), 5)))
        else:
            given.append(tombstone(QuotaGranted, team, team))
        given.append(bench.job(f"j{number}", draw.randint(1, 4), team=team))
        for job in sorted(bench.leases):
            if bench.states()[job] == "draining" and draw.random() < 0.3:
                given += bench.freed(job, "vacated", 5)
            elif bench.states()[job] == "running" and draw.random() < 0.1:
                given += bench.freed(job)
        new_macc = held.take(bench.step(*given))
        started += new_macc
        if new_macc:
            assert held.held_macc <= held.present_macc, f"seed {seed}, step {number}"
        crowded += held.held_macc > held.present_macc
    assert started > 20 * MACC, "the histories start something"
    assert crowded, "and take away what is in use"
