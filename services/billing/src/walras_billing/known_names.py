"""Which teams and markets billing has ever heard of: use of others is a mistake, or worse."""

from walras_contracts.accounts import AccountsChanged, MarketDocument, PoolDocument


class KnownNames:
    """Teams, from when a document first names them, and markets with a document.

    A team that left its pool stays known: what it still runs is charged, and while it moves it may
    be in no pool for a while.
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}
        self._markets: set[str] = set()

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document; again, or in another order, is the same."""
        document = change.document
        if isinstance(document, MarketDocument):
            self._markets.add(document.market)
        elif isinstance(document, PoolDocument):
            for account in document.teams:
                since_ms = self._since_ms.get(account.team, change.effective_ms)
                self._since_ms[account.team] = min(since_ms, change.effective_ms)

    def has_team(self, team: str, at_ms: int) -> bool:
        """Whether a pool's document that counted at a time or before it names a team."""
        since_ms = self._since_ms.get(team)
        return since_ms is not None and since_ms <= at_ms

    def has_market(self, market: str) -> bool:
        """Whether a market has a document, in effect or not."""
        return market in self._markets
