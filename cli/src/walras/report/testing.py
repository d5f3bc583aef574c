"""A log small enough to compute every figure of its report by hand; for tests only."""

from walras.report.records import RunContext
from walras.report.testing_log import START, Log, LogMaker, S
from walras.report.testing_placement import put_placement

__all__ = ["CONTEXT", "START", "Log", "LogMaker", "S", "tiny_log"]

CONTEXT = RunContext(
    scenario="tiny",
    title="A tiny <market> & its log",
    seed=5,
    hours=1,
    start_ms=START,
    end_ms=START + 3_600 * S,
    interval_ms=60 * S,
    real=("arrivals",),
    invented=("limits & <teams>",),
    trace={"file": "none"},
    trace_facts={"jobs_replayed": 5, "mean_load_milli_accelerators": 1500},
    devices_by_type={"m": 10},
    pool_of_team={"a": "k1", "b": "k2", "c": "k2"},
)


def _usage(
    log: LogMaker,
    team: str,
    macc: int,
    from_s: int,
    to_s: int,
    *,
    work_class: str = "market",
    billable: bool = True,
    limit: int | None = None,
) -> None:
    log.put(
        "usage",
        "walras.usage.metered.v1",
        f"{team}/{from_s}",
        {
            "team": team,
            "pool": {"a": "k1", "b": "k2"}[team],
            "market": "m",
            "quantity_macc": macc,
            "start_ms": START + from_s * S,
            "end_ms": START + to_s * S,
            "work_class": work_class,
            "billable": billable,
            "limit_micro": limit,
            "tariff_ppm": 1_000_000,
        },
    )


def _entry(log: LogMaker, kind: str, team: str, boundary_s: int, wallet_micro: int) -> None:
    pool = {"a": "k1", "b": "k2"}[team]
    counter = "mint" if kind == "income" else "revenue"
    log.put(
        "ledger",
        "walras.ledger.posted.v1",
        f"{kind}/{team}/{boundary_s}",
        {
            "kind": kind,
            "team": team,
            "pool": pool,
            "boundary_ms": START + boundary_s * S,
            "lines": [
                {"account": f"{counter}/{pool}", "amount_micro": -wallet_micro},
                {"account": f"wallet/{team}", "amount_micro": wallet_micro},
            ],
        },
    )


def _charge(
    log: LogMaker,
    job: str,
    macc: int,
    seconds: tuple[int, int],
    price: int,
    *,
    kind: str = "walras.charge.rated.v1",
    work_class: str = "market",
    corrects: str | None = None,
    reason: str = "usage",
) -> None:
    """Append a charge line; the price of a correction or a credit is the difference."""
    team = {"j1": "a", "j2": "a", "j3": "b", "j4": "b"}[job]
    from_s, to_s = seconds
    log.put(
        "charges",
        kind,
        f"{job}/{from_s}/{reason}",
        {
            "team": team,
            "job": job,
            "market": "m",
            "quantity_macc": macc,
            "start_ms": START + from_s * S,
            "end_ms": START + to_s * S,
            "corrects": corrects,
            "reason": reason,
            "billable": True,
            "work_class": work_class,
            "amount_numerator": str(price * 1_000_000 * macc * (to_s - from_s) * S),
        },
    )


def _status(
    log: LogMaker, key: str, state: str, at_s: int, waited_s: int, *, reason: str = ""
) -> None:
    log.put(
        "job.status",
        "walras.job.status.v1",
        key,
        {
            "team": key.split("/", maxsplit=1)[0],
            "state": state,
            "reason": reason,
            "waited_ms": waited_s * S,
            "changed_ms": START + at_s * S,
        },
    )


