"""Drain as a stage with the core of real agents, in market time: drain after drain of some jobs.

What the exhaustive check leaves out: several sessions of a lease, commands that take the place of
others, deadlines by the clock, restarts of drain from the log. At random, with the seed in the id.
"""

import random
from dataclasses import dataclass, field

import pytest

from services.drain.tests.conftest import Bench, Written, lease, lease_ends, node, terms
from tests.simulation.drains.real_agent import RULES
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommanded, DrainSessionChanged
from walras_contracts.work import DrainState, LeaseOutcome, LeaseState
from walras_drain.transitions import ENDED
from walras_node_agent.part_life import Happened, Life, TellDrain, TellLease
from walras_node_agent.part_table import Effect, PartEvent, PartState
from walras_node_agent.parts import accepted, advance, due, of_command
from walras_runtime.records import Output

GANG = ("n1", "n2")
STEPS = 200
QUIET_MS = 400_000
LONGEST_MS = 105_000
"""A drain with the terms by default, and five seconds."""


@dataclass
class Part:
    """A part of a lease on a node, with its agent."""

    name: str
    node: str
    life: Life
    words: list[Output] = field(default_factory=list)
    read: DrainCommanded | None = None

    def happen(self, world: "World", happened: Happened) -> None:
        before = self.life
        after, deeds = advance(before, happened, world.bench.now_ms, RULES)
        assert after is not None
        self.life = after
        for deed in deeds:
            if isinstance(deed, TellDrain):
                world.told(self, deed)
            elif isinstance(deed, TellLease) and deed.state is not LeaseState.ACCEPTED:
                self.words.append(world.bench.lease_is(self.name, deed.state.value, node=self.node))
            elif deed is Effect.TERMINATE and before.draining:
                assert before.drain is not None
                world.terminated.setdefault(before.drain.session, {})[self.node] = None


