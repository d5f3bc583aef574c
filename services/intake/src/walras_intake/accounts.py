"""The account documents, by version, and which pool a team belongs to.

A document counts from its ``effective_ms`` until the next version's. The table is built from the
``accounts`` topic in any interleaving of entities: what it says depends on the documents only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.accounts import AccountsChanged, PoolDocument
from walras_runtime.errors import InvariantBrokenError

FOREVER_MS: Final = 2**63


@dataclass(slots=True)
class AccountsTable:
    """Latest and coming documents of every entity.

    ``_versions`` holds, per entity, the version in force and all later ones, ascending.
    ``_claims`` says, per team and pool, until when (market time, exclusive) the pool's documents
    name the team; :data:`FOREVER_MS` where the latest one does.
    """

    _versions: dict[str, list[AccountsChanged]] = field(default_factory=dict)
    _claims: dict[str, dict[str, int]] = field(default_factory=dict)
    _pool_of: dict[str, str] = field(default_factory=dict)
    _stale: bool = True
    _next_effective_ms: int = FOREVER_MS

    def put(self, changed: AccountsChanged) -> None:
        """Take a version of a document; one that is there already changes nothing.

        Raises
        ------
        InvariantBrokenError
            A version is missing, or differs from the one that this stage decided itself.
        """
        entity = changed.document.entity()
        versions = self._versions.setdefault(entity, [])
        if versions and changed.version <= versions[-1].version:
            known = [held for held in versions if held.version == changed.version]
            if known and known[0] != changed:
                raise InvariantBrokenError(f"{entity}: two documents are version {changed.version}")
            return
        if versions and changed.version != versions[-1].version + 1:
            raise InvariantBrokenError(
                f"{entity}: version {changed.version} follows {versions[-1].version}"
            )
        if isinstance(changed.document, PoolDocument):
            self._claim(versions[-1] if versions else None, changed, changed.document)
        versions.append(changed)
        self._stale = True

    def latest(self, entity: str) -> AccountsChanged | None:
        """Return the last version of a document, in force or not yet; None before the first."""
        versions = self._versions.get(entity)
        return versions[-1] if versions else None

    def advance(self, market_time_ms: int) -> bool:
        """Let documents take effect; return whether the pools of teams may have changed."""
        if not self._stale and market_time_ms < self._next_effective_ms:
            return False
        self._next_effective_ms = FOREVER_MS
        for versions in self._versions.values():
            in_force = sum(1 for held in versions if held.effective_ms <= market_time_ms)
            if in_force < len(versions):
                self._next_effective_ms = min(
                    self._next_effective_ms, versions[in_force].effective_ms
                )
            del versions[: max(0, in_force - 1)]
        self._pool_of = dict(self._memberships(market_time_ms))
        self._stale = False
        return True

    def pool_of(self, team: str) -> str | None:
        """Return the pool of a team as of the last :meth:`advance`; None: no pool names it.

        The document in force decides; a team that is only in a coming one counts as its member
        already, so that its demand is taken.
        """
        return self._pool_of.get(team)

    def other_pool(self, team: str, pool: str, effective_ms: int) -> str | None:
        """Return a pool other than ``pool`` that names the team at or after ``effective_ms``."""
        claims: Mapping[str, int] = self._claims.get(team, {})
        others = [name for name, until in claims.items() if name != pool and until > effective_ms]
        return min(others, default=None)

    def _memberships(self, market_time_ms: int) -> Iterator[tuple[str, str]]:
        """Team and pool; of several pairs of one team the last one counts."""
        pools = [
            (versions, versions[-1].document)
            for _, versions in sorted(self._versions.items(), reverse=True)
            if versions
        ]
        for _, latest in pools:
            if isinstance(latest, PoolDocument):
                yield from ((account.team, latest.pool) for account in latest.teams)
        for versions, _ in pools:
            first = versions[0].document
            if isinstance(first, PoolDocument) and versions[0].effective_ms <= market_time_ms:
                yield from ((account.team, first.pool) for account in first.teams)

    def _claim(
        self, before: AccountsChanged | None, changed: AccountsChanged, document: PoolDocument
    ) -> None:
        if before is not None and isinstance(before.document, PoolDocument):
            for account in before.document.teams:
                self._claims[account.team][document.pool] = changed.effective_ms
        for account in document.teams:
            self._claims.setdefault(account.team, {})[document.pool] = FOREVER_MS
