"""Records of leases for tests of the agent's decisions."""

from walras_contracts.demand import Drainability
from walras_contracts.runs import EnvironmentVariable, RunSpec
from walras_contracts.work import LeaseGranted, WorkClass

RUN = RunSpec(command=("true",), environment=(EnvironmentVariable(name="A", value="1"),))


def grant(
    lease: str = "l1",
    *,
    devices: tuple[int, ...] = (0,),
    parts: int = 1,
    may_start: bool = True,
    work_class: WorkClass = WorkClass.MARKET,
    drainability: Drainability = Drainability.CHECKPOINT,
    run_ms: int | None = None,
    run: RunSpec | None = RUN,
) -> LeaseGranted:
    return LeaseGranted(
        lease=lease,
        node="n1",
        part=0,
        parts=parts,
        attempt=2,
        job=f"job-{lease}",
        team="t1",
        pool="p",
        market="a",
        work_class=work_class,
        devices=devices,
        size_macc=1000 * len(devices),
        limit_micro=7,
        granted_ms=0,
        remaining_run_ms=run_ms,
        drainability=drainability,
        run=run,
        may_start=may_start,
    )
