"""The evidence of `walras demo-nodes` is what log, journals and checkpoints say."""

import json
from dataclasses import replace
from pathlib import Path

from cli.tests.demo_nodes_story import story
from walras.demo_nodes.checking import check
from walras.demo_nodes.evidence import SavedStep, read_evidence
from walras.demo_nodes.folders import NodeFolders
from walras.demo_nodes.journal import Attempt
from walras.jobs_log.testing import MemoryLog
from walras_job import Checkpoint

EVENTS = ("prices", "vacates", "grants", "statuses", "drains", "usage", "charges", "credits")


def lines_of(attempt: Attempt) -> list[dict[str, object]]:
    """Return the lines that a process would have written."""
    about = {
        "node": attempt.node,
        "lease": attempt.lease,
        "attempt": attempt.attempt,
        "devices": list(attempt.devices),
        "at_ms": attempt.begins_ms,
    }
    last = attempt.steps[-1]
    begun = {"what": "begins", "step": attempt.begins_after, "digest": attempt.begins_digest}
    made = [
        {"what": "step", "step": step, "loss": loss}
        for step, loss in zip(attempt.steps, attempt.losses, strict=True)
    ]
    saved = {"what": "saved", "step": last, "digest": attempt.last_digest}
    ended = {"what": attempt.ended, "step": last}
    lines = [about | line for line in (begun, *made, saved, ended)]
    lines[-1]["at_ms"] = attempt.ends_ms
    return lines


def test_a_run_read_from_log_journals_and_checkpoints_is_the_run_as_it_was(tmp_path: Path) -> None:
    played, log, folders = story(), MemoryLog(), NodeFolders(tmp_path)
    for name in EVENTS:
        log.put(*getattr(played, name))
    key = played.scenario.subject.key
    path = folders.journal(key)
    path.parent.mkdir(parents=True)
    lines = [line for attempt in played.journal.attempts for line in lines_of(attempt)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    for each in reversed(played.checkpoints):
        Checkpoint(folders.saved(key), keep=9, attempt=each.attempt).save(b"weights", each.step)

    found = read_evidence(log, played.scenario, folders)

    for name in EVENTS:
        read, put = getattr(found, name), getattr(played, name)
        assert sorted(read, key=repr) == sorted(put, key=repr), name
    assert found.journals == played.journals
    assert found.checkpoints == (SavedStep(2, 6), SavedStep(1, 3))
    assert len(found.digest_in_one_go) == 64
    same = replace(found, digest_in_one_go=played.digest_in_one_go)
    assert {each.name: each.faults for each in check(same) if not each.holds} == {}
