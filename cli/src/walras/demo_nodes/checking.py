"""All facts of a run."""

from typing import Any

from walras.demo_nodes.billing_facts import billing_fact
from walras.demo_nodes.device_facts import device_fact
from walras.demo_nodes.drain_facts import drain_fact
from walras.demo_nodes.evidence import Evidence
from walras.demo_nodes.finding import Finding
from walras.demo_nodes.market_facts import elsewhere_fact, price_fact
from walras.demo_nodes.step_facts import step_fact, training_fact

FACTS = (
    price_fact,
    drain_fact,
    device_fact,
    elsewhere_fact,
    step_fact,
    training_fact,
    billing_fact,
)


def check(evidence: Evidence) -> list[Finding]:
    """Check every fact."""
    return [fact(evidence) for fact in FACTS]


def facts_document(findings: list[Finding], run: dict[str, Any]) -> dict[str, Any]:
    """Return the facts for ``--json``."""
    return {
        "holds": all(found.holds for found in findings),
        "facts": {found.name: found.document() for found in findings},
        "run": run,
    }
