"""The step loop of a service under chaos: as it is, but it takes orders to die or stop in a gap."""

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from tests.chaos.orders import FOLDER_VARIABLE, Order, look, obey
from tests.chaos.plan import AT_START, Gap
from walras_runtime.align import Aligned
from walras_runtime.kafka.producing import Batches
from walras_runtime.kafka.step_runner import StepRunner
from walras_runtime.position import Position

TURNS_BEHIND_THE_REQUEST: Final = 20
"""Of the event loop, so that the request is on the wire before the process dies."""


class OrderedRunner(StepRunner):
    """The step loop, stopping or dying where it was ordered to."""

    async def _write_to_claims(self, key: bytes, value: bytes) -> None:
        self._reach(Gap.BEFORE_CLAIM, -1)
        await super()._write_to_claims(key, value)

    async def _restore(self, consumer: Any) -> None:
        self._reach(Gap.BEFORE_RESTORE, -1)
        await super()._restore(consumer)

    async def _decide(
        self, aligned: Aligned, position: Position, traceparent: str | None
    ) -> Batches:
        self._reach(Gap.BEFORE_DECISION, position.step)
        return await super()._decide(aligned, position, traceparent)

    async def _commit(self, batches: Batches, position: Position) -> None:
        self._reach(Gap.BEFORE_TRANSACTION, position.step)
        if self._ordered(Gap.IN_TRANSACTION, position.step):
            self._stop_before_commit(position.step)
        if self._ordered(Gap.BEHIND_COMMIT_REQUEST, position.step):
            self._die_behind_the_request(position.step)
        await super()._commit(batches, position)
        self._reach(Gap.AFTER_COMMIT, position.step)

    def _stop_before_commit(self, step: int) -> None:
        assert self._producer is not None
        commit = self._producer.commit_transaction

        async def before_commit() -> None:
            self._reach(Gap.IN_TRANSACTION, step)
            await commit()

        self._producer.commit_transaction = before_commit

    def _die_behind_the_request(self, step: int) -> None:
        """Die when the request to commit is on the wire and its answer is not read."""
        assert self._producer is not None
        client = self._producer.client
        send = client.send

        async def watched(node: int, request: Any, **options: Any) -> Any:
            if not type(request).__name__.startswith("EndTxn"):
                return await send(node, request, **options)
            task = asyncio.ensure_future(send(node, request, **options))
            for _ in range(TURNS_BEHIND_THE_REQUEST):
                await asyncio.sleep(0)
                if task.done():
                    break
            self._reach(Gap.BEHIND_COMMIT_REQUEST, step)
            return await task

        client.send = watched

    def _ordered(self, gap: Gap, step: int) -> Order | None:
        """Return the order that waits, if it is for this gap of this process."""
        order = look(self._orders())
        is_meant = (
            order is not None
            and (order.service, order.partition) == (self._spec.service, self._partition)
            and order.gap is gap
            and (gap in AT_START or order.step <= step)
        )
        return order if is_meant else None

    def _reach(self, gap: Gap, step: int) -> None:
        order = self._ordered(gap, step)
        if order is not None:
            obey(self._orders(), order)

    @staticmethod
    def _orders() -> Path:
        return Path(os.environ[FOLDER_VARIABLE])
