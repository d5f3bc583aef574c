"""How what happened changes the ticker's state."""

from collections.abc import Callable
from typing import Any, Final

from walras_runtime.records import Barrier
from walras_ticker.core import Look
from walras_ticker.state import TickerState


def on_barrier(state: TickerState, barrier: Barrier) -> None:
    """Note a barrier that is in the log."""
    state.last = barrier


def on_look(state: TickerState, look: Look) -> None:
    """Note a look at the clocks."""
    state.look = look


HANDLERS: Final[dict[type, Callable[[TickerState, Any], None]]] = {
    Barrier: on_barrier,
    Look: on_look,
}


def happened(state: TickerState, event: Barrier | Look) -> None:
    """Apply one event."""
    HANDLERS[type(event)](state, event)