def _market(log: LogMaker) -> None:
    log.put(
        "supply",
        "walras.supply.published.v1",
        "m",
        {
            "market": "m",
            "shared_macc": 6000,
            "own": [{"pool": "k1", "macc": 4000}],
            "withheld_macc": 7000,
            "market_time_ms": START,
        },
    )
    prices = [(0, 0, 0), (2_000_000, 1_000_000, 2_000_000), (3_000_000, 1_500_000, 3_000_000)]
    for cycle, (reference, k1, k2) in enumerate(prices):
        time_ms = START + cycle * 60 * S
        log.put(
            "prices",
            "walras.price.published.v1",
            "m",
            {
                "market": "m",
                "cycle": cycle,
                "market_time_ms": time_ms,
                "reference_price_micro": reference,
                "pools": [
                    {"pool": "k1", "price_micro": k1},
                    {"pool": "k2", "price_micro": k2},
                ],
            },
        )
        log.put("cycles", "walras.cycle.recorded.v1", f"m/{cycle}", {"whatever": cycle})
        log.put(
            "cycles",
            "walras.cycle.summarised.v1",
            f"m/{cycle}",
            {
                "market": "m",
                "state": "cleared",
                "market_time_ms": time_ms,
                "demand_macc": 8000 + cycle,
            },
        )
        log.put("quotas", "walras.quota.granted.v1", "a", {"cycle": cycle})
        stamp_ms = 1000 * (cycle + 1)
        log.barrier("demand", cycle, stamp_ms + 5)
        log.barrier("demand", cycle, stamp_ms, partition=1)
    log.barrier("quotas", 0, 1050)
    log.barrier("quotas", 1, 2070, walras_previous_commit_ms=b"1040")
    log.barrier("quotas", 2, 3050, walras_previous_commit_ms=b"2100")


def _demand_and_jobs(log: LogMaker) -> None:
    sizes = {"a/j1": 4000, "a/j2": 1000, "b/j3": 2000, "b/j4": 1000, "b/j5": 1000}
    for key, size in sizes.items():
        body = {"team": key[0], "size_macc": size}
        log.put("demand", "walras.job.submitted.v1", key, body)
    log.put("demand", "walras.job.submitted.v1", "b/j6", b"\xff not JSON")
    log.put("demand", "walras.job.cancelled.v1", "b/j7", {})
    _status(log, "a/j1", "running", 0, 0)
    _status(log, "a/j2", "pending", 0, 0, reason="waiting_for_quota")
    _status(log, "b/j3", "pending", 0, 0, reason="waiting_for_quota")
    _status(log, "b/j4", "pending", 30, 0, reason="waiting_for_quota")
    _status(log, "b/j3", "running", 60, 60)
    _status(log, "b/j5", "pending", 60, 0, reason="price_above_limit")
    _status(log, "a/j1", "finished", 120, 0)
    log.put("job.status", "walras.job.status.v1", "a/j1", None)
    _status(log, "b/j4", "running", 120, 90)
    _status(log, "a/j2", "running", 170, 170)


def _work_and_money(log: LogMaker) -> None:
    _usage(log, "a", 4000, 0, 60)
    _usage(log, "a", 4000, 60, 120)
    _usage(log, "b", 2000, 60, 180, limit=2_500_000)
    _usage(log, "b", 1000, 120, 180, work_class="opportunistic")
    _usage(log, "a", 1000, 120, 130, work_class="overhang", billable=False)
    _usage(log, "a", 1000, 170, 190)  # cut at 180 s, where the window ends
    for boundary_s, team, earned, spent in (
        (0, "a", 1, 1),
        (300, "a", 3_000_000, 70_000),
        (300, "b", 1_000_000, 150_000),
    ):
        log.put(
            "balances",
            "walras.balance.published.v1",
            team,
            {
                "pool": "k1" if team == "a" else "k2",
                "boundary_ms": START + boundary_s * S,
                "wallet_micro": earned - spent,
                "earned_micro": earned,
                "spent_micro": spent,
                "credited_micro": 0,
                "expired_micro": 0,
            },
        )
    _entry(log, "income", "a", 0, 1)
    _entry(log, "usage", "a", 0, -1)
    _entry(log, "income", "a", 300, 2_999_999)
    _entry(log, "usage", "a", 300, -69_999)
    _entry(log, "income", "b", 300, 1_000_000)
    _entry(log, "usage", "b", 300, -150_000)
    _charge(log, "j1", 4000, (0, 60), 0)
    _charge(log, "j1", 4000, (60, 120), 1_000_000)
    _charge(log, "j2", 1000, (170, 190), 1_500_000)
    _charge(log, "j3", 2000, (60, 120), 2_000_000)
    _charge(log, "j3", 2000, (120, 180), 2_500_000)
    _charge(log, "j4", 1000, (120, 180), 0, work_class="opportunistic")
    _charge(log, "j3", 2000, (120, 180), -500_000, corrects="j3", reason="late_price")
    _charge(log, "j1", 4000, (90, 120), -1_000_000, corrects="j1", reason="overlap")
    _charge(log, "j3", 2000, (150, 180), -2_000_000, kind="walras.charge.credited.v1")


def tiny_log() -> Log:
    """Return three minutes of one market with two pools."""
    log = LogMaker()
    _market(log)
    _demand_and_jobs(log)
    _work_and_money(log)
    put_placement(log)
    return log.topics
