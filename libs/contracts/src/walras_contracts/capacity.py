"""What there is: nodes as observed, their health, the supply that markets sell."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id
from walras_contracts.quantities import Count, DeviceIndex, Macc, MarketTimeMs
from walras_contracts.sequences import Distinct


class NodeState(StrEnum):
    """Whether a node's devices may be sold."""

    ACTIVE = "active"
    WITHHELD = "withheld"
    GONE = "gone"


class NodeObserved(Event):
    """An importer or an operator states what a node is.

    Ordinary changes count from the next full hour of market time, urgent ones at once.
    """

    TYPE: ClassVar[str] = "walras.node.observed.v1"
    TOPIC: ClassVar[str] = "inventory"

    node: Id
    type: Id
    cell: Id
    devices: Annotated[int, Field(strict=True, ge=1, le=100_000)]
    macc_per_device: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1000
    owner_pool: Id | None
    """The pool whose property it is; null: shared."""
    state: Annotated[NodeState, Field(strict=False)] = NodeState.ACTIVE
    urgent: bool = False
    observed_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the node."""
        return self.node

    def partition_key(self) -> str:
        """By node."""
        return self.node


class NodeHealthReported(Event):
    """A node agent says which devices must not be used."""

    TYPE: ClassVar[str] = "walras.node.health.v1"
    TOPIC: ClassVar[str] = "node.health"

    node: Id
    unhealthy_devices: Annotated[tuple[DeviceIndex, ...], Field(strict=False), Distinct()]
    reported_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the node."""
        return self.node

    def partition_key(self) -> str:
        """By node."""
        return self.node


class OwnSupply(Part):
    """What one pool owns of a type."""

    pool: Id
    macc: Macc


class SupplyPublished(Event):
    """What a market has to sell: shared, own per pool (sorted by pool), withheld."""

    TYPE: ClassVar[str] = "walras.supply.published.v1"
    TOPIC: ClassVar[str] = "supply"

    market: Id
    shared_macc: Macc
    own: Annotated[tuple[OwnSupply, ...], Field(strict=False), Distinct("pool", ordered=True)]
    withheld_macc: Macc
    market_time_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the market."""
        return self.market

    def partition_key(self) -> str:
        """By market."""
        return self.market


class NodePublished(Event):
    """A node as placement may use it."""

    TYPE: ClassVar[str] = "walras.node.published.v1"
    TOPIC: ClassVar[str] = "nodes"

    node: Id
    type: Id
    cell: Id
    devices: Count
    macc_per_device: Count
    owner_pool: Id | None
    withheld_devices: Annotated[tuple[DeviceIndex, ...], Field(strict=False), Distinct()]
    state: Annotated[NodeState, Field(strict=False)]

    def record_key(self) -> str:
        """Key: the node."""
        return self.node

    def partition_key(self) -> str:
        """By node."""
        return self.node
