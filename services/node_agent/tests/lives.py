"""Lives of parts for tests: commands, events, walks through the table."""

from dataclasses import dataclass, field

from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand, DrainCommanded, VacateReason
from walras_contracts.work import LeaseOutcome
from walras_node_agent.part_life import Deed, Happened, Life, Rules, TellDrain, TellLease
from walras_node_agent.part_table import PartEvent, PartState
from walras_node_agent.parts import accepted, advance, due, of_command

RULES = Rules(leave_ms=2_000, terminate_ms=10_000, verify_ms=7_000)
WARNING_MS = 60_000
TERMINATE_MS = 30_000
VERIFY_MS = 10_000
DEADLINE_MS = WARNING_MS + TERMINATE_MS + VERIFY_MS


def command(
    said: DrainCommand = DrainCommand.DRAIN,
    session: str = "s1",
    *,
    lease: str = "l1",
    node: str = "n1",
    at_ms: int = 0,
    warning_ms: int = WARNING_MS,
    terminate_ms: int = TERMINATE_MS,
    verify_ms: int = VERIFY_MS,
    billing_grace_ms: int = 10_000,
) -> DrainCommanded:
    return DrainCommanded(
        session=session,
        lease=lease,
        node=node,
        team="t1",
        pool="p",
        job="j1",
        command=said,
        reason=VacateReason.QUOTA_LOST,
        commanded_ms=at_ms,
        warning_ms=warning_ms,
        terminate_ms=terminate_ms,
        verify_ms=verify_ms,
        deadline_ms=at_ms + warning_ms + terminate_ms + verify_ms,
        billing_grace_ms=billing_grace_ms,
    )


@dataclass
class Walk:
    """A part that is led through its life; ``deeds`` is all that was to be done, in order."""

    gang: bool = False
    drainability: Drainability = Drainability.CHECKPOINT
    now_ms: int = 0
    life: Life | None = None
    deeds: list[Deed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.life, told = accepted(self.gang, self.drainability)
        self.deeds += told

    def known(self) -> Life:
        assert self.life is not None, "it is forgotten"
        return self.life

    def stands(self, state: PartState) -> bool:
        return self.known().state is state

    def happens(self, happened: Happened) -> list[Deed]:
        self.life, deeds = advance(self.known(), happened, self.now_ms, RULES)
        self.deeds += deeds
        return deeds

    def event(
        self,
        event: PartEvent,
        *,
        session: str = "s1",
        code: int | None = None,
        outcome: LeaseOutcome | None = None,
    ) -> list[Deed]:
        return self.happens(Happened(event, session=session, exit_code=code, outcome=outcome))

    def run(self) -> "Walk":
        self.event(PartEvent.MAY_START)
        self.event(PartEvent.STARTED)
        return self

    def told_to(self, said: DrainCommand = DrainCommand.DRAIN, session: str = "s1") -> list[Deed]:
        happened = of_command(self.known(), command(said, session))
        return [] if happened is None else self.happens(happened)

    def wait_until(self, at_ms: int) -> None:
        """Let time pass, and what runs out on the way."""
        while self.life is not None:
            next_due = due(self.life)
            if next_due is None or next_due[0] > at_ms:
                break
            self.now_ms = max(self.now_ms, next_due[0])
            self.event(next_due[1])
        self.now_ms = at_ms

    def free(self) -> None:
        """Read the devices twice; they are free."""
        self.event(PartEvent.DEVICE_FREE)
        self.event(PartEvent.DEVICE_FREE)

    def drains(self) -> list[tuple[str, str, str]]:
        """Every report of a drain: session, state, outcome."""
        return [
            (deed.session, deed.state.value, deed.outcome)
            for deed in self.deeds
            if isinstance(deed, TellDrain)
        ]

    def leases(self) -> list[tuple[str, str]]:
        return [
            (deed.state.value, deed.outcome.value)
            for deed in self.deeds
            if isinstance(deed, TellLease)
        ]
