"""Orders to a worker: die, or stop, at one place of its step loop.

The chaos run writes an order into a folder, one at a time; whichever worker comes by its place
first takes it. A signal from outside could not hit a place exactly.
"""

import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from tests.chaos.plan import Gap

FOLDER_VARIABLE: Final = "CHAOS_ORDERS"
FILE_NAME: Final = "order.json"
DRAFT_NAME: Final = "draft"


@dataclass(frozen=True, slots=True)
class Order:
    """What the worker of a service's partition does to itself in a gap, from a step on."""

    what: Literal["kill", "stop"]
    service: str
    partition: int
    gap: Gap
    step: int


def open_folder(folder: Path) -> None:
    """Make the folder, without an order that a run before left there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (FILE_NAME, DRAFT_NAME):
        (folder / name).unlink(missing_ok=True)


def give(folder: Path, order: Order) -> None:
    """Write an order.

    Raises
    ------
    FileExistsError
        The one before was not taken.
    """
    draft = folder / DRAFT_NAME
    draft.write_text(json.dumps(asdict(order)), "utf-8")
    # A worker must not see half of it, and none may be lost.
    os.link(draft, folder / FILE_NAME)
    draft.unlink()


def look(folder: Path) -> Order | None:
    """Return the order that waits."""
    try:
        values = json.loads((folder / FILE_NAME).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return Order(**(values | {"gap": Gap(values["gap"])}))


def obey(folder: Path, order: Order) -> None:
    """Take an order, unless another took it, and do it to this process."""
    try:
        (folder / FILE_NAME).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL if order.what == "kill" else signal.SIGSTOP)
