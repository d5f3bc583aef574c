"""The decisions of the agent of one node: what the log says and what is seen, to what is done.

Pure: times are handed in, in ms since boot; ``offset_ms`` is the distance of the wall clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from walras_contracts.drains import DrainCommanded
from walras_contracts.identifiers import lease_part_key
from walras_contracts.work import LeaseGranted, LeaseState, LeaseStatusChanged, UsageMetered
from walras_node_agent.agent.held_part import HeldPart
from walras_node_agent.agent.metering import Meter, Terms, usage
from walras_node_agent.agent.outgoing import Outgoing, of_output, outgoing
from walras_node_agent.agent.reports import drain_status, lease_status
from walras_node_agent.minimum_start import MINIMUM_START_MS, owed_until, owes
from walras_node_agent.part_life import (
    OVER,
    Deed,
    Happened,
    Life,
    Rules,
    TellDrain,
    TellLease,
)
from walras_node_agent.part_table import Effect, PartEvent, PartState
from walras_node_agent.parts import accepted, advance, due, of_command, refused
from walras_runtime.records import tombstone

_HOLDS: Final = frozenset(PartState) - OVER
"""While a part is in one of these, its devices are nobody else's."""


@dataclass(slots=True)
class Turn:
    """What one turn of the agent decided: to be kept first, then to be told and done."""

    events: list[Outgoing] = field(default_factory=list)
    deeds: list[tuple[str, Deed]] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    """Leases whose part, and what they owe, has to be kept again."""
    commands_changed: bool = False


