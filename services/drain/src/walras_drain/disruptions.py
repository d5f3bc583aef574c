"""The drains that were begun, by team, as far as they can still hold another up."""

import json
from collections.abc import Iterable
from typing import Final

from walras_drain.clock import NEVER_MS
from walras_drain.guardrail import Begun

PREFIX: Final = "begun/"


class Disruptions:
    """Begun drains by team and session."""

    def __init__(self) -> None:
        self._teams: dict[str, dict[str, Begun]] = {}
        self._oldest_ms = NEVER_MS

    def of_team(self, team: str) -> Iterable[Begun]:
        """Return the begun drains of a team."""
        return self._teams.get(team, {}).values()

    def add(self, team: str, begun: Begun) -> tuple[str, bytes]:
        """Add a drain; return the record of the own state that keeps it."""
        self._teams.setdefault(team, {})[begun.session] = begun
        self._oldest_ms = min(self._oldest_ms, begun.at_ms)
        fields = [begun.at_ms, begun.size_macc, begun.job]
        value = json.dumps(fields, separators=(",", ":")).encode()
        return _key(team, begun), value

    def load(self, name: str, value: bytes) -> None:
        """Take back a record of the own state, by its key without the prefix."""
        team, _, session = name.partition("/")
        at_ms, size_macc, job = json.loads(value)
        self.add(team, Begun(at_ms, size_macc, job, session))

    def expire(self, before_ms: int) -> list[str]:
        """Forget what was begun at or before an instant; return the keys of their records."""
        if self._oldest_ms > before_ms:
            return []
        found: list[str] = []
        oldest_ms = NEVER_MS
        for team, drains in list(self._teams.items()):
            for begun in list(drains.values()):
                if begun.at_ms <= before_ms:
                    del drains[begun.session]
                    found.append(_key(team, begun))
                else:
                    oldest_ms = min(oldest_ms, begun.at_ms)
            if not drains:
                del self._teams[team]
        self._oldest_ms = oldest_ms
        return sorted(found)


def _key(team: str, begun: Begun) -> str:
    return f"{PREFIX}{team}/{begun.session}"
