"""A task that was asked to end does, whatever becomes of the request on its way.

A cancellation is thrown into what the task awaits. Where that is another task that ends on it
without an error, as a producer's sender does when its producer is stopped (aiokafka 0.14), nobody
else hears of it: an interrupted command would go on, a stage that has to stop would not.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def heeded(call: Awaitable[T]) -> T:
    """Await a call; raise the cancellation of this task that came meanwhile, if the call did not.

    Raises
    ------
    asyncio.CancelledError
        The task was cancelled during the call, however that ended.
    """
    task = asyncio.current_task()
    asked = 0 if task is None else task.cancelling()
    try:
        return await call
    finally:
        if task is not None and task.cancelling() > asked:
            raise asyncio.CancelledError
