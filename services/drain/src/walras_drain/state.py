"""What drain knows: the tables of others, and its own sessions, histories and causes."""

import json
from collections.abc import Callable, Mapping
from typing import Final

from walras_contracts.drains import VacateRequested
from walras_drain.clock import CLOCK_KEY, BarrierClock
from walras_drain.disruptions import PREFIX as BEGUN
from walras_drain.disruptions import Disruptions
from walras_drain.histories import PREFIX as SCORE
from walras_drain.histories import Histories
from walras_drain.lease_table import Holding, LeaseTable
from walras_drain.low_use import PREFIX as LOW
from walras_drain.low_use import LowUse
from walras_drain.maintenance import PREFIX as NODE
from walras_drain.maintenance import Emptying
from walras_drain.occupancy import NodeTable
from walras_drain.orders import PREFIX as ORDER
from walras_drain.orders import Order
from walras_drain.pressure import ADVISED, PRESSED, Advice
from walras_drain.requests import PREFIX as REQUEST
from walras_drain.requests import Request
from walras_drain.scores import History
from walras_drain.session_records import parse
from walras_drain.session_store import SessionStore
from walras_drain.terms import TermsOverTime
from walras_runtime.errors import InvariantBrokenError

SESSION: Final = "session/"
VACATE: Final = "vacate/"
STUCK: Final = "stuck/"


class DrainServiceState:
    """Tables of accounts, nodes and leases; own records by kind.

    Tables are folded again on a restart, before the own records come back: what was folded by then
    is no change of the next step.
    """

    def __init__(self, interval_ms: int) -> None:
        self.clock = BarrierClock(interval_ms)
        self.terms = TermsOverTime()
        self.nodes = NodeTable()
        self.leases = LeaseTable()
        self.sessions = SessionStore()
        self.disruptions = Disruptions()
        self.histories = Histories()
        self.unmatched: dict[str, VacateRequested] = {}
        """Requests of placement, by lease, whose lease has not been read yet."""
        self.requests: dict[str, Request] = {}
        """By lease."""
        self.orders: dict[str, Order] = {}
        """By lease."""
        self.low_use = LowUse()
        self.pressed: dict[str, int] = {}
        """Since when markets are pressed."""
        self.advised: dict[str, Advice] = {}
        """The last advisory by lease."""
        self.emptying: dict[str, Emptying] = {}
        """By node."""
        self.stuck: dict[tuple[str, str], None] = {}
        """Parts, by lease and node, that ended without their devices being seen free."""

    def load(self, key: str, value: bytes) -> None:
        """Take back one own record.

        Raises
        ------
        InvariantBrokenError
            It is none of drain's.
        """
        if key == CLOCK_KEY:
            self.clock.load(value)
            self.nodes.forget_changes()
            self.leases.forget_changes()
            return
        kind, _, name = key.partition("/")
        take = self._takers().get(f"{kind}/")
        if take is None:
            raise InvariantBrokenError(f"state of drain has an unknown key {key!r}")
        take(name, value)

    def is_broken(self, lease: Holding) -> bool:
        """Whether a lease does not work any more: a part is stuck, or its node is lost."""
        return any(
            self.nodes.is_lost(node) or (lease.lease, node) in self.stuck
            for node in lease.sizes_macc
        )

    def _takers(self) -> Mapping[str, Callable[[str, bytes], None]]:
        return {
            SESSION: lambda name, value: self.sessions.put(parse(name, value)),
            BEGUN: self.disruptions.load,
            SCORE: lambda name, value: self.histories.put(name, History.parse(value)),
            VACATE: self._take_unmatched,
            REQUEST: lambda name, value: self.requests.update({name: Request.parse(value)}),
            ORDER: lambda name, value: self.orders.update({name: Order.parse(value)}),
            LOW: self.low_use.load,
            PRESSED: lambda name, value: self.pressed.update({name: json.loads(value)}),
            ADVISED: lambda name, value: self.advised.update({name: Advice.parse(value)}),
            NODE: lambda name, value: self.emptying.update({name: Emptying.parse(value)}),
            STUCK: self._take_stuck,
        }

    def _take_unmatched(self, lease: str, value: bytes) -> None:
        self.unmatched[lease] = VacateRequested.model_validate_json(value)

    def _take_stuck(self, name: str, value: bytes) -> None:
        del value
        lease, _, node = name.partition("/")
        self.stuck[lease, node] = None
