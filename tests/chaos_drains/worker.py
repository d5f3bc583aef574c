"""Entry point of a process of a run: CHAOS_ROLE says which.

Ticker, capacity, placement, drain and agents are the product's own; placement and drain take orders
to die in a gap of their step loop. The market stands for intake, clearing and billing
(`market.py`); CHAOS_PLAN is its plan as JSON.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from tests.chaos.ordered_runner import OrderedRunner
from tests.chaos_drains.market import DEVICES_VARIABLE, EVIDENCE_VARIABLE, build_market
from tests.chaos_drains.plan import Plan
from tests.chaos_drains.terms import Times
from walras_capacity.__main__ import main as capacity
from walras_drain.__main__ import main as drain
from walras_node_agent.agent.__main__ import main as agent
from walras_placement.__main__ import main as placement
from walras_runtime import service
from walras_runtime.service import service_main
from walras_runtime.settings import ServiceSettings
from walras_ticker.__main__ import main as ticker

ROLE_VARIABLE: Final = "CHAOS_ROLE"
PLAN_VARIABLE: Final = "CHAOS_PLAN"


class MarketSettings(ServiceSettings):
    """What stands for intake, clearing and billing."""

    SERVICE: ClassVar[str] = "clearing"


def market() -> None:
    """Follow the plan that the environment holds."""
    document = json.loads(os.environ[PLAN_VARIABLE])
    plan = Plan(document["seed"], 0, (), still=document["still"])
    times = Times(**document["times"])
    folders = {name: os.environ[name] for name in (EVIDENCE_VARIABLE, DEVICES_VARIABLE)}
    service_main(MarketSettings, lambda _: build_market(plan, times, folders))


MAINS: Final[Mapping[str, Callable[[], None]]] = {
    "ticker": ticker,
    "capacity": capacity,
    "market": market,
    "placement": placement,
    "drain": drain,
    "agent": agent,
}


def main() -> None:
    """Run the role that the environment names."""
    vars(service)["StepRunner"] = OrderedRunner
    MAINS[os.environ[ROLE_VARIABLE]]()


if __name__ == "__main__":
    main()
