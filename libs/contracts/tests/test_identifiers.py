"""Identifiers, keys, and the partition of a key."""

import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from walras_contracts.identifiers import (
    Id,
    digest_of,
    job_key,
    lease_part_key,
    murmur2,
    partition_of,
    recorded,
)

ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


# Kafka, clients/src/test/java/org/apache/kafka/common/utils/UtilsTest.java, testMurmur2
@pytest.mark.parametrize(
    ("key", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_numbers_of_the_java_client(key: bytes, java: int) -> None:
    assert murmur2(key) == java % 2**32


@given(key=st.text(), partitions=st.integers(1, 1024))
@settings(deadline=None)
def test_partitions_are_those_of_a_client_with_sorted_metadata(key: str, partitions: int) -> None:
    listed = list(range(partitions))
    assert partition_of(key, partitions) == DefaultPartitioner()(key.encode(), listed, listed)


def test_two_producers_choose_one_partition_however_their_metadata_lists_them() -> None:
    """A client indexes into its list, so the order of the list moves the key; ours has no list."""
    first, second = [2, 0, 1], [0, 1, 2]
    key = "team-a"
    chosen = [DefaultPartitioner()(key.encode(), listed, listed) for listed in (first, second)]
    assert chosen[0] != chosen[1], "the hazard that passing the partition explicitly removes"
    ours = [partition_of(key, len(listed)) for listed in (first, second)]
    assert ours[0] == ours[1] == chosen[1]


def test_partitions_of_a_few_names_stay_where_they_are() -> None:
    assert [partition_of(name, 4) for name in ("team-a", "vision", "ads", "a100-80gb")] == [
        0,
        2,
        1,
        1,
    ]


@given(name=ids)
@settings(deadline=None)
def test_what_the_pattern_names_is_an_id(name: str) -> None:
    assert TypeAdapter(Id).validate_python(name) == name


@pytest.mark.parametrize("name", ["", "a/b", "~a", "-a", ".a", "a b", "a\n", "é", "a" * 64, "a~"])
def test_an_id_has_no_slash_no_tilde_and_at_most_63_characters(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Id).validate_python(name)


@given(first=st.tuples(ids, ids), second=st.tuples(ids, ids))
@settings(deadline=None)
def test_keys_of_two_parts_are_equal_only_if_the_parts_are(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    assert (job_key(*first) == job_key(*second)) == (first == second)
    assert (lease_part_key(*first) == lease_part_key(*second)) == (first == second)


@given(first=st.lists(st.text(max_size=4)), second=st.lists(st.text(max_size=4)))
@settings(deadline=None)
def test_a_digest_depends_on_the_parts_and_their_borders(
    first: list[str], second: list[str]
) -> None:
    assert (digest_of(*first) == digest_of(*second)) == (first == second)
    assert digest_of("ab", "c") != digest_of("a", "bc")


def test_a_digest_is_the_same_for_ever() -> None:
    assert digest_of("lease", "0") == "737d26118e93a75313c21a96caf54af0"


@given(text=st.text(st.characters(codec=None)), length=st.integers(0, 50))
@settings(deadline=None)
def test_recorded_text_is_valid_unicode_and_short_enough(text: str, length: int) -> None:
    result = recorded(text, length)
    assert len(result) <= length
    assert result.encode().decode() == result
