"""After how long a silent node is lost: what the platform's documents say, and from when on."""

from walras_contracts.accounts import AccountsChanged, PlatformDocument

DEFAULT_MS = PlatformDocument().drains.lease_timeout_ms


class LeaseTimeouts:
    """The timeout of each version of the platform document that counts or will count."""

    def __init__(self) -> None:
        self._versions: dict[int, tuple[int, int]] = {}

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document; those of pools and markets do not matter here."""
        if isinstance(change.document, PlatformDocument):
            timeout_ms = change.document.drains.lease_timeout_ms
            self._versions[change.version] = (change.effective_ms, timeout_ms)

    def in_force_ms(self, market_time_ms: int) -> int:
        """Return the timeout at a market time: of the newest version in effect, or the default."""
        counting = [
            version
            for version, (effective_ms, _) in self._versions.items()
            if effective_ms <= market_time_ms
        ]
        return self._versions[max(counting)][1] if counting else DEFAULT_MS
