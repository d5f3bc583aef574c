"""Inputs of `walras clear` that nobody would write: refused with a code, or cleared and verified.

The short leg of `make fuzz`. The fuzzer runs its inputs in a process of its own, so that a crash is
an input on disk and not the end of the tests.
"""

import json
from pathlib import Path
from random import Random

import pytest

from libs.clearing.fuzz.campaign import Plan, run_campaign
from libs.clearing.fuzz.documents import document_of, encoded
from libs.clearing.fuzz.mutations import mutated_input
from libs.clearing.fuzz.worker import drawn
from walras_clearing.instance import parse_instance
from walras_clearing.testing import draw_market

ITERATIONS = 1_500
PATIENCE_S = 240.0


def test_mutated_inputs_are_refused_or_cleared_and_never_end_the_process(
    tmp_path: Path, global_random_seed: int
) -> None:
    outcome = run_campaign(Plan(global_random_seed, PATIENCE_S, ITERATIONS, tmp_path))
    assert outcome.findings == []
    assert outcome.inputs == ITERATIONS
    # Neither a fuzzer that breaks everything nor one that breaks nothing would find anything.
    assert ITERATIONS * 0.3 < outcome.tally["cleared"] < ITERATIONS * 0.8
    assert len(outcome.tally) > 10, f"few kinds of refusal: {outcome.tally}"


def test_a_planted_crash_is_found_with_its_input_and_the_campaign_goes_on(tmp_path: Path) -> None:
    outcome = run_campaign(Plan(3, PATIENCE_S, 12, tmp_path, plant="crash"))
    assert len(outcome.findings) > 1
    assert outcome.inputs == 12
    for finding in outcome.findings:
        assert finding.kind == "crash"
        assert "SIGABRT" in finding.detail
        assert finding.file.read_bytes() == drawn(3, finding.iteration)[0]
        assert f"iteration {finding.iteration}" in finding.file.with_suffix(".txt").read_text()


def test_a_planted_exception_is_found_with_its_input(tmp_path: Path) -> None:
    outcome = run_campaign(Plan(3, PATIENCE_S, 12, tmp_path, plant="exception"))
    assert outcome.findings
    assert {finding.kind for finding in outcome.findings} == {"exception"}
    assert "ZeroDivisionError: planted" in outcome.findings[0].detail
    assert outcome.findings[0].file.read_bytes() == drawn(3, outcome.findings[0].iteration)[0]


def test_a_planted_endless_loop_is_found_and_ended(tmp_path: Path) -> None:
    first = next(i for i in range(100) if drawn(3, i)[0].count(b'"own_supply_macc"') > 1)
    plan = Plan(3, PATIENCE_S, first + 1, tmp_path, plant="hang", hang_s=5.0)
    (finding,) = run_campaign(plan).findings
    assert (finding.kind, finding.iteration) == ("hang", first)


def test_inputs_are_a_function_of_seed_and_iteration() -> None:
    assert [drawn(1, i) for i in range(20)] == [drawn(1, i) for i in range(20)]
    assert drawn(1, 0) != drawn(2, 0)


@pytest.mark.parametrize("seed", range(20))
def test_documents_without_mutation_are_the_markets_they_were_made_of(seed: int) -> None:
    market = draw_market(Random(seed).randint)
    data = encoded(document_of(market), Random(seed))
    assert parse_instance(data, margin=market.margin) == market


def test_mutations_reach_beyond_the_grammar_and_beyond_json() -> None:
    kinds = {"json": 0, "not json": 0}
    for seed in range(300):
        try:
            json.loads(mutated_input(Random(seed)))
            kinds["json"] += 1
        except (ValueError, RecursionError):
            kinds["not json"] += 1
    assert min(kinds.values()) > 30