@dataclass
class World:
    """Drain, two nodes, a gang over both and a job of one part; placement asks at random."""

    seed: int
    crash: bool = False
    knows_gangs: bool = True
    chooser: random.Random = field(init=False)
    bench: Bench = field(init=False)
    parts: dict[str, Part] = field(init=False, default_factory=dict)
    standing: dict[str, DrainCommanded] = field(init=False, default_factory=dict)
    sessions: dict[str, DrainSessionChanged] = field(init=False, default_factory=dict)
    terminated: dict[str, dict[str, None]] = field(init=False, default_factory=dict)
    went_back: dict[str, dict[str, None]] = field(init=False, default_factory=dict)
    asked: dict[str, bool] = field(init=False, default_factory=dict)
    granted: int = field(init=False, default=0)
    outputs: list[Output] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.chooser = random.Random(self.seed)
        self.bench = Bench(crash=self.crash)
        self.outputs += [node(name) for name in GANG]
        self.outputs.append(terms(minimum_distance_ms=1, disruption_ppm=1_000_000))

    def chance(self, probability: float) -> bool:
        return self.chooser.random() < probability

    def told(self, part: Part, deed: TellDrain) -> None:
        if deed.state is DrainState.CANCELLED:
            self.went_back.setdefault(deed.session, {})[part.node] = None
        part.words.append(
            self.bench.says(
                part.name,
                deed.state.value,
                node=part.node,
                outcome=deed.outcome,
                session=deed.session,
            )
        )

    def names(self) -> list[str]:
        return sorted({part.name for part in self.parts.values()})

    def grant(self) -> None:
        """Give both jobs a lease again once all of their old one is free."""
        for nodes in (GANG, GANG[:1]):
            prefix = f"g{len(nodes)}-"
            if any(name.startswith(prefix) for name in self.names()):
                continue
            self.granted += 1
            name = f"{prefix}{self.granted}"
            self.outputs += lease(name, *nodes)
            for place in nodes:
                life, _ = accepted(
                    self.knows_gangs and len(nodes) > 1, self.chooser.choice(list(Drainability))
                )
                part = self.parts[f"{name}/{place}"] = Part(name, place, life)
                for event in (PartEvent.MAY_START, PartEvent.STARTED):
                    part.happen(self, Happened(event))

    def place(self) -> None:
        """Let placement ask for leases, and let them stay after all."""
        for name in self.names():
            last = [s for s in self.sessions.values() if s.lease == name]
            failed = any(s.state == "failed" for s in last)
            if not self.asked.get(name) and not failed and self.chance(0.08):
                self.outputs.append(self.bench.vacate(name, "device_withdrawn"))
                self.asked[name] = True
            elif self.asked.get(name) and self.chance(0.06):
                self.outputs.append(self.bench.stay(name))
                self.asked[name] = False

    def agents(self) -> None:
        """Let agents read, jobs answer or end, and time run out."""
        for key in sorted(self.parts):
            part = self.parts[key]
            if self.chance(0.02):
                found = self.chance(0.7) and not part.life.group_gone
                event = PartEvent.FOUND if found else PartEvent.LOST
                if part.life.state is not PartState.FREED and not part.life.group_gone:
                    part.happen(self, Happened(event, outcome=LeaseOutcome.VACATED))
                part.read = None
            if self.chance(0.6):
                self.read(part, self.standing.get(key))
            self.work(part)

    def read(self, part: Part, command: DrainCommanded | None) -> None:
        if command == part.read:
            return
        if command is not None:
            happened = of_command(part.life, command)
        else:
            assert part.read is not None
            happened = Happened(PartEvent.SESSION_ENDED, part.read.session)
        part.read = command
        if happened is not None:
            part.happen(self, happened)

    def work(self, part: Part) -> None:
        session = "" if part.life.drain is None else part.life.drain.session
        if part.life.state in {PartState.WARNED, PartState.CHECKPOINTING} and self.chance(0.1):
            part.happen(self, Happened(PartEvent.SAVED, session))
        ends = {PartState.KILLING: 0.9, PartState.TERMINATING: 0.3, PartState.WAITING: 0.05}
        runs = part.life.state not in {PartState.VERIFYING, PartState.FREED}
        runs = runs and not part.life.group_gone
        if runs and self.chance(ends.get(part.life.state, 0.002)):
            part.happen(self, Happened(PartEvent.GROUP_GONE, outcome=LeaseOutcome.VACATED))
        is_read = part.life.state in {PartState.VERIFYING, PartState.STUCK}
        if is_read and part.life.group_gone and self.chance(0.5):
            part.happen(self, Happened(PartEvent.DEVICE_FREE))
            part.happen(self, Happened(PartEvent.DEVICE_FREE))
        while (runs_out := due(part.life)) is not None and runs_out[0] <= self.bench.now_ms:
            part.happen(self, Happened(runs_out[1]))

    def step(self, *, places: bool) -> None:
        if places:
            self.grant()
            self.place()
        words = []
        for key in sorted(self.parts):
            part = self.parts[key]
            words += part.words
            part.words.clear()
        written = self.bench.step(*self.outputs, *words)
        self.outputs.clear()
        for key in [key for key, part in self.parts.items() if part.life.state is PartState.FREED]:
            name, _, place = key.partition("/")
            if not self.parts[key].words and self.chance(0.5):
                self.outputs += lease_ends(name, place)
                del self.parts[key]
                self.asked.pop(name, None) if name not in self.names() else None
        self.take(written)
        self.agents()

    def take(self, written: Written) -> None:
        for event in written.events:
            if isinstance(event, DrainCommanded):
                self.standing[event.record_key()] = event
            elif isinstance(event, DrainSessionChanged):
                self.sessions[event.session] = event
                if event.state in ENDED:
                    self.asked[event.lease] = False
        for topic, key in written.ended:
            if topic == "drain.commands":
                self.standing.pop(key, None)
        self.judge()

    def judge(self) -> None:
        for session in self.sessions.values():
            terminated = self.terminated.get(session.session, {})
            back = self.went_back.get(session.session, {})
            if session.state == "cancelled":
                assert not terminated, f"{session.lease} was cancelled, and {terminated} terminated"
            assert not (terminated and back), f"{session.lease}: {terminated} ended, {back} stayed"
            if session.state not in ENDED and session.deadline_ms is not None:
                assert self.bench.now_ms <= session.deadline_ms
                assert session.commanded_ms is not None
                assert self.bench.now_ms - session.commanded_ms < LONGEST_MS
            if session.state == "freed":
                for place in session.nodes:
                    part = self.parts.get(f"{session.lease}/{place}")
                    assert part is None or part.life.state is PartState.FREED


@pytest.mark.parametrize("crash", [False, True], ids=["whole", "crashing"])
@pytest.mark.parametrize("number", range(5))
def test_drains_of_the_same_jobs_follow_each_other_without_a_broken_promise(
    number: int, crash: bool, global_random_seed: int
) -> None:
    world = World(global_random_seed * 100 + number, crash)
    for _ in range(STEPS):
        world.step(places=True)
    quiet_ms = world.bench.now_ms + QUIET_MS
    while world.bench.now_ms < quiet_ms:
        world.step(places=False)
    states: dict[str, int] = {}
    for session in world.sessions.values():
        states[session.state.value] = states.get(session.state.value, 0) + 1
    print(f"seed {world.seed}: {dict(sorted(states.items()))}")
    assert set(states) <= {state.value for state in ENDED}
    assert sum(states.values()) >= 5
    for part in world.parts.values():
        assert part.life.state is not PartState.CANCELLING, f"{part.name} holds still for ever"


def test_agents_that_know_no_gangs_would_be_noticed() -> None:
    """The canary: parts that go back by themselves leave a gang half, sooner or later."""

    def play() -> None:
        for seed in range(100):
            world = World(seed, knows_gangs=False)
            for _ in range(STEPS):
                world.step(places=True)

    with pytest.raises(AssertionError, match="stayed"):
        play()
