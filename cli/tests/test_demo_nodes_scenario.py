"""The scenario of `walras demo-nodes`, the job files made of it, and what the market is told."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.tests.demo_nodes_story import SCENARIO_FILE
from walras.demo_nodes.folders import (
    FACTS,
    MARK,
    FolderInUseError,
    NodeFolders,
    fresh_folders,
)
from walras.demo_nodes.job_files import job_file
from walras.demo_nodes.market_setup import setup_events
from walras.demo_nodes.scenario import load_nodes_scenario
from walras.demo_nodes.services import agent_services, market_services, shared_settings
from walras.processes import Service
from walras.scenario import ScenarioError
from walras.submit.job_file import read_job_file
from walras.submit.submitting import checked
from walras_billing.settings import Settings as BillingSettings
from walras_capacity.settings import Settings as CapacitySettings
from walras_clearing_service.settings import Settings as ClearingSettings
from walras_contracts.accounts import AccountsRequested, PoolDocument
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import Drainability
from walras_drain.settings import Settings as DrainSettings
from walras_intake.settings import Settings as IntakeSettings
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.host.machine import started
from walras_placement.settings import Settings as PlacementSettings
from walras_runtime.settings import ServiceSettings
from walras_ticker.settings import Settings as TickerSettings

SETTINGS: dict[str, type[ServiceSettings]] = {
    "ticker": TickerSettings,
    "intake": IntakeSettings,
    "capacity": CapacitySettings,
    "clearing": ClearingSettings,
    "placement": PlacementSettings,
    "drain": DrainSettings,
    "billing": BillingSettings,
}


def written(tmp_path: Path, change: Callable[[str], str]) -> Path:
    path = tmp_path / "changed.toml"
    path.write_text(change(SCENARIO_FILE.read_text("utf-8")), "utf-8")
    return path


def test_the_scenario_asks_for_more_than_there_is_and_its_first_job_has_the_lowest_limit() -> None:
    found = load_nodes_scenario(SCENARIO_FILE)
    assert len(found.nodes.names) == 3
    assert found.nodes.devices == 8
    assert len(found.jobs) > len(found.nodes.names)
    assert all(job.limit > found.subject.limit for job in found.jobs[1:])
    assert found.market.reserve < found.subject.limit


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ('interval = "1s"', "interval = 1", "$.market.interval"),
        ('interval = "1s"', 'interval = "0s"', "$.market.interval"),
        ('reserve = "0.20"', 'reserve = "-1"', "$.market.reserve"),
        ("devices = 8", "devices = 0", "$.nodes.devices"),
        ("devices = 8", "devices = 8\ncolour = 1", "$.nodes.colour"),
        ('billing_grace = "1s"', "", "$.drains.billing_grace"),
        ('search = "48"', "", "team search of job search/launch-1 has no income"),
        ('job = "launch-2"', 'job = "launch-1"', "two jobs have the same name"),
        ("after_step = 20", "after_step = 0", "nothing to raise a price"),
        ("devices = 8", "devices = = 8", "Invalid value"),
    ],
)
def test_a_scenario_that_cannot_be_played_is_refused_with_the_place(
    tmp_path: Path, old: str, new: str, path: str
) -> None:
    bad = written(tmp_path, lambda text: text.replace(old, new))
    with pytest.raises(ScenarioError, match=r"changed\.toml") as caught:
        load_nodes_scenario(bad)
    assert any(path in fault for fault in caught.value.faults), caught.value.faults


def test_job_files_are_what_walras_submit_takes_and_their_grace_chain_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", 'a "quoted" place')
    found, folders = load_nodes_scenario(SCENARIO_FILE), NodeFolders(tmp_path)
    for job in found.jobs:
        text = job_file(job, found, folders)
        event = checked(read_job_file("job.toml", text.encode()), 1, found.drains.terms())
        assert event.warnings == []
        submitted = event.job
        assert submitted.record_key() == job.key
        assert submitted.limit_micro == job.limit
        assert submitted.size_macc == 1000 * found.nodes.devices
        assert submitted.drainability is Drainability.CHECKPOINT
        assert submitted.run is not None
        assert submitted.run.command[-1] == str(folders.nodes)
        variables = {each.name: each.value for each in submitted.run.environment}
        assert variables["PYTHONPATH"] == 'a "quoted" place'


def test_the_market_is_told_of_every_team_and_node() -> None:
    found = load_nodes_scenario(SCENARIO_FILE)
    events = setup_events(found, 7)
    documents = [e.document for e in events if isinstance(e, AccountsRequested)]
    assert {d.teams[0].team for d in documents if isinstance(d, PoolDocument)} == set(found.incomes)
    nodes = [e.node for e in events if isinstance(e, NodeObserved)]
    assert nodes == list(found.nodes.names)
    assert len({event.record_key() for event in events}) == len(events)


def test_every_process_is_told_what_its_settings_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_nodes_scenario(SCENARIO_FILE)

    def read(service: Service, settings: type[ServiceSettings]) -> ServiceSettings:
        with monkeypatch.context() as patched:
            for name, value in (shared_settings(found) | dict(service.settings)).items():
                patched.setenv(name, value)
            return settings.read(kafka_bootstrap="h:1")

    services = [read(each, SETTINGS[each.name]) for each in market_services(found)]
    assert len(services) == len(SETTINGS)
    agents = [read(each, AgentSettings) for each in agent_services(found, NodeFolders(tmp_path))]
    for each in (*services, *agents):
        assert each.mode == "live"
        assert each.partitions == found.market.partitions
        assert each.barrier_interval_ms() == found.market.interval
        assert each.barriers_per_cycle() == found.market.cycle_every
    assert [a.node for a in agents if isinstance(a, AgentSettings)] == list(found.nodes.names)
    states = {a.state_directory for a in agents if isinstance(a, AgentSettings)}
    assert len(states) == len(agents)


def test_the_folder_of_an_older_run_is_emptied_and_nothing_else_in_it(tmp_path: Path) -> None:
    with fresh_folders(tmp_path / "out") as folders:
        (folders.logs / "old.log").touch()
        (folders.root / FACTS).touch()
        (folders.root / "notes.txt").touch()
    with fresh_folders(tmp_path / "out") as again:
        assert [path.name for path in again.logs.iterdir()] == []
        assert sorted(path.name for path in again.root.iterdir()) == sorted(
            [MARK, "checkpoints", "jobs", "logs", "nodes", "notes.txt"]
        )


def test_a_folder_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "precious").touch()
    for place, words in ((tmp_path, "name another folder"), (tmp_path / "logs/precious", "is no")):
        with pytest.raises(FolderInUseError, match=words), fresh_folders(place):
            pass
    assert (tmp_path / "logs" / "precious").exists()


def test_a_folder_in_which_another_run_works_is_not_touched(tmp_path: Path) -> None:
    with fresh_folders(tmp_path) as folders:
        (folders.logs / "mine.log").touch()
        with pytest.raises(FolderInUseError, match="another run"), fresh_folders(tmp_path):
            pass
        assert (folders.logs / "mine.log").exists()


def test_what_a_killed_run_left_running_in_the_folder_is_ended(tmp_path: Path) -> None:
    with fresh_folders(tmp_path) as folders:
        part = folders.state("node-1") / "parts" / "l.1"
        part.mkdir(parents=True)
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        document = {"pid": left.pid, "start": started(left.pid)}
        (part / "started.json").write_text(json.dumps(document), "utf-8")
        with fresh_folders(tmp_path):
            assert left.wait(30) == -9
    finally:
        left.kill()
        left.wait()
