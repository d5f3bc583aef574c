"""Strict decoding at the edge, fault by fault."""

import json
from typing import Any

import pytest

from walras_contracts.accounts import AccountsRequested
from walras_contracts.demand import DemandRejected, JobCancelled, JobSubmitted
from walras_contracts.edge import PAYLOAD_BYTES_MAX, decode_edge, payload_bytes_max
from walras_contracts.event import Event
from walras_contracts.registry import BY_TYPE
from walras_contracts.rejections import Rejection, RejectionCode

ACCEPTED = frozenset(BY_TYPE)
JOB: dict[str, Any] = {
    "team": "vision",
    "job": "j-1",
    "types": ["a100-80gb", "h100"],
    "size_macc": 8000,
    "submitted_ms": 1000,
}
TEAM = {"team": "vision", "income_local_per_hour": 5}
POOL: dict[str, Any] = {
    "kind": "pool",
    "pool": "research",
    "weight_micro_per_hour": 7,
    "teams": [TEAM],
}
USAGE: dict[str, Any] = {
    "lease": "l",
    "node": "n",
    "attempt": 0,
    "seq": 0,
    "team": "t",
    "pool": "p",
    "job": "j",
    "market": "m",
    "quantity_macc": 1,
    "start_ms": 5,
    "end_ms": 6,
    "work_class": "market",
    "billable": True,
    "limit_micro": None,
    "tariff_ppm": 1,
}


def read(event_type: str, payload: bytes | str | dict[str, Any]) -> Event | Rejection:
    if isinstance(payload, dict):
        payload = json.dumps(payload)
    if isinstance(payload, str):
        payload = payload.encode()
    return decode_edge(event_type, "id-1", "test", payload, ACCEPTED)


def read_job(payload: bytes | str | dict[str, Any]) -> Event | Rejection:
    return read(JobSubmitted.TYPE, payload)


def refused(answer: Event | Rejection) -> tuple[RejectionCode, str]:
    assert isinstance(answer, Rejection), answer
    assert answer.reason
    assert len(answer.reason) <= 500
    assert len(answer.path) <= 500
    return answer.code, answer.path


def test_a_valid_job_is_read_with_its_documented_defaults() -> None:
    assert read_job(JOB) == JobSubmitted(
        team="vision",
        job="j-1",
        types=("a100-80gb", "h100"),
        size_macc=8000,
        gang=True,
        limit_micro=None,
        submitted_ms=1000,
    )


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        ({"size_macc": None}, RejectionCode.WRONG_TYPE, "$.size_macc"),
        ({"size_macc": 8000.0}, RejectionCode.WRONG_TYPE, "$.size_macc"),
        ({"size_macc": "8000"}, RejectionCode.WRONG_TYPE, "$.size_macc"),
        ({"size_macc": True}, RejectionCode.WRONG_TYPE, "$.size_macc"),
        ({"size_macc": [8000]}, RejectionCode.WRONG_TYPE, "$.size_macc"),
        ({"size_macc": 0}, RejectionCode.OUT_OF_RANGE, "$.size_macc"),
        ({"size_macc": -1}, RejectionCode.OUT_OF_RANGE, "$.size_macc"),
        ({"size_macc": 10**15 + 1}, RejectionCode.OUT_OF_RANGE, "$.size_macc"),
        ({"size_macc": 2**64}, RejectionCode.OUT_OF_RANGE, "$.size_macc"),
        ({"limit_micro": 10**12 + 1}, RejectionCode.OUT_OF_RANGE, "$.limit_micro"),
        ({"gang": None}, RejectionCode.WRONG_TYPE, "$.gang"),
        ({"gang": 1}, RejectionCode.WRONG_TYPE, "$.gang"),
        ({"gang": "true"}, RejectionCode.WRONG_TYPE, "$.gang"),
        ({"types": "h100"}, RejectionCode.WRONG_TYPE, "$.types"),
        ({"types": {"h100": 1}}, RejectionCode.WRONG_TYPE, "$.types"),
        ({"types": ["h100", 5]}, RejectionCode.WRONG_TYPE, "$.types[1]"),
        ({"types": ["/"]}, RejectionCode.INVALID_VALUE, "$.types[0]"),
        ({"types": []}, RejectionCode.OUT_OF_RANGE, "$.types"),
        ({"types": [f"t{n}" for n in range(17)]}, RejectionCode.OUT_OF_RANGE, "$.types"),
        ({"types": ["h100", "tpu", "h100"]}, RejectionCode.INVALID_VALUE, "$.types"),
        ({"drainability": "quick"}, RejectionCode.INVALID_VALUE, "$.drainability"),
        ({"drainability": 1}, RejectionCode.WRONG_TYPE, "$.drainability"),
        ({"deadline_ms": 1000}, RejectionCode.INVALID_VALUE, "$.submitted_ms"),
        ({"team": 7}, RejectionCode.WRONG_TYPE, "$.team"),
        ({"team": ""}, RejectionCode.INVALID_VALUE, "$.team"),
        ({"team": "a/b"}, RejectionCode.INVALID_VALUE, "$.team"),
        ({"team": "~barrier"}, RejectionCode.INVALID_VALUE, "$.team"),
        ({"team": "a\n"}, RejectionCode.INVALID_VALUE, "$.team"),
        ({"team": "é"}, RejectionCode.INVALID_VALUE, "$.team"),
        ({"team": "x" * 64}, RejectionCode.INVALID_VALUE, "$.team"),
        ({"colour": "red"}, RejectionCode.UNKNOWN_FIELD, "$.colour"),
        ({"limit": 5}, RejectionCode.UNKNOWN_FIELD, "$.limit"),
        ({"a b": 5}, RejectionCode.UNKNOWN_FIELD, '$["a b"]'),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused_with_its_code_and_path(
    change: dict[str, Any], code: RejectionCode, path: str
) -> None:
    assert refused(read_job({**JOB, **change})) == (code, path)


