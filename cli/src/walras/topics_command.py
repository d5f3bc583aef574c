"""``walras topics``: the topic registry, and creating its topics on a broker."""

import argparse
import asyncio
import json
import os
import sys

from walras_contracts.topics import load_topics
from walras_runtime.errors import TopicMismatchError
from walras_runtime.kafka.topics_admin import check_topics, create_topics


def add_topics_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``topics`` command."""
    parser = subparsers.add_parser("topics", help="list, create or check the topics")
    parser.add_argument("action", choices=["list", "create", "check"])
    parser.add_argument(
        "--bootstrap",
        default=os.environ.get("WALRAS_KAFKA_BOOTSTRAP"),
        help="broker address (default: WALRAS_KAFKA_BOOTSTRAP)",
    )
    parser.add_argument(
        "--partitions", type=int, help="of the spread topics (default: the registry's)"
    )
    parser.add_argument("--replication-factor", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_topics)


def run_topics(arguments: argparse.Namespace) -> int:
    """Run the command; 0 done, 1 the broker's topics differ, 2 no broker named."""
    topics = load_topics(arguments.partitions)
    if arguments.action == "list":
        if arguments.json:
            print(
                json.dumps([t.model_dump() | {"full_name": t.full_name} for t in topics.values()])
            )
        else:
            for topic in topics.values():
                print(
                    f"{topic.full_name:38} {topic.partitions:3}  {topic.cleanup:8} "
                    f"{topic.producer} -> {', '.join(topic.consumers)}"
                )
        return 0
    if arguments.bootstrap is None:
        print("walras topics: name a broker with --bootstrap", file=sys.stderr)
        return 2
    try:
        if arguments.action == "create":
            created = asyncio.run(
                create_topics(
                    arguments.bootstrap, topics, replication_factor=arguments.replication_factor
                )
            )
            print(json.dumps(created) if arguments.json else f"created {len(created)} topics")
        asyncio.run(check_topics(arguments.bootstrap, topics))
    except TopicMismatchError as error:
        print(f"walras topics: {error}", file=sys.stderr)
        return 1
    return 0
