"""How well a job leaves when it is told to: the drainability score, in millionths.

    response = (2·prior + answered·10⁶) / (2 + warnings)
    speed    = 10⁶ − 200,000·min(median, allowed) / allowed
    chain    = 10⁶, or 500,000 where the job needs more time than a drain gives
    score    = response · speed / 10⁶ · chain / 10⁶

each rounded down. ``prior`` follows from what the job declares, and counts like two warnings;
``median`` is the (lower) median time from the warning to the devices being free, ``allowed`` all of
a drain's timeline; without a drain there is no median, and speed is 10⁶. A warning is answered when
all was saved, or the job gone, before it was terminated, and SIGKILL was not needed.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from walras_contracts.accounts import DrainTerms
from walras_contracts.demand import Drainability
from walras_contracts.quantities import PPM
from walras_contracts.runs import RunSpec

PRIOR_PPM: Final = {
    Drainability.CHECKPOINT: 800_000,
    Drainability.RESTART: 500_000,
    Drainability.NONE: 100_000,
}
PRIOR_WARNINGS: Final = 2
SLOWEST_PPM: Final = 200_000
BROKEN_CHAIN_PPM: Final = 500_000
DURATIONS_KEPT: Final = 15


@dataclass(frozen=True, slots=True)
class History:
    """What was seen of a job's drains: warnings, answers, and the last times until it was free.

    ``idle_since_ms`` is when its last lease went; None while it holds one.
    """

    warnings: int = 0
    answered: int = 0
    durations_ms: tuple[int, ...] = ()
    idle_since_ms: int | None = None

    def median_ms(self) -> int:
        """Return the lower median of the durations; 0 before there is one."""
        ordered = sorted(self.durations_ms)
        return ordered[(len(ordered) - 1) // 2] if ordered else 0

    def after_outcome(self, answered: bool, duration_ms: int | None) -> "History":
        """Return the history after a drain that was begun has ended."""
        durations = self.durations_ms
        if duration_ms is not None:
            durations = (*durations, duration_ms)[-DURATIONS_KEPT:]
        return History(self.warnings, self.answered + int(answered), durations, self.idle_since_ms)

    def after_warning(self) -> "History":
        """Return the history after a drain was begun."""
        return History(self.warnings + 1, self.answered, self.durations_ms, self.idle_since_ms)

    def after_cancel(self) -> "History":
        """Return the history after a drain was called off: it shows nothing of the job."""
        warnings = max(self.answered, self.warnings - 1)
        return History(warnings, self.answered, self.durations_ms, self.idle_since_ms)

    def idle(self, since_ms: int | None) -> "History":
        """Return the history of a job that holds no lease since then, or holds one."""
        return History(self.warnings, self.answered, self.durations_ms, since_ms)

    def dump(self) -> bytes:
        """Return the record of the own state."""
        fields = [self.warnings, self.answered, self.durations_ms, self.idle_since_ms]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "History":
        """Read the record of the own state."""
        fields: list[Any] = json.loads(value)
        warnings, answered, durations, idle = fields
        return History(warnings, answered, tuple(durations), idle)


def chain_holds(run: RunSpec | None, terms: DrainTerms) -> bool:
    """Whether what a job says of its grace chain fits into the timeline of a drain.

    Saving has to fit between the warning and SIGTERM, ending between SIGTERM and SIGKILL, and no
    launcher may kill the workers before they can end. A job that says nothing is believed.
    """
    if run is None:
        return True
    launcher_ms = run.launcher_stop_ms
    return (
        run.checkpoint_ms <= terms.warning_ms
        and run.stop_ms <= terms.terminate_ms
        and (launcher_ms is None or run.stop_ms <= launcher_ms)
    )


def score_ppm(
    declared: Drainability, history: History, terms: DrainTerms, *, chain: bool = True
) -> int:
    """Return the score: 0 not at all, 1,000,000 at once and unharmed.

    It grows with answers and with what is declared, and falls with warnings without answer, with
    the time until the devices are free, and with a chain that does not hold.
    """
    weight = PRIOR_WARNINGS * PRIOR_PPM[declared] + history.answered * PPM
    response = weight // (PRIOR_WARNINGS + history.warnings)
    allowed_ms = terms.warning_ms + terms.terminate_ms + terms.verify_ms
    late_ms = min(history.median_ms(), allowed_ms)
    speed = PPM - SLOWEST_PPM * late_ms // allowed_ms
    return response * speed // PPM * (PPM if chain else BROKEN_CHAIN_PPM) // PPM
