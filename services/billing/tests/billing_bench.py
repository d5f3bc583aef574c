"""All partitions of billing on a log in memory, and what the outside writes to it."""

import json
from typing import Any, TypeVar

from walras_billing.handlers import BillingStage
from walras_billing.settings import Settings
from walras_billing.wiring import build
from walras_contracts.accounts import (
    AccountsChanged,
    Document,
    MarketDocument,
    PoolDocument,
    PriceGapPolicy,
    TeamAccount,
)
from walras_contracts.charges import ChargeCredited, ChargeRated, UsageGapReported, UsageQuarantined
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.market import PoolPrice, PriceGapPublished, PricePublished
from walras_contracts.money import BalancePublished, BudgetPublished
from walras_contracts.quantities import PPM
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import DrainState, DrainStatusChanged, UsageMetered, WorkClass
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import Barrier, Output, emit

E = TypeVar("E", bound=Event)

START_MS = 1_728_000_000
MINUTE_MS = 60_000
INPUTS = ("usage", "drain.status", "prices", "accounts")
TEAMS = ("t1", "t2", "t3")


class Bench:
    """All partitions of billing on a log.

    Market ``a`` has a document from the start, and so has pool ``p`` with three teams where the
    first step gives no other; unless ``strangers``: then nobody is known.
    """

    def __init__(self, *, crash: bool = False, strangers: bool = False, **settings: Any) -> None:
        self._strangers = strangers
        self.log = MemoryLog(load_topics())
        self._spec = build(Settings(kafka_bootstrap="none", **settings))
        self._partitions = self.log.partitions("usage")
        self._crash = crash
        self._runners = [MemoryRunner(self._spec, self.log, p) for p in self._partitions]
        self._number = -1
        self.die_before_commit = False
        """Whether each partition decides the next step once in vain, and dies."""
        self.deaths = 0

    def step(self, minute: int, *given: Output) -> None:
        """Write what the outside writes, then a barrier at a minute; let every partition step."""
        self._number += 1
        if self._number == 0 and not self._strangers:
            self.log.append([emit(_changed(MarketDocument(market="a")))])
            if not any(output.key == "pool/p" for output in given):
                self.log.append([pool(dict.fromkeys(TEAMS, 1))])
        self.log.append(given)
        barrier = Barrier(self._number, START_MS + minute * MINUTE_MS)
        for topic in INPUTS:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, barrier)
        if self._crash:
            self._runners = [MemoryRunner(self._spec, self.log, p) for p in self._partitions]
        if self.die_before_commit:
            self._die_before_commit()
        for runner in self._runners:
            assert runner.advance() == 1

    def _die_before_commit(self) -> None:
        """Let processes on a copy of the log write all their lines; nobody sees the copy again.

        That is what an aborted transaction leaves: lines that no reader of committed ones reads.
        """
        copy = MemoryLog(
            self.log.topics, {where: [*held] for where, held in self.log.entries.items()}
        )
        for partition in self._partitions:
            assert MemoryRunner(self._spec, copy, partition).advance() == 1
        self._runners = [MemoryRunner(self._spec, self.log, p) for p in self._partitions]
        self.deaths += 1
        self.die_before_commit = False

    def catch_up(self) -> None:
        """Let every partition do all steps that are ready."""
        for runner in self._runners:
            assert runner.advance() > 0

    def restart(self, **settings: Any) -> None:
        """Go on with other settings, and nothing in memory."""
        self._spec = build(Settings(kafka_bootstrap="none", **settings))
        self._runners = [MemoryRunner(self._spec, self.log, p) for p in self._partitions]

    def compact(self) -> None:
        """Compact what is compacted, and lose what is in memory."""
        for topic in self.log.topics.values():
            if topic.cleanup == "compact":
                self.log.compact(topic.name)
        self._runners = [MemoryRunner(self._spec, self.log, p) for p in self._partitions]

    def events(self, topic: str, kind: type[E]) -> list[E]:
        """Return the events of a kind on a topic, partition by partition."""
        found = []
        for partition in self.log.partitions(topic):
            for entry in self.log.read(topic, partition, 0):
                if entry.payload is None or entry.barrier is not None or entry.type != kind.TYPE:
                    continue
                event = decode_inner(entry.type, entry.payload)
                assert isinstance(event, kind)
                if not isinstance(event, UsageQuarantined):
                    team = event.partition_key()
                    assert partition == partition_of(team, len(self._partitions))
                found.append(event)
        return found

    def charges(self) -> list[ChargeRated]:
        """Return all charge lines."""
        return self.events("charges", ChargeRated)

    def credits(self) -> list[ChargeCredited]:
        """Return all credits."""
        return self.events("charges", ChargeCredited)

    def quarantined(self) -> list[UsageQuarantined]:
        """Return all usage that is not charged."""
        return self.events("usage.quarantined", UsageQuarantined)

    def gaps(self) -> list[UsageGapReported]:
        """Return what became of the gaps."""
        return self.events("usage.quarantined", UsageGapReported)

    def settled_use(self) -> list[UsageSettled]:
        """Return how long jobs held devices, as it was published."""
        return self.events("usage.settled", UsageSettled)

    def spent_numerator(self) -> int:
        """Return what all wallets together were charged, as the state topic has it."""
        state = state_digest_input(self.log, "billing")
        wallets = [json.loads(v) for k, v in state.items() if k.split("/")[1] == "wallet"]
        return sum(account[2] for wallet in wallets for account in wallet[1].values())

    def stages(self) -> list[BillingStage]:
        """Return the stages, for tests that break them."""
        return [r.stage for r in self._runners if isinstance(r.stage, BillingStage)]

    def pending(self) -> dict[str, bytes]:
        """What waits for a price, as a reader of the compacted topic sees it."""
        latest = {
            entry.key: entry.payload
            for partition in self.log.partitions("charges.pending")
            for entry in self.log.read("charges.pending", partition, 0)
            if entry.barrier is None
        }
        return {key: payload for key, payload in latest.items() if payload is not None}

    def balances(self) -> dict[str, BalancePublished]:
        """Return the last balance of every team."""
        return {event.team: event for event in self.events("balances", BalancePublished)}

    def budgets(self) -> dict[str, BudgetPublished]:
        """Return the last budget of every team."""
        return {event.team: event for event in self.events("budgets", BudgetPublished)}


