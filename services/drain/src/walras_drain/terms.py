"""The terms of drains over time: what the platform's documents say, and from when on."""

from typing import Final

from walras_contracts.accounts import AccountsChanged, DrainTerms, PlatformDocument

DEFAULT: Final = DrainTerms()


class TermsOverTime:
    """The terms of each version of the platform document that counts or will count."""

    def __init__(self) -> None:
        self._versions: dict[int, tuple[int, DrainTerms]] = {}

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document; those of pools and markets do not matter here."""
        if isinstance(change.document, PlatformDocument):
            self._versions[change.version] = (change.effective_ms, change.document.drains)

    def in_force(self, market_time_ms: int) -> DrainTerms:
        """Return the terms at a market time: the newest version in effect, else the default."""
        counting = [
            version
            for version, (effective_ms, _) in self._versions.items()
            if effective_ms <= market_time_ms
        ]
        return self._versions[max(counting)][1] if counting else DEFAULT
