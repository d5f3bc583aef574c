"""Which processes a replay needs, and their settings."""

from collections.abc import Mapping

from walras.processes import Service

BESIDE_THE_CYCLE = frozenset({"billing", "invoicing", "snapshot", "views"})
"""What the next cycle does not wait for: it gives way to the others on a machine with few cores."""
ASIDE = 5
MODULES: Mapping[str, str] = {
    "intake": "walras_intake",
    "capacity": "walras_capacity",
    "clearing": "walras_clearing_service",
    "placement": "walras_placement",
    "drain": "walras_drain",
    "node_agent": "walras_node_agent",
    "billing": "walras_billing",
    "invoicing": "walras_invoicing",
    "snapshot": "walras_snapshot",
    "views": "walras_views",
}


def replay_services(
    interval_ms: int,
    views_port: int,
    *,
    replicas: Mapping[str, int] | None = None,
    without: frozenset[str] = frozenset(),
) -> list[Service]:
    """Return the services of a replay.

    Parameters
    ----------
    interval_ms
        Market time between barriers.
    views_port
        Where the views answer over HTTP.
    replicas
        How many processes of a single leader to run; the others stand by.
    without
        Services to leave out.
    """
    settings: dict[str, dict[str, str]] = {
        "views": {"WALRAS_VIEWS_HTTP_PORT": str(views_port)},
    }
    services = []
    for name, module in MODULES.items():
        if name in without:
            continue
        count = (replicas or {}).get(name, 1)
        for index in range(count):
            label = name if count == 1 else f"{name}-{index}"
            nice = ASIDE if name in BESIDE_THE_CYCLE else 0
            own = {"WALRAS_INTERVAL_MS": str(interval_ms), **settings.get(name, {})}
            services.append(Service(label, module, own, nice))
    return services
