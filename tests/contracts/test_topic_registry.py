"""The topic registry against the models, the design and the services that there are."""

import pytest

from walras_contracts.event import Event
from walras_contracts.generate import REPOSITORY, stale_files
from walras_contracts.registry import BY_TYPE, EVENTS
from walras_contracts.topics import load_topics

TOPICS = load_topics()
DAY_MS = 86_400_000
OUTSIDE = "outside"
EVERY = "every service"


@pytest.mark.parametrize("model", EVENTS, ids=lambda model: model.TYPE)
def test_every_event_is_on_exactly_the_topic_it_names_and_somebody_reads_it(
    model: type[Event],
) -> None:
    (topic,) = [topic for topic in TOPICS.values() if model.TYPE in topic.events]
    assert topic.name == model.TOPIC
    assert topic.consumers


def test_types_are_unique_and_versioned() -> None:
    assert len(BY_TYPE) == len(EVENTS)
    for name in BY_TYPE:
        assert name.startswith("walras.")
        assert name.rpartition(".")[2] == "v1"


@pytest.mark.parametrize("topic", TOPICS.values(), ids=lambda topic: topic.name)
def test_every_event_type_of_a_topic_has_a_model(topic: object) -> None:
    assert set(TOPICS[getattr(topic, "name", "")].events) <= set(BY_TYPE)


def test_producers_and_consumers_are_services_of_this_repository() -> None:
    services = {path.name for path in (REPOSITORY / "services").iterdir() if path.is_dir()}
    for topic in TOPICS.values():
        named = {topic.producer, *topic.consumers} - {OUTSIDE, EVERY}
        assert named <= services, topic.name


def test_what_the_outside_writes_carries_barriers_from_outside() -> None:
    for topic in TOPICS.values():
        if topic.producer == OUTSIDE:
            assert topic.barriers == "outside", topic.name


def test_compacted_topics_keep_their_records_for_a_day_at_least() -> None:
    for topic in TOPICS.values():
        if topic.cleanup == "compact":
            assert topic.min_compaction_lag_ms >= DAY_MS, topic.name
            assert topic.delete_retention_ms >= DAY_MS, topic.name


@pytest.mark.parametrize("name", ["accounts", "usage", "prices", "charges"])
def test_what_money_rests_on_is_never_compacted(name: str) -> None:
    assert TOPICS[name].cleanup == "delete"


def test_accounts_are_kept_for_ever() -> None:
    assert TOPICS["accounts"].retention_ms == -1


@pytest.mark.parametrize(
    "names",
    [("demand", "accounts.requests", "queue", "accounts", "demand.rejected", "job.status",
      "state.intake"),
     ("usage", "charges", "charges.pending", "usage.quarantined", "usage.settled", "balances",
      "budgets", "state.billing")],
)  # fmt: skip
def test_topics_of_a_worker_that_is_spread_by_partition_have_equally_many(
    names: tuple[str, ...],
) -> None:
    assert len({TOPICS[name].partitions for name in names}) == 1


def test_generated_files_are_fresh() -> None:
    assert stale_files(REPOSITORY) == [], "run `python -m walras_contracts.generate`"
