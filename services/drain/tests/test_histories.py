"""Random histories: a crash changes nothing, no notice is issued twice, no lease has two drains."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from walras_contracts.drains import DrainCommanded, DrainSessionChanged
from walras_contracts.topics import load_topics
from walras_contracts.work import DrainState, WorkClass
from walras_drain.transitions import ENDED
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

NODES = ("n1", "n2", "n3")
REASONS = ("quota_lost", "device_withdrawn", "maintenance", "ordered", "pressure")
STEPS = 70


@dataclass
class History:
    """What happens to drain, at random: the same seed gives the same, whatever drain does.

    Nodes are small, so that the market is pressed and not, and intervals may be hours, in which
    sessions are forgotten.
    Words of agents name the drains that a bench has seen, so it is asked for them.
    """

    seed: int
    kit: Any
    chooser: random.Random = field(init=False)
    leases: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)
    orders: int = field(init=False, default=0)
    granted: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.chooser = random.Random(self.seed)

    def interval_ms(self) -> int | None:
        long_ms = [60_000, 900_000, 4_000_000]
        return self.chooser.choice(long_ms) if self.chooser.random() < 0.05 else None

    def step(self, bench: Any) -> list[Output]:
        found: list[Output] = []
        if bench.number < 0:
            found += [self.kit.node(node, 2) for node in NODES]
            found.append(self.kit.terms(minimum_distance_ms=40_000, maximum_delay_ms=60_000))
        for _ in range(self.chooser.randint(0, 4)):
            found += self.happens(bench)
        return found

    def happens(self, bench: Any) -> list[Output]:
        kind = self.chooser.choices(
            ("grant", "vacate", "stay", "says", "lease", "end", "node", "order", "health"),
            weights=(3, 6, 3, 12, 3, 1, 1, 1, 2),
        )[0]
        if kind == "grant" or not self.leases:
            return self.grant()
        lease = self.chooser.choice(sorted(self.leases))
        node = self.chooser.choice(self.leases[lease])
        if kind in {"says", "lease", "health"}:
            return self.agent(bench, kind, lease, node)
        if kind == "vacate":
            return [bench.vacate(lease, self.chooser.choice(REASONS))]
        if kind == "stay":
            return [bench.stay(lease)]
        if kind == "end":
            return list(self.kit.lease_ends(lease, *self.leases.pop(lease)))
        return self.operator(bench, kind, lease)

    def agent(self, bench: Any, kind: str, lease: str, node: str) -> list[Output]:
        if kind == "lease":
            state = self.chooser.choice(["running", "stuck", "freed"])
            return [bench.lease_is(lease, state, node=node)]
        state = self.chooser.choice([s.value for s in DrainState])
        outcome = self.chooser.choice(["", "", "", "cancel_rejected", "forced"])
        if kind == "says" and lease in bench.session_of:
            return [bench.says(lease, state, node=node, outcome=outcome)]
        busy = {name: self.chooser.choice([0, 900_000]) for name in sorted(self.leases)}
        return [bench.health(node, **busy)]

    def operator(self, bench: Any, kind: str, lease: str) -> list[Output]:
        if kind == "order":
            self.orders += 1
            return [bench.order(self.orders, lease, cancel=self.chooser.random() < 0.3)]
        state = self.chooser.choice(["active", "active", "draining", "off"])
        lost, urgent = self.chooser.random() < 0.3, self.chooser.random() < 0.3
        which = self.chooser.choice(NODES)
        return [self.kit.node(which, 2, state=state, lost=lost, urgent=urgent, within_ms=60_000)]

    def grant(self) -> list[Output]:
        self.granted += 1
        name = f"l{self.granted}"
        nodes = tuple(sorted(self.chooser.sample(NODES, self.chooser.choice([1, 1, 2]))))
        self.leases[name] = nodes
        return list(
            self.kit.lease(
                name,
                *nodes,
                team=self.chooser.choice(["t1", "t1", "t2"]),
                work_class=self.chooser.choice([WorkClass.MARKET, WorkClass.OPPORTUNISTIC]),
                drainability=self.chooser.choice(["none", "restart", "checkpoint"]),
            )
        )


@pytest.mark.parametrize("number", range(12))
def test_a_crash_before_every_step_changes_nothing_even_after_compaction(
    kit: Any, number: int, global_random_seed: int
) -> None:
    seed = global_random_seed * 100 + number
    whole, crashing = kit.bench(), kit.bench(crash=True)
    one, other = History(seed, kit), History(seed, kit)
    for step in range(STEPS):
        first = whole.step(*one.step(whole), after_ms=one.interval_ms())
        second = crashing.step(*other.step(crashing), after_ms=other.interval_ms())
        assert first.events == second.events, f"step {step}"
        assert first.ended == second.ended, f"step {step}"
        if step % 20 == 19:
            for topic in load_topics().values():
                if topic.cleanup == "compact":
                    crashing.log.compact(topic.name)
    assert state_digest_input(whole.log, "drain") == state_digest_input(crashing.log, "drain")


@pytest.mark.parametrize("number", range(25))
def test_no_notice_is_issued_twice_and_no_lease_has_two_open_drains(
    kit: Any, number: int, global_random_seed: int
) -> None:
    seed = global_random_seed * 1000 + number
    bench, history = kit.bench(), History(seed, kit)
    open_sessions: dict[str, str] = {}
    ended: dict[str, str] = {}
    standing: dict[str, DrainCommanded] = {}
    for _ in range(STEPS):
        written = bench.step(*history.step(bench), after_ms=history.interval_ms())
        changed = [e for e in written.events if isinstance(e, DrainSessionChanged)]
        for session in sorted(changed, key=lambda e: e.state not in ENDED):
            assert ended.get(session.session, session.state) == session.state
            if session.state in ENDED:
                ended[session.session] = session.state
                if open_sessions.get(session.lease) == session.session:
                    del open_sessions[session.lease]
            else:
                assert open_sessions.setdefault(session.lease, session.session) == session.session
                assert session.deadline_ms is None or session.deadline_ms >= bench.now_ms
        standing.update({e.record_key(): e for e in written.of(DrainCommanded)})
        for topic, key in written.ended:
            if topic == "drain.commands":
                del standing[key]
        for command in standing.values():
            # What was accepted as cancelled is never told to drain or to go on.
            if ended.get(command.session) == "cancelled":
                assert command.command in {"cancel", "confirm"}
    assert len(bench.notified) == len(set(bench.notified))


def test_state_that_is_lost_in_a_crash_would_be_noticed(kit: Any) -> None:
    """The canary: a process that forgets one of its records decides otherwise."""
    whole, crashing = kit.bench(), kit.bench(crash=True)
    differs = False
    one, other = History(7, kit), History(7, kit)
    for step in range(STEPS):
        first = whole.step(*one.step(whole), after_ms=one.interval_ms())
        second = crashing.step(*other.step(crashing), after_ms=other.interval_ms())
        differs = differs or first.events != second.events
        if step % 10 == 9:
            for partition in crashing.log.partitions("state.drain"):
                held = crashing.log.entries[("state.drain", partition)]
                held[:] = [entry for entry in held if not entry.key.startswith("session/")]
    assert differs
