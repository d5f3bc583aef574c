"""The drainability score: monotone, in its range, and of what was seen."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.accounts import DrainTerms
from walras_contracts.demand import Drainability
from walras_contracts.quantities import PPM
from walras_contracts.runs import RunSpec
from walras_drain.scores import History, chain_holds, score_ppm

TERMS = DrainTerms()
declared = st.sampled_from(Drainability)
histories = st.builds(
    lambda answered, unanswered, durations: History(
        answered + unanswered, answered, tuple(durations)
    ),
    st.integers(0, 50),
    st.integers(0, 50),
    st.lists(st.integers(0, 400_000), max_size=15),
)


@given(declares=declared, history=histories, chain=st.booleans())
def test_a_score_lies_between_not_at_all_and_at_once(
    declares: Drainability, history: History, chain: bool
) -> None:
    assert 0 <= score_ppm(declares, history, TERMS, chain=chain) <= PPM


@given(declares=declared, history=histories, more=st.integers(0, 100_000))
def test_answers_raise_a_score_and_silence_slowness_and_a_broken_chain_lower_it(
    declares: Drainability, history: History, more: int
) -> None:
    score = score_ppm(declares, history, TERMS)
    warned, kept = history.after_warning(), history.durations_ms
    assert score_ppm(declares, warned, TERMS) <= score
    answered = History(warned.warnings, history.answered + 1, kept)
    assert score_ppm(declares, answered, TERMS) >= score_ppm(declares, warned, TERMS)
    if kept:
        slower = History(history.warnings, history.answered, tuple(ms + more for ms in kept))
        assert score_ppm(declares, slower, TERMS) <= score
    assert score_ppm(declares, history, TERMS, chain=False) <= score


@given(history=histories)
def test_who_declares_more_scores_no_less_with_the_same_history(history: History) -> None:
    scores = [
        score_ppm(declares, history, TERMS)
        for declares in (Drainability.NONE, Drainability.RESTART, Drainability.CHECKPOINT)
    ]
    assert scores == sorted(scores)


def test_without_a_history_what_the_job_declares_is_its_score() -> None:
    found = {d.value: score_ppm(d, History(), TERMS) for d in Drainability}
    assert found == {"checkpoint": 800_000, "restart": 500_000, "none": 100_000}


def test_what_was_seen_outweighs_what_was_declared() -> None:
    good, bad = History(10, 10, (5_000,)), History(10, 0)
    assert score_ppm(Drainability.NONE, good, TERMS) > score_ppm(
        Drainability.CHECKPOINT, bad, TERMS
    )


def test_a_job_that_needs_more_time_than_a_drain_gives_has_a_broken_chain() -> None:
    def run(**links: int | None) -> RunSpec:
        return RunSpec.model_validate({"command": ["train"], **links})

    assert chain_holds(None, TERMS)
    assert chain_holds(run(), TERMS)
    assert chain_holds(run(checkpoint_ms=60_000, stop_ms=30_000, launcher_stop_ms=30_000), TERMS)
    assert not chain_holds(run(checkpoint_ms=60_001), TERMS)
    assert not chain_holds(run(stop_ms=30_001), TERMS)
    assert not chain_holds(run(stop_ms=20_000, launcher_stop_ms=10_000), TERMS)


def test_the_median_is_the_lower_one_and_only_the_last_drains_count() -> None:
    assert History().median_ms() == 0
    assert History(durations_ms=(9, 1, 5, 7)).median_ms() == 5
    history = History()
    for duration_ms in range(100):
        history = history.after_warning().after_outcome(answered=True, duration_ms=duration_ms)
    assert history.median_ms() == 92
    assert (history.warnings, history.answered) == (100, 100)


def test_a_drain_that_was_called_off_shows_nothing_of_the_job() -> None:
    history = History(3, 2, (1,))
    assert history.after_warning().after_cancel() == history


def test_the_score_of_a_job_is_published_with_its_lease_and_after_every_drain(kit: Any) -> None:
    bench = kit.bench()
    written = bench.step(kit.node("n1"), *kit.lease("l1"))
    assert written.scores[kit.job_of("l1")].score_ppm == 800_000
    assert bench.step().scores == {}
    warned = bench.step(bench.vacate("l1")).scores[kit.job_of("l1")]
    assert (warned.warnings, warned.answered, warned.score_ppm) == (1, 0, 533_333)
    bench.step(bench.says("l1", "warned"))
    bench.step(bench.says("l1", "waiting"))
    gone = bench.step(bench.lease_is("l1"), *kit.lease_ends("l1")).scores[kit.job_of("l1")]
    # Warned at the second step by its own clock, free 7 s later; drained within 100 s: 1.4 % off.
    assert (gone.warnings, gone.answered, gone.freed_after_ms) == (1, 1, 12_000)
    assert gone.score_ppm == 866_666 * (PPM - 200_000 * 12_000 // 100_000) // PPM


def test_a_job_that_has_to_be_killed_has_not_answered(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.vacate("l1"))
    bench.step(bench.says("l1", "waiting"))
    written = bench.step(bench.says("l1", "freed", outcome="forced"), bench.lease_is("l1"))
    assert written.scores[kit.job_of("l1")].answered == 0


def test_a_job_that_never_leaves_loses_its_score(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.vacate("l1"))
    scores = [s for w in bench.steps(200_000) for s in w.scores.values()]
    assert [(s.warnings, s.answered, s.score_ppm) for s in scores] == [(1, 0, 533_333)]


def test_a_job_that_was_never_drained_leaves_no_score_behind(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    assert ("drain.scores", "t1/job-l1") in bench.step(*kit.lease_ends("l1")).ended


def test_what_was_seen_of_a_job_is_kept_for_a_week_and_counts_for_its_next_lease(
    kit: Any,
) -> None:
    bench = kit.bench(interval_ms=3_600_000)
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.vacate("l1"))
    bench.step(bench.lease_is("l1"), *kit.lease_ends("l1"))
    bench.step()
    again = bench.step(*kit.lease("l1")).scores[kit.job_of("l1")]
    assert (again.warnings, again.answered) == (1, 1)
    bench.step(*kit.lease_ends("l1"))
    gone_ms = bench.now_ms
    while ("drain.scores", "t1/job-l1") not in bench.step().ended:
        assert bench.now_ms <= gone_ms + 7 * 86_400_000
    assert bench.now_ms == gone_ms + 7 * 86_400_000
