"""The services under test: their wiring, and what is outside of them all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.story import LOOK_BACK_MS
from walras_billing.settings import Settings as BillingSettings
from walras_billing.wiring import build as build_billing
from walras_contracts.topics import load_topics
from walras_invoicing.settings import Settings as InvoicingSettings
from walras_invoicing.wiring import build as build_invoicing
from walras_runtime.settings import ServiceSettings
from walras_runtime.stage import StageSpec

BOOTSTRAP: Final = "nowhere.invalid:9092"


@dataclass(frozen=True, slots=True)
class Role:
    """A service under test; its ``processes`` share its partitions, or one leads."""

    settings: type[ServiceSettings]
    build: Callable[[Any], StageSpec]
    processes: int
    watched: str
    """The smallest of its outputs with barriers: what says how far it has come."""
    values: Mapping[str, int] = field(default_factory=dict)
    """Settings that are others than usual."""

    @property
    def name(self) -> str:
        """Name of the service."""
        return self.settings.SERVICE

    def spec(self) -> StageSpec:
        """Return its wiring, with settings that name no real broker."""
        return self.build(self.settings.read(kafka_bootstrap=BOOTSTRAP, **self.values))

    def environment(self) -> dict[str, str]:
        """Return the variables that give its processes the same settings."""
        names = self.settings.variables()
        return {names[name][0]: str(value) for name, value in self.values.items()}

    def partitions(self, share: int) -> list[int]:
        """Return the partitions of a share: a leader has all of what it writes."""
        count = load_topics()[self.watched].partitions
        if not self.spec().spread:
            return list(range(count))
        return [p for p in range(count) if p % self.processes == share]


ROLES: Final = (
    Role(
        BillingSettings,
        build_billing,
        processes=2,
        watched="balances",
        values={"look_back_ms": LOOK_BACK_MS},
    ),
    Role(InvoicingSettings, build_invoicing, processes=1, watched="invoices"),
)
"""In the order in which records flow through them. Another service: one more line."""
BILLING_ALONE: Final = ROLES[:1]
AIMED_AT: Final = (0, 0, 0, 1)
"""Which of the roles a disturbance of a worker is aimed at, one of these by chance."""


def specs(roles: Sequence[Role] = ROLES) -> list[StageSpec]:
    """Return the wiring of services under test."""
    return [role.spec() for role in roles]


def aimed_at(roles: Sequence[Role], draw: int) -> Role:
    """Return the role that a disturbance is aimed at."""
    return roles[AIMED_AT[draw % len(AIMED_AT)] % len(roles)]


def outside_topics(stages: Sequence[StageSpec]) -> list[str]:
    """Return what the stages read and none of them writes."""
    written = {name for spec in stages for name in spec.outputs}
    read = dict.fromkeys(source.topic for spec in stages for source in spec.inputs)
    return [name for name in read if name not in written]


def written_topics(stages: Sequence[StageSpec]) -> list[str]:
    """Return what the stages write."""
    return list(dict.fromkeys(name for spec in stages for name in spec.outputs))
