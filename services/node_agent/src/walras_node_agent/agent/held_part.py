"""A part of a lease that this node holds, and how it is kept in the journal."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from walras_contracts.demand import Drainability
from walras_contracts.work import LeaseGranted, LeaseOutcome, WorkClass
from walras_node_agent.agent.metering import Meter, Terms
from walras_node_agent.minimum_start import MINIMUM_START_MS
from walras_node_agent.part_dump import dump_life, parse_life
from walras_node_agent.part_life import Life


@dataclass(slots=True)
class HeldPart:
    """A part with all that the agent knows of it; times in ms since boot."""

    grant: LeaseGranted
    life: Life
    meter: Meter | None = None
    """None before it runs and after it is freed."""
    billed_ms: int = 0
    """For how much time it was metered as billable."""
    left_for: str | None = None
    """Why it had been asked to leave when its job ended; None: it had not."""
    started_ms: int | None = None
    saved_ms: int | None = None
    """When the job said of its drain that all is saved."""
    heard: str = ""
    """The last command, so that one that is read again is known."""
    told: int = 0
    """How many statuses were told of it: each has a number of its own."""
    told_drain_ms: int = 0

    def terms(self, offset_ms: int) -> Terms:
        """Return how its use is told now, with this distance of the wall clock.

        Use while it leaves is overhang; once nothing of it runs, nobody pays.
        """
        life = self.life
        leaving = life.draining or life.ended
        work_class = WorkClass.OVERHANG if leaving else self.grant.work_class
        if life.group_gone or life.ended:
            return Terms(work_class, 0)
        if life.warned_ms is None or life.drain is None:
            return Terms(work_class)
        return Terms(work_class, life.warned_ms + offset_ms + life.drain.billing_grace_ms)

    def remaining_run_ms(self) -> int | None:
        """Return the run time that is left: what was saved need not be done again."""
        left_ms = self.grant.remaining_run_ms
        if left_ms is None or self.life.outcome is LeaseOutcome.NONE:
            return left_ms
        if self.life.outcome is LeaseOutcome.FINISHED:
            return 0
        saves = self.grant.drainability is Drainability.CHECKPOINT
        if not saves or self.saved_ms is None or self.started_ms is None:
            return left_ms
        return max(0, left_ms - (self.saved_ms - self.started_ms))

    def note_end(self, before: Life) -> None:
        """Remember, once it is known how its job ended, whether it had been asked to leave by then.

        What it is asked afterwards, while its devices are read, changes nothing.
        """
        if before.outcome is LeaseOutcome.NONE and before.draining and before.drain is not None:
            ended = self.life.outcome is not LeaseOutcome.NONE
            self.left_for = before.drain.reason if ended else None

    def note_saved(self, now_ms: int) -> None:
        """Remember when the job said first that all is saved; forget it with its drain."""
        if not self.life.saved:
            self.saved_ms = None
        elif self.saved_ms is None:
            self.saved_ms = now_ms

    def moved(self, by_ms: int) -> "HeldPart":
        """Return the part with all times moved: its boot is over, another one counts."""
        life = self.life
        moved_life = replace(
            life,
            warned_ms=_moved(life.warned_ms, by_ms),
            leave_ms=_moved(life.leave_ms, by_ms),
            kill_ms=_moved(life.kill_ms, by_ms),
            verify_ms=_moved(life.verify_ms, by_ms),
            cancelled_ms=_moved(life.cancelled_ms, by_ms),
        )
        meter = self.meter
        if meter is not None:
            meter = replace(meter, boot_ms=meter.boot_ms + by_ms)
        return replace(
            self,
            life=moved_life,
            meter=meter,
            started_ms=_moved(self.started_ms, by_ms),
            saved_ms=_moved(self.saved_ms, by_ms),
            told_drain_ms=self.told_drain_ms + by_ms,
        )

    def dump(self) -> dict[str, Any]:
        """Return the part as JSON."""
        return {
            "grant": self.grant.model_dump(mode="json"),
            "life": dump_life(self.life),
            "meter": None if self.meter is None else self.meter.dump(),
            "billed_ms": self.billed_ms,
            "left_for": self.left_for,
            "started_ms": self.started_ms,
            "saved_ms": self.saved_ms,
            "heard": self.heard,
            "told": self.told,
            "told_drain_ms": self.told_drain_ms,
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> "HeldPart":
        """Return the part that was dumped."""
        values = dict(document)
        # A journal of before there was a least time: what it has runs on as it began.
        values.setdefault("billed_ms", MINIMUM_START_MS)
        values["grant"] = LeaseGranted.model_validate(values["grant"])
        values["life"] = parse_life(values["life"])
        if values["meter"] is not None:
            values["meter"] = Meter.parse(values["meter"])
        return HeldPart(**values)


def _moved(time_ms: int | None, by_ms: int) -> int | None:
    return None if time_ms is None else time_ms + by_ms
