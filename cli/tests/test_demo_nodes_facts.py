"""The facts of `walras demo-nodes`: a log that was falsified does not pass."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cli.tests.demo_nodes_story import (
    FREED_MS,
    WARNED_MS,
    at,
    charged,
    price,
    story,
    used,
    with_attempts,
)
from walras.demo_nodes.checking import FACTS, check, facts_document
from walras.demo_nodes.device_facts import Holding, collisions, most_at_once
from walras.demo_nodes.evidence import Evidence, PriceHistory, SavedStep
from walras.demo_nodes.journal import Attempt
from walras_contracts.drains import VacateReason
from walras_contracts.work import DrainState, LeaseOutcome, WorkClass

Falsify = Callable[[Evidence], Evidence]
NAMES = ("price", "drain", "devices", "elsewhere", "steps", "training", "billing")


def first_process(**fields: Any) -> Falsify:
    def falsify(evidence: Evidence) -> Evidence:
        first, second = evidence.journal.attempts
        return with_attempts(evidence, replace(first, **fields), second)

    return falsify


def second_process(**fields: Any) -> Falsify:
    def falsify(evidence: Evidence) -> Evidence:
        first, second = evidence.journal.attempts
        return with_attempts(evidence, first, replace(second, **fields))

    return falsify


def altered(name: str, number: int, **fields: object) -> Falsify:
    """Change fields of one event of the evidence."""

    def falsify(evidence: Evidence) -> Evidence:
        events = getattr(evidence, name)
        other = events[number].model_copy(update=fields)
        changes: dict[str, Any] = {name: (*events[:number], other, *events[number + 1 :])}
        return replace(evidence, **changes)

    return falsify


def without(name: str, number: int) -> Falsify:
    """Leave one event out of the evidence."""

    def falsify(evidence: Evidence) -> Evidence:
        events = getattr(evidence, name)
        changes: dict[str, Any] = {name: (*events[:number], *events[number + 1 :])}
        return replace(evidence, **changes)

    return falsify


def process_on(node: str) -> Attempt:
    """Return a process of another lease on a node, while the first job's runs there."""
    first = story().journal.attempts[0]
    return replace(first, attempt=9, lease="launch-2.1", node=node)


def intruding(evidence: Evidence) -> Evidence:
    first, second = evidence.journal.attempts
    return with_attempts(evidence, first, process_on("node-1"), second)


