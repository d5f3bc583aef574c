"""What a step of a demo-sized market costs each stage; shown with ``pytest -s``, never asserted."""

import random
import sys
from time import process_time_ns

from walras_billing.settings import Settings as BillingSettings
from walras_billing.wiring import build as build_billing
from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.market import MarketQuota, PoolPrice, PricePublished, QuotaGranted
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_node_agent.settings import Settings as FleetSettings
from walras_node_agent.wiring import build as build_fleet
from walras_placement.settings import Settings as PlacementSettings
from walras_placement.wiring import build as build_placement
from walras_runtime.records import Barrier, Output, Record, Step, emit
from walras_runtime.stage import Stage, StageSpec

START_MS = 1_728_000_000
MARKETS = ("a", "b", "c")
TEAMS = 30
STEPS = 30
RUNNING = 400
QUEUED = 1_500


def delivered(spec: StageSpec, stage: Stage, outputs: list[Output], number: int) -> Step:
    """Return a step that carries those outputs that the stage reads; tables are folded."""
    records: dict[str, list[Record]] = {source.topic: [] for source in spec.inputs}
    for output in outputs:
        if output.topic in records:
            event = None if output.payload is None else decode_inner(output.type, output.payload)
            record = Record(
                output.topic, 0, 0, output.key, output.type, output.payload, event, None, None
            )
            records[output.topic].append(record)
            if any(source.topic == output.topic and source.table for source in spec.inputs):
                stage.fold(record)
    return Step(Barrier(number, START_MS + number * 60_000), records)


def market(draw: random.Random, number: int) -> list[Output]:
    now_ms = START_MS + number * 60_000
    pools = tuple(
        PoolPrice(pool=f"p{i}", price_micro=10**6, weight_micro_per_hour=1, local_income_per_hour=1)
        for i in range(10)
    )
    found = [
        emit(
            PricePublished(
                market=name,
                cycle=number,
                market_time_ms=now_ms,
                reference_price_micro=10**6,
                pools=pools,
            )
        )
        for name in MARKETS
    ]
    for team in range(TEAMS):
        if number and draw.random() < 0.8:
            continue
        quotas = tuple(
            MarketQuota(
                market=name,
                allocated_macc=1000 * (13 + draw.randint(0, 1)),
                opportunistic_macc=1000 * draw.randint(0, 1),
                price_micro=10**6,
            )
            for name in MARKETS
        )
        found.append(
            emit(
                QuotaGranted(
                    team=f"t{team:02}",
                    pool=f"p{team % 10}",
                    cycle=number,
                    market_time_ms=now_ms,
                    markets=quotas,
                )
            )
        )
    return found


def start(draw: random.Random) -> list[Output]:
    found = [
        emit(
            NodePublished(
                node=f"n{number:03}",
                type=MARKETS[number % 3],
                cell="c",
                devices=8,
                macc_per_device=1000,
                owner_pool=None,
                withheld_devices=(),
                state=NodeState.ACTIVE,
            )
        )
        for number in range(156)
    ]
    for pool in range(10):
        teams = tuple(
            TeamAccount(team=f"t{team:02}", income_local_per_hour=1)
            for team in range(pool, TEAMS, 10)
        )
        document = PoolDocument(pool=f"p{pool}", weight_micro_per_hour=10**9, teams=teams)
        found.append(emit(AccountsChanged(version=1, effective_ms=START_MS, document=document)))
    for number in range(RUNNING + QUEUED):
        team = number % TEAMS
        found.append(
            emit(
                JobQueued(
                    team=f"t{team:02}",
                    pool=f"p{team % 10}",
                    job=f"j{number:05}",
                    types=tuple(draw.sample(MARKETS, draw.randint(1, 3))),
                    size_macc=1000 * draw.choice((1, 1, 2, 4, 8)),
                    gang=True,
                    limit_micro=draw.choice((None, 1_500_000, 900_000)),
                    expected_run_ms=draw.randrange(600_000, 36_000_000),
                    minimum_run_ms=0,
                    drainability=Drainability.RESTART,
                    deadline_ms=None,
                    submitted_ms=START_MS,
                    position=number,
                    revision=0,
                    cancelled=False,
                )
            )
        )
    return found


def test_the_cost_of_a_step_is_shown() -> None:
    draw = random.Random(1)
    fleet_spec = build_fleet(FleetSettings(kafka_bootstrap="none"))
    placement_spec = build_placement(PlacementSettings(kafka_bootstrap="none"))
    billing_spec = build_billing(BillingSettings(kafka_bootstrap="none"))
    partitions = load_topics()["usage"].partitions
    named: list[tuple[str, StageSpec, Stage]] = [
        ("placement", placement_spec, placement_spec.build(0)),
        ("node_agent", fleet_spec, fleet_spec.build(0)),
        *(("billing", billing_spec, billing_spec.build(p)) for p in range(partitions)),
    ]
    spent_ns: dict[str, list[int]] = {name: [] for name, _, _ in named}
    from_fleet: list[Output] = []
    leases = 0
    for number in range(STEPS):
        # Billing's partitions share one list here: each takes all usage of its turn.
        seen = from_fleet
        on_log = [*(start(draw) if number == 0 else ()), *market(draw, number), *seen]
        for index, (name, spec, stage) in enumerate(named):
            given = on_log
            if name == "billing":
                share = index - 2
                usage = [o for o in seen if o.topic == "usage"][share::partitions]
                given = [o for o in on_log if o.topic != "usage"] + usage
            step = delivered(spec, stage, given, number)
            began = process_time_ns()
            result = stage.step(step)
            spent_ns[name].append(process_time_ns() - began)
            if name == "placement":
                leases = max(leases, len({o.key for o in result.outputs if o.topic == "leases"}))
                on_log = [*on_log, *result.outputs]
            elif name == "node_agent":
                from_fleet = list(result.outputs)
    for name, costs in spent_ns.items():
        warm = sorted(costs[len(costs) // 3 :])
        sys.stdout.write(
            f"\n{name}: median {warm[len(warm) // 2] / 1e6:.2f} ms, "
            f"most {warm[-1] / 1e6:.2f} ms a step; {len(from_fleet)} records from the fleet"
        )
    assert leases > 0
