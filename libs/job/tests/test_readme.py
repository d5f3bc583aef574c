"""The README: its example runs, and it names everything of the contract."""

import doctest
import re
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent
from walras_job import protocol

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_example_does_what_it_says(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def part_of_a_job() -> Path:
        monkeypatch.setenv("WALRAS_CONTROL_DIR", str(agent.control.path))
        return agent.control.path

    (block,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    example = doctest.DocTestParser().get_doctest(
        block, {"part_of_a_job": part_of_a_job}, "README", str(README), 0
    )
    said: list[str] = []
    result = doctest.DocTestRunner().run(example, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted >= 10


def test_every_variable_file_and_field_of_the_contract_is_named() -> None:
    text = README.read_text("utf-8")
    names = [
        value
        for name, value in vars(protocol).items()
        if name.endswith(("_VARIABLE", "_FILE")) and not name.startswith("_")
    ]
    assert len(names) == 18
    launcher_only = {"WALRAS_SESSION", "WALRAS_REASON", "WALRAS_DEADLINE_MS"}
    assert [name for name in names if name not in text and name not in launcher_only] == []
    documents = (
        *(protocol.DrainWarning, protocol.DrainCancel),
        *(protocol.DrainDone, protocol.DrainProgress),
    )
    fields = {field for document in documents for field in document.__dataclass_fields__}
    assert [field for field in sorted(fields) if f'"{field}"' not in text] == []
