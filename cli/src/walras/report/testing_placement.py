"""Placement and drains of the tiny log: every record with what its figures are; for tests only."""

from typing import Any

from walras.report.testing_log import START, LogMaker, S

_NO_FIGURES: dict[str, Any] = dict.fromkeys(
    (
        *("usable_macc", "held_macc", "remnant_macc", "reserved_macc", "bought_macc"),
        *("unspent_macc", "opportunistic_macc", "unplaced_macc", "pending_jobs", "parked_jobs"),
        *("held_back_jobs", "unplaced_jobs", "gangs_waiting", "gang_wait_ms", "started_jobs"),
        *("started_wait_ms", "vacated_jobs", "kept_jobs", "deadline_misses"),
        "preemption_cycles_detected",
    ),
    0,
)


def put_placement(log: LogMaker) -> None:
    """Append the records of placement, agents and drains."""
    _figures(log)
    _leases(log)
    _drains(log)


def _measured(log: LogMaker, market: str, at_s: int, **figures: Any) -> None:
    body = {
        **_NO_FIGURES,
        "market": market,
        "market_time_ms": START + at_s * S,
        "rounding": "backfill",
        "unplaced": [],
        "stuck": [],
        **figures,
    }
    log.put("placement.figures", "walras.placement.measured.v1", f"{market}/{at_s // 60}", body)


def _shape(cell: str, devices: int, jobs: int, wait_s: int) -> dict[str, Any]:
    return {
        "cell": cell,
        "devices": devices,
        "jobs": jobs,
        "needed_macc": 1000 * devices * jobs,
        "longest_wait_ms": wait_s * S,
    }


def _figures(log: LogMaker) -> None:
    _measured(
        log,
        "m",
        0,
        bought_macc=8000,
        unspent_macc=3000,
        started_jobs=1,
        held_macc=5000,
        unplaced_jobs=1,
        unplaced_macc=2000,
        gangs_waiting=1,
        gang_wait_ms=0,
        unplaced=[_shape("c1", 2, 1, 0)],
    )
    _measured(
        log,
        "m",
        60,
        bought_macc=9000,
        unspent_macc=1000,
        started_jobs=1,
        started_wait_ms=60_000,
        unplaced_jobs=4,
        unplaced_macc=6000,
        gangs_waiting=2,
        gang_wait_ms=90_000,
        held_macc=8000,
        vacated_jobs=2,
        held_back_jobs=3,
        unplaced=[_shape("c1", 2, 1, 60), _shape("c1", 1, 1, 30), _shape("c2", 2, 1, 90)],
    )
    _measured(log, "n", 60, bought_macc=2000, usable_macc=7000, kept_jobs=1)
    stuck = {"reason": "waiting_for_quota", "unspent_macc": 500}
    _measured(
        log,
        "m",
        120,
        bought_macc=6000,
        unspent_macc=500,
        deadline_misses=1,
        started_jobs=1,
        rounding="release",
        stuck=[stuck],
        preemption_cycles_detected=1,
    )
    # Where the window ends: what is counted there happened before, what stands there does not.
    _measured(log, "m", 180, bought_macc=99_000, unspent_macc=99_000, started_jobs=2)


def _grant(
    log: LogMaker, key: str, size_macc: int, left_s: int | None, drainability: str = "restart"
) -> None:
    body = {
        "lease": key.partition("/")[0],
        "size_macc": size_macc,
        "drainability": drainability,
        "remaining_run_ms": None if left_s is None else left_s * S,
    }
    log.put("leases", "walras.lease.granted.v1", key, body)


def _status(
    log: LogMaker, key: str, at_s: int, left_s: int | None = None, outcome: str = ""
) -> None:
    body = {
        "state": "freed" if outcome else "running",
        "outcome": outcome,
        "at_ms": START + at_s * S,
        "remaining_run_ms": None if left_s is None else left_s * S,
    }
    log.put("lease.status", "walras.lease.status.v1", key, body)


