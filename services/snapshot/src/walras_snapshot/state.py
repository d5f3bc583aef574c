"""What the snapshot remembers: the latest quotas and supplies, and the pools' documents."""

from dataclasses import dataclass, field

from walras_contracts.accounts import AccountsChanged, PoolDocument
from walras_contracts.capacity import SupplyPublished
from walras_contracts.market import QuotaGranted


@dataclass(slots=True)
class SnapshotState:
    """Quotas by team, supply by market, and per pool its documents in the order of versions."""

    quotas: dict[str, QuotaGranted] = field(default_factory=dict)
    supplies: dict[str, SupplyPublished] = field(default_factory=dict)
    pools: dict[str, list[AccountsChanged]] = field(default_factory=dict)

    def pools_at(self, market_time_ms: int) -> list[PoolDocument]:
        """Return the documents in effect at a market time (ms), by pool id.

        A pool whose first document is not in effect yet is left out.
        """
        documents = []
        for pool in sorted(self.pools):
            due = [c.document for c in self.pools[pool] if c.effective_ms <= market_time_ms]
            if due and isinstance(due[-1], PoolDocument):
                documents.append(due[-1])
        return documents

    def forget_replaced(self, market_time_ms: int) -> None:
        """Drop the documents that a later one has replaced at a market time (ms)."""
        for versions in self.pools.values():
            due = sum(1 for change in versions if change.effective_ms <= market_time_ms)
            if due > 1:
                del versions[: due - 1]
