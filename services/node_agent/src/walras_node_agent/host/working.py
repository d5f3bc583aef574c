"""The agent at work: it looks, decides, keeps what it decided, and does it, turn by turn.

Nothing is begun before the journal has it; what ends processes is done although the disk is full.
What is told goes to the spool, and from there to the log when that takes it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from walras_node_agent.agent.log_records import (
    Change,
    Reached,
    Table,
    follow_change,
    follow_table,
    went_back,
)
from walras_node_agent.agent.node import Node
from walras_node_agent.agent.outgoing import Outgoing
from walras_node_agent.agent.standing import NodeStanding
from walras_node_agent.host.beat import Beat
from walras_node_agent.host.devices import DevicePort
from walras_node_agent.host.doing import Doing
from walras_node_agent.host.keeping import Keeping
from walras_node_agent.host.looking import Looks
from walras_node_agent.host.machine import boottime_ms, seconds
from walras_node_agent.host.processes import Processes
from walras_node_agent.host.pulse import Pulse, readings
from walras_runtime.health import Health


@dataclass(slots=True)
class Inbox:
    """What readers of the log leave for the agent; ``arrived`` wakes it."""

    items: deque[Table | Change | Reached] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, item: Table | Change | Reached) -> None:
        """Leave an item."""
        self.items.append(item)
        self.arrived.set()


@dataclass(frozen=True, slots=True)
class Machine:
    """What the agent works with on its machine."""

    processes: Processes
    devices: DevicePort
    looks: Looks
    beat: Beat


class Agent:
    """One agent; :meth:`run` works until it is stopped. Jobs run on without it for a while."""

    def __init__(
        self,
        node: Node,
        machine: Machine,
        keeping: Keeping,
        pulse: Pulse,
        standing: NodeStanding,
        *,
        checkpoints: str,
        passed: Mapping[str, str],
        poll_ms: int,
        health: Health,
    ) -> None:
        self.inbox = Inbox()
        self.keeping = keeping
        self.pulse = pulse
        self.standing = standing
        self._node = node
        self._machine = machine
        self._poll_ms = poll_ms
        self._health = health
        self._doing = Doing(
            node,
            machine.processes,
            machine.devices,
            checkpoints=checkpoints,
            passed=passed,
            heard=self.inbox.arrived.set,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until stopped."""
        self._machine.looks.recover(boottime_ms())
        try:
            while not stop.is_set():
                self.inbox.arrived.clear()
                self.turn(boottime_ms())
                await self._pause(stop)
        finally:
            self._doing.close()

    async def _pause(self, stop: asyncio.Event) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (stop, self.inbox.arrived)]
        await asyncio.wait(
            waits, timeout=seconds(self._poll_ms), return_when=asyncio.FIRST_COMPLETED
        )
        for wait in waits:
            wait.cancel()

    def tell(self, event: Outgoing) -> None:
        """Tell something that is not of a part, with the next turn."""
        self._node.tell(event)

    def heard(self) -> None:
        """Note that the log has the heartbeat that was taken last."""
        self.standing.heard(self.pulse.taken_ms, boottime_ms())

    def turn(self, now_ms: int) -> None:
        """Do one turn."""
        self._machine.beat.give(now_ms)
        if not self.standing.stands(now_ms):
            self._node.stands = False
        self._read_log(now_ms)
        # What was read up to where it stands is taken by now.
        self._node.note_standing(stands=self.standing.stands(now_ms), now_ms=now_ms)
        # What is to be started is, before anybody looks for it.
        self._keep_and_do(now_ms)
        self._machine.looks.look(now_ms)
        self._node.tick(now_ms, defer_usage=self.keeping.strained)
        if self.pulse.beat(now_ms):
            self.keeping.fresh.set()
            self._sweep()
        self._keep_and_do(now_ms)
        self.keeping.shorten()

    def _read_log(self, now_ms: int) -> None:
        if not self.inbox.items:
            return
        held = self._not_to_be_given()
        while self.inbox.items:
            item = self.inbox.items.popleft()
            if isinstance(item, Change):
                follow_change(self._node, item, held, now_ms)
            elif isinstance(item, Reached):
                self.keeping.note_seen(item.barriers)
            else:
                self._take_table(item, held, now_ms)
        faults = [f"{lease}: {why}" for lease, why in sorted(self._node.faults.items())]
        self._show("leases", "; ".join(faults))

    def _take_table(self, table: Table, held: Mapping[int, str], now_ms: int) -> None:
        behind = went_back(self.keeping.seen, table.barriers)
        follow_table(self._node, table, held, now_ms, same_log=not behind)
        if not behind:
            self.keeping.note_seen(table.barriers)
        why = (
            f"{', '.join(behind)}: the log holds less than was read before, so it is another one; "
            "what runs is kept. Drain the node, then start it with an empty state directory"
        )
        self._show("log", why if behind else "")

    def _not_to_be_given(self) -> dict[int, str]:
        """Return the devices that no new lease may have, with the reason."""
        if self.keeping.disk_full:
            why = "the disk of the agent is full"
            return dict.fromkeys(range(self._machine.devices.count), why)
        found = {}
        for device, reading in readings(self._machine.devices).items():
            why = "; ".join(reading.holders) or reading.fault
            if why:
                found[device] = why
        return found

    def _keep_and_do(self, now_ms: int) -> None:
        """Keep what was decided, then do it; what that leads to, too."""
        while True:
            turn = self._node.take_turn()
            deeds = self.keeping.keep(turn)
            for lease, deed in deeds:
                self._doing.do(lease, deed, now_ms)
            if not deeds:
                break
        self._show("disk", "the disk of the agent is full" if self.keeping.disk_full else "")

    def _sweep(self) -> None:
        """End what runs for leases that this agent does not know: its journal was lost."""
        processes = self._machine.processes
        for lease in processes.known():
            if lease not in self._node.parts:
                processes.kill(lease)
                if not processes.members(lease):
                    processes.forget(lease)

    def _show(self, part: str, fault: str) -> None:
        if fault:
            self._health.fail(part, fault)
        else:
            self._health.clear(part)
