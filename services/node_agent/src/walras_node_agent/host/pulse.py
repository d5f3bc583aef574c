"""The heartbeats of a node: one at a time, the newest; older ones say nothing any more."""

from collections.abc import Callable, Mapping
from typing import Final

from walras_node_agent.agent.heartbeat import heartbeat
from walras_node_agent.agent.node import Node
from walras_node_agent.agent.outgoing import Outgoing, outgoing
from walras_node_agent.host.devices import DevicePort, Reading
from walras_runtime.clock import wall_ms
from walras_runtime.health import Health

CLOCK_ALARM_MS: Final = 2_000
"""A wall clock that is further from where it should be turns the agent red."""


def readings(devices: DevicePort) -> dict[int, Reading]:
    """Read all devices."""
    return {device: devices.read(device) for device in range(devices.count)}


class Pulse:
    """Makes heartbeats when they are due.

    Parameters
    ----------
    node
        Whose they are.
    devices
        Of this machine.
    every_ms
        How often.
    incarnation
        Of this process.
    health
        Where a wall clock that was set is shown.
    wall
        Reads the wall clock, in ms since 1970 (UTC).
    """

    def __init__(
        self,
        node: Node,
        devices: DevicePort,
        *,
        every_ms: int,
        incarnation: str,
        health: Health,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self._node = node
        self._devices = devices
        self._every_ms = every_ms
        self._incarnation = incarnation
        self._health = health
        self._wall = wall
        self._count = 0
        self._due_ms: int | None = None
        self._newest: Outgoing | None = None
        self._made_ms = 0
        self.taken_ms = 0
        """When the heartbeat that was taken last was made, in ms since boot."""

    def take(self) -> Outgoing | None:
        """Return the newest heartbeat; None: it was taken already."""
        taken, self._newest = self._newest, None
        if taken is not None:
            self.taken_ms = self._made_ms
        return taken

    def beat(self, now_ms: int) -> bool:
        """Make a heartbeat if one is due, and tell whether it was."""
        if self._due_ms is not None and now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._every_ms
        self._made_ms = now_ms
        read = readings(self._devices)
        event = heartbeat(
            self._node.name,
            self._unhealthy(read),
            self._busy(read),
            self._incarnation,
            now_ms + self._node.offset_ms,
        )
        self._newest = outgoing(event, f"{self._incarnation}/{self._count}")
        self._count += 1
        self._look_at_the_clock(now_ms)
        return True

    def _busy(self, read: Mapping[int, Reading]) -> dict[str, list[int]]:
        busy: dict[str, list[int]] = {}
        for device, lease in self._node.holders().items():
            busy_ppm = read[device].busy_ppm if device in read else None
            if busy_ppm is not None and self._node.parts[lease].meter is not None:
                busy.setdefault(lease, []).append(busy_ppm)
        return busy

    def _unhealthy(self, read: Mapping[int, Reading]) -> dict[int, str]:
        """Return the devices that must not be used: faulty, stuck, or held by who knows whom."""
        holders = self._node.holders()
        unhealthy = self._node.stuck_devices()
        for device, reading in read.items():
            if reading.fault:
                unhealthy[device] = f"device {device}: {reading.fault}"
            elif reading.holders and device not in holders:
                unhealthy[device] = f"device {device}: {'; '.join(reading.holders)}"
        return unhealthy

    def _look_at_the_clock(self, now_ms: int) -> None:
        ahead_ms = self._wall() - now_ms - self._node.offset_ms
        if abs(ahead_ms) > CLOCK_ALARM_MS:
            why = f"the wall clock was set by {ahead_ms} ms; start the agent again to follow it"
            self._health.fail("clock", why)
        else:
            self._health.clear("clock")
