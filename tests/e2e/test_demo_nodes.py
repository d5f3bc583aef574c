"""The demo of nodes, with real agents and processes; an interrupt leaves nothing running."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from walras.demo_nodes.journal import read_journal
from walras_node_agent.host.machine import is_alive, started
from walras_node_agent.host.process_tree import below, send

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(300),
]
PATIENCE_S = 200.0
POLL_S = 0.1


@contextmanager
def demo(out: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start the command on a broker of its own; nothing of it runs afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WALRAS_")}
    if "WALRAS_CACHE_DIR" in os.environ:
        kept["WALRAS_CACHE_DIR"] = os.environ["WALRAS_CACHE_DIR"]
    with (out.parent / "told.txt").open("w") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "walras", "demo-nodes", "--out", str(out), "--json"],
            env=kept,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            process_group=0,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            everything = below(process.pid)
            process.kill()
            send(everything, signal.SIGKILL)
        process.communicate()


def told(out: Path) -> str:
    return (out.parent / "told.txt").read_text("utf-8")


def alive(processes: dict[int, int]) -> list[int]:
    return [pid for pid, start in processes.items() if is_alive(pid, start)]


def test_a_job_that_the_price_sent_away_goes_on_elsewhere_and_every_fact_holds(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    with demo(out) as process:
        document, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, told(out)
    found = json.loads(document)
    assert found == json.loads((out / "facts.json").read_text("utf-8"))
    facts = found["facts"]
    assert {name: fact["faults"] for name, fact in facts.items()} == {
        name: []
        for name in ("price", "drain", "devices", "elsewhere", "steps", "training", "billing")
    }
    assert facts["price"]["before_micro"] <= facts["price"]["limit_micro"]
    assert facts["price"]["peak_micro"] > facts["price"]["limit_micro"]
    assert facts["price"]["after_micro"] <= facts["price"]["limit_micro"]
    assert facts["steps"]["went_on_after_step"] == facts["steps"]["checkpoint_step"] > 0
    assert facts["drain"]["states"][-3:] == ["waiting", "verifying", "freed"]
    assert facts["devices"]["most_held_at_once"] == facts["devices"]["devices"] == 24
    assert len(set(facts["elsewhere"]["nodes"])) == 2
    assert facts["billing"]["charged_micro"] > 0
    assert (out / "timeline.svg").read_text("utf-8").startswith("<svg ")
    assert "vision/pretrain is warned" in told(out)


def test_an_interrupt_ends_all_that_was_started(tmp_path: Path) -> None:
    """SIGTERM, which the command turns into the SIGINT of Ctrl-C."""
    out = tmp_path / "out"
    journal = out / "checkpoints" / "vision" / "pretrain" / "journal.jsonl"
    with demo(out) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not read_journal(journal).last_step:
            assert process.poll() is None, told(out)
            assert time.monotonic() < deadline, told(out)
            time.sleep(POLL_S)
        starts = {pid: started(pid) for pid in below(process.pid)}
        running = {pid: start for pid, start in starts.items() if start is not None}
        # Broker, zygote, seven services, three agents, a keeper and a training at the least.
        assert len(running) >= 14, told(out)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, told(out)
    assert told(out).endswith("stopped; nothing is left running\n")
    assert "Traceback" not in told(out)
    assert alive(running) == []
