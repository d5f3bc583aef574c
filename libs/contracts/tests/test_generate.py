"""Derived files: written, found stale, released."""

import json
import shutil
from pathlib import Path

import pytest

from walras_contracts.generate import (
    REPOSITORY,
    GenerationError,
    main,
    release,
    release_faults,
    stale_files,
    with_block,
    write_files,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the sources of generation only."""
    (tmp_path / "schemas").mkdir()
    for name in ("topics.toml", "README.md"):
        shutil.copy(REPOSITORY / "schemas" / name, tmp_path / "schemas" / name)
    shutil.copytree(REPOSITORY / "schemas/examples", tmp_path / "schemas/examples")
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_what_was_written_is_fresh_and_writing_again_changes_nothing(root: Path) -> None:
    assert "docs/dataflow.md" in write_files(root)
    assert stale_files(root) == []
    assert write_files(root) == []


def test_an_edited_missing_or_left_over_file_is_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(root)
    (root / "schemas/money/balance.published.v1.json").write_text("{}")
    (root / "schemas/work/usage.metered.v1.json").unlink()
    (root / "schemas/work/usage.metered.v0.json").write_text("{}")
    (root / "docs/dataflow.md").write_text("by hand")
    named = [
        "schemas/work/usage.metered.v1.json",
        "schemas/money/balance.published.v1.json",
        "docs/dataflow.md",
        "schemas/work/usage.metered.v0.json",
    ]
    assert stale_files(root) == named
    assert main(["--root", str(root), "--check"]) == 1
    assert capsys.readouterr().err.splitlines() == [f"stale: {name}" for name in named]
    assert main(["--root", str(root)]) == 0
    assert main(["--root", str(root), "--check"]) == 0
    assert not (root / "schemas/work/usage.metered.v0.json").exists()


def test_words_around_the_tables_are_kept(root: Path) -> None:
    guide = root / "schemas/README.md"
    guide.write_text("mine\n" + guide.read_text() + "also mine\n")
    write_files(root)
    text = guide.read_text()
    assert text.startswith("mine\n")
    assert text.endswith("also mine\n")
    assert "`walras.demand.v1`" in text


def test_the_drawing_goes_into_a_readme_that_has_the_markers_and_no_other(root: Path) -> None:
    readme = root / "README.md"
    write_files(root)
    assert not readme.exists()
    readme.write_text("no markers\n")
    assert write_files(root) == []
    readme.write_text("a\n<!-- dataflow:begin -->\nold\n<!-- dataflow:end -->\nb\n")
    assert write_files(root) == ["README.md"]
    text = readme.read_text()
    assert "flowchart LR" in text
    assert "old" not in text
    assert text.startswith("a\n")
    assert text.endswith("b\n")


@pytest.mark.parametrize(
    "text",
    ["", "<!-- x:begin -->", "<!-- x:end --><!-- x:begin -->", "<!-- x:end -->",
     "<!-- x:begin --><!-- x:begin --><!-- x:end -->",
     "<!-- x:begin --><!-- x:end --><!-- x:end -->"],
)  # fmt: skip
def test_markers_must_be_there_once_in_order(text: str) -> None:
    with pytest.raises(GenerationError, match="needs <!-- x:begin --> and <!-- x:end --> once"):
        with_block(text, "x", "block", "file")


def test_a_missing_guide_is_said_and_not_invented(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "schemas/README.md").unlink()
    assert main(["--root", str(root)]) == 1
    assert "schemas/README.md is missing" in capsys.readouterr().err


def test_a_broken_registry_is_said_in_one_line(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "schemas/topics.toml").write_text("[[topic]]\nname = 5\n")
    assert main(["--root", str(root), "--check"]) == 1
    assert capsys.readouterr().err.startswith("schemas/topics.toml: topic 5: ")


def test_a_release_records_schemas_and_examples_and_is_then_held_to_them(root: Path) -> None:
    (root / "schemas/examples/released.json").unlink(missing_ok=True)
    assert release(root) == []
    assert release_faults(root) == []
    example = root / "schemas/examples/job.cancelled.v1/plain.json"
    example.write_text(example.read_text() + " ")
    edited = "schemas/examples/job.cancelled.v1/plain.json: a released example was edited"
    assert release_faults(root) == [edited]
    assert release(root) == [edited]
    example.unlink()
    gone = "schemas/examples/job.cancelled.v1/plain.json: a released example is gone"
    assert release_faults(root) == [gone]


def test_a_breaking_change_stands_against_a_release_and_fails_the_check(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release(root) == []
    write_files(root)
    path = root / "schemas/released/job.cancelled.v1.json"
    document = json.loads(path.read_text())
    document["properties"]["why"] = {"type": "string", "maxLength": 10}
    path.write_text(json.dumps(document))
    (root / "schemas/released/job.paused.v1.json").write_text("{}")
    faults = ["job.cancelled.v1: $.why: field removed", "job.paused.v1: the event is gone"]
    assert main(["--root", str(root), "--check"]) == 1
    assert capsys.readouterr().err.splitlines() == faults
    assert main(["--root", str(root), "--release"]) == 1
