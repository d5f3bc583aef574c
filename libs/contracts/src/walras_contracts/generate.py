"""Write what is derived from the models and the topic registry; check that it is fresh.

``python -m walras_contracts.generate`` writes, ``--check`` names what is stale and exits with 1,
``--release`` records today's schemas and examples as released and refuses a breaking change.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from walras_contracts import dataflow
from walras_contracts.compatibility import breaking_changes
from walras_contracts.json_schema import domain_of, event_name, schema_of, schema_text
from walras_contracts.registry import EVENTS
from walras_contracts.topics import parse_topics

REPOSITORY = Path(__file__).resolve().parents[4]
_RELEASED_EXAMPLES = Path("schemas/examples/released.json")


class GenerationError(Exception):
    """A file that carries generated blocks is missing, or its markers are."""

    code = "generation_failed"
    retriable = False


def expected_files(root: Path) -> dict[Path, str]:
    """Return the whole text of every derived file, by path relative to the repository.

    Raises
    ------
    GenerationError
        ``schemas/README.md`` is missing or lacks its markers.
    """
    topics = parse_topics((root / "schemas/topics.toml").read_text("utf-8"))
    files = {
        Path("schemas") / domain_of(model) / f"{event_name(model)}.json": schema_text(model)
        for model in EVENTS
    }
    files[Path("docs/dataflow.md")] = dataflow.page(topics)
    guide = Path("schemas/README.md")
    if not (root / guide).is_file():
        raise GenerationError(f"{guide} is missing; its rules are written by hand")
    text = (root / guide).read_text("utf-8")
    text = with_block(text, "topics", dataflow.topics_table(topics), str(guide))
    files[guide] = with_block(text, "events", dataflow.events_table(topics), str(guide))
    readme = Path("README.md")
    if (root / readme).is_file():
        text = (root / readme).read_text("utf-8")
        if "<!-- dataflow:begin -->" in text:
            files[readme] = with_block(text, "dataflow", dataflow.mermaid(topics), str(readme))
    return files


def with_block(text: str, name: str, block: str, file: str) -> str:
    """Return the text with ``block`` between the markers ``<!-- name:begin -->`` and ``:end``.

    Raises
    ------
    GenerationError
        The markers are not there exactly once, in order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end) or begin in rest or end in after:
        raise GenerationError(f"{file}: needs {begin} and {end} once, in this order")
    return f"{before}{begin}\n{block}\n{end}{after}"


def stale_files(root: Path) -> list[str]:
    """Return the derived files that differ from what they should be, or should not be there."""
    expected = expected_files(root)
    stale = [
        str(path)
        for path, text in expected.items()
        if not (root / path).is_file() or (root / path).read_text("utf-8") != text
    ]
    return stale + [str(path) for path in _leftovers(root, expected)]


def write_files(root: Path) -> list[str]:
    """Write what is stale and remove schemas of events that are gone; return their paths."""
    stale = stale_files(root)
    expected = expected_files(root)
    for name in stale:
        path = root / name
        if Path(name) in expected:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(expected[Path(name)], "utf-8")
        else:
            path.unlink()
    return stale


def _leftovers(root: Path, expected: dict[Path, str]) -> list[Path]:
    return [
        path.relative_to(root)
        for domain in sorted({domain_of(model) for model in EVENTS})
        for path in sorted((root / "schemas" / domain).glob("*.json"))
        if path.relative_to(root) not in expected
    ]


def released_schema_path(root: Path, name: str) -> Path:
    """Path of the schema of an event as last released."""
    return root / "schemas/released" / f"{name}.json"


def release_faults(root: Path) -> list[str]:
    """Return what in today's models and examples breaks what was released."""
    faults = []
    released = {path.stem for path in (root / "schemas/released").glob("*.json")}
    for model in EVENTS:
        name = event_name(model)
        if name in released:
            document = json.loads(released_schema_path(root, name).read_text("utf-8"))
            changes = breaking_changes(document, schema_of(model))
            faults += [f"{name}: {change}" for change in changes]
    known = {event_name(model) for model in EVENTS}
    faults += [f"{name}: the event is gone" for name in sorted(released - known)]
    for file, digest in released_examples(root).items():
        path = root / "schemas/examples" / file
        if not path.is_file():
            faults.append(f"schemas/examples/{file}: a released example is gone")
        elif _digest(path) != digest:
            faults.append(f"schemas/examples/{file}: a released example was edited")
    return faults


def released_examples(root: Path) -> dict[str, str]:
    """Return the SHA-256 of every released example, by path below ``schemas/examples``."""
    path = root / _RELEASED_EXAMPLES
    released: dict[str, str] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return released


def example_files(root: Path) -> list[Path]:
    """Return all examples, sorted."""
    return sorted((root / "schemas/examples").glob("*/*.json"))


def release(root: Path) -> list[str]:
    """Record today's schemas and examples as released, unless that breaks a release.

    Returns
    -------
    list[str]
        What stands against it; empty after success.
    """
    faults = release_faults(root)
    if faults:
        return faults
    for model in EVENTS:
        path = released_schema_path(root, event_name(model))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(schema_text(model), "utf-8")
    examples = root / "schemas/examples"
    digests = {str(p.relative_to(examples)): _digest(p) for p in example_files(root)}
    (root / _RELEASED_EXAMPLES).write_text(json.dumps(digests, indent=2) + "\n", "utf-8")
    return []


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m walras_contracts.generate")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help="the repository")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="write nothing; 1 if something is stale")
    mode.add_argument("--release", action="store_true", help="record today's state as released")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            lines = [f"stale: {path}" for path in stale_files(options.root)]
            lines += release_faults(options.root)
        elif options.release:
            lines = release(options.root)
        else:
            lines = []
            for path in write_files(options.root):
                sys.stdout.write(f"wrote {path}\n")
    except (GenerationError, ValueError) as error:
        lines = [str(error)]
    for line in lines:
        sys.stderr.write(f"{line}\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
