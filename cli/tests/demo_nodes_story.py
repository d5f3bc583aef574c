"""A run of the demo of nodes as its log and journals would tell it, all facts holding."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from walras.demo_nodes.evidence import Evidence, SavedStep
from walras.demo_nodes.journal import Attempt, TrainingJournal
from walras.demo_nodes.scenario import NodesScenario, load_nodes_scenario
from walras_contracts.charges import ChargeRated, ChargeReason
from walras_contracts.drains import VacateReason, VacateRequested
from walras_contracts.market import PoolPrice, PricePublished
from walras_contracts.quantities import PPM
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
    WorkClass,
)

SCENARIO_FILE: Final = Path(__file__).parents[2] / "scenarios" / "price_spike.toml"
START_MS: Final = 1_800_000_000_000
MARKET: Final = "sim-gpu"
POOL: Final = "unit-vision"
LIMIT_MICRO: Final = 1_000_000
SIZE_MACC: Final = 8_000
PRICES: Final = ((0, 200_000), (10_000, 2_999_813), (20_000, 1_000_000), (26_000, 200_000))
WARNED_MS: Final = 10_300
FREED_MS: Final = 12_600


def scenario() -> NodesScenario:
    """Return the scenario of the checkout, with six steps for the first job."""
    found = load_nodes_scenario(SCENARIO_FILE)
    first = found.jobs[0].model_copy(update={"steps": 6})
    return found.model_copy(update={"jobs": (first, *found.jobs[1:])})


def at(ms: int) -> int:
    return START_MS + ms


def price(cycle: int, from_ms: int, micro: int) -> PricePublished:
    pools = (
        PoolPrice(
            pool=POOL,
            price_micro=micro,
            weight_micro_per_hour=20_000_000,
            local_income_per_hour=100,
        ),
    )
    return PricePublished(
        market=MARKET,
        cycle=cycle,
        market_time_ms=at(from_ms),
        reference_price_micro=micro,
        pools=pools,
    )


def grant(lease: str, team: str, node: str, granted_ms: int, attempt: int = 1) -> LeaseGranted:
    return LeaseGranted(
        lease=lease,
        node=node,
        part=0,
        parts=1,
        attempt=attempt,
        job=lease.partition(".")[0],
        team=team,
        pool=f"unit-{team}",
        market=MARKET,
        work_class=WorkClass.MARKET,
        devices=tuple(range(8)),
        size_macc=SIZE_MACC,
        limit_micro=LIMIT_MICRO,
        granted_ms=at(granted_ms),
        remaining_run_ms=None,
    )


def life(
    granted: LeaseGranted, running_ms: int, freed_ms: int, outcome: LeaseOutcome
) -> list[LeaseStatusChanged]:
    """Return accepted, running and freed of a lease."""
    told = (
        (LeaseState.ACCEPTED, LeaseOutcome.NONE, running_ms - 200, None),
        (LeaseState.RUNNING, LeaseOutcome.NONE, running_ms, None),
        (LeaseState.FREED, outcome, freed_ms, 0),
    )
    return [
        LeaseStatusChanged(
            lease=granted.lease,
            node=granted.node,
            team=granted.team,
            job=granted.job,
            state=state,
            outcome=outcome_of,
            remaining_run_ms=None,
            at_ms=at(at_ms),
            exit_code=code,
        )
        for state, outcome_of, at_ms, code in told
    ]


def drained(state: DrainState, at_ms: int) -> DrainStatusChanged:
    return DrainStatusChanged(
        session="s1",
        lease="pretrain.1",
        node="node-1",
        team="vision",
        pool=POOL,
        job="pretrain",
        state=state,
        outcome="",
        warned_ms=at(WARNED_MS),
        at_ms=at(at_ms),
    )


def used(
    lease: str, seq: int, span: tuple[int, int], work_class: WorkClass, *, billable: bool
) -> UsageMetered:
    number = int(lease.partition(".")[2])
    return UsageMetered(
        lease=lease,
        node=f"node-{number}",
        attempt=number,
        seq=seq,
        team="vision",
        pool=POOL,
        job="pretrain",
        market=MARKET,
        quantity_macc=SIZE_MACC,
        start_ms=at(span[0]),
        end_ms=at(span[1]),
        work_class=work_class,
        billable=billable,
        limit_micro=LIMIT_MICRO,
        tariff_ppm=PPM,
    )


def charged(usage: UsageMetered) -> list[ChargeRated]:
    """Return the charge lines of a usage record: one for each price."""
    borders = [at(from_ms) for from_ms, _ in PRICES if usage.start_ms < at(from_ms) < usage.end_ms]
    edges = [usage.start_ms, *borders, usage.end_ms]
    lines = []
    for start_ms, end_ms in pairwise(edges):
        in_force = [micro for from_ms, micro in PRICES if at(from_ms) <= start_ms][-1]
        micro = min(in_force, LIMIT_MICRO) if usage.billable else 0
        lines.append(
            ChargeRated(
                **usage.model_dump(
                    exclude={"running_ms", "busy_ms", "start_ms", "end_ms"}, mode="python"
                ),
                start_ms=start_ms,
                end_ms=end_ms,
                prices_until_ms=end_ms + 3_000,
                charge_id=f"{start_ms:032x}",
                corrects=None,
                reason=ChargeReason.USAGE,
                price_micro=micro,
                previous_price_micro=None,
                price_barrier=1,
                amount_numerator=str(micro * PPM * SIZE_MACC * (end_ms - start_ms)),
            )
        )
    return lines


def attempt(number: int, first_ms: int, last_ms: int) -> Attempt:
    steps = (1, 2, 3) if number == 1 else (4, 5, 6)
    return Attempt(
        attempt=number,
        lease=f"pretrain.{number}",
        node=f"node-{number}",
        devices=tuple(range(8)),
        begins_after=steps[0] - 1,
        begins_ms=at(first_ms),
        begins_digest="aa" if number == 1 else "bb",
        ended="leaves" if number == 1 else "finished",
        ends_ms=at(last_ms),
        steps=steps,
        losses=tuple(1.0 / step for step in steps),
        saved=(steps[-1],),
        last_digest="bb" if number == 1 else "cc",
    )


def story() -> Evidence:
    """Return a run in which all facts hold."""
    grants = (
        grant("pretrain.1", "vision", "node-1", 2_000),
        grant("finetune.1", "speech", "node-2", 2_000),
        grant("launch-1.1", "search", "node-3", 10_000),
        grant("launch-2.1", "search", "node-1", 13_000),
        grant("pretrain.2", "vision", "node-2", 26_000, attempt=2),
    )
    lives = (
        (2_300, FREED_MS, LeaseOutcome.VACATED),
        (2_300, 25_000, LeaseOutcome.FINISHED),
        (10_300, 22_000, LeaseOutcome.FINISHED),
        (13_300, 29_000, LeaseOutcome.FINISHED),
        (26_400, 30_500, LeaseOutcome.FINISHED),
    )
    usage = (
        used("pretrain.1", 0, (2_300, WARNED_MS), WorkClass.MARKET, billable=True),
        used("pretrain.1", 1, (WARNED_MS, 11_300), WorkClass.OVERHANG, billable=True),
        used("pretrain.1", 2, (11_300, FREED_MS), WorkClass.OVERHANG, billable=False),
        used("pretrain.2", 0, (26_400, 30_200), WorkClass.MARKET, billable=True),
        used("pretrain.2", 1, (30_200, 30_500), WorkClass.MARKET, billable=False),
    )
    played = scenario()
    journals = {job.key: TrainingJournal() for job in played.jobs}
    journals["vision/pretrain"] = TrainingJournal(
        (attempt(1, 2_350, 12_000), attempt(2, 26_450, 30_100))
    )
    drain = (
        (DrainState.WARNED, WARNED_MS),
        (DrainState.CHECKPOINTING, 10_400),
        (DrainState.CHECKPOINTING, 11_400),
        (DrainState.WAITING, 12_000),
        (DrainState.VERIFYING, 12_200),
        (DrainState.FREED, FREED_MS),
    )
    asked = VacateRequested(
        lease="pretrain.1",
        job="pretrain",
        team="vision",
        reason=VacateReason.PRICE_ABOVE_LIMIT,
        requested_ms=at(10_000),
    )
    return Evidence(
        scenario=played,
        prices=tuple(price(n + 1, from_ms, micro) for n, (from_ms, micro) in enumerate(PRICES)),
        vacates=(asked,),
        grants=grants,
        statuses=tuple(
            status
            for granted, times in zip(grants, lives, strict=True)
            for status in life(granted, *times)
        ),
        drains=tuple(drained(*each) for each in drain),
        usage=usage,
        charges=tuple(line for each in usage for line in charged(each)),
        credits=(),
        journals=journals,
        checkpoints=(SavedStep(2, 6), SavedStep(1, 3)),
        digest_in_one_go="cc",
    )


def with_attempts(evidence: Evidence, *attempts: Attempt) -> Evidence:
    """Return the run with other processes of the first job."""
    journals = {**evidence.journals, "vision/pretrain": TrainingJournal(attempts)}
    return replace(evidence, journals=journals)
