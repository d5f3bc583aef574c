"""Reading the topic registry, and what is said when it is wrong."""

import pytest

from walras_contracts.topics import load_topics, parse_topics

TOPIC = """
[defaults]
partitions = 4
min_compaction_lag_ms = 86400000
delete_retention_ms = 86400000

[[topic]]
name = "queue"
events = ["walras.job.queued.v1"]
record_key = "team/job"
partition_key = "team"
cleanup = "compact"
retention_ms = -1
barriers = "producer"
producer = "intake"
consumers = ["clearing"]
"""


def test_defaults_fill_what_a_topic_leaves_out_and_a_topic_overrides_them() -> None:
    topic = parse_topics(TOPIC)["queue"]
    assert (topic.partitions, topic.full_name) == (4, "walras.queue.v1")
    own = parse_topics(TOPIC.replace('name = "queue"', 'name = "queue"\npartitions = 9'))
    assert own["queue"].partitions == 9


def test_compaction_settings_go_to_compacted_topics_only() -> None:
    compacted = parse_topics(TOPIC)["queue"].broker_config()
    assert compacted == {
        "cleanup.policy": "compact",
        "retention.ms": "-1",
        "min.compaction.lag.ms": "86400000",
        "delete.retention.ms": "86400000",
    }
    deleted = parse_topics(TOPIC.replace('"compact"', '"delete"'))["queue"].broker_config()
    assert deleted == {"cleanup.policy": "delete", "retention.ms": "-1"}


@pytest.mark.parametrize(
    ("found", "put", "says"),
    [
        ('producer = "intake"', "", "topic 'queue': producer: Field required"),
        ('producer = "intake"', "producer = 5", "topic 'queue': producer: "),
        ("partitions = 4", "partitions = 0", "topic 'queue': partitions: "),
        ("partitions = 4", 'partitions = "4"', "topic 'queue': partitions: "),
        ("partitions = 4", "partitions = 4.0", "topic 'queue': partitions: "),
        ("partitions = 4", "partitions = true", "topic 'queue': partitions: "),
        ("partitions = 4", "", "topic 'queue': partitions: Field required"),
        ("retention_ms = -1", "retention_ms = -2", "topic 'queue': retention_ms: "),
        ('"compact"', '"compact,delete"', "topic 'queue': cleanup: "),
        ('"producer"', '"somebody"', "topic 'queue': barriers: "),
        ('name = "queue"', "", "topic 'number 1': name: Field required"),
        ('name = "queue"', 'name = "walras/queue"', "topic 'walras/queue': name: "),
        ('name = "queue"', 'name = "queue"\ncolour = "red"', "topic 'queue': colour: Extra"),
        ('consumers = ["clearing"]', 'consumers = "clearing"', "topic 'queue': consumers: "),
        ("[[topic]]", "[[subject]]", "unknown tables ['subject']"),
        ("[[topic]]", "[topic]", "needs [[topic]] tables"),
        ("[defaults]", "[default]", "unknown tables ['default']"),
        ("partitions = 4", "partitions = ", "not TOML"),
        ("[defaults]", "topic = [5]\n[defaults]", "not TOML"),
    ],
)
def test_each_mistake_is_named_with_its_topic_and_field(found: str, put: str, says: str) -> None:
    assert found in TOPIC
    with pytest.raises(ValueError, match=r"^schemas/topics\.toml: ") as caught:
        parse_topics(TOPIC.replace(found, put))
    assert says in str(caught.value)


def test_an_empty_registry_and_an_entry_that_is_no_table_are_refused() -> None:
    for text in ("", "topic = []", "defaults = 1\ntopic = [{}]", "topic = [5]"):
        with pytest.raises(ValueError, match=r"^schemas/topics\.toml: "):
            parse_topics(text)


def test_a_name_or_an_event_type_may_occur_once() -> None:
    entry = TOPIC[TOPIC.index("[[topic]]") :]
    with pytest.raises(ValueError, match="topic 'queue' occurs twice"):
        parse_topics(TOPIC + entry)
    with pytest.raises(ValueError, match=r"'walras\.job\.queued\.v1' is on 'queue' and on 'line'"):
        parse_topics(TOPIC + entry.replace('name = "queue"', 'name = "line"'))


def test_the_registry_ships_with_the_package() -> None:
    assert "demand" in load_topics()
