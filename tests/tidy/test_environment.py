"""Every environment variable is documented in `docs/settings.md`, and nothing else is."""

import re

from tests.tidy.tree import Tree, expect_none, is_test, repository
from walras_billing.settings import Settings as BillingSettings
from walras_capacity.settings import Settings as CapacitySettings
from walras_clearing_service.settings import Settings as ClearingSettings
from walras_drain.settings import Settings as DrainSettings
from walras_intake.settings import Settings as IntakeSettings
from walras_invoicing.settings import Settings as InvoicingSettings
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.settings import Settings as NodeAgentSettings
from walras_notifier.settings import Settings as NotifierSettings
from walras_placement.settings import Settings as PlacementSettings
from walras_runtime.settings import ServiceSettings
from walras_snapshot.settings import Settings as SnapshotSettings
from walras_ticker.settings import Settings as TickerSettings
from walras_views.settings import Settings as ViewsSettings

PAGE = "docs/settings.md"
SERVICES: tuple[type[ServiceSettings], ...] = (
    *(TickerSettings, IntakeSettings, CapacitySettings, ClearingSettings, PlacementSettings),
    *(
        DrainSettings,
        NodeAgentSettings,
        AgentSettings,
        NotifierSettings,
        BillingSettings,
        InvoicingSettings,
        SnapshotSettings,
        ViewsSettings,
    ),
)
VARIABLE = re.compile(r"\bWALRAS_[A-Z][A-Z0-9_]*[A-Z0-9]\b")
NOT_VARIABLES = {"WALRAS_BUILD_STAMP": "a C macro of the kernel"}
READERS = re.compile(r".*\.(py|yml|Dockerfile|pyx)$|Makefile$|\.ci/run$|libs/.*pyproject\.toml$")


def of_services() -> set[str]:
    """The variables by which services are set: their own, and the shared ones by short name."""
    shared = set(ServiceSettings.model_fields)
    return {
        names[-1] if field in shared else names[0]
        for settings in SERVICES
        for field, names in settings.variables().items()
    }


def of_sources(tree: Tree) -> set[str]:
    """The variables that code, scripts and compose files name, tests of a thing aside."""
    return {
        name
        for path, text in tree.items()
        if READERS.match(path) and not is_test(path)
        for name in VARIABLE.findall(text)
    } - NOT_VARIABLES.keys()


def undocumented(page: str, known: set[str]) -> list[str]:
    """What only one of the two knows. `WALRAS_<SERVICE>_…` overrides need no line of their own."""
    documented = set(VARIABLE.findall(page))
    shared = {names[-1] for names in ServiceSettings.variables().values()}
    overrides = {
        names[0]
        for settings in SERVICES
        for names in settings.variables().values()
        if names[-1] in shared
    }
    return [f"{name}: not in {PAGE}" for name in sorted(known - documented - overrides)] + [
        f"{name}: in {PAGE}, but nothing reads it" for name in sorted(documented - known)
    ]


def test_every_environment_variable_is_documented() -> None:
    tree = repository()
    expect_none(undocumented(tree.get(PAGE, ""), of_services() | of_sources(tree)))


def test_defaults_of_settings_are_documented_as_they_are() -> None:
    row = re.compile(r"^\| `(WALRAS_\w+)` \| `?([^`|]+?)`? \|", re.MULTILINE)
    rows = dict(row.findall(repository()[PAGE]))
    faults = []
    for settings in SERVICES:
        shared = set(ServiceSettings.model_fields)
        for field, names in settings.variables().items():
            name = names[-1] if field in shared else names[0]
            info = settings.model_fields[field]
            default = "required" if info.is_required() else str(info.default)
            if rows.get(name) != default:
                faults.append(f"{name}: default is {default}, {PAGE} says {rows.get(name)}")
    expect_none(sorted(set(faults)))


def test_the_check_sees_what_is_not_documented() -> None:
    tree = {"services/x/src/walras_x/wiring.py": 'os.environ["WALRAS_SECRET_SWITCH"]'}
    known = of_sources(tree)
    assert undocumented("`WALRAS_GONE`", known) == [
        f"WALRAS_SECRET_SWITCH: not in {PAGE}",
        f"WALRAS_GONE: in {PAGE}, but nothing reads it",
    ]
