"""Nodes for the terminal: a table of many, a page of one."""

from typing import Final

from rich.table import Table

from walras.billing_log.window import moment
from walras.jobs.words import left, session_words
from walras.jobs_log.units import accelerators_text, duration_text
from walras.nodes.reading import Nodes, NodeView
from walras.nodes.words import leases_words
from walras_contracts.drains import NodeDrainChanged
from walras_contracts.identifiers import job_key

NONE: Final = "–"


def as_of(nodes: Nodes) -> str:
    """Return the time of what is shown."""
    if nodes.barrier is None:
        return "the log has no barrier yet"
    at = moment(nodes.barrier.market_time_ms)
    return f"as of barrier {nodes.barrier.number}, {at}"


def nodes_table(nodes: Nodes) -> Table:
    """Return a row for each node."""
    table = Table(title=as_of(nodes), title_justify="left", title_style="")
    for name in ("node", "type", "cell", "domain", "owner", "state"):
        table.add_column(name, overflow="fold")
    for name in ("free", "held", "withheld", "silent for"):
        table.add_column(name, justify="right")
    table.add_column("drain", overflow="fold")
    for view in nodes.nodes:
        node, devices = view.node, view.devices
        table.add_row(
            node.node,
            node.type,
            node.cell,
            node.domain or NONE,
            node.owner_pool or "(shared)",
            state_words(view),
            str(devices.free),
            str(devices.held),
            str(devices.withheld),
            silence_words(nodes, view),
            NONE if view.drain is None else drain_words(view.drain, nodes.now_ms),
        )
    return table


def state_words(view: NodeView) -> str:
    """Return the state of a node, with what comes."""
    words = [view.node.state.value]
    if view.node.urgent:
        words.append("urgent")
    if view.node.lost:
        words.append("lost")
    if view.coming is not None:
        words.append(f"{view.coming.state.value} is stated and does not count yet")
    return ", ".join(words)


def silence_words(nodes: Nodes, view: NodeView) -> str:
    """Return how long the agent of a node has been silent."""
    silent_ms = nodes.silent_ms(view)
    return "never spoke" if silent_ms is None else duration_text(silent_ms)


def drain_words(drain: NodeDrainChanged, now_ms: int | None) -> str:
    """Return how far the emptying of a node is, by when, and what it waits for."""
    words = [f"{drain.state.value}, {leases_words(drain.leases)} left"]
    words.append(f"ends by {moment(drain.deadline_ms)}{left(drain.deadline_ms, now_ms)}")
    if drain.blockers:
        words.append(f"waits for {'; '.join(drain.blockers)}")
    return ", ".join(words)


def page_lines(view: NodeView, nodes: Nodes) -> list[str]:
    """Return all that is known of a node."""
    node, devices = view.node, view.devices
    found = [f"{node.node}: {state_words(view)}; {as_of(nodes)}"]
    counts = f"{devices.free} free, {devices.held} held, {devices.withheld} withheld"
    size = accelerators_text(node.macc_per_device)
    rows = [
        ("type", node.type),
        ("cell, domain", f"{node.cell}, {node.domain or 'none'}"),
        ("owner", node.owner_pool or "shared"),
        ("devices", f"{node.devices} of {size} accelerators: {counts}"),
    ]
    if node.withheld_devices:
        unhealthy = ", ".join(str(index) for index in node.withheld_devices)
        rows.append(("not to be used", f"devices {unhealthy}{_detail(view)}"))
    rows.append(("agent", _agent_words(view, nodes)))
    if node.fenced_ms is not None:
        rows.append(("fenced", f"what was granted up to {moment(node.fenced_ms)}"))
    if view.drain is not None:
        rows.append(("drain", drain_words(view.drain, nodes.now_ms)))
    for part in view.leases:
        indices = ", ".join(str(index) for index in part.devices)
        whose = f"{job_key(part.team, part.job)}, {part.work_class.value}"
        rows.append(("  lease", f"{part.lease} of {whose}: devices {indices}"))
    for session in view.sessions:
        key = job_key(session.team, session.job)
        rows.append(("  leaving", f"{key}: {session_words(session, nodes.now_ms)}"))
    width = max(len(name) for name, _ in rows)
    return found + [f"  {name:<{width}}  {text}" for name, text in rows]


def _agent_words(view: NodeView, nodes: Nodes) -> str:
    silent_ms = nodes.silent_ms(view)
    if silent_ms is None:
        return "never spoke"
    if silent_ms == 0:
        return "spoke in the last step"
    return f"silent for {duration_text(silent_ms)} of market time"


def _detail(view: NodeView) -> str:
    detail = "" if view.heartbeat is None else view.heartbeat.report.detail
    return f" ({detail})" if detail else ""
