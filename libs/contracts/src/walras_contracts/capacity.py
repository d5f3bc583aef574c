"""What there is: nodes as observed, their health, the supply that markets sell."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id, Text
from walras_contracts.quantities import Count, DeviceIndex, DurationMs, Macc, MarketTimeMs, Ppm
from walras_contracts.sequences import Distinct


class NodeState(StrEnum):
    """Whether a node's devices may be sold; only those of an active one are."""

    ACTIVE = "active"
    DRAINING = "draining"
    """To be emptied: nothing starts there any more, what runs is drained."""
    OFF = "off"
    WITHHELD = "withheld"
    """Nothing starts there any more, and what runs has to leave at once."""
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
    domain: Id | None = None
    """Rack or cube whose nodes a gang may span; nodes of a cell without one are one together."""
    drain_within_ms: DurationMs = 3_600_000
    """How long the emptying of a draining node may take before it is escalated."""
    fenced: bool = False
    """The operator has made sure that nothing of what was started before runs on it any more."""

    def record_key(self) -> str:
        """Key: the node."""
        return self.node

    def partition_key(self) -> str:
        """By node."""
        return self.node


class LeaseUse(Part):
    """How busy a lease kept its devices since the last report."""

    lease: Id
    busy_ppm: Ppm


class NodeHealthReported(Event):
    """A node agent says that it lives, which devices must not be used, and how busy leases are.

    Every report is a heartbeat. A node that never had one is not expected to have any.
    """

    TYPE: ClassVar[str] = "walras.node.health.v1"
    TOPIC: ClassVar[str] = "node.health"

    node: Id
    unhealthy_devices: Annotated[tuple[DeviceIndex, ...], Field(strict=False), Distinct()]
    reported_ms: MarketTimeMs
    incarnation: Text = ""
    """Of the agent's process."""
    uses: Annotated[tuple[LeaseUse, ...], Field(strict=False), Distinct("lease")] = ()
    detail: Text = ""
    """Why devices must not be used."""

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
    domain: Id | None = None
    drain_within_ms: DurationMs = 3_600_000
    urgent: bool = False
    """Of a draining node: what cannot be drained has to leave, too."""
    lost: bool = False
    """Its agent has been silent for too long: its devices are withheld until it speaks again or an
    operator fences it."""
    fenced_ms: MarketTimeMs | None = None
    """Leases that were granted before do not run on it any more."""

    def record_key(self) -> str:
        """Key: the node."""
        return self.node

    def partition_key(self) -> str:
        """By node."""
        return self.node
