"""Looking at parts: their processes, the answers of their jobs, their devices."""

from walras_contracts.work import LeaseOutcome
from walras_node_agent.agent.node import Node
from walras_node_agent.host.devices import DevicePort
from walras_node_agent.host.processes import Processes, Standing, View
from walras_node_agent.host.warning import Control
from walras_node_agent.part_life import LEAVING, Happened
from walras_node_agent.part_table import PartEvent, PartState

_WITH_PROCESSES = LEAVING | {
    *(PartState.STARTING, PartState.RUNNING, PartState.CANCELLING),
    *(PartState.TERMINATING, PartState.KILLING, PartState.STUCK),
}
_ASKED = LEAVING | {PartState.CANCELLING}
_ANSWERING = _ASKED | {PartState.RUNNING}
_ENDING = frozenset({PartState.TERMINATING, PartState.KILLING, PartState.STUCK})
NAMING_MS = 1_000
"""How often what ends is looked for, named, and killed again: forks may have escaped."""


class Looks:
    """Sees what becomes of parts and tells the node.

    Parameters
    ----------
    node
        Whose parts they are.
    processes, devices
        Of this machine.
    read_ms
        Time between two reads of a device that has to be free.
    beat_ms
        The last sign of life of the agent before this process, None: there was none.
    """

    def __init__(
        self,
        node: Node,
        processes: Processes,
        devices: DevicePort,
        *,
        read_ms: int,
        beat_ms: int | None,
    ) -> None:
        self._node = node
        self._processes = processes
        self._devices = devices
        self._read_ms = read_ms
        self._beat_ms = beat_ms
        self._alive_ms: dict[str, int] = {}
        """When each part was last seen to run."""
        self._read_at_ms: dict[str, int] = {}
        self._named_at_ms: dict[str, int] = {}

    def recover(self, now_ms: int) -> None:
        """Look at what an earlier process of the agent left, once."""
        for lease in sorted(self._node.parts):
            part = self._node.parts[lease]
            if part.life.state is PartState.STARTING:
                if self._processes.may_not_start(lease):
                    self._node.happens(lease, Happened(PartEvent.LOST), now_ms)
            elif part.life.state in _WITH_PROCESSES and not part.life.group_gone:
                standing = self._processes.look(lease).standing
                if standing in {Standing.RUNNING, Standing.EXITED}:
                    self._node.happens(lease, Happened(PartEvent.FOUND), now_ms)

    def look(self, now_ms: int) -> None:
        """Look at all parts."""
        self._processes.reap()
        for lease in sorted(self._node.parts):
            life = self._node.parts[lease].life
            if life.state in _WITH_PROCESSES and not life.group_gone:
                self._look_at_processes(lease, now_ms)
            life = self._node.parts[lease].life
            if life.state in _ASKED:
                self._look_at_answers(lease, now_ms)
            if life.group_gone and life.state in {PartState.VERIFYING, PartState.STUCK}:
                self._read_devices(lease, now_ms)
            else:
                self._read_at_ms.pop(lease, None)
        for seen in (self._alive_ms, self._named_at_ms, self._read_at_ms):
            for lease in [lease for lease in seen if lease not in self._node.parts]:
                del seen[lease]

    def _look_at_processes(self, lease: str, now_ms: int) -> None:
        node = self._node
        state = node.parts[lease].life.state
        view = self._processes.look(lease)
        if view.standing is Standing.PENDING:
            if state is PartState.STARTING or self._processes.members(lease):
                return
            view = View(Standing.GONE, detail="its directory is gone")
        if view.standing is Standing.FAILED:
            # What was started already and left no trace of it is lost.
            event = PartEvent.START_FAILED if state is PartState.STARTING else PartEvent.LOST
            node.happens(lease, Happened(event, detail=view.detail), now_ms)
            return
        if state is PartState.STARTING:
            node.happens(lease, Happened(PartEvent.STARTED), now_ms)
            node.ran_from(lease, self._processes.started_ms(lease))
        if view.standing is not Standing.RUNNING:
            # What it said before it ended says how it ended.
            self._look_at_answers(lease, now_ms)
        if view.standing is Standing.GONE:
            self._gone(lease, view, now_ms)
            return
        self._alive_ms[lease] = now_ms
        unheard = node.parts[lease].life.outcome is LeaseOutcome.NONE
        if view.standing is Standing.EXITED and unheard:
            node.happens(lease, Happened(PartEvent.EXITED, exit_code=view.code), now_ms)
        self._name(lease, now_ms)

    def _gone(self, lease: str, view: View, now_ms: int) -> None:
        """Take the end of all of a part: used to then, billed while there was an agent."""
        seen_ms = self._alive_ms.get(lease, self._beat_ms)
        ended_ms = view.ended_ms
        if ended_ms is None:
            ended_ms = now_ms if seen_ms is None else seen_ms
        elif view.orphaned and self._beat_ms is not None:
            ended_ms = min(ended_ms, self._beat_ms)
        self._node.billed_until(lease, ended_ms, now_ms)
        detail = "no agent was there: its keeper ended it" if view.orphaned else view.detail
        outcome = LeaseOutcome.LOST if view.orphaned else None
        gone = Happened(PartEvent.GROUP_GONE, exit_code=view.code, outcome=outcome, detail=detail)
        self._node.happens(lease, gone, now_ms)
        self._alive_ms.pop(lease, None)

    def _name(self, lease: str, now_ms: int) -> None:
        """Name what is left of a part that has to end, and kill it again where that was tried."""
        life = self._node.parts[lease].life
        if life.state not in _ENDING:
            return
        if now_ms < self._named_at_ms.get(lease, 0) + NAMING_MS:
            return
        self._named_at_ms[lease] = now_ms
        self._node.blockers[lease] = self._processes.named(lease)
        if life.state is not PartState.TERMINATING:
            self._processes.kill(lease)

    def _look_at_answers(self, lease: str, now_ms: int) -> None:
        node = self._node
        drain = node.parts[lease].life.drain
        if drain is None or node.parts[lease].life.state not in _ANSWERING:
            return
        said = Control(self._processes.control(lease)).answers(drain.session)
        if said.waits_for:
            node.blockers[lease] = (said.waits_for,)
        if said.waits_for or said.saved:
            node.happens(lease, Happened(PartEvent.HOOK_ACCEPTED, drain.session), now_ms)
        if said.saved:
            node.happens(lease, Happened(PartEvent.SAVED, drain.session), now_ms)

    def _read_devices(self, lease: str, now_ms: int) -> None:
        if now_ms < self._read_at_ms.get(lease, 0):
            return
        self._read_at_ms[lease] = now_ms + self._read_ms
        holders = [
            f"device {device}: {holder}"
            for device in self._node.parts[lease].grant.devices
            for holder in self._devices.read(device).holders
        ]
        self._node.blockers[lease] = tuple(holders)
        event = PartEvent.DEVICE_HELD if holders else PartEvent.DEVICE_FREE
        self._node.happens(lease, Happened(event), now_ms)
