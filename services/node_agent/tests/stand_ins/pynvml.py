"""Stands for NVIDIA's library where there are no such devices: two of them, one in use."""
# ruff: noqa: N802 - the names are the library's

from types import SimpleNamespace

MIB = 1 << 20
used_mib = {0: 3, 1: 40_000}
pids: dict[int, list[int]] = {0: [], 1: [1]}
broken: set[int] = set()
unmeasured: set[int] = set()
"""Devices that tell no utilization, as those that are cut into slices."""


class NVMLError(Exception):
    pass


def nvmlInit() -> None:
    pass


def nvmlDeviceGetCount() -> int:
    return 2


def nvmlDeviceGetHandleByIndex(device: int) -> int:
    if device in broken:
        raise NVMLError("GPU is lost")
    return device


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid) for pid in pids[handle]]


def nvmlDeviceGetGraphicsRunningProcesses(handle: int) -> list[SimpleNamespace]:
    return []


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(used=used_mib[handle] * MIB)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    if handle in unmeasured:
        raise NVMLError("Not Supported")
    return SimpleNamespace(gpu=97 if pids[handle] else 0)
