"""Doing what was decided of parts: starting, warning, calling off, ending them."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from walras_contracts.runs import WarningKind
from walras_contracts.work import LeaseGranted
from walras_node_agent.agent.contract import Answers, cancel, warning
from walras_node_agent.agent.launching import launch
from walras_node_agent.agent.node import Node
from walras_node_agent.host.devices import DevicePort
from walras_node_agent.host.machine import boottime_ms
from walras_node_agent.host.processes import Processes
from walras_node_agent.host.warning import Control, ask_until_taken
from walras_node_agent.part_life import CallOff, Deed, Happened, Warn
from walras_node_agent.part_table import Effect, PartEvent

logger = structlog.get_logger("walras")


class Doing:
    """Does what a node decided.

    Parameters
    ----------
    node
        Whose decisions they are, and who hears what comes of them.
    processes, devices
        Of this machine.
    checkpoints
        Below it each job has a directory that outlives its leases.
    passed
        What jobs get of the agent's own environment.
    heard
        Called after a job answered outside of a turn.
    """

    def __init__(
        self,
        node: Node,
        processes: Processes,
        devices: DevicePort,
        *,
        checkpoints: str,
        passed: Mapping[str, str],
        heard: Callable[[], None],
    ) -> None:
        self._node = node
        self._processes = processes
        self._devices = devices
        self._checkpoints = checkpoints
        self._passed = passed
        self._heard = heard
        self._hooks: dict[str, asyncio.Task[None]] = {}

    def do(self, lease: str, deed: Deed, now_ms: int) -> None:
        """Do one thing."""
        if isinstance(deed, Warn):
            self._warn(lease, deed)
        elif isinstance(deed, CallOff):
            self._call_off(lease, deed)
        elif deed is Effect.START:
            self._start(lease, now_ms)
        elif deed is Effect.TERMINATE:
            self._processes.terminate(lease)
        elif deed is Effect.KILL:
            self._processes.kill(lease)
        elif deed is Effect.FORGET:
            self._stop_asking(lease)
            self._processes.forget(lease)

    def close(self) -> None:
        """Stop asking jobs; what was asked is asked again by the next agent."""
        for lease in list(self._hooks):
            self._stop_asking(lease)

    def _start(self, lease: str, now_ms: int) -> None:
        why = self._started(self._node.parts[lease].grant)
        if why:
            self._node.happens(lease, Happened(PartEvent.START_FAILED, detail=why), now_ms)

    def _started(self, grant: LeaseGranted) -> str:
        """Start a part; return why that failed, "" where it did not."""
        control = str(self._processes.control(grant.lease))
        visible = self._devices.variables(grant.devices)
        found = launch(grant, control, self._checkpoints, self._passed, visible)
        if found is None:
            return "its lease names no command: nothing but a simulated fleet can run it"
        try:
            self._processes.start(grant.lease, found)
        except OSError as error:
            return str(error)
        return ""

    def _warn(self, lease: str, deed: Warn) -> None:
        offset_ms = self._node.offset_ms
        timeline = deed.timeline
        times = (deed.warned_ms + offset_ms, deed.leave_ms + offset_ms)
        document = warning(timeline.session, timeline.reason, *times)
        try:
            Control(self._processes.control(lease)).warn(document)
        except OSError as error:
            self._node.blockers[lease] = (f"the warning cannot be written: {error}",)
        run = self._node.parts[lease].grant.run
        if run is None or run.warning is WarningKind.SIGNAL:
            self._processes.warn(lease)
        elif run.warning is WarningKind.HTTP and run.warning_url is not None:
            self._stop_asking(lease)
            asking = self._ask(lease, document, run.warning_url, deed.leave_ms)
            self._hooks[lease] = asyncio.get_running_loop().create_task(asking)

    async def _ask(self, lease: str, document: dict[str, Any], url: str, until_ms: int) -> None:
        def note(why: str) -> None:
            self._node.blockers[lease] = (why,)

        body = json.dumps(document, sort_keys=True).encode()
        answer = await ask_until_taken(url, body, until_ms - boottime_ms(), note)
        if not isinstance(answer, Answers) or lease not in self._node.parts:
            return
        now_ms = boottime_ms()
        session = document["session"]
        self._node.happens(lease, Happened(PartEvent.HOOK_ACCEPTED, session), now_ms)
        if answer.saved:
            self._node.happens(lease, Happened(PartEvent.SAVED, session), now_ms)
        self._heard()

    def _stop_asking(self, lease: str) -> None:
        hook = self._hooks.pop(lease, None)
        if hook is not None:
            hook.cancel()

    def _call_off(self, lease: str, deed: CallOff) -> None:
        self._stop_asking(lease)
        try:
            Control(self._processes.control(lease)).call_off(cancel(deed.session))
        except OSError as error:
            logger.error("cancel_not_written", lease=lease, why=str(error))
