"""The step loop around a stage that looks at nothing and writes nothing: what reading alone costs.

It reads the topics of billing, and commits its position and the barriers of each step.
"""

from dataclasses import replace

from walras_billing.settings import Settings
from walras_billing.wiring import build
from walras_runtime.records import Record, Step, StepResult
from walras_runtime.service import service_main
from walras_runtime.stage import StageSpec


class NoopStage:
    """Passes over all that it is given."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def fold(self, record: Record) -> None:
        """Accounts are not looked at."""

    def load(self, key: str, value: bytes) -> None:
        """There is no state."""

    def step(self, step: Step) -> StepResult:
        """Decide nothing."""
        del step
        return StepResult()


def passing_over(settings: Settings) -> StageSpec:
    """Return billing's wiring around the stage that does nothing."""
    return replace(build(settings), build=NoopStage)


def main() -> None:
    """Run as billing does."""
    service_main(Settings, passing_over)


if __name__ == "__main__":
    main()
