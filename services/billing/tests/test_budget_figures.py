"""An independent count of what use in the running windows costs agrees with all budgets."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import MINUTE_MS, START_MS, Bench, price, usage
from services.billing.tests.ledger_audit import Document, payloads
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    PoolDocument,
    TeamAccount,
    TeamBudget,
)
from walras_contracts.identifiers import partition_of
from walras_contracts.money import BudgetPublished
from walras_runtime.records import Output, emit

PROPERTY = settings(deadline=None, max_examples=8, phases=(Phase.explicit, Phase.generate))
HOUR, DAY = BillingPeriod.HOUR, BillingPeriod.DAY
NUMERATORS = 36 * 10**14


def limit(micro: int, window: BillingPeriod = HOUR, **more: Any) -> TeamBudget:
    return TeamBudget(window=window, limit_micro=micro, **more)


def life(seed: int, bench: Bench) -> Bench:
    """Two hours of use in several leases, with late prices and late use."""
    draw = random.Random(seed)
    kinds = (HOUR, DAY)
    bench.step(0, document(draw, 0, 1, kinds), price(0, 70_001))
    number: dict[str, int] = defaultdict(int)
    held: list[Output] = []
    for minute in range(1, 82):
        given, held = held, []
        for lease in ("l1", "l2", "l3"):
            if draw.random() < 0.6:
                output = usage(
                    minute - 1,
                    seq=number[lease],
                    lease=lease,
                    team=f"t{lease[1]}",
                    macc=draw.randrange(1, 10**5),
                    limit=draw.choice((None, 80_000, 0)),
                )
                number[lease] += 1
                (held if draw.random() < 0.1 else given).append(output)
        if draw.random() < 0.5:
            back = draw.randrange(0, min(minute, 9) + 1)
            given.append(price(minute - back, draw.choice((None, 0, 70_001, 99_991))))
        if minute % 5 == 3 and draw.random() < 0.2:
            given.append(document(draw, minute + 2, minute, kinds))
        bench.step(minute, *given)
    return bench


def document(
    draw: random.Random, minute: int, version: int, kinds: tuple[BillingPeriod, ...]
) -> Output:
    teams = tuple(
        TeamAccount(
            team=team,
            income_local_per_hour=draw.choice((0, 1, 1)),
            budgets=tuple(
                limit(draw.choice((1, 40_000, 10**6)), kind, hard_stop=draw.random() < 0.8)
                for kind in kinds
                if draw.random() < 0.8
            ),
        )
        for team in ("t1", "t2", "t3")
    )
    body = PoolDocument(pool="p", weight_micro_per_hour=10**6, teams=teams)
    effective_ms = START_MS + minute * MINUTE_MS
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=body))


def differences(bench: Bench) -> Iterator[str]:
    """Yield where a published budget is not what charges, usage and prices before it say."""
    log = bench.log
    prices = payloads(log, "prices", 0)
    for partition in log.partitions("usage"):
        times = [e.barrier.market_time_ms for e in log.read("usage", partition, 0) if e.barrier]
        charges, used = payloads(log, "charges", partition), payloads(log, "usage", partition)
        budgets = payloads(log, "budgets", partition)
        for step, now_ms in enumerate(times):
            known = [line for lines in charges[: step + 1] for line in lines]
            uses = {(u["lease"], u["seq"]): u for us in used[: step + 1] for u in us}
            newest = [p for of_step in prices[: step + 1] for p in of_step]
            for record in budgets[step]:
                for state in record["budgets"]:
                    team = record["team"]
                    total = charged(team, state, known)
                    in_force = [p for p in newest if p["market_time_ms"] <= now_ms]
                    expected = total + coming(team, state, known, uses, in_force)
                    if state["spent_micro"] != round(expected):
                        yield f"{step} {record['team']} {state}: {expected}"
                over = {
                    s["window"]
                    for s in record["budgets"]
                    if s["hard_stop"] and s["spent_micro"] >= s["limit_micro"]
                }
                if record["reason"] != "wallet" and record["exhausted"] != bool(over):
                    yield f"{step} {record['team']}: {record['reason']} but {over} is used up"


def charged(team: str, state: Document, charges: list[Document]) -> Fraction:
    """Return what the charge lines say of a window's use."""
    total = Fraction(0)
    for line in charges:
        inside = min(line["end_ms"], state["end_ms"]) - max(line["start_ms"], state["start_ms"])
        if line["team"] == team and inside > 0:
            length = line["end_ms"] - line["start_ms"]
            total += Fraction(int(line["amount_numerator"]) * inside, length * NUMERATORS)
    return total


def coming(
    team: str,
    state: Document,
    charges: list[Document],
    uses: dict[tuple[str, int], Document],
    prices: list[Document],
) -> Fraction:
    """Return what the use costs that no charge line is for yet, at the last of the prices."""
    rated: dict[tuple[str, int], int] = defaultdict(int)
    for line in charges:
        known_before = line["previous_price_micro"] is not None
        now_known = line["price_micro"] is not None
        length = line["end_ms"] - line["start_ms"]
        rated[line["lease"], line["seq"]] += (now_known - known_before) * length
    newest = max(enumerate(prices), key=lambda item: (item[1]["market_time_ms"], item[0]))[1]
    price_micro = {p["pool"]: p["price_micro"] for p in newest["pools"]}["p"]
    total = Fraction(0)
    for key, use in uses.items():
        rest_ms = use["end_ms"] - use["start_ms"] - rated[key]
        begins_inside = state["start_ms"] <= use["start_ms"] < state["end_ms"]
        if use["team"] != team or not begins_inside or price_micro is None:
            continue
        limit_micro = use["limit_micro"]
        capped = price_micro if limit_micro is None else min(price_micro, limit_micro)
        weight = use["tariff_ppm"] * use["quantity_macc"] * rest_ms
        total += Fraction(capped * weight, NUMERATORS)
    return total


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1))
def test_budgets_stand_at_what_an_independent_count_of_the_log_says(seed: int) -> None:
    bench = life(seed, Bench())

    assert [*differences(bench)] == []
    assert any(record.budgets for record in bench.events("budgets", BudgetPublished))


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1))
def test_a_crash_before_every_step_leaves_the_same_log(seed: int) -> None:
    assert life(seed, Bench(crash=True)).log.entries == life(seed, Bench()).log.entries


def test_a_budget_that_is_off_by_one_is_noticed() -> None:
    """The canary of the count."""
    bench = life(1, Bench())
    partition = partition_of("t1", len(bench.log.partitions("budgets")))
    held = bench.log.entries["budgets", partition]
    at_index = max(
        i for i, e in enumerate(held) if e.payload is not None and b'"spent_micro"' in e.payload
    )
    body = json.loads(held[at_index].payload or b"")
    body["budgets"][0]["spent_micro"] += 1
    held[at_index] = replace(held[at_index], payload=json.dumps(body).encode())

    assert len([*differences(bench)]) >= 1
