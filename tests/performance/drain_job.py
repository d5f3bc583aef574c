"""A job that needs a known time to save: ``drain_job.py SAVE_MS DEVICES``.

It holds the memory of its devices, waits for the warning, saves for that long, says so, and ends.
``evidence.json`` in its checkpoint directory holds how long that was: from the signal to the end.
Standard library only: it stands for a job that knows the contract, not a library.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

EVIDENCE = "evidence.json"


def replace(path: Path, document: dict[str, object]) -> None:
    """Put a JSON object into place at once."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(json.dumps(document), "utf-8")
    beside.replace(path)


def main() -> None:
    """Run the job."""
    save_ms, devices = int(sys.argv[1]), Path(sys.argv[2])
    control = Path(os.environ["WALRAS_CONTROL_DIR"])
    checkpoints = Path(os.environ["WALRAS_CHECKPOINT_DIR"])
    # Blocked, so that a warning between two waits is not lost; a handler, so that it is caught.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGUSR1, lambda *_: None)
    for device in os.environ["WALRAS_DEVICES"].split(","):
        (devices / device / str(os.getpid())).touch()
    (checkpoints / "ready").touch()
    signal.sigwait({signal.SIGUSR1})
    began_ns = time.monotonic_ns()
    session = json.loads((control / "warning.json").read_text("utf-8"))["session"]
    time.sleep(save_ms / 1000)
    (checkpoints / "shard").write_bytes(b"saved")
    replace(control / "done.json", {"session": session})
    own_ns = time.monotonic_ns() - began_ns
    replace(checkpoints / EVIDENCE, {"session": session, "own_ns": own_ns})
    os._exit(0)


if __name__ == "__main__":
    main()
