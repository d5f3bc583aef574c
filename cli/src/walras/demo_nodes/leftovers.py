"""Ends what agents left running: their jobs outlive them on purpose, the demo must not."""

import signal
from pathlib import Path

from walras_job.protocol import CONTROL_DIRECTORY_VARIABLE
from walras_node_agent.agent.building import PARTS
from walras_node_agent.host.files import read_document
from walras_node_agent.host.keeper import KEEPER, STARTED
from walras_node_agent.host.machine import is_alive, with_variable
from walras_node_agent.host.process_tree import kill_below, send


def end_leftovers(states: list[Path]) -> list[int]:
    """Kill keepers and jobs of agents that have ended; return the ids of what was killed.

    Parameters
    ----------
    states
        The agents' state directories. Processes are found by what is written there, pid and start
        together, and by the mark that a job's processes inherit: never by name.
    """
    ended: list[int] = []
    for state in states:
        for part in sorted(state.joinpath(PARTS).glob("*")):
            keeper = _living(part / KEEPER)
            if keeper is not None:
                kill_below(keeper)
                send([keeper], signal.SIGKILL)
                ended.append(keeper)
            first = _living(part / STARTED)
            control = str(part / "control")
            marked = with_variable(CONTROL_DIRECTORY_VARIABLE, control)
            left = sorted({*marked, *([] if first is None else [first])})
            send(left, signal.SIGKILL)
            ended += left
    return ended


def _living(path: Path) -> int | None:
    document = read_document(path)
    if document is None:
        return None
    pid, start = document.get("pid"), document.get("start")
    if isinstance(pid, int) and isinstance(start, int) and is_alive(pid, start):
        return pid
    return None
