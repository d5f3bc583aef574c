"""Make the topics of the registry on the broker of ``WALRAS_KAFKA_BOOTSTRAP``, and end."""

import asyncio
import os
import sys

from walras_contracts.topics import load_topics
from walras_runtime.kafka.topics_admin import check_topics, create_topics


async def _make(bootstrap: str) -> list[str]:
    topics = load_topics()
    made = await create_topics(bootstrap, topics)
    await check_topics(bootstrap, topics)
    return made


def main() -> int:
    """Make what is missing; exit code 0 when every topic is as the registry says."""
    made = asyncio.run(_make(os.environ["WALRAS_KAFKA_BOOTSTRAP"]))
    sys.stdout.write(f"{len(made)} topics made\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