FALSIFIED: tuple[tuple[str, Falsify, str], ...] = (
    ("price", altered("prices", 1, pools=price(2, 0, 999_999).pools), "at 999999, below"),
    ("price", altered("prices", 1, pools=price(2, 0, 1_000_000).pools), "is not above"),
    ("price", altered("prices", 0, pools=price(2, 0, 1_000_001).pools), "it began at"),
    ("price", altered("prices", 3, pools=price(2, 0, 1_000_001).pools), "it went on at"),
    ("price", altered("vacates", 0, reason=VacateReason.ORDERED), "for ordered"),
    ("price", altered("vacates", 0, lease="pretrain.2"), "pretrain.2 was asked"),
    ("price", without("vacates", 0), "nobody asked"),
    ("price", without("grants", 4), "1 leases"),
    ("drain", without("drains", 3), "never was waiting"),
    ("drain", without("drains", 5), "never was freed"),
    ("drain", altered("drains", 3, at_ms=at(11_000)), "times of the drain are not in order"),
    ("drain", altered("drains", 0, state=DrainState.FREED), "states of the drain are not in order"),
    ("drain", altered("drains", 2, state=DrainState.CANCELLED), "the drain was cancelled"),
    ("drain", altered("drains", 5, outcome="forced"), "ended as forced"),
    ("drain", altered("drains", 4, session="s2"), "2 drain sessions"),
    ("drain", altered("drains", 5, at_ms=at(60_000)), "30000 are allowed"),
    ("drain", altered("statuses", 2, outcome=LeaseOutcome.FAILED), "ended as failed"),
    ("drain", altered("statuses", 2, at_ms=at(FREED_MS + 1)), "at two times"),
    ("drain", without("statuses", 2), "never freed"),
    ("devices", altered("statuses", 2, at_ms=at(13_200)), "while pretrain.1 held it"),
    ("devices", without("statuses", 2), "while pretrain.1 held it"),
    ("devices", altered("grants", 3, node="node-3"), "nobody got the devices"),
    ("devices", intruding, "while pretrain.1 held it"),
    ("devices", first_process(lease="strange.1"), "without a lease: strange.1"),
    ("elsewhere", altered("grants", 4, node="node-1"), "both leases are on node-1"),
    ("elsewhere", altered("grants", 4, attempt=1), "attempt 1 follows attempt 1"),
    ("elsewhere", second_process(node="node-3"), "ran on ['node-1', 'node-3']"),
    ("elsewhere", without("grants", 0), "1 leases"),
    ("steps", second_process(begins_after=2, steps=(3, 4, 5, 6)), "steps [3] were made twice"),
    ("steps", second_process(begins_after=4, steps=(5, 6)), "1 of 6 steps were never made"),
    ("steps", second_process(steps=(4, 6)), "are not dense"),
    ("steps", second_process(steps=(4, 5, 5, 6)), "are not dense"),
    ("steps", second_process(begins_digest="xx"), "other weights"),
    ("steps", first_process(ended=""), "ended with nothing"),
    ("steps", first_process(begins_after=1), "began after 1"),
    ("steps", lambda e: replace(e, checkpoints=(SavedStep(1, 2),)), "is of step 2"),
    ("steps", lambda e: replace(e, checkpoints=(SavedStep(2, 6),)), "is of step None"),
    ("steps", lambda e: with_attempts(e, e.journal.attempts[0]), "1 processes"),
    ("training", second_process(ended=""), "did not finish"),
    ("training", second_process(last_digest="dd"), "not those of a run in one go"),
    ("training", second_process(losses=(2.0, 2.0, 2.0)), "learned nothing"),
    ("training", with_attempts, "nothing trained"),
    ("billing", altered("usage", 2, billable=True), "billable after warning and grace"),
    ("billing", altered("usage", 1, end_ms=at(11_301)), "billable after warning and grace"),
    ("billing", altered("usage", 0, work_class=WorkClass.OPPORTUNISTIC), "no billable market"),
    ("billing", altered("usage", 0, billable=False), "no billable market"),
    ("billing", altered("usage", 1, work_class=WorkClass.MARKET), "no overhang"),
    ("billing", altered("usage", 0, end_ms=at(WARNED_MS + 5)), "not cut at the warning"),
    ("billing", altered("usage", 3, start_ms=at(26_401)), "not the billable time"),
    ("billing", altered("usage", 2, seq=3), "are not dense"),
    ("billing", altered("usage", 2, start_ms=at(11_400)), "gaps or overlaps"),
    ("billing", altered("charges", 0, amount_numerator="1"), "by prices and limit it owes"),
    ("billing", without("charges", 0), "not the billable time"),
    ("billing", altered("charges", 3, amount_numerator="5"), "not billable cost something"),
    ("billing", altered("charges", 2, end_ms=at(11_400)), "charge time after warning and grace"),
    ("billing", lambda e: replace(e, charges=(*e.charges, e.charges[0])), "charged twice"),
    ("billing", lambda e: replace(e, prices=e.prices[1:]), "no price is known"),
    ("billing", lambda e: replace(e, usage=()), "no use of it"),
    ("billing", lambda e: replace(e, drains=()), "never warned"),
)


def test_all_facts_of_a_run_that_went_well_hold() -> None:
    found = check(story())
    assert [each.name for each in found] == list(NAMES)
    assert {each.name: each.faults for each in found} == {name: [] for name in NAMES}
    document = facts_document(found, {"seconds": 1})
    assert document["holds"] is True
    assert document["facts"]["price"]["spike_micro"] == 2_999_813
    assert document["facts"]["drain"]["warned_to_saved_ms"] == 1_700
    assert document["facts"]["drain"]["warned_to_freed_ms"] == 2_300
    assert document["facts"]["steps"]["checkpoint_step"] == 3
    assert document["facts"]["billing"]["unbilled_ms"] == 1_600
    assert document["facts"]["devices"]["most_held_at_once"] == 24


@pytest.mark.parametrize(("name", "falsify", "words"), FALSIFIED)
def test_a_falsified_run_fails_the_fact_and_says_what_is_wrong(
    name: str, falsify: Falsify, words: str
) -> None:
    found = {each.name: each for each in check(falsify(story()))}
    assert any(words in fault for fault in found[name].faults), found[name].faults
    assert facts_document(list(found.values()), {})["holds"] is False


