"""A stage that is looked at after each of its steps."""

from collections.abc import Callable

from walras_runtime.records import Record, Step, StepResult
from walras_runtime.stage import Stage


class WatchedStage:
    """A stage whose steps somebody watches; it decides what it would decide alone.

    Parameters
    ----------
    stage
        The stage.
    step
        Has it decide a step, and shows what there is to be shown. Nothing that it does may come
        back to the stage.
    """

    def __init__(self, stage: Stage, step: Callable[[Step], StepResult]) -> None:
        self._stage = stage
        self._step = step

    def fold(self, record: Record) -> None:
        """Take a record of a table."""
        self._stage.fold(record)

    def load(self, key: str, value: bytes) -> None:
        """Take back one own record."""
        self._stage.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Decide a step."""
        return self._step(step)
