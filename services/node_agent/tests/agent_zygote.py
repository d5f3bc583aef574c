"""Starts agents fast: it has imported all that they need, and forks for each.

It reads one JSON object a line and answers each with a line: ``{"environment", "directory",
"log", "file_limit"}`` starts an agent, no file of which grows beyond the limit (``null``: any), and
is answered with its pid; ``{"pid"}`` asks for its end and is answered with its exit code, or
``null`` while it runs.
"""

import json
import os
import resource
import sys
from typing import Any

from services.node_agent.tests.file_agent import main


def start(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid > 0:
        return pid
    code = 1
    try:
        os.environ.clear()
        os.environ.update(order["environment"])
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if order["file_limit"] is not None:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_limit"], hard))
        main(order["directory"])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    for line in sys.stdin:
        order = json.loads(line)
        answer = ended(order["pid"]) if "pid" in order else start(order)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