@pytest.mark.parametrize("field", sorted(JOB))
def test_each_required_field_is_missed_by_name(field: str) -> None:
    job = {name: value for name, value in JOB.items() if name != field}
    assert refused(read_job(job)) == (RejectionCode.MISSING_FIELD, f"$.{field}")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"  \n",
        b"nul",
        b"{",
        b'{"team":"a",}',
        b"{'team':1}",
        b"{} {}",
        b"{}x",
        b'{"team": NaN}',
        b'{"size_macc": Infinity}',
        b'{"size_macc": -Infinity}',
        b'{"team":"a","team":"b"}',
        b'{"x":{"y":1,"y":1}}',
        b'{"team":"\\ud800"}',
        b'{"\\uDC00":1}',
        b'{"x":["a\\udfffb"]}',
        b'{"team":"\x01"}',
        b'{"team":"\\x41"}',
        b'{"size_macc":01}',
        b'{"size_macc":+1}',
        b'{"size_macc":0x10}',
        b"\xef\xbb\xbf{}",
        b"[" * 33 + b"]" * 33,
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'"' + b'\\"' * 30_000,
        (b'["\\"[",' * 100) + b"{" * 40,
    ],
    ids=lambda payload: repr(payload[:24]),
)
def test_what_is_not_plain_json_is_refused_as_invalid_json(payload: bytes) -> None:
    assert refused(read_job(payload))[0] is RejectionCode.INVALID_JSON


def test_the_standard_library_would_have_taken_what_json_leaves_open() -> None:
    """Canary of the table above: these three rows are not caught by ``json.loads``."""
    for text in ('{"team": NaN}', '{"team":"a","team":"b"}', '{"team":"\\ud800"}'):
        assert "team" in json.loads(text)


@pytest.mark.parametrize("payload", [b"\xff", b'{"team":"\xc3"}', b'{"t":"\xed\xa0\x80"}'])
def test_broken_utf8_is_refused_as_such(payload: bytes) -> None:
    assert refused(read_job(payload)) == (RejectionCode.INVALID_UTF8, "")


def test_brackets_within_strings_do_not_count_as_nesting() -> None:
    job = {**JOB, "note": "[" * 500 + '\\"{'}
    assert refused(read_job(job)) == (RejectionCode.UNKNOWN_FIELD, "$.note")


def test_a_whole_surrogate_pair_is_text() -> None:
    payload = json.dumps({**JOB, "note": "😀"})
    assert "\\ud83d" in payload
    assert refused(read_job(payload))[0] is RejectionCode.UNKNOWN_FIELD


@pytest.mark.parametrize("value", [b"null", b"[]", b"5", b'"x"', b"true", b"1.5"])
def test_a_payload_that_is_not_an_object_has_the_wrong_type(value: bytes) -> None:
    assert refused(read_job(value)) == (RejectionCode.WRONG_TYPE, "$")


