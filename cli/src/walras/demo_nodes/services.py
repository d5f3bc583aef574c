"""Which processes the demo of nodes runs, and their settings: the market live, an agent a node."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from walras.demo_nodes.folders import NodeFolders
from walras.demo_nodes.scenario import NodesScenario
from walras.processes import Service

AGENT_MODULE: Final = "walras_node_agent.agent"
AGENT_PACE: Final[Mapping[str, str]] = {
    "POLL_MS": "100",
    "HEARTBEAT_MS": "2000",
    "PROGRESS_MS": "1000",
    "DEVICE_READ_MS": "250",
    "TERMINATE_MS": "3000",
    "VERIFY_MS": "5000",
    # What is left behind by a demo that was killed ends by itself.
    "ORPHAN_MS": "20000",
}


def market_services(scenario: NodesScenario) -> list[Service]:
    """Return the services that the story needs, in the order in which a step flows."""
    market = scenario.market
    held_back = {"WALRAS_PLACEMENT_HELD_BACK_CYCLES": str(market.held_back_cycles)}
    grace = {"WALRAS_BILLING_PRICE_GRACE_MS": str(market.price_grace)}
    return [
        Service("ticker", "walras_ticker"),
        Service("intake", "walras_intake"),
        Service("capacity", "walras_capacity"),
        Service("clearing", "walras_clearing_service"),
        Service("placement", "walras_placement", held_back),
        Service("drain", "walras_drain"),
        Service("billing", "walras_billing", grace),
    ]


def agent_services(scenario: NodesScenario, folders: NodeFolders) -> list[Service]:
    """Return the agents."""
    return [_agent(node, scenario, folders) for node in scenario.nodes.names]


def _agent(node: str, scenario: NodesScenario, folders: NodeFolders) -> Service:
    own: dict[str, str | Path] = {
        "NODE": node,
        "STATE_DIRECTORY": folders.state(node),
        "CHECKPOINT_DIRECTORY": folders.checkpoints,
        "DEVICE_DIRECTORY": folders.devices(node),
        "DEVICES": str(scenario.nodes.devices),
        **AGENT_PACE,
    }
    settings = {f"WALRAS_NODE_AGENT_{name}": str(value) for name, value in own.items()}
    return Service(f"agent-{node}", AGENT_MODULE, settings)


def shared_settings(scenario: NodesScenario) -> dict[str, str]:
    """Return what all processes are told, the broker's address aside."""
    return {
        "WALRAS_MODE": "live",
        "WALRAS_PARTITIONS": str(scenario.market.partitions),
        "WALRAS_INTERVAL_MS": str(scenario.market.interval),
        "WALRAS_CYCLE_EVERY": str(scenario.market.cycle_every),
        "WALRAS_ELECTION_SESSION_MS": "2000",
    }
