"""What the documents say of the job file is what the command reads; a dry run prints the event."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from walras.submit.job_file import _FIELDS, _RUN_FIELDS, read_job_file
from walras.submit_command import EPILOG
from walras_contracts.demand import JobSubmitted
from walras_contracts.runs import RunSpec

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "jobs.md"
TEXT = DOCUMENT.read_text("utf-8")
EXAMPLE = re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def example() -> str:
    assert EXAMPLE is not None
    return EXAMPLE[1]


def test_the_example_of_the_page_is_a_job_with_every_field() -> None:
    text = example()
    job = read_job_file("f", text.encode()).event(0)
    assert job.run is not None
    for name in (*_FIELDS, *_RUN_FIELDS):
        assert re.search(rf"^(# )?\[?(run\.)?{name}\b", text, re.MULTILINE), name


def test_the_example_of_the_help_is_a_job() -> None:
    text = EPILOG.partition("\n\nOnly team,")[0]
    job = read_job_file("f", text.encode()).event(0)
    assert (job.size_macc, job.limit_micro, job.expected_run_ms) == (8000, 2_500_000, 21_600_000)


def test_every_field_of_the_contract_has_its_row_on_the_page() -> None:
    of_file = {target: name for name, (target, _) in _FIELDS.items()}
    of_run = {target: name for name, (target, _) in _RUN_FIELDS.items()}
    for field in JobSubmitted.model_fields.keys() - {"submitted_ms", "run"}:
        assert f"| `{of_file[field]}` |" in TEXT, field
    for field in RunSpec.model_fields:
        assert f"| `run.{of_run[field]}` |" in TEXT, field


def dry_run(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walras", "submit", str(path), "--dry-run", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WALRAS_KAFKA_BOOTSTRAP", raising=False)
    file = tmp_path / "job.toml"
    text = re.sub(r"^deadline.*\n", "", example(), flags=re.MULTILINE)
    file.write_text(text.replace('checkpoint = "30s"', 'checkpoint = "45s"'))
    return file


def test_a_dry_run_without_a_broker_prints_the_event_and_the_chain(path: Path) -> None:
    done = dry_run(path)
    assert done.returncode == 0
    assert "nothing wrong with it; nothing was written" in done.stdout
    assert "warning to SIGTERM: the platform's warning_ms grants 1min" in done.stdout
    document = json.loads(done.stdout[done.stdout.index("{") :])
    assert JobSubmitted.model_validate_json(json.dumps(document)).job == "train-7"
    assert done.stderr.startswith("walras submit: warning: the shortest link: launcher to its work")


def test_a_dry_run_as_json_holds_chain_and_warnings(path: Path) -> None:
    done = dry_run(path, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["outcome"], document["event_id"]) == (0, "checked", None)
    assert [link["holds"] for link in document["grace_chain"]] == [True, True, False]
    assert len(document["warnings"]) == 1


def test_a_file_with_a_fault_is_refused_naming_the_line(path: Path) -> None:
    path.write_text(path.read_text().replace("accelerators = 8", "accelerators = 8.0005"))
    done = dry_run(path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"job\.toml: line \d+: accelerators: '8\.0005' is too fine", done.stderr)