@pytest.mark.parametrize("digits", [20, 41, 5_000, 60_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_of_any_length_is_out_of_range(digits: int, sign: str) -> None:
    job = {name: value for name, value in JOB.items() if name != "size_macc"}
    payload = json.dumps(job)[:-1] + f', "size_macc": {sign}{"9" * digits}}}'
    assert refused(read_job(payload)) == (RejectionCode.OUT_OF_RANGE, "$.size_macc")


def test_a_number_with_an_exponent_is_no_integer_even_when_whole_or_endless() -> None:
    for number in ("8e3", "8000.0", "1e999", "-0.0"):
        payload = json.dumps(JOB).replace("8000", number)
        assert refused(read_job(payload)) == (RejectionCode.WRONG_TYPE, "$.size_macc")


def test_a_tombstone_is_refused_as_empty() -> None:
    answer = decode_edge(JobSubmitted.TYPE, "id", "test", None, ACCEPTED)
    assert answer == Rejection(RejectionCode.INVALID_JSON, "", "empty")


def test_an_event_may_have_64_kib_and_not_a_byte_more() -> None:
    payload = json.dumps(JOB).encode()
    full = payload + b" " * (PAYLOAD_BYTES_MAX - len(payload))
    assert isinstance(read_job(full), JobSubmitted)
    assert refused(read_job(full + b" ")) == (RejectionCode.EVENT_TOO_LARGE, "")


def pool_of(teams: int) -> bytes:
    names = [{"team": f"team-{n:05}", "income_local_per_hour": 5} for n in range(teams)]
    return json.dumps({"document": {**POOL, "teams": names}}).encode()


def test_a_pool_of_thousands_of_teams_is_one_document() -> None:
    document = pool_of(5_000)
    assert len(document) > 3 * PAYLOAD_BYTES_MAX
    assert isinstance(read(AccountsRequested.TYPE, document), AccountsRequested)
    # Its size counts for its own type on its own topic only.
    assert refused(read_job(document)) == (RejectionCode.EVENT_TOO_LARGE, "")
    foreign = decode_edge(
        AccountsRequested.TYPE, "i", "s", document, frozenset({JobSubmitted.TYPE})
    )
    assert refused(foreign) == (RejectionCode.EVENT_TOO_LARGE, "")


def test_an_account_document_may_have_512_kib_and_not_a_byte_more() -> None:
    most = payload_bytes_max(AccountsRequested.TYPE)
    payload = pool_of(1)
    full = payload + b" " * (most - len(payload))
    assert most == 512 * 1024
    assert isinstance(read(AccountsRequested.TYPE, full), AccountsRequested)
    answer = read(AccountsRequested.TYPE, full + b" ")
    assert refused(answer) == (RejectionCode.EVENT_TOO_LARGE, "")


def test_a_megabyte_is_refused_by_its_size_before_anything_is_looked_at() -> None:
    answer = decode_edge(None, None, None, b"\xff" * 1_000_000, frozenset())
    assert refused(answer) == (RejectionCode.EVENT_TOO_LARGE, "")


@pytest.mark.parametrize(
    ("event_type", "code"),
    [
        (None, RejectionCode.UNKNOWN_EVENT_TYPE),
        ("", RejectionCode.UNKNOWN_EVENT_TYPE),
        ("com.example.job.submitted.v1", RejectionCode.UNKNOWN_EVENT_TYPE),
        ("walras.job.exploded.v1", RejectionCode.UNKNOWN_EVENT_TYPE),
        ("walras.job.submitted", RejectionCode.UNKNOWN_EVENT_TYPE),
        ("WALRAS.job.submitted.v1", RejectionCode.UNKNOWN_EVENT_TYPE),
        ("walras.job.submitted.v1 ", RejectionCode.UNKNOWN_EVENT_VERSION),
        ("walras.job.submitted.v2", RejectionCode.UNKNOWN_EVENT_VERSION),
        ("walras.job.submitted.v0", RejectionCode.UNKNOWN_EVENT_VERSION),
        ("walras.job.submitted.vv", RejectionCode.UNKNOWN_EVENT_VERSION),
        ("x" * 60_000, RejectionCode.UNKNOWN_EVENT_TYPE),
    ],
)
def test_unknown_types_and_unknown_versions_are_told_apart(
    event_type: str | None, code: RejectionCode
) -> None:
    answer = decode_edge(event_type, "id", "test", json.dumps(JOB).encode(), ACCEPTED)
    assert refused(answer) == (code, "ce_type")


def test_a_known_type_on_the_wrong_topic_is_unknown_there() -> None:
    answer = decode_edge(JobSubmitted.TYPE, "id", "test", b"{}", frozenset({JobCancelled.TYPE}))
    assert refused(answer) == (RejectionCode.UNKNOWN_EVENT_TYPE, "ce_type")


def test_an_accepted_type_without_a_model_is_refused_and_does_not_raise() -> None:
    name = "walras.job.exploded.v1"
    assert refused(decode_edge(name, "id", "test", b"{}", frozenset({name})))[0] in {
        RejectionCode.UNKNOWN_EVENT_TYPE,
        RejectionCode.UNKNOWN_EVENT_VERSION,
    }


@pytest.mark.parametrize(
    ("event_id", "source", "code", "path"),
    [
        (None, "s", RejectionCode.MISSING_EVENT_ID, "ce_id"),
        ("", "s", RejectionCode.MISSING_EVENT_ID, "ce_id"),
        ("i", None, RejectionCode.MISSING_EVENT_ID, "ce_source"),
        ("i", "", RejectionCode.MISSING_EVENT_ID, "ce_source"),
        ("i" * 201, "s", RejectionCode.INVALID_VALUE, "ce_id"),
        ("i", "s" * 501, RejectionCode.INVALID_VALUE, "ce_source"),
        ("i\ud800", "s", RejectionCode.INVALID_VALUE, "ce_id"),
    ],
)
def test_an_event_needs_an_identity_that_can_be_recorded(
    event_id: str | None, source: str | None, code: RejectionCode, path: str
) -> None:
    answer = decode_edge(JobSubmitted.TYPE, event_id, source, json.dumps(JOB).encode(), ACCEPTED)
    assert refused(answer) == (code, path)


def test_faults_are_given_in_the_order_of_the_codes() -> None:
    """One payload with every fault; each is mended in turn and the next code shows."""
    big = {"pad": "x" * PAYLOAD_BYTES_MAX}
    steps: list[tuple[str | None, str | None, bytes, RejectionCode]] = [
        (None, None, json.dumps(big).encode(), RejectionCode.EVENT_TOO_LARGE),
        ("nonsense", None, b"\xff", RejectionCode.MISSING_EVENT_ID),
        ("nonsense", "i", b"\xff", RejectionCode.UNKNOWN_EVENT_TYPE),
        ("walras.job.submitted.v9", "i", b"\xff", RejectionCode.UNKNOWN_EVENT_VERSION),
        (JobSubmitted.TYPE, "i", b"{\xff", RejectionCode.INVALID_UTF8),
        (JobSubmitted.TYPE, "i", b"{", RejectionCode.INVALID_JSON),
    ]
    job: dict[str, Any] = {"job": "j", "types": ["/"], "size_macc": 0, "submitted_ms": 1.5, "x": 1}
    steps.append((JobSubmitted.TYPE, "i", json.dumps(job).encode(), RejectionCode.MISSING_FIELD))
    job["team"] = "t"
    steps.append((JobSubmitted.TYPE, "i", json.dumps(job).encode(), RejectionCode.UNKNOWN_FIELD))
    del job["x"]
    steps.append((JobSubmitted.TYPE, "i", json.dumps(job).encode(), RejectionCode.WRONG_TYPE))
    job["submitted_ms"] = 1
    steps.append((JobSubmitted.TYPE, "i", json.dumps(job).encode(), RejectionCode.OUT_OF_RANGE))
    job["size_macc"] = 1
    steps.append((JobSubmitted.TYPE, "i", json.dumps(job).encode(), RejectionCode.INVALID_VALUE))
    order = list(RejectionCode)
    assert [code for *_, code in steps] == order[: order.index(RejectionCode.UNKNOWN_TEAM)]
    for event_type, event_id, payload, code in steps:
        answer = decode_edge(event_type, event_id, "test", payload, ACCEPTED)
        assert refused(answer)[0] is code


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        ({**POOL, "teams": [TEAM, {**TEAM, "team": "b"}, {**TEAM, "team": "c"},
                            {"team": "d", "income_local_per_hour": 1.5}]},
         RejectionCode.WRONG_TYPE, "$.document.teams[3].income_local_per_hour"),
        ({**POOL, "teams": [TEAM, TEAM]}, RejectionCode.INVALID_VALUE, "$.document.teams"),
        ({**POOL, "teams": [{**TEAM, "colour": 1}]},
         RejectionCode.UNKNOWN_FIELD, "$.document.teams[0].colour"),
        ({**POOL, "pool": "a b"}, RejectionCode.INVALID_VALUE, "$.document.pool"),
        ({**POOL, "market": "m"}, RejectionCode.UNKNOWN_FIELD, "$.document.market"),
        ({"pool": "p"}, RejectionCode.MISSING_FIELD, "$.document.kind"),
        ({**POOL, "kind": "herd"}, RejectionCode.INVALID_VALUE, "$.document.kind"),
        ({**POOL, "kind": None}, RejectionCode.WRONG_TYPE, "$.document.kind"),
        ({**POOL, "kind": ["pool"]}, RejectionCode.WRONG_TYPE, "$.document.kind"),
        ({"kind": "pool"}, RejectionCode.MISSING_FIELD, "$.document.pool"),
        ({"kind": "market", "market": "m", "gate": "ajar"},
         RejectionCode.INVALID_VALUE, "$.document.gate"),
        ([], RejectionCode.WRONG_TYPE, "$.document"),
        (None, RejectionCode.WRONG_TYPE, "$.document"),
        ("pool", RejectionCode.WRONG_TYPE, "$.document"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_paths_reach_into_documents(document: object, code: RejectionCode, path: str) -> None:
    answer = read("walras.accounts.requested.v1", {"document": document})
    assert refused(answer) == (code, path)


def test_rules_between_fields_are_named_at_the_field() -> None:
    assert not isinstance(read("walras.usage.metered.v1", USAGE), Rejection)
    answer = read("walras.usage.metered.v1", {**USAGE, "end_ms": 5})
    assert answer == Rejection(
        RejectionCode.INVALID_VALUE, "$.end_ms", "must be later than start_ms"
    )


def test_own_supply_must_be_sorted_and_name_each_pool_once() -> None:
    supply: dict[str, Any] = {
        "market": "m",
        "shared_macc": 0,
        "withheld_macc": 0,
        "market_time_ms": 0,
        "own": [{"pool": "b", "macc": 1}, {"pool": "a", "macc": 1}],
    }
    answer = read("walras.supply.published.v1", supply)
    assert isinstance(answer, Rejection)
    assert (answer.path, answer.reason) == ("$.own", "pool a (item 1) is not in ascending order")
    supply["own"][1]["pool"] = "b"
    answer = read("walras.supply.published.v1", supply)
    assert isinstance(answer, Rejection)
    assert answer.reason == "pool b occurs twice (items 0 and 1)"


def test_a_key_of_sixty_thousand_characters_does_not_come_back_in_the_answer() -> None:
    for key in ("k" * 60_000, "\x00é" * 5_000):
        answer = read_job({**JOB, key: 1})
        assert refused(answer)[0] is RejectionCode.UNKNOWN_FIELD
    payload = f'{{"{"k" * 30_000}":1,"{"k" * 30_000}":1}}'
    assert refused(read_job(payload))[0] is RejectionCode.INVALID_JSON


def test_five_thousand_unknown_fields_give_one_answer() -> None:
    fields = {**JOB, **{f"f{n}": 1 for n in range(5_000)}}
    assert refused(read_job(fields)) == (RejectionCode.UNKNOWN_FIELD, "$.f0")


def test_any_rejection_can_be_recorded_whatever_the_attributes_look_like() -> None:
    rejection = decode_edge(None, None, None, b"", ACCEPTED)
    assert isinstance(rejection, Rejection)
    coordinates: dict[str, Any] = {"topic": "walras.demand.v1", "partition": 0, "offset": 5}
    bare = DemandRejected.of(rejection, source=None, event_id=None, **coordinates)
    assert (bare.event_id, bare.source, bare.code) == ("", "", "missing_event_id")
    odd = DemandRejected.of(rejection, source="s" * 9_000, event_id="\ud800" * 900, **coordinates)
    assert odd.event_id == "?" * 200
    assert len(odd.source) == 500
    assert read(DemandRejected.TYPE, odd.payload()) == odd
