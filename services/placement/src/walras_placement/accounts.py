"""The retention gap over time: what the platform's documents say, and from when on."""

from walras_contracts.accounts import AccountsChanged, PlatformDocument

DEFAULT_GAP_PPM = PlatformDocument().retention_gap_ppm


class RetentionGaps:
    """The gap of each version of the platform document that counts or will count."""

    def __init__(self) -> None:
        self._versions: dict[int, tuple[int, int]] = {}

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document; those of pools and markets do not matter here."""
        if isinstance(change.document, PlatformDocument):
            gap_ppm = change.document.retention_gap_ppm
            self._versions[change.version] = (change.effective_ms, gap_ppm)

    def in_force_ppm(self, market_time_ms: int) -> int:
        """Return by how much a retained limit counts as raised at a market time.

        The newest version in effect counts, as in the auction; before the first one, the default.
        """
        counting = [
            version
            for version, (effective_ms, _) in self._versions.items()
            if effective_ms <= market_time_ms
        ]
        return self._versions[max(counting)][1] if counting else DEFAULT_GAP_PPM
