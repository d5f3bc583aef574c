"""Random days with failed drains: an independent audit agrees with every credit."""

import json
import random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import (
    Bench,
    drain,
    price,
    price_gap,
    usage,
)
from services.billing.tests.charge_audit import faults
from services.billing.tests.day_properties import (
    expect_no_crash_to_show,
    expect_no_order_to_show,
    expect_the_same_from_a_replay,
)
from services.billing.tests.random_days import (
    RandomDay,
    expect_tampering_to_show,
    kinds_of,
    mixed,
)
from walras_billing.credits import drain_credits
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.work import WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

PROPERTY = settings(deadline=None, max_examples=10, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)


def a_day(seed: int, bench: Bench, *, shuffle: bool = False) -> None:
    """Forty minutes in which drains fail, prices come late or not at all, attempts overlap."""
    day = RandomDay(seed)
    draw = day.draw
    numbers: dict[tuple[str, int], int] = {}
    attempts = dict.fromkeys(("l1", "l2", "l3"), 1)
    dark = draw.randrange(5, 25)
    length = draw.choice((0, 4, 9))
    for minute in range(40):
        lag = draw.choice((0, 0, 1, 4, 9))
        if not dark <= minute < dark + length and draw.random() < 0.6:
            day.put_some_price(minute, lag)
        if minute == dark + length and length:
            gap = price_gap(dark, minute, draw.choice([*PriceGapPolicy]))
            given = [gap, price(minute, 80_003)] if draw.random() < 0.5 else [gap]
            day.put(minute + lag, *given)
        for lease in attempts:
            if draw.random() < 0.1:
                attempts[lease] += 1
            source = (lease, attempts[lease])
            number = numbers[source] = numbers.get(source, -1) + draw.choice((1, 1, 1, 2))
            record = usage(
                max(0, minute - draw.choice((0, 0, 0, 1))),
                seq=number,
                lease=lease,
                team=f"t{lease[1]}",
                macc=draw.randrange(1, 10**6),
                work_class=draw.choice((*WorkClass, WorkClass.MARKET)),
                limit=draw.choice((None, None, 80_000)),
                attempt=attempts[lease],
                billable=draw.random() < 0.9,
            )
            late = draw.choice((0, 0, 0, 2, 7))
            day.put_once_or_twice(minute + 1 + late, record)
            if draw.random() < 0.06:
                warned = max(0, minute - draw.choice((0, 1, 3)))
                failure = drain(
                    warned,
                    minute + 1,
                    lease=lease,
                    team=f"t{lease[1]}",
                    session=f"s{minute}",
                    node=draw.choice(("n", "n2")),
                )
                day.put(minute + 1 + draw.choice((0, 0, 3, 9)), failure)
    day.play(bench, 58, _mixed if shuffle else None)


def _mixed(given: list[Output], order: random.Random) -> list[Output]:
    """Return outputs in another order, save prices: of two for one time the later one counts."""
    prices = iter([output for output in given if output.topic == "prices"])
    return [next(prices) if output.topic == "prices" else output for output in mixed(given, order)]


@PROPERTY
@given(seed=SEED)
def test_an_independent_audit_agrees_with_every_charge_and_every_credit(seed: int) -> None:
    bench = Bench()
    a_day(seed, bench)

    assert faults(bench.log) == []
    state = state_digest_input(bench.log, "billing")
    wallets = [json.loads(v) for k, v in state.items() if k.split("/")[1] == "wallet"]
    held = sum(account[4] for wallet in wallets for account in wallet[1].values())
    assert held == -sum(int(credit.amount_numerator) for credit in bench.credits())


@PROPERTY
@given(seed=SEED)
def test_a_crash_before_every_step_leaves_the_same_bytes_on_every_topic(seed: int) -> None:
    expect_no_crash_to_show(a_day, seed)


@PROPERTY
@given(seed=SEED)
def test_the_order_inside_a_step_changes_no_line_and_no_state(seed: int) -> None:
    expect_no_order_to_show(a_day, seed)


@PROPERTY
@given(seed=SEED)
def test_replaying_the_inputs_into_an_empty_state_gives_the_same_bytes(seed: int) -> None:
    expect_the_same_from_a_replay(a_day, seed, look_back_ms=1_200_000)


def test_the_days_contain_all_that_they_are_meant_to_contain() -> None:
    seen: set[str] = set()
    for seed in range(12):
        bench = Bench(look_back_ms=1_200_000)
        a_day(seed, bench)
        seen |= kinds_of(bench)
        seen |= {f"{credit.reason.value} credit" for credit in bench.credits()}
        seen |= {"raised" for credit in bench.credits() if int(credit.amount_numerator) > 0}
    assert seen >= {
        *("usage", "late_price", "overlap", "raised"),
        *("drain_failed credit", "heartbeat_gap credit"),
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_build_that_forgets_to_follow_corrections_is_caught(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canary: only what was charged when the failure became known is given back."""

    def forgetful(line: Any, steps: Any, claims: Any) -> Any:
        known = {claim.barrier for claim in claims}
        return [found for found in drain_credits(line, steps, claims) if found[0] in known]

    monkeypatch.setattr("walras_billing.core.drain_credits", forgetful)
    wrong = 0
    for number in range(6):
        bench = Bench()
        a_day(6 * seed + number, bench)
        wrong += bool(faults(bench.log))
    assert wrong


@pytest.mark.parametrize("field", ["amount_numerator", "credits", "start_ms", "charge_id"])
def test_the_audit_refuses_a_credit_that_was_tampered_with(field: str) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(2, usage(0))
    bench.step(3, drain(0, 1))
    assert faults(bench.log) == []
    others = {"amount_numerator": "-17", "credits": "0" * 32, "charge_id": "1" * 32}
    expect_tampering_to_show(bench, field, others, holding="credits")