class Node:
    """All parts on one node.

    Parameters
    ----------
    name
        Of the node.
    devices
        How many it has.
    rules
        How long the steps of a part take that no command says anything of.
    progress_ms
        A drain that goes on says so at least this often.
    offset_ms
        What added to a time since boot gives the wall clock's.
    """

    def __init__(
        self, name: str, devices: int, rules: Rules, *, progress_ms: int, offset_ms: int
    ) -> None:
        self.name = name
        self.parts: dict[str, HeldPart] = {}
        self.commands: dict[str, DrainCommanded] = {}
        """Commands for leases that are not known yet: the two come on different topics."""
        self.owed: dict[str, UsageMetered] = {}
        """What parts that were freed soon still have to pay for, by lease; told as it passes."""
        self.blockers: dict[str, tuple[str, ...]] = {}
        """What each part waits for, as it was last seen."""
        self.faults: dict[str, str] = {}
        """Records that could not be followed, by lease."""
        self.stands = True
        """Whether what is granted may be started (:mod:`walras_node_agent.agent.standing`)."""
        self.offset_ms = offset_ms
        self._devices = devices
        self._rules = rules
        self._progress_ms = progress_ms
        self._turn = Turn()

    def take_turn(self) -> Turn:
        """Return what was decided since the last call."""
        turn, self._turn = self._turn, Turn()
        return turn

    def tell(self, event: Outgoing) -> None:
        """Tell something that is not of a part."""
        self._turn.events.append(event)

    # What the log says.

    def grant(self, part: LeaseGranted, held: Mapping[int, str], now_ms: int) -> None:
        """Take the record of a part, new or written again.

        ``held``: the devices that must not be given to it, with the reason.
        """
        known = self.parts.get(part.lease)
        if known is not None:
            self._change(known, part, now_ms)
            return
        gang = part.parts > 1
        why = self._refusal(part, held)
        if why:
            life, deeds = refused(gang, part.drainability, why)
        else:
            life, deeds = accepted(gang, part.drainability)
        self._begin(HeldPart(part, life), deeds, now_ms)
        self._start_if_it_may(part.lease, now_ms)
        command = self.commands.pop(part.lease, None)
        if command is not None:
            self._turn.commands_changed = True
            self.command(command, now_ms)

    def recall(self, part: LeaseGranted, told: LeaseStatusChanged, now_ms: int) -> None:
        """Take a part that this node told of, although its journal is lost.

        Whatever it ran is killed as that of no known lease; its devices are free once they are seen
        to be.
        """
        gang = part.parts > 1
        if told.state is LeaseState.FREED:
            life = Life(gang, part.drainability, PartState.FREED, outcome=told.outcome)
        else:
            life = Life(gang, part.drainability, PartState.RUNNING)
        # How much was told of it is lost, too: it was less often than once a millisecond.
        self._begin(HeldPart(part, life, told=told.at_ms), [], now_ms)
        if life.state is PartState.RUNNING:
            lost = Happened(PartEvent.LOST, detail="the journal is lost")
            self.happens(part.lease, lost, now_ms)

    def end_lease(self, lease: str, now_ms: int) -> None:
        """Take the end of the record of a part."""
        self.faults.pop(lease, None)
        if lease in self.parts and not self.parts[lease].life.ended:
            self.happens(lease, Happened(PartEvent.LEASE_ENDED), now_ms)

    def command(self, command: DrainCommanded, now_ms: int) -> None:
        """Take a command; the last one of a lease counts, and one that was heard means nothing."""
        part = self.parts.get(command.lease)
        if part is None:
            if self.commands.get(command.lease) != command:
                self.commands[command.lease] = command
                self._turn.commands_changed = True
            return
        heard = f"{command.session}/{command.command.value}"
        if heard == part.heard:
            return
        part.heard = heard
        happened = of_command(part.life, command)
        if happened is not None:
            self.happens(command.lease, happened, now_ms)
        self._turn.changed[command.lease] = None

    def end_session(self, lease: str, now_ms: int) -> None:
        """Take the end of the command of a drain."""
        if self.commands.pop(lease, None) is not None:
            self._turn.commands_changed = True
        part = self.parts.get(lease)
        if part is not None and part.heard:
            part.heard = ""
            self.happens(lease, Happened(PartEvent.SESSION_ENDED), now_ms)

    # What is seen on the node.

    def happens(self, lease: str, happened: Happened, now_ms: int) -> None:
        """Take an event of a part, and what follows from it."""
        part = self.parts[lease]
        terms = part.terms(self.offset_ms)
        before = part.life
        life, deeds = advance(before, happened, now_ms, self._rules)
        if life == before and not deeds:
            return
        self._turn.changed[lease] = None
        after = HeldPart(part.grant, before if life is None else life)
        over = life is None or life.state in OVER
        if over or after.terms(self.offset_ms) != terms:
            self._meter(part, now_ms, terms, final=True)
        if life is not None:
            part.life = life
            part.note_saved(now_ms)
            part.note_end(before)
        if over:
            self._note_owed(part)
            part.meter = None
        if before.state is PartState.STARTING and part.life.state is not PartState.STARTING:
            self._count_from(part, now_ms)
        self._do(part, deeds, now_ms)

    def ran_from(self, lease: str, since_ms: int | None) -> None:
        """Note since when a part that was just seen to run has run; None: since it was seen."""
        part = self.parts[lease]
        if since_ms is not None and part.meter is not None and part.meter.seq == 0:
            part.started_ms = min(since_ms, part.meter.boot_ms)
            part.meter = Meter(0, part.started_ms + self.offset_ms, part.started_ms)

    def billed_until(self, lease: str, until_ms: int, now_ms: int) -> None:
        """Note that a part ran until an instant before now at the latest.

        What it held its devices for behind that is metered and not billed.
        """
        part = self.parts[lease]
        terms = part.terms(self.offset_ms)
        self._meter(part, min(until_ms, now_ms), terms, final=True)
        self._meter(part, now_ms, Terms(terms.work_class, 0), final=True)

    def tick(self, now_ms: int, *, defer_usage: bool = False) -> None:
        """Let run out what runs out, cut use that is due, say how drains go on.

        ``defer_usage``: cut it later, all that there is then; there is no room for it now.
        """
        for lease in sorted(self.parts):
            while (part := self.parts.get(lease)) is not None:
                runs_out = due(part.life)
                if runs_out is None or runs_out[0] > now_ms:
                    break
                self.happens(lease, Happened(runs_out[1]), now_ms)
            if part is None:
                continue
            if not defer_usage and part.meter is not None:
                self._meter(part, now_ms, part.terms(self.offset_ms), final=False)
            drained = part.life.draining or part.life.state is PartState.CANCELLING
            if drained and now_ms >= part.told_drain_ms + self._progress_ms:
                self.happens(lease, Happened(PartEvent.PROGRESS_DUE), now_ms)
        if not defer_usage:
            self._tell_owed(now_ms + self.offset_ms)

    def note_standing(self, *, stands: bool, now_ms: int) -> None:
        """Note whether what is granted may be started; what waited for that is."""
        waited = () if self.stands or not stands else sorted(self.parts)
        self.stands = stands
        for lease in waited:
            self._start_if_it_may(lease, now_ms)

    def holders(self) -> dict[int, str]:
        """Return the devices that parts hold, with their leases."""
        return {
            device: lease
            for lease, part in sorted(self.parts.items())
            if part.life.state in _HOLDS
            for device in part.grant.devices
        }

    def stuck_devices(self) -> dict[int, str]:
        """Return the devices that are not free although nothing should hold them any more."""
        return {
            device: f"lease {lease} ended and device {device} is not free"
            for lease, part in sorted(self.parts.items())
            if part.life.state is PartState.STUCK
            for device in part.grant.devices
        }

    # What follows.

    def _begin(self, part: HeldPart, deeds: list[Deed], now_ms: int) -> None:
        self.parts[part.grant.lease] = part
        self._turn.changed[part.grant.lease] = None
        self._do(part, deeds, now_ms)

    def _refusal(self, part: LeaseGranted, held: Mapping[int, str]) -> str:
        holders = self.holders()
        for device in part.devices:
            if device >= self._devices:
                return f"there is no device {device}: this node has {self._devices}"
            if device in holders:
                return f"device {device} is held by lease {holders[device]}"
            if device in held:
                return f"device {device}: {held[device]}"
        return ""

    def _change(self, part: HeldPart, grant: LeaseGranted, now_ms: int) -> None:
        if part.grant == grant or part.life.state in OVER:
            return
        lease = grant.lease
        fixed = ("node", "attempt", "part", "parts", "devices", "size_macc")
        differing = [n for n in fixed if getattr(grant, n) != getattr(part.grant, n)]
        if differing:
            self.faults[lease] = f"its record changed {', '.join(differing)} while it is held"
            return
        self.faults.pop(lease, None)
        self._meter(part, now_ms, part.terms(self.offset_ms), final=True)
        part.grant = grant
        self._turn.changed[lease] = None
        self._start_if_it_may(lease, now_ms)

    def _start_if_it_may(self, lease: str, now_ms: int) -> None:
        part = self.parts[lease]
        if self.stands and part.grant.may_start and part.life.state is PartState.ACCEPTED:
            self.happens(lease, Happened(PartEvent.MAY_START), now_ms)

    def _count_from(self, part: HeldPart, now_ms: int) -> None:
        """Begin to meter a part that was started."""
        if not part.life.group_gone:
            part.started_ms = now_ms
            part.meter = Meter(0, now_ms + self.offset_ms, now_ms)

    def _meter(self, part: HeldPart, until_ms: int, terms: Terms, *, final: bool) -> None:
        if part.meter is None:
            return
        first_seq = part.meter.seq
        part.meter, cut = part.meter.advanced(until_ms, self.offset_ms, terms, final=final)
        for event in usage(part.grant, first_seq, cut, terms):
            self._tell_usage(event)
            part.billed_ms += event.end_ms - event.start_ms if event.billable else 0
        if cut:
            self._turn.changed[part.grant.lease] = None

    def _tell_usage(self, event: UsageMetered) -> None:
        self._turn.events.append(outgoing(event, f"usage/{event.record_key()}"))

    def _note_owed(self, part: HeldPart) -> None:
        """Note what a part that is freed has to pay for behind its end."""
        grant, meter, rest_ms = part.grant, part.meter, MINIMUM_START_MS - part.billed_ms
        if meter is None or rest_ms <= 0:
            return
        if not owes(grant.work_class, part.life.outcome, part.left_for):
            return
        begin_ms = meter.begin_ms(self.offset_ms)
        whole = [(begin_ms, begin_ms + rest_ms)]
        (owed,) = usage(grant, meter.seq, whole, Terms(grant.work_class))
        self.owed[grant.lease] = owed.model_copy(update={"running_ms": 0})
        self._turn.changed[grant.lease] = None

    def _tell_owed(self, wall_ms: int) -> None:
        """Tell the use that is owed up to now."""
        for lease, owed in list(self.owed.items()):
            told, rest = owed_until(owed, wall_ms)
            for event in told:
                self._tell_usage(event)
                self._turn.changed[lease] = None
            if rest is None:
                del self.owed[lease]
            else:
                self.owed[lease] = rest

    def _do(self, part: HeldPart, deeds: list[Deed], now_ms: int) -> None:
        lease = part.grant.lease
        for deed in deeds:
            if isinstance(deed, TellLease):
                self._tell(part, outgoing_status(part, deed, now_ms, self.offset_ms))
            elif isinstance(deed, TellDrain):
                part.told_drain_ms = now_ms
                blockers = self.blockers.get(lease, ())
                event = drain_status(part, deed, now_ms, self.offset_ms, blockers)
                self._tell(part, outgoing(event, ""))
            elif deed is Effect.FORGET:
                key = lease_part_key(lease, self.name)
                self._tell(part, of_output(tombstone(LeaseStatusChanged, key, self.name), ""))
                self._turn.deeds.append((lease, deed))
                del self.parts[lease]
                self.blockers.pop(lease, None)
            else:
                self._turn.deeds.append((lease, deed))

    def _tell(self, part: HeldPart, told: Outgoing) -> None:
        key = lease_part_key(part.grant.lease, self.name)
        self._turn.events.append(replace(told, event_id=f"{key}/{part.grant.attempt}/{part.told}"))
        part.told += 1


def outgoing_status(part: HeldPart, told: TellLease, now_ms: int, offset_ms: int) -> Outgoing:
    """Return the record that tells where a lease stands; its id is given when it is told."""
    return outgoing(lease_status(part, told, now_ms, offset_ms), "")
