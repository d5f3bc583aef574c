"""Who reads and writes what: the wiring of the services and `topics.toml` say the same."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.tidy.tree import Tree, expect_none, repository
from walras_billing.settings import Settings as BillingSettings
from walras_billing.wiring import build as build_billing
from walras_capacity.settings import Settings as CapacitySettings
from walras_capacity.wiring import build as build_capacity
from walras_clearing_service.settings import Settings as ClearingSettings
from walras_clearing_service.wiring import build as build_clearing
from walras_contracts.topics import Topic, load_topics, parse_topics
from walras_drain.settings import Settings as DrainSettings
from walras_drain.wiring import build as build_drain
from walras_intake.settings import Settings as IntakeSettings
from walras_intake.wiring import build as build_intake
from walras_invoicing.settings import Settings as InvoicingSettings
from walras_invoicing.wiring import build as build_invoicing
from walras_node_agent.agent.wiring import READ as AGENT_READS
from walras_node_agent.agent.wiring import WRITTEN as AGENT_WRITES
from walras_node_agent.settings import Settings as NodeAgentSettings
from walras_node_agent.wiring import build as build_node_agent
from walras_notifier.wiring import TOPIC as NOTIFIER_INPUT
from walras_placement.settings import Settings as PlacementSettings
from walras_placement.wiring import build as build_placement
from walras_runtime.stage import StageSpec
from walras_snapshot.projection import INPUTS as SNAPSHOT_INPUTS
from walras_views.wiring import TOPICS as VIEWS_INPUTS

BOOTSTRAP = "nowhere.invalid:9092"
EVERY_SERVICE = "every service"
OUTSIDE = "outside"

NOT_YET: dict[tuple[str, str, str], str] = {}
"""What the registry promises and no service does yet. Done: remove the line."""


@dataclass(frozen=True)
class Wires:
    """The topics that a service reads and writes."""

    reads: frozenset[str]
    writes: frozenset[str]


def stages() -> list[StageSpec]:
    """The wiring of every deciding service, with settings that name no real broker."""
    return [
        build_intake(IntakeSettings.read(kafka_bootstrap=BOOTSTRAP)),
        build_capacity(CapacitySettings.read(kafka_bootstrap=BOOTSTRAP)),
        build_clearing(ClearingSettings.read(kafka_bootstrap=BOOTSTRAP)),
        build_placement(PlacementSettings.read(kafka_bootstrap=BOOTSTRAP)),
        build_drain(DrainSettings.read(kafka_bootstrap=BOOTSTRAP)),
        build_node_agent(NodeAgentSettings.read(kafka_bootstrap=BOOTSTRAP)),
        build_billing(BillingSettings.read(kafka_bootstrap=BOOTSTRAP)),
        build_invoicing(InvoicingSettings.read(kafka_bootstrap=BOOTSTRAP)),
    ]


def as_wired() -> dict[str, Wires]:
    """What the services do."""
    wires = {
        spec.service: Wires(
            frozenset({source.topic for source in spec.inputs} | {spec.state_topic}),
            frozenset({*spec.outputs, spec.state_topic}),
        )
        for spec in stages()
    }
    # What agents tell of leases they read back, should they have lost what they knew of them.
    fleet = wires["node_agent"]
    told = frozenset(AGENT_READS) - frozenset(AGENT_WRITES)
    wires["node_agent"] = Wires(fleet.reads | told, fleet.writes | frozenset(AGENT_WRITES))
    wires["snapshot"] = Wires(frozenset(s.topic for s in SNAPSHOT_INPUTS), frozenset())
    wires["views"] = Wires(frozenset(VIEWS_INPUTS), frozenset())
    wires["notifier"] = Wires(frozenset({NOTIFIER_INPUT}), frozenset())
    # The ticker writes barriers into all that the outside writes; `ticks` is its own.
    wires["ticker"] = Wires(frozenset({"ticks"}), frozenset({"ticks"}))
    return wires


def as_registered(topics: Iterable[Topic]) -> dict[str, Wires]:
    """What the registry says; topics of every service are left out."""
    reads: dict[str, set[str]] = {}
    writes: dict[str, set[str]] = {}
    for topic in topics:
        if topic.producer == EVERY_SERVICE:
            continue
        writes.setdefault(topic.producer, set()).add(topic.name)
        for consumer in topic.consumers:
            reads.setdefault(consumer, set()).add(topic.name)
    return {
        name: Wires(frozenset(reads.get(name, ())), frozenset(writes.get(name, ())))
        for name in sorted((reads.keys() | writes.keys()) - {OUTSIDE})
    }


def differences(
    wired: Mapping[str, Wires],
    registered: Mapping[str, Wires],
    for_all: frozenset[str],
    not_yet: Iterable[tuple[str, str, str]],
) -> list[str]:
    """Where the two differ, in both directions; gaps that are closed must not stay listed."""
    nothing = Wires(frozenset(), frozenset())
    open_gaps = set(not_yet)
    faults = []
    for service in sorted(wired.keys() | registered.keys()):
        does, says = wired.get(service, nothing), registered.get(service, nothing)
        for verb, done, said in (
            ("reads", does.reads, says.reads),
            ("writes", does.writes, says.writes),
        ):
            faults += [
                f"{service} {verb} {topic}; topics.toml does not say so"
                for topic in sorted(done - said - for_all)
            ]
            for topic in sorted(said - done):
                gap = (service, verb, topic)
                if gap not in open_gaps:
                    faults.append(f"topics.toml says that {service} {verb} {topic}; it does not")
                open_gaps.discard(gap)
    return faults + [f"{' '.join(gap)}: done; remove it from NOT_YET" for gap in sorted(open_gaps)]


def test_services_read_and_write_what_the_registry_says() -> None:
    topics = load_topics()
    for_all = frozenset(t.name for t in topics.values() if t.producer == EVERY_SERVICE)
    expect_none(differences(as_wired(), as_registered(topics.values()), for_all, NOT_YET))


def test_no_stage_reads_or_writes_a_topic_twice() -> None:
    for spec in stages():
        inputs = [source.topic for source in spec.inputs]
        assert len(inputs) == len(set(inputs)), spec.service
        assert len(spec.outputs) == len(set(spec.outputs)), spec.service


def test_spread_services_share_the_partition_count_of_what_they_read_by_partition() -> None:
    topics = load_topics()
    for spec in stages():
        if spec.spread:
            own = {topics[s.topic].partitions for s in spec.inputs if s.own_partition}
            written = {topics[name].partitions for name in (*spec.outputs, spec.state_topic)}
            assert len(own | written) == 1, spec.service


def test_a_table_that_compaction_may_thin_out_is_read_as_a_table_or_by_state() -> None:
    """The latest record of a key is all that a restart can count on, once compaction ran."""
    topics = load_topics()
    for spec in stages():
        for source in spec.inputs:
            if source.table:
                topic = topics[source.topic]
                kept = topic.cleanup == "compact" or topic.retention_ms < 0
                assert kept, f"{spec.service} folds {source.topic}, which loses its beginning"


def test_the_check_sees_differences_in_both_directions() -> None:
    text = (repository()["schemas/topics.toml"]).replace(
        'consumers = ["clearing", "placement"]', 'consumers = ["placement", "views"]', 1
    )
    registered = as_registered(parse_topics(text).values())
    for_all = frozenset({"dead_letter", "claims"})
    gaps = {*NOT_YET, ("billing", "reads", "usage")}
    assert differences(as_wired(), registered, for_all, gaps) == [
        "clearing reads queue; topics.toml does not say so",
        "topics.toml says that views reads queue; it does not",
        "billing reads usage: done; remove it from NOT_YET",
    ]


def test_every_service_of_the_tree_is_wired() -> None:
    tree: Tree = repository()
    folders = {path.split("/")[1] for path in tree if path.startswith("services/")}
    folders.discard("README.md")
    assert folders == as_wired().keys()
