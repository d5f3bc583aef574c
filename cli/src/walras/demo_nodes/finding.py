"""What a check found: figures for the report, and what is wrong."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Finding:
    """One fact. It holds where nothing is wrong."""

    name: str
    statement: str
    """What is to hold, for people."""
    figures: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def expect(self, holds: bool, fault: str) -> bool:
        """Note a fault where something does not hold; return whether it does."""
        if not holds:
            self.faults.append(fault)
        return holds

    def document(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {
            "statement": self.statement,
            "holds": self.holds,
            "faults": self.faults,
            **self.figures,
        }
