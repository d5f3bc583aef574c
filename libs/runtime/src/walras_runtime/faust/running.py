"""Runs a Faust app inside a process that is not Faust's own worker."""

import asyncio
from collections.abc import Callable

import faust

from walras_runtime.errors import WalrasError


class FaustCrashedError(WalrasError):
    """The app crashed: the process must end and be started again."""

    code = "faust_crashed"
    retriable = True


async def run_app(
    app: faust.App, stop: asyncio.Event, *, started: Callable[[], None] = lambda: None
) -> None:
    """Run the app until stopped; call ``started`` when it consumes.

    Raises
    ------
    FaustCrashedError
        A service of the app failed; the tables are not to be trusted any more.
    """
    await app.start()
    started()
    tasks = [
        asyncio.create_task(stop.wait()),
        # Faust sets it when any of its services crashes.
        asyncio.create_task(app.wait_until_stopped()),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await app.stop()
    if app.crash_reason is not None:
        raise FaustCrashedError(f"{app.crash_reason!r}") from app.crash_reason
