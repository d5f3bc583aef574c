"""What the accounts' documents say of placement, and from when on."""

from walras_contracts.accounts import (
    AccountsChanged,
    Document,
    MarketDocument,
    PlatformDocument,
    PoolDocument,
    QueueOrder,
    Rounding,
)

NEVER_MS = 2**63
DEFAULT_GAP_PPM = PlatformDocument().retention_gap_ppm


class Policies:
    """The policies in force; of each document the newest version in effect counts."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, tuple[int, Document]]] = {}
        self._next_ms = 0
        self.gap_ppm = DEFAULT_GAP_PPM
        """By how much a retained limit counts as raised, as in the auction."""
        self.roundings: dict[str, Rounding] = {}
        """Of the markets that do not have the default."""
        self.by_deadline: dict[str, None] = {}
        """Teams whose queue goes by deadline."""

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document."""
        entity = change.document.entity()
        versions = self._versions.setdefault(entity, {})
        versions[change.version] = (change.effective_ms, change.document)
        self._next_ms = 0

    def begin(self, market_time_ms: int) -> bool:
        """Begin a step; tell whether anything is in force that was not before."""
        if market_time_ms < self._next_ms:
            return False
        before = (self.gap_ppm, self.roundings, self.by_deadline)
        self._next_ms = min(
            (
                effective_ms
                for versions in self._versions.values()
                for effective_ms, _ in versions.values()
                if effective_ms > market_time_ms
            ),
            default=NEVER_MS,
        )
        self.gap_ppm, self.roundings, self.by_deadline = DEFAULT_GAP_PPM, {}, {}
        for entity in sorted(self._versions):
            versions = self._versions[entity]
            counting = [v for v, (at_ms, _) in versions.items() if at_ms <= market_time_ms]
            if counting:
                self._apply(versions[max(counting)][1])
        return before != (self.gap_ppm, self.roundings, self.by_deadline)

    def keeps_devices(self, market: str) -> bool:
        """Whether quota and devices of a market are kept for jobs that wait long."""
        return self.rounding(market) is Rounding.RESERVE

    def rounding(self, market: str) -> Rounding:
        """Return how quota of a market is spent on whole jobs."""
        return self.roundings.get(market, Rounding.BACKFILL)

    def _apply(self, document: Document) -> None:
        match document:
            case PlatformDocument():
                self.gap_ppm = document.retention_gap_ppm
            case MarketDocument():
                if document.rounding is not Rounding.BACKFILL:
                    self.roundings[document.market] = document.rounding
            case PoolDocument():
                for account in document.teams:
                    if account.queue_order is QueueOrder.DEADLINE:
                        self.by_deadline[account.team] = None
