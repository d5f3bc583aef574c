"""Traces: one crosses the stages in the barriers' headers; what is not sampled leaves nothing."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from libs.runtime.tests.echo_service import EchoStage, Settings
from libs.runtime.tests.kafka_rig import Rig, eventually
from walras_contracts.topics import Topic
from walras_launcher.running import Broker
from walras_runtime.health import Health
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Record, Step, StepResult
from walras_runtime.service import run_stages
from walras_runtime.stage import Input, StageSpec
from walras_runtime.telemetry import MOST_LINKS, Telemetry, parse_traceparent

STEPS = 3
ALL = 1_000_000


class Traced:
    """A telemetry whose finished spans can be looked at."""

    def __init__(self, service: str, ratio_ppm: int) -> None:
        self._exporter = InMemorySpanExporter()
        self.telemetry = Telemetry(
            service, trace_ratio_ppm=ratio_ppm, processor=SimpleSpanProcessor(self._exporter)
        )

    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()


def header(trace: int, span: int, flags: str = "01") -> str:
    return f"00-{trace:032x}-{span:016x}-{flags}"


def test_a_span_is_linked_to_its_causes_and_continues_the_first_sampled_one() -> None:
    traced = Traced("x", 0)
    causes = [header(1, 2, "00"), header(3, 4), "nonsense", header(5, 6)]
    with traced.telemetry.step_span(7, causes) as written:
        pass
    (span,) = traced.spans()
    assert [(k.context.trace_id, k.context.span_id) for k in span.links] == [(1, 2), (3, 4), (5, 6)]
    assert span.context is not None
    assert span.context.trace_id == 3
    assert span.parent is not None
    assert span.parent.span_id == 4
    assert written == header(3, span.context.span_id)
    assert span.attributes is not None
    assert span.attributes["walras.barrier"] == 7


def test_a_step_that_is_not_sampled_writes_no_header_and_sends_no_span() -> None:
    traced = Traced("x", 0)
    with traced.telemetry.step_span(1, [header(1, 2, "00")]) as written:
        assert written is None
    assert traced.spans() == ()


def test_links_are_bounded_however_many_causes_a_step_has() -> None:
    traced = Traced("x", ALL)
    with traced.telemetry.step_span(1, [header(9, n + 1) for n in range(100)]):
        pass
    assert len(traced.spans()[0].links) == MOST_LINKS


@pytest.mark.parametrize(
    "text",
    ["", "00", "00-xyz-1-01", header(0, 1), header(1, 0), f"00-{'g' * 32}-{'1' * 16}-01", "-" * 55],
)
def test_what_is_no_traceparent_is_passed_over(text: str) -> None:
    assert parse_traceparent(text) is None


class Relay(EchoStage):
    """The second stage: says only that a barrier passed."""

    def step(self, step: Step) -> StepResult:
        assert all(isinstance(r, Record) for r in step.records["out"])
        return StepResult()


async def two_stages(rig: Rig, first: Traced, second: Traced) -> None:
    """Run the echo and a relay behind it over the steps that were fed before."""
    relay_service = f"relay_{rig.space}"
    last = rig.topics["out"].model_copy(update={"name": f"{rig.space}.last"})
    state = f"state.{relay_service}"
    topics: dict[str, Topic] = {
        **rig.topics,
        "last": last,
        state: rig.topics[f"state.{rig.service}"].model_copy(update={"name": f"{rig.space}.relay"}),
    }
    await create_topics(rig.bootstrap, topics)
    relay = StageSpec(relay_service, (Input("out", raw=True),), ("last",), Relay)
    stop = asyncio.Event()
    settings = Settings.read(kafka_bootstrap=rig.bootstrap, mode="replay", election_session_ms=1000)
    async with (
        rig.running(spread=False, election_session_ms=1000, traced=first.telemetry),
        rig.follow() as out,
    ):
        await out.until(STEPS - 1)
    # Only now: so the relay reads the barriers of all steps at once.
    task = asyncio.create_task(
        run_stages(relay, settings, stop, second.telemetry, Health(), topics=topics)
    )

    async def all_passed() -> bool:
        return len(await barriers(rig, last.full_name)) == 2 * STEPS

    await eventually(all_passed, "the barriers of the second stage")
    stop.set()
    await task


async def barriers(rig: Rig, name: str) -> list[BarrierMark]:
    items = [parse_message(m, "x") for m in await read_all(rig.bootstrap, name, [0, 1])]
    return [item for item in items if isinstance(item, BarrierMark)]


def number_of(span: ReadableSpan) -> object:
    assert span.attributes is not None
    return span.attributes["walras.barrier"]


@pytest.mark.broker
@pytest.mark.asyncio
async def test_a_trace_crosses_two_stages_in_the_headers_of_real_barriers(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        # All steps at once: each barrier's trace must find its own step, not the first one.
        await rig.feed_steps(STEPS)
        first, second = Traced("echo", ALL), Traced("relay", 0)
        await two_stages(rig, first, second)
        causes = {number_of(span): span for span in first.spans()}
        effects = {number_of(span): span for span in second.spans()}
        assert set(causes) == set(effects) == set(range(STEPS))
        assert len({span.context.trace_id for span in causes.values() if span.context}) == STEPS
        for number, effect in effects.items():
            cause = causes[number].context
            assert cause is not None
            assert effect.context is not None
            assert effect.context.trace_id == cause.trace_id
            assert effect.parent is not None
            assert effect.parent.span_id == cause.span_id
            assert [link.context.span_id for link in effect.links] == [cause.span_id]
        for mark in await barriers(rig, f"walras.{rig.space}.last.v1"):
            span = effects[mark.barrier.number].context
            assert span is not None
            assert mark.traceparent == header(span.trace_id, span.span_id)


@pytest.mark.broker
@pytest.mark.asyncio
async def test_barriers_of_steps_that_are_not_sampled_carry_no_header(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        await rig.feed_steps(STEPS)
        first, second = Traced("echo", 0), Traced("relay", 0)
        await two_stages(rig, first, second)
        assert first.spans() == second.spans() == ()
        for name in ("out", "last"):
            marks = await barriers(rig, f"walras.{rig.space}.{name}.v1")
            assert [mark.traceparent for mark in marks] == [None] * (2 * STEPS)
