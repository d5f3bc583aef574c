"""Builds the Faust app of a view from settings; there is no app at module level.

The group is new in every process and starts at the beginning of the topics: what the tables hold
is rebuilt at every start, and no offset of an earlier process can skip a record.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import faust
from yarl import URL

from walras_runtime.faust.read_committed import ReadCommittedTransport
from walras_runtime.kafka import tolerant_records

tolerant_records.install()


@dataclass(frozen=True, slots=True)
class FaustOptions:
    """What an app needs to know.

    Parameters
    ----------
    name
        Name of the view.
    incarnation
        A name that no other process ever had; makes the consumer group unique.
    bootstrap
        Address of the broker, host:port; several are separated by commas.
    directory
        Where Faust may make its (empty) directories.
    """

    name: str
    incarnation: str
    bootstrap: str
    directory: Path


def create_app(options: FaustOptions) -> faust.App:
    """Return an app that reads committed records from the beginning and creates no topic."""
    urls = [URL(f"kafka://{address.strip()}") for address in options.bootstrap.split(",")]
    app = faust.App(
        f"walras-{options.name}-{options.incarnation}",
        broker=urls,
        store="memory://",
        datadir=str(options.directory),
        value_serializer="raw",
        key_serializer="raw",
        consumer_auto_offset_reset="earliest",
        processing_guarantee="at_least_once",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        broker_session_timeout=6,
        broker_heartbeat_interval=1,
        broker_rebalance_timeout=6,
        broker_commit_interval=5.0,
        # A quiet topic is no fault.
        stream_processing_timeout=86_400.0,
        broker_commit_livelock_soft_timeout=86_400.0,
    )
    # Faust would choose its own transport, which reads uncommitted records.
    app.transport = ReadCommittedTransport(urls, app)
    logging.getLogger("faust").setLevel(logging.WARNING)
    logging.getLogger("mode").setLevel(logging.WARNING)
    return app