def _leases(log: LogMaker) -> None:
    _grant(log, "l1/n1", 4000, 120, "checkpoint")
    _grant(log, "l2/n1", 2000, 600)
    _grant(log, "l2/n2", 1000, 600)
    _grant(log, "l3/n1", 2000, 300, "checkpoint")
    _grant(log, "l4/n2", 1000, 300)
    _grant(log, "l5/n2", 1000, None)
    _grant(log, "l6/n2", 1000, 90, "none")
    _grant(log, "l7/n2", 1000, 90, "none")
    _grant(log, "l2/n1", 2000, 600)  # written again: of another class
    log.put("leases", "walras.lease.granted.v1", "l1/n1", None)
    for lease, reason in (
        *(("l2", "pressure"), ("l2", "quota_lost"), ("l3", "price_above_limit")),
        *(("l4", "quota_lost"), ("l5", "cancelled")),
    ):
        body = {"lease": lease, "reason": reason}
        log.put("vacate", "walras.vacate.requested.v1", lease, body)
    log.put("vacate", "walras.vacate.withdrawn.v1", "l4", {"lease": "l4"})
    _status(log, "l1/n1", 0, 120)
    _status(log, "l1/n1", 120, 0, "finished")
    # A gang of which nothing is saved: 90 s × 3 accelerators are done again.
    _status(log, "l2/n1", 10, 600)
    _status(log, "l2/n2", 10, 600)
    _status(log, "l2/n1", 100, 600, "vacated")
    _status(log, "l2/n2", 100, 600, "vacated")
    # It ran for 60 s and saved after 50 s: 10 s × 2 accelerators.
    _status(log, "l3/n1", 20, 300)
    _status(log, "l3/n1", 80, 250, "vacated")
    _status(log, "l4/n2", 20, 300)
    # Nobody knows how long it is: 10 s × 1 accelerator.
    _status(log, "l5/n2", 20)
    _status(log, "l5/n2", 30, None, "vacated")
    _status(log, "l6/n2", 30, 90)
    _status(log, "l6/n2", 60, 90, "failed")
    _status(log, "gone/n2", 60, 90, "failed")


def _session(
    log: LogMaker,
    session: str,
    state: str,
    reason: str,
    *times_s: int,
    commanded_s: int | None = None,
    deadline_s: int | None = None,
    outcome: str = "",
    blockers: tuple[str, ...] = (),
    beyond_budget: bool = False,
) -> None:
    opened_s, changed_s = times_s
    body = {
        "session": session,
        "state": state,
        "outcome": outcome,
        "reason": reason,
        "blockers": list(blockers),
        "beyond_budget": beyond_budget,
        "opened_ms": START + opened_s * S,
        "commanded_ms": None if commanded_s is None else START + commanded_s * S,
        "deadline_ms": None if deadline_s is None else START + deadline_s * S,
        "changed_ms": START + changed_s * S,
    }
    log.put("drain.sessions", "walras.drain.session.v1", session, body)


def _said(log: LogMaker, key: str, state: str, at_s: int, outcome: str = "") -> None:
    session = key.partition("/")[0]
    body = {"session": session, "state": state, "outcome": outcome, "at_ms": START + at_s * S}
    log.put("drain.status", "walras.drain.status.v1", key, body)


def _drains(log: LogMaker) -> None:
    budget = "disruption budget of team a: 1 of 2 macc within 600 s"
    distance = "job j was drained less than 600 s ago"
    _said(log, "s1/n1", "warned", 91)
    _said(log, "s1/n1", "freed", 98)
    _said(log, "s1/n2", "freed", 100)
    _said(log, "s2/n1", "verifying", 79, "forced")
    _said(log, "s2/n1", "freed", 80, "forced")
    _said(log, "s3/n2", "cancelled", 70)
    # Held up for 30 s by the budget; 10 s of 180 s.
    _session(log, "s1", "pending", "quota_lost", 60, 60, blockers=(budget,))
    times: dict[str, Any] = {"commanded_s": 90, "deadline_s": 270}
    _session(log, "s1", "warned", "quota_lost", 60, 90, blockers=("n1: it is away",), **times)
    _session(log, "s1", "freed", "quota_lost", 60, 120, **times)
    # 10 s of 5 s.
    times = {"commanded_s": 70, "deadline_s": 75}
    _session(log, "s2", "freed", "price_above_limit", 70, 120, **times)
    times = {"commanded_s": 60, "deadline_s": 240}
    _session(log, "s3", "cancelled", "quota_lost", 60, 120, **times)
    # Held up for 60 s by the distance, then called off.
    _session(log, "s4", "pending", "pressure", 60, 60, blockers=(distance,))
    _session(log, "s4", "cancelled", "pressure", 60, 120)
    lost: dict[str, Any] = {"outcome": "agent_lost", "beyond_budget": True}
    _session(log, "s5", "failed", "pressure", 0, 120, **times, **lost)
    # Held up by one after the other, for 80 s until the window ends.
    _session(log, "s6", "pending", "pressure", 100, 120, blockers=(budget,))
    _session(log, "s6", "pending", "pressure", 100, 130, blockers=(distance,))
    log.put("drain.sessions", "walras.node.drain.v1", "node/n1", {"node": "n1"})
    log.put("drain.sessions", "walras.drain.session.v1", "s1", None)
