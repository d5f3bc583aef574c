"""What the outside tells the market before it begins: accounts and nodes."""

from walras.demo_nodes.scenario import NodesScenario
from walras.jobs_log.kafka_log import open_log
from walras_contracts.accounts import (
    AccountsRequested,
    Document,
    MarketDocument,
    PlatformDocument,
    PoolDocument,
    TeamAccount,
)
from walras_contracts.capacity import NodeObserved
from walras_contracts.event import Event

SOURCE = "walras/demo-nodes"
CELL = "global"
LOCAL_INCOME = 100
"""Of the one team of a pool: any number is all of the pool."""


def pool_of(team: str) -> str:
    """Return the pool of a team; each has one of its own."""
    return f"unit-{team}"


def setup_events(scenario: NodesScenario, now_ms: int) -> list[Event]:
    """Return the documents of accounts and the nodes, observed at a market time."""
    market = scenario.market
    pools = [
        PoolDocument(
            pool=pool_of(team),
            weight_micro_per_hour=income,
            teams=(TeamAccount(team=team, income_local_per_hour=LOCAL_INCOME),),
        )
        for team, income in scenario.incomes.items()
    ]
    documents: tuple[Document, ...] = (
        PlatformDocument(drains=scenario.drains.terms()),
        MarketDocument(market=market.type, reserve_price_micro=market.reserve),
        *pools,
    )
    nodes = [
        NodeObserved(
            node=name,
            type=market.type,
            cell=CELL,
            devices=scenario.nodes.devices,
            owner_pool=None,
            observed_ms=now_ms,
        )
        for name in scenario.nodes.names
    ]
    return [*(AccountsRequested(document=document) for document in documents), *nodes]


def write_setup(bootstrap: str, events: list[Event]) -> None:
    """Write them; the topics are there.

    Raises
    ------
    JobsLogError
        The broker does not take them.
    """
    topics = sorted({event.TOPIC for event in events})
    with open_log(bootstrap, topics) as log:
        for number, event in enumerate(events):
            log.write(event, f"{SOURCE}/{number}/{event.record_key()}", SOURCE)
