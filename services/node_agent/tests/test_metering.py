"""What the simulated fleet says of the time that it meters."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.node_agent.tests.fleet_bench import MINUTE_MS, Bench, part
from walras_contracts.quantities import NUMBER_MAX
from walras_contracts.work import UsageMetered, WorkClass
from walras_node_agent.metering import UsageTemplate
from walras_runtime.records import emit


@settings(deadline=None, max_examples=100)
@given(
    seq=st.integers(0, NUMBER_MAX),
    start_ms=st.integers(0, 10**12),
    length=st.integers(1, 10**9),
    limit=st.one_of(st.none(), st.just(0), st.integers(1, 10**12)),
    work_class=st.sampled_from(WorkClass),
)
def test_usage_from_a_template_is_the_events_own_payload(
    seq: int, start_ms: int, length: int, limit: int | None, work_class: WorkClass
) -> None:
    first = UsageMetered(
        lease="seq.0.start_ms",
        node="n-1",
        attempt=0,
        seq=0,
        team="seq",
        pool="0",
        job="end_ms.1",
        market="a",
        quantity_macc=1,
        start_ms=0,
        end_ms=1,
        work_class=work_class,
        billable=work_class is WorkClass.MARKET,
        limit_micro=limit,
        tariff_ppm=0,
    )
    changed = {"seq": seq, "start_ms": start_ms, "end_ms": start_ms + length, "running_ms": length}
    event = first.model_copy(update=changed)

    assert UsageTemplate(first).output(seq, start_ms, start_ms + length) == emit(event)


def test_what_is_metered_ran_throughout_and_how_busy_it_was_is_not_measured() -> None:
    bench = Bench()
    bench.step(0, emit(part()))
    bench.step(MINUTE_MS)
    bench.step(2 * MINUTE_MS)

    ran = [record for record in bench.usage if record.start_ms < bench.statuses[-1].at_ms]
    assert [record.running_ms for record in ran] == [MINUTE_MS, MINUTE_MS // 2]
    for record in ran:
        figures = (record.running_ms, record.busy_ms)
        assert figures == (record.end_ms - record.start_ms, None)
