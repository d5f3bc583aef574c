"""``walras topics``: the topic registry, and creating its topics on a broker."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping

from aiokafka.errors import KafkaError

from walras_contracts.topics import Topic, load_topics
from walras_runtime.errors import TopicMismatchError
from walras_runtime.kafka.topics_admin import check_topics, create_topics

EXIT_DONE = 0
EXIT_NOT_SO = 1
EXIT_USAGE = 2


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
    """Run the command; 0 done, 1 the topics differ or no broker answers, 2 it cannot be asked."""
    try:
        topics = load_topics(arguments.partitions)
    except ValueError as error:
        return _refuse(f"--partitions {arguments.partitions}: {error}", EXIT_USAGE)
    if arguments.action == "list":
        print("\n".join(_listing(topics, as_json=arguments.json)))
        return EXIT_DONE
    return _on_broker(arguments, topics)


def _on_broker(arguments: argparse.Namespace, topics: Mapping[str, Topic]) -> int:
    if arguments.bootstrap is None:
        return _refuse("name a broker with --bootstrap", EXIT_USAGE)
    try:
        asyncio.run(_create_and_check(arguments, topics))
    except TopicMismatchError as error:
        return _refuse(str(error), EXIT_NOT_SO)
    except (KafkaError, OSError) as error:
        return _refuse(f"the broker {arguments.bootstrap} does not answer: {error}", EXIT_NOT_SO)
    except ValueError as error:
        return _refuse(f"--bootstrap {arguments.bootstrap}: {error}", EXIT_USAGE)
    return EXIT_DONE


async def _create_and_check(arguments: argparse.Namespace, topics: Mapping[str, Topic]) -> None:
    bootstrap = arguments.bootstrap
    if arguments.action == "create":
        factor = arguments.replication_factor
        created = await create_topics(bootstrap, topics, replication_factor=factor)
        print(json.dumps(created) if arguments.json else f"created {len(created)} topics")
    await check_topics(bootstrap, topics)


def _listing(topics: Mapping[str, Topic], *, as_json: bool) -> list[str]:
    if as_json:
        return [json.dumps([t.model_dump() | {"full_name": t.full_name} for t in topics.values()])]
    return [
        f"{topic.full_name:38} {topic.partitions:3}  {topic.cleanup:8} "
        f"{topic.producer} -> {', '.join(topic.consumers)}"
        for topic in topics.values()
    ]


def _refuse(reason: str, code: int) -> int:
    print(f"walras topics: {' '.join(reason.splitlines())}", file=sys.stderr)
    return code