def test_every_fact_has_a_falsified_run() -> None:
    assert {name for name, _, _ in FALSIFIED} == set(NAMES)
    assert len(FACTS) == len(NAMES)


def test_a_job_may_be_sent_away_at_its_very_limit_before_the_price_is_above_it() -> None:
    """Two jobs that come in two cycles: the first one displaces it, the second one outbids."""
    evidence = story()
    first = evidence.prices[0]
    tied = price(1, 10_000, 1_000_000)
    above = price(2, 12_000, 2_999_813)
    asked = evidence.vacates[0].model_copy(update={"reason": VacateReason.QUOTA_LOST})
    prices = (first.model_copy(update={"cycle": 0}), tied, above, *evidence.prices[2:])
    found = {each.name: each for each in check(replace(evidence, prices=prices, vacates=(asked,)))}
    assert found["price"].faults == []
    assert found["price"].figures["spike_micro"] == 1_000_000
    assert found["price"].figures["peak_micro"] == 2_999_813


def test_what_a_correction_gives_back_belongs_to_the_bill() -> None:
    """A line at too high a price, and its correction, are together what is owed."""
    evidence = story()
    first = evidence.charges[0]
    amount = int(first.amount_numerator)
    wrong = first.model_copy(update={"amount_numerator": str(2 * amount)})
    mend = first.model_copy(
        update={
            "corrects": first.charge_id,
            "amount_numerator": str(-amount),
            "charge_id": "f" * 32,
        }
    )
    lines = (wrong, mend, *evidence.charges[1:])
    assert all(each.holds for each in check(replace(evidence, charges=lines)))
    assert not all(each.holds for each in check(replace(evidence, charges=lines[:1] + lines[2:])))


def test_use_that_was_told_twice_counts_once() -> None:
    evidence = story()
    again = replace(evidence, usage=(*evidence.usage, evidence.usage[0]))
    assert all(each.holds for each in check(again))


def test_what_a_start_still_pays_for_may_be_charged_or_not_yet() -> None:
    evidence = story()
    rest = used("pretrain.2", 2, (30_500, 34_500), WorkClass.MARKET, billable=True)
    told = replace(evidence, usage=(*evidence.usage, rest.model_copy(update={"running_ms": 0})))
    assert all(each.holds for each in check(told))
    rated = replace(told, charges=(*evidence.charges, *charged(rest)))
    assert all(each.holds for each in check(rated))
    unasked = replace(evidence, charges=rated.charges)
    assert {each.name for each in check(unasked) if not each.holds} == {"billing"}


def test_use_that_is_cut_more_often_is_charged_the_same() -> None:
    """As at multiples of five minutes: more records, the same bill."""
    evidence = story()
    pieces = (
        used("pretrain.2", 0, (26_400, 28_000), WorkClass.MARKET, billable=True),
        used("pretrain.2", 1, (28_000, 30_200), WorkClass.MARKET, billable=True),
        used("pretrain.2", 2, (30_200, 30_500), WorkClass.MARKET, billable=False),
    )
    usage = (*evidence.usage[:3], *pieces)
    lines = tuple(line for each in usage for line in charged(each))
    assert all(each.holds for each in check(replace(evidence, usage=usage, charges=lines)))


def test_a_device_that_is_handed_over_in_the_same_instant_was_not_held_twice() -> None:
    first = Holding("n1", 0, 10, 20, "a")
    assert collisions([first, Holding("n1", 0, 20, 30, "b")]) == []
    assert len(collisions([first, Holding("n1", 0, 19, 30, "b")])) == 1
    assert collisions([first, Holding("n1", 1, 15, 30, "b"), Holding("n2", 0, 15, 30, "c")]) == []


def test_a_device_that_is_never_freed_collides_with_all_who_come_later() -> None:
    held = [Holding("n1", 0, 10, None, "a"), Holding("n1", 0, 20, 30, "b")]
    assert len(collisions([*held, Holding("n1", 0, 40, 50, "c")])) == 2
    assert most_at_once(held) == 2


def test_prices_hold_from_their_time_on_and_nothing_is_known_before_the_first() -> None:
    history = PriceHistory(((100, 5), (200, 7)))
    assert [history.at(ms) for ms in (99, 100, 199, 200)] == [None, 5, 5, 7]
    assert history.segments(50, 250) == [(50, 100, None), (100, 200, 5), (200, 250, 7)]
