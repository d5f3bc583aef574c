"""A Faust transport that reads committed records only.

Faust's own reads uncommitted ones unless it runs its ``exactly_once`` mode, which writes through
per-partition transactions that a view does not need.
"""

from typing import Any

from faust.transport.drivers.aiokafka import (
    AIOKafkaConsumerThread,
    Consumer,
    Transport,
)

from walras_runtime.errors import InvariantBrokenError

LEVEL = "read_committed"


class ReadCommittedThread(AIOKafkaConsumerThread):
    """Creates the client's consumer; it is not started yet when the level is set."""

    def _create_consumer(self, loop: Any) -> Any:
        consumer = super()._create_consumer(loop)
        if not hasattr(consumer, "_isolation_level"):
            # Better no view than one that shows what never happened.
            raise InvariantBrokenError("this aiokafka keeps the isolation level elsewhere")
        consumer._isolation_level = LEVEL  # noqa: SLF001 - Faust offers no setting for it
        return consumer


class ReadCommittedConsumer(Consumer):
    """A consumer on the thread above."""

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)


class ReadCommittedTransport(Transport):
    """A transport with the consumer above."""

    Consumer = ReadCommittedConsumer
