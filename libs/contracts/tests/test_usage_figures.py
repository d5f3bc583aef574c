"""How use was measured: figures that never cost a record, and sums that must add up."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from walras_contracts.edge import decode_edge
from walras_contracts.registry import UndecodableError, decode_inner
from walras_contracts.rejections import Rejection
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import UsageMetered

USE: dict[str, Any] = {
    "lease": "l",
    "node": "n",
    "attempt": 0,
    "seq": 0,
    "team": "t",
    "pool": "p",
    "job": "j",
    "market": "m",
    "quantity_macc": 1,
    "start_ms": 0,
    "end_ms": 10,
    "work_class": "market",
    "billable": True,
    "limit_micro": None,
    "tariff_ppm": 1,
}
SETTLED: dict[str, Any] = {
    "team": "t",
    "pool": "p",
    "job": "j",
    "market": "m",
    "boundary_ms": 300_000,
    "settled_ms": 300_000,
    "held_macc_ms": "10",
    "occupied_macc_ms": "4",
    "allocated_macc_ms": "3",
    "idle_macc_ms": "2",
    "unmeasured_macc_ms": "1",
}
WRONG = [-1, 2**63, 1.0, "7", True, [], {"a": None}]
FIGURES = pytest.mark.parametrize("name", ["running_ms", "busy_ms"])


def inside(document: dict[str, Any]) -> UsageMetered:
    event = decode_inner(UsageMetered.TYPE, json.dumps(document).encode())
    assert isinstance(event, UsageMetered)
    return event


def test_a_record_without_figures_is_one_whose_time_was_not_measured() -> None:
    event = inside(USE)
    assert (event.running_ms, event.busy_ms) == (None, None)
    assert inside({**USE, "running_ms": None, "busy_ms": None}) == event


@FIGURES
@pytest.mark.parametrize("figure", WRONG, ids=str)
def test_inside_a_wrong_figure_is_read_as_not_measured_and_at_the_edge_it_is_refused(
    name: str, figure: object
) -> None:
    document = {**USE, "running_ms": 7, "busy_ms": 5, name: figure}
    event = inside(document)
    assert event == inside({**document, name: None})

    payload = json.dumps(document).encode()
    refused = decode_edge(UsageMetered.TYPE, "i", "s", payload, frozenset({UsageMetered.TYPE}))
    assert isinstance(refused, Rejection)
    assert refused.path == f"$.{name}"


@FIGURES
def test_figures_that_contradict_the_interval_are_read_as_they_are(name: str) -> None:
    """Whoever uses them has to look: a contradiction between fields refuses no record."""
    assert getattr(inside({**USE, "running_ms": 99, "busy_ms": 100}), name) in {99, 100}


@pytest.mark.parametrize("name", ["seq", "end_ms", "tariff_ppm"])
def test_no_other_wrong_field_is_forgiven(name: str) -> None:
    with pytest.raises(UndecodableError):
        inside({**USE, name: -1})


def test_parts_of_held_time_may_be_below_nothing_but_sum_to_it() -> None:
    less = {name: f"-{value}" for name, value in SETTLED.items() if name.endswith("_macc_ms")}
    assert UsageSettled(**{**SETTLED, **less}).held_macc_ms == "-10"
    for name in less:
        with pytest.raises(ValidationError, match="the parts sum to"):
            UsageSettled(**{**SETTLED, name: "11"})


def test_nothing_is_settled_before_it_is_over() -> None:
    with pytest.raises(ValidationError, match="settled_ms must not be before"):
        UsageSettled(**{**SETTLED, "settled_ms": 0})


@pytest.mark.parametrize("text", ["-0", "01", "1.0", "", "+1", "1" * 41])
def test_an_amount_is_the_digits_of_one_whole_number(text: str) -> None:
    with pytest.raises(ValidationError):
        UsageSettled(**{**SETTLED, "held_macc_ms": text})
