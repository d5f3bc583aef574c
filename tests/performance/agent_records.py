"""Leases and drain commands for the agent that is measured."""

from collections.abc import Sequence
from typing import Final

from tests.performance.agent_process import NODE
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand, DrainCommanded, VacateReason
from walras_contracts.runs import RunSpec
from walras_contracts.work import LeaseGranted, WorkClass
from walras_runtime.records import Output, emit, tombstone

TEAM: Final = "bench"
WARNING_MS: Final = 60_000
TERMINATE_MS: Final = 30_000
VERIFY_MS: Final = 10_000


def granted(lease: str, device: int, command: Sequence[str]) -> Output:
    """Return the record of a lease of one device, of the job of the same name."""
    return emit(
        LeaseGranted(
            lease=lease,
            node=NODE,
            part=0,
            parts=1,
            attempt=1,
            job=lease,
            team=TEAM,
            pool="bench",
            market="a100",
            work_class=WorkClass.MARKET,
            devices=(device,),
            size_macc=1000,
            limit_micro=None,
            granted_ms=0,
            remaining_run_ms=None,
            drainability=Drainability.CHECKPOINT,
            run=RunSpec(command=tuple(command)),
        )
    )


def must_leave(lease: str) -> Output:
    """Return the command that begins the drain of a lease, with the platform's default times."""
    return emit(
        DrainCommanded(
            session=f"{lease}-session",
            lease=lease,
            node=NODE,
            team=TEAM,
            pool="bench",
            job=lease,
            command=DrainCommand.DRAIN,
            reason=VacateReason.QUOTA_LOST,
            commanded_ms=0,
            warning_ms=WARNING_MS,
            terminate_ms=TERMINATE_MS,
            verify_ms=VERIFY_MS,
            deadline_ms=WARNING_MS + TERMINATE_MS + VERIFY_MS,
            billing_grace_ms=10_000,
        )
    )


def over(lease: str) -> list[Output]:
    """Return the ends of the records of a lease that is freed."""
    key = f"{lease}/{NODE}"
    return [tombstone(LeaseGranted, key, NODE), tombstone(DrainCommanded, key, NODE)]
