"""One run of the demo of nodes: broker, market, agents, story, facts."""

import asyncio
import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from walras.demo.fresh import expect_no_topics
from walras.demo_nodes.checking import check, facts_document
from walras.demo_nodes.evidence import Evidence, read_evidence
from walras.demo_nodes.finding import Finding
from walras.demo_nodes.folders import FACTS, TIMELINE, NodeFolders, fresh_folders
from walras.demo_nodes.journal import read_journal
from walras.demo_nodes.leftovers import end_leftovers
from walras.demo_nodes.market_setup import setup_events, write_setup
from walras.demo_nodes.narrating import Narrator
from walras.demo_nodes.scenario import NodesScenario, load_nodes_scenario
from walras.demo_nodes.services import agent_services, market_services, shared_settings
from walras.demo_nodes.story import Story
from walras.demo_nodes.timeline import timeline_svg
from walras.demo_nodes.watching import MODELS, topics_of, watched
from walras.interrupts import handlers_kept, not_to_be_interrupted
from walras.jobs_log.kafka_log import open_log
from walras.processes import Supervisor
from walras_contracts.topics import load_topics
from walras_launcher import open_broker
from walras_launcher.running import Broker
from walras_runtime.clock import wall_ms
from walras_runtime.kafka.topics_admin import create_topics

KEEPING_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class NodesDemoOptions:
    """What to play, and where it goes. ``keep``: all runs on at the end, until Ctrl-C."""

    scenario: Path
    out: Path
    keep: bool = False


@dataclass(frozen=True, slots=True)
class NodesDemoResult:
    """The facts of a run, and where they are written."""

    findings: list[Finding]
    document: dict[str, Any]
    files: list[Path]


class TrainingAgainError(RuntimeError):
    """The training that the result is compared with failed."""

    code = "training_failed"
    retriable = False


def run_nodes_demo(
    options: NodesDemoOptions, console: Console, told: Callable[[NodesDemoResult], None]
) -> NodesDemoResult:
    """Run the demo; everything started is stopped again, whatever happens.

    Parameters
    ----------
    options
        What to run.
    console
        Where the story is told.
    told
        Called with the result while all still runs, as it may go on running.

    Raises
    ------
    ScenarioError, FolderInUseError, LogNotEmptyError
        It cannot be run as asked.
    LauncherError, ProcessError, JobsLogError, StoryStalledError, StoryBrokenError
        It broke.
    """
    scenario = load_nodes_scenario(options.scenario)
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        # Last in, first out: agents end before what they left running, all before the broker.
        stack.enter_context(handlers_kept())
        folders = stack.enter_context(fresh_folders(options.out))
        services = [*market_services(scenario), *agent_services(scenario, folders)]
        supervisor = Supervisor(services, shared_settings(scenario), folders.logs)
        journal = folders.journal(scenario.subject.key)
        narrator = Narrator(console, scenario, lambda: read_journal(journal).last_step)
        stack.callback(supervisor.stop)
        stack.callback(not_to_be_interrupted)
        # The services import what they need while the broker starts.
        supervisor.prepare()
        narrator.say("starting Apache Kafka (the first time this takes about 20 s)")
        broker = stack.enter_context(open_broker())
        states = [folders.state(node) for node in scenario.nodes.names]
        stack.callback(end_leftovers, states)
        stack.callback(supervisor.stop)
        stack.callback(not_to_be_interrupted)
        narrator.say(broker.describe())
        with narrator:
            _play(broker, scenario, folders, supervisor, narrator)
        story_s = time.monotonic() - began_s
        narrator.say("reading the log, the journals and the checkpoints for the facts")
        evidence = _evidence(broker, scenario, folders)
        run = {
            "scenario": scenario.title,
            "broker": broker.describe(),
            "seconds": round(story_s),
            "process_restarts": len(supervisor.exits),
            "folder": str(folders.root),
        }
        result = _result(evidence, folders, run)
        told(result)
        if options.keep:
            _keep(broker, supervisor, narrator)
    return result


def _play(
    broker: Broker,
    scenario: NodesScenario,
    folders: NodeFolders,
    supervisor: Supervisor,
    narrator: Narrator,
) -> None:
    topics = load_topics(scenario.market.partitions)
    asyncio.run(expect_no_topics(broker.bootstrap, topics))
    asyncio.run(create_topics(broker.bootstrap, topics))
    write_setup(broker.bootstrap, setup_events(scenario, wall_ms()))
    supervisor.start({"WALRAS_KAFKA_BOOTSTRAP": broker.bootstrap})
    narrator.say(f"the market and {len(scenario.nodes.names)} agents are starting")
    story: Story

    def look() -> None:
        supervisor.look()
        narrator.look()
        story.unbroken()

    with watched(broker.bootstrap, look, narrator.happened) as watch:
        story = Story(broker.bootstrap, scenario, folders, watch, narrator.say, narrator.aside)
        story.play()


def _evidence(broker: Broker, scenario: NodesScenario, folders: NodeFolders) -> Evidence:
    try:
        with open_log(broker.bootstrap, [topic for topic, _ in topics_of(MODELS)]) as log:
            return read_evidence(log, scenario, folders)
    except subprocess.SubprocessError as error:
        raise TrainingAgainError(
            f"the training in one go failed, so that there is nothing to compare with: {error}"
        ) from error


def _result(evidence: Evidence, folders: NodeFolders, run: dict[str, Any]) -> NodesDemoResult:
    findings = check(evidence)
    document = facts_document(findings, run)
    facts, picture = folders.root / FACTS, folders.root / TIMELINE
    facts.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    picture.write_text(timeline_svg(evidence), "utf-8")
    return NodesDemoResult(findings, document, [facts, picture])


def _keep(broker: Broker, supervisor: Supervisor, narrator: Narrator) -> None:
    """Let all run on until somebody interrupts; that is its end, and no failure."""
    narrator.say(
        f"all runs on until Ctrl-C; try: walras jobs --bootstrap {broker.bootstrap}, or walras "
        "nodes, submit, limit, drain"
    )
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            supervisor.look()
            time.sleep(KEEPING_POLL_S)