def pool(
    incomes: dict[str, int],
    *,
    weight: int = 1_200_000,
    version: int = 1,
    minute: int = 0,
    name: str = "p",
) -> Output:
    teams = tuple(TeamAccount(team=t, income_local_per_hour=i) for t, i in incomes.items())
    document = PoolDocument(pool=name, weight_micro_per_hour=weight, teams=teams)
    return emit(_changed(document, version=version, minute=minute))


def _changed(document: Document, *, version: int = 1, minute: int = 0) -> AccountsChanged:
    effective_ms = START_MS + minute * MINUTE_MS
    return AccountsChanged(version=version, effective_ms=effective_ms, document=document)


def price_gap(
    start_minute: int, end_minute: int, policy: PriceGapPolicy = PriceGapPolicy.UNBILLED
) -> Output:
    """Return that the market had no prices over [start, end)."""
    return emit(
        PriceGapPublished(
            market="a",
            cycle=0,
            start_ms=START_MS + start_minute * MINUTE_MS,
            end_ms=START_MS + end_minute * MINUTE_MS,
            policy=policy,
        )
    )


def drain(
    warned_minute: int,
    minute: int,
    state: DrainState = DrainState.FAILED,
    *,
    lease: str = "l1",
    team: str = "t1",
    session: str = "s1",
    node: str = "n",
) -> Output:
    """Return how far the drain of a lease had come at a minute."""
    return emit(
        DrainStatusChanged(
            session=session,
            lease=lease,
            node=node,
            team=team,
            pool="p",
            job="j",
            state=state,
            outcome="agent_lost" if state is DrainState.FAILED else "",
            warned_ms=START_MS + warned_minute * MINUTE_MS,
            at_ms=START_MS + minute * MINUTE_MS,
        )
    )


def price(minute: int, micro: int | None) -> Output:
    pools = (
        PoolPrice(pool="p", price_micro=micro, weight_micro_per_hour=1, local_income_per_hour=1),
    )
    return emit(
        PricePublished(
            market="a",
            cycle=0,
            market_time_ms=START_MS + minute * MINUTE_MS,
            reference_price_micro=micro,
            pools=pools,
        )
    )


def usage(
    start_minute: int,
    *,
    seq: int = 0,
    team: str = "t1",
    lease: str = "l1",
    macc: int = 60_000,
    work_class: WorkClass = WorkClass.MARKET,
    minutes: int = 1,
    limit: int | None = None,
    attempt: int = 1,
    node: str = "n",
    market: str = "a",
    billable: bool = True,
    **more: Any,
) -> Output:
    """Return one minute of use; with 60 accelerators it costs the price.

    ``more`` are other fields by their names.
    """
    event = UsageMetered(
        lease=lease,
        node=node,
        attempt=attempt,
        seq=seq,
        team=team,
        pool="p",
        job="j",
        market=market,
        quantity_macc=macc,
        start_ms=START_MS + start_minute * MINUTE_MS,
        end_ms=START_MS + (start_minute + minutes) * MINUTE_MS,
        work_class=work_class,
        billable=billable,
        limit_micro=limit,
        tariff_ppm=PPM,
    )
    return emit(event.model_copy(update=more))
