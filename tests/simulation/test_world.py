"""The whole market on the log in memory: crashes, compaction, order and layout change nothing."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.billing.tests.charge_audit import faults
from tests.simulation import money
from tests.simulation.world import Trouble, World
from walras.audit.auditing import audit
from walras.scenario import load_scenario
from walras.trace import Replay, load_window
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import state_digest_input

SCENARIO = Path(__file__).parents[2] / "scenarios" / "itp_week.toml"
STEPS = 40
SERVICES = (
    *("intake", "capacity", "clearing", "placement", "drain", "node_agent", "billing"),
    "invoicing",
)


@pytest.fixture(scope="module")
def replay() -> Replay:
    return load_window(load_scenario(SCENARIO), 1, 1)


@pytest.fixture(scope="module")
def plain(replay: Replay) -> World:
    """Return the world in which nothing is disturbed."""
    world = World()
    for _ in first(world.replay(replay)):
        pass
    return world


def first(steps: Iterator[int]) -> Iterator[int]:
    """Yield the first steps only."""
    for number in steps:
        yield number
        if number == STEPS:
            return


def decisions(world: World) -> set[tuple[str, Any]]:
    """Return what was decided, without where it stands on the log."""
    return {
        (topic, entry.payload)
        for topic in ("prices", "quotas")
        for partition in world.log.partitions(topic)
        for entry in world.log.read(topic, partition, 0)
        if entry.barrier is None
    }


def latest(world: World, topic: str) -> dict[str, bytes | None]:
    """Return the last payload of every key."""
    return {
        entry.key: entry.payload
        for partition in world.log.partitions(topic)
        for entry in world.log.read(topic, partition, 0)
        if entry.barrier is None
    }


@pytest.mark.parametrize("seed", range(3))
def test_crashes_between_any_two_moves_in_any_order_change_no_decision(
    replay: Replay, plain: World, seed: int
) -> None:
    world = World(random.Random(seed), trouble=Trouble(crash=0.08))
    for _ in first(world.replay(replay)):
        pass
    assert world.crashes > STEPS / 2
    assert world.digests() == plain.digests()
    for service in SERVICES:
        assert state_digest_input(world.log, service) == state_digest_input(plain.log, service)


@pytest.mark.parametrize("seed", range(2))
def test_compaction_and_crashes_between_any_two_moves_change_no_decision(
    replay: Replay, plain: World, seed: int
) -> None:
    world = World(random.Random(seed), trouble=Trouble(crash=0.06, compact=0.3))
    for _ in first(world.replay(replay)):
        pass
    assert world.crashes > STEPS / 4
    assert world.compacted > 1000
    same = {topic: digest for topic, digest in world.digests().items() if topic != "quotas"}
    assert same.items() <= plain.digests().items()
    # Of the quotas, which are compacted, the latest of every team is left at least.
    assert decisions(world) <= decisions(plain)
    assert latest(world, "quotas") == latest(plain, "quotas")
    for service in SERVICES:
        assert state_digest_input(world.log, service) == state_digest_input(plain.log, service)


def test_compaction_of_every_topic_and_a_rebuild_from_the_log_change_no_decision(
    replay: Replay, plain: World
) -> None:
    world = World()
    for number in first(world.replay(replay)):
        if number % 10 == 9:
            world.compact()
            for name in sorted(world.runners):
                world.crash(name)
    assert decisions(world) <= decisions(plain)
    prices = {p for t, p in decisions(plain) if t == "prices"}
    assert {p for t, p in decisions(world) if t == "prices"} == prices
    for service in SERVICES:
        assert state_digest_input(world.log, service) == state_digest_input(plain.log, service)


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_partition_count_changes_no_decision(
    replay: Replay, plain: World, partitions: int
) -> None:
    world = World(None, partitions)
    for _ in first(world.replay(replay)):
        pass
    assert decisions(world) == decisions(plain)


def test_a_forgotten_state_change_is_noticed(replay: Replay, plain: World) -> None:
    """The canary: a clearing stage that loses its last prices when it crashes decides otherwise."""
    world = World()
    for number in first(world.replay(replay)):
        if number == STEPS // 2:
            state: Any = world.runners["clearing/0"].stage
            state.state.last.clear()
    assert world.digests() != plain.digests()


def test_a_compaction_that_keeps_the_wrong_record_of_a_key_is_noticed(
    replay: Replay, plain: World
) -> None:
    """The canary: a cleaner that keeps the first record of a key instead of the last."""

    class Wrong(World):
        def compact_what_was_read(self, name: str) -> None:
            for partition in self.log.partitions(name):
                held = self.log.entries.get((name, partition), [])
                kept = {entry.key: entry for entry in reversed(held)}
                self.log.entries[name, partition] = [e for e in held if kept[e.key] is e]

    def run(world: World) -> None:
        for _ in first(world.replay(replay)):
            assert decisions(world) <= decisions(plain)

    with pytest.raises((InvariantBrokenError, AssertionError)):
        run(Wrong(random.Random(0), trouble=Trouble(crash=0.06, compact=0.3)))


def test_money_is_conserved(plain: World) -> None:
    counted = money.count(plain.log)
    money.check(counted)
    assert len(counted.balances) == 25
    assert len(counted.minted) == 10
    assert sum(counted.spent.values()) > 0


def test_every_charge_line_is_what_an_independent_audit_says(plain: World) -> None:
    assert faults(plain.log) == []


def test_the_whole_market_passes_the_audit_of_its_money(plain: World) -> None:
    """Usage to charges to ledger to wallets to invoices, recomputed by `walras audit`."""
    report = audit(plain.log)
    assert report.differences == []
    assert not report.found
    assert len(money.documents(plain.log, "charges")) > 100
    assert money.documents(plain.log, "usage.quarantined") == []


def tampered(log: MemoryLog, topic: str, change: Callable[[dict[str, Any]], bool]) -> MemoryLog:
    """Return a copy of a log in which the last record that ``change`` accepts is changed."""
    entries = {where: list(held) for where, held in log.entries.items()}
    for partition in log.partitions(topic):
        held = entries.get((topic, partition), [])
        for index in reversed(range(len(held))):
            payload = held[index].payload
            if held[index].barrier is None and payload is not None:
                document = json.loads(payload)
                if change(document):
                    held[index] = replace(held[index], payload=json.dumps(document).encode())
                    return MemoryLog(log.topics, entries)
    raise AssertionError(f"nothing to change in {topic}")


def settled_use(use: dict[str, Any], factor: int) -> bool:
    """Double a charged interval of the first half hour; it was settled long ago."""
    late = use["start_ms"] % 3_600_000 > 1_200_000
    if late or use["work_class"] != "market" or use["limit_micro"] == 0:
        return False
    use["quantity_macc"] *= factor
    return True


def settled_line(line: dict[str, Any]) -> bool:
    """Add one part in 3.6·10¹⁵ of a tick to a charge of the first half hour."""
    if line["start_ms"] % 3_600_000 > 1_200_000 or line["price_micro"] == 0:
        return False
    line["amount_numerator"] = str(int(line["amount_numerator"]) + 1)
    return True


def more(document: dict[str, Any], *path: str) -> bool:
    """Add one tick, or one part in a thousand of something large."""
    *parents, last = path
    for name in parents:
        document = document[name]
    document[last] += max(1, document[last] // 1000)
    return True


@pytest.mark.parametrize(
    ("topic", "change", "what"),
    [
        ("usage", lambda use: settled_use(use, 2), "charged"),
        ("charges", settled_line, "charged"),
        ("balances", lambda balance: more(balance, "spent_micro"), "spent"),
        ("balances", lambda balance: more(balance, "earned_micro"), "earned"),
        ("balances", lambda balance: more(balance, "wallet_micro"), "wallet"),
        ("balances", lambda balance: more(balance, "expired_micro"), "expired"),
        ("accounts", lambda change: more(change, "document", "weight_micro_per_hour"), "earned"),
    ],
    ids=["usage", "charge", "spent", "earned", "wallet", "expired", "weight"],
)
def test_money_that_is_not_conserved_is_noticed(
    plain: World, topic: str, change: Callable[[dict[str, Any]], bool], what: str
) -> None:
    with pytest.raises(AssertionError, match=what):
        money.check(money.count(tampered(plain.log, topic, change)))
