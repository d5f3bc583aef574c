"""The topic registry as drawings and tables (Mermaid and Markdown), for people."""

from collections.abc import Mapping, Sequence

from walras_contracts.event import Event
from walras_contracts.json_schema import domain_of, event_name
from walras_contracts.registry import EVENTS
from walras_contracts.topics import Topic

OUTSIDE = "outside"
EVERY_SERVICE = "every service"
_DAY_MS = 86_400_000

Topics = Mapping[str, Topic]


def is_bookkeeping(topic: Topic) -> bool:
    """Whether only the runtime reads it: no events, and its writer is its reader."""
    return not topic.events and topic.producer in topic.consumers


def mermaid(topics: Topics) -> str:
    """Return the drawing: services as boxes, one arrow per pair with the topics on it."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for topic in topics.values():
        if is_bookkeeping(topic) or topic.producer == EVERY_SERVICE:
            continue
        for consumer in topic.consumers:
            arrows.setdefault((topic.producer, consumer), []).append(topic.name)
    lines = ["```mermaid", "flowchart LR"]
    for service in _services(topics):
        lines.append(f"  {service}[{service}]")
    sources = dict.fromkeys(producer for producer, _ in arrows)
    readers = dict.fromkeys(consumer for _, consumer in arrows)
    if OUTSIDE in sources:
        lines.append("  source([outside])")
    if OUTSIDE in readers:
        lines.append("  sink([outside])")
    if OUTSIDE in sources and any(topic.barriers == "outside" for topic in topics.values()):
        lines.append('  ticker -. "barriers" .-> source')
    for (producer, consumer), names in arrows.items():
        start = "source" if producer == OUTSIDE else producer
        end = "sink" if consumer == OUTSIDE else consumer
        lines.append(f'  {start} -- "{"<br/>".join(names)}" --> {end}')
    return "\n".join([*lines, "```"])


def _services(topics: Topics) -> list[str]:
    names: dict[str, None] = {}
    for topic in topics.values():
        for name in (topic.producer, *topic.consumers):
            if name not in (OUTSIDE, EVERY_SERVICE):
                names[name] = None
    return list(names)


def topics_table(topics: Topics) -> str:
    """Return one row per topic."""
    rows = [
        (
            f"`{topic.full_name}`",
            ", ".join(f"`{event}`" for event in topic.events) or "—",
            topic.record_key,
            topic.partition_key,
            str(topic.partitions),
            f"{topic.cleanup}, {_retention(topic.retention_ms)}",
            topic.barriers,
            f"{topic.producer} → {', '.join(topic.consumers)}",
        )
        for topic in topics.values()
    ]
    head = ("topic", "events", "record key", "partition key", "partitions", "cleanup")
    return _table((*head, "barriers", "producer → consumers"), rows)


def events_table(topics: Topics) -> str:
    """Return one row per event type, with its schema and its topic."""
    rows = [
        (
            f"[`{model.TYPE}`]({domain_of(model)}/{event_name(model)}.json)",
            _first_line(model),
            f"`{topic.name}`",
            ", ".join(topic.consumers),
        )
        for model in EVENTS
        for topic in topics.values()
        if model.TYPE in topic.events
    ]
    return _table(("event", "what it says", "topic", "read by"), rows)


def services_table(topics: Topics) -> str:
    """Return one row per service: what it reads and writes."""
    rows = []
    for service in _services(topics):
        reads = [t.name for t in topics.values() if service in t.consumers]
        writes = [t.name for t in topics.values() if service == t.producer]
        rows.append((service, _names(reads), _names(writes)))
    return _table(("service", "reads", "writes"), rows)


def page(topics: Topics) -> str:
    """Return ``docs/dataflow.md``, whole."""
    shared = _names([t.name for t in topics.values() if t.producer == EVERY_SERVICE])
    return f"""# Data flow

Generated from `schemas/topics.toml` by `python -m walras_contracts.generate`; do not edit.

{mermaid(topics)}

Every service also writes {shared}. State topics and other bookkeeping are left out of the drawing;
the table names them.

{services_table(topics)}
"""


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "—"


def _first_line(model: type[Event]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def _retention(retention_ms: int) -> str:
    return "for ever" if retention_ms < 0 else f"{retention_ms / _DAY_MS:g} days"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
