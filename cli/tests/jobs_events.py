"""Made events of jobs, nodes and drains, for the tests of the commands about them."""

from typing import Any

from walras_contracts.accounts import AccountsChanged, Document, PoolDocument, TeamAccount
from walras_contracts.capacity import (
    NodeHealthReported,
    NodeObserved,
    NodePublished,
    SupplyPublished,
)
from walras_contracts.demand import JobQueued, JobSubmitted
from walras_contracts.drains import DrainSessionChanged, NodeDrainChanged
from walras_contracts.market import PoolPrice, PricePublished
from walras_contracts.work import JobStatusChanged, LeaseGranted, LeaseStatusChanged

NOW_MS = 1_800_000_000_000
"""A full hour."""
HOUR_MS = 3_600_000


def submitted(job: str = "j", **more: Any) -> JobSubmitted:
    fields = {
        "team": "t",
        "job": job,
        "types": ("a100",),
        "size_macc": 8000,
        "submitted_ms": NOW_MS,
    }
    return JobSubmitted.model_validate(fields | more)


def queued(job: str = "j", **more: Any) -> JobQueued:
    entry = submitted(job).model_dump() | {
        "pool": "p",
        "position": 0,
        "revision": 0,
        "cancelled": False,
    }
    return JobQueued.model_validate(entry | more)


def status(job: str = "j", state: str = "pending", **more: Any) -> JobStatusChanged:
    fields = {
        "team": "t",
        "job": job,
        "state": state,
        "reason": "",
        "market": None,
        "lease": None,
        "work_class": None,
        "attempt": 0,
        "remaining_run_ms": None,
        "waited_ms": 0,
        "started_ms": None,
        "changed_ms": NOW_MS,
        "needed_macc": 0,
        "available_macc": 0,
    }
    return JobStatusChanged.model_validate(fields | more)


def running(job: str = "j", lease: str = "l-1", **more: Any) -> JobStatusChanged:
    fields: dict[str, Any] = {
        "market": "a100",
        "lease": lease,
        "work_class": "market",
        "attempt": 1,
        "started_ms": NOW_MS,
        "state": "running",
    }
    return status(job, **(fields | more))


def lease(node: str = "n-1", name: str = "l-1", job: str = "j", **more: Any) -> LeaseGranted:
    fields = {
        "lease": name,
        "node": node,
        "part": 0,
        "parts": 1,
        "attempt": 1,
        "job": job,
        "team": "t",
        "pool": "p",
        "market": "a100",
        "work_class": "market",
        "devices": (0, 1),
        "size_macc": 2000,
        "limit_micro": None,
        "granted_ms": NOW_MS,
        "remaining_run_ms": None,
    }
    return LeaseGranted.model_validate(fields | more)


def lease_status(node: str, state: str, name: str = "l-1", **more: Any) -> LeaseStatusChanged:
    fields = {
        "lease": name,
        "node": node,
        "team": "t",
        "job": "j",
        "state": state,
        "outcome": "",
        "remaining_run_ms": None,
        "at_ms": NOW_MS,
    }
    return LeaseStatusChanged.model_validate(fields | more)


def session(state: str, name: str = "l-1", **more: Any) -> DrainSessionChanged:
    fields = {
        "session": f"s-{name}",
        "lease": name,
        "team": "t",
        "pool": "p",
        "job": "j",
        "nodes": ("n-1",),
        "size_macc": 2000,
        "reason": "ordered",
        "state": state,
        "outcome": "",
        "blockers": (),
        "beyond_budget": False,
        "opened_ms": NOW_MS,
        "commanded_ms": NOW_MS,
        "deadline_ms": NOW_MS + 100_000,
        "changed_ms": NOW_MS,
    }
    return DrainSessionChanged.model_validate(fields | more)


def node(name: str = "n-1", **more: Any) -> NodePublished:
    fields = {
        "node": name,
        "type": "a100",
        "cell": "c-1",
        "devices": 8,
        "macc_per_device": 1000,
        "owner_pool": None,
        "withheld_devices": (),
        "state": "active",
    }
    return NodePublished.model_validate(fields | more)


def observed(name: str = "n-1", **more: Any) -> NodeObserved:
    fields = {
        "node": name,
        "type": "a100",
        "cell": "c-1",
        "devices": 8,
        "owner_pool": None,
        "observed_ms": NOW_MS,
    }
    return NodeObserved.model_validate(fields | more)


def health(name: str = "n-1", **more: Any) -> NodeHealthReported:
    fields = {"node": name, "unhealthy_devices": (), "reported_ms": 1}
    return NodeHealthReported.model_validate(fields | more)


def node_drain(state: str, name: str = "n-1", **more: Any) -> NodeDrainChanged:
    fields = {
        "node": name,
        "state": state,
        "leases": 1,
        "blockers": (),
        "since_ms": NOW_MS,
        "deadline_ms": NOW_MS + HOUR_MS,
        "changed_ms": NOW_MS,
    }
    return NodeDrainChanged.model_validate(fields | more)


def supply(market: str = "a100") -> SupplyPublished:
    return SupplyPublished(
        market=market, shared_macc=8000, own=(), withheld_macc=0, market_time_ms=NOW_MS
    )


def prices(cycle: int, at_ms: int, market: str = "a100", **pools: int | None) -> PricePublished:
    return PricePublished(
        market=market,
        cycle=cycle,
        market_time_ms=at_ms,
        reference_price_micro=None,
        pools=tuple(
            PoolPrice(
                pool=pool, price_micro=price, weight_micro_per_hour=1, local_income_per_hour=1
            )
            for pool, price in sorted(pools.items())
        ),
    )


def changed(document: Document, version: int = 1, effective_ms: int = 0) -> AccountsChanged:
    return AccountsChanged(version=version, effective_ms=effective_ms, document=document)


def pool(*teams: str, name: str = "p", queue_order: str = "position") -> PoolDocument:
    return PoolDocument.model_validate(
        {
            "pool": name,
            "weight_micro_per_hour": 1,
            "teams": tuple(
                TeamAccount.model_validate(
                    {"team": team, "income_local_per_hour": 1, "queue_order": queue_order}
                )
                for team in teams
            ),
        }
    )
