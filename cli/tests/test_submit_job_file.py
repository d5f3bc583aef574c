"""A job file becomes the event exactly, or is refused with line and field."""

import json
import tomllib
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.billing_log.amounts import scaled_text
from walras.billing_log.window import moment
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.units import duration_text
from walras.submit.job_file import read_job_file
from walras.submit.key_lines import key_lines
from walras_contracts.demand import JobSubmitted
from walras_contracts.edge import decode_edge
from walras_contracts.examples import arbitrary_event

SMALLEST = 'team = "t"\njob = "j"\ntypes = ["a100"]\naccelerators = 8\n'


def written(text: str) -> str:
    """Return a TOML string that holds the text."""
    # What JSON writes is a string of TOML but for DEL and halves of surrogate pairs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_of(job: JobSubmitted) -> str:
    """Return the file of a job."""
    rows = [
        f"team = {written(job.team)}",
        f"job = {written(job.job)}",
        f"types = [{', '.join(written(kind) for kind in job.types)}]",
        f"accelerators = {scaled_text(job.size_macc, 3)}",
        f"gang = {str(job.gang).lower()}",
        f"drainability = {written(job.drainability.value)}",
        f"minimum_run = {written(duration_text(job.minimum_run_ms))}",
    ]
    if job.limit_micro is not None:
        rows.append(f"limit = {scaled_text(job.limit_micro, 6)}")
    if job.expected_run_ms is not None:
        rows.append(f"expected_run = {written(duration_text(job.expected_run_ms))}")
    if job.deadline_ms is not None:
        rows.append(f"deadline = {moment(job.deadline_ms)}")
    if (run := job.run) is not None:
        rows += [
            "[run]",
            f"command = [{', '.join(written(word) for word in run.command)}]",
            f"directory = {written(run.directory)}",
            f"warning = {written(run.warning.value)}",
            f"checkpoint = {written(duration_text(run.checkpoint_ms))}",
            f"stop = {written(duration_text(run.stop_ms))}",
        ]
        if run.warning_url is not None:
            rows.append(f"warning_url = {written(run.warning_url)}")
        if run.launcher_stop_ms is not None:
            rows.append(f"launcher_stop = {written(duration_text(run.launcher_stop_ms))}")
        rows.append("[run.environment]")
        rows += [f"{written(each.name)} = {written(each.value)}" for each in run.environment]
    return "\n".join(rows) + "\n"


@given(st.integers(0, 2**32))
def test_every_job_can_be_written_as_a_file_and_comes_back_exactly(seed: int) -> None:
    job = arbitrary_event(JobSubmitted, Random(seed))
    text = toml_of(job)
    assert read_job_file("f", text.encode()).event(job.submitted_ms) == job


def read(text: str, now_ms: int = 0) -> JobSubmitted:
    return read_job_file("job.toml", text.encode()).event(now_ms)


def test_what_is_left_out_takes_the_defaults_of_the_contract() -> None:
    assert read(SMALLEST, 5) == JobSubmitted(
        team="t", job="j", types=("a100",), size_macc=8000, submitted_ms=5
    )


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('limit = "none"', "limit_micro", None),
        ("limit = 0", "limit_micro", 0),
        ("limit = 2.5", "limit_micro", 2_500_000),
        ('limit = "0.000001"', "limit_micro", 1),
        ('expected_run = "1.5h"', "expected_run_ms", 5_400_000),
        ("deadline = 2026-01-31T12:00:00Z", "deadline_ms", 1_769_860_800_000),
        ("deadline = 2026-01-31T13:00:00+01:00", "deadline_ms", 1_769_860_800_000),
        ("deadline = 2026-01-31T12:00:00", "deadline_ms", 1_769_860_800_000),
        ('deadline = "2026-01-31T12:00:00Z"', "deadline_ms", 1_769_860_800_000),
        ("deadline = 2026-02-01", "deadline_ms", 1_769_904_000_000),
    ],
)
def test_units_are_those_that_people_write(line: str, field: str, value: Any) -> None:
    assert getattr(read(SMALLEST + line), field) == value


