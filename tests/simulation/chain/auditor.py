"""An auditor that follows the chain's log and refuses what must never be.

It shares no code with the services; charge lines are audited as billing's own tests do.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from services.billing.tests.charge_audit import faults
from tests.simulation.chain.scenario import Scenario
from tests.simulation.chain.world import MINUTE_MS, START_MS, Restart, World, decoded
from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.demand import Drainability
from walras_contracts.drains import VacateReason, VacateRequested, VacateWithdrawn
from walras_contracts.event import Event
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    JobState,
    JobStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
    WorkClass,
)

MINIMUM_MS = 300_000
"""A start pays for as much."""


@dataclass
class Held:
    """A lease as the auditor sees it; sizes are what its devices were worth when it was given."""

    team: str
    job: str
    market: str
    work_class: WorkClass
    parts: dict[str, LeaseGranted] = field(default_factory=dict)
    sizes_macc: dict[str, int] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    leaving: bool = False
    withdrawn: bool = False
    """It may stay after all, if its drain has not gone too far."""
    was_withdrawn: bool = False
    """It was said once at least that it may stay."""
    back: set[str] = field(default_factory=set)
    """Nodes whose agents said that the drain is off."""


class Auditor:
    """Follows the log step by step."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self.world = world
        self.scenario = scenario
        self.leases: dict[str, Held] = {}
        self.owner: dict[tuple[str, int], str] = {}
        self.finished: dict[str, int] = defaultdict(int)
        self.run: dict[str, int | None] = {}
        self.left: dict[str, int | None] = {}
        self.begun_anew: set[str] = set()
        """Leases whose job left and had saved nothing: what it ran in them is lost."""
        self.usage: dict[str, list[UsageMetered]] = defaultdict(list)
        self.owed: dict[tuple[str, str], list[UsageMetered]] = defaultdict(list)
        """What leases pay for behind their end, by lease and node."""
        self.ended: dict[tuple[str, str], LeaseStatusChanged] = {}
        self.records: dict[tuple[str, str], LeaseGranted] = {}
        """The last record of each part: it may have been written in the step in which it ended."""
        self.cancelled: set[str] = set()
        """Leases that had to leave because their owner cancelled their job."""
        self.asked: set[str] = set()
        """Leases of whose drain an agent spoke."""
        self._seen: dict[str, dict[int, int]] = defaultdict(dict)
        self._freed: list[LeaseStatusChanged] = []
        self._cancelled: list[DrainStatusChanged] = []

    def after_step(self) -> None:
        for job in self.scenario.jobs.values():
            self.run.setdefault(job.record_key(), job.expected_run_ms)
        # Placement saw what the fleet wrote in the step before.
        for status in self._freed:
            self.take_freed(status)
        for cancelled in self._cancelled:
            self.take_cancelled(cancelled)
        self.take_leases(self._new("leases"))
        for event in self._new("vacate"):
            assert isinstance(event, VacateRequested | VacateWithdrawn)
            held = self.leases[event.lease]
            if isinstance(event, VacateWithdrawn):
                assert held.leaving, "what may stay was asked to leave"
                assert not held.withdrawn, "a lease is told once that it may stay"
                held.withdrawn = held.was_withdrawn = True
                continue
            assert not held.leaving or held.withdrawn, "a lease is asked to leave once"
            if event.reason is VacateReason.CANCELLED:
                self.cancelled.add(event.lease)
            held.leaving, held.withdrawn, held.back = True, False, set()
        for event in self._new("job.status"):
            assert isinstance(event, JobStatusChanged)
            self.finished[event.record_key()] += event.state is JobState.FINISHED
        self.check_quota()
        self.check_devices()
        self._freed = [
            event
            for event in self._new("lease.status")
            if isinstance(event, LeaseStatusChanged) and event.state is LeaseState.FREED
        ]
        self.ended |= {(freed.lease, freed.node): freed for freed in self._freed}
        told = [e for e in self._new("drain.status") if isinstance(e, DrainStatusChanged)]
        self.asked |= {event.lease for event in told}
        self._cancelled = [event for event in told if event.state is DrainState.CANCELLED]
        for event in self._new("usage"):
            assert isinstance(event, UsageMetered)
            if event.running_ms == 0:
                self.owed[event.lease, event.node].append(event)
                continue
            self.usage[f"{event.team}/{event.job}"].append(event)
            self.check_metered(event)

    def take_freed(self, status: LeaseStatusChanged) -> None:
        held = self.leases[status.lease]
        held.open.remove(status.node)
        for device in held.parts[status.node].devices:
            del self.owner[status.node, device]
        self.left[f"{status.team}/{status.job}"] = status.remaining_run_ms
        grant = held.parts[status.node]
        saves = grant.drainability is Drainability.CHECKPOINT
        if status.outcome is not LeaseOutcome.FINISHED and not saves:
            self.begun_anew.add(status.lease)
            assert status.remaining_run_ms == grant.remaining_run_ms
        if not held.open:
            del self.leases[status.lease]

    def take_cancelled(self, status: DrainStatusChanged) -> None:
        held = self.leases.get(status.lease)
        if held is None:
            return
        assert held.was_withdrawn, "no drain is off that nobody called off"
        if not held.withdrawn:
            # It was asked again meanwhile: another drain has begun.
            return
        held.back.add(status.node)
        if held.back >= held.open:
            held.leaving = held.withdrawn = False

    def take_leases(self, events: list[Event]) -> None:
        fresh: dict[str, None] = {}
        for event in events:
            assert isinstance(event, LeaseGranted)
            self.records[event.lease, event.node] = event
            held = self.leases.get(event.lease)
            if held is not None and event.node in held.parts:
                held.work_class = event.work_class
                continue
            if held is None:
                held = Held(event.team, event.job, event.market, event.work_class)
                self.leases[event.lease] = held
            fresh[event.lease] = None
            node = self.scenario.nodes[event.node]
            held.parts[event.node] = event
            held.sizes_macc[event.node] = len(event.devices) * node.macc_per_device
            held.open.add(event.node)
            for device in event.devices:
                assert (event.node, device) not in self.owner, "a device is in two leases"
                assert is_usable(node, device)
                self.owner[event.node, device] = event.lease
            assert node.type == event.market
            assert event.size_macc == held.sizes_macc[event.node], "devices are held whole"
        for lease in fresh:
            held = self.leases[lease]
            assert len(held.parts) == next(iter(held.parts.values())).parts, "half a gang"
            wanted = self.scenario.jobs[f"{held.team}/{held.job}"].size_macc
            spare = sum(held.sizes_macc.values()) - wanted
            largest = max(self.scenario.nodes[node].macc_per_device for node in held.parts)
            assert 0 <= spare < largest, "the whole job, and no device more"

    def check_quota(self) -> None:
        used: dict[tuple[str, str, WorkClass], int] = defaultdict(int)
        for held in self.leases.values():
            if not held.leaving:
                used[held.team, held.market, held.work_class] += sum(held.sizes_macc.values())
        for (team, market, work_class), size in used.items():
            quota = self.scenario.quotas[team, market]
            bound = (
                quota.allocated_macc if work_class is WorkClass.MARKET else quota.opportunistic_macc
            )
            assert size <= bound, f"{team} occupies {size} {work_class} in {market}, quota {bound}"

    def check_devices(self) -> None:
        """What is not leaving runs on devices that are there, as what they were given as."""
        for lease, held in self.leases.items():
            if held.leaving:
                continue
            for name in held.open:
                node, devices = self.scenario.nodes[name], held.parts[name].devices
                size = node.macc_per_device * len(devices)
                now = (node.type, size)
                assert now == (held.market, held.sizes_macc[name]), (
                    f"{lease}: {name} is not what it was"
                )
                assert all(may_stay(node, d) for d in devices), f"{lease}: {name} was withdrawn"

    def check_metered(self, usage: UsageMetered) -> None:
        """Usage is of all that is occupied, at the pool that the team is in then."""
        held = self.leases[usage.lease]
        assert usage.quantity_macc == held.sizes_macc[usage.node]
        for at_ms in (usage.start_ms, usage.end_ms - 1):
            pool = self.scenario.pool_at(usage.team, at_ms)
            assert usage.pool == pool, f"{usage.team} is in {pool}, metered in {usage.pool}"

    def check_usage(self) -> None:
        """Sequences are dense; a job's time is metered once; what was not lost adds up."""
        sources: dict[str, list[int]] = defaultdict(list)
        for key, metered in self.usage.items():
            by_lease: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(
                lambda: defaultdict(list)
            )
            for usage in metered:
                sources[f"{usage.lease}/{usage.node}/{usage.attempt}"].append(usage.seq)
                by_lease[usage.lease][usage.node].append((usage.start_ms, usage.end_ms))
                assert usage.end_ms - usage.start_ms <= MINUTE_MS
                assert usage.start_ms // 300_000 == (usage.end_ms - 1) // 300_000
            intervals = []
            kept_ms = 0
            for lease, nodes in by_lease.items():
                first, *others = nodes.values()
                assert all(other == first for other in others)
                intervals += first
                if lease not in self.begun_anew:
                    kept_ms += sum(end - start for start, end in first)
            intervals.sort()
            for before, after in pairwise(intervals):
                assert before[1] <= after[0], f"{key} is metered twice"
            expected = self.run[key]
            running = any(f"{h.team}/{h.job}" == key for h in self.leases.values())
            if expected is not None and not running:
                left = self.left[key]
                assert left is not None
                assert kept_ms + left == expected, f"{key} ran {kept_ms}, {left} left of {expected}"
        for (lease, node), owed in self.owed.items():
            sources[f"{lease}/{node}/{owed[0].attempt}"] += [each.seq for each in owed]
        self.check_minimum()
        for source, numbers in sources.items():
            assert sorted(numbers) == list(range(len(numbers))), f"{source} has holes"
        for key, count in self.finished.items():
            assert count <= 1, f"{key} finished {count} times"
            assert not count or self.left[key] == 0

    def check_minimum(self) -> None:
        """A start that was bought and ended by itself pays for five minutes once they passed."""
        ran: dict[tuple[str, str], list[UsageMetered]] = defaultdict(list)
        for metered in self.usage.values():
            for usage in metered:
                ran[usage.lease, usage.node].append(usage)
        bought = {WorkClass.MARKET}
        # The fleet is a window of 5 s ahead of its barrier.
        now_ms = START_MS + self.world.step * MINUTE_MS
        for part, freed in self.ended.items():
            metered, owed = ran[part], self.owed.get(part, [])
            billed_ms = sum(u.end_ms - u.start_ms for u in metered if u.billable)
            due_ms = freed.at_ms + MINIMUM_MS - billed_ms
            owes = freed.outcome is LeaseOutcome.FINISHED and part[0] not in self.asked
            if owed:
                vacated = freed.outcome is LeaseOutcome.VACATED and part[0] in self.cancelled
                by_itself = freed.outcome is LeaseOutcome.FINISHED
                assert by_itself or vacated, f"{part} owes nothing and pays"
                ends = [freed.at_ms, *[u.end_ms for u in owed]]
                assert [u.start_ms for u in owed] == ends[:-1]
                assert min(due_ms, now_ms) - MINUTE_MS < ends[-1] <= min(due_ms, now_ms + 5_000)
                for use in metered[-1:]:
                    same = ("quantity_macc", "team", "market")
                    assert all(getattr(u, n) == getattr(use, n) for u in owed for n in same)
                    terms = {(each.pool, each.limit_micro) for each in (use, self.records[part])}
                    assert len({(u.pool, u.limit_micro) for u in owed}) == 1
                    assert (owed[0].pool, owed[0].limit_micro) in terms
                assert all(u.billable and u.work_class is WorkClass.MARKET for u in owed)
            elif owes and self._classes(part, metered) == bought:
                passed_ms = min(due_ms, now_ms) - freed.at_ms
                assert passed_ms < MINUTE_MS, f"{part} does not pay its start"

    def _classes(self, part: tuple[str, str], metered: list[UsageMetered]) -> set[WorkClass]:
        """Return what a part may have been when it ended."""
        return {self.records[part].work_class, *(use.work_class for use in metered[-1:])}

    def check_charges(self) -> None:
        """What is metered and due is charged: once, whole, at the price of its position."""
        wrong = faults(self.world.log)
        assert not wrong, "; ".join(wrong[:5])

    def _new(self, topic: str) -> list[Event]:
        return decoded(self.world.events(topic, self._seen[topic]))


def is_usable(node: NodePublished, device: int) -> bool:
    return (
        node.state is NodeState.ACTIVE
        and device < node.devices
        and device not in node.withheld_devices
    )


def may_stay(node: NodePublished, device: int) -> bool:
    """Whether what runs may stay; a node that is to be emptied is left by drains."""
    emptied = node.state in {NodeState.DRAINING, NodeState.OFF}
    return is_usable(
        node.model_copy(update={"state": NodeState.ACTIVE}) if emptied else node, device
    )


def play(
    seed: int, steps: int, restart: Restart = lambda _step, _name: False, compact_at: int = -1
) -> Auditor:
    """Drive the scenario of a seed, with its auditor at every step."""
    world = World(restart)
    auditor = Auditor(world, Scenario(seed, world))
    for step in range(steps):
        world.tick(auditor.scenario.outputs(step))
        auditor.after_step()
        if step == compact_at:
            world.compact()
    return auditor
