"""What teams earn by the accounts: W · income / C per hour, exactly, while a document counts."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

HOUR_MS: Final = 3_600_000
DEFAULT_BALANCE_HOURS: Final = 168


@dataclass(frozen=True, slots=True)
class Version:
    """A document: from when it counts, and by which step it was known."""

    effective_ms: int
    version: int
    step: int
    document: dict[str, Any]


class Accounts:
    """All versions of all documents of a log."""

    def __init__(self) -> None:
        self._held: dict[str, list[Version]] = defaultdict(list)
        self._since: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        """By kind and name, of teams and pools, the earliest time from which a document names it,
        by the step that told it."""

    def put(self, event: dict[str, Any], step: int) -> None:
        """Take a version; the last of a number counts."""
        document = event["document"]
        entity = document["kind"]
        if entity != "platform":
            entity = f"{entity}/{document[entity]}"
        held = self._held[entity]
        held[:] = [v for v in held if v.version != event["version"]]
        held.append(Version(event["effective_ms"], event["version"], step, document))
        held.sort(key=_by_effect)
        if document["kind"] == "pool":
            names = [("team", team["team"]) for team in document["teams"]]
            for name in (("pool", document["pool"]), *names):
                since = self._since[name]
                since[step] = min(since.get(step, event["effective_ms"]), event["effective_ms"])

    def pool_spans(
        self, start_ms: int, end_ms: int, step: int
    ) -> Iterator[tuple[dict[str, Any], Fraction]]:
        """Yield the pools' documents that count within a time, each with for how many hours."""
        for entity in sorted(self._held):
            if not entity.startswith("pool/"):
                continue
            known = [v for v in self._held[entity] if v.step <= step]
            for index, version in enumerate(known):
                after = known[index + 1].effective_ms if index + 1 < len(known) else end_ms
                span_ms = min(end_ms, after) - max(start_ms, version.effective_ms)
                if span_ms > 0:
                    yield version.document, Fraction(span_ms, HOUR_MS)

    def pools_at(self, at_ms: int, step: int) -> Iterator[dict[str, Any]]:
        """Yield the document of each pool that counts at an instant, by pool."""
        for entity in sorted(self._held):
            if entity.startswith("pool/"):
                document = self._at(entity, at_ms, step)
                if document is not None:
                    yield document

    def balance_hours(self, at_ms: int, step: int) -> int:
        """Return for how many hours of income a wallet has room."""
        document = self._at("platform", at_ms, step) or {}
        return int(document.get("max_balance_hours", DEFAULT_BALANCE_HOURS))

    def pool_versions(self) -> Iterator[Version]:
        """Yield all versions of the documents of all pools."""
        for entity, held in sorted(self._held.items()):
            if entity.startswith("pool/"):
                yield from held

    def versions_of(self, pool: str) -> list[tuple[int, dict[str, Any]]]:
        """Return the documents of a pool, each with from when it counts."""
        held = self._held.get(f"pool/{pool}", [])
        return [(version.effective_ms, version.document) for version in held]

    def names_team(self, team: str, at_ms: int, step: int) -> bool:
        """Whether a document known by a step counted at a time, or before it, and names a team."""
        return self._is_named("team", team, at_ms, step)

    def names_pool(self, pool: str, at_ms: int, step: int) -> bool:
        """Whether a document of a pool that is known by a step counted at a time, or before it."""
        return self._is_named("pool", pool, at_ms, step)

    def names_market(self, market: str, step: int) -> bool:
        """Whether a market had a document by a step."""
        return any(version.step <= step for version in self._held.get(f"market/{market}", ()))

    def _is_named(self, kind: str, name: str, at_ms: int, step: int) -> bool:
        since = self._since.get((kind, name), {})
        return any(known <= step and since_ms <= at_ms for known, since_ms in since.items())

    def _at(self, entity: str, at_ms: int, step: int) -> dict[str, Any] | None:
        known = [v for v in self._held[entity] if v.step <= step and v.effective_ms <= at_ms]
        return known[-1].document if known else None


def shares(document: dict[str, Any], hours: Fraction) -> Iterator[tuple[str, Fraction]]:
    """Yield what each team of a pool earns in a time; nothing where no team has an income."""
    total = sum(team["income_local_per_hour"] for team in document["teams"])
    for team in document["teams"]:
        local = team["income_local_per_hour"]
        earned = Fraction(document["weight_micro_per_hour"] * local, total or 1)
        yield team["team"], earned * hours


def _by_effect(version: Version) -> tuple[int, int]:
    return version.effective_ms, version.version
