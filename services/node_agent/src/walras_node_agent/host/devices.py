"""Devices as the machine shows them: a port, simulated by files or read by NVML."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from walras_node_agent.host.files import read_small_file
from walras_node_agent.host.machine import name_of, started

UNHEALTHY: Final = "unhealthy"
BUSY: Final = "busy_ppm"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one read of a device says.

    ``holders``: what holds its memory, in words that name it; a device that cannot be read is held
    by nobody knows what. ``fault``: why it must not be used, "" where it may. ``busy_ppm``: how
    busy it is, None not known.
    """

    holders: tuple[str, ...] = ()
    fault: str = ""
    busy_ppm: int | None = None

    @staticmethod
    def unreadable(why: str) -> "Reading":
        """Return the reading of a device of which nothing is known: it is not free."""
        return Reading((f"not readable: {why}",), f"not readable: {why}")


class DevicePort(Protocol):
    """The devices of a node."""

    @property
    def count(self) -> int:
        """How many there are."""

    def read(self, device: int) -> Reading:
        """Read one device, now."""

    def variables(self, devices: tuple[int, ...]) -> dict[str, str]:
        """Return the variables by which a process sees these devices only."""


class SimulatedDevices:
    """Devices of files: a process holds memory by a file that is named by its pid.

    Below the directory each device has one, named by its number. The file of a process that has
    ended holds nothing: a driver frees the memory of a process with it. A file ``unhealthy`` says
    why the device must not be used; ``busy_ppm`` how busy it is.
    """

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._count = count
        for device in range(count):
            directory.joinpath(str(device)).mkdir(parents=True, exist_ok=True)

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    def read(self, device: int) -> Reading:
        """Read one device, now."""
        directory = self._directory.joinpath(str(device))
        try:
            names = sorted(path.name for path in directory.iterdir())
        except OSError as error:
            return Reading.unreadable(str(error.strerror))
        holders = tuple(
            f"process {name} ({name_of(int(name))})"
            for name in names
            if name.isdigit() and started(int(name)) is not None
        )
        fault = read_small_file(directory.joinpath(UNHEALTHY))
        busy = (read_small_file(directory.joinpath(BUSY)) or b"").strip()
        return Reading(
            holders,
            "" if fault is None else fault.decode("utf-8", "replace").strip() or UNHEALTHY,
            int(busy) if busy.isdigit() else None,
        )

    def variables(self, devices: tuple[int, ...]) -> dict[str, str]:
        """Return nothing: no library reads these devices."""
        del devices
        return {}
