"""NVIDIA's devices, by its management library; imported only where it is asked for."""

import importlib
from typing import Any, Final

from walras_contracts.quantities import PPM
from walras_node_agent.host.devices import Reading
from walras_node_agent.host.machine import name_of
from walras_runtime.settings import SettingsError

_MIB: Final = 1 << 20
_PERCENT_PPM: Final = PPM // 100


class NvmlDevices:
    """The devices of this machine as the driver numbers them.

    Parameters
    ----------
    free_mib
        A device with at most so much memory in use, and no process on it, is free.

    Raises
    ------
    SettingsError
        The library is not installed, or finds no driver.
    """

    def __init__(self, free_mib: int) -> None:
        try:
            self._nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            raise SettingsError(
                "WALRAS_NODE_AGENT_DEVICE_PORT: nvml needs the package nvidia-ml-py; install it "
                "beside the agent, or use the simulated port"
            ) from None
        try:
            self._nvml.nvmlInit()
            self._count = int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError as error:
            raise SettingsError(f"WALRAS_NODE_AGENT_DEVICE_PORT: nvml: {error}") from error
        self._free_bytes = free_mib * _MIB

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    def read(self, device: int) -> Reading:
        """Read one device, now."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(device)
            processes = [
                *nvml.nvmlDeviceGetComputeRunningProcesses(handle),
                *nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
            ]
            used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
        except nvml.NVMLError as error:
            return Reading.unreadable(str(error))
        pids = sorted({int(process.pid) for process in processes})
        holders = [f"process {pid} ({name_of(pid)})" for pid in pids]
        if not holders and used > self._free_bytes:
            holders.append(f"{used // _MIB} MiB of nobody that the driver names")
        return Reading(tuple(holders), busy_ppm=self._busy_ppm(handle))

    def _busy_ppm(self, handle: Any) -> int | None:
        """Return how busy a device is; None where it does not say, as one that is cut in slices."""
        try:
            return int(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu) * _PERCENT_PPM
        except self._nvml.NVMLError:
            return None

    def variables(self, devices: tuple[int, ...]) -> dict[str, str]:
        """Return the variables by which CUDA sees these devices only."""
        names = ",".join(map(str, devices))
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": names}
