"""A world of receivers, good and bad, in which a dispatcher works, crashes and goes on.

Time is virtual. All that is random comes from one seed, which is in the name of every failure.
"""

import random
from dataclasses import dataclass, field

from services.notifier.tests.notices import notice
from walras_contracts.drains import NotificationIssued
from walras_notifier.core import Fate, Policy
from walras_notifier.dispatching import Attempt, Dispatcher
from walras_notifier.outcomes import Delivered, Failed, Outcome, Refused
from walras_notifier.state import track_of
from walras_notifier.subscriptions import EVERYBODY, Receiver, Subscription

TEAMS = ("vision", "speech", "robots")
LAST_ARRIVAL_MS = 300_000
MOST_STEPS = 20_000
"""Some hundreds are what a history takes."""
POLICY = Policy(first_backoff_ms=1_000, most_backoff_ms=30_000, connections=2)
GOOD = "good"
"""A receiver that takes all, at once."""


@dataclass(slots=True)
class Entry:
    """A notice on the log, and when nobody needs it any more."""

    offset: int
    notice: NotificationIssued
    arrived_ms: int
    limit_ms: int


@dataclass(slots=True)
class Flight:
    """An attempt under way."""

    attempt: Attempt
    ends_ms: int
    outcome: Outcome


@dataclass
class World:
    """One history; ``run`` plays it, the checks read what it left behind."""

    seed: int
    dispatcher_class: type[Dispatcher] = Dispatcher
    log: list[Entry] = field(default_factory=list)
    brought: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Time, receiver, offset and life of each delivery that reached a receiver."""
    started: list[tuple[int, str, str, int]] = field(default_factory=list)
    """Life, receiver, team and offset of each attempt."""
    expired: list[tuple[int, str, int]] = field(default_factory=list)
    refused: set[tuple[str, int]] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    lives: list[tuple[int, str]] = field(default_factory=list)
    """The position that each life began from."""

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.now_ms = 0
        self.up = True
        self.committed = (0, "")
        self.flights: list[Flight] = []
        self.fed = 0
        everybody = (Subscription(team=EVERYBODY),)
        names = (GOOD, "flaky", "hangs", "busy", "strict")
        self.receivers = [
            Receiver(name=name, email=f"{name}@example.org", subscription=everybody)
            for name in names
        ]
        offset = 0
        for number in range(self.draw.randrange(1, 40)):
            offset += self.draw.choice((1, 1, 1, 2))
            arrived_ms = self.draw.randrange(LAST_ARRIVAL_MS)
            self.log.append(Entry(offset, notice(number, self.draw.choice(TEAMS)), arrived_ms, 0))
        times = sorted(entry.arrived_ms for entry in self.log)
        for entry, arrived_ms in zip(self.log, times, strict=True):
            entry.arrived_ms = arrived_ms
            entry.limit_ms = arrived_ms + self.draw.choice((-1, 5_000, 60_000, 600_000))
        count = self.draw.randrange(6)
        self.disturbances = sorted(self.draw.randrange(LAST_ARRIVAL_MS * 2) for _ in range(count))
        self._begin()

    # --- the history --------------------------------------------------------------------------

    def run(self) -> None:
        """Play until all is over."""
        for _ in range(MOST_STEPS):
            self._step()
            if self.faults or self._is_over():
                return
            self.now_ms = max(self.now_ms + 1, self._next_ms())
        self.faults.append("it does not come to an end")

    def _is_over(self) -> bool:
        arrived = self.now_ms > LAST_ARRIVAL_MS and self.fed == len(self.log)
        idle = not (self.flights or self.disturbances or self.dispatcher.open_deliveries())
        return self.up and arrived and idle

    def _next_ms(self) -> int:
        times = [flight.ends_ms for flight in self.flights]
        times += [e.arrived_ms for e in self.log[self.fed :] if e.arrived_ms > self.now_ms][:1]
        times += self.disturbances[:1]
        wake_ms = self.dispatcher.wake_ms() if self.up else None
        if wake_ms is not None:
            times.append(wake_ms)
        return min(times, default=self.now_ms + 1_000)

    def _step(self) -> None:
        for flight in [f for f in self.flights if f.ends_ms <= self.now_ms]:
            self.flights.remove(flight)
            self._arrive(flight)
        if self.disturbances and self.disturbances[0] <= self.now_ms:
            self.disturbances.pop(0)
            self._disturb()
        if not self.up:
            return
        while self.fed < len(self.log) and self.log[self.fed].arrived_ms <= self.now_ms:
            entry = self.log[self.fed]
            self.fed += 1
            self.dispatcher.take(0, entry.offset, entry.notice, entry.limit_ms, self.now_ms)
        while attempts := self.dispatcher.start(self.now_ms):
            for attempt in attempts:
                self._launch(attempt)
            for flight in [f for f in self.flights if f.ends_ms <= self.now_ms]:
                self.flights.remove(flight)
                self._arrive(flight)
        self._read_reports()
        if self.draw.random() < 0.5:
            self._commit()

    def _launch(self, attempt: Attempt) -> None:
        name, team = attempt.receiver.name, attempt.notice.team
        lanes = [(f.attempt.receiver.name, f.attempt.notice.team) for f in self.flights]
        if (name, team) in lanes:
            self.faults.append(f"two attempts at once for {team} at {name}")
        if sum(lane[0] == name for lane in lanes) >= POLICY.connections:
            self.faults.append(f"too many attempts at once at {name}")
        if attempt.delivery.limit_ms <= self.now_ms:
            self.faults.append(f"{attempt.delivery.offset} is sent although nobody needs it")
        self.started.append((len(self.lives), name, team, attempt.delivery.offset))
        takes_ms, outcome = self._behave(name)
        self.flights.append(Flight(attempt, self.now_ms + takes_ms, outcome))

    def _behave(self, name: str) -> tuple[int, Outcome]:
        """How a receiver answers, and after how long."""
        chance = self.draw.random()
        match name:
            case "flaky":
                outcome = Delivered() if chance < 0.4 else Failed("status 503")
                return self.draw.randrange(2_000), outcome
            case "hangs":
                return (10_000, Failed("no answer in time")) if chance < 0.9 else (9, Delivered())
            case "busy":
                wait_ms = self.draw.choice((0, 20_000, 3_600_000))
                return (5, Failed("status 429", wait_ms)) if chance < 0.3 else (5, Delivered())
            case "strict":
                return (50, Refused("status 410")) if chance < 0.5 else (50, Delivered())
            case _:
                return 0, Delivered()

    def _arrive(self, flight: Flight) -> None:
        self._reach(flight)
        if self.up:
            self.dispatcher.finish(flight.attempt, flight.outcome, self.now_ms)

    def _reach(self, flight: Flight) -> None:
        if isinstance(flight.outcome, Delivered):
            name, offset = flight.attempt.receiver.name, flight.attempt.delivery.offset
            self.brought.append((self.now_ms, name, offset, len(self.lives)))

    def _disturb(self) -> None:
        """Crash, or lose the partition in good order; or come back."""
        if not self.up:
            self._begin()
        elif self.draw.random() < 0.6:
            self._crash()
        else:
            self._hand_over()

    def _crash(self) -> None:
        for flight in self.flights:
            if self.draw.random() < 0.5:
                self._reach(flight)
        self.flights.clear()
        self.up = False
        self.disturbances.insert(0, self.now_ms + self.draw.randrange(60_000))
        self.disturbances.sort()

    def _hand_over(self) -> None:
        self.dispatcher.suspend()
        for flight in self.flights:
            if self.draw.random() < 0.5:
                self._arrive(flight)
            else:
                if self.draw.random() < 0.5:
                    self._reach(flight)
                self.dispatcher.abandon(flight.attempt, self.now_ms)
        self.flights.clear()
        if self.dispatcher.start(self.now_ms):
            self.faults.append("a suspended dispatcher starts something")
        self._read_reports()
        self._commit()
        if self.draw.random() < 0.5:
            self._begin(anew=self.draw.random() < 0.5)
            return
        read = self.dispatcher.resume(0)
        wanted = self.log[self.fed - 1].offset + 1 if self.fed else 0
        if read != max(wanted, read) or any(e.offset >= read for e in self.log[: self.fed]):
            self.faults.append(f"it reads on from {read}, not from {wanted}")

    def _begin(self, *, anew: bool = True) -> None:
        self.up = True
        if anew:
            self.dispatcher = self.dispatcher_class(
                self.receivers, POLICY, lambda most: self.draw.randint(0, most)
            )
        self.dispatcher.begin(0, *self.committed)
        self.fed = sum(1 for entry in self.log if entry.offset < self.committed[0])
        self.lives.append(self.committed)

    def _commit(self) -> None:
        self.committed = self.dispatcher.position(0)

    def _read_reports(self) -> None:
        offsets = {entry.notice.notification: entry.offset for entry in self.log}
        for report in self.dispatcher.reports():
            key = (report.receiver.name, offsets[report.notice.notification])
            if report.fate is Fate.RETRIED:
                continue
            if report.fate is Fate.EXPIRED:
                self.expired.append((self.now_ms, *key))
            if report.fate is Fate.REFUSED:
                self.refused.add(key)

    # --- the checks ---------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Return what is wrong with the history."""
        return [
            *self.faults,
            *self._lost(),
            *self._given_up_early(),
            *self._out_of_order(),
            *self._held_up(),
            *self._repeated_for_nothing(),
        ]

    def _lost(self) -> list[str]:
        brought = {(name, offset) for _, name, offset, _ in self.brought}
        expired = {(name, offset) for _, name, offset in self.expired}
        return [
            f"{entry.offset} is lost for {receiver.name}"
            for entry in self.log
            for receiver in self.receivers
            if (receiver.name, entry.offset) not in brought | expired | self.refused
        ]

    def _given_up_early(self) -> list[str]:
        limits = {entry.offset: entry.limit_ms for entry in self.log}
        return [
            f"{offset} is given up for {name} at {at_ms}, before {limits[offset]}"
            for at_ms, name, offset in self.expired
            if at_ms < limits[offset]
        ]

    def _out_of_order(self) -> list[str]:
        faults = []
        last: dict[tuple[int, str, str], int] = {}
        for life, name, team, offset in self.started:
            if offset < last.get((life, name, team), -1):
                faults.append(f"{offset} is tried for {team} at {name} after a later one")
            last[(life, name, team)] = offset
        teams = {entry.offset: entry.notice.team for entry in self.log}
        first: dict[tuple[str, str], int] = {}
        seen: set[tuple[str, int]] = set()
        for _, name, offset, _ in self.brought:
            if (name, offset) in seen:
                continue
            seen.add((name, offset))
            # What was refused, and is tried again after a crash, had its turn before.
            behind = offset < first.get((name, teams[offset]), -1)
            if behind and (name, offset) not in self.refused:
                faults.append(f"{offset} comes to {name} after a later one of its team")
            first[(name, teams[offset])] = offset
        return faults

    def _held_up(self) -> list[str]:
        """Where nothing crashes, who takes all at once gets all at once."""
        if len(self.lives) > 1 or self.expired_of(GOOD):
            return []
        arrived = {entry.offset: entry.arrived_ms for entry in self.log}
        return [
            f"{offset} came to {GOOD} at {at_ms} instead of {arrived[offset]}"
            for at_ms, name, offset, _ in self.brought
            if name == GOOD and at_ms > arrived[offset] + 1
        ]

    def expired_of(self, name: str) -> list[int]:
        """Return the offsets that a receiver did not get in time, but for those that were late."""
        late = {entry.offset for entry in self.log if entry.limit_ms < entry.arrived_ms}
        return [o for _, who, o in self.expired if who == name and o not in late]

    def _repeated_for_nothing(self) -> list[str]:
        """What a position says is over for a receiver is not brought to it again."""
        faults = []
        for life, name, _, offset in self.started:
            if not track_of(*self.lives[life - 1]).left_for(name, offset):
                faults.append(f"{offset} is brought to {name} again")
        return faults
