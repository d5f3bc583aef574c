"""Who owns a partition of a service, and how often a step failed there.

``claims`` is compacted. ``<service>/<partition>`` holds the claim of the owner; its first
transaction writes it. ``<service>/<partition>/failures`` counts crashes on one barrier by subject.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, TopicPartition

from walras_runtime.kafka.log_reading import read_all_with, wait_until_settled


@dataclass(frozen=True, slots=True)
class Claim:
    """The latest claim of a partition; epoch 0 and no incarnation before the first."""

    incarnation: str
    epoch: int
    failed_barrier: int = -1
    failures: Mapping[str, int] = field(default_factory=dict)


def claim_key(service: str, partition: int) -> bytes:
    """Return the record key of a claim."""
    return f"{service}/{partition}".encode()


def failures_key(service: str, partition: int) -> bytes:
    """Return the record key of the failure counts."""
    return f"{service}/{partition}/failures".encode()


def claim_value(incarnation: str, epoch: int) -> bytes:
    """Return the payload of a claim."""
    return json.dumps({"incarnation": incarnation, "epoch": epoch}).encode()


def failures_value(claim: Claim, barrier: int, subject: str, error: str) -> bytes:
    """Return the payload that counts one more failure of ``subject`` on ``barrier``."""
    counts = dict(claim.failures) if claim.failed_barrier == barrier else {}
    counts[subject] = counts.get(subject, 0) + 1
    return json.dumps({"barrier": barrier, "counts": counts, "error": error[:500]}).encode()


async def read_claim(consumer: AIOKafkaConsumer, topic: str, service: str, partition: int) -> Claim:
    """Return the latest claim of a partition that can be seen now.

    Claims of all services lie in one partition, so an open transaction of another service hides
    newer ones; who acts on the answer reads :func:`read_settled_claim`.
    """
    claim = Claim("", 0)
    failed_barrier, failures = -1, {}
    for message in await read_all_with(consumer, topic, [0]):
        if message.value is None:
            continue
        if message.key == claim_key(service, partition):
            document = json.loads(message.value)
            claim = Claim(document["incarnation"], document["epoch"])
        elif message.key == failures_key(service, partition):
            document = json.loads(message.value)
            failed_barrier, failures = document["barrier"], document["counts"]
    return Claim(claim.incarnation, claim.epoch, failed_barrier, failures)


async def read_settled_claim(
    bootstrap: str,
    consumer: AIOKafkaConsumer,
    topic: str,
    service: str,
    partition: int,
    *,
    within_s: float,
) -> Claim:
    """Return the latest claim of a partition among all that were written before the call.

    Raises
    ------
    BrokerUnavailableError
        A transaction on the topic stayed open for longer than ``within_s``.
    """
    await wait_until_settled(bootstrap, consumer, TopicPartition(topic, 0), within_s=within_s)
    return await read_claim(consumer, topic, service, partition)
