"""The signals that end a command in order: SIGTERM is taken like the SIGINT of Ctrl-C."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final

INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)


def take_interrupts() -> None:
    """Let both raise KeyboardInterrupt, also where a shell started this with SIGINT ignored.

    What waits in an event loop is ended in order by SIGINT alone: the loop then cancels what it
    runs. So SIGTERM becomes one.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Give back the handlers of both as they are now."""
    kept = {number: signal.getsignal(number) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def not_to_be_interrupted() -> None:
    """Ignore both from here on: an end that is interrupted leaves running what was started."""
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
