"""Waits until a service says that it is ready."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable
from time import perf_counter

from tests.performance.outside import BenchError
from tests.performance.process_time import cpu_seconds

READY_POLL_S = 0.02
READY_WITHIN_S = 600.0


async def wait_until_ready(
    name: str, port: int, pid: int, look: Callable[[], None]
) -> tuple[float, float]:
    """Wait; return the seconds that took from now, and the CPU seconds of the process so far.

    Parameters
    ----------
    name, port, pid
        Of the service.
    look
        Called while waiting; raises where waiting makes no sense any more.

    Raises
    ------
    BenchError
        It does not become ready.
    """
    began = perf_counter()
    while not await asyncio.to_thread(_answers, f"http://127.0.0.1:{port}/readyz"):
        look()
        if perf_counter() - began > READY_WITHIN_S:
            raise BenchError(f"{name} does not become ready")
        await asyncio.sleep(READY_POLL_S)
    return perf_counter() - began, cpu_seconds(pid)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=READY_WITHIN_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False
