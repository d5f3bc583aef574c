"""Metrics and traces of a service; no automatic instrumentation on hot paths.

One span a step; its inputs' spans are linked, not parents, because a step has many causes. The
span's context travels in the ``traceparent`` header of the barriers that the step writes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, SpanContext, TraceFlags
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

MOST_LINKS = 10


class Telemetry:
    """The metrics and the tracer of one process.

    Parameters
    ----------
    service
        Name of the service.
    trace_ratio_ppm
        Share of steps that start a trace of their own.
    processor
        Where finished spans go; None: spans are made for propagation only.
    """

    def __init__(
        self, service: str, *, trace_ratio_ppm: int = 0, processor: SpanProcessor | None = None
    ) -> None:
        self.registry = CollectorRegistry()
        label = ["partition"]
        self.steps = Counter("walras_steps", "Steps committed", label, registry=self.registry)
        self.step_seconds = Histogram(
            "walras_step_duration_seconds",
            "Time to decide one step",
            label,
            registry=self.registry,
        )
        self.commit_seconds = Histogram(
            "walras_commit_duration_seconds",
            "Time to commit one step",
            label,
            registry=self.registry,
        )
        self.barrier = Gauge(
            "walras_barrier_number", "Last barrier committed", label, registry=self.registry
        )
        self.epoch = Gauge("walras_epoch", "Epoch of the claim held", label, registry=self.registry)
        self.records = Counter(
            "walras_records_consumed", "Records taken into steps", label, registry=self.registry
        )
        self.dead_letters = Counter(
            "walras_dead_letter", "Undecodable records", ["topic", "error"], registry=self.registry
        )
        self.restarts = Counter(
            "walras_stage_restarts",
            "Times the state was dropped and restored",
            label,
            registry=self.registry,
        )
        self.position_alarms = Counter(
            "walras_position_disagreements",
            "Restarts at which the group's offsets were not those of the stage's own output",
            label,
            registry=self.registry,
        )
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": f"walras-{service}"}),
            sampler=ParentBased(TraceIdRatioBased(trace_ratio_ppm / 1_000_000)),
        )
        if processor is not None:
            self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("walras")
        self._service = service

    @contextmanager
    def step_span(self, number: int, parents: Sequence[str]) -> Iterator[str | None]:
        """Open the span of a step; yield the ``traceparent`` to write, None when not sampled."""
        # One cause writes the same header into all partitions of its topics.
        causes = list(dict.fromkeys(parents))[:MOST_LINKS]
        links = [Link(c) for c in map(parse_traceparent, causes) if c]
        sampled = [link for link in links if link.context.trace_flags & TraceFlags.SAMPLED]
        # The first sampled cause is also the parent, so that one trace crosses the topics.
        parent = (
            trace.set_span_in_context(trace.NonRecordingSpan(sampled[0].context))
            if sampled
            else Context()
        )
        with self._tracer.start_as_current_span(
            f"step {self._service}",
            context=parent,
            links=links,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.type": "process",
                "walras.barrier": number,
            },
        ) as span:
            context = span.get_span_context()
            if context.trace_flags & TraceFlags.SAMPLED:
                yield f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
            else:
                yield None

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def parse_traceparent(header: str) -> SpanContext | None:
    """Read a W3C ``traceparent``; None when it is not one."""
    parts = header.split("-")
    if len(parts) != 4 or (len(parts[1]), len(parts[2]), len(parts[3])) != (32, 16, 2):
        return None
    try:
        context = SpanContext(
            int(parts[1], 16), int(parts[2], 16), True, TraceFlags(int(parts[3], 16))
        )
    except ValueError:
        return None
    return context if context.is_valid else None


def otlp_processor(endpoint: str) -> SpanProcessor:
    """Return a processor that sends spans to an OTLP endpoint over HTTP."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - slow import, only where traces are sent
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

    return BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))
