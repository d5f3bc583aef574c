"""Creating the registry's topics, and checking that the broker's are those."""

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from walras_contracts.topics import Topic
from walras_runtime.errors import TopicMismatchError
from walras_runtime.kafka.opening import opened

ALREADY_EXISTS = 36
LEADERS_WITHIN_S = 30.0
"""New partitions have leaders within milliseconds; much later, the broker is in trouble."""


async def create_topics(
    bootstrap: str, topics: Mapping[str, Topic], *, replication_factor: int = 1
) -> list[str]:
    """Create the topics that are missing; return their full names.

    Raises
    ------
    TopicMismatchError
        The broker refused one.
    """
    async with opened(AIOKafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        existing = set(await admin.list_topics())
        missing = [t for t in topics.values() if t.full_name not in existing]
        if not missing:
            return []
        response = await admin.create_topics(
            [
                NewTopic(
                    name=topic.full_name,
                    num_partitions=topic.partitions,
                    replication_factor=replication_factor,
                    topic_configs=topic.broker_config(),
                )
                for topic in missing
            ]
        )
        # create_topics never raises for a single topic: the answers must be looked at.
        faults = [
            f"{name}: error {code} {text or ''}".strip()
            for name, code, text in response.topic_errors
            if code not in {0, ALREADY_EXISTS}
        ]
        if faults:
            raise TopicMismatchError("; ".join(faults))
        await _wait_for_leaders(admin, [topic.full_name for topic in missing])
        return [topic.full_name for topic in missing]


async def _wait_for_leaders(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until every partition has a leader: before that each write to it is refused."""
    clock = asyncio.get_running_loop().time
    end = clock() + LEADERS_WITHIN_S
    while True:
        described = await admin.describe_topics(names)
        leaderless = [
            d["topic"]
            for d in described
            if d["error_code"] != 0 or any(p["leader"] < 0 for p in d["partitions"])
        ]
        if not leaderless:
            return
        if clock() > end:
            raise TopicMismatchError(f"no leader yet: {', '.join(leaderless)}")
        await asyncio.sleep(0.02)


async def check_topics(bootstrap: str, topics: Mapping[str, Topic]) -> None:
    """Check that each topic exists with the registry's partition count.

    A transaction on an unknown topic would hang, a wrong count would send a key elsewhere.

    Raises
    ------
    TopicMismatchError
        Naming every topic that is missing or has another count.
    """
    counts = await partition_counts(bootstrap, [topic.full_name for topic in topics.values()])
    faults = []
    for topic in topics.values():
        count = counts.get(topic.full_name)
        if count is None:
            faults.append(f"{topic.full_name} does not exist")
        elif count != topic.partitions:
            faults.append(f"{topic.full_name} has {count} partitions, not {topic.partitions}")
    if faults:
        raise TopicMismatchError("; ".join(faults) + " (run `walras topics create`)")


async def partition_counts(bootstrap: str, names: Sequence[str]) -> dict[str, int]:
    """Return how many partitions the broker has of each topic that exists, by full name."""
    async with opened(AIOKafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        described = await admin.describe_topics(list(names))
    return {d["topic"]: len(d["partitions"]) for d in described if d["error_code"] == 0}