FAULTS = [
    ("taem = 1", 5, "taem", "not known; did you mean team?"),
    ("limit = 2.5000001", 5, "limit", "at most 6 decimals"),
    ("limit = true", 5, "limit", "a number is needed"),
    ("limit = 1000000.000001", 5, "limit", "must be at most 1000000000000 micro-credits"),
    ("limit = inf", 5, "limit", "no decimal number"),
    ("expected_run = 90", 5, "expected_run", "a time with its unit is needed"),
    ("expected_run = 90.5", 5, "expected_run", "a time with its unit is needed"),
    ('minimum_run = "4000d"', 5, "minimum_run", "at most 316224000000 milliseconds"),
    ('drainability = "maybe"', 5, "drainability", "must be 'restart', 'checkpoint' or 'none'"),
    ("gang = 1", 5, "gang", "true or false is needed"),
    ("deadline = 1969-01-01", 5, "deadline", "not from 1970 to 2100"),
    ("deadline = 0001-01-01T00:00:00+10:00", 5, "deadline", "not from 1970 to 2100"),
    ("deadline = 12:00:00", 5, "deadline", "a date and time is needed"),
    ("deadline = 1769860800000", 5, "deadline", "a date and time is needed"),
    ('deadline = "1769860800000"', 5, "deadline", "a date and time is needed"),
    ("deadline = 1970-01-01", 5, "deadline", "it is over"),
    ("\n\n[run]\n", 7, "run.command", "the field is required"),
    ("run = 5", 5, "run", "must be a table"),
    ('[run]\ncommand = ["a", 5]', 6, "run.command[1]", "a string is needed, got an integer"),
    ('[run]\ncommand = ["a", 1.5]', 6, "run.command", "a number with a fraction"),
    ('[run]\ncommand = ["a", 2026-01-01]', 6, "run.command", "a date or time"),
    ('[run]\ncommand = ["a"]\ncheckpiont = "1s"', 7, "run.checkpiont", "did you mean checkpoint?"),
    ('[run]\ncommand = ["a"]\n[run.environment]\nA = "x"\nB = 5', 9, "run.environment.B", "string"),
    ('[run]\ncommand = ["a"]\n[run.environment]\n"A-B" = "x"', 8, "run.environment.A-B", "match"),
    ('[run]\ncommand = ["a"]\nenvironment = 5', 7, "run.environment", "a table of texts"),
    ('[run]\ncommand = ["a"]\nwarning = "http"', 5, "run", "warning_url goes with warning http"),
    ("submitted_ms = 5", 5, "submitted_ms", "not known"),
]


@pytest.mark.parametrize(("line", "number", "field", "reason"), FAULTS)
def test_a_fault_is_named_with_file_line_and_field(
    line: str, number: int, field: str, reason: str
) -> None:
    with pytest.raises(JobsLogError) as caught:
        read(SMALLEST + line)
    assert caught.value.code is Fault.BAD_FIELD
    assert str(caught.value).startswith(f"job.toml: line {number}: {field}: ")
    assert reason in str(caught.value)


def test_a_missing_field_has_no_line() -> None:
    with pytest.raises(JobsLogError, match=r"^job\.toml: job: the field is required$"):
        read('team = "t"\ntypes = ["a"]\naccelerators = 1')


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'team = "t"\njob == 5', "line 2, column 6"),
        (b"\xff", "byte 0 is not valid UTF-8"),
        (b"a = " + b"[" * 30_000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "Exceeds the limit"),
        (b"#" * 300_000, "at most 262144"),
    ],
)
def test_what_is_no_toml_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(JobsLogError) as caught:
        read_job_file("job.toml", data)
    assert caught.value.code is Fault.BAD_FILE
    assert reason in str(caught.value)


def test_a_file_that_makes_too_large_an_event_is_refused_as_a_whole() -> None:
    words = ", ".join([f'"{"x" * 4000}"'] * 20)
    with pytest.raises(JobsLogError, match=r"^job\.toml: \d+ bytes; an event has at most 65536"):
        read(f"{SMALLEST}[run]\ncommand = [{words}]")


VALUES = st.recursive(
    st.one_of(
        st.text(max_size=8).map(written),
        st.integers(-(10**20), 10**20).map(str),
        st.sampled_from(["true", "1.5", "nan", "2026-01-01", "12:00:00", '"90s"', '"none"']),
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=4,
)
NAMES = st.sampled_from(
    [
        *("team", "job", "types", "accelerators", "gang", "limit", "expected_run", "minimum_run"),
        *("drainability", "deadline", "run.command", "run.environment", "run.environment.A"),
        *("run.directory", "run.warning", "run.stop", "x"),
    ]
)


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_a_file_is_an_event_that_intake_takes_or_a_refusal_in_words(rows: dict[str, str]) -> None:
    text = "\n".join(f"{name} = {value}" for name, value in rows.items())
    try:
        job = read(text, 1)
    except JobsLogError as error:
        refused = error
    else:
        accepted = frozenset({JobSubmitted.TYPE})
        assert decode_edge(JobSubmitted.TYPE, "i", "s", job.payload(), accepted) == job
        return
    assert refused.code in {Fault.BAD_FIELD, Fault.BAD_FILE}


def test_keys_are_found_in_their_lines_and_text_that_looks_like_keys_is_not() -> None:
    text = '''a = """
b = 1
"""
c = [
  "d",
]
"e f".g = { h = 1 }
# i = 1
[run]
j = 1
[run.environment]
a = "1"
'''
    assert key_lines(text) == {
        ("a",): 1,
        ("c",): 4,
        ("e f", "g"): 7,
        ("run",): 9,
        ("run", "j"): 10,
        ("run", "environment"): 11,
        ("run", "environment", "a"): 12,
    }
    assert "b" in tomllib.loads(text)["a"]
